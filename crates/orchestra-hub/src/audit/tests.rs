//! The file: what it holds, its bounds, and what is found of changes in it.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::{Instant, UNIX_EPOCH},
};

use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;
use chain::Link;

fn record(name: &str) -> Record {
    Record {
        ended: SystemTime::now(),
        face: "stdio",
        client: Some("agent".into()),
        provider: Some("board".into()),
        kind: "tool",
        name: name.into(),
        argument_bytes: 12,
        result_bytes: 34,
        end: CallEnd::Answered,
        remark: None,
        elapsed: Duration::from_micros(56),
        trace: None,
    }
}

#[test]
fn a_record_is_one_line_with_sizes_and_no_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run/audit.jsonl");
    let audit = Audit::open(AuditConfig {
        max_bytes: 1 << 20,
        keep: 1,
        ..AuditConfig::new(path.clone())
    })
    .unwrap();
    let ended = UNIX_EPOCH + Duration::from_millis(5);
    audit.record(Record {
        ended,
        ..record("https://h/?token=abc")
    });
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    audit.record(Record {
        ended,
        trace: Some(format!("00-{trace}-00f067aa0ba902b7-01")),
        ..record("b")
    });
    drop(audit);
    let text = fs::read_to_string(&path).unwrap();
    let (first, second) = text.split_once('\n').unwrap();
    assert_eq!(
        first,
        "{\"unix_ms\":5,\"face\":\"stdio\",\"client\":\"agent\",\"provider\":\"board\",\
         \"kind\":\"tool\",\"name\":\"https://h/?token=***\",\"argument_bytes\":12,\
         \"result_bytes\":34,\"outcome\":\"answered\",\"micros\":56,\
         \"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\"}"
    );
    let prev = Link::of(first.as_bytes());
    let end = format!(",\"micros\":56,\"trace\":\"{trace}\",\"prev\":\"{prev}\"}}\n");
    assert!(second.ends_with(&end), "{second}");
    let head = fs::read_to_string(path.with_file_name("audit.jsonl.head")).unwrap();
    let (last, beginning) = (Link::of(second.trim_end().as_bytes()), Link::BEGINNING);
    assert_eq!(head, format!("{last}\n{beginning}\n{last}\n"));
}

#[test]
fn hidden_characters_of_a_name_are_escaped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(path.clone())).unwrap();
    let name = "a\u{9b}31m\u{202e}\u{200b}\u{1d173}\u{e0041}é🦀\n";
    audit.record(record(name));
    drop(audit);
    let text = fs::read_to_string(&path).unwrap();
    let shown = r#""name":"a\u009b31m\u202e\u200b\ud834\udd73\udb40\udc41é🦀\n""#;
    assert!(text.contains(shown), "{text}");
    let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
    assert_eq!(line["name"], name);
}

/// The files of records in a directory, by name.
fn files(directory: &Path) -> Vec<PathBuf> {
    let names = |entry: io::Result<fs::DirEntry>| entry.unwrap().path();
    let all = fs::read_dir(directory).unwrap().map(names);
    let is_head = |path: &PathBuf| path.extension().is_some_and(|end| end == "head");
    let mut files: Vec<PathBuf> = all.filter(|path| !is_head(path)).collect();
    files.sort();
    files
}

#[test]
fn no_link_is_followed_and_the_file_is_its_owners() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let [run, elsewhere] = ["run", "elsewhere"].map(|name| directory.path().join(name));
    fs::create_dir(&run).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    let config = |path: PathBuf| AuditConfig {
        max_bytes: 500,
        keep: 1,
        ..AuditConfig::new(path)
    };
    symlink(elsewhere.join("file"), run.join("link.jsonl")).unwrap();
    Audit::open(config(run.join("link.jsonl"))).unwrap_err();
    symlink(&elsewhere, directory.path().join("linked")).unwrap();
    Audit::open(config(directory.path().join("linked/audit.jsonl"))).unwrap_err();
    // Also not when the directory is replaced while it is in use.
    let audit = Audit::open(config(run.join("audit.jsonl"))).unwrap();
    let aside = directory.path().join("aside");
    fs::rename(&run, &aside).unwrap();
    symlink(&elsewhere, &run).unwrap();
    (0..40).for_each(|_| audit.record(record("a")));
    drop(audit);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    let made = fs::metadata(aside.join("audit.jsonl")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o600);
}

