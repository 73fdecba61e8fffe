//! The life of what is remembered: changed, superseded, expired, merged, and bounded.

use orchestra_board::{Body, Command, SessionId, Timestamp, UsageEntry};
use orchestra_store::{
    Action, Chunk, ChunkFilter, ChunkId, ChunkPatch, IssueFilter, Life, Made, MemoryFilter,
    NewChunk, Options, PageRequest, Recall, Store,
};
use rusqlite::Connection;

use crate::fixture::{Workspace, clock, options};
use crate::memory::{save as save_session, session};
use crate::words::{
    body, chunk, create, create_project, effort, hook, id, ids_of, label, slug, used_for,
};

const DAY: i64 = 86_400;

fn keep(board: &Workspace, new: NewChunk) -> Chunk {
    match board.act(Action::SaveMemory(new)).made {
        Made::Chunk { chunk, .. } => chunk,
        other => panic!("{other:?}"),
    }
}

fn change(board: &Workspace, patch: ChunkPatch) -> Chunk {
    match board.act(Action::UpdateMemory(Box::new(patch))).made {
        Made::Chunk { chunk, .. } => chunk,
        other => panic!("{other:?}"),
    }
}

fn refused(board: &Workspace, action: Action) -> String {
    board.try_act(action).expect_err("refused").to_string()
}

fn patch(id: u64) -> ChunkPatch {
    ChunkPatch::of(slug(), ChunkId::new(id))
}

fn found(board: &Workspace, query: &str) -> Vec<u64> {
    let hits = board.read(|reader| reader.search_memory(&slug(), query, 10));
    let mut found: Vec<u64> = hits.iter().map(|hit| hit.item.id.number()).collect();
    found.sort_unstable();
    found
}

fn listed(board: &Workspace, life: Life) -> Vec<u64> {
    let filter = ChunkFilter {
        life,
        ..ChunkFilter::default()
    };
    let page = board.read(|reader| reader.chunks_that(&slug(), &filter, &PageRequest::first(500)));
    assert_eq!(page.total, page.items.len() as u64);
    page.items.iter().map(|chunk| chunk.id.number()).collect()
}

fn later(board: &Workspace, seconds: i64) -> Timestamp {
    board.store.now().plus_seconds(seconds)
}

#[test]
fn texts_that_differ_in_white_space_and_case_alone_are_one() {
    let board = Workspace::with_a_story();
    let mut first = chunk("The cache  is WARM\n");
    first.tags = vec![label("a")];
    keep(&board, first);
    let mut second = chunk("the cache is\n\twarm");
    second.tags = vec![label("b")];
    let merged = keep(&board, second);
    assert_eq!(merged.id, ChunkId::new(1));
    assert_eq!(merged.content.as_str(), "The cache  is WARM");
    assert_eq!(merged.tags, [label("a"), label("b")]);
    assert!(merged.updated_at.is_some());
    assert_eq!(keep(&board, chunk("the cache is cold")).id, ChunkId::new(2));
    assert_eq!(keep(&board, chunk("theca che is warm")).id, ChunkId::new(3));
}

