//! The earlier program's YAML files are taken over once.

use std::fs;
use std::path::Path;

use orchestra_board::{Priority, State};
use orchestra_store::{Action, Fix, PageRequest, Store};

use crate::board::{Board, PATIENCE, still};
use crate::words::{body, chunk, create_project, slug};

fn put(root: &Path, path: &str, text: &str) {
    let full = root.join(".projects").join(path);
    fs::create_dir_all(full.parent().expect("a parent")).expect("makes");
    fs::write(full, text).expect("writes");
}

fn old_workspace(root: &Path) {
    put(
        root,
        "my-app/project-status.toon",
        "project: My App\nslug: my-app\nstatus: active\ncreated_at: 2026-02-14T13:55:45Z\ntasks:\n    - id: MA-1\n      title: Epic\n      status: backlog\n",
    );
    put(root, "my-app/prd.md", "# My App\n\nBy hand.\n");
    put(
        root,
        "my-app/epics/MA-1/epic.toon",
        "id: MA-1\ntitle: 'Fix: T2'\ntype: epic\nstatus: backlog\ncreated_at: 2026-02-14T13:55:45Z\nchildren:\n    - id: MA-2\n      title: Story\n      status: backlog\n",
    );
    put(
        root,
        "my-app/epics/MA-1/stories/MA-2/story.toon",
        "id: MA-2\ntitle: Story\ntype: story\nstatus: backlog\ndescription: |-\n    As a user,\n    I want\ncreated_at: 2026-02-14T13:55:45Z\n",
    );
    put(
        root,
        "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon",
        "id: MA-3\ntitle: \"true\"\ntype: task\nstatus: in-review\npriority: high\ncreated_at: 2026-02-14T13:55:45Z\n",
    );
    put(
        root,
        "my-app/epics/MA-1/stories/MA-2/tasks/BUG-4.toon",
        "id: BUG-4\ntitle: Crash\ntype: bug\nstatus: todo\npriority: urgent\ncreated_at: 2026-02-14T13:55:45Z\n",
    );
    put(
        root,
        "my-app/requests.toon",
        "project: my-app\nrequests:\n    - id: REQ-1\n      type: feature\n      date: 2026-02-14T13:55:45Z\n      description: more\n      status: new\n",
    );
    put(
        root,
        "my-app/.memory/chunks.toon",
        "chunks:\n    - id: mem-1\n      project: my-app\n      source: task\n      source_id: \"\"\n      summary: s\n      content: |-\n        remember\n        this\n      tags: [a, b]\n      created_at: 2026-02-14T13:55:45Z\n",
    );
    put(
        root,
        "my-app/.memory/sessions/s1.toon",
        "session_id: s1\nproject: my-app\nsummary: went well\nevents:\n    - type: note\n      summary: x\n      timestamp: 2026-02-14T13:55:45Z\nstarted_at: 2026-02-14T13:55:45Z\n",
    );
    put(root, "my-app/.memory/sessions/index.toon", "sessions: []\n");
    put(
        root,
        "my-app/plans/a-plan.md",
        "---\ntitle: A: plan\ncreated: 2026-02-14T13:55:45Z\nissue_id: MA-3\n---\n\ndo it\n",
    );
    put(
        root,
        "usage.toon",
        "sessions:\n    - provider: p\n      model: m\n      started_at: 2026-02-14T13:55:45Z\n      requests:\n        - timestamp: 2026-02-14T13:55:45Z\n          input_tokens: 3\n          output_tokens: 4\n          cost: 0.25\n      total_input: 3\n      total_output: 4\n      total_cost: 0.25\ntotals:\n    total_input: 3\n    total_output: 4\n    total_cost: 0.25\n",
    );
    put(
        root,
        ".events/hook-events.toon",
        "events:\n    - event_type: Stop\n      session_id: s1\n      data:\n        secret: hunter2\n      timestamp: 2026-02-14T13:55:45Z\n",
    );
}

