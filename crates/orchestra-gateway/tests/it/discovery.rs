//! Which files are looked at, and which of their servers are used.

use std::{fs, path::PathBuf, sync::mpsc, time::Duration};

use orchestra_gateway::{
    config::{Effect, Severity, Source},
    discovery::{Change, ServerState},
};
use serde_json::json;

use crate::support::{World, states, stdio};

/// A file with one server of this command.
fn one(name: &str, command: &str) -> String {
    format!("{{\"mcpServers\": {{\"{name}\": {{\"command\": \"{command}\"}}}}}}")
}

fn toml(name: &str, command: &str) -> String {
    format!("[mcp.servers.{name}]\ncommand = \"{command}\"\n")
}

#[test]
fn search_for_the_files_of_many_servers_is_limited() {
    let world = World::new();
    let directories: Vec<String> = (0..8).map(|number| format!("d{number}")).collect();
    for directory in &directories {
        world.write(&format!("workspace/{directory}/x"), "x");
    }
    let words: Vec<String> = (0..300).map(|number| format!("w{number}")).collect();
    let wide =
        json!({"command": "sh", "args": words, "env": {"PYTHONPATH": directories.join(":")}});
    assert_eq!(reason_behind(&world, &wide, 3), None);
    let reason = reason_behind(&world, &wide, 20).unwrap();
    assert!(
        reason.contains("too many files to check them all"),
        "{reason}"
    );
    let mut disabled = wide;
    disabled["disabled"] = true.into();
    assert_eq!(reason_behind(&world, &disabled, 20), None);
}

#[test]
fn code_that_many_servers_load_is_read_once() {
    let world = World::new();
    for number in 0..4_000 {
        world.write(&format!("workspace/{number}.class"), "");
    }
    let server = json!({"command": "java", "args": ["-cp", ".", "M"]});
    assert_eq!(reason_behind(&world, &server, 60), None);
}

#[test]
fn files_of_a_workspace_are_read_up_to_a_number_of_bytes_together() {
    let world = World::new();
    let long = |name: &str| {
        let other = "x".repeat(300_000);
        json!({"mcpServers": {name: {"command": "x"}}, "other": other}).to_string()
    };
    for number in 0..4 {
        let path = format!("workspace/.orchestra/mcp/{number}.json");
        world.write(&path, &long(&format!("s{number}")));
    }
    world.write("workspace/.mcp.json", &one("a", "x"));
    world.write("home/.config/orchestra/mcp.json", &long("b"));
    let found = world.find();
    let names = found.servers.iter().map(|server| server.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["s0", "s1", "s2", "a", "b"]);
    let broken: Vec<_> = found.broken().filter_map(|path| path.file_name()).collect();
    assert_eq!(broken, ["3.json"]);
    let message = &found.diagnostics[0].message;
    assert!(
        message.contains("have more than 1048576 bytes"),
        "{message}"
    );
}

/// Writes a number of equal servers and a plain one behind them. Returns the reason for which that one is invalid.
fn reason_behind(world: &World, server: &serde_json::Value, count: usize) -> Option<String> {
    let servers = (0..count).map(|number| (format!("s{number:02}"), server.clone()));
    let plain = ("z".to_owned(), json!({"command": "sh"}));
    let servers = serde_json::Map::from_iter(servers.chain([plain]));
    let file = json!({"mcpServers": servers}).to_string();
    world.write("workspace/.mcp.json", &file);
    match &world.find().server("z").unwrap().state {
        ServerState::Invalid { reason } => Some(reason.clone()),
        _ => None,
    }
}

