//! Every shape that files of servers have.

use std::time::Duration;

use orchestra_gateway::config::{
    Auth, Backoff, Circuit, Connections, Contents, Effect, Flavour, HttpConfig, InheritEnv, Pins,
    Protocol, Restart, Sandbox, ServerConfig, Severity, Transport, Values, Variables,
};

use crate::support::{file, stdio};

/// The servers of a text that has nothing wrong.
fn sound(name: &str, text: &str) -> Vec<ServerConfig> {
    let contents = file(name).understand(text);
    assert_eq!(contents.diagnostics, [], "{text}");
    let servers = contents.servers.into_iter();
    servers.map(|server| *server.config.unwrap()).collect()
}

fn http(config: &ServerConfig) -> &HttpConfig {
    match &config.transport {
        Transport::Http(http) => http,
        _ => panic!("{config:?}"),
    }
}

#[test]
fn what_desktop_clients_write_is_read_with_comments() {
    let servers = sound(
        "mcp.json",
        r#"{
          // as Claude Code and Cursor have it
          "mcpServers": {
            "everything": {"command": "npx", "args": ["-y", "server-everything"], "env": {"A": "1", "N": 2},},
            "Remote (beta)": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "old": {"type": "sse", "url": "https://example.com/sse"},
            "either": {"url": "https://example.com/mcp", "disabled": true, "alwaysAllow": ["x"]},
            "plain": {"transport": "rpc", "url": "http://127.0.0.1:1"},
            "gemini": {"httpUrl": "https://example.com/mcp", "includeTools": ["a"], "excludeTools": ["b"]},
            "windsurf": {"serverUrl": "https://example.com/mcp", "disabledTools": ["c"]},
          },
          "unrelated": {"of": "the client"}
        }"#,
    );
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "everything",
            "remote-beta",
            "old",
            "either",
            "plain",
            "gemini",
            "windsurf"
        ]
    );
    assert_eq!(servers[1].shown_name, "Remote (beta)");
    assert_eq!(servers[1].origin.place.line, 5);
    let everything = stdio(&servers[0]);
    assert_eq!(everything.command.written(), "npx");
    assert_eq!(everything.args.len(), 2);
    assert_eq!(everything.env["N"].written(), "2");
    let flavours: Vec<Flavour> = servers[1..].iter().map(|one| http(one).flavour).collect();
    use Flavour::{Auto, Rpc, Sse, Streamable};
    assert_eq!(flavours, [Streamable, Sse, Auto, Rpc, Streamable, Auto]);
    assert!(servers[3].disabled && !servers[0].disabled);
    assert_eq!(servers[5].tools.allow, ["a"]);
    assert_eq!(servers[5].tools.deny, ["b"]);
    assert_eq!(servers[6].tools.deny, ["c"]);
}

/// Claude Code, Cursor and others split such a line, or start it by a shell.
#[test]
fn a_command_that_is_a_line_of_words_is_split() {
    for (command, program, args) in [
        (
            "npx -y server --flag",
            "npx",
            &["-y", "server", "--flag"][..],
        ),
        ("  uvx   server ", "uvx", &["server"]),
        ("/opt/My App/server", "/opt/My App/server", &[]),
        ("sh -c \"a b\"", "sh -c \"a b\"", &[]),
        ("npx ${PACKAGE} x", "npx ${PACKAGE} x", &[]),
        ("server", "server", &[]),
    ] {
        let text = serde_json::json!({"mcpServers": {"a": {"command": command, "args": ["last"]}}});
        let servers = sound("mcp.json", &text.to_string());
        let read = stdio(&servers[0]);
        assert_eq!(read.command.written(), program, "{command}");
        let written: Vec<&str> = read.args.iter().map(|arg| arg.written()).collect();
        assert_eq!(written, [args, &["last"][..]].concat(), "{command}");
    }
}

#[test]
fn what_vs_code_writes_is_read_with_its_inputs() {
    let servers = sound(
        "mcp.json",
        r#"{
          "inputs": [{"type": "promptString", "id": "key", "description": "A key", "password": true},
                     {"type": "pickString", "id": "team", "options": ["a"], "default": "a"}],
          "servers": {
            "local": {"type": "stdio", "command": "x", "args": ["${input:key}"], "envFile": "${workspaceFolder}/.env"},
            "far": {"type": "http", "url": "https://example.com"}
          }
        }"#,
    );
    let inputs = &servers[0].inputs;
    assert!(inputs["key"].is_secret && inputs["key"].default.is_none());
    assert_eq!(inputs["team"].default.as_deref(), Some("a"));
    assert!(stdio(&servers[0]).env_file.is_some());
}