#[test]
fn processes_share_a_file_and_its_bound() {
    let directory = tempfile::tempdir().unwrap();
    let config = AuditConfig {
        max_bytes: 20_000,
        keep: 200,
        ..AuditConfig::new(directory.path().join("audit.jsonl"))
    };
    // Each has a file of its own open, as a process has.
    let audits: Vec<Audit> = (0..8)
        .map(|_| Audit::open(config.clone()).unwrap())
        .collect();
    std::thread::scope(|scope| {
        for audit in audits {
            scope.spawn(move || (0..1_000).for_each(|_| audit.record(record("a"))));
        }
    });
    let mut records = 0;
    for file in files(directory.path()) {
        let text = fs::read_to_string(file).unwrap();
        assert!(text.len() < 20_500, "{}", text.len());
        records += text.lines().count();
    }
    assert_eq!(records, 8_000);
    let found = verify_audit(&config.path).unwrap();
    assert_eq!((found.records, &found.misfit), (8_000, &None), "{found:?}");
    assert!(found.is_from_the_beginning && found.torn.is_empty());
}

#[test]
fn one_that_writes_rarely_finds_the_file_again() {
    let directory = tempfile::tempdir().unwrap();
    let config = AuditConfig {
        max_bytes: 500,
        keep: 1,
        ..AuditConfig::new(directory.path().join("audit.jsonl"))
    };
    let rare = Audit::open(config.clone()).unwrap();
    let busy = Audit::open(config.clone()).unwrap();
    (0..40).for_each(|_| busy.record(record("busy")));
    drop(busy);
    rare.record(record("rare"));
    drop(rare);
    let now = fs::read_to_string(&config.path).unwrap();
    assert!(now.contains("\"name\":\"rare\""), "{now}");
}

#[test]
fn files_are_rotated_and_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig {
        max_bytes: 500,
        keep: 2,
        ..AuditConfig::new(path.clone())
    })
    .unwrap();
    for number in 0..40 {
        audit.record(record(&number.to_string()));
    }
    drop(audit);
    let files = files(directory.path());
    assert_eq!(
        files,
        [
            path.clone(),
            directory.path().join("audit.jsonl.1"),
            directory.path().join("audit.jsonl.2")
        ]
    );
    for file in files {
        assert!(fs::metadata(file).unwrap().len() < 1_000);
    }
    assert!(
        fs::read_to_string(path)
            .unwrap()
            .contains("\"name\":\"39\"")
    );
}

#[test]
fn what_is_too_old_is_put_aside_and_then_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let day = Duration::from_secs(86_400);
    let config = AuditConfig {
        max_age: Some(7 * day),
        ..AuditConfig::new(&path)
    };
    let now = SystemTime::now();
    let write = |days: u32| {
        let audit = Audit::open(config.clone()).unwrap();
        audit.record(Record {
            ended: now - days * day,
            ..record(&format!("{days} days ago"))
        });
    };
    [8, 2, 1].into_iter().for_each(write);
    // It is put aside when it is opened the next time.
    let old = directory.path().join("audit.jsonl.1");
    let text = fs::read_to_string(&old).unwrap();
    assert!(
        text.contains("8 days ago") && text.lines().count() == 1,
        "{text}"
    );
    // A week after its last record it goes, also where nothing is recorded.
    let file = fs::File::options().append(true).open(&old).unwrap();
    file.set_modified(now - 8 * day).unwrap();
    let idle = Audit::open(config).unwrap();
    idle.start();
    drop(idle);
    assert_eq!(files(directory.path()), std::slice::from_ref(&path));
    let found = verify_audit(&path).unwrap();
    assert_eq!((found.records, &found.misfit), (2, &None), "{found:?}");
    assert!(!found.is_from_the_beginning);
}

