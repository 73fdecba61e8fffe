//! Commits of an exchanged board by sessions, and their exchange.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{Clones, REFERENCE, tip};
use crate::one_board::git;
use crate::support::{Session, run_directory};

/// Changes a task in a session, which then ends.
pub(super) fn change_in_a_session(clones: &Clones, clone: &Path, task: &str, title: &str) {
    let mut session = Session::start(clones.command(clone, &["stdio"]));
    let change = json!({"project": "my-app", "task_id": task, "title": title});
    session.ok("update_task", &change);
    assert!(session.process.end().success());
}

#[test]
fn session_that_ends_commits_a_board_that_was_exchanged() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    clones.repository.task(&one, "Second");
    clones.sync(&one, &[]);
    clones.sync(&two, &[]);
    let shared = tip(&one);
    change_in_a_session(&clones, &one, "MA-3", "Renamed");
    let subject = git(&one, &["log", "-1", "--format=%s", REFERENCE]);
    assert!(subject.starts_with("MA-3 title: Renamed"), "{subject}");
    let committed = tip(&one);
    assert_eq!(git(&one, &["rev-parse", &format!("{REFERENCE}^")]), shared);
    assert_eq!(tip(&clones.remote()), shared);
    // Without a change, there is nothing to commit.
    let mut session = Session::start(clones.command(&one, &["stdio"]));
    session.ok("list_projects", &json!({}));
    assert!(session.process.end().success());
    assert_eq!(tip(&one), committed);
    let log = clones.run(&one, &["log", "MA-3", "--limit", "1"]);
    assert!(log.out.contains("MA-3 title: Renamed"), "{log:?}");
    let sent = clones.sync(&one, &[]);
    assert!(
        sent["sent"].to_string().contains("MA-3 title: Renamed"),
        "{sent}"
    );
    assert_eq!(tip(&clones.remote()), committed);

    // Both clones have commits that the other one does not have.
    clones.sync(&two, &[]);
    let story =
        json!({"project": "my-app", "epic_id": "MA-1", "title": "Of one", "user_story": "U"});
    clones.repository.call(&one, "create_story", &story);
    change_in_a_session(&clones, &one, "MA-3", "Of one");
    change_in_a_session(&clones, &two, "MA-4", "Of two");
    let comment = json!({"project": "my-app", "issue_id": "MA-3", "text": "After the commit"});
    clones.repository.call(&two, "add_comment", &comment);
    clones.sync(&one, &[]);
    let (ahead, own) = (tip(&one), tip(&two));
    let received = clones.sync(&two, &[]);
    for (side, part) in [
        ("received", "MA-3 title: Of one"),
        ("received", "MA-5 created: Of one"),
        ("sent", "MA-4 title: Of two"),
        ("sent", "MA-3 comment: After the commit"),
    ] {
        assert!(received[side].to_string().contains(part), "{received}");
    }
    let parents = git(&two, &["log", "-1", "--format=%P", REFERENCE]);
    assert_eq!(parents.trim(), format!("{} {}", ahead.trim(), own.trim()));
    clones.sync(&one, &[]);
    assert_eq!(tip(&one), tip(&two));
    // A clone that builds its board from the commits has the same files.
    let three = clones.clone_as("three");
    assert_eq!(clones.sync(&three, &[])["sent"], json!([]));
    for clone in [&one, &two, &three] {
        assert_eq!(clones.get(clone, "MA-3")["title"], "Of one");
        assert!(
            !clones
                .get(clone, "MA-3")
                .to_string()
                .contains("merge-conflict")
        );
        assert_eq!(clones.sync(clone, &[])["sent"], json!([]));
    }
}

#[test]
fn session_commits_no_board_that_was_never_exchanged() {
    let clones = Clones::new();
    let one = clones.one();
    change_in_a_session(&clones, &one, "MA-3", "Renamed");
    assert_eq!(git(&one, &["for-each-ref", "refs/orchestra"]), "");
    clones.sync(&one, &[]);
    let shared = tip(&one);
    // A user who deletes the reference wants no more commits.
    git(&one, &["update-ref", "-d", REFERENCE]);
    change_in_a_session(&clones, &one, "MA-3", "Renamed again");
    assert_eq!(git(&one, &["for-each-ref", REFERENCE]), "");
    let last_attempt = || -> Value {
        let run = run_directory(&one, &clones.repository.workspace.home());
        serde_json::from_slice(&fs::read(run.join("commit.json")).unwrap()).unwrap()
    };
    // No commit is possible before the next exchange.
    assert_eq!(last_attempt()["failures"], u32::MAX);
    clones.sync(&one, &[]);
    assert_eq!(last_attempt()["failures"], 0);
    assert_eq!(tip(&one), tip(&clones.remote()));
    // The history of the remote is that of all clones.
    let parent = format!("{REFERENCE}^");
    assert_eq!(git(&one, &["rev-parse", &parent]), shared);
    git(&one, &["update-ref", REFERENCE, shared.trim()]);
    clones.rename(&one, "MA-3", "Third name");
    let ahead = tip(&clones.remote());
    clones.sync(&one, &[]);
    assert_eq!(git(&one, &["rev-parse", &parent]), ahead);
}