#[test]
fn a_text_is_changed_and_found_by_what_it_says_now() {
    let board = Workspace::with_a_story();
    let mut new = chunk("the parser is recursive");
    new.source = Some(label("task"));
    let before = keep(&board, new);
    board.clock.pass(60);
    let after = change(
        &board,
        ChunkPatch {
            content: Some(body("the parser is a table")),
            summary: Some(body("how we parse")),
            tags: Some(vec![label("parser")]),
            source: Some(None),
            version: Some(before.version()),
            ..patch(1)
        },
    );
    assert_eq!(after.created_at, before.created_at);
    assert_eq!(after.updated_at, Some(board.store.now()));
    assert_eq!((after.source.as_ref(), after.tags.len()), (None, 1));
    assert!(found(&board, "recursive").is_empty());
    assert_eq!(found(&board, "table"), [1]);
    let stale = ChunkPatch {
        summary: Some(body("x")),
        version: Some(before.version()),
        ..patch(1)
    };
    let told = refused(&board, Action::UpdateMemory(Box::new(stale)));
    assert!(told.contains(&after.version().to_string()), "{told}");
    // What changes nothing is no change.
    board.clock.pass(60);
    assert_eq!(change(&board, patch(1)), after);
    keep(&board, chunk("another"));
    let same = ChunkPatch {
        content: Some(body("The  parser is a TABLE")),
        ..patch(2)
    };
    assert!(
        refused(&board, Action::UpdateMemory(Box::new(same)))
            .contains("mem-1 already has this text")
    );
    for wrong in [
        ChunkPatch {
            content: Some(Body::default()),
            ..patch(1)
        },
        ChunkPatch {
            expires_at: Some(Some(later(&board, -1))),
            ..patch(1)
        },
        patch(9),
    ] {
        refused(&board, Action::UpdateMemory(Box::new(wrong)));
    }
}

#[test]
fn a_superseded_text_stays_and_is_not_found_unless_asked() {
    let board = Workspace::with_a_story();
    keep(&board, chunk("we deploy on Fridays"));
    let by = keep(
        &board,
        NewChunk {
            supersedes: vec![ChunkId::new(1)],
            ..chunk("we deploy on Mondays")
        },
    );
    assert_eq!(found(&board, "deploy"), [2]);
    assert_eq!(found(&board, ""), [2]);
    let asked = board.read(|reader| {
        reader
            .with_superseded()
            .search_memory(&slug(), "deploy", 10)
    });
    assert_eq!(asked.len(), 2);
    let old = board
        .read(|reader| reader.chunk(&slug(), ChunkId::new(1)))
        .expect("still readable");
    assert_eq!(old.superseded_by, Some(by.id));
    assert_eq!(listed(&board, Life::Superseded), [1]);
    assert_eq!(listed(&board, Life::Current), [2]);
    assert_eq!(listed(&board, Life::Any), [1, 2]);
    let missing = NewChunk {
        supersedes: vec![ChunkId::new(9)],
        ..chunk("x")
    };
    assert!(refused(&board, Action::SaveMemory(missing)).contains("mem-9"));
    assert_eq!(listed(&board, Life::Any), [1, 2], "nothing of it was kept");
    // Said again, it holds again.
    let back = keep(
        &board,
        NewChunk {
            supersedes: vec![by.id],
            ..chunk("We deploy on Fridays")
        },
    );
    assert_eq!((back.id, back.superseded_by), (ChunkId::new(1), None));
    assert_eq!(found(&board, "deploy"), [1]);
}

#[test]
fn what_a_forgotten_text_superseded_holds_again() {
    let board = Workspace::with_a_story();
    keep(&board, chunk("old news"));
    keep(
        &board,
        NewChunk {
            supersedes: vec![ChunkId::new(1)],
            expires_at: Some(later(&board, DAY)),
            ..chunk("better news")
        },
    );
    assert_eq!(found(&board, "news"), [2]);
    board.clock.pass(2 * DAY);
    assert_eq!(found(&board, "news"), [1], "what supersedes it has expired");
    assert_eq!(listed(&board, Life::Superseded), [0_u64; 0]);
    // The next change removes it.
    keep(&board, chunk("something else"));
    assert_eq!(listed(&board, Life::Any), [1, 3]);
    let old = board
        .read(|reader| reader.chunk(&slug(), ChunkId::new(1)))
        .expect("there");
    assert_eq!(old.superseded_by, None);
}