/// One file per tool, as the first of the studied programs has it.
#[test]
fn a_file_may_hold_one_server() {
    let servers = sound(
        "github.json",
        r#"{"schemaVersion": "1.0.0", "name": "github", "transport": "http",
            "baseURL": "https://example.com", "capabilities": ["github.commits.list"],
            "timeout": "1m", "retryPolicy": {"maxAttempts": 5, "backoff": "linear"},
            "description": "commits", "metadata": {"x": 1}}"#,
    );
    assert_eq!(servers[0].name.as_str(), "github");
    assert_eq!(http(&servers[0]).flavour, Flavour::Rpc);
    assert_eq!(servers[0].timeout, Duration::from_secs(60));
    assert_eq!(servers[0].retry.attempts, 5);
    assert_eq!(servers[0].retry.backoff, Backoff::Linear);
    let servers = sound(
        "local.json",
        r#"{"schemaVersion": "1.0.0", "name": "local", "transport": "stdio", "command": "x",
            "args": [], "env": {"TOKEN": "${TOKEN}"}, "capabilities": []}"#,
    );
    assert_eq!(stdio(&servers[0]).env["TOKEN"].written(), "${TOKEN}");
}

/// A section of a YAML file, as the second has it; the same in JSON.
#[test]
fn a_section_holds_for_its_servers() {
    let yaml = "\
log: debug
mcp:
  enabled: true
  prefer_mcp: true
  max_concurrent: 10
  health_check_interval: 300
  retry: {max_attempts: 4, backoff: constant, initial_delay_ms: 500, max_delay_ms: 2000}
  servers:
    one:
      transport: stdio
      command: x
      args: [a]
      env: {A: '${TOKEN}'}
      timeout: 120
      rate_limit: 120
    two:
      transport: http
      url: https://example.com/mcp
      headers: {Authorization: Bearer x}
      health_url: https://example.com/health
";
    let json = r#"{"mcp": {"max_concurrent": 10, "health_check_interval": 300,
        "retry": {"max_attempts": 4, "backoff": "constant", "initial_delay_ms": 500, "max_delay_ms": 2000},
        "servers": {"one": {"command": "x", "timeout": 120, "rate_limit": 120},
                    "two": {"type": "http", "url": "https://example.com/mcp"}}}}"#;
    for (name, text) in [("config.yaml", yaml), ("config.json", json)] {
        let servers = sound(name, text);
        let one = &servers[0];
        assert_eq!(one.timeout, Duration::from_secs(120));
        assert_eq!(one.limits.budget.requests_per_second, Some(2.0));
        assert_eq!(one.limits.budget.concurrency, Some(10));
        assert_eq!(one.health.interval, Some(Duration::from_secs(300)));
        assert_eq!(
            (one.retry.attempts, one.retry.backoff),
            (4, Backoff::Constant)
        );
        assert_eq!(one.retry.initial, Duration::from_millis(500));
        assert_eq!(http(&servers[1]).flavour, Flavour::Streamable);
    }
    assert_eq!(sound("config.yaml", yaml)[1].origin.place.line, 16);
    let off = sound(
        "x.yaml",
        "mcp: {enabled: false, servers: {a: {command: x}}}",
    );
    assert!(off[0].disabled);
}

