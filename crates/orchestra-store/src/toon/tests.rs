//! Round trips of every kind of file with awkward texts, and the errors of broken ones.

use orchestra_board::{
    AgentName, Answer, Body, Claim, Cost, Issue, IssueId, Key, Kind, Label, OwnState, PrdOrigin,
    PrdSession, PrdStatus, Priority, Project, Request, RequestKind, RequestStatus, SessionId, Slug,
    State, Timestamp, Title, Uid, UsageOf, UsageSession, UsageTotals,
};
use proptest::prelude::*;

use super::project::{Retired, Row, Shown, Tombstone};
use super::{IssuePlace, issue, project, records};
use crate::{
    Chunk, ChunkId, HookEventRecord, SessionEvent, SessionRecord, UsageDay, UsageOfRecord,
    UsageRecord, UsageRequest, UsageSessionRecord, UsageSums,
};

/// Texts that writers and readers of text formats have stumbled over.
const AWKWARD: [&str; 24] = [
    "true",
    "null",
    "123",
    "-0",
    "1e5",
    "05",
    " lead",
    "trail ",
    "a: b",
    "- item",
    "# no comment",
    "\"quoted\"",
    "back\\slash",
    "a,b",
    "[3]: x",
    "{a}",
    "end: true",
    "שלום עולם",
    "🚀 emoji 👩‍👩‍👧",
    "\u{202e}rtl",
    "tab\there",
    "line\nbreak",
    "crlf\r\nline",
    "<<<<<<< ours",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(&AWKWARD[..]).prop_map(str::to_owned),
        "\\PC{0,12}",
        "[ -~\\n\\t]{0,24}"
    ]
}

fn body() -> impl Strategy<Value = Body> {
    text().prop_filter_map("a body", |text| Body::parse(&text).ok())
}

fn title() -> impl Strategy<Value = Title> {
    text().prop_filter_map("a title", |text| Title::cut(&text))
}

fn label() -> impl Strategy<Value = Label> {
    text().prop_filter_map("a label", |text| Label::parse(&text).ok())
}

fn agent() -> impl Strategy<Value = AgentName> {
    text().prop_filter_map("a name", |text| AgentName::parse(&text).ok())
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..253_402_000_000_i64).prop_map(Timestamp::from_unix_seconds)
}

fn id() -> impl Strategy<Value = IssueId> {
    (1..9_999_u64, any::<bool>()).prop_map(|(number, bug)| {
        if bug {
            IssueId::bug(number)
        } else {
            IssueId::of_project(&Key::parse("A1").expect("a key"), number)
        }
    })
}

fn uid() -> impl Strategy<Value = Uid> {
    any::<[u8; 16]>().prop_map(Uid::from_bytes)
}

fn slug() -> Slug {
    Slug::parse("p").expect("a slug")
}

fn issue() -> impl Strategy<Value = (Issue, IssuePlace)> {
    let names = (
        title(),
        body(),
        prop::collection::vec(agent(), 0..3),
        prop::collection::vec(label(), 0..3),
    );
    let marks = (
        prop::sample::select(&Kind::ALL[..]),
        prop::sample::select(&State::ALL[..]),
        prop::option::of(prop::sample::select(&Priority::ALL[..])),
        prop::sample::select(&[OwnState::Backlog, OwnState::Todo, OwnState::Cancelled][..]),
    );
    let links = (
        (id(), prop::option::of(uid())),
        prop::option::of(id()),
        prop::option::of(id()),
        prop::collection::btree_set(id(), 0..3),
    );
    let times = (
        time(),
        prop::option::of(time()),
        prop::option::of((agent(), time())),
    );
    (names, marks, links, times).prop_map(|(names, marks, links, times)| {
        let (kind, state, priority, own) = marks;
        let (epic, story) = (IssueId::bug(1), IssueId::bug(2));
        let place = IssuePlace {
            project: slug(),
            id: links.0.0.clone(),
            epic: (kind != Kind::Epic).then_some(epic),
            story: kind.is_leaf().then_some(story),
        };
        let issue = Issue {
            project: slug(),
            id: links.0.0,
            uid: links.0.1,
            kind,
            parent: place.parent().cloned(),
            title: names.0,
            description: names.1,
            priority,
            state,
            own: if kind.is_leaf() {
                OwnState::Backlog
            } else {
                own
            },
            cancelled_with: links.1,
            fixes: links.2,
            assignees: names.2,
            labels: names.3,
            depends_on: links.3.into_iter().collect(),
            claim: times.2.map(|(agent, until)| Claim { agent, until }),
            created_at: times.0,
            updated_at: times.1,
        };
        (issue, place)
    })
}