#[test]
fn expired_texts_are_not_found_and_go_in_bounded_steps() {
    let board = Workspace::with_a_story();
    for number in 0..100 {
        let new = NewChunk {
            expires_at: Some(later(&board, DAY)),
            ..chunk(&format!("frozen until tomorrow, {number}"))
        };
        keep(&board, new);
    }
    keep(&board, chunk("frozen for good"));
    board.clock.pass(DAY - 1);
    assert_eq!(listed(&board, Life::Current).len(), 101);
    board.clock.pass(1);
    assert_eq!(found(&board, "frozen"), [101]);
    assert_eq!(listed(&board, Life::Expired).len(), 100);
    let context = board.read(|reader| reader.context(&slug(), "frozen", 10));
    assert_eq!(context.len(), 1);
    let count = || listed(&board, Life::Any).len();
    keep(&board, chunk("one more"));
    assert_eq!(count(), 101 - 64 + 1);
    keep(&board, chunk("and one more"));
    assert_eq!(count(), 3);
    let size = board.read(|reader| reader.memory_size(&slug()));
    assert_eq!((size.chunks, size.expired), (3, 0));
    let over = NewChunk {
        expires_at: Some(board.store.now()),
        ..chunk("too late")
    };
    assert!(refused(&board, Action::SaveMemory(over)).contains("expires_at"));
}

#[test]
fn of_two_ends_of_the_same_text_the_later_holds() {
    let board = Workspace::with_a_story();
    let until = |days: Option<i64>| NewChunk {
        expires_at: days.map(|days| later(&board, days * DAY)),
        ..chunk("the same")
    };
    keep(&board, until(Some(3)));
    let merged = keep(&board, until(Some(1)));
    assert_eq!(merged.expires_at, Some(later(&board, 3 * DAY)));
    assert_eq!(keep(&board, until(None)).expires_at, None);
    assert_eq!(keep(&board, until(Some(1))).expires_at, None);
}

/// A board with small limits.
fn small(max_chunks: u64, max_memory_bytes: u64) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options {
        max_chunks,
        max_memory_bytes,
        ..options(&clock())
    };
    let store = Store::open(directory.path(), options).expect("opens");
    let project = Action::Board(create_project("My App"));
    store.submit_blocking(None, project).expect("made");
    (directory, store)
}

#[test]
fn a_full_project_gives_up_what_is_superseded_first() {
    let (_directory, store) = small(3, 1_000_000);
    let save = |new: NewChunk| store.submit_blocking(None, Action::SaveMemory(new));
    save(chunk("a")).expect("kept");
    save(NewChunk {
        supersedes: vec![ChunkId::new(1)],
        ..chunk("b")
    })
    .expect("kept");
    save(chunk("c")).expect("kept");
    save(chunk("d")).expect("takes the place of what was superseded");
    let gone = store
        .read(|reader| reader.chunk(&slug(), ChunkId::new(1)))
        .expect("readable");
    assert_eq!(gone, None);
    let told = save(chunk("e")).expect_err("full").to_string();
    assert!(
        told.contains("forget_memory") && told.contains("[memory]"),
        "{told}"
    );
}

#[test]
fn full_project_gives_up_nothing_for_a_writer_that_makes_no_room() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options {
        max_chunks: 2,
        makes_room: false,
        ..options(&clock())
    };
    let store = Store::open(directory.path(), options).expect("opens");
    let project = Action::Board(create_project("My App"));
    store.submit_blocking(None, project).expect("made");
    let newer = |text: &str| NewChunk {
        supersedes: vec![ChunkId::new(1)],
        ..chunk(text)
    };
    for new in [chunk("a"), newer("b")] {
        let saved = store.submit_blocking(None, Action::SaveMemory(new));
        saved.expect("kept");
    }
    for new in [chunk("c"), newer("d")] {
        let saved = store.submit_blocking(None, Action::SaveMemory(new));
        let refusal = saved.expect_err("full").to_string();
        assert!(refusal.contains("the limit is 2"), "{refusal}");
    }
    let old = store.read(|reader| reader.chunk(&slug(), ChunkId::new(1)));
    assert!(old.expect("readable").is_some());
}