#[test]
fn every_key_of_ours_is_read() {
    let servers = sound(
        "orchestra.toml",
        r#"
        tools = "lean"
        [mcp.servers.all]
        command = ["npx", "-y"]
        args = ["server"]
        cwd = "sub"
        env = { A = "1" }
        env_file = ".env"
        inherit_env = "none"
        description = "everything"
        timeout = "5m"
        start_timeout = 90
        disabled = false
        lazy = true
        prefix = false
        protocol = "2025-06-18"
        retry = { attempts = 2, backoff = "constant", initial = "100ms", max = "1s", unsafe = true }
        pool = { max = 4, stateless = true, outstanding = 8 }
        grace = { stdin = "1s", term = "500ms" }
        restart = { backoff = "linear", initial = "200ms", max = "5s" }
        circuit = { failures = 3, pause = "10s", successes = 1 }
        probe_timeout = "3s"
        max_junk_lines = 100
        default = "ask"
        health = { interval = "1m", timeout = "2s", max_timeouts = 5 }
        sandbox = { mode = "workspace", read = ["/usr"], write = ["out"] }
        cache_ttl = "10s"
        tools = { allow = ["read_*"], deny = ["read_all"] }
        rules = [{ effect = "deny", tool = "read_file", arguments = { path = "/etc/*" } }, { effect = "ask" }]
        tags = ["a", "b"]
        trust = true
        pins = "follow"
        max_message_bytes = "1MiB"
        features = { sampling = false, elicitation = false }
        roots = ["${workspaceFolder}"]
        idle_stop = "10m"
        [mcp.servers.all.limits]
        address_space = "512MiB"
        files = 64
        processes = 8
        cpu_time = "1h"
        requests_per_second = 1.5
        burst = 3
        concurrency = 2
        daily_quota = 1000
        result_bytes = "64KiB"
        wait = true

        [mcp.servers.far]
        url = "https://example.com/mcp"
        flavour = "auto"
        headers = { X-Team = "us" }
        auth = { type = "command", command = ["helper", "token"] }
        ca_file = "ca.pem"
        client_cert = "me.pem"
        client_key = "me.key"
        allow_insecure = true
        health = false
        connections = { connect = "1s", first_byte = "10s", idle = "2m", kept = 0 }
        [mcp.servers.in]
        url = "https://example.com/mcp"
        auth = { type = "oauth", client_id = "me", scopes = "a b", redirect_port = 7000 }
        "#,
    );
    // What is written is read as the same servers.
    for server in &servers {
        let json = server.to_json(Values::Kept);
        let text = serde_json::json!({"mcpServers": {server.name.as_str(): json}}).to_string();
        let mut again = sound("again.json", &text).remove(0);
        again.origin = server.origin.clone();
        assert_eq!(again, *server, "{text}");
    }
    let variables = Variables::of(&[&servers[1]]);
    let shared = servers[1].to_json(Values::Named(&variables)).to_string();
    assert!(shared.contains("\"X-Team\":\"${X_TEAM}\""), "{shared}");
    let all = &servers[0];
    let process = stdio(all);
    assert_eq!(process.command.written(), "npx");
    assert_eq!(process.args.len(), 2);
    assert_eq!(process.inherit_env, InheritEnv::None);
    assert_eq!(all.timeout, Duration::from_secs(300));
    assert_eq!(all.start_timeout, Duration::from_secs(90));
    assert!(all.lazy && !all.prefix && all.trust);
    assert!(matches!(all.protocol, Protocol::Revision(one) if one.as_str() == "2025-06-18"));
    assert!(all.retry.repeat_unsafe);
    let restart = Restart {
        backoff: Backoff::Linear,
        initial: Duration::from_millis(200),
        max: Duration::from_secs(5),
    };
    let circuit = Circuit {
        failures: 3,
        pause: Duration::from_secs(10),
        successes: 1,
    };
    assert_eq!((all.restart, all.circuit), (restart, circuit));
    assert_eq!(all.probe_timeout, Duration::from_secs(3));
    assert_eq!((all.max_junk_lines, all.default), (100, Some(Effect::Ask)));
    assert_eq!((all.pool.max, all.pool.outstanding), (4, 8));
    assert_eq!(all.grace.term, Duration::from_millis(500));
    assert_eq!(all.health.max_timeouts, 5);
    assert!(matches!(&all.sandbox, Sandbox::Workspace { write, .. } if write.len() == 1));
    assert_eq!(all.cache_ttl, Some(Duration::from_secs(10)));
    assert_eq!(all.rules[0].effect, Effect::Deny);
    assert_eq!(
        all.rules[0].arguments,
        [("path".to_owned(), "/etc/*".to_owned())]
    );
    assert_eq!(
        (all.rules[1].effect, all.rules[1].tool.as_str()),
        (Effect::Ask, "*")
    );
    assert_eq!(all.pins, Pins::Follow);
    assert_eq!(all.max_message_bytes, 1 << 20);
    assert!(all.features.roots && !all.features.sampling);
    assert_eq!(all.limits.process.address_space, Some(512 << 20));
    assert_eq!(
        all.limits.process.cpu_time,
        Some(Duration::from_secs(3_600))
    );
    assert_eq!(all.limits.budget.requests_per_second, Some(1.5));
    assert!(all.limits.budget.wait);
    let far = http(&servers[1]);
    assert!(matches!(&far.auth, Some(Auth::Command { args, .. }) if args.len() == 1));
    assert!(far.client_cert.is_some() && far.allow_insecure);
    let connections = Connections {
        connect: Duration::from_secs(1),
        first_byte: Duration::from_secs(10),
        idle: Duration::from_secs(120),
        kept: 0,
    };
    assert_eq!(far.connections, connections);
    assert_eq!(servers[1].health.interval, None);
    let auth = &http(&servers[2]).auth;
    assert!(
        matches!(auth, Some(Auth::OAuth(oauth)) if oauth.scopes.len() == 2 && oauth.redirect_port == Some(7_000))
    );
}

