//! The life of what is remembered, in the readable files: what programs write, people edit and git
//! brings back.

use std::fs;

use orchestra_board::{Body, SessionId, Timestamp};
use orchestra_store::{
    Action, Chunk, ChunkId, ChunkPatch, NewChunk, Options, SessionRecord, Store,
};

use crate::board::{Board, PATIENCE, still};
use crate::git::git;
use crate::memory::session;
use crate::words::{body, chunk, slug};

const CHUNKS: &str = "my-app/.memory/chunks.toon";
const SESSION: &str = "my-app/.memory/sessions/s.toon";

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

fn remembered(board: &Board, number: u64) -> Option<Chunk> {
    let chunk = |reader: &orchestra_store::Reader<'_>| reader.chunk(&slug(), ChunkId::new(number));
    board.store.read(chunk).expect("readable")
}

fn kept(board: &Board) -> Option<SessionRecord> {
    let id = SessionId::parse("s").expect("an id");
    let session = |reader: &orchestra_store::Reader<'_>| reader.session(&slug(), &id);
    board.store.read(session).expect("readable")
}

/// A board with a text that was changed and superseded, one with an end, and a session.
fn lived() -> Board {
    let board = Board::with_tasks(Options::default());
    board.remember("we deploy on Fridays");
    board.act(Action::UpdateMemory(Box::new(ChunkPatch {
        summary: Some(body("deploying")),
        ..ChunkPatch::of(slug(), ChunkId::new(1))
    })));
    board.act(Action::SaveMemory(NewChunk {
        supersedes: vec![ChunkId::new(1)],
        expires_at: Some(at("2096-01-01T00:00:00Z")),
        ..chunk("we deploy on Mondays")
    }));
    board.act(Action::SaveSession(session("s", "deployed", &["a"])));
    board.settle();
    board
}

/// Changes a file as somebody does with an editor,
fn edit(board: &Board, path: &str, change: impl Fn(&str) -> String) {
    let full = board.directory.path().join(".projects").join(path);
    let text = fs::read_to_string(&full).expect("reads");
    let changed = change(&text);
    assert_ne!(text, changed);
    fs::write(&full, changed).expect("writes");
}

/// Waits until a text says this.
fn says(board: &Board, number: u64, content: &str) {
    board.wait(content, |board| {
        remembered(board, number).is_some_and(|chunk| chunk.content.as_str() == content)
    });
}

#[test]
fn files_say_all_of_a_life_and_a_board_made_of_them_has_it() {
    let board = lived();
    let (old, new, session) = (remembered(&board, 1), remembered(&board, 2), kept(&board));
    assert!(
        old.as_ref()
            .is_some_and(|old| old.updated_at.is_some() && old.superseded_by.is_some())
    );
    let text = fs::read_to_string(board.path(CHUNKS)).expect("reads");
    for field in [
        "updated_at",
        "expires_at: \"2096-01-01T00:00:00Z\"",
        "superseded_by: mem-2",
    ] {
        assert!(text.contains(field), "{field}: {text}");
    }
    let board = board.rebuilt(|_| {});
    assert_eq!((remembered(&board, 1), remembered(&board, 2)), (old, new));
    assert_eq!(kept(&board), session);
    assert_eq!(board.problems(), "");
}

#[test]
fn files_of_an_earlier_program_are_read() {
    let board = lived().rebuilt(|projects| {
        let earlier = "schema: 1\nproject: my-app\nchunks[1]{id,summary,content,created_at}:\n  \
             mem-7,s,The cache is warm,\"2026-01-05T10:00:00Z\"\nend: true\n";
        fs::write(projects.join(CHUNKS), earlier).expect("writes");
        let earlier = "schema: 1\nsession_id: s\nproject: my-app\nsummary: went well\n\
             started_at: \"2026-01-05T10:00:00Z\"\nended_at: \"2026-01-05T11:00:00Z\"\nend: true\n";
        fs::write(projects.join(SESSION), earlier).expect("writes");
    });
    assert_eq!(board.problems(), "");
    let chunk = remembered(&board, 7).expect("read");
    assert_eq!(
        (chunk.updated_at, chunk.expires_at, chunk.superseded_by),
        (None, None, None)
    );
    assert!(kept(&board).is_some_and(|session| !session.from_hooks));
}

#[test]
fn what_people_edit_is_taken_in() {
    let board = lived();
    edit(&board, CHUNKS, |text| {
        text.replace("2096-01-01", "2097-02-03")
            .replace("    superseded_by: mem-2\n", "")
            .replace("we deploy on Fridays", "we deploy on Thursdays")
    });
    says(&board, 1, "we deploy on Thursdays");
    assert_eq!(remembered(&board, 1).expect("there").superseded_by, None);
    let end = || remembered(&board, 2).and_then(|chunk| chunk.expires_at);
    assert_eq!(end(), Some(at("2097-02-03T00:00:00Z")));
    edit(&board, SESSION, |text| {
        text.replace("summary: deployed", "summary: rolled back")
    });
    board.wait("the session", |board| {
        kept(board).is_some_and(|session| session.summary.as_str() == "rolled back")
    });
    board.settle();
    assert_eq!(board.problems(), "");
    edit(&board, CHUNKS, |text| {
        text.replace("2097-02-03T00:00:00Z", "soon")
    });
    board.wait("a problem", |board| board.problems().contains("expires_at"));
    assert!(end().is_some(), "what is wrong changes nothing");
}

