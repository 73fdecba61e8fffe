//! `orchestra doctor` finds what is wrong and mends it; `orchestra import` takes over old files.

use std::{fs, path::Path};

use orchestra_runner::journal::{Append, Fresh, Journal, Options, PlanKey};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::Workspace;

fn board() -> Workspace {
    filled(Workspace::git())
}

fn filled(workspace: Workspace) -> Workspace {
    workspace.call("create_project", &json!({"name": "My App"}));
    workspace.call(
        "create_epic",
        &json!({"project": "my-app", "title": "Epic"}),
    );
    workspace
}

#[test]
fn a_board_in_order_is_said_to_be() {
    let workspace = board();
    let said = workspace.run(["doctor"]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(0), "everything is in order\n"),
        "{said:?}"
    );
    let report: Value = serde_json::from_str(&workspace.run(["doctor", "--json"]).out).unwrap();
    assert_eq!(report["healthy"], true);
}

#[test]
fn a_broken_file_is_named_and_stays_as_it_is() {
    let workspace = board();
    let path = ".projects/my-app/epics/MA-1/epic.toon";
    let broken = "<<<<<<< ours\ntitle: a\n=======\ntitle: b\n>>>>>>> theirs\n";
    workspace.write(path, broken);
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains("MA-1/epic.toon"), "{said:?}");
    assert_eq!(workspace.read(path), broken);
}

/// The history beside it is set aside with it, and nothing is wrong with that.
#[test]
fn a_wrong_name_is_told_once_with_those_there_are() {
    let workspace = board();
    workspace.call(
        "update_epic",
        &json!({"project": "my-app", "epic_id": "MA-1", "priority": "low"}),
    );
    let path = ".projects/my-app/epics/MA-1/epic.toon";
    let wrong = workspace
        .read(path)
        .replace("priority: low", "priority: hgih");
    workspace.write(path, &wrong);
    let history = ".projects/my-app/epics/MA-1/MA-1.history.jsonl";
    assert!(workspace.join(history).exists());
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    let findings: Vec<&str> = said.out.lines().collect();
    let line = wrong
        .lines()
        .position(|line| line.starts_with("priority"))
        .unwrap();
    let expected = format!(
        "- my-app/epics/MA-1/epic.toon:{}: priority: cannot be `hgih`; it is one of low, medium, \
         high, critical; until then my-app/epics/MA-1/MA-1.history.jsonl is not imported either",
        line + 1
    );
    assert_eq!(findings, [expected.as_str()]);
}