#[test]
fn a_full_project_takes_what_supersedes_one_of_its_texts() {
    for most in [3, 6] {
        let (_directory, store) = small(most, 20_000);
        let save = |new: NewChunk| store.submit_blocking(None, Action::SaveMemory(new));
        for number in 1..=most {
            save(chunk(&format!("text {number}"))).expect("kept");
        }
        save(chunk("more")).expect_err("full");
        let newer = NewChunk {
            supersedes: vec![ChunkId::new(1)],
            ..chunk("text one, said better")
        };
        save(newer).expect("what it supersedes makes room");
        let there = |number| {
            let chunk =
                |reader: &orchestra_store::Reader<'_>| reader.chunk(&slug(), ChunkId::new(number));
            store.read(chunk).expect("readable").is_some()
        };
        assert!(!there(1) && there(2) && there(most + 1));
        save(chunk("more")).expect_err("full again");
        let too_long = NewChunk {
            supersedes: vec![ChunkId::new(2)],
            ..chunk(&"x ".repeat(20_000))
        };
        save(too_long).expect_err("more bytes than there is room for");
        assert!(there(2), "nothing is taken from whoever is refused");
    }
}

#[test]
fn what_is_counted_is_what_texts_and_summaries_say() {
    let (_directory, store) = small(10, 64);
    let save = |new: NewChunk| store.submit_blocking(None, Action::SaveMemory(new));
    save(chunk("twenty-one bytes long")).expect("kept");
    let new = NewChunk {
        summary: body("seven b"),
        ..chunk("thirteen long")
    };
    save(new).expect("kept");
    let size = store.read(|reader| reader.memory_size(&slug()));
    assert_eq!(size.expect("readable").chunk_bytes, 21 + 7 + 13);
    save(chunk(&"x".repeat(24))).expect_err("one byte too many");
    save(chunk(&"x".repeat(23))).expect("kept");
}

#[test]
fn a_project_is_bounded_in_bytes() {
    let (_directory, store) = small(1_000, 10_000);
    let save = |new: NewChunk| store.submit_blocking(None, Action::SaveMemory(new));
    save(chunk(&"a ".repeat(4_000))).expect("kept");
    let told = save(chunk(&"b ".repeat(4_000)))
        .expect_err("full")
        .to_string();
    assert!(told.contains("10000 bytes"), "{told}");
    let grow = ChunkPatch {
        content: Some(body(&"c ".repeat(8_000))),
        ..patch(1)
    };
    let update = |patch| store.submit_blocking(None, Action::UpdateMemory(Box::new(patch)));
    update(grow).expect_err("full");
    let shrink = ChunkPatch {
        content: Some(body("short")),
        ..patch(1)
    };
    update(shrink).expect("smaller");
    save(chunk(&"b ".repeat(4_000))).expect("there is room again");
    let session = |id: &str, length: usize| {
        let new = session(id, &"s ".repeat(length), &[]);
        store.submit_blocking(None, Action::SaveSession(new))
    };
    session("s", 4_000).expect("kept");
    let told = session("t", 4_000).expect_err("full").to_string();
    assert!(told.contains("forget_session"), "{told}");
    session("s", 10).expect("replaced by a shorter one");
    session("t", 4_000).expect("there is room again");
}

#[test]
fn how_much_is_remembered_is_known_without_counting() {
    let board = Workspace::with_a_story();
    let size = || board.read(|reader| reader.memory_size(&slug()));
    assert_eq!(size().chunks, 0);
    let one = keep(&board, chunk("one"));
    keep(&board, chunk("two"));
    save_session(&board, session("s", "it went well", &["a"]));
    save_session(&board, session("s", "it went very well", &["a", "b"]));
    let before = size();
    assert_eq!((before.chunks, before.sessions), (2, 1));
    board.act(Action::ForgetMemory {
        project: slug(),
        id: one.id,
    });
    board.act(Action::ForgetSession {
        project: slug(),
        id: SessionId::parse("s").expect("an id"),
    });
    let after = size();
    assert_eq!(
        (after.chunks, after.sessions, after.session_bytes),
        (1, 0, 0)
    );
    assert!(after.chunk_bytes < before.chunk_bytes);
    board.run(orchestra_board::Command::DeleteProject { project: slug() });
    board.make_project("My App");
    assert_eq!(size().chunks, 0);
}

