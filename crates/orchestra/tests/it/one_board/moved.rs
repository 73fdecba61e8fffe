//! Directories and settings that change while a program has the board open.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::process::Signal;
use serde_json::json;

use super::{ONE_BOARD, Repository, git};
use crate::support::{Running, Session, post_to, said, until};

impl Repository {
    /// Moves the main checkout away, and returns its new path.
    fn move_away(&self) -> PathBuf {
        let moved = self.main().with_file_name("moved");
        fs::rename(self.main(), &moved).unwrap();
        moved.canonicalize().unwrap()
    }

    /// Creates an epic with the command line in a directory, and returns its id.
    fn epic(&self, directory: &Path) -> String {
        let epic = json!({"project": "my-app", "title": "E"});
        let made = self.call(directory, "create_epic", &epic);
        made["id"].as_str().unwrap().to_owned()
    }

    fn set_configuration(&self, text: &str) {
        let file = self
            .workspace
            .home()
            .join(".config/orchestra/orchestra.toml");
        // As an editor saves it.
        let new = file.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &file).unwrap();
    }
}

#[test]
fn session_of_a_repository_that_moves_changes_nothing_at_its_earlier_path() {
    for config in [ONE_BOARD, "place = \"state\"\n", "board = \"checkout\"\n"] {
        let repository = Repository::new(config);
        let main = repository.main();
        repository.fill();
        let mut session = Session::start(repository.command(&main, &["stdio"]));
        let epic = json!({"project": "my-app", "title": "Acknowledged"});
        let made = session.ok("create_epic", &epic);
        assert_eq!(made["id"], "MA-4", "{config}: {made}");
        let written = main.join(".projects/my-app/epics/MA-4/epic.toon");
        until(|| written.is_file().then_some(()));
        let moved = repository.move_away();
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "--quiet"]);
        let refused = session.refused("create_epic", &epic);
        assert!(refused.contains("was moved to"), "{config}: {refused}");
        assert!(
            refused.contains(&*moved.to_string_lossy()),
            "{config}: {refused}"
        );
        assert!(session.process.end().success(), "{config}");
        assert!(!main.join(".projects").exists(), "{config}");
        assert!(!main.join(".git/.orchestra").exists(), "{config}");
        // What was acknowledged is there, and the next id was given to nothing else.
        let asked = json!({"project": "my-app", "epic_id": "MA-4"});
        let found = repository.call(&moved, "get_epic", &asked);
        assert_eq!(found["title"], "Acknowledged", "{config}: {found}");
        assert_ne!(repository.epic(&moved), "MA-4", "{config}");
    }
}

#[test]
fn board_of_a_repository_that_moved_is_used_at_its_new_path_while_a_session_is_open() {
    let repository = Repository::new(ONE_BOARD);
    repository.fill();
    let mut session = Session::start(repository.command(&repository.main(), &["stdio"]));
    session.ok("create_epic", &json!({"project": "my-app", "title": "E"}));
    let moved = repository.move_away();
    assert_eq!(repository.epic(&moved), "MA-5");
    // The session no longer writes the files, so that the command does.
    assert!(
        moved
            .join(".projects/my-app/epics/MA-5/epic.toon")
            .is_file()
    );
    assert!(!repository.main().exists());
    assert!(session.process.end().success());
    assert!(!repository.main().exists());
}

#[test]
fn up_ends_when_its_repository_moves_and_names_the_new_path() {
    let repository = Repository::new(ONE_BOARD);
    repository.fill();
    let words = ["up", "--http", "127.0.0.1:0", "--json"];
    let serving = repository.command(&repository.main(), &words);
    let ended = std::thread::spawn(move || said(serving, ""));
    let endpoint = repository.workspace.run_directory().join("endpoint.json");
    until(|| endpoint.is_file().then_some(()));
    let moved = repository.move_away();
    let said = ended.join().unwrap();
    assert_eq!(said.code, Some(1), "{said:?}");
    let there = format!("was moved to {}", moved.join(".git").display());
    assert!(said.err.contains(&there), "{said:?}");
    assert!(!repository.main().exists());
    let words = ["up", "--http", "127.0.0.1:0", "--json"];
    let next = Running::start(repository.command(&moved, &words));
    assert_eq!(next.json()["already_running"], false);
}