#[test]
fn settings_of_more_clients_are_read() {
    let codex = sound(
        "config.toml",
        "model = \"x\"\n[mcp_servers.one]\ncommand = \"x\"\nstartup_timeout_sec = 5\ntool_timeout_sec = 7.5\nenabled = false\n\
         [mcp_servers.two]\nurl = \"https://example.com\"\nbearer_token_env_var = \"TOKEN\"\nhttp_headers = { A = \"b\" }\n",
    );
    assert!(codex[0].disabled);
    assert_eq!(codex[0].timeout, Duration::from_millis(7_500));
    assert_eq!(http(&codex[1]).auth, Some(Auth::Env("TOKEN".into())));
    let zed = sound(
        "settings.json",
        r#"{"theme": "x", "context_servers": {"a": {"source": "custom", "command": "x", "args": []}}}"#,
    );
    assert_eq!(zed[0].name.as_str(), "a");
    for text in [
        "{}",
        "",
        "{\"theme\": 1}",
        "{\"mcpServers\": null}",
        "{\"mcp\": {}}",
    ] {
        assert_eq!(sound("settings.json", text), []);
    }
}

fn told(contents: &Contents) -> Vec<String> {
    contents
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn one_bad_server_stops_no_other_and_is_told_with_its_place() {
    let text = r#"{"mcpServers": {
  "good": {"command": "x", "comand": "y", "timeout": 60000},
  "both": {"command": "x", "url": "https://example.com"},
  "none": {"args": []},
  "odd": {"command": "x", "args": ["a", {}], "retry": {"attempts": 99}},
  "scheme": {"url": "ftp://example.com"},
  "list": [],
  "kind": {"type": "http", "command": "x"},
  "Good": {"command": "z"},
  "rule": {"command": "x", "rules": [{"effect": "maybe"}]},
  "last": {"command": "x", "env": {"A=B": "1"}}
}}"#;
    let contents = file("mcp.json").understand(text);
    let usable: Vec<&str> = contents
        .servers
        .iter()
        .filter(|server| server.config.is_ok())
        .map(|server| server.name.as_str())
        .collect();
    assert_eq!(usable, ["good"]);
    let told = told(&contents);
    for expected in [
        "/w/mcp.json:2:28: warning: mcpServers.good.comand: is not known and not used; did you mean `command`?",
        "/w/mcp.json:2:54: warning: mcpServers.good.timeout: numbers are seconds; did you mean \"60000ms\"?",
        "/w/mcp.json:3:23: error: mcpServers.both.command: there is an address as well",
        "/w/mcp.json:4:11: error: mcpServers.none: no transport",
        "/w/mcp.json:5:41: error: mcpServers.odd.args[1]: must be a text, not an object",
        "/w/mcp.json:5:68: error: mcpServers.odd.retry.attempts: must be a whole number, 1 to 20",
        "/w/mcp.json:6:21: error: mcpServers.scheme.url: must begin with http:// or https://",
        "/w/mcp.json:7:11: error: mcpServers.list: must be an object, not a list",
        "/w/mcp.json:8:39: error: mcpServers.kind.command: the transport is http, which requires `url`",
        "/w/mcp.json:9:3: error: mcpServers.Good: has the name `good`, as `good` has; rename one of them",
        "/w/mcp.json:11:11: error: mcpServers.last: env: `A=B` is not a valid variable name",
        "/w/mcp.json:10:49: error: mcpServers.rule.rules[0].effect: must be one of allow, deny, ask",
    ] {
        assert!(
            told.iter().any(|line| line.starts_with(expected)),
            "{expected}\n{told:#?}"
        );
    }
    let reason = |name: &str| {
        let mut servers = contents.servers.iter();
        let server = servers.find(|server| server.name.as_str() == name).unwrap();
        server.config.as_ref().unwrap_err().clone()
    };
    assert!(
        reason("odd").starts_with("args[1]: must be a text"),
        "{}",
        reason("odd")
    );
    assert!(
        reason("rule").starts_with("rules[0]: effect: must be"),
        "{}",
        reason("rule")
    );
    assert!(
        reason("last").contains("`A=B` is not a valid"),
        "{}",
        reason("last")
    );
    let about: Vec<_> = contents
        .diagnostics
        .iter()
        .map(|one| one.server.as_ref().map(ToString::to_string))
        .collect();
    assert_eq!(about[0].as_deref(), Some("good"));
    assert_eq!(contents.diagnostics[0].severity, Severity::Warning);
}

