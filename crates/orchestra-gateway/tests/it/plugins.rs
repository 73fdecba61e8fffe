//! Plugins and orchestrators elsewhere, in every file that may name them.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use orchestra_gateway::{
    approval::Waits,
    config::{
        Contents, File, FileKind, InheritEnv, OrchestratorConfig, PluginConfig, PluginId,
        ServerConfig, Severity, Source, Template, Transport, Values,
    },
    connect::Connectors,
    discovery::{Found, ServerState},
};
use orchestra_mcp::client::{ClientError, TransportType};
use serde_json::json;

use crate::support::{World, file, states};

const LIST: &str = "workspace/plugins.yaml";
const OURS: &str = "workspace/orchestra.toml";
const USERS: &str = "home/.config/orchestra/orchestra.toml";

fn list(text: &str) -> Contents {
    let file = File {
        kind: FileKind::Plugins,
        ..file("any-name")
    };
    file.understand(text)
}

fn plugin(config: &ServerConfig) -> &PluginConfig {
    match &config.transport {
        Transport::Plugin(plugin) => plugin,
        _ => panic!("{config:?}"),
    }
}

fn written(texts: &[Template]) -> Vec<&str> {
    texts.iter().map(Template::written).collect()
}

fn pairs(pairs: &BTreeMap<String, Template>) -> Vec<(&str, &str)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (name.as_str(), value.written()))
        .collect()
}

fn told(contents: &Contents) -> Vec<String> {
    let diagnostics = contents.diagnostics.iter();
    diagnostics.map(ToString::to_string).collect()
}

fn config<'a>(found: &'a Found, name: &str) -> &'a ServerConfig {
    found
        .server(name)
        .and_then(|server| server.config())
        .unwrap()
}