#[test]
fn the_index_is_made_anew() {
    let board = Workspace::with_a_story();
    let mut tagged = chunk("alpha");
    tagged.tags = vec![label("greek")];
    keep(&board, tagged);
    keep(
        &board,
        NewChunk {
            expires_at: Some(later(&board, 1)),
            ..chunk("beta")
        },
    );
    save_session(&board, session("s", "gamma", &[]));
    board.clock.pass(2);
    let database = board.path().join(".projects/.store/board.db");
    let raw = Connection::open(database).expect("opens");
    raw.execute("DELETE FROM memory_text", []).expect("deleted");
    drop(raw);
    assert!(found(&board, "alpha").is_empty());
    let made = board
        .store
        .reindex_memory(|_| {})
        .expect("the index is made");
    assert_eq!((made.rows, made.expired), (2, 1));
    assert_eq!(found(&board, "alpha"), [1]);
    assert_eq!(found(&board, "greek"), [1]);
    let context = board.read(|reader| reader.context(&slug(), "gamma", 5));
    assert_eq!(context.len(), 1);
}

#[test]
fn session_times_are_what_is_known_of_them() {
    let board = Workspace::with_a_story();
    let at = |text: &str| Timestamp::parse(text).expect("a time");
    let mut first = session("s", "one", &["early", "late"]);
    first.events[0].at = Some(at("2026-01-05T10:00:00Z"));
    first.events[1].at = Some(at("2026-01-05T11:00:00Z"));
    let kept = save_session(&board, first);
    assert_eq!(kept.started_at, at("2026-01-05T10:00:00Z"));
    assert_eq!(kept.ended_at, at("2026-01-05T11:00:00Z"));
    // Fewer events, of which one is known: the beginning and its time stay.
    let kept = save_session(&board, session("s", "two", &["late"]));
    assert_eq!(kept.started_at, at("2026-01-05T10:00:00Z"));
    assert_eq!(kept.events[0].at, at("2026-01-05T11:00:00Z"));
    assert_eq!(kept.ended_at, board.store.now());
    let mut told = session("s", "three", &[]);
    told.started_at = Some(at("2026-01-05T09:00:00Z"));
    told.ended_at = Some(at("2026-01-05T12:00:00Z"));
    let kept = save_session(&board, told.clone());
    assert_eq!(kept.started_at, at("2026-01-05T09:00:00Z"));
    assert_eq!(kept.ended_at, at("2026-01-05T12:00:00Z"));
    assert_eq!(kept.events.len(), 1, "no events keep those that are there");
    told.ended_at = Some(at("2026-01-05T08:00:00Z"));
    assert!(refused(&board, Action::SaveSession(told)).contains("ended_at"));
    let page = board.read(|reader| reader.sessions(&slug(), &PageRequest::default()));
    assert_eq!(page.total, 1);
}

#[test]
fn a_remembered_text_costs_the_same_among_many() {
    let board = Workspace::with_a_story();
    let many = effort(2_000, 100_000);
    let waiting: Vec<_> = (0..many)
        .map(|n| {
            let action = Action::SaveMemory(chunk(&format!("fact {n}")));
            board.store.submit(None, action)
        })
        .collect();
    drop(waiting);
    keep(&board, chunk("the last"));
    let database = board.path().join(".projects/.store/board.db");
    let database = Connection::open(database).expect("opens");
    for sql in [
        "SELECT number FROM chunk WHERE project = 1 AND hash = x'00'",
        "SELECT number FROM chunk WHERE expires_at <= 1 ORDER BY expires_at LIMIT 64",
        "UPDATE chunk SET superseded_by = NULL WHERE project = 1 AND superseded_by = 3",
    ] {
        let plan: String = database
            .query_row(&format!("EXPLAIN QUERY PLAN {sql}"), [], |row| row.get(3))
            .expect("a plan");
        assert!(plan.starts_with("SEARCH"), "{plan}");
    }
}