#[test]
fn what_init_installed_and_is_needed_comes_back() {
    let workspace = board();
    workspace.run(["init", "--client", "claude"]);
    workspace.write(".mcp.json", "{}");
    // Whoever does not want a guide, or the server, takes it out.
    fs::remove_file(workspace.join("AGENTS.md")).unwrap();
    assert_eq!(workspace.run(["doctor"]).code, Some(0));
    let script = ".claude/hooks/orchestra-mcp-hook.sh";
    let whole = workspace.read(script);
    workspace.write(script, &whole.replace('\n', "\r\n"));
    assert_eq!(workspace.run(["doctor"]).code, Some(0));
    fs::remove_file(workspace.join(script)).unwrap();
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains("hook.sh is not there"), "{said:?}");
    assert!(said.out.contains("orchestra doctor --fix"), "{said:?}");
    assert_eq!(workspace.run(["doctor", "--fix"]).code, Some(0));
    assert_eq!(workspace.read(script), whole);
    assert!(!workspace.join("AGENTS.md").exists());
    workspace.write(".claude/settings.json", "{");
    let said = workspace.run(["doctor", "--fix"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(
        said.out.contains(".claude/settings.json: not valid"),
        "{said:?}"
    );
}

#[test]
fn a_client_that_starts_what_is_not_there_is_named() {
    let workspace = board();
    let entry =
        json!({"servers": {"orchestra": {"command": "/nowhere/orchestra", "args": ["stdio"]}}});
    workspace.write(".vscode/mcp.json", &entry.to_string());
    workspace.write(".cursor/mcp.json", "{");
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    for finding in [
        ".vscode/mcp.json starts `/nowhere/orchestra`, which is not installed",
        ".cursor/mcp.json: not valid JSON",
    ] {
        assert!(said.out.contains(finding), "{said:?}");
    }
    // What somebody else wrote is nobody's to mend.
    assert_eq!(workspace.run(["doctor", "--fix"]).code, Some(4));
    assert_eq!(workspace.read(".cursor/mcp.json"), "{");
}

#[test]
fn link_out_of_the_git_directory_and_named_pipe_are_reported() {
    let workspace = board();
    let (link, pipe) = (".git/logs/refs/heads/other", "sub/.gitignore");
    fs::create_dir_all(workspace.join(".git/logs/refs/heads")).unwrap();
    workspace.write("sub/file", "");
    workspace.write("outside", "");
    std::os::unix::fs::symlink(workspace.join("outside"), workspace.join(link)).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(workspace.join(pipe))
        .status();
    assert!(made.unwrap().success());
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    for part in [
        link,
        "leads out of the git directory",
        pipe,
        "is a named pipe",
    ] {
        assert!(said.out.contains(part), "{part}: {said:?}");
    }
}

#[test]
fn keys_that_others_can_read_and_a_missing_git_are_told() {
    use std::os::unix::fs::PermissionsExt as _;

    let workspace = board();
    let made = workspace.run(["certs", "init", "--json"]).out;
    let made: Value = serde_json::from_str(&made).unwrap();
    let key = Path::new(made["directory"].as_str().unwrap()).join("ca.key");
    assert_eq!(workspace.run(["token"]).code, Some(0));
    let token = workspace.home().join(".local/state/orchestra/token");
    for secret in [&key, &token] {
        fs::set_permissions(secret, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let mut doctor = workspace.command(["doctor"]);
    let said = doctor.env("PATH", "/nowhere").output().unwrap();
    let out = String::from_utf8_lossy(&said.stdout);
    assert!(out.contains("chmod 600"), "{out}");
    let step = format!("run `chmod o= {}`", token.display());
    assert!(out.contains(&step), "{out}");
    assert!(out.contains("git: "), "{out}");
}

#[test]
fn the_database_comes_back_from_the_files() {
    let shared = board();
    let in_checkout = filled(Workspace::git().with_board_in_checkout());
    let databases = [
        shared.database(),
        in_checkout.join(".projects/.store/board.db"),
    ];
    for (workspace, database) in [shared, in_checkout].iter().zip(databases) {
        let before = workspace.call("list_epics", &json!({"project": "my-app"}));
        fs::remove_dir_all(database.parent().unwrap()).unwrap();
        assert_eq!(
            workspace.call("list_epics", &json!({"project": "my-app"})),
            before
        );
        assert_eq!(workspace.run(["doctor"]).code, Some(0));
    }
}

#[test]
fn a_damaged_database_is_set_aside_and_made_again() {
    let workspace = board();
    let before = workspace.call("list_epics", &json!({"project": "my-app"}));
    fs::write(workspace.database(), "no database\n".repeat(1_000)).unwrap();
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("orchestra doctor --fix"), "{said:?}");
    let said = workspace.run(["doctor", "--fix"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("damaged-store-1"), "{said:?}");
    let aside = workspace.run_directory().join("damaged-store-1/board.db");
    assert!(aside.exists());
    assert_eq!(
        workspace.call("list_epics", &json!({"project": "my-app"})),
        before
    );
}

/// SQLite evaluates such a column when it reads a row or checks the database, and an expression can take any time.
#[test]
fn database_with_a_column_that_is_computed_is_refused_and_made_again() {
    let workspace = board();
    let epics = json!({"project": "my-app"});
    let before = workspace.call("list_epics", &epics);
    let database = Connection::open(workspace.database()).unwrap();
    database
        .execute_batch("ALTER TABLE issue ADD COLUMN planted AS (hex(title))")
        .unwrap();
    database.close().unwrap();
    let said = workspace.run(["tool", "call", "list_projects"]);
    assert!(said.err.contains("orchestra doctor --fix"), "{said:?}");
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("orchestra doctor --fix"), "{said:?}");
    let said = workspace.run(["doctor", "--fix"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(workspace.call("list_epics", &epics), before);
}

/// A database whose first page is whole opens well, whatever became of the others.
#[test]
fn a_database_with_damaged_pages_is_set_aside_and_made_again() {
    let workspace = board();
    for number in 0..12 {
        let arguments = json!({"project": "my-app", "epic_id": "MA-1", "title": format!("Story {number}"), "user_story": "word ".repeat(400)});
        workspace.call("create_story", &arguments);
    }
    let stories = json!({"project": "my-app", "epic_id": "MA-1"});
    let before = workspace.call("list_stories", &stories);
    let database = workspace.database();
    let mut bytes = fs::read(&database).unwrap();
    let words = b"word word word";
    let mut damaged = 0;
    for page in bytes.chunks_mut(4096) {
        if page.windows(words.len()).any(|found| found == words) {
            page.fill(0xA5);
            damaged += 1;
        }
    }
    assert!(damaged > 3, "{damaged}");
    fs::write(&database, bytes).unwrap();

    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains("orchestra doctor --fix"), "{said:?}");
    assert!(!said.out.contains("delete"), "{said:?}");
    let said = workspace.run(["doctor", "--fix"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("damaged-store-1"), "{said:?}");
    assert_eq!(workspace.call("list_stories", &stories), before);
    assert_eq!(workspace.run(["doctor"]).code, Some(0));
}

/// A repository without a board, in which a plan waits to be resumed.
fn with_a_plan() -> Workspace {
    let workspace = Workspace::git();
    workspace.write(
        "plan.yaml",
        "name: Waits\ntargetBranch: waits\njobs:\n- {producerId: one, task: One, work: echo one > one.txt}\n",
    );
    let made = workspace.run(["plan", "create", "plan.yaml"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    workspace
}

#[test]
fn a_damaged_database_of_plans_is_told_and_made_anew() {
    let workspace = with_a_plan();
    let whole = workspace.run(["doctor"]);
    assert_eq!(whole.code, Some(0), "{whole:?}");
    assert!(!workspace.join(".projects").exists());
    let database = workspace.plans().join("plans.db");
    let length = fs::metadata(&database).unwrap().len();
    fs::write(&database, "no database ".repeat(500)).unwrap();
    let told = workspace.run(["doctor"]);
    assert_eq!(told.code, Some(4), "{told:?}");
    assert!(told.out.contains("orchestra doctor --fix"), "{told:?}");
    let mended = workspace.run(["doctor", "--fix"]);
    assert_eq!(mended.code, Some(0), "{mended:?}");
    assert!(mended.out.contains("rebuilt with 1 plans"), "{mended:?}");
    assert!(fs::metadata(&database).unwrap().len() >= length / 2);
    assert_eq!(workspace.run(["doctor"]).code, Some(0));
    for words in [["plan", "resume", "waits"], ["plan", "watch", "waits"]] {
        let said = workspace.run(words);
        assert_eq!(said.code, Some(0), "{said:?}");
    }
}

#[test]
fn readable_files_of_plans_that_are_damaged_are_told_and_written_anew() {
    let workspace = with_a_plan();
    let whole = workspace.run(["doctor"]);
    assert_eq!(whole.code, Some(0), "{whole:?}");
    let plans = fs::read_dir(workspace.plans()).unwrap();
    let plan = plans
        .map(|entry| entry.unwrap().path())
        .find(|path| path.join("plan.json").exists())
        .unwrap();
    let (events, shown) = (plan.join("events.jsonl"), plan.join("plan.json"));
    let read = || (fs::read(&events).unwrap(), fs::read(&shown).unwrap());
    let before = read();
    let text = fs::read_to_string(&events).unwrap();
    let damaged = text.replacen("\"number\":1", "\"number\":2", 1);
    assert_ne!(damaged, text);
    fs::write(&events, damaged).unwrap();
    fs::remove_file(&shown).unwrap();
    let told = workspace.run(["doctor"]);
    assert_eq!(told.code, Some(4), "{told:?}");
    for named in ["events.jsonl", "plan.json", "orchestra doctor --fix"] {
        assert!(told.out.contains(named), "{told:?}");
    }
    let mended = workspace.run(["doctor", "--fix"]);
    assert_eq!(mended.code, Some(0), "{mended:?}");
    assert!(mended.out.contains("written again"), "{mended:?}");
    assert_eq!(read(), before);
    assert_eq!(workspace.run(["doctor"]).code, Some(0));
    // Files with the state at an earlier event are not damaged.
    let text = fs::read_to_string(&shown).unwrap();
    let mut lines = text.lines();
    let number = lines
        .find(|line| line.starts_with("  \"events\":"))
        .unwrap();
    let behind = text.replacen(number, "  \"events\": 0,", 1);
    assert_ne!(behind, text);
    for arguments in [&["doctor"][..], &["doctor", "--fix"]] {
        fs::write(&shown, &behind).unwrap();
        let said = workspace.run(arguments);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(!said.out.contains("plan.json"), "{said:?}");
    }
    assert_eq!(read(), before);
}

#[test]
fn plans_that_are_under_way_and_that_nobody_runs_are_told() {
    let workspace = with_a_plan();
    let go = workspace.home().join("go");
    let wait = format!("while ! test -e '{}'; do sleep 0.02; done", go.display());
    let plan = json!({"name": "Left", "targetBranch": "left", "jobs": [
        {"producerId": "one", "task": "One", "work": format!("{wait}; echo one > one.txt")},
    ]});
    workspace.write("left.json", &plan.to_string());
    let words = ["plan", "run", "left.json", "--json"];
    let mut run = crate::support::Running::start(workspace.command(words));
    while run.json()["phase"] != "work" {}
    let fine = workspace.run(["doctor"]);
    assert_eq!(fine.code, Some(0), "{fine:?}");
    run.kill();
    let told = workspace.run(["doctor"]);
    assert_eq!(told.code, Some(4), "{told:?}");
    assert!(
        told.out.contains("no process runs these plans: plan Left"),
        "{told:?}"
    );
    assert!(!told.out.contains("Waits"), "{told:?}");
    let mended = workspace.run(["doctor", "--fix"]);
    assert_eq!(mended.code, Some(0), "{mended:?}");
    fs::write(&go, "").unwrap();
    let watched = workspace.run(["plan", "watch", "left"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
}

#[test]
fn a_plan_that_a_newer_program_has_changed_is_told_and_hides_no_other() {
    let workspace = with_a_plan();
    let list = || {
        let said = workspace.run(["plan", "list", "--json"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        let list: Value = serde_json::from_str(&said.out).unwrap();
        (list, said.err)
    };
    let (before, _) = list();
    assert!(before.get("unreadable").is_none(), "{before}");
    let id = before["items"][0]["id"].as_str().unwrap();
    workspace.write(
        "other.yaml",
        "name: Other\njobs:\n- {producerId: one, task: One, work: echo two > two.txt}\n",
    );
    let made = workspace.run(["plan", "create", "other.yaml"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let storage = workspace.plans();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let journal = Journal::open(&storage, Options::default()).unwrap();
        let body = json!({"at": 1, "what": {"fromTheFuture": {}}});
        let append = Append {
            plan: PlanKey::parse(id).unwrap(),
            expected: 1,
            events: vec![Fresh::new(1, &body).unwrap()],
            once: None,
        };
        journal.append(append).await.unwrap();
        journal.close().await;
    });
    let (after, said) = list();
    assert_eq!(after["items"].as_array().unwrap().len(), 1, "{after}");
    assert_eq!(after["items"][0]["name"], "Other", "{after}");
    assert_eq!(after["unreadable"][0]["id"], id, "{after}");
    assert!(said.contains("update the program"), "{said}");
    let told = workspace.run(["doctor"]);
    assert_eq!(told.code, Some(4), "{told:?}");
    assert!(told.out.contains(id), "{told:?}");
    let tool = workspace.call("list_copilot_plans", &json!({}));
    assert_eq!(tool["total"], 1, "{tool}");
    let words = tool["unreadable"][0].as_str().unwrap();
    assert!(words.contains("update the program"), "{words}");
    for words in [["plan", "resume", "other"], ["plan", "watch", "other"]] {
        let said = workspace.run(words);
        assert_eq!(said.code, Some(0), "{said:?}");
    }
}

/// Another clone gave the same id to an issue of its own, and its file was checked out over ours.
#[test]
fn file_of_another_clones_issue_is_reported_and_fixed_without_loss() {
    let workspace = board();
    let path = ".projects/my-app/epics/MA-1/epic.toon";
    let ours = workspace.read(path);
    let last = format!("uid: h{}", "7".repeat(25));
    let theirs: String = ours
        .lines()
        .map(|line| match line {
            "title: Epic" => "title: Theirs\n".to_owned(),
            line if line.starts_with("uid: ") => format!("{last}\n"),
            line => format!("{line}\n"),
        })
        .collect();
    workspace.write(path, &theirs);
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(
        said.out.contains("belongs to another issue than MA-1")
            && said.out.contains("doctor --fix"),
        "{said:?}"
    );
    assert_eq!(workspace.read(path), theirs);
    let said = workspace.run(["doctor", "--fix"]);
    assert!(said.out.contains("the younger is MA-2 now"), "{said:?}");
    assert!(workspace.read(path).contains("\ntitle: Epic\n"));
    let moved = workspace.read(".projects/my-app/epics/MA-2/epic.toon");
    assert!(
        moved.contains("\ntitle: Theirs\n") && moved.contains(&last),
        "{moved}"
    );
    assert_eq!(workspace.run(["doctor"]).code, Some(0));
}

/// A forged file, or a backup, that claims the id of the board's issue and to be older.
#[test]
fn older_date_in_a_file_takes_no_id_from_the_board() {
    let workspace = board();
    let path = ".projects/my-app/epics/MA-1/epic.toon";
    let theirs: String = workspace
        .read(path)
        .lines()
        .map(|line| match line {
            "title: Epic" => "title: Theirs\n".to_owned(),
            line if line.starts_with("uid: ") => format!("uid: h{}\n", "7".repeat(25)),
            line if line.starts_with("created_at: ") => {
                "created_at: \"1999-01-01T00:00:00Z\"\n".to_owned()
            }
            line => format!("{line}\n"),
        })
        .collect();
    workspace.write(path, &theirs);
    let epic = || workspace.call("get_epic", &json!({"project": "my-app", "epic_id": "MA-1"}));
    let said = workspace.run(["doctor", "--fix"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    let command = "`--take my-app/epics/MA-1/epic.toon`";
    assert!(said.out.contains(command), "{said:?}");
    assert!(epic().to_string().contains("\"Epic\""), "{}", epic());
    assert_eq!(workspace.read(path), theirs);
    let said = workspace.run(["doctor", "--fix", "--take", path]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(epic().to_string().contains("\"Theirs\""), "{}", epic());
    let moved = workspace.read(".projects/my-app/epics/MA-2/epic.toon");
    assert!(moved.contains("\ntitle: Epic\n"), "{moved}");
}

#[test]
fn file_of_a_deleted_issue_is_reported_and_stays_off_the_board() {
    let workspace = board();
    let path = ".projects/my-app/epics/MA-1/epic.toon";
    let file = workspace.read(path);
    workspace.call(
        "delete_epic",
        &json!({"project": "my-app", "epic_id": "MA-1"}),
    );
    assert!(!workspace.join(path).exists());
    fs::create_dir_all(workspace.join(path).parent().unwrap()).unwrap();
    workspace.write(path, &file);
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(
        said.out.contains("is of an issue that was deleted"),
        "{said:?}"
    );
    let made = workspace.call(
        "create_epic",
        &json!({"project": "my-app", "title": "Next"}),
    );
    assert!(made.to_string().contains("MA-2"), "{made}");
}
