//! What was printed is what is read, paged and followed.

use orchestra_runner::{
    logs::{Bounds, Follower, Line, Lines, Query, Source, Stream, raw_content, read},
    supervise::LogBounds,
};
use orchestra_secret::{MASK, Masker};
use tokio::time::timeout;

use super::rig::{PATIENCE, Rig, all_bytes, run, start, wait};

fn texts(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

fn source() -> Source {
    Source {
        attempt: 1,
        phase: "work".to_owned(),
        run: 1,
    }
}

#[tokio::test]
async fn bytes_are_kept_exactly_and_lines_can_be_read() {
    let rig = Rig::new();
    let order = rig.shell(r"printf 'a\377\0b\033[1mc\n'; printf 'x\r\n' >&2; printf 'no end'");
    assert!(run(&order).await.is_success());
    let raw = raw_content(&rig.attempt(), "work.1", Bounds::RAW, 1 << 20).unwrap();
    assert_eq!(raw.total, 19);
    assert!(raw.head.starts_with(b"a\xff\0b\x1b[1mc\n") || raw.head.starts_with(b"x\r\n"));
    let page = read(&rig.attempt(), &Query::default()).unwrap();
    let mut said: Vec<_> = page
        .lines
        .iter()
        .map(|line| (line.stream, line.text.as_str()))
        .collect();
    said.sort_by_key(|(_, text)| *text);
    assert_eq!(
        said,
        [
            (Stream::Out, "a\\xff\0b\u{1b}[1mc"),
            (Stream::Out, "no end"),
            (Stream::Err, "x")
        ]
    );
    let line = &page.lines[0];
    assert_eq!(
        (line.seq, line.attempt, line.phase.as_str(), line.run),
        (1, 1, "work", 1)
    );
}

#[tokio::test]
async fn secrets_are_on_no_file() {
    let rig = Rig::new();
    let mut order = rig.shell(
        "for i in 1 2 3; do printf 'a-hunt'; sleep 0.05; printf 'er2-b '; done; echo; echo $S >&2",
    );
    order.environment.insert("S".into(), "hunter2".into());
    order.secrets = vec!["hunter2".to_owned()];
    assert!(run(&order).await.is_success());
    let all = all_bytes(rig.home());
    assert!(memchr::memmem::find(&all, b"hunter2").is_none());
    let said = rig.texts();
    assert!(
        said.contains(&format!("a-{MASK}-b a-{MASK}-b a-{MASK}-b ")),
        "{said:?}"
    );
    assert!(said.contains(&MASK.to_owned()));
}

#[tokio::test]
async fn pages_the_tail_and_a_search_are_what_was_written() {
    let rig = Rig::new();
    assert!(
        run(&rig.shell("seq 1 1000; echo LAST >&2"))
            .await
            .is_success()
    );
    let attempt = rig.attempt();
    let mut all = Vec::new();
    let mut query = Query {
        limit: Some(7),
        ..Query::default()
    };
    loop {
        let page = read(&attempt, &query).unwrap();
        assert_eq!(page.omitted, 0);
        all.extend(page.lines);
        query.after = Some(page.next);
        if !page.more {
            break;
        }
    }
    let numbers: Vec<u64> = all.iter().map(|line| line.seq).collect();
    assert_eq!(numbers, (1..=1001).collect::<Vec<u64>>());
    let out = all.iter().filter(|line| line.stream == Stream::Out);
    let expected: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
    assert_eq!(
        out.map(|line| line.text.clone()).collect::<Vec<_>>(),
        expected
    );
    let tail = Query {
        tail: true,
        limit: Some(3),
        stream: Some(Stream::Out),
        ..Query::default()
    };
    assert_eq!(
        texts(&read(&attempt, &tail).unwrap().lines),
        ["998", "999", "1000"]
    );
    let search = Query {
        contains: Some("last".to_owned()),
        ..Query::default()
    };
    assert_eq!(texts(&read(&attempt, &search).unwrap().lines), ["LAST"]);
    let other = Query {
        phase: Some("postchecks".to_owned()),
        ..Query::default()
    };
    assert!(read(&attempt, &other).unwrap().lines.is_empty());
}

#[tokio::test]
async fn who_follows_sees_every_line_as_it_comes() {
    let rig = Rig::new();
    // Before there is anything.
    let mut follower = Follower::new(&rig.attempt(), Query::default());
    let order = rig.shell(
        "i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); [ $((i % 20)) = 0 ] && sleep 0.1; done; until [ -e go ]; do sleep 0.02; done; echo end",
    );
    let going = start(&order).await;
    let mut seen = Vec::new();
    while seen.len() < 60 {
        let page = timeout(PATIENCE, follower.next()).await.unwrap().unwrap();
        seen.extend(page.lines);
    }
    let expected: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    assert_eq!(texts(&seen), expected);
    // It is told while the job goes on, and waits for the rest.
    let next = tokio::spawn(async move { (follower.next().await.unwrap(), follower) });
    std::fs::write(rig.home().join("go"), "").unwrap();
    let (page, _) = timeout(PATIENCE, next).await.unwrap().unwrap();
    assert_eq!(texts(&page.lines), ["end"]);
    assert!(wait(&going).await.is_success());
}

#[tokio::test]
async fn two_who_write_share_one_order_of_lines() {
    let rig = Rig::new();
    let mut order = rig.shell("i=0; while [ $i -lt 400 ]; do echo said $i; i=$((i+1)); done");
    let bounds = Bounds {
        head: 8 * 1024,
        tail: 1024 * 1024,
    };
    order.logs = LogBounds {
        raw: Bounds::RAW,
        lines: bounds,
    };
    let mut ours = Lines::new(&rig.attempt(), bounds, Masker::default());
    let going = start(&order).await;
    for number in 0..200 {
        ours.say(&source(), &format!("ours {number}")).unwrap();
    }
    assert!(wait(&going).await.is_success());
    ours.say(&source(), "one\ntwo").unwrap();
    let page = read(&rig.attempt(), &Query::default()).unwrap();
    let numbers: Vec<u64> = page.lines.iter().map(|line| line.seq).collect();
    assert_eq!(numbers, (1..=602).collect::<Vec<u64>>());
    let of = |stream: Stream| -> Vec<String> {
        let lines = page.lines.iter().filter(|line| line.stream == stream);
        lines.map(|line| line.text.clone()).collect()
    };
    let mut expected: Vec<String> = (0..200).map(|number| format!("ours {number}")).collect();
    expected.extend(["one".to_owned(), "two".to_owned()]);
    assert_eq!(of(Stream::Runner), expected);
    let expected: Vec<String> = (0..400).map(|number| format!("said {number}")).collect();
    assert_eq!(of(Stream::Out), expected);
}

/// Head and tail are kept; what is between is counted, and cursors go on behind it.
#[test]
fn lines_are_bounded_with_their_head_and_tail() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.attempt()).unwrap();
    let bounds = Bounds {
        head: 4 * 1024,
        tail: 8 * 1024,
    };
    let mut lines = Lines::new(&rig.attempt(), bounds, Masker::new(["hunter2"]));
    for number in 0..2_000 {
        lines
            .say(&source(), &format!("line {number} hunter2"))
            .unwrap();
    }
    assert!(all_bytes(&rig.attempt()).len() < 18 * 1024);
    let page = read(&rig.attempt(), &Query::default()).unwrap();
    assert_eq!(page.lines[0].text, "line 0 ***");
    assert_eq!(page.lines.last().unwrap().text, "line 1999 ***");
    assert_eq!(page.next, 2_000);
    assert_eq!(page.omitted + page.lines.len() as u64, 2_000);
    for after in [0, 1, 30, 500, 1_500, 1_990, 1_999, 2_000, 3_000] {
        let after = Some(after);
        let rest = read(
            &rig.attempt(),
            &Query {
                after,
                ..Query::default()
            },
        )
        .unwrap();
        let expected: Vec<&Line> = page
            .lines
            .iter()
            .filter(|line| Some(line.seq) > after)
            .collect();
        assert_eq!(rest.lines.iter().collect::<Vec<_>>(), expected, "{after:?}");
    }
    // A line that was not written whole is passed over, and the next has its own.
    let newest = std::fs::read_dir(rig.attempt()).unwrap().flatten();
    let newest = newest.map(|entry| entry.path()).max_by_key(|path| {
        let number = path
            .extension()
            .and_then(|end| end.to_str()?.parse::<u64>().ok());
        number.unwrap_or(0)
    });
    let mut file = std::fs::File::options()
        .append(true)
        .open(newest.unwrap())
        .unwrap();
    std::io::Write::write_all(&mut file, b"{\"ts\":1,\"se").unwrap();
    lines.say(&source(), "after the crash").unwrap();
    let tail = Query {
        tail: true,
        limit: Some(2),
        ..Query::default()
    };
    let tail = read(&rig.attempt(), &tail).unwrap().lines;
    assert_eq!(texts(&tail), ["line 1999 ***", "after the crash"]);
    assert_eq!(tail[1].seq, 2_001);
}

/// However long the file is, and wherever a cursor stands in it.
#[test]
fn a_cursor_is_found_in_a_long_file() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.attempt()).unwrap();
    let mut lines = Lines::new(&rig.attempt(), Bounds::LINES, Masker::default());
    let long = "x".repeat(9_000);
    for number in 0..100 {
        let many: String = (0..97).map(|_| format!("line of {number}\n")).collect();
        lines.say(&source(), &format!("{many}{long}")).unwrap();
    }
    for after in (0..9_800).step_by(331).chain([9_799, 9_800]) {
        let query = Query {
            after: Some(after),
            limit: Some(2),
            ..Query::default()
        };
        let page = read(&rig.attempt(), &query).unwrap();
        let numbers: Vec<u64> = page.lines.iter().map(|line| line.seq).collect();
        let expected: Vec<u64> = (after + 1..=9_800).take(2).collect();
        assert_eq!(numbers, expected);
        assert_eq!(page.omitted, 0);
    }
}