#[test]
fn where_fewer_are_kept_than_before_the_oldest_go() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    for keep in [9, 1, 0] {
        let audit = Audit::open(AuditConfig {
            max_bytes: 500,
            keep,
            ..AuditConfig::new(&path)
        })
        .unwrap();
        (0..60).for_each(|_| audit.record(record("a")));
        drop(audit);
        assert_eq!(files(directory.path()).len(), keep + 1);
        let found = verify_audit(&path).unwrap();
        assert!(found.misfit.is_none() && found.records > 0, "{found:?}");
    }
}

/// Leaves what is noted as somebody does who is killed while they write.
fn leave_on_the_way(path: &Path) {
    let head = path.with_file_name("audit.jsonl.head");
    let text = fs::read_to_string(&head).unwrap();
    let [last, first, _] = *text.lines().collect::<Vec<_>>() else {
        unreachable!("three lines: {text}");
    };
    let next = Link::of(b"on its way");
    fs::write(head, format!("{last}\n{first}\n{next}\n")).unwrap();
}

/// A record that follows a line, made by somebody else.
fn forged(before: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    line::push(&mut line, &record("forged"), 0, Link::of(before)).unwrap();
    line.pop();
    line
}

#[test]
fn what_is_put_behind_the_end_is_found_unless_somebody_was_killed_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let write = || {
        let audit = Audit::open(AuditConfig::new(&path)).unwrap();
        (0..2).for_each(|_| audit.record(record("a")));
    };
    write();
    let good = fs::read(&path).unwrap();
    let last = good[..good.len() - 1].rsplit(|byte| *byte == b'\n').next();
    let more = [&good, &*forged(last.unwrap()), b"\n"].concat();
    fs::write(&path, &more).unwrap();
    let found = verify_audit(&path).unwrap();
    assert_eq!(found.misfit.unwrap().spot.line, 3);
    // The next call does not vouch for it.
    write();
    let found = verify_audit(&path).unwrap();
    assert_eq!(found.misfit.unwrap().spot.line, 4);
    // It is what a program that was killed has written and could not note.
    fs::remove_file(&path).unwrap();
    fs::remove_file(path.with_file_name("audit.jsonl.head")).unwrap();
    write();
    let good = fs::read(&path).unwrap();
    let last = good[..good.len() - 1].rsplit(|byte| *byte == b'\n').next();
    fs::write(&path, [&good, &*forged(last.unwrap()), b"\n"].concat()).unwrap();
    leave_on_the_way(&path);
    assert_eq!(verify_audit(&path).unwrap().misfit, None);
    write();
    let found = verify_audit(&path).unwrap();
    assert_eq!((found.records, found.misfit), (5, None));
}

#[test]
fn a_note_of_before_says_nothing_of_the_beginning_and_is_made_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let head = path.with_file_name("audit.jsonl.head");
    let write = || {
        Audit::open(AuditConfig::new(&path))
            .unwrap()
            .record(record("a"));
    };
    write();
    write();
    let text = fs::read_to_string(&head).unwrap();
    fs::write(&head, &text[..65]).unwrap();
    assert_eq!(verify_audit(&path).unwrap().misfit, None);
    write();
    let text = fs::read_to_string(&head).unwrap();
    assert_eq!(text.lines().nth(1), Some(&*Link::BEGINNING.to_string()));
    let found = verify_audit(&path).unwrap();
    assert_eq!((found.records, found.misfit), (3, None));
}

#[test]
fn a_torn_line_is_told_from_a_change() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let write = |count: usize| {
        let audit = Audit::open(AuditConfig::new(&path)).unwrap();
        (0..count).for_each(|_| audit.record(record("a")));
    };
    write(2);
    // Whoever is killed in the middle of a write has written a part of it.
    let mut text = fs::read(&path).unwrap();
    let part = text[..100].to_vec();
    text.extend(&part);
    fs::write(&path, &text).unwrap();
    leave_on_the_way(&path);
    let torn = [Spot {
        file: path.clone(),
        line: 3,
    }];
    let found = verify_audit(&path).unwrap();
    assert_eq!((&*found.torn, found.misfit), (&torn[..], None));
    // The next one begins a line of its own.
    write(1);
    let found = verify_audit(&path).unwrap();
    assert_eq!((&*found.torn, &found.misfit), (&torn[..], &None));
    assert_eq!(found.records, 3);
    // A record that was written whole and cut afterwards is no torn one.
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - 20]).unwrap();
    let found = verify_audit(&path).unwrap();
    assert_eq!(found.misfit.unwrap().spot.line, 4);
    // Nor is it covered by what comes after it.
    write(1);
    let found = verify_audit(&path).unwrap();
    assert_eq!(found.misfit.unwrap().spot.line, 5);
}