#[test]
fn the_first_file_that_names_a_server_wins_whole() {
    let mut world = World::new();
    let given = [
        world.write("given.json", &one("a", "given")),
        world.write("more.json", &one("a", "more")),
    ];
    world.places.command_line = given.into();
    world.write("path/b.json", &one("a", "from-directory"));
    world.write("path/a.yaml", "mcp: {servers: {a: {command: from-yaml}}}");
    world.write("path/ignored.txt", &one("a", "no"));
    let directory = world.path().join("path");
    let alone = world.write("alone.json", &one("a", "alone"));
    world.places.environment = vec![directory, alone, world.path().join("nowhere")];
    world.write("workspace/orchestra.toml", &toml("a", "toml"));
    let listed = "plugins: [{id: a, binary: plugin, enabled: true}]";
    world.write("workspace/plugins.yaml", listed);
    world.write("workspace/.orchestra/mcp/2.json", &one("a", "second"));
    world.write("workspace/.orchestra/mcp/10.json", &one("a", "first"));
    world.write("workspace/.orchestra/mcp/notes.md", &one("a", "no"));
    world.write("workspace/.mcp.json", &one("a", "dot"));
    world.write("workspace/mcp.json", &one("a", "plain"));
    world.write(
        "workspace/.vscode/mcp.json",
        "{\"servers\": {\"a\": {\"command\": \"code\"}}}",
    );
    world.write("workspace/.cursor/mcp.json", &one("a", "cursor"));
    world.write(
        "home/.config/orchestra/orchestra.toml",
        &toml("a", "user-toml"),
    );
    world.write("home/.config/orchestra/mcp.json", &one("a", "user"));
    world.places.system = Some(world.path().join("etc"));
    world.write("etc/mcp.json", &one("a", "system"));
    world.write("etc/mcp/b.json", &one("a", "system-b"));
    world.write("etc/mcp/a.json", &one("a", "system-a"));

    let found = world.find();
    assert_eq!(states(&found), [("a", "enabled")]);
    let order: Vec<String> = std::iter::once(&found.servers[0].origin)
        .chain(found.shadowed.iter().map(|shadowed| &shadowed.origin))
        .map(|origin| {
            let file = origin.file.strip_prefix(world.path()).unwrap();
            format!("{} {}", origin.source, file.display())
        })
        .collect();
    assert_eq!(
        order,
        [
            "command-line given.json",
            "command-line more.json",
            "environment path/a.yaml",
            "environment path/b.json",
            "environment alone.json",
            "workspace workspace/orchestra.toml",
            "workspace workspace/plugins.yaml",
            "workspace workspace/.orchestra/mcp/10.json",
            "workspace workspace/.orchestra/mcp/2.json",
            "workspace workspace/.mcp.json",
            "workspace workspace/mcp.json",
            "workspace workspace/.vscode/mcp.json",
            "workspace workspace/.cursor/mcp.json",
            "user home/.config/orchestra/orchestra.toml",
            "user home/.config/orchestra/mcp.json",
            "system etc/mcp.json",
            "system etc/mcp/a.json",
            "system etc/mcp/b.json",
        ]
    );
    let absent = found.files.iter().filter(|file| file.servers.is_none());
    assert_eq!(absent.count(), 1, "{:?}", found.files);
    for shadowed in &found.shadowed {
        assert_eq!(shadowed.by, found.servers[0].origin);
    }
}

#[test]
fn what_came_with_the_workspace_waits_and_what_the_system_has_does_not() {
    let mut world = World::new();
    world.places.system = Some(world.path().join("etc"));
    world.write("workspace/.orchestra/mcp/a.json", &one("ours", "x"));
    world.write("etc/mcp.json", &one("all", "x"));
    world.write("etc/mcp/more.json", &one("more", "x"));
    let expected = |ours| [("ours", ours), ("all", "enabled"), ("more", "enabled")];
    assert_eq!(states(&world.find()), expected("needs_approval"));
    world.approve("ours");
    assert_eq!(states(&world.find()), expected("enabled"));
    world.write("workspace/.orchestra/mcp/a.json", &one("ours", "y"));
    assert_eq!(states(&world.find()), expected("needs_approval"));
    // Relative paths of the system's files start from where one works.
    let found = world.find();
    let config = found.server("all").and_then(|server| server.config());
    assert_eq!(config.unwrap().directory(), &world.places.workspace);
}