/// PHP writes an empty object as `[]`.
#[test]
fn empty_list_and_empty_object_are_read_as_each_other() {
    let servers = sound(
        "mcp.json",
        r#"{"mcpServers": {
          "program": {"command": "x", "args": {}, "env": []},
          "site": {"url": "https://a.example/mcp", "headers": []}
        }}"#,
    );
    let program = stdio(&servers[0]);
    assert!(program.args.is_empty() && program.env.is_empty());
    assert!(http(&servers[1]).headers.is_empty());
    assert!(sound("mcp.json", r#"{"mcpServers": []}"#).is_empty());
    // A list with entries has no names.
    let text = r#"{"mcpServers": {"program": {"command": "x", "env": ["A=1"]}}}"#;
    let contents = file("mcp.json").understand(text);
    assert!(contents.servers[0].config.is_err());
}

/// Each with the field, the file and the line.
#[test]
fn what_is_out_of_its_bounds_is_told_with_its_place() {
    for (line, expected) in [
        (
            "max_junk_lines = 0",
            "max_junk_lines: must be a whole number, 1 to 10000",
        ),
        (
            "probe_timeout = \"2m\"",
            "probe_timeout: must be a time from 1ms to 60s",
        ),
        (
            "restart = { initial = 0 }",
            "restart.initial: must be a time from 1ms to 3600s",
        ),
        (
            "restart = { max = \"2h\" }",
            "restart.max: must be a time from 1ms to 3600s",
        ),
        (
            "restart = { backoff = \"slow\" }",
            "restart.backoff: must be one of exponential, linear, constant",
        ),
        (
            "circuit = { failures = 0 }",
            "circuit.failures: must be a whole number, 1 to 1000",
        ),
        (
            "circuit = { pause = 0 }",
            "circuit.pause: must be a time from 1ms to 86400s",
        ),
        (
            "circuit = { successes = 0 }",
            "circuit.successes: must be a whole number, 1 to 1000",
        ),
        ("circuit = 3", "circuit: must be an object"),
        (
            "connections = { connect = 0 }",
            "connections.connect: must be a time from 1ms to 600s",
        ),
        (
            "connections = { first_byte = 0 }",
            "connections.first_byte: must be a time",
        ),
        (
            "connections = { idle = \"2d\" }",
            "connections.idle: must be a time",
        ),
        (
            "connections = { kept = 2000 }",
            "connections.kept: must be a whole number, 0 to 1024",
        ),
        (
            "default = \"maybe\"",
            "default: must be one of allow, deny, ask",
        ),
    ] {
        let text = format!("[mcp.servers.a]\nurl = \"https://example.com\"\n{line}\n");
        let contents = file("orchestra.toml").understand(&text);
        assert!(contents.servers[0].config.is_err(), "{line}");
        let told = told(&contents).join("\n");
        let place = "/w/orchestra.toml:3:";
        let error = format!(": error: mcp.servers.a.{expected}");
        assert!(
            told.starts_with(place) && told.contains(&error),
            "{line}: {told}"
        );
    }
    // How connections are is said of servers that have some.
    let text = "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"connections\": {}}}}";
    let told = told(&file("mcp.json").understand(text)).join("\n");
    assert!(
        told.contains("warning: mcpServers.a.connections: is not used by a server of this kind"),
        "{told}"
    );
}

#[test]
fn what_is_kept_of_a_server_that_is_not_believed_is_told() {
    let contents = |rest: &str| {
        let text = format!("{{\"mcpServers\": {{\"a\": {{\"command\": \"x\", {rest}}}}}}}");
        file("x.json").understand(&text)
    };
    let unused = contents("\"cacheTtl\": \"5s\"");
    assert!(unused.servers[0].config.is_ok());
    assert_eq!(unused.diagnostics[0].severity, Severity::Warning);
    let told = told(&unused).join(" ");
    assert!(
        told.contains("a.cacheTtl: is ignored without `trust`"),
        "{told}"
    );
    let used = contents("\"cacheTtl\": \"5s\", \"trust\": true");
    assert_eq!(used.diagnostics, []);
    assert_eq!(contents("\"cacheTtl\": 0").diagnostics, []);
}

#[test]
fn yaml_and_toml_tell_places_as_well() {
    let yaml = "mcp:\n  servers:\n    a:\n      command: x\n      timeout: never\n    b:\n      comand: y\n";
    let told_yaml = told(&file("x.yaml").understand(yaml));
    assert!(
        told_yaml[0].starts_with("/w/x.yaml:5:7: error: mcp.servers.a.timeout:"),
        "{told_yaml:?}"
    );
    assert!(
        told_yaml
            .iter()
            .any(|line| line.starts_with("/w/x.yaml:7:7: warning: mcp.servers.b.comand")),
        "{told_yaml:?}"
    );
    let toml = "[mcp.servers.a]\ncommand = 'x'\nprotocol = '1.0.0'\n";
    let told_toml = told(&file("x.toml").understand(toml));
    assert!(
        told_toml[0]
            .starts_with("/w/x.toml:3:12: error: mcp.servers.a.protocol: must be one of auto"),
        "{told_toml:?}"
    );
}

#[test]
fn whatever_a_file_holds_its_reading_is_bounded() {
    let many: String = (0..600)
        .map(|n| format!("\"s{n}\": {{\"command\": \"x\", \"odd{n}\": 1}},"))
        .collect();
    let contents = file("mcp.json").understand(&format!("{{\"mcpServers\": {{{many}}}}}"));
    assert_eq!(contents.servers.len(), 512);
    assert!(contents.diagnostics.len() <= 200);
    // One long line of many values is read in one go.
    let long = format!(
        "{{\"mcpServers\": {{}}, \"x\": [{}]}}",
        "1,".repeat(300_000)
    );
    assert_eq!(told(&file("mcp.json").understand(&long)), [""; 0]);
    for text in [
        "[",
        "{\"mcpServers\": ",
        "{]",
        "\u{0}",
        "nul",
        "\"x\"",
        "[1]",
        "{\"mcpServers\": 1}",
        "{\"x\": {\"command\": \"y\"}}",
    ] {
        let contents = file("mcp.json").understand(text);
        assert_eq!(contents.servers.len(), 0);
        assert_eq!(
            contents.diagnostics.len(),
            1,
            "{text}: {:?}",
            contents.diagnostics
        );
    }
    let long = format!("mcp: {{servers: {{}}}} # {}", "x".repeat(200_000));
    assert!(told(&file("x.yml").understand(&long))[0].contains("is longer than"));
}

#[test]
fn places_in_a_long_yaml_file_are_looked_for_a_limited_number_of_times() {
    let servers: String = (0..512)
        .map(|n| format!("  s{n}: {{command: x}} # {}\n", "x".repeat(220)))
        .collect();
    let contents = file("x.yaml").understand(&format!("mcpServers:\n{servers}"));
    assert_eq!(contents.servers.len(), 512);
    let lines = |line| {
        let servers = contents.servers.iter();
        servers
            .filter(|server| server.origin.place.line == line)
            .count()
    };
    assert_eq!((lines(2), lines(3)), (1, 1));
    assert!(lines(1) > 490, "{}", lines(1));
}

#[test]
fn server_with_many_unknown_keys_has_a_limited_number_of_diagnostics() {
    let keys: String = (0..50_000).map(|n| format!("\"{n:x}\": 1, ")).collect();
    let text = format!("{{\"mcpServers\": {{\"a\": {{{keys}\"command\": \"x\"}}}}}}");
    let contents = file("mcp.json").understand(&text);
    assert!(contents.servers[0].config.is_ok());
    assert_eq!(contents.diagnostics.len(), 200);
}

mod any_text {
    use proptest::prelude::*;

    use crate::support::file;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Nothing that a file holds ends us.
        #[test]
        fn is_read_without_a_panic(text in "[\\[\\]{}:,\"a-z0-9 \n=$#&*!|>'-]{0,200}") {
            for name in ["a.json", "a.toml", "a.yaml"] {
                let _read = file(name).understand(&text);
            }
        }
    }
}