#[test]
fn what_was_written_before_there_was_a_chain_is_part_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let old = format!("{{\"unix_ms\":{},\"name\":\"old\"}}\n", now.as_millis());
    fs::write(&path, old).unwrap();
    drop(Audit::open(AuditConfig::new(&path)).unwrap());
    let found = verify_audit(&path).unwrap();
    assert_eq!((found.unchained, &found.misfit), (1, &None), "{found:?}");
    Audit::open(AuditConfig::new(&path))
        .unwrap()
        .record(record("new"));
    let found = verify_audit(&path).unwrap();
    assert_eq!((found.records, found.misfit), (2, None));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("old", "0ld")).unwrap();
    let found = verify_audit(&path).unwrap();
    assert_eq!(found.misfit.unwrap().spot.line, 2);
}

#[test]
fn whoever_cannot_write_ends_all_the_same_and_the_next_says_what_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(&path)).unwrap();
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    for _ in 0..2 * QUEUE + 10 {
        audit.record(record("a"));
    }
    assert!(audit.dropped() > 0);
    let lost = audit.dropped();
    held.unlock().unwrap();
    drop(audit);
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains(&format!("\"lost\":{lost},\"prev\"")),
        "{lost}"
    );
    assert_eq!(verify_audit(&path).unwrap().misfit, None);
    // One that never lets go of it holds up nobody's end.
    let audit = Audit::open(AuditConfig::new(&path)).unwrap();
    held.lock().unwrap();
    audit.record(record("a"));
    drop(audit);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

/// As `git clean` removes what is ignored, while programs run.
#[test]
fn whoever_goes_on_writes_a_new_file_where_the_directory_was_removed() {
    let workspace = tempfile::tempdir().unwrap();
    let path = workspace.path().join("run/audit.jsonl");
    let config = AuditConfig::new(&path);
    let [one, other] = [(), ()].map(|()| Audit::open(config.clone()).unwrap());
    let wait = |count: usize| {
        let until = Instant::now() + Duration::from_secs(20);
        let written = || fs::read_to_string(&path).map_or(0, |text| text.lines().count());
        while written() != count {
            assert!(Instant::now() < until, "{} of {count}", written());
            std::thread::yield_now();
        }
    };
    // A writer creates its note again after it has written a record.
    let remove = || {
        while let Err(error) = fs::remove_dir_all(workspace.path().join("run")) {
            assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
        }
    };
    one.record(record("before"));
    other.record(record("before"));
    wait(2);
    remove();
    one.record(record("one"));
    wait(1);
    other.record(record("other"));
    wait(2);
    assert_eq!((one.dropped(), other.dropped()), (0, 0));
    drop((one, other));
    let made = fs::metadata(workspace.path().join("run")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o700);
    assert_eq!(verify_audit(&path).unwrap().misfit, None);
    // Where it cannot be made, it is there again when it can.
    let audit = Audit::open(config).unwrap();
    audit.record(record("there"));
    wait(3);
    remove();
    fs::write(workspace.path().join("run"), "in the way").unwrap();
    audit.record(record("lost"));
    let until = Instant::now() + Duration::from_secs(20);
    while audit.dropped() == 0 {
        assert!(Instant::now() < until, "it is not lost");
        std::thread::yield_now();
    }
    fs::remove_file(workspace.path().join("run")).unwrap();
    audit.record(record("again"));
    wait(1);
    assert!(fs::read_to_string(&path).unwrap().contains("\"lost\":1"));
}

#[test]
fn nothing_there_is_no_fault() {
    let directory = tempfile::tempdir().unwrap();
    for path in ["audit.jsonl", "none/audit.jsonl"] {
        let found = verify_audit(&directory.path().join(path)).unwrap();
        assert_eq!(found, Verified::default());
    }
}

/// What somebody does to the lines of all files together.
#[derive(Debug, Clone)]
enum Meddling {
    Change(Index, Index, u8),
    Remove(Index),
    PutIn(Index, Index),
    Swap(Index),
    CutOff(Index),
    Behead(Index),
    Append,
}