/// What takes a board of schema 4 back to schema 3.
pub(crate) const USAGE_SUMS: &str = "
    DROP TRIGGER issue_gone; DROP TABLE gone; DROP TRIGGER issue_without_uid; DROP INDEX issue_by_uid; ALTER TABLE issue DROP COLUMN uid;
    DROP TABLE tombstone;
    DROP TABLE usage_of; DROP TABLE usage_day";

/// What takes a board of the newest schema back to that of an earlier program.
pub(crate) const EARLIER: &str = "
    DROP TRIGGER issue_gone; DROP TABLE gone; DROP TRIGGER issue_without_uid; DROP INDEX issue_by_uid; ALTER TABLE issue DROP COLUMN uid;
    DROP TABLE tombstone;
    DROP TABLE usage_of; DROP TABLE usage_day;
    DROP TRIGGER chunk_added; DROP TRIGGER chunk_resized; DROP TRIGGER chunk_removed;
    DROP TRIGGER session_added; DROP TRIGGER session_resized; DROP TRIGGER session_removed;
    DROP TABLE memory_size;
    DROP INDEX chunk_by_expiry; DROP INDEX chunk_superseded; DROP INDEX session_from_hooks;
    ALTER TABLE chunk DROP COLUMN updated_at; ALTER TABLE chunk DROP COLUMN expires_at;
    ALTER TABLE chunk DROP COLUMN superseded_by; ALTER TABLE session DROP COLUMN from_hooks;
    DROP INDEX chunk_by_hash; UPDATE chunk SET hash = randomblob(16);
    CREATE UNIQUE INDEX chunk_by_hash ON chunk (project, hash);
    PRAGMA user_version = 2";

#[test]
fn w40_a_board_of_an_earlier_schema_keeps_what_it_remembers() {
    let board = Workspace::with_a_story();
    keep(&board, chunk("The cache is warm"));
    save_session(&board, session("s", "warmed the cache", &["a"]));
    let size = board.read(|reader| reader.memory_size(&slug()));
    board.run(Command::RecordUsage(used_for("MA-2", 7)));
    board.store.close(std::time::Duration::from_secs(1));
    let path = board.path().join(".projects/.store/board.db");
    let raw = Connection::open(&path).expect("opens");
    raw.execute_batch(EARLIER).expect("goes back");
    drop(raw);
    let store = crate::fixture::open(board.path());
    let read = store.read(|reader| reader.memory_size(&slug()));
    assert_eq!(read.expect("readable"), size);
    let again = Action::SaveMemory(chunk("the cache is WARM"));
    match store.submit_blocking(None, again).expect("kept").made {
        Made::Chunk { merged, .. } => assert!(merged, "it looks alike to the new schema as well"),
        other => panic!("{other:?}"),
    }
    let version: i64 = Connection::open(&path)
        .and_then(|raw| raw.pragma_query_value(None, "user_version", |row| row.get(0)))
        .expect("a version");
    assert_eq!(version, 7);
    assert_eq!(used(&store), (7, 0), "a request without what it was for");
    let again = Action::Board(Command::RecordUsage(used_for("MA-2", 5)));
    store.submit_blocking(None, again).expect("counted");
    assert_eq!(used(&store), (12, 5));
}

/// The tokens of all days, and those that were spent on the story.
fn used(store: &Store) -> (u64, u64) {
    let days = store.read(|reader| reader.usage_days()).expect("readable");
    let story = store.read(|reader| reader.usage_of(&slug(), Some(&id("MA-2"))));
    (
        days.iter().map(|day| day.sums.totals.input).sum(),
        story.expect("readable").totals.input,
    )
}