fn session() -> impl Strategy<Value = SessionRecord> {
    let event = (label(), body(), time()).prop_map(|(kind, summary, at)| SessionEvent {
        kind,
        summary,
        at,
    });
    let events = prop::collection::vec(event, 0..4);
    (body(), events, time(), time(), any::<bool>()).prop_map(
        |(summary, events, started_at, ended_at, from_hooks)| {
            let id = SessionId::parse("S.1").expect("an id");
            SessionRecord {
                project: slug(),
                id,
                summary,
                events,
                started_at,
                ended_at,
                from_hooks,
            }
        },
    )
}

fn chunk() -> impl Strategy<Value = Chunk> {
    let texts = (
        body(),
        body(),
        prop::option::of(label()),
        prop::option::of(label()),
    );
    let life = (
        prop::option::of(time()),
        prop::option::of(time()),
        prop::option::of(1_u64..1_000),
    );
    let tags = prop::collection::vec(label(), 0..3);
    (texts, tags, time(), life).prop_map(|(texts, tags, created_at, life)| Chunk {
        id: ChunkId::new(1),
        project: slug(),
        content: texts.0,
        summary: texts.1,
        source: texts.2,
        source_id: texts.3,
        tags,
        created_at,
        updated_at: life.0,
        expires_at: life.1,
        superseded_by: life.2.map(ChunkId::new),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn issues((expected, place) in issue()) {
        let written = issue::write(&expected, place.epic.as_ref());
        let beside = issue::write_description(&expected);
        let read = issue::read("f", &written, &place, beside.as_deref().map(|text| ("b", text)));
        prop_assert_eq!(read.as_ref(), Ok(&expected), "{}", written);
        // The library agrees that it is TOON, whatever our quick way says.
        toon_format::decode_default::<serde_json::Value>(&written).expect("is TOON");
        // With other line ends it says the same.
        let crlf = written.replace('\n', "\r\n");
        let read = issue::read("f", &crlf, &place, beside.as_deref().map(|text| ("b", text)));
        prop_assert_eq!(read.as_ref(), Ok(&expected));
        let marked = format!("\u{FEFF}{crlf}");
        let read = issue::read("f", &marked, &place, beside.as_deref().map(|text| ("b", text)));
        prop_assert_eq!(read, Ok(expected));
    }

    #[test]
    fn a_cut_issue_is_an_error((expected, place) in issue(), cut in any::<prop::sample::Index>()) {
        let written = issue::write(&expected, place.epic.as_ref());
        // The line end behind the last line may be missing; some editors take it away.
        let end = cut.index(written.len() - 1);
        let end = written.floor_char_boundary(end);
        let error = issue::read("f", &written[..end], &place, None);
        prop_assert!(error.is_err(), "{}", &written[..end]);
    }

    #[test]
    fn projects(name in title(), description in body(), shown in title(), created_at in time(), phase in 1..9_u32, uid in uid()) {
        let mut expected = Project::new(slug(), Key::parse("A1").expect("a key"), name, description, created_at);
        expected.next_issue = 7;
        expected.phase_of = Some((slug(), phase));
        expected.prd_origin = PrdOrigin::Written;
        expected.updated_at = Some(created_at);
        let row = Row { id: "A1-1".into(), parent: "A1-2".into(), title: shown.to_string(), state: State::Done };
        let shown = Shown { counts: vec![(State::Done, 3)], epics: vec![row.clone()], stories: vec![row] };
        let deleted = Tombstone { id: IssueId::bug(3), uid, at: created_at };
        let retired = Retired { aliases: vec![(IssueId::bug(1), IssueId::bug(2))], deleted: vec![deleted; 2] };
        let written = project::write(&expected, &retired, &shown);
        let read = Ok((expected, retired));
        prop_assert_eq!(&project::read("f", &written, &slug()), &read);
        // A text merge adds rows and leaves their count.
        let merged = written.replace("deleted[2]", "deleted[1]").replace("epics[1]", "epics[9]");
        prop_assert_eq!(&project::read("f", &merged, &slug()), &read);
        toon_format::decode_default::<serde_json::Value>(&written).expect("is TOON");
    }

    #[test]
    fn questionnaires(project_name in title(), answers in prop::collection::vec(body(), 0..12)) {
        let mut expected = PrdSession::new(slug(), project_name, PrdStatus::Complete);
        expected.current = answers.len();
        expected.answers =
            answers.into_iter().enumerate().map(|(question, text)| Answer { question, text }).collect();
        expected.phases = vec![slug()];
        let written = records::write_prd_session(&expected);
        prop_assert_eq!(records::read_prd_session("f", &written, &slug()), Ok(expected));
    }

    #[test]
    fn requests(texts in prop::collection::vec((body(), time()), 0..5)) {
        let request = |(number, (description, at))| Request {
            number,
            kind: RequestKind::Bug,
            description,
            status: RequestStatus::New,
            at,
        };
        let expected: Vec<Request> = (1..).zip(texts).map(request).collect();
        let written = records::write_requests(&slug(), &expected);
        prop_assert_eq!(records::read_requests("f", &written, &slug()), Ok(expected));
    }

    #[test]
    fn chunks(mut expected in prop::collection::vec(chunk(), 0..5)) {
        for (number, chunk) in (1..).zip(&mut expected) {
            chunk.id = ChunkId::new(number);
        }
        let written = records::write_chunks(&slug(), &expected);
        prop_assert_eq!(records::read_chunks("f", &written, &slug()), Ok(expected));
    }

    #[test]
    fn sessions(expected in session()) {
        let written = records::write_session(&expected);
        prop_assert_eq!(records::read_session("f", &written, &slug(), &expected.id), Ok(expected));
    }

    #[test]
    fn hook_events(names in prop::collection::vec((label(), prop::option::of(label()), time()), 0..4), number in any::<f64>()) {
        let data = serde_json::json!({"deep": [[[{"x": number, "true": "123", "": []}]]], "big": u64::MAX});
        let event = |(number, (event_type, tool_name, at))| HookEventRecord {
            number,
            event_type,
            session_id: None,
            tool_name,
            agent_type: None,
            data: Some(data.clone()),
            at,
        };
        let expected: Vec<HookEventRecord> = (1..).zip(names).map(event).collect();
        let written = records::write_hook_events(&expected);
        prop_assert_eq!(records::read_hook_events("f", &written), Ok(expected));
    }

    #[test]
    fn usage(provider in text(), cost in 0..=9_000_000_000_000_000_000_u64, at in time()) {
        let totals = UsageTotals { input: 9_000_000_000_000_000_000, output: 1, cost: Cost::from_billionths(cost) };
        let session = UsageSession { provider, model: "true".into(), started_at: at, ended_at: Some(at), totals };
        let request = UsageRequest { at, input_tokens: 1, output_tokens: 2, cost: Cost::from_billionths(cost) };
        let of_project = UsageOf { project: Slug::parse("a").expect("a slug"), issue: None };
        let of_issue = UsageOf { issue: Some(IssueId::parse("A-3").expect("an id")), ..of_project.clone() };
        let of = [&of_project, &of_issue].map(|of| UsageOfRecord { of: of.clone(), sums: UsageSums { requests: 2, totals } });
        let sessions = vec![UsageSessionRecord { session, requests: vec![request, request] }];
        let day = |project: Option<&str>| UsageDay {
            day: UsageDay::of(at),
            provider: "p".into(),
            model: "true".into(),
            project: project.map(|slug| Slug::parse(slug).expect("a slug")),
            sums: UsageSums { requests: 2, totals },
        };
        let expected = UsageRecord { totals, sessions, of: of.to_vec(), days: vec![day(None), day(Some("a"))] };
        let written = records::write_usage(&expected);
        prop_assert_eq!(records::read_usage("f", &written), Ok(expected));
    }

    #[test]
    fn no_text_panics(text in "(schema: 1\n)?[a-z_:\\[\\]0-9{}, \"\\\\\n-]{0,80}(\nend: true)?") {
        let place = IssuePlace { project: slug(), id: IssueId::bug(1), epic: None, story: None };
        let _ = issue::read("f", &text, &place, None);
        let _ = project::read("f", &text, &slug());
        let _ = records::read_chunks("f", &text, &slug());
        let _ = records::read_usage("f", &text);
        let _ = records::read_prd_session("f", &text, &slug());
    }
}

#[test]
fn an_issue_file_reads_like_this() {
    let id = |text| IssueId::parse(text).expect("an id");
    let place = IssuePlace {
        project: slug(),
        id: id("A1-3"),
        epic: Some(id("A1-1")),
        story: Some(id("A1-2")),
    };
    let text = "schema: 1\nid: A1-3\ntype: task\ntitle: Sign in\nstatus: in-progress\ndescription: \"one: line\"\n\
        priority: high\nepic: A1-1\nstory: A1-2\nassignees[1]: bob\nlabels[2]: ui,api\ndepends_on[1]: A1-9\n\
        claimed_by: bob\nclaimed_until: \"2026-01-01T00:30:00Z\"\ncreated_at: \"2026-01-01T00:00:00Z\"\n\
        updated_at: \"2026-01-01T00:00:01Z\"\nend: true\n";
    let read = issue::read("f", text, &place, None).expect("reads");
    assert_eq!(issue::write(&read, place.epic.as_ref()), text);
}

#[test]
fn errors_name_file_line_and_field() {
    let place = IssuePlace {
        project: slug(),
        id: IssueId::parse("A-1").expect("an id"),
        epic: None,
        story: None,
    };
    let good = "schema: 1\nid: A-1\ntype: epic\ntitle: T\nstatus: backlog\ncreated_at: \"2026-01-01T00:00:00Z\"\nend: true\n";
    let check = |from: &str, to: &str, shown: &str| {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let error = issue::read("p/epics/A-1/epic.toon", &text, &place, None).expect_err(&text);
        assert_eq!(
            error.to_string().strip_prefix("p/epics/A-1/epic.toon"),
            Some(shown)
        );
    };
    check(
        "title: T",
        "title: true",
        ":4: title: must be text, not true; quote it: \"true\"",
    );
    check(
        "title: T",
        "title: 123",
        ":4: title: must be text, not 123; quote it: \"123\"",
    );
    check("title: T\n", "", ":6: title: is missing");
    check(
        "status: backlog",
        "status: bcklog",
        ":5: status: cannot be `bcklog`; it is one of backlog, todo, in-progress, blocked, \
         ready-for-testing, in-testing, ready-for-docs, in-docs, documented, in-review, done, \
         rejected, cancelled",
    );
    check(
        "type: epic",
        "type: chore",
        ":3: type: cannot be `chore`; it is one of epic, story, task, bug, hotfix",
    );
    check("status", "staus", ":7: status: is missing");
    for comment in ["# note", "  # note"] {
        check(
            "status",
            &format!("{comment}\nstatus"),
            ":5: is a comment, which would be lost when the file is next written; remove it, and write it into a description or a comment on the board",
        );
    }
    check(
        "status",
        "epic: A-9\nstatus",
        ":5: epic: is not a field of this file; remove it",
    );
    check(
        "type: epic",
        "type: task",
        ":3: type: is task, but the path of the file requires epic",
    );
    check(
        "id: A-1",
        "id: A-2",
        ":2: id: is A-2, but the path of the file requires A-1",
    );
    check(
        "title: T",
        "title: T\ncolour: red",
        ":5: colour: is not a field of this file; remove it",
    );
    check(
        "title: T",
        "title: T\nlabels: x",
        ":5: labels: must be a list: `labels[2]: a,b`",
    );
    check(
        "title: T",
        "title: T\nlabels[2]: a,\"\"",
        ":5: labels[2]: `` is not a label of 1 to 50 printable characters",
    );
    check(
        "title: T",
        "title: T\n    deep: x",
        ":5: Over-indented line: expected depth 0, but found 2",
    );
    check(
        "end: true\n",
        "",
        ":6: ends too early: the last line must be `end: true`; the file was cut off or is being written",
    );
    check(
        "schema: 1",
        "schema: 7",
        ":1: schema: has schema 7, but this program supports schemas up to 1; use a newer version of the program",
    );
    check(
        "title: T\n",
        "<<<<<<< HEAD\ntitle: T\n=======\ntitle: U\n>>>>>>> other\n",
        ":4: contains conflict markers of an unfinished merge; choose a side and remove them",
    );
    let beside = Some(("p/epics/A-1/A-1.md", "two\nlines\n"));
    let twice = good.replace("title: T", "title: T\ndescription: one");
    let error = issue::read("f", &twice, &place, beside).expect_err("twice");
    assert_eq!(
        error.to_string(),
        "f:5: description: is given twice, here and in A-1.md; keep one of them"
    );
    let chunks = "schema: 1\nproject: p\nchunks[2]:\n  - id: mem-1\n    summary: s\n    content: c\n    created_at: \"2026-01-01T00:00:00Z\"\n  - id: mem-2\n    summary: 12\n    content: c\n    created_at: \"2026-01-01T00:00:00Z\"\nend: true\n";
    let error = records::read_chunks("f", chunks, &slug()).expect_err("a number");
    assert_eq!(
        error.to_string(),
        "f:9: chunks[2].summary: must be text, not 12; quote it: \"12\""
    );
    assert_eq!(
        records::utf8("f", b"a\nb\xff")
            .expect_err("bytes")
            .to_string(),
        "f:2: is not UTF-8 text"
    );
}