fn meddling() -> impl Strategy<Value = Meddling> {
    let index = any::<Index>;
    prop_oneof![
        (index(), index(), 1..=255_u8).prop_map(|(line, at, by)| Meddling::Change(line, at, by)),
        index().prop_map(Meddling::Remove),
        (index(), index()).prop_map(|(line, of)| Meddling::PutIn(line, of)),
        index().prop_map(Meddling::Swap),
        index().prop_map(Meddling::CutOff),
        index().prop_map(Meddling::Behead),
        Just(Meddling::Append),
    ]
}

impl Meddling {
    /// Does it; false where nothing comes of it.
    fn to(&self, lines: &mut Vec<(usize, Vec<u8>)>) -> bool {
        match self {
            Self::Change(line, at, by) => {
                let (_, text) = line.get_mut(lines);
                let at = at.index(text.len());
                text[at] ^= by;
                !text.contains(&b'\n')
            }
            Self::Remove(line) => {
                lines.remove(line.index(lines.len()));
                true
            }
            Self::PutIn(line, of) => {
                let new = of.get(lines).clone();
                lines.insert(line.index(lines.len() + 1), new);
                true
            }
            Self::Swap(line) => {
                let at = line.index(lines.len());
                let [one, other] = &mut lines[at.saturating_sub(1)..][..2] else {
                    unreachable!("two are taken");
                };
                std::mem::swap(&mut one.1, &mut other.1);
                true
            }
            Self::CutOff(line) => {
                lines.truncate(line.index(lines.len()));
                true
            }
            Self::Behead(line) => {
                drop(lines.drain(..=line.index(lines.len())));
                true
            }
            Self::Append => {
                let (number, last) = lines.last().unwrap();
                let new = (*number, forged(last));
                lines.push(new);
                true
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever programs write in whatever order, it fits; whatever is changed of it then does not,
    /// at its beginning and its end neither.
    #[test]
    fn whatever_is_changed_is_found(
        batches in vec((0..3_usize, 1..6_usize), 2..8),
        meddling in meddling(),
        keep in prop_oneof![Just(2), Just(50)],
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let config = AuditConfig { max_bytes: 900, keep, fsync: Fsync::Never, ..AuditConfig::new(&path) };
        let mut programs: Vec<Option<Audit>> = vec![None, None, None];
        for (program, count) in batches {
            // Every other time it is the same program still.
            let audit = programs[program].take();
            let audit = audit.unwrap_or_else(|| Audit::open(config.clone()).unwrap());
            (0..count).for_each(|_| audit.record(record("a")));
            if count % 2 == 0 {
                programs[program] = Some(audit);
            }
        }
        drop(programs);
        let found = verify_audit(&path).unwrap();
        prop_assert_eq!(&found.misfit, &None);
        prop_assert!((found.is_from_the_beginning || keep == 2) && found.torn.is_empty());
        let mut files = files(directory.path());
        files.sort_by_key(|path| {
            let end = path.extension().unwrap().to_str().unwrap();
            std::cmp::Reverse(end.parse::<usize>().unwrap_or(0))
        });
        let mut lines: Vec<(usize, Vec<u8>)> = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let text = fs::read(file).unwrap();
            lines.extend(text.split_inclusive(|byte| *byte == b'\n').map(|line| {
                (number, line[..line.len() - 1].to_vec())
            }));
        }
        prop_assume!(meddling.to(&mut lines));
        for (number, file) in files.iter().enumerate() {
            let of_it = lines.iter().filter(|(of, _)| *of == number);
            let text: Vec<u8> = of_it.flat_map(|(_, line)| line.iter().copied().chain(*b"\n")).collect();
            fs::write(file, text).unwrap();
        }
        let found = verify_audit(&path).unwrap();
        prop_assert!(found.misfit.is_some(), "{:?}", found);
        if keep == 50 {
            // A call that comes later covers nothing up.
            Audit::open(config).unwrap().record(record("later"));
            let found = verify_audit(&path).unwrap();
            prop_assert!(found.misfit.is_some(), "{:?}", found);
        }
    }
}