#[test]
fn a_board_of_schema_3_counts_what_requests_were_for_from_now_on() {
    let board = Workspace::with_a_story();
    board.run(Command::RecordUsage(used_for("MA-2", 7)));
    board.store.close(std::time::Duration::from_secs(1));
    let raw = Connection::open(board.path().join(".projects/.store/board.db")).expect("opens");
    raw.execute_batch(USAGE_SUMS).expect("goes back");
    raw.pragma_update(None, "user_version", 3)
        .expect("goes back");
    drop(raw);
    let store = crate::fixture::open(board.path());
    assert_eq!(used(&store), (7, 0));
    let again = Action::Board(Command::RecordUsage(used_for("MA-2", 5)));
    store.submit_blocking(None, again).expect("counted");
    assert_eq!(used(&store), (12, 5));
}

/// What makes of a board of the newest schema one of schema 4, with a text and marks decomposed.
pub(crate) const DECOMPOSED: &str = "
    DROP TRIGGER issue_gone; DROP TABLE gone; DROP TRIGGER issue_without_uid; DROP INDEX issue_by_uid; ALTER TABLE issue DROP COLUMN uid;
    DROP TABLE tombstone;
    DROP TABLE memory_text; DROP TABLE issue_text; DELETE FROM word;
    CREATE VIRTUAL TABLE issue_text USING fts5 (title, description,
        content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2');
    CREATE VIRTUAL TABLE memory_text USING fts5 (summary, content, tags, stems,
        content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2');
    UPDATE chunk SET hash = randomblob(16), content = replace(content, 'é', 'e\u{301}'),
        tags = replace(tags, 'é', 'e\u{301}');
    UPDATE issue SET title = replace(title, 'é', 'e\u{301}'), labels = replace(labels, 'é', 'e\u{301}');
    UPDATE mark SET text = replace(text, 'é', 'e\u{301}');
    PRAGMA user_version = 4";

#[test]
fn decomposed_texts_of_a_board_of_schema_4_are_found_composed_afterwards() {
    let board = Workspace::with_a_story();
    let mut text = chunk("the café is open");
    text.tags = vec![label("café")];
    keep(&board, text.clone());
    let mut issue = crate::words::new_issue(orchestra_board::Kind::Task, Some("MA-2"), "café menu");
    issue.labels = vec![label("café")];
    board.run(Command::CreateIssue {
        project: slug(),
        issue,
    });
    board.store.close(std::time::Duration::from_secs(1));
    let raw = Connection::open(board.path().join(".projects/.store/board.db")).expect("opens");
    raw.execute_batch(DECOMPOSED).expect("goes back");
    drop(raw);
    let store = crate::fixture::open(board.path());
    match store
        .submit_blocking(None, Action::SaveMemory(text))
        .expect("kept")
        .made
    {
        Made::Chunk { merged, .. } => assert!(merged, "it is the same text"),
        other => panic!("{other:?}"),
    }
    let tagged = MemoryFilter {
        tags: vec![label("café")],
        ..MemoryFilter::default()
    };
    let recall = Recall {
        words: &[],
        filter: &tagged,
        sessions: false,
        most: 10,
    };
    let found = store.read(|reader| reader.newest_remembered(&slug(), &recall));
    assert_eq!(found.expect("readable").len(), 1);
    let labelled = IssueFilter {
        label: Some(label("café")),
        ..IssueFilter::default()
    };
    let found = store.read(|reader| reader.issues(&slug(), &labelled, &PageRequest::default()));
    assert_eq!(found.expect("readable").total, 1);
    for query in ["café", "cafe\u{301}", "caf"] {
        let found =
            store.read(|reader| reader.search(&slug(), query, &[], &PageRequest::default()));
        assert_eq!(found.expect("readable").total, 1, "{query}");
    }
}

#[test]
fn w40_a_reader_that_panics_and_a_change_that_is_refused_poison_nothing() {
    let board = Workspace::with_a_story();
    for _ in 0..8 {
        refused(&board, Action::SaveMemory(chunk(&"x".repeat(70_000))));
        std::thread::scope(|scope| {
            let read = scope.spawn(|| {
                let panics = std::panic::AssertUnwindSafe(|| {
                    board
                        .store
                        .read(|_| -> Result<(), _> { panic!("a reader that panics") })
                });
                std::panic::catch_unwind(panics).is_err()
            });
            assert!(read.join().expect("joined"));
        });
    }
    keep(&board, chunk("still here"));
    board.act(Action::HookEvent(hook("Stop")));
    assert_eq!(found(&board, "still"), [1]);
}

#[test]
fn w40_a_board_of_an_earlier_schema_can_be_read_where_nothing_can_be_written() {
    let Some(mount) = crate::mount::Mount::tmpfs(16) else {
        return;
    };
    let store = crate::fixture::open(mount.0.path());
    for action in [
        Action::Board(create_project("My App")),
        Action::SaveMemory(chunk("The cache is warm")),
        Action::SaveSession(session("s", "warmed it", &[])),
        Action::Board(Command::RecordUsage(UsageEntry {
            of: None,
            ..used_for("MA-2", 7)
        })),
    ] {
        store.submit_blocking(None, action).expect("done");
    }
    store.close(std::time::Duration::from_secs(1));
    drop(store);
    let raw = Connection::open(mount.0.path().join(".projects/.store/board.db")).expect("opens");
    raw.execute_batch(EARLIER).expect("goes back");
    raw.pragma_update(None, "wal_checkpoint", "TRUNCATE")
        .expect("moved");
    drop(raw);
    mount.remount("ro");
    let store = crate::fixture::open(mount.0.path());
    let size = store.read(|reader| reader.memory_size(&slug()));
    let size = size.expect("readable");
    assert_eq!((size.chunks, size.sessions, size.superseded), (1, 1, 0));
    let chunks = store.read(|reader| reader.chunks(&slug(), &PageRequest::default()));
    assert_eq!(chunks.expect("readable").total, 1);
    let sessions = store.read(|reader| reader.sessions(&slug(), &PageRequest::default()));
    assert_eq!(sessions.expect("readable").items.len(), 1);
    let rows = store.read(|reader| reader.remembered_rows());
    assert_eq!(rows.expect("readable").len(), 2);
    assert_eq!(used(&store), (7, 0));
    drop(store);
    mount.remount("rw");
}

#[test]
fn read_only_board_of_schema_4_lists_issues_by_project_and_by_parent() {
    let Some(mount) = crate::mount::Mount::tmpfs(16) else {
        return;
    };
    let store = crate::fixture::open(mount.0.path());
    for command in [
        create_project("My App"),
        create(orchestra_board::Kind::Epic, None, "Epic"),
        create(orchestra_board::Kind::Story, Some("MA-1"), "Story"),
    ] {
        store
            .submit_blocking(None, Action::Board(command))
            .expect("done");
    }
    store.close(std::time::Duration::from_secs(1));
    drop(store);
    let raw = Connection::open(mount.0.path().join(".projects/.store/board.db")).expect("opens");
    raw.execute_batch(DECOMPOSED).expect("goes back");
    raw.pragma_update(None, "wal_checkpoint", "TRUNCATE")
        .expect("moved");
    drop(raw);
    mount.remount("ro");
    let store = crate::fixture::open(mount.0.path());
    let first = PageRequest::default();
    let all = store.read(|reader| reader.issues(&slug(), &IssueFilter::default(), &first));
    let below = store.read(|reader| reader.children(&slug(), &id("MA-1"), &first));
    drop(store);
    mount.remount("rw");
    assert_eq!(ids_of(&all.expect("readable")), ["MA-1", "MA-2"]);
    assert_eq!(ids_of(&below.expect("readable")), ["MA-2"]);
}