#[test]
fn a_list_of_plugins_is_read_as_every_orchestrator_reads_it() {
    let contents = list(
        r#"
listen_addr: "localhost:50100"
tcp_addr: "localhost:50101"
certs_dir: ~/.orchestra/certs
future: 1
plugins:
  - id: storage.markdown
    binary: bin/storage-markdown
    enabled: true
    args: ["--workspace=.", "--workspace=./x", "--price=$5", "${HOME}"]
    env: {LEVEL: 3, PASS: "a$$b${c}"}
    config: {verbose: true, key: "${KEY}"}
    provides_storage: [markdown]
    future: [1, 2]
    timeout: 5
  - id: tools.features
    binary: /opt/tools-features
    enabled: yes
    depends_on: [storage.markdown]
  - {id: bridge.claude, binary: x, provides_ai: [claude]}
  - {id: off, binary: x, enabled: false}
"#,
    );
    let servers: Vec<_> = contents
        .servers
        .iter()
        .map(|one| one.config.as_ref().unwrap())
        .collect();
    let names: Vec<_> = servers
        .iter()
        .map(|one| {
            (
                one.name.as_str(),
                one.shown_name.as_str(),
                one.disabled,
                one.prefix,
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("storage-markdown", "storage.markdown", false, false),
            ("tools-features", "tools.features", false, false),
            ("bridge-claude", "bridge.claude", true, true),
            ("off", "off", true, false),
        ]
    );
    let storage = plugin(servers[0]);
    assert_eq!(servers[0].transport.as_str(), "plugin");
    assert_eq!(storage.id.as_str(), "storage.markdown");
    assert_eq!(storage.directory, Path::new("/w"));
    // Texts stand for themselves.
    let args = [
        "--workspace=/w",
        "--workspace=./x",
        "--price=$$5",
        "$${HOME}",
    ];
    assert_eq!(written(&storage.args), args);
    assert_eq!(
        pairs(&storage.env),
        [("LEVEL", "3"), ("PASS", "a$$$$b$${c}")]
    );
    assert_eq!(
        pairs(&storage.config),
        [("key", "$${KEY}"), ("verbose", "true")]
    );
    assert_eq!(storage.inherit_env, InheritEnv::All);
    assert_eq!(storage.provides_storage, ["markdown"]);
    let features = plugin(servers[1]);
    assert_eq!(features.depends_on, std::slice::from_ref(&storage.id));
    assert_eq!(plugin(servers[2]).provides_ai, ["claude"]);
    // What belongs to the whole is for whoever serves it.
    let beside = contents.plugins_file.as_ref().unwrap();
    assert_eq!(beside.listen_addr.as_deref(), Some("localhost:50100"));
    assert_eq!(beside.certs_dir.as_deref(), Some("~/.orchestra/certs"));
    assert_eq!(beside.tcp_addr.as_deref(), Some("localhost:50101"));
    assert_eq!(beside.directory, Path::new("/w"));
    let told = told(&contents);
    assert_eq!(told.len(), 4, "{told:#?}");
    for (text, what) in told.iter().zip([
        "/w/any-name:3:1: warning: tcp_addr: is not served",
        "/w/any-name:5:1: warning: future: is not known and not used",
        "plugins[0].future: is not known and not used",
        "plugins[0].timeout: is not known and not used",
    ]) {
        assert!(text.contains(what), "{text}");
    }
}

#[test]
fn what_is_wrong_in_a_list_is_told_and_stops_no_other_plugin() {
    let contents = list(
        r#"
plugins:
  - {binary: x, enabled: true}
  - {id: "../up", binary: x, enabled: true}
  - {id: none, enabled: true}
  - {id: a.b, binary: x, enabled: false}
  - {id: a.b, binary: y, enabled: true}
  - {id: a_b, binary: z, enabled: true}
  - {id: maybe, binary: x, enabled: perhaps}
  - {id: needs, binary: x, enabled: true, depends_on: ["/"]}
  - {id: env, binary: x, enabled: true, env: {"A=B": c}}
  - 7
  - {id: good, binary: x, enabled: true}
"#,
    );
    let good: Vec<_> = contents
        .servers
        .iter()
        .filter(|one| one.config.is_ok())
        .map(|one| one.shown_name.as_str())
        .collect();
    assert_eq!(good, ["a.b", "good"]);
    let taken = contents.servers.iter().find(|one| one.shown_name == "a.b");
    let taken = taken.unwrap().config.as_ref().unwrap();
    assert_eq!(
        plugin(taken).binary.written(),
        "y",
        "one that is off takes no id"
    );
    let told = told(&contents).join("\n");
    for what in [
        "plugins[0]: must be an object with an `id`",
        "plugins[1]: the id of the plugin is not valid",
        "plugins[2]: needs `binary`",
        "plugins[5]: has the name `a-b`, as `a.b` has; rename one of them",
        "plugins[6].enabled: must be true or false",
        "plugins[7]: depends_on: `/`",
        "plugins[8]: env: `A=B` is not a valid variable name",
        "plugins[9]: must be an object with an `id`",
    ] {
        assert!(told.contains(what), "{what}\n{told}");
    }
    for (text, what) in [
        ("plugins: {a: 1}", "must be a list of plugins"),
        ("[]", "must be an object"),
        ("plugins: [", "any-name:2:1: error: did not find"),
        ("plugins: 1", "must be a list"),
    ] {
        let contents = list(text);
        assert!(contents.servers.is_empty());
        assert!(
            contents.default.is_none() && !contents.is_misread,
            "it says nothing of calls"
        );
        assert!(
            self::told(&contents)[0].contains(what),
            "{text}: {contents:?}"
        );
    }
    assert!(self::told(&list("")).is_empty());
}

#[test]
fn a_list_that_would_fill_the_memory_is_refused() {
    let bomb = (0..12).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
        let next = n + 1;
        let all = format!("*a{n}, ").repeat(8);
        format!("{text}a{next}: &a{next} [{all}]\n")
    });
    let bomb = format!("{bomb}plugins: *a12\n");
    let long = format!("plugins: [] # {}", "x".repeat(200 * 1024));
    let many = (0..600).fold("plugins:\n".to_owned(), |text, n| {
        format!("{text}- {{id: p{n}, binary: x, enabled: true}}\n")
    });
    for text in [&bomb, &long] {
        let contents = list(text);
        assert!(contents.is_broken && contents.servers.is_empty());
        assert_eq!(contents.diagnostics[0].severity, Severity::Error);
    }
    let contents = list(&many);
    assert_eq!(contents.servers.len(), 512);
    assert!(told(&contents)[0].contains("only the first 512"));
}

