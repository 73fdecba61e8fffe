//! Servers that a repository brings are approved once, and again when they change.

use std::{fs, thread};

use orchestra_gateway::{
    approval::Waits,
    discovery::{Change, ServerState},
};

use crate::support::{World, states};

const FILE: &str = "workspace/.mcp.json";

fn server(rest: &str) -> String {
    format!("{{\"mcpServers\": {{\"a\": {{{rest}}}}}}}")
}

#[test]
fn a_server_of_a_repository_is_approved_as_it_is() {
    let world = World::new();
    let first = r#""command": "x", "args": ["1"], "env": {"A": "1"}"#;
    world.write(FILE, &server(first));
    assert_eq!(states(&world.find()), [("a", "needs_approval")]);
    world.approve("a");
    assert_eq!(states(&world.find()), [("a", "enabled")]);
    // Where it stands, beside what, and in which notation, asks nobody.
    let moved = r#"{"mcpServers": {"b": {"command": "b"},

        "a": {"env": {"A": "1"}, "args": ["1"], "command": "x"}}}"#;
    world.write(FILE, moved);
    assert_eq!(world.find().server("a").unwrap().state.as_str(), "enabled");
    for changed in [
        r#""command": "y", "args": ["1"], "env": {"A": "1"}"#,
        r#""command": "x", "args": ["2"], "env": {"A": "1"}"#,
        r#""command": "x", "args": ["1"], "env": {"B": "1"}"#,
        r#""command": "x", "args": ["1"], "env": {"A": "--require evil"}"#,
        r#""command": "x", "args": ["1"], "env": {"A": "1"}, "cwd": "y""#,
        r#""command": "x", "args": ["1"], "env": {"A": "1"}, "envFile": "y""#,
        r#""command": "x", "args": ["1"], "env": {"A": "1"}, "inheritEnv": "all""#,
        r#""url": "https://example.com""#,
    ] {
        world.write(FILE, &server(changed));
        let found = world.find();
        let state = &found.servers[0].state;
        assert!(
            matches!(
                state,
                ServerState::NeedsApproval {
                    why: Waits::Changed(_),
                    ..
                }
            ),
            "{changed}: {state:?}"
        );
    }
    // Back to what was approved.
    world.write(FILE, &server(first));
    assert_eq!(states(&world.find()), [("a", "enabled")]);
}

#[test]
fn limits_rules_and_every_other_key_are_part_of_what_was_approved() {
    const ALL: [&str; 22] = [
        r#""limits": {"dailyQuota": 10}"#,
        r#""limits": {"addressSpace": "1GiB"}"#,
        r#""rateLimit": 60"#,
        r#""rules": [{"effect": "deny", "tool": "write_*"}]"#,
        r#""tools": {"deny": ["x"]}"#,
        r#""roots": ["/"]"#,
        r#""retry": {"unsafe": true}"#,
        r#""prefix": false"#,
        r#""sandbox": "workspace""#,
        r#""sandbox": {"write": ["/"]}"#,
        r#""cacheTtl": "5s""#,
        r#""features": {"sampling": false}"#,
        r#""health": false"#,
        r#""pool": {"max": 2}"#,
        r#""grace": {"stdin": "5s"}"#,
        r#""protocol": "legacy""#,
        r#""timeout": 5"#,
        r#""startTimeout": 5"#,
        r#""idleStop": 5"#,
        r#""lazy": true"#,
        r#""maxMessageBytes": 5000"#,
        r#""description": "harmless""#,
    ];
    let world = World::new();
    let plain = r#""command": "x""#;
    for key in ALL {
        let with = format!("{plain}, {key}");
        for (approved, changed) in [(plain, &with[..]), (&with, plain)] {
            world.write(FILE, &server(approved));
            let found = world.find();
            // Of a server that is not believed nothing is kept, which is told.
            let is_told = approved.contains("cacheTtl");
            assert_eq!(found.diagnostics.len(), usize::from(is_told), "{key}");
            if states(&found) == [("a", "needs_approval")] {
                world.approve("a");
            }
            world.write(FILE, &server(changed));
            assert_eq!(states(&world.find()), [("a", "needs_approval")], "{key}");
        }
    }
}

#[test]
fn what_inputs_are_by_default_is_part_of_it_where_a_server_refers_to_them() {
    let world = World::new();
    let path = "workspace/.vscode/mcp.json";
    let file = |default: &str, other: &str| {
        format!(
            r#"{{"servers": {{"a": {{"command": "x", "args": ["${{input:i}}"]}}}},
            "inputs": [{{"id": "i", "type": "promptString", "default": "{default}"}},
                {{"id": "other", "type": "promptString", "default": "{other}"}}]}}"#
        )
    };
    world.write(path, &file("good", "1"));
    world.approve("a");
    world.write(path, &file("good", "2"));
    assert_eq!(states(&world.find()), [("a", "enabled")]);
    world.write(path, &file("evil", "2"));
    assert_eq!(states(&world.find()), [("a", "needs_approval")]);
}

