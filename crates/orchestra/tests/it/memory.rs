//! `orchestra memory`: what is remembered, from the shell.

use serde_json::{Value, json};

use crate::support::{Said, Workspace};

fn board(name: &str) -> Workspace {
    let workspace = Workspace::board();
    workspace.call("create_project", &json!({"name": name}));
    workspace
}

fn memory(workspace: &Workspace, arguments: &[&str]) -> Said {
    workspace.run([&["memory"], arguments].concat())
}

fn done(workspace: &Workspace, arguments: &[&str]) -> String {
    let said = memory(workspace, arguments);
    assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
    said.out
}

fn answer(workspace: &Workspace, arguments: &[&str]) -> Value {
    let text = done(workspace, &[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn what_is_saved_is_found_listed_shown_and_forgotten() {
    let workspace = board("My App");
    let text = "We deploy on Mondays\nbecause nobody works on Sundays";
    let said = done(
        &workspace,
        &["save", text, "--tag", "deploy", "--tag", "ops"],
    );
    assert_eq!(said, "saved mem-1\n");
    let said = done(
        &workspace,
        &[
            "save",
            "we  DEPLOY on mondays because nobody works on sundays",
        ],
    );
    assert_eq!(said, "merged with mem-1, which has the same text\n");
    let said = done(&workspace, &["search", "deploy", "on", "Mondays"]);
    assert!(said.starts_with("mem-1  1.000  "), "{said}");
    let listed = done(&workspace, &["list", "--tag", "ops"]);
    assert!(
        listed.contains("mem-1") && listed.contains("deploy, ops"),
        "{listed}"
    );
    let shown = done(&workspace, &["show", "mem-1"]);
    assert!(shown.contains("\nWe deploy on Mondays\nbecause"), "{shown}");
    let newer = [
        "save",
        "We deploy daily",
        "--supersedes",
        "mem-1",
        "--expires-in-days",
        "7",
    ];
    done(&workspace, &newer);
    let found = answer(&workspace, &["search", "deploy"]);
    assert_eq!(
        (&found["total"], &found["items"][0]["id"]),
        (&json!(1), &json!("mem-2"))
    );
    let found = answer(&workspace, &["search", "deploy", "--superseded"]);
    assert_eq!(found["total"], 2);
    let old = done(&workspace, &["list", "--state", "superseded"]);
    assert!(old.contains("superseded by mem-2"), "{old}");
    let stats = answer(&workspace, &["stats"]);
    assert_eq!(
        (
            &stats["items"][0]["memories"],
            &stats["items"][0]["superseded"]
        ),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        done(&workspace, &["forget", "mem-1", "mem-2"]),
        "mem-1, mem-2 forgotten\n"
    );
    assert_eq!(
        done(&workspace, &["search", "deploy"]),
        "no memories in my-app; `orchestra memory save TEXT` stores one, and `orchestra memory import \
         FILE` stores many\n"
    );
    let said = memory(&workspace, &["show", "mem-1"]);
    assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "{said:?}");
    assert!(said.err.contains("mem-1 not found"), "{said:?}");
}

#[test]
fn sessions_are_shown_and_forgotten_by_their_ids() {
    let workspace = board("My App");
    let events =
        json!([{"type": "note", "summary": "read the code", "timestamp": "2026-01-05T10:00:00Z"}]);
    let session = json!({"project": "my-app", "session_id": "s-1", "summary": "Looked around", "events": events});
    workspace.call("save_session", &session);
    let shown = done(&workspace, &["show", "s-1"]);
    assert!(
        shown.contains("Looked around")
            && shown.contains("2026-01-05T10:00:00Z  note: read the code"),
        "{shown}"
    );
    done(&workspace, &["forget", "s-1"]);
    assert_eq!(memory(&workspace, &["show", "s-1"]).code, Some(3));
}

#[test]
fn which_project_is_meant_is_asked_where_there_are_several() {
    let workspace = Workspace::board();
    let said = memory(&workspace, &["list"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    for name in ["One", "Two"] {
        workspace.call("create_project", &json!({"name": name}));
    }
    let said = memory(&workspace, &["list"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("--project: one, two"), "{said:?}");
    done(&workspace, &["save", "a fact", "--project", "two"]);
    assert_eq!(
        answer(&workspace, &["list", "--project", "one"])["total"],
        0
    );
    assert_eq!(answer(&workspace, &["stats"])["total"], 2);
    let nowhere = Workspace::git();
    let said = memory(&nowhere, &["stats"]);
    assert!(
        said.code != Some(0) && said.err.contains("no board"),
        "{said:?}"
    );
}

/// Whoever asks for what is not there is told which command helps.
#[test]
fn every_answer_says_what_to_do() {
    let workspace = Workspace::board();
    let make = "`orchestra tool call create_project name=NAME` creates one";
    assert!(done(&workspace, &["stats"]).contains(make));
    for command in ["search", "show", "forget", "save"] {
        let said = memory(&workspace, &[command, "mem-1"]);
        assert_eq!(said.code, Some(3), "{said:?}");
        assert!(said.err.contains(make), "{said:?}");
    }
    workspace.call("create_project", &json!({"name": "My App"}));
    for words in [vec!["search", "the of"], vec!["search", ""], vec!["list"]] {
        let said = done(&workspace, &words);
        assert!(
            said.contains("`orchestra memory save TEXT`"),
            "{words:?}: {said}"
        );
        assert_eq!(answer(&workspace, &words), json!({"items": [], "total": 0}));
    }
    done(&workspace, &["save", "the lock of the queue"]);
    for words in [vec!["search", "zebra"], vec!["list", "--tag", "none"]] {
        let said = done(&workspace, &words);
        assert!(
            said.contains("`orchestra memory list "),
            "{words:?}: {said}"
        );
    }
    let common = &answer(&workspace, &["search", "the of"])["items"][0];
    assert_eq!(common["why"], "has common words alone", "{common}");
    for (words, told) in [
        (vec!["show", "mem-7"], "`orchestra memory list`"),
        (
            vec!["show", "s-7"],
            "`orchestra tool call list_sessions` shows them",
        ),
        (vec!["forget", "mem-7"], "`orchestra memory list`"),
        (
            vec!["search", "x", "--project", "nope"],
            "`orchestra tool call list_projects` shows",
        ),
        (
            vec!["stats", "--project", "nope"],
            "`orchestra tool call list_projects` shows",
        ),
        (
            vec!["export", "--project", "nope"],
            "`orchestra tool call list_projects` shows",
        ),
    ] {
        let said = memory(&workspace, &words);
        assert_eq!(said.code, Some(3), "{words:?}: {said:?}");
        assert!(said.err.contains(told), "{words:?}: {said:?}");
    }
    let said = memory(&workspace, &["import", "."]);
    assert!(said.err.contains("read .: "), "{said:?}");
}

#[test]
fn an_export_is_imported_whole_and_again_without_change() {
    let workspace = board("My App");
    done(
        &workspace,
        &["save", "old \"news\"\nin two lines", "--source", "user"],
    );
    done(
        &workspace,
        &[
            "save",
            "better news",
            "--supersedes",
            "mem-1",
            "--tag",
            "a,b",
        ],
    );
    done(
        &workspace,
        &["save", "for a while", "--expires-in-days", "3"],
    );
    let events = json!([{"type": "note", "summary": "x", "timestamp": "2026-01-05T10:00:00Z"}]);
    let session =
        json!({"project": "my-app", "session_id": "s-1", "summary": "S", "events": events});
    workspace.call("save_session", &session);
    let file = workspace.join("out.jsonl").display().to_string();
    assert_eq!(
        done(&workspace, &["export", &file]),
        "exported 3 memories and 1 session\n"
    );
    let lines = workspace.read("out.jsonl");
    assert_eq!(lines, done(&workspace, &["export"]), "the same on stdout");
    assert!(
        lines
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok())
    );
    let again = answer(&workspace, &["import", &file]);
    assert_eq!((&again["saved"], &again["known"]), (&json!(0), &json!(4)));
    assert_eq!(done(&workspace, &["export"]), lines, "nothing has changed");
    let again = workspace.run(["memory", "import", &file]);
    let counts = "imported 0 memories and 0 sessions; skipped 4 duplicates and 0 expired";
    assert!(again.out.starts_with(counts), "{again:?}");
    let (line, _) = lines.split_once('\n').unwrap();
    let again = workspace.run_with_input(["memory", "import", "-"], line);
    assert!(again.out.contains("skipped 1 duplicate and"), "{again:?}");
    let refused = workspace.run_with_input(["memory", "import", "-"], "no JSON");
    assert!(
        refused.err.contains("error: 1 line was refused"),
        "{refused:?}"
    );

    let other = board("My App");
    other.write("in.jsonl", &lines);
    let first = answer(&other, &["import", "in.jsonl"]);
    assert_eq!(
        (&first["saved"], &first["sessions"], &first["refused"]),
        (&json!(3), &json!(1), &json!(0))
    );
    let without_changes = |lines: &str| -> Vec<Value> {
        let line = |line: &str| {
            let mut value: Value = serde_json::from_str(line).unwrap();
            value.as_object_mut().unwrap().remove("updated_at");
            value
        };
        lines.lines().map(line).collect()
    };
    let there = done(&other, &["export"]);
    assert_eq!(without_changes(&there), without_changes(&lines));
    answer(&other, &["import", "in.jsonl"]);
    assert_eq!(done(&other, &["export"]), there);
}

#[test]
fn lines_that_are_wrong_are_told_and_the_others_taken() {
    let workspace = board("My App");
    let lines = [
        r#"{"type":"memory","project":"my-app","content":"good"}"#,
        "no JSON",
        r#"{"type":"memory","project":"my-app","content":""}"#,
        r#"{"type":"memory","project":"nowhere","content":"x"}"#,
        r#"{"type":"memory","project":"my-app","content":"a bell \u0007"}"#,
        r#"{"type":"memory","project":"my-app","content":"gone","expires_at":"2020-01-01T00:00:00Z"}"#,
        "",
        r#"{"type":"session","project":"my-app","session_id":"../x","summary":"s"}"#,
        r#"{"type":"session","project":"nowhere","session_id":"x","summary":"s"}"#,
    ];
    let said = workspace.run_with_input(["memory", "import", "-"], &lines.join("\n"));
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(
        said.out
            .starts_with("imported 1 memory and 0 sessions; skipped 0 duplicates and 1 expired")
    );
    for line in [
        "line 2: ",
        "line 3: ",
        "line 4: ",
        "line 5: ",
        "line 8: session_id",
        "line 9: project `nowhere` not found; `orchestra tool call list_projects`",
    ] {
        assert!(said.err.contains(line), "{line}: {said:?}");
    }
    let said = workspace.run_with_input(
        ["memory", "import", "-", "--project", "my-app"],
        r#"{"type":"memory","project":"nowhere","content":"x"}"#,
    );
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn the_index_is_made_anew() {
    let workspace = board("My App");
    done(&workspace, &["save", "alpha"]);
    let said = done(&workspace, &["reindex"]);
    assert_eq!(
        said,
        "1 memories and sessions indexed, 0 expired ones removed\n"
    );
    assert_eq!(answer(&workspace, &["search", "alpha"])["total"], 1);
}

#[test]
fn what_is_too_much_or_no_text_is_refused_with_what_to_do() {
    let workspace = board("My App");
    let save = |text: &str| workspace.run_with_input(["memory", "save", "-"], text);
    let said = save(&"long ".repeat(2 * 1024 * 1024));
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(3), ""),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("at most") && said.err.len() < 2_000,
        "{}",
        said.err
    );
    let said = save("a bell \u{7} rings");
    assert_eq!(said.code, Some(3), "{said:?}");
    let tags: Vec<String> = (0..100_000).map(|n| format!("t{n}")).collect();
    let call = json!({"project": "my-app", "content": "x", "summary": "x", "tags": tags});
    let said = workspace.run_with_input(
        ["tool", "call", "save_memory", "--args", "-"],
        &call.to_string(),
    );
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(
        said.err.contains("`tags`: is too long: at most 32"),
        "{}",
        said.err
    );
    workspace.own("[memory]\nmax_items = 1\n");
    done(&workspace, &["save", "one"]);
    let said = memory(&workspace, &["save", "two"]);
    assert!(
        said.code == Some(3)
            && said.err.contains("`orchestra memory forget`")
            && said.err.contains("[memory]"),
        "{said:?}"
    );
    for query in [
        "\u{7}\u{1b}[2J",
        "\"",
        "日本語 ひらがな",
        "العربية",
        "🦀",
        "a AND (",
        "\u{202e}x",
    ] {
        let said = memory(&workspace, &["search", query]);
        assert_eq!(said.code, Some(0), "{query:?}: {said:?}");
    }
}

#[test]
fn the_end_of_a_session_that_hooks_told_of_is_found() {
    let workspace = board("My App");
    let tell = |event: Value| {
        let said = workspace.run_with_input(["hook"], &event.to_string());
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    };
    tell(
        json!({"hook_event_name": "PostToolUse", "session_id": "s-9", "cwd": "/w", "tool_name": "Edit",
        "tool_input": {"file_path": "/w/src/parser.rs", "new_string": "PRIVATE"}}),
    );
    tell(json!({"hook_event_name": "SessionEnd", "session_id": "s-9", "cwd": "/w"}));
    let shown = done(&workspace, &["show", "s-9"]);
    assert!(
        shown.contains("Edit 1") && shown.contains("src/parser.rs") && !shown.contains("PRIVATE"),
        "{shown}"
    );
}

/// What a configuration says of how much is kept is kept to by hook events as well, and one that cannot
/// be read costs nothing that was remembered.
#[test]
fn hooks_keep_to_the_limits_of_memory() {
    let workspace = board("My App");
    let tell = |session: &str| {
        let mut said = String::new();
        for event in [
            json!({"hook_event_name": "PostToolUse", "session_id": session, "tool_name": "Edit"}),
            json!({"hook_event_name": "SessionEnd", "session_id": session}),
        ] {
            let ran = workspace.run_with_input(["hook"], &event.to_string());
            assert_eq!(ran.code, Some(0), "{ran:?}");
            said.push_str(&ran.err);
        }
        said
    };
    let kept = || {
        let answer = workspace.call("list_sessions", &json!({"project": "my-app"}));
        let items = answer["items"].as_array().unwrap().iter();
        let mut ids: Vec<String> = items
            .map(|item| item["session_id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(tell("s-1"), "");
    workspace.write("orchestra.toml", "[memory]\nmax_items = 1\n");
    assert_eq!(tell("s-2"), "");
    assert_eq!(kept(), ["s-1", "s-2"], "a workspace lowers no limit");
    workspace.own("[memory]\nmax_items = 1\n");
    assert_eq!(tell("s-3"), "");
    assert_eq!(kept(), ["s-3"]);
    workspace.write("orchestra.toml", "[memory]\nmax_items = \"many\"\n");
    let said = tell("s-4");
    assert!(said.contains("orchestra.toml"), "{said}");
    workspace.write("orchestra.toml", "");
    assert_eq!(kept(), ["s-3", "s-4"]);
}

/// What was made of hook events stays that, so that it goes first, and gives way to what somebody wrote.
#[test]
fn an_export_tells_what_was_made_of_hook_events() {
    let workspace = board("My App");
    for event in [
        json!({"hook_event_name": "PostToolUse", "session_id": "s-9", "tool_name": "Edit"}),
        json!({"hook_event_name": "SessionEnd", "session_id": "s-9"}),
    ] {
        let said = workspace.run_with_input(["hook"], &event.to_string());
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    }
    let lines = done(&workspace, &["export"]);
    let other = board("My App");
    other.write("in.jsonl", &lines);
    done(&other, &["import", "in.jsonl"]);
    assert_eq!(done(&other, &["export"]), lines);
    let is_from_hooks = || {
        let sessions = other.call("list_sessions", &json!({"project": "my-app"}));
        sessions["items"][0]["from_hooks"] == true
    };
    assert!(is_from_hooks(), "{lines}");
    let written = json!({"type": "session", "project": "my-app", "session_id": "s-9",
        "summary": "wrote the parser", "started_at": "2026-01-05T09:00:00Z",
        "ended_at": "2026-01-05T10:00:00Z"});
    other.write("written.jsonl", &format!("{written}\n"));
    assert_eq!(answer(&other, &["import", "written.jsonl"])["sessions"], 1);
    assert!(!is_from_hooks());
    assert_eq!(answer(&other, &["import", "in.jsonl"])["known"], 1);
    assert!(done(&other, &["show", "s-9"]).contains("wrote the parser"));
}

/// Whatever is done with a project that is not there, it is refused alike.
#[test]
fn a_project_that_is_not_there_is_refused_by_every_command() {
    let workspace = board("My App");
    done(&workspace, &["save", "alpha"]);
    workspace.write("lines.jsonl", "");
    for project in ["nope", "No Slug"] {
        for command in [
            &["search", "x"][..],
            &["save", "x"],
            &["list"],
            &["show", "mem-1"],
            &["forget", "mem-1"],
            &["import", "lines.jsonl"],
            &["export"],
            &["reindex"],
            &["stats"],
        ] {
            let said = memory(&workspace, &[command, &["--project", project]].concat());
            assert_eq!(
                (said.code, said.out.as_str()),
                (Some(3), ""),
                "{command:?}: {said:?}"
            );
            assert!(said.err.contains(project), "{command:?}: {said:?}");
        }
    }
    let said = done(&workspace, &["reindex", "--project", "my-app"]);
    assert!(said.contains("of all projects"), "{said}");
}

#[test]
fn what_is_no_id_is_said_to_be_none_and_nothing_is_forgotten_by_halves() {
    let workspace = board("My App");
    for text in ["alpha", "beta"] {
        done(&workspace, &["save", text]);
    }
    for id in ["mem-01", "MEM-1", "mem-0", "mem-99999999999999999999"] {
        for command in ["show", "forget"] {
            let said = memory(&workspace, &[command, id]);
            assert_eq!(said.code, Some(3), "{said:?}");
            assert!(said.err.contains("is not an id"), "{said:?}");
        }
    }
    for ids in [&["mem-1", "mem-77"], &["mem-1", "MEM-2"], &["mem-1", "s-1"]] {
        let said = memory(&workspace, &[&["forget"], &ids[..]].concat());
        assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "{said:?}");
        assert_eq!(answer(&workspace, &["list"])["total"], 2, "{ids:?}");
    }
    let said = done(&workspace, &["forget", "mem-1", "mem-2", "mem-1"]);
    assert_eq!(said, "mem-1, mem-2 forgotten\n");
}

#[test]
fn a_search_is_filtered_and_its_lines_are_short() {
    let workspace = board("My App");
    done(
        &workspace,
        &[
            "save",
            "the cache is warm",
            "--tag",
            "ops",
            "--source",
            "task",
        ],
    );
    done(&workspace, &["save", "the cache is cold", "--tag", "dev"]);
    done(
        &workspace,
        &["save", &format!("cache/{}", "x".repeat(40_000))],
    );
    let total = |filter: &[&str]| {
        answer(&workspace, &[&["search", "cache"], filter].concat())["total"].clone()
    };
    assert_eq!(total(&[]), 3);
    assert_eq!(total(&["--tag", "ops"]), 1);
    assert_eq!(total(&["--tag", "ops", "--tag", "dev"]), 0);
    assert_eq!(total(&["--source", "task"]), 1);
    assert_eq!(total(&["--since", "2001-01-01T00:00:00Z"]), 3);
    assert_eq!(total(&["--until", "2001-01-01T00:00:00Z"]), 0);
    let said = memory(&workspace, &["search", "cache", "--since", "monday"]);
    assert!(
        said.code == Some(3) && said.err.contains("since"),
        "{said:?}"
    );
    for line in done(&workspace, &["search", "cache"]).lines() {
        assert!(line.chars().count() < 140, "{line}");
    }
}

/// What a line that is refused ends was imported with all that it says.
#[test]
fn what_was_imported_before_an_overlong_line_keeps_what_supersedes_it() {
    let workspace = board("My App");
    let old = r#"{"type":"memory","id":"mem-1","project":"my-app","content":"weekly","superseded_by":"mem-2"}"#;
    let new = r#"{"type":"memory","id":"mem-2","project":"my-app","content":"daily"}"#;
    let long = "x".repeat(33 * 1024 * 1024);
    workspace.write("lines.jsonl", &format!("{old}\n{new}\n{long}\n"));
    let said = memory(&workspace, &["import", "lines.jsonl"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("line 3 is longer"), "{said:?}");
    let listed = answer(&workspace, &["list", "--state", "superseded"]);
    assert_eq!(listed["total"], 1, "{listed}");
}