#[test]
fn old_files_are_taken_over_once_and_kept_beside() {
    let directory = tempfile::tempdir().expect("a directory");
    old_workspace(directory.path());
    let store = Store::open(directory.path(), still()).expect("opens");
    // Before the import nothing of theirs is touched.
    store.settle(PATIENCE).expect("settles");
    assert!(
        fs::read_to_string(
            directory
                .path()
                .join(".projects/my-app/project-status.toon")
        )
        .expect("reads")
        .starts_with("project:")
    );
    let imported = store.import().expect("imports");
    assert_eq!(
        (imported.projects.len(), imported.issues),
        (1, 4),
        "{imported:?}"
    );
    let backup = imported.backup.clone().expect("a backup");
    assert!(
        fs::read_to_string(backup.join("my-app/epics/MA-1/epic.toon"))
            .expect("reads")
            .contains("'Fix: T2'")
    );
    assert!(backup.join("usage.toon").exists());
    let board = Board { directory, store };
    let task = board.issue("MA-3").expect("there");
    assert_eq!(
        (task.title.as_str(), task.state, task.priority),
        ("true", State::InReview, Some(Priority::High))
    );
    let story = board.issue("MA-2").expect("there");
    assert_eq!(
        (story.state, story.description),
        (State::InProgress, body("As a user,\nI want"))
    );
    assert_eq!(board.title_of("MA-1").as_deref(), Some("Fix: T2"));
    assert!(board.issue("BUG-4").is_some());
    let answers = board.answers();
    for told in [
        "By hand",
        "remember",
        "went well",
        "A: plan",
        "do it",
        "250000000",
        "Stop",
    ] {
        assert!(answers.contains(told), "{told}: {answers}");
    }
    assert!(!answers.contains("hunter2"));
    assert!(
        board
            .file("my-app/project-status.toon")
            .starts_with("schema: 1\n")
    );
    assert!(
        !board.exists("usage.toon")
            && !board.exists("my-app/plans")
            && board.exists("my-app/.plans/a-plan.md")
    );
    assert_eq!(board.problems(), "");
    // A second time there is nothing to do, and the new files alone make the same board.
    assert_eq!(
        board.store.import().expect("imports"),
        orchestra_store::Imported::default()
    );
    let board = board.rebuilt(|_| {});
    assert_eq!(board.answers(), answers);
    let record = board
        .store
        .read(|reader| reader.project(&slug()))
        .expect("reads")
        .expect("there");
    assert_eq!(
        (
            record.project.next_issue,
            record.project.next_bug,
            record.project.next_request
        ),
        (4, 5, 2)
    );
}

#[test]
fn neither_side_takes_the_place_of_the_other() {
    let directory = tempfile::tempdir().expect("a directory");
    old_workspace(directory.path());
    let store = Store::open(directory.path(), still()).expect("opens");
    store.settle(PATIENCE).expect("settles");
    let make = || store.submit_blocking(None, Action::Board(create_project("My App")));
    let refused = make().expect_err("the old files stand there").to_string();
    assert!(refused.contains("`orchestra import`"), "{refused}");
    let report = store.doctor(Fix::Nothing).expect("examines");
    assert_eq!(
        report.findings[0],
        "my-app: is a project of orchestra-mcp; `orchestra import` takes it over"
    );
    // On the board, and old files come back to where it is: as from another branch.
    store.import().expect("imports");
    let old = "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon";
    old_workspace(directory.path());
    let again = store.import().expect("looks");
    assert_eq!(
        (again.projects.len(), again.issues, again.left.len()),
        (0, 0, 1),
        "{again:?}"
    );
    assert!(again.left[0].starts_with("my-app: a project of this name is on the board already"));
    let text = fs::read_to_string(directory.path().join(".projects").join(old)).expect("reads");
    assert!(text.contains("title: \"true\"") && !text.contains("schema:"));
}

