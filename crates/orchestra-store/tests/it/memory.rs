//! What is remembered: texts and sessions.

use orchestra_board::{Command, SessionId};
use orchestra_store::{
    Action, ChunkId, ContextItem, Made, MemoryFilter, NewSession, NewSessionEvent, PageRequest,
    Recall, SessionRecord, Store, WantedWord,
};

use crate::fixture::{Workspace, options};
use crate::words::{body, chunk, label, slug, target};

fn found(board: &Workspace, query: &str) -> Vec<String> {
    let hits = board.read(|reader| reader.search_memory(&slug(), query, 10));
    assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
    hits.into_iter()
        .map(|hit| hit.item.id.to_string())
        .collect()
}

pub(crate) fn session(id: &str, summary: &str, events: &[&str]) -> NewSession {
    let event = |text: &&str| NewSessionEvent {
        kind: label("note"),
        summary: body(text),
        at: None,
    };
    NewSession {
        project: slug(),
        id: SessionId::parse(id).expect("an id"),
        summary: body(summary),
        events: events.iter().map(event).collect(),
        started_at: None,
        ended_at: None,
        from_hooks: false,
    }
}

pub(crate) fn save(board: &Workspace, new: NewSession) -> SessionRecord {
    match board.act(Action::SaveSession(new)).made {
        Made::Session(session) => session,
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_are_ranked_and_not_matched_by_parts_of_words() {
    let board = Workspace::with_a_story();
    board.remember("the database uses write-ahead logging");
    board.remember("tags are kept in a table of their own");
    let mut tagged = chunk("something else");
    tagged.tags = vec![label("database")];
    tagged.summary = body("about storage");
    board.act(Action::SaveMemory(tagged));
    assert_eq!(
        found(&board, "ta"),
        ["mem-2"],
        "a beginning, and not the middle of `database`"
    );
    assert_eq!(found(&board, "database logging"), ["mem-1", "mem-3"]);
    assert_eq!(found(&board, "storage"), ["mem-3"]);
    assert_eq!(found(&board, "absent"), [""; 0]);
    assert_eq!(found(&board, ""), ["mem-3", "mem-2", "mem-1"], "the newest");
}

#[test]
fn the_same_text_is_kept_once() {
    let board = Workspace::with_a_story();
    let mut first = chunk("the same");
    first.tags = vec![label("a")];
    board.act(Action::SaveMemory(first));
    let mut second = chunk("the same");
    (second.tags, second.summary) = (vec![label("b"), label("a")], body("now with a summary"));
    match board.act(Action::SaveMemory(second)).made {
        Made::Chunk { chunk, merged } => {
            assert!(merged);
            assert_eq!(chunk.id, ChunkId::new(1));
            assert_eq!(chunk.tags, [label("a"), label("b")]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        board
            .read(|reader| reader.chunks(&slug(), &PageRequest::default()))
            .total,
        1
    );
    assert_eq!(found(&board, "summary"), ["mem-1"]);
}

#[test]
fn forgotten_texts_are_gone_and_their_ids_stay_theirs() {
    let board = Workspace::with_a_story();
    board.remember("one");
    board.remember("two");
    let id = ChunkId::new(2);
    board.act(Action::ForgetMemory {
        project: slug(),
        id,
    });
    assert_eq!(found(&board, "two"), [""; 0]);
    let error = board
        .try_act(Action::ForgetMemory {
            project: slug(),
            id,
        })
        .expect_err("gone");
    assert!(error.to_string().contains("mem-2 not found"), "{error}");
    board.remember("three");
    assert_eq!(found(&board, "three"), ["mem-3"]);
}

#[test]
fn sessions_keep_their_beginning_and_their_events() {
    let board = Workspace::with_a_story();
    let first = save(&board, session("s.1", "began", &["one", "two"]));
    board.clock.pass(60);
    let second = save(&board, session("s.1", "went on", &[]));
    assert_eq!(
        (second.started_at, second.events.len()),
        (first.started_at, 2)
    );
    assert_eq!(
        second.ended_at.unix_seconds() - second.started_at.unix_seconds(),
        60
    );
    save(&board, session("s.2", "another", &[]));
    let page = board.read(|reader| reader.sessions(&slug(), &PageRequest::first(1)));
    assert_eq!((page.total, page.items[0].id.as_str()), (2, "s.1"));
    let cursor = page
        .next_cursor
        .map(|cursor| orchestra_store::Cursor::parse(&cursor).expect("a cursor"));
    let page = board.read(|reader| reader.sessions(&slug(), &PageRequest { limit: 1, cursor }));
    assert_eq!((page.items[0].id.as_str(), page.next_cursor), ("s.2", None));
}

#[test]
fn sessions_of_the_same_id_in_two_projects_are_two() {
    let board = Workspace::with_a_story();
    board.make_project("Other");
    save(&board, session("s", "here", &[]));
    let mut other = session("s", "there", &[]);
    other.project = orchestra_board::Slug::parse("other").expect("a slug");
    save(&board, other);
    let id = SessionId::parse("s").expect("an id");
    let here = board
        .read(|reader| reader.session(&slug(), &id))
        .expect("there");
    assert_eq!(here.summary.as_str(), "here");
}

#[test]
fn context_mixes_texts_and_sessions() {
    let board = Workspace::with_a_story();
    board.remember("the parser is recursive");
    save(&board, session("s", "rewrote the parser", &[]));
    let hits = board.read(|reader| reader.context(&slug(), "parser", 5));
    let kinds: Vec<bool> = hits
        .iter()
        .map(|hit| matches!(hit.item, ContextItem::Chunk(_)))
        .collect();
    assert_eq!(kinds.len(), 2);
    assert!(kinds.contains(&true) && kinds.contains(&false));
}

#[test]
fn memory_of_a_project_that_is_not_there_is_refused() {
    let board = Workspace::with_a_story();
    board.run(Command::DeleteProject { project: slug() });
    assert!(
        board
            .try_act(Action::SaveMemory(chunk("x")))
            .expect_err("gone")
            .to_string()
            .contains("not found")
    );
    assert!(
        board
            .store
            .read(|reader| reader.search_memory(&slug(), "x", 1))
            .is_err()
    );
}

#[test]
fn plans_are_kept_by_title() {
    let board = Workspace::with_a_story();
    let plan = |title: &str, content: &str, replace: bool| Action::SavePlan {
        project: slug(),
        title: crate::words::title(title),
        content: body(content),
        issue: (!replace).then(|| target("MA-1").id),
        replace,
    };
    let saved = |action| match board.act(action).made {
        Made::Plan(plan) => plan.id.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(saved(plan("A plan", "one", false)), "a-plan");
    let again = board.try_act(plan("A plan", "lost", false));
    let refused = again.expect_err("it is there").to_string();
    assert!(
        refused.contains("`a-plan.md`") && refused.contains("replace: true"),
        "{refused}"
    );
    assert_eq!(saved(plan("A plan", "two", true)), "a-plan");
    assert_eq!(saved(plan("a plan!", "three", false)), "a-plan-2");
    assert_eq!(saved(plan("!!!", "four", true)), "plan-1");
    let replaced = board.read(|reader| {
        reader.plan(
            &slug(),
            &orchestra_board::PlanId::parse("a-plan").expect("an id"),
        )
    });
    assert_eq!(
        replaced.expect("there").0.issue,
        Some(target("MA-1").id),
        "it stays about its issue"
    );
    let plan = |id: &str| {
        let id = orchestra_board::PlanId::parse(id).expect("an id");
        board
            .read(|reader| reader.plan(&slug(), &id))
            .expect("there")
            .1
    };
    assert_eq!(
        (plan("a-plan").as_str(), plan("a-plan-2").as_str()),
        ("two", "three")
    );
    assert_eq!(
        board
            .read(|reader| reader.plans(&slug(), &PageRequest::default()))
            .total,
        3
    );
}

#[test]
fn what_older_schemas_remember_is_found_by_the_stems_of_its_words() {
    let board = Workspace::with_a_story();
    let mut text = chunk("the webhooks were retried");
    text.source_id = Some(label("LK-7"));
    board.act(Action::SaveMemory(text));
    save(
        &board,
        session("s", "summary", &["the lexer was rewritten"]),
    );
    let Workspace {
        directory,
        clock,
        store,
    } = board;
    drop(store);
    let database = directory.path().join(".projects/.store/board.db");
    let database = rusqlite::Connection::open(database).expect("opens");
    let older = "DROP TABLE memory_text; CREATE VIRTUAL TABLE memory_text USING fts5 (summary, content, tags, \
         content = '', contentless_delete = 1); PRAGMA user_version = 2";
    database
        .execute_batch(crate::life::EARLIER)
        .expect("goes back");
    database.execute_batch(older).expect("goes back");
    drop(database);
    let store = Store::open(directory.path(), options(&clock)).expect("opens");
    let rows = |word: &str| {
        let wanted = WantedWord {
            forms: vec![word.to_owned()],
            tells: true,
        };
        let recall = Recall {
            words: &[wanted],
            filter: &MemoryFilter::default(),
            sessions: true,
            most: 10,
        };
        let found = store.read(|reader| reader.recall(&slug(), &recall));
        found.expect("read").rows.len()
    };
    for word in ["webhook", "webhooks", "retri", "lexer", "lk"] {
        assert_eq!(rows(word), 1, "{word}");
    }
    assert_eq!(rows("hooks"), 0);
}