#[test]
fn a_bad_file_stops_no_other() {
    let mut world = World::new();
    world.places.command_line = vec![world.path().join("not-there.json")];
    world.write("workspace/.mcp.json", "{\"mcpServers\": {");
    world.write("workspace/mcp.json", "\u{7f}\u{0}");
    fs::create_dir_all(world.path().join("workspace/.vscode/mcp.json")).unwrap();
    world.write("home/.config/orchestra/orchestra.toml", "= x");
    let user = world.write("home/.config/orchestra/mcp.json", &one("a", "x"));
    let found = world.find();
    assert_eq!(states(&found), [("a", "enabled")]);
    assert_eq!(found.diagnostics.len(), 5, "{:#?}", found.diagnostics);
    for diagnostic in &found.diagnostics {
        assert_eq!(diagnostic.severity, Severity::Error);
        assert!(*diagnostic.file != *user);
    }
}

#[test]
fn what_a_server_refers_to_must_be_there() {
    let world = World::new();
    world.write(
        "home/.config/orchestra/mcp.json",
        r#"{"mcpServers": {
            "no": {"command": "x", "env": {"A": "${NOT_SET}"}},
            "yes": {"command": "x", "env": {"A": "${SET}", "B": "${NOT_SET:-}"}},
            "header": {"url": "https://example.com", "headers": {"A": "Bearer ${NOT_SET}"}},
            "auth": {"url": "https://example.com", "auth": {"type": "env", "variable": "NOT_SET"}}
        }}"#,
    );
    let found = world.find();
    let expected = [
        ("no", "invalid"),
        ("yes", "enabled"),
        ("header", "invalid"),
        ("auth", "invalid"),
    ];
    assert_eq!(states(&found), expected);
    for server in &found.servers {
        if let ServerState::Invalid { reason } = &server.state {
            assert!(
                reason.contains("the environment variable NOT_SET is not set"),
                "{reason}"
            );
        }
    }
    assert_eq!(found.diagnostics[0].place.line, 2);
}

#[test]
fn this_program_is_not_its_own_server() {
    let world = World::new();
    world.write(
        "workspace/.mcp.json",
        r#"{"mcpServers": {
            "orchestra": {"command": "orchestra", "args": ["stdio", "--workspace", "${workspaceFolder}"]},
            "earlier": {"command": "/usr/bin/orchestra-mcp"},
            "other": {"command": "orchestra", "args": ["tool"]}
        }}"#,
    );
    world.write(
        "workspace/mcp.json",
        r#"{"mcpServers": {"orchestra-mcp": {"url": "http://127.0.0.1:7420/mcp"}}}"#,
    );
    let found = world.find();
    let expected = [
        ("orchestra", "own"),
        ("earlier", "own"),
        ("other", "needs_approval"),
        ("orchestra-mcp", "own"),
    ];
    assert_eq!(states(&found), expected);
}