#[test]
fn what_the_earlier_program_remembers_of_a_project_on_the_board_is_imported() {
    let board = Board::with_tasks(still());
    board.act(Action::SaveMemory(chunk("ours")));
    board.settle();
    // The earlier program takes our file for an empty one, and writes over it.
    let theirs = "chunks:\n    - id: mem-1\n      project: my-app\n      source: task\n      summary: s\n      content: theirs\n      tags: [a]\n      created_at: 2026-02-14T13:55:45Z\n";
    let file = "my-app/.memory/chunks.toon";
    fs::write(board.path(file), theirs).expect("writes");
    fs::create_dir_all(board.path("my-app/.memory/sessions")).expect("makes");
    fs::write(
        board.path("my-app/.memory/sessions/old.toon"),
        "session_id: old\nproject: my-app\nsummary: went well\nevents: []\nstarted_at: 2026-02-14T13:55:45Z\n",
    )
    .expect("writes");
    for expected in [true, false] {
        let imported = board.store.import().expect("imports");
        assert_eq!(imported.backup.is_some(), expected, "{imported:?}");
        assert_eq!(imported.left, [""; 0]);
        let chunks = board
            .store
            .read(|reader| reader.chunks(&slug(), &PageRequest::default()));
        let mut texts: Vec<String> = chunks
            .expect("readable")
            .items
            .iter()
            .map(|chunk| chunk.content.to_string())
            .collect();
        texts.sort();
        assert_eq!(texts, ["ours", "theirs"]);
        let sessions = board
            .store
            .read(|reader| reader.sessions(&slug(), &PageRequest::default()));
        assert_eq!(sessions.expect("readable").total, 1);
    }
    board.settle();
    let text = board.file(file);
    assert!(
        text.starts_with("schema:") && text.contains("ours") && text.contains("theirs"),
        "{text}"
    );
    assert_eq!(board.problems(), "");
}

/// Replaces a text of an old file, which has it once.
fn edit(root: &Path, path: &str, from: &str, to: &str) {
    let full = root.join(".projects").join(path);
    let text = fs::read_to_string(&full).expect("reads");
    assert_eq!(text.matches(from).count(), 1, "{path}: {from}");
    fs::write(full, text.replace(from, to)).expect("writes");
}