#[test]
fn addresses_headers_and_programs_that_print_tokens_are_part_of_it() {
    let world = World::new();
    let url = r#""url": "https://example.com/mcp", "headers": {"A": "1"}"#;
    world.write(FILE, &server(url));
    world.approve("a");
    for changed in [
        r#""url": "https://example.org/mcp", "headers": {"A": "1"}"#,
        r#""url": "https://example.com/mcp", "headers": {"A": "${SET}"}"#,
        r#""url": "https://example.com/mcp", "headers": {"A": "1"}, "auth": {"type": "command", "command": "x"}"#,
        r#""url": "https://example.com/mcp", "headers": {"A": "1"}, "allowInsecure": true"#,
        r#""url": "https://example.com/mcp", "headers": {"A": "2"}, "env_http_headers": {"A": "SET"}"#,
    ] {
        world.write(FILE, &server(changed));
        assert_eq!(
            states(&world.find()),
            [("a", "needs_approval")],
            "{changed}"
        );
    }
}

#[test]
fn a_repository_cannot_trust_itself() {
    let world = World::new();
    world.write(
        FILE,
        &server(r#""command": "x", "trust": true, "pins": "follow""#),
    );
    world.approve("a");
    let found = world.find();
    assert!(found.usable().all(|config| !config.trust));
    assert_eq!(found.diagnostics.len(), 2, "{:?}", found.diagnostics);
}

#[test]
fn approvals_belong_to_their_workspace() {
    let world = World::new();
    world.write(FILE, &server(r#""command": "x""#));
    world.approve("a");
    let mut elsewhere = World::new();
    elsewhere.write(FILE, &server(r#""command": "x""#));
    let decisions = world.decisions().read().unwrap();
    let found = elsewhere.places.find(&elsewhere.scope(), &decisions);
    assert_eq!(states(&found), [("a", "needs_approval")]);
    // Taken back.
    let workspace = world.places.workspace.clone();
    let name = found.servers[0].name.clone();
    let revoked = world
        .decisions()
        .change(|decisions| decisions.revoke(&workspace, &name));
    assert!(revoked.unwrap());
    assert_eq!(states(&world.find()), [("a", "needs_approval")]);
    elsewhere.places.user = None;
}

#[test]
fn change_of_a_covered_file_is_asked_for_again_and_named() {
    let world = World::new();
    world.write(
        FILE,
        &server(
            r#""command": "node", "args": ["server.js"], "env": {"A": "1", "API_TOKEN": "s3cret"}"#,
        ),
    );
    world.write("workspace/server.js", "1");
    world.write("workspace/package.json", "{}");
    world.write("workspace/README.md", "1");
    assert_eq!(world.waits("a"), Some(Waits::New));
    world.approve("a");
    let changed = |what: &str| Some(Waits::Changed(vec![what.to_owned()]));
    world.write("workspace/README.md", "2");
    assert_eq!(world.waits("a"), None);
    world.write("workspace/server.js", "2");
    assert_eq!(world.waits("a"), changed("the file server.js changed"));
    world.write("workspace/server.js", "1");
    assert_eq!(world.waits("a"), None);
    world.write("workspace/package-lock.json", "{}");
    assert_eq!(
        world.waits("a"),
        changed("the file package-lock.json is new")
    );
    world.approve("a");
    world.write(
        FILE,
        &server(
            r#""command": "node", "args": ["server.js"], "env": {"A": "2", "API_TOKEN": "s3cret"}"#,
        ),
    );
    assert_eq!(world.waits("a"), changed("the variable A changed"));
    let stored = fs::read_to_string(world.decisions().path()).unwrap();
    assert!(!stored.contains("s3cret"), "{stored}");
}

#[test]
fn approval_is_void_in_another_directory_at_the_same_path() {
    let world = World::new();
    let workspace = &world.places.workspace;
    let definition = server(r#""command": "x""#);
    world.write(FILE, &definition);
    world.approve("a");
    // The old directory stays beside it, so that its inode is not used again.
    fs::rename(workspace, workspace.with_extension("old")).unwrap();
    world.write(FILE, &definition);
    assert_eq!(world.waits("a"), Some(Waits::OtherDirectory));
    world.approve("a");
    assert_eq!(world.waits("a"), None);
}

#[test]
fn approval_of_the_older_form_is_asked_for_once_more() {
    let world = World::new();
    world.write(FILE, &server(r#""command": "x""#));
    let workspace = world.places.workspace.to_str().unwrap();
    let older = serde_json::json!({"version": 1, "workspaces": {
        workspace: {"approved": {"a": "0".repeat(64)}, "enabled": {"b": false}},
    }});
    let path = world.decisions().path();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, older.to_string()).unwrap();
    assert_eq!(world.waits("a"), Some(Waits::OlderForm));
    world.approve("a");
    assert_eq!(world.waits("a"), None);
    let decisions = world.decisions().read().unwrap();
    let enabled = decisions.enabled(&world.places.workspace, &"b".parse().unwrap());
    assert_eq!(enabled, Some(false));
}

#[test]
fn server_that_no_approval_can_cover_is_invalid_unless_its_directory_is_trusted() {
    let mut world = World::new();
    let words: Vec<String> = (0..1_000).map(|word| format!("\"{word}\"")).collect();
    let words = words.join(",");
    world.write(
        FILE,
        &server(&format!(r#""command": "x", "args": [{words}]"#)),
    );
    let found = world.find();
    let state = &found.servers[0].state;
    assert!(
        matches!(state, ServerState::Invalid { reason } if reason.contains("more than 512 words")),
        "{state:?}"
    );
    world.places.trusted_by = Some(world.path().into());
    assert_eq!(states(&world.find()), [("a", "enabled")]);
}

#[test]
fn server_of_a_trusted_directory_needs_no_approval_and_earns_no_other_trust() {
    let mut world = World::new();
    world.write(FILE, &server(r#""command": "x", "trust": true"#));
    assert_eq!(states(&world.find()), [("a", "needs_approval")]);
    let directory: std::sync::Arc<std::path::Path> = world.path().into();
    world.places.trusted_by = Some(directory.clone());
    let found = world.find();
    assert_eq!(states(&found), [("a", "enabled")]);
    assert_eq!(found.servers[0].trusted_by, Some(directory));
    assert!(found.usable().all(|config| !config.trust));
}

#[test]
fn agreement_to_an_agent_is_void_in_another_directory_at_the_same_path() {
    let world = World::new();
    let workspace = &world.places.workspace;
    fs::create_dir_all(workspace).unwrap();
    let agree = |agent: &str| {
        let change = |decisions: &mut orchestra_gateway::approval::Decisions| {
            decisions.agree(workspace, agent, "digest");
        };
        world.decisions().change(change).unwrap();
    };
    let agreed = || {
        let decisions = world.decisions().read().unwrap();
        let names = decisions.agents(workspace).into_keys();
        names.collect::<Vec<_>>()
    };
    agree("claude");
    assert_eq!(agreed(), ["claude"]);
    // The old directory stays beside it, so that its inode is not used again.
    fs::rename(workspace, workspace.with_extension("old")).unwrap();
    assert_eq!(agreed(), [""; 0]);
    fs::create_dir(workspace).unwrap();
    assert_eq!(agreed(), [""; 0]);
    agree("codex");
    assert_eq!(agreed(), ["codex"]);
}

#[test]
fn servers_are_switched_by_hand_and_stay_so() {
    let world = World::new();
    let path = "home/.config/orchestra/mcp.json";
    world.write(
        path,
        r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x", "disabled": true}}}"#,
    );
    assert_eq!(states(&world.find()), [("a", "enabled"), ("b", "disabled")]);
    let workspace = world.places.workspace.clone();
    let names: Vec<_> = world
        .find()
        .servers
        .into_iter()
        .map(|one| one.name)
        .collect();
    let switch = |name, enabled| {
        let change = |decisions: &mut orchestra_gateway::approval::Decisions| {
            decisions.switch(&workspace, name, enabled);
        };
        world.decisions().change(change).unwrap();
    };
    switch(&names[0], Some(false));
    switch(&names[1], Some(true));
    assert_eq!(states(&world.find()), [("a", "disabled"), ("b", "enabled")]);
    switch(&names[0], None);
    switch(&names[1], None);
    assert_eq!(states(&world.find()), [("a", "enabled"), ("b", "disabled")]);
}

#[test]
fn a_restart_that_is_asked_for_is_a_change() {
    let world = World::new();
    world.write(
        "home/.config/orchestra/mcp.json",
        r#"{"mcpServers": {"a": {"command": "x"}}}"#,
    );
    let before = world.find();
    let workspace = world.places.workspace.clone();
    let name = before.servers[0].name.clone();
    let ask = |decisions: &mut orchestra_gateway::approval::Decisions| {
        decisions.restart(&workspace, &name);
    };
    world.decisions().change(ask).unwrap();
    let changes = world.find().changes_since(&before);
    assert!(matches!(&changes[..], [Change::Changed(server)] if server.restarts == 1));
}

#[cfg(unix)]
#[test]
fn decisions_are_the_owners_alone_and_foreign_files_are_left_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.write(FILE, &server(r#""command": "x""#));
    world.approve("a");
    let path = world.decisions().path();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for foreign in ["{\"version\": 2}", "[]", "x"] {
        fs::write(&path, foreign).unwrap();
        assert!(world.decisions().read().is_err());
        assert!(world.decisions().change(|_| ()).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
    }
}

#[test]
fn several_programs_decide_at_once_and_nothing_is_lost() {
    let world = World::new();
    let names: Vec<String> = (0..16).map(|n| format!("s{n}")).collect();
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| {
                let name = name.parse().unwrap();
                let workspace = &world.places.workspace;
                let change = |decisions: &mut orchestra_gateway::approval::Decisions| {
                    decisions.switch(workspace, &name, Some(false));
                };
                world.decisions().change(change).unwrap();
            });
        }
    });
    let decisions = world.decisions().read().unwrap();
    for name in &names {
        let enabled = decisions.enabled(&world.places.workspace, &name.parse().unwrap());
        assert_eq!(enabled, Some(false), "{name}");
    }
}