#[test]
fn entry_of_another_program_is_not_hidden_behind_the_name_of_this_program() {
    let own = r#"{"command": "orchestra", "args": ["stdio"]}"#;
    let other = r#"{"command": "./evil"}"#;
    for (first, second) in [
        (
            format!(r#"{{"mcpServers": {{"orchestra": {own}, "orchestra": {other}}}}}"#),
            "{}".to_owned(),
        ),
        (
            format!(
                r#"{{"mcpServers": {{"orchestra": {own}}}, "mcpServers": {{"orchestra": {own}}},
                "servers": {{"Orchestra": {other}}}}}"#
            ),
            "{}".to_owned(),
        ),
        (
            format!(
                r#"{{"mcpServers": {{"orchestra": {other}}}, "mcpServers": {{"orchestra": {own}}}}}"#
            ),
            "{}".to_owned(),
        ),
        (
            format!(
                r#"{{"mcpServers": {{"orchestra": {own}}}, "mcp.servers": {{"orchestra": {other}}}}}"#
            ),
            "{}".to_owned(),
        ),
        (
            format!(r#"{{"mcpServers": {{"orchestra": {own}}}, "servers.orchestra": {other}}}"#),
            "{}".to_owned(),
        ),
        (
            format!(
                r#"{{"mcpServers": {{"orchestra": {own}}}, "mcpServers.orchestra.command": "./evil"}}"#
            ),
            "{}".to_owned(),
        ),
        (
            format!(r#"{{"mcpServers": {{"orchestra": {own}}}}}"#),
            format!(r#"{{"servers": {{"orchestra": {other}}}}}"#),
        ),
        (
            format!(r#"{{"mcpServers": {{"orchestra": {own}}}}}"#),
            format!(r#"{{"mcpServers": {{}}, "servers": {{"orchestra": {other}}}}}"#),
        ),
    ] {
        let world = World::new();
        world.write("workspace/.mcp.json", &first);
        world.write("workspace/.vscode/mcp.json", &second);
        let found = world.find();
        assert_eq!(states(&found), [("orchestra", "invalid")], "{first}");
        let reports = found.diagnostics.iter().filter(|diagnostic| {
            diagnostic.severity == Severity::Error
                && diagnostic.message.contains("is another; clients start it")
        });
        assert_eq!(reports.count(), 1, "{first}");
    }
    // A file of the user is read as before.
    let world = World::new();
    let text = format!(r#"{{"mcpServers": {{}}, "servers": {{"orchestra": {other}}}}}"#);
    world.write("home/.config/orchestra/mcp.json", &text);
    assert!(world.find().servers.is_empty());
}

#[test]
fn entry_that_clients_read_otherwise_is_not_this_program() {
    for (name, entry) in [
        (
            "orchestra",
            r#"{"command": "./evil", "Command": "orchestra", "args": ["stdio"]}"#,
        ),
        (
            "other",
            r#"{"command": "./evil", "command": "orchestra", "args": ["stdio"]}"#,
        ),
        (
            "orchestra",
            r#"{"command": "sh", "command": "./evil", "args": ["stdio"]}"#,
        ),
    ] {
        let world = World::new();
        let text = format!(r#"{{"mcpServers": {{"{name}": {entry}}}}}"#);
        world.write("workspace/.mcp.json", &text);
        assert_eq!(states(&world.find()), [(name, "invalid")], "{entry}");
    }
}

#[test]
fn dangling_link_to_this_program_is_invalid_only_inside_the_workspace() {
    let world = World::new();
    let link = |path: &str| {
        let path = world.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(world.path().join("absent"), path).unwrap();
    };
    link("home/.profile");
    link("workspace/.profile");
    let server = |directory: &str| {
        let command = world.path().join(directory).join(".profile/bin/orchestra");
        json!({"command": command, "args": ["stdio"]})
    };
    let servers = json!({"user": server("home"), "shipped": server("workspace")});
    let file = json!({ "mcpServers": servers }).to_string();
    world.write("workspace/.mcp.json", &file);
    let found = world.find();
    assert_eq!(found.server("user").unwrap().state, ServerState::Own);
    let shipped = &found.server("shipped").unwrap().state;
    assert!(
        matches!(shipped, ServerState::Invalid { reason } if reason.contains("comes with the workspace")),
        "{shipped:?}"
    );
}

#[test]
fn directories_are_those_of_the_project() {
    let mut world = World::new();
    let given = [
        world.write("elsewhere/x.json", &one("a", "x")),
        world.write("elsewhere/.vscode/mcp.json", &one("b", "x")),
    ];
    world.places.command_line = given.into();
    world.write("home/.config/orchestra/mcp.json", &one("c", "x"));
    let found = world.find();
    let directories: Vec<_> = found
        .usable()
        .map(|config| config.directory().clone())
        .collect();
    let elsewhere = world.path().join("elsewhere");
    assert_eq!(
        directories,
        [elsewhere.clone(), elsewhere, world.places.workspace.clone()]
    );
    assert_eq!(stdio(found.usable().next().unwrap()).command.written(), "x");
    assert_eq!(found.servers[0].origin.source, Source::CommandLine);
}

#[test]
fn changes_are_told_by_what_servers_are_and_not_by_where_they_stand() {
    let world = World::new();
    let path = "home/.config/orchestra/mcp.json";
    let text = |rest: &str| format!("{{\"mcpServers\": {{{rest}}}}}");
    world.write(
        path,
        &text(r#""a": {"command": "x"}, "b": {"command": "x"}, "c": {"command": "x"}"#),
    );
    let before = world.find();
    world.write(path, &text("\n\n\"c\": {\"command\": \"x\", \"timeout\": \"1m\"},\n\"b\": {\"command\": \"y\"}, \"d\": {\"command\": \"x\"}"));
    let changes = world.find().changes_since(&before);
    let told: Vec<String> = changes
        .iter()
        .map(|change| match change {
            Change::Added(server) => format!("+{}", server.name),
            Change::Changed(server) => format!("~{}", server.name),
            Change::Removed(name) => format!("-{name}"),
        })
        .collect();
    // The timeout of `c` is the usual one: nothing is other.
    assert_eq!(told, ["-a", "~b", "+d"]);
}

#[test]
fn the_default_of_the_users_files_holds_for_all_servers() {
    let world = World::new();
    let mine = "home/.config/orchestra/orchestra.toml";
    let server = |name: &str, default: &str| format!("\"{name}\": {{\"command\": \"x\"{default}}}");
    let lax = ", \"default\": \"allow\"";
    let servers = |names: [&str; 2]| {
        let servers = [server(names[0], ""), server(names[1], lax)].join(", ");
        format!("{{\"mcpServers\": {{{servers}}}}}")
    };
    world.write("workspace/.mcp.json", &servers(["theirs", "lax"]));
    let users = servers(["own", "own-lax"]);
    world.write("home/.config/orchestra/mcp.json", &users);
    let defaults = || {
        let found = world.find();
        ["theirs", "lax", "own", "own-lax"].map(|name| {
            found
                .server(name)
                .unwrap()
                .config()
                .unwrap()
                .default_effect()
        })
    };
    use Effect::{Allow, Ask, Deny};
    assert_eq!(defaults(), [Allow; 4]);
    world.write(mine, "[mcp]\ndefault = \"ask\"\n");
    assert_eq!(defaults(), [Ask, Ask, Ask, Allow]);
    // One that cannot be understood lets nothing through.
    world.write(mine, "[mcp]\ndefault = \"aks\"\n");
    assert_eq!(defaults(), [Deny, Deny, Deny, Allow]);
    let told = world.find().diagnostics[0].to_string();
    assert!(
        told.contains(":2:11: error: mcp.default: must be one of"),
        "{told}"
    );
    // A workspace's holds for its own servers.
    std::fs::remove_file(world.path().join(mine)).unwrap();
    let text = "[mcp]\ndefault = \"deny\"\n[mcp.servers.strict]\ncommand = \"x\"\n";
    world.write("workspace/orchestra.toml", text);
    assert_eq!(defaults(), [Allow; 4]);
    let found = world.find();
    let strict = found.server("strict").unwrap().config().unwrap();
    assert_eq!(strict.default_effect(), Deny);
}

/// The default of two servers, one of the workspace and one of the user, and the file that could not
/// be understood.
fn default_of_all(world: &World) -> (Effect, Option<PathBuf>) {
    let found = world.find();
    let [theirs, own] = ["theirs", "own"].map(|name| {
        let server = found.server(name).unwrap().config().unwrap();
        let misread = server.misread.as_ref().map(|file| file.to_path_buf());
        (server.default_effect(), misread)
    });
    assert_eq!(theirs, own);
    own
}

#[test]
fn a_file_of_the_user_that_cannot_be_understood_counts_as_deny() {
    let world = World::new();
    let strong = "home/.config/orchestra/orchestra.toml";
    world.write(strong, &toml("own", "x"));
    world.write("workspace/.mcp.json", &one("theirs", "x"));
    let path = "home/.config/orchestra/mcp.json";
    for (text, is_misread) in [
        ("{\"mcp\": {\"default\": \"deny\", \"servers\": {}}", true),
        ("[]", true),
        ("{\"mcp\": []}", true),
        ("{\"mpc\": {\"default\": \"deny\"}}", true),
        ("{\"default\": 1}", true),
        ("", false),
        ("{}", false),
        ("{\"mcpServers\": {\"bad\": {}}}", false),
        ("{\"mcpServers\": 1}", false),
    ] {
        let file = world.write(path, text);
        let expected = match is_misread {
            true => (Effect::Deny, Some(file)),
            false => (Effect::Allow, None),
        };
        assert_eq!(default_of_all(&world), expected, "{text}");
    }
    let file = world.path().join(path);
    fs::remove_file(&file).unwrap();
    assert_eq!(default_of_all(&world).0, Effect::Allow);
    fs::create_dir(&file).unwrap();
    assert_eq!(default_of_all(&world), (Effect::Deny, Some(file)));
    // What a stronger file says is what holds; one of the workspace has no say.
    world.write(
        strong,
        &format!("[mcp]\ndefault = \"ask\"\n{}", toml("own", "x")),
    );
    assert_eq!(default_of_all(&world), (Effect::Ask, None));
    fs::remove_dir(world.path().join(path)).unwrap();
    world.write(strong, &toml("own", "x"));
    world.write("workspace/mcp.json", "{");
    assert_eq!(default_of_all(&world), (Effect::Allow, None));
}

#[test]
fn a_default_is_heard_beside_servers_of_every_shape() {
    let world = World::new();
    world.write("home/.config/orchestra/orchestra.toml", &toml("own", "x"));
    world.write("workspace/.mcp.json", &one("theirs", "x"));
    use Effect::{Allow, Ask, Deny};
    for (text, expected) in [
        (r#"{"mcp": {"default": "deny"}, "SERVERS": {}}"#, Deny),
        (r#"{"SERVERS": {}, "mcp": {"default": "ask"}}"#, Ask),
        (r#"{"SERVERS": {}, "default": "deny"}"#, Deny),
        (
            r#"{"SERVERS": {"a": {"command": "x"}}, "default": "ask"}"#,
            Ask,
        ),
        (r#"{"SERVERS": {}, "default": "dney"}"#, Deny),
        // The stricter of both.
        (
            r#"{"mcp": {"default": "deny"}, "SERVERS": {}, "default": "allow"}"#,
            Deny,
        ),
        (
            r#"{"mcp": {"default": "allow"}, "SERVERS": {}, "default": "ask"}"#,
            Ask,
        ),
        (r#"{"mcp": {"servers": {}}, "default": "deny"}"#, Deny),
        (r#"{"mcp": {"default": "deny", "servers": 1}}"#, Deny),
        (r#"{"SERVERS": 1, "default": "deny"}"#, Deny),
        (r#"{"default": "deny"}"#, Deny),
        (r#"{"mcp": {}, "SERVERS": {}}"#, Allow),
    ] {
        for shape in ["mcpServers", "mcp_servers", "context_servers", "servers"] {
            let text = text.replace("SERVERS", shape);
            world.write("home/.config/orchestra/mcp.json", &text);
            assert_eq!(default_of_all(&world).0, expected, "{text}");
        }
    }
    // Beside others, servers below `mcp` are not read, and that is told.
    let text = r#"{"mcp": {"servers": {"b": {"command": "x"}}}, "mcpServers": {}}"#;
    world.write("home/.config/orchestra/mcp.json", text);
    let found = world.find();
    assert!(found.server("b").is_none());
    let told = found.diagnostics[0].to_string();
    assert!(
        told.contains("mcp.servers: is not read beside `mcpServers`"),
        "{told}"
    );
}

/// Whoever waited for what nobody writes would wait for ever.
#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_a_file_holds_nothing_up() {
    let world = World::new();
    let pipe = world.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    fs::hard_link(&pipe, world.path().join("workspace/mcp.json")).unwrap();
    let text = json!({"mcpServers": {
        "secret": {"url": "https://example.com", "auth":
            {"type": "client_credentials", "client_id": "me", "client_secret_file": pipe}},
        "variables": {"command": "x", "env_file": pipe},
        "certificate": {"url": "https://example.com", "ca_file": pipe, "client_cert": pipe,
            "client_key": pipe},
    }});
    world.write("home/.config/orchestra/mcp.json", &text.to_string());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let found = world.find();
        let config = found.server("variables").unwrap().config().unwrap();
        let process = world.scope().process(stdio(config), config);
        let error = process.unwrap_err().to_string();
        let _gone = tell.send((found, error));
    });
    let (found, error) = told
        .recv_timeout(Duration::from_secs(30))
        .expect("it waits");
    assert!(error.contains("no regular file"), "{error}");
    let ServerState::Invalid { reason } = &found.server("secret").unwrap().state else {
        panic!("{found:?}");
    };
    assert!(reason.contains("no regular file"), "{reason}");
}