#[test]
fn members_without_a_place_on_the_board_are_reported_once_and_stay_in_the_copy() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    old_workspace(root);
    let story = "my-app/epics/MA-1/stories/MA-2/story.toon";
    let tasks = "my-app/epics/MA-1/stories/MA-2/tasks";
    let [task, bug] = ["MA-3", "BUG-4"].map(|id| format!("{tasks}/{id}.toon"));
    for (path, from, to) in [
        (story, "status: backlog", "status: someday\nestimate: 3"),
        (&task, "status: in-review", "status: someday\nestimate: 5"),
        (
            &bug,
            "status: todo",
            "status: In_Progress\ndescription: [a]",
        ),
        (
            "my-app/project-status.toon",
            "status: active",
            "status: paused\nowner: ada",
        ),
        (
            "my-app/requests.toon",
            "status: new",
            "status: shipped\n      votes: 3",
        ),
        ("my-app/requests.toon", "type: feature", "type: wish"),
        (
            "my-app/.memory/chunks.toon",
            "      source: task",
            "      weight: 2\n      source: task",
        ),
        (
            "my-app/.memory/sessions/s1.toon",
            "summary: went well",
            "mood: good\nsummary: went well",
        ),
        (
            "my-app/plans/a-plan.md",
            "issue_id: MA-3",
            "issue_id: soon\nowner: ada",
        ),
        (
            "usage.toon",
            "provider: p",
            "currency: eur\n      provider: p",
        ),
        (
            ".events/hook-events.toon",
            "session_id: s1",
            "trace: t\n      session_id: s1",
        ),
    ] {
        edit(root, path, from, to);
    }
    put(
        root,
        "my-app/prd-session.toon",
        "project_name: my-app\nslug: my-app\nstatus: half\ncurrent_index: 0\nanswers:\n    - question: mood\n      answer: fine\n",
    );
    put(
        root,
        "my-app/.memory/sessions/a b.toon",
        "session_id: a b\nproject: my-app\nsummary: spaced\nstarted_at: 2026-02-14T13:55:45Z\n",
    );
    put(
        root,
        "my-app/plans/A plan.md",
        "---\ntitle: a-plan\n---\n\nagain\n",
    );
    let store = Store::open(root, still()).expect("opens");
    let imported = store.import().expect("imports");
    assert_eq!(
        (imported.issues, imported.left.len()),
        (4, 0),
        "{imported:?}"
    );
    let alone = |what: &str, of: &str, path: &str| {
        format!("{what} of one {of} is in the copy alone: {path}")
    };
    for expected in [
        format!(
            "{story} and 1 more: status was `someday`, which is not known here; it is `backlog` now"
        ),
        format!(
            "`estimate` is in the copy alone; 2 entries of the kind `issue` have it, first in {story}"
        ),
        alone("`description`", "issue", &bug),
        alone("`status: paused`", "project", "my-app/project-status.toon"),
        alone("`owner`", "project", "my-app/project-status.toon"),
        alone("`status: shipped`", "request", "my-app/requests.toon"),
        alone("`votes`", "request", "my-app/requests.toon"),
        alone("`type: wish`", "request", "my-app/requests.toon"),
        alone("`weight`", "remembered text", "my-app/.memory/chunks.toon"),
        alone("`mood`", "session", "my-app/.memory/sessions/s1.toon"),
        alone("`status: half`", "questionnaire", "my-app/prd-session.toon"),
        alone("`question: mood`", "answer", "my-app/prd-session.toon"),
        alone("`issue_id: soon`", "plan", "my-app/plans/a-plan.md"),
        alone("`owner: ada`", "plan", "my-app/plans/a-plan.md"),
        alone("`currency`", "session of usage", "usage.toon"),
        alone("`trace`", "hook event", ".events/hook-events.toon"),
        "my-app/.memory/sessions/a b.toon: the session is a-b now".to_owned(),
    ] {
        let count = imported
            .remarks
            .iter()
            .filter(|remark| **remark == expected)
            .count();
        assert_eq!(count, 1, "{expected}: {:#?}", imported.remarks);
    }
    let backup = imported.backup.clone().expect("a backup");
    for (path, text) in [
        (story, "estimate: 3"),
        (&bug, "description: [a]"),
        ("usage.toon", "eur"),
    ] {
        let copy = fs::read_to_string(backup.join(path)).expect("reads");
        assert!(copy.contains(text), "{path}: {copy}");
    }
    let board = Board { directory, store };
    assert_eq!(
        board.issue("BUG-4").expect("there").state,
        State::InProgress
    );
    let answers = board.answers();
    for text in ["spaced", "do it", "again"] {
        assert!(answers.contains(text), "{text}: {answers}");
    }
    assert_eq!(board.problems(), "");
}

#[test]
fn what_the_earlier_program_remembers_of_an_unknown_project_waits_for_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    put(
        root,
        "my-app/.memory/chunks.toon",
        "chunks:\n    - id: mem-1\n      project: my-app\n      summary: s\n      content: theirs\n      created_at: 2026-02-14T13:55:45Z\n",
    );
    let store = Store::open(root, still()).expect("opens");
    let imported = store.import().expect("imports");
    let expected = "my-app/.memory/chunks.toon is of no project on the board; create `my-app`, then import again";
    assert_eq!(
        (imported.backup, &imported.left[..]),
        (None, &[expected.to_owned()][..])
    );
    let board = Board { directory, store };
    board.act(Action::Board(create_project("My App")));
    let imported = board.store.import().expect("imports");
    assert_eq!(imported.left, [""; 0]);
    assert!(board.answers().contains("theirs"));
}