#[test]
fn a_plugin_of_our_own_file_has_all_that_a_server_has() {
    let text = r#"
        [mcp.servers.plain]
        command = "x"

        [servers.far]
        orchestrator = "hub.example:7421"
        certs_dir = "certs"
        lazy = true

        [plugins."tools.features"]
        binary = "bin/${SET}"
        args = ["--level", "${SET}"]
        env = { A = "1" }
        inherit_env = "none"
        cwd = "run"
        config = { key = "${SET}" }
        provides_storage = "markdown"
        provides_ai = ["claude"]
        depends_on = ["base"]
        shutdown = "1s"
        certs = "legacy"
        timeout = "5m"
        start_timeout = "10s"
        lazy = true
        limits = { concurrency = 3, open_files = 64 }
        restart = { initial = "10ms" }
        circuit = { failures = 2 }
        tools = { deny = ["drop_*"] }
        rules = [{ effect = "ask", tool = "*" }]
        grace = { term = "1s" }

        [plugins.base]
        binary = "base"
        enabled = false
        prefix = true
        commnad = "x"
    "#;
    let contents = file("orchestra.toml").understand(text);
    let servers: Vec<_> = contents
        .servers
        .iter()
        .map(|one| one.config.as_ref().unwrap())
        .collect();
    let names: Vec<_> = servers
        .iter()
        .map(|one| {
            (
                one.name.as_str(),
                one.transport.as_str(),
                one.prefix,
                one.disabled,
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("plain", "stdio", true, false),
            ("far", "orchestrator", true, false),
            ("tools-features", "plugin", true, false),
            ("base", "plugin", true, true),
        ]
    );
    let expected = OrchestratorConfig {
        address: "hub.example:7421".into(),
        certs_dir: Some("certs".into()),
    };
    assert_eq!(servers[1].transport, Transport::Orchestrator(expected));
    let features = servers[2];
    assert_eq!(features.timeout, Duration::from_secs(300));
    assert_eq!(features.start_timeout, Duration::from_secs(10));
    assert_eq!(features.limits.budget.concurrency, Some(3));
    assert_eq!(features.restart.initial, Duration::from_millis(10));
    assert_eq!(features.circuit.failures, 2);
    assert_eq!((features.rules.len(), features.tools.deny.len()), (1, 1));
    let set = plugin(features);
    assert_eq!(set.shutdown, Duration::from_secs(1));
    assert!(set.is_legacy && !plugin(servers[3]).is_legacy);
    assert_eq!(set.inherit_env, InheritEnv::None);
    assert_eq!(set.depends_on, ["base".parse::<PluginId>().unwrap()]);
    assert_eq!(
        features.to_json(Values::Kept),
        json!({
            "binary": "bin/${SET}", "args": ["--level", "${SET}"], "env": {"A": "1"},
            "inheritEnv": "none", "cwd": "run", "config": {"key": "${SET}"},
            "providesStorage": ["markdown"], "providesAi": ["claude"], "dependsOn": ["base"],
            "certs": "legacy", "shutdown": "1s", "timeout": "300s", "startTimeout": "10s", "lazy": true,
            "limits": {"concurrency": 3, "files": 64},
            "restart": {"backoff": "exponential", "initial": "10ms", "max": "30s"},
            "circuit": {"failures": 2, "pause": "60s", "successes": 2},
            "tools": {"allow": [], "deny": ["drop_*"]},
            "rules": [{"effect": "ask", "tool": "*", "arguments": {}}],
            "grace": {"stdin": "2s", "term": "1s"},
        })
    );
    // Debugging shows no secret.
    assert!(!format!("{features:?}").contains("SET"));
    let told = told(&contents);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("plugins.base.commnad: is not known"),
        "{told:?}"
    );
    // `plugins` of other programs means something else.
    let other = file("settings.json").understand(r#"{"mcpServers": {}, "plugins": {"a": {}}}"#);
    assert!(other.servers.is_empty() && other.diagnostics.is_empty());
}

#[test]
fn what_no_plugin_and_no_orchestrator_can_have_is_refused() {
    for (text, what) in [
        ("[plugins.a]", "needs `binary`"),
        ("[plugins.a]\nbinary = \"\"", "needs `binary`"),
        (
            "[plugins.\".a\"]\nbinary = \"x\"",
            "the id of the plugin is not valid",
        ),
        (
            "[plugins.a]\nbinary = \"x\"\nsandbox = true",
            "sandbox: it blocks the network",
        ),
        (
            "[plugins.a]\nbinary = \"x\"\npool = {max = 2}",
            "pool: a plugin has one process",
        ),
        (
            "[plugins.a]\nbinary = \"x\"\nconfig = {a = [1]}",
            "config.a: must be a text",
        ),
        (
            "[plugins.a]\nbinary = \"x\"\nprovides_ai = [\"\"]",
            "provides_ai: at most",
        ),
        (
            "[plugins.a]\nbinary = \"x\"\nshutdown = \"2m\"",
            "shutdown: must be a time",
        ),
        (
            "[plugins.a]\nbinary = \"x\"\ncerts = \"certs\"",
            "certs: `own` or `legacy`",
        ),
        (
            "[servers.a]\norchestrator = \"hub\"",
            "must be a host and a port",
        ),
        (
            "[servers.a]\norchestrator = \"hub:1\"\nurl = \"https://hub\"",
            "has one transport",
        ),
        ("[servers.a]\norchestrator = 1", "must be a text"),
    ] {
        let contents = file("orchestra.toml").understand(text);
        assert!(contents.servers[0].config.is_err(), "{text}");
        let told = told(&contents).join("\n");
        assert!(told.contains(what), "{text}: {told}");
    }
}

#[test]
fn plugins_of_a_repository_are_approved_as_they_are_and_those_of_the_user_need_not_be() {
    let world = World::new();
    world.write(USERS, "[plugins.mine]\nbinary = \"mine\"\n");
    let entry = |rest: &str| format!("plugins:\n- {{id: a.b, enabled: true, {rest}}}\n");
    let first = "binary: x, args: [\"1\"], env: {A: \"1\"}, config: {k: v}";
    world.write(LIST, &entry(first));
    world.write(
        OURS,
        "[plugins.ours]\nbinary = \"x\"\n[servers.far]\norchestrator = \"h:1\"\n",
    );
    let expected = |state| {
        [
            ("far", state),
            ("ours", state),
            ("a-b", state),
            ("mine", "enabled"),
        ]
    };
    assert_eq!(states(&world.find()), expected("needs_approval"));
    for name in ["far", "ours", "a.b"] {
        world.approve(name);
    }
    assert_eq!(states(&world.find()), expected("enabled"));
    for changed in [
        "binary: y, args: [\"1\"], env: {A: \"1\"}, config: {k: v}",
        "binary: x, args: [\"2\"], env: {A: \"1\"}, config: {k: v}",
        "binary: x, args: [\"1\"], env: {A: \"2\"}, config: {k: v}",
        "binary: x, args: [\"1\"], env: {A: \"1\"}, config: {k: w}",
        "binary: x, args: [\"1\"], env: {A: \"1\"}, config: {k: v}, provides_storage: [markdown]",
        "binary: x, args: [\"1\"], env: {A: \"1\"}, config: {k: v}, depends_on: [ours]",
    ] {
        world.write(LIST, &entry(changed));
        let found = world.find();
        let state = &found.server("a.b").unwrap().state;
        let is_asked = matches!(
            state,
            ServerState::NeedsApproval {
                why: Waits::Changed(_),
                ..
            }
        );
        assert!(is_asked, "{changed}: {state:?}");
    }
    // Another plugin, though it is called alike and runs the same.
    world.write(LIST, &entry(first).replace("a.b", "a_b"));
    assert_eq!(
        world.find().server("a_b").unwrap().state.as_str(),
        "needs_approval"
    );
    world.write(LIST, &entry(first));
    assert_eq!(states(&world.find()), expected("enabled"));
}

#[test]
fn a_list_that_is_named_needs_no_approval_and_is_there() {
    let mut world = World::new();
    let named = world.write(
        "elsewhere/mine.yml",
        "plugins: [{id: a, binary: b, enabled: on}]",
    );
    world.write(
        LIST,
        "listen_addr: x\nplugins: [{id: a, binary: c, enabled: true}]",
    );
    world.places.plugins = vec![named.clone(), world.path().join("nowhere.yaml")];
    let found = world.find();
    assert_eq!(states(&found), [("a", "enabled")]);
    assert_eq!(found.servers[0].origin.source, Source::CommandLine);
    assert_eq!(found.shadowed.len(), 1);
    let set = plugin(config(&found, "a"));
    assert_eq!(set.directory, named.parent().unwrap());
    assert_eq!(found.diagnostics.len(), 1, "{:?}", found.diagnostics);
    assert_eq!(found.diagnostics[0].message, "there is no such file");
    let facts: Vec<_> = found
        .plugins_files
        .iter()
        .map(|facts| (*facts.file == *named, facts.listen_addr.as_deref()))
        .collect();
    assert_eq!(facts, [(true, None), (false, Some("x"))]);
}

#[test]
fn two_ids_that_become_one_name_are_both_named() {
    let world = World::new();
    world.write(USERS, "[plugins.\"tools.x\"]\nbinary = \"x\"\n");
    world.write(LIST, "plugins: [{id: tools_x, binary: x, enabled: true}]");
    let found = world.find();
    assert_eq!(found.shadowed.len(), 1);
    let told = found.diagnostics[0].to_string();
    assert!(
        told.contains("tools.x: has the name `tools-x`, as `tools_x` has (") && told.contains(LIST),
        "{told}"
    );
}

#[test]
fn dependencies_that_go_in_circles_or_nowhere_are_told() {
    let world = World::new();
    let text = r#"
        [plugins.a]
        binary = "x"
        depends_on = ["b", "gone"]
        [plugins.b]
        binary = "x"
        depends_on = ["a"]
        [plugins.c]
        binary = "x"
        depends_on = ["c", "off", "a"]
        [plugins.off]
        binary = "x"
        enabled = false
        [plugins.d]
        binary = "x"
    "#;
    world.write(USERS, text);
    let found = world.find();
    let order = found.plugin_order();
    let levels: Vec<Vec<&str>> = order
        .levels
        .iter()
        .map(|level| level.iter().map(PluginId::as_str).collect())
        .collect();
    assert_eq!(levels, [vec!["a", "b", "d"], vec!["c"]]);
    let told: Vec<_> = found
        .diagnostics
        .iter()
        .map(|one| (&*one.path, &*one.message))
        .collect();
    assert_eq!(
        told,
        [
            (
                "a",
                "`a`, `b` depend on each other; they are started side by side"
            ),
            ("c", "depends on itself, which is ignored"),
            ("a", "depends on `gone`, which is not a plugin here"),
            ("c", "depends on `off`, which is disabled"),
        ]
    );
    assert!(
        found
            .diagnostics
            .iter()
            .all(|one| one.severity == Severity::Warning)
    );
}

#[test]
fn texts_are_put_in_when_a_plugin_is_started() {
    let mut world = World::new();
    world.write(
        USERS,
        "[plugins.a]\nbinary = \"bin/${SET}\"\nargs = [\"${SET}\"]\nenv = {E = \"${SET}\"}\n\
         config = {k = \"${SET}\"}\n[plugins.b]\nbinary = \"${UNSET}\"\n\
         [servers.far]\norchestrator = \"${SET}:7\"\ncerts_dir = \"c\"\n",
    );
    let listed =
        "plugins: [{id: l, binary: b, enabled: true, args: ['${SET}$$'], config: {k: $x}}]";
    world.places.plugins = vec![world.write("lists/p.yaml", listed)];
    let found = world.find();
    let unset = &found.server("b").unwrap().state;
    assert!(matches!(unset, ServerState::Invalid { reason } if reason.contains("UNSET")));
    let connectors = Connectors::new(world.scope());
    let child = connectors.child(config(&found, "a")).unwrap();
    let binary = world.path().join("home/.config/orchestra/bin/value");
    assert_eq!(child.command, binary);
    assert_eq!(child.args, ["value"]);
    assert_eq!(child.variables, [("E".into(), "value".into())]);
    assert_eq!(child.cwd.as_deref(), Some(&*world.places.workspace));
    let boot = connectors.boot(config(&found, "a")).unwrap();
    assert_eq!(boot, [("k".to_owned(), "value".to_owned())].into());
    let listed = connectors.child(config(&found, "l")).unwrap();
    assert_eq!(listed.command, world.path().join("lists/b"));
    assert_eq!(listed.args, ["${SET}$$"]);
    assert_eq!(connectors.boot(config(&found, "l")).unwrap()["k"], "$x");
    let far = connectors.orchestrator(config(&found, "far")).unwrap();
    assert_eq!((far.host.as_str(), far.port), ("value", 7));
    assert_eq!(far.certs_dir.unwrap(), world.places.workspace.join("c"));
    assert!(connectors.boot(config(&found, "far")).is_err());
    assert!(connectors.orchestrator(config(&found, "a")).is_err());
    assert!(connectors.child(config(&found, "far")).is_err());
}

#[test]
fn whoever_speaks_the_plugin_protocol_reaches_them() {
    let world = World::new();
    world.write(
        USERS,
        "[plugins.a]\nbinary = \"x\"\n[servers.far]\norchestrator = \"hub:7\"\n\
         [servers.plain]\ncommand = \"x\"\n",
    );
    let found = world.find();
    let connectors = Connectors::new(world.scope());
    for name in ["a", "far"] {
        let refused = connectors.reach(config(&found, name)).err().unwrap();
        let ClientError::InvalidConfig { what } = refused else {
            panic!("{refused:?}");
        };
        assert!(
            what.contains("a program that speaks the plugin protocol"),
            "{what}"
        );
    }
    let plain = connectors.reach(config(&found, "plain")).unwrap();
    let stands_in = Arc::clone(&plain.connector);
    let connectors = connectors.with_quic(Arc::new(move |connectors, config| {
        match config.transport {
            Transport::Plugin(_) => drop(connectors.child(config)?),
            _ => drop(connectors.orchestrator(config)?),
        }
        Ok(Arc::clone(&stands_in))
    }));
    for name in ["a", "far"] {
        let reached = connectors.reach(config(&found, name)).unwrap();
        assert!(Arc::ptr_eq(&reached.connector, &plain.connector));
    }
    assert_eq!(TransportType::Quic.as_str(), "quic");
}