#[test]
fn up_whose_git_directory_is_removed_refuses_changes_and_copies_the_board_into_the_next_one() {
    let repository = Repository::new(ONE_BOARD);
    let main = repository.main();
    repository.fill();
    let log = repository.workspace.home().join("up.log");
    let endpoint = repository.workspace.run_directory().join("endpoint.json");
    let words = ["up", "--http", "127.0.0.1:0", "--json"];
    let serving = repository.command(&main, &words);
    let mut serving = Running::with_stderr(serving, fs::File::create(&log).unwrap());
    let ready = serving.json();
    let address = ready["http"].as_str().unwrap();
    let address = address.strip_prefix("http://").unwrap().to_owned();
    let epic = |title: &str| {
        let arguments = json!({"project": "my-app", "title": title});
        let body = json!({"name": "create_epic", "arguments": arguments}).to_string();
        post_to(&address, "/api/mcp/tools/call", &[], &body).body
    };
    let removed = "was removed while a program has its board open";
    for (removals, (acknowledged, id)) in (1..).zip([("First", "MA-4"), ("Second", "MA-5")]) {
        // Removed at once: the readable file may not be there yet.
        let answer = epic(acknowledged);
        assert!(answer.contains(id), "{answer}");
        until(|| {
            let _ = fs::remove_dir_all(main.join(".git"));
            (!main.join(".git").exists()).then_some(())
        });
        until(|| {
            let text = fs::read_to_string(&log).unwrap();
            let is_noticed = text.matches("changes are refused until").count() == removals;
            assert_eq!(serving.ended(), None, "{text}");
            is_noticed.then_some(())
        });
        let refused = epic("Refused");
        assert!(refused.contains(removed), "{refused}");
        let arguments = json!({"project": "my-app", "title": "Refused"}).to_string();
        let refused = repository.run(
            &main,
            &["tool", "call", "create_epic", "--args", &arguments],
        );
        assert!(refused.err.contains(removed), "{refused:?}");
        git(&main, &["init", "--quiet"]);
        // The same program serves the board again, and other programs find it.
        until(|| endpoint.is_file().then_some(()));
        let again = repository.run(&main, &words);
        let again: serde_json::Value = serde_json::from_str(&again.out).unwrap();
        assert_eq!(
            (&again["already_running"], &again["http"]),
            (&json!(true), &ready["http"])
        );
        let asked = json!({"project": "my-app", "epic_id": id});
        let found = repository.call(&main, "get_epic", &asked);
        assert_eq!(found["title"], acknowledged, "{found}");
    }
    let answer = epic("Third");
    assert!(answer.contains("MA-6"), "{answer}");
    serving.signal(Signal::TERM);
    assert!(serving.end().success());
    let listed = repository.call(&main, "list_epics", &json!({"project": "my-app"}));
    for title in ["First", "Second", "Third"] {
        assert!(listed.to_string().contains(title), "{title}: {listed}");
    }
    assert!(!listed.to_string().contains("Refused"), "{listed}");
}

#[test]
fn session_refuses_calls_after_a_setting_places_its_board_elsewhere() {
    let repository = Repository::new("");
    let main = repository.main();
    repository.fill();
    let mut session = Session::start(repository.command(&main, &["stdio"]));
    let all = json!({});
    session.ok("list_projects", &all);
    for setting in ["place = \"state\"\n", "board = \"checkout\"\n"] {
        repository.set_configuration(setting);
        for (tool, arguments) in [
            ("list_projects", &all),
            ("create_project", &json!({"name": "Other"})),
        ] {
            let refused = session.refused(tool, arguments);
            assert!(
                refused.contains("the configuration was changed"),
                "{setting}: {refused}"
            );
        }
        // A change of another setting is none.
        repository.set_configuration("log = \"error\"\n");
        session.ok("list_projects", &all);
    }
    // A file that is wrong does not end what runs.
    repository.set_configuration("place = ");
    session.ok("list_projects", &all);
    assert!(session.process.end().success());
}

#[test]
fn session_in_a_worktree_continues_after_files_of_the_checkouts_set_a_board_of_their_own() {
    let repository = Repository::new("");
    let (main, linked) = (repository.main(), repository.linked());
    repository.fill();
    let setting = "board = \"checkout\"\n";
    // The file of a worktree alone does not split the board.
    fs::write(linked.join("orchestra.toml"), setting).unwrap();
    let mut session = Session::start(repository.command(&linked, &["stdio"]));
    let listed = session.ok("list_projects", &json!({}));
    assert!(listed.to_string().contains("my-app"), "{listed}");
    // Nor does that of the main checkout.
    fs::write(main.join("orchestra.toml"), setting).unwrap();
    session.ok("create_project", &json!({"name": "Other"}));
    assert!(!main.join(".projects/.store").exists());
    assert!(session.process.end().success());
}

#[test]
fn session_refuses_calls_after_its_workspace_is_listed_as_safe_no_more() {
    let repository = Repository::new("");
    let main = repository.main();
    let separate = repository.workspace.home().join("separate");
    let git_directory = main.join(".git");
    fs::rename(&git_directory, &separate).unwrap();
    fs::write(&git_directory, format!("gitdir: {}\n", separate.display())).unwrap();
    repository.set_configuration("safe_directories = [\"*\"]\n");
    repository.fill();
    let mut session = Session::start(repository.command(&main, &["stdio"]));
    session.ok("list_projects", &json!({}));
    repository.set_configuration("");
    let refused = session.refused("list_projects", &json!({}));
    assert!(refused.contains("safe_directories"), "{refused}");
    repository.set_configuration("safe_directories = [\"*\"]\n");
    session.ok("list_projects", &json!({}));
    assert!(session.process.end().success());
}

#[test]
fn session_continues_after_its_worktree_is_moved() {
    let repository = Repository::new(ONE_BOARD);
    repository.fill();
    let (main, linked) = (repository.main(), repository.linked());
    fs::write(linked.join("orchestra.toml"), "log = \"error\"\n").unwrap();
    let mut session = Session::start(repository.command(&linked, &["stdio"]));
    let epic = json!({"project": "my-app", "title": "E"});
    session.ok("create_epic", &epic);
    git(&main, &["worktree", "move", "../linked", "../elsewhere"]);
    let made = session.ok("create_epic", &epic);
    let asked = json!({"project": "my-app", "epic_id": made["id"]});
    repository.call(&main, "get_epic", &asked);
    assert!(session.process.end().success());
    assert!(!linked.exists());
}