/// The keeper of these files does not watch them, as one that has not heard of an edit yet.
#[test]
fn whoever_asks_takes_in_edits_that_the_keeper_has_not_seen() {
    let keeper = Options {
        watch: false,
        ..Options::default()
    };
    let board = Board::with_tasks(keeper.clone());
    board.remember("we deploy on Fridays");
    board.settle();
    edit(&board, CHUNKS, |text| text.replace("Fridays", "Mondays"));
    let other = Store::open(board.directory.path(), keeper.clone()).expect("opens");
    other.settle(PATIENCE).expect("settles");
    let content = || remembered(&board, 1).map(|chunk| chunk.content.to_string());
    assert_eq!(content().as_deref(), Some("we deploy on Mondays"));
    other.close(PATIENCE);
    // What is removed is gone for good after a moment, which whoever asks waits for.
    fs::remove_file(board.path(CHUNKS)).expect("removed");
    let other = Store::open(board.directory.path(), keeper).expect("opens");
    other.settle(PATIENCE).expect("settles");
    assert_eq!(content(), None);
    other.close(PATIENCE);
}

#[test]
fn texts_that_only_look_alike_may_stand_in_files() {
    let board = lived();
    edit(&board, CHUNKS, |text| {
        text.replace("we deploy on Mondays", "We deploy on FRIDAYS")
    });
    says(&board, 2, "We deploy on FRIDAYS");
    board.settle();
    assert_eq!(board.problems(), "");
    edit(&board, CHUNKS, |text| {
        text.replace("We deploy on FRIDAYS", "we deploy on Fridays")
    });
    board.wait("a problem", |board| {
        board.problems().contains("has the same text")
    });
}

#[test]
fn texts_in_two_unicode_forms_survive_the_schema_that_takes_them_for_the_same() {
    const FORMS: [&str; 2] = ["the caf\u{e9} is open", "the cafe\u{301} is open"];
    let check = |board: &Board| {
        let texts = [1, 2].map(|number| remembered(board, number).expect("is remembered").content);
        assert_eq!(texts.each_ref().map(Body::as_str), FORMS);
        assert_eq!(board.problems(), "");
    };
    let board = Board::with_tasks(still());
    for text in ["first text", "second text"] {
        board.remember(text);
    }
    board.settle();
    let board = board.reopened(still(), |projects| {
        let file = projects.join(CHUNKS);
        let text = fs::read_to_string(&file).expect("reads");
        let text = text.replace("first text", FORMS[0]);
        fs::write(&file, text.replace("second text", FORMS[1])).expect("writes");
        let raw = rusqlite::Connection::open(projects.join(".store/board.db")).expect("opens");
        raw.execute_batch(crate::life::DECOMPOSED)
            .expect("goes back");
        for (number, content) in (1..).zip(FORMS) {
            let sql = "UPDATE chunk SET content = ?2, hash = randomblob(16) WHERE number = ?1";
            raw.execute(sql, (number, content)).expect("writes");
        }
    });
    check(&board);
    board.remember(FORMS[1]);
    board.settle();
    check(&board);
    check(&board.rebuilt(|_| {}));
}

#[test]
fn a_removed_file_of_a_session_removes_it() {
    let board = lived();
    fs::remove_file(board.path(SESSION)).expect("removes");
    board.wait("its removal", |board| kept(board).is_none());
    board.settle();
    assert!(!board.exists(SESSION));
    assert_eq!(board.problems(), "");
}

#[test]
fn a_checkout_brings_back_what_was_remembered() {
    let board = lived();
    let at = board.directory.path();
    git(at, &["init", "-q"]);
    git(at, &["add", "-A"]);
    git(at, &["commit", "-q", "-m", "one"]);
    board.act(Action::ForgetMemory {
        project: slug(),
        id: ChunkId::new(2),
    });
    board.act(Action::ForgetSession {
        project: slug(),
        id: SessionId::parse("s").expect("an id"),
    });
    board.settle();
    assert!(!board.exists(SESSION));
    assert_eq!(remembered(&board, 1).expect("there").superseded_by, None);
    git(at, &["checkout", "-q", "--", ".projects"]);
    board.wait("what was forgotten", |board| {
        remembered(board, 2).is_some() && kept(board).is_some()
    });
    board.settle();
    assert_eq!(
        remembered(&board, 1).expect("there").superseded_by,
        Some(ChunkId::new(2))
    );
    assert_eq!(board.problems(), "");
}

/// The earlier program took a file that it could not read for an empty one, and wrote over it.
#[test]
fn w06_a_broken_file_of_memories_is_left_alone_and_nothing_is_forgotten() {
    let board = lived();
    let whole = board.file(CHUNKS);
    for broken in [
        &whole[..whole.len() / 2],
        "chunks: [nothing of ours",
        "\0\0\0\0",
    ] {
        fs::write(board.path(CHUNKS), broken).expect("writes");
        board.wait("the problem", |board| board.problems().contains(CHUNKS));
        board.remember(&format!("said while {} bytes were left", broken.len()));
        board.settle();
        assert_eq!(board.file(CHUNKS), broken, "not overwritten");
        assert!(remembered(&board, 1).is_some() && remembered(&board, 2).is_some());
        // Mended, it takes in what was said meanwhile.
        fs::write(board.path(CHUNKS), &whole).expect("writes");
        board.wait("the mending", |board| board.problems().is_empty());
        board.settle();
        assert!(board.file(CHUNKS).contains("said while"));
        assert!(remembered(&board, 1).is_some() && remembered(&board, 2).is_some());
    }
    assert!(remembered(&board, 5).is_some());
}
