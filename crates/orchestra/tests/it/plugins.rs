//! Plugins as the program runs them: started, served, kept from each other, and ended.

use std::{path::PathBuf, time::SystemTime};

use orchestra_plugin::{
    certs::CertDir,
    envelope::{PayloadOf, Request, RequestKind, Response, ResponseKind},
    generated::{
        ListToolsRequest, PluginManifest, RegistrationResult, StorageReadRequest,
        StorageReadResponse, StorageWriteRequest, StorageWriteResponse, ToolRequest, ToolResponse,
    },
    quic::{Endpoint, Pace, Target},
    structs::{self, Numbers, Style},
};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, Session, Workspace, free_address, get, post, until};

const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");

/// The plugin of the tests, which does what it is told.
pub(crate) fn sample() -> PathBuf {
    example("sample")
}

pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap();
    let program = program.join("examples").join(name);
    assert!(
        program.is_file(),
        "{} is built by `cargo build --workspace --examples`",
        program.display()
    );
    program
}

/// A workspace that has the plugin, with more lines about it, and approves it.
pub(crate) fn workspace(more: &str) -> Workspace {
    let workspace = Workspace::board();
    let binary = sample().display().to_string();
    workspace.write(
        "orchestra.toml",
        &format!("[plugins.\"tools.sample\"]\nbinary = {binary:?}\n{more}"),
    );
    approve(&workspace, "tools.sample");
    workspace
}

pub(crate) fn approve(workspace: &Workspace, plugin: &str) {
    let approved = workspace.run(["mcp", "approve", "--yes", plugin]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
}

/// `orchestra up`, and what it says when it is ready.
pub(crate) struct Up {
    pub(crate) process: Running,
    pub(crate) ready: Value,
    pub(crate) address: String,
}

impl Up {
    pub(crate) fn start(workspace: &Workspace) -> Self {
        Self::start_with(workspace, &[])
    }

    pub(crate) fn start_with(workspace: &Workspace, more: &[&str]) -> Self {
        let flags = [
            "up",
            "--http",
            "127.0.0.1:0",
            "--quic",
            "127.0.0.1:0",
            "--json",
        ];
        let process = Running::start(workspace.command([&flags, more].concat()));
        let ready = process.json();
        let address = ready["http"].as_str().unwrap().replace("http://", "");
        Self {
            process,
            ready,
            address,
        }
    }

    /// The result of a call.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = post(&self.address, &[BOTH], &request.to_string()).json();
        assert!(answer.get("result").is_some(), "{tool}: {answer}");
        answer["result"].clone()
    }

    pub(crate) fn text(&self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub(crate) fn end(self) {
        self.process.signal(Signal::TERM);
        assert!(self.process.end().success());
    }
}

pub(crate) fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

pub(crate) fn is_gone(process: Pid) -> bool {
    rustix::process::test_kill_process(process).is_err()
}

#[test]
fn a_plugin_serves_stores_and_hears() {
    let workspace = workspace("");
    let up = Up::start(&workspace);
    assert!(up.ready["quic"].as_str().unwrap().starts_with("127.0.0.1:"));
    let certs = workspace.home().canonicalize().unwrap();
    let certs = certs.join(".orchestra/certs").display().to_string();
    assert_eq!(up.ready["certs_dir"], certs);
    assert_eq!(up.text("echo", &json!({"text": "hi"})), "hi");
    until(|| {
        let listed = workspace.run(["plugin", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed.out).unwrap();
        (listed["plugins"][0]["version"] == env!("CARGO_PKG_VERSION")).then_some(())
    });
    let sum = up.call("add", &json!({"a": 9_007_199_254_740_993_i64, "b": 1}));
    assert_eq!(
        sum["structuredContent"],
        json!({"sum": 9_007_199_254_740_994_i64})
    );
    // Documents are files of the workspace; none is written over unseen, and none is a board.
    let store = |content: &str, version: u32| {
        let document = json!({"path": "notes/a.md", "content": content, "version": version});
        up.call("store", &document)
    };
    assert_eq!(store("one", 0)["structuredContent"]["version"], 1);
    for version in [0, 7] {
        let refused = store("two", version);
        assert_eq!(
            refused["content"][0]["text"], "somebody was faster",
            "{refused}"
        );
    }
    assert_eq!(store("two", 1)["structuredContent"]["version"], 2);
    assert_eq!(
        up.call("load", &json!({"text": "notes/a.md"}))["structuredContent"]["content"],
        "two"
    );
    assert_eq!(up.text("load", &json!({"text": "notes/b.md"})), "not found");
    let outside = up.call(
        "store",
        &json!({"path": "../a.md", "content": "", "version": 0}),
    );
    assert_eq!(outside["isError"], true, "{outside}");
    assert_eq!(
        up.call("list_projects", &json!({}))["structuredContent"]["total"],
        0
    );
    // What is published reaches whoever needs it.
    up.text(
        "publish",
        &json!({"topic": "sample.news", "payload": {"n": 1}}),
    );
    until(|| (up.text("heard", &json!({})) == "tools.sample said {\"n\":1}").then_some(()));
    // What the manifest does not name is not to be had.
    let refused = up.text(
        "call",
        &json!({"tool": "create_project", "arguments": {"name": "x"}}),
    );
    assert!(refused.contains("needs_tools"), "{refused}");
    up.end();
    assert_eq!(workspace.read(".projects/notes/a.md"), "two");
}

#[test]
fn a_plugin_that_is_killed_is_started_again_and_one_that_is_left_behind_ends() {
    let workspace = workspace("");
    let up = Up::start(&workspace);
    let first = pid(&up.text("pid", &json!({})));
    rustix::process::kill_process(first, Signal::KILL).unwrap();
    // The call that finds out may be lost: nobody can know whether it ran.
    let mut calls = (0..2).map(|_| up.text("pid", &json!({})));
    let second = calls.find_map(|text| text.parse().ok().and_then(Pid::from_raw));
    let second = second.expect("a call that is answered");
    assert_ne!(first, second);
    until(|| is_gone(first).then_some(()));
    let told = get(&up.address, "/api/mcp/servers").json().to_string();
    assert!(told.contains("\"restarts\":1"), "{told}");
    // Whoever kills the program ends its plugins as well. Who reaps them then is for the system to say.
    up.process.signal(Signal::KILL);
    let is_over = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", second.as_raw_nonzero()));
        is_gone(second) || stat.is_ok_and(|stat| stat.contains(") Z "))
    };
    until(|| is_over().then_some(()));
}

#[test]
fn a_plugin_finishes_its_work_when_the_program_ends() {
    let workspace = workspace("args = [\"--end-file\", \"ended.txt\"]\n");
    let up = Up::start(&workspace);
    let process = pid(&up.text("pid", &json!({})));
    up.end();
    assert!(is_gone(process));
    assert_eq!(workspace.read("ended.txt"), "ended\n");
}

#[test]
fn a_plugin_is_served_by_stdio_and_by_the_shell_as_well() {
    let workspace = workspace("");
    let mut session = Session::start(workspace.command(["stdio"]));
    assert_eq!(
        session.tool("echo", &json!({"text": "hi"}))["content"][0]["text"],
        "hi"
    );
    let stored = json!({"path": "notes/a.md", "content": "one", "version": 0});
    assert_eq!(session.ok("store", &stored), json!({"version": 1}));
    drop(session);
    let said = workspace.run(["tool", "call", "load", "text=notes/a.md"]);
    assert!(said.out.contains("\"content\":\"one\""), "{said:?}");
    let listed = workspace.run(["mcp", "tools", "tools.sample"]);
    assert!(listed.out.contains("flood_stderr"), "{listed:?}");
}

#[test]
fn documents_are_refused_where_there_is_no_board_to_keep_them_with() {
    let workspace = workspace("");
    std::fs::remove_dir_all(workspace.join(".projects")).unwrap();
    let said = workspace.run([
        "tool",
        "call",
        "store",
        "path=a.md",
        "content=x",
        "version=0",
    ]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("no board"), "{said:?}");
    assert!(!workspace.join(".projects").exists());
}

#[test]
fn a_plugin_waits_for_those_that_it_depends_on() {
    let workspace = Workspace::board();
    let binary = sample().display().to_string();
    let plugin =
        |id: &str, more: &str| format!("[plugins.\"{id}\"]\nbinary = {binary:?}\n{more}\n");
    workspace.write(
        "orchestra.toml",
        &(plugin("tools.sample", "depends_on = [\"tools.first\"]")
            + &plugin("tools.first", "prefix = true\nenabled = false")),
    );
    approve(&workspace, "tools.sample");
    let up = Up::start(&workspace);
    let answer = post(
        &up.address,
        &[BOTH],
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string(),
    );
    assert!(!answer.body.contains("flood_stderr"), "{answer:?}");
    let told = get(&up.address, "/api/mcp/servers").json().to_string();
    let why = "depends on \\\"tools.first\\\", which is disabled";
    assert!(told.contains(why), "{told}");
    up.end();
}

/// A list of plugins is where they stand as a rule, and what is said of one makes it one of them.
#[test]
fn plugins_of_the_past_share_an_authority_that_lets_nobody_else_in() {
    let binary = sample().display().to_string();
    let list = format!(
        "plugins:\n  - id: tools.sample\n    binary: {binary}\n    enabled: true\n    \
         config:\n      greeting: hello\n"
    );
    let ours = format!(
        "[plugins.\"tools.sample\"]\nbinary = {binary:?}\ncerts = \"legacy\"\n\
         config = {{ greeting = \"hello\" }}\n"
    );
    for (file, text) in [("plugins.yaml", list), ("orchestra.toml", ours)] {
        let workspace = Workspace::board();
        workspace.write(file, &text);
        approve(&workspace, "tools.sample");
        shares_an_authority(&workspace);
    }
}

fn shares_an_authority(workspace: &Workspace) {
    let up = Up::start(workspace);
    let whoami = up.call("whoami", &json!({}));
    assert_eq!(whoami["structuredContent"]["greeting"], "hello", "{whoami}");
    let stored = json!({"path": "a.md", "content": "x", "version": 0});
    assert_eq!(up.call("store", &stored)["structuredContent"]["version"], 1);
    let certs = workspace.home().join(".orchestra/certs");
    assert!(certs.join("legacy/tools.sample.key").is_file());
    assert!(!certs.join("tools.sample.key").exists());
    // Whoever can sign there is let in neither where others come in nor as anybody else.
    let main = up.ready["quic"].as_str().unwrap().parse().unwrap();
    let legacy = CertDir::open(certs.join("legacy")).unwrap();
    let name = "transport.stdio-client".parse().unwrap();
    let identity = legacy.identity(&name, SystemTime::now()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::outgoing(main, &identity, Pace::default()).unwrap();
        let target = Target::named(main, "orchestrator".parse().unwrap());
        assert!(endpoint.connect(&target).await.is_err());
    });
    up.end();
}

/// Somebody who comes over QUIC with a certificate of this user.
pub(crate) struct Caller {
    runtime: tokio::runtime::Runtime,
    connection: orchestra_plugin::quic::Connection,
}

impl Caller {
    pub(crate) fn connect(workspace: &Workspace, up: &Up, name: &str) -> Self {
        let address = up.ready["quic"].as_str().unwrap().parse().unwrap();
        let certs = CertDir::open(workspace.home().join(".orchestra/certs")).unwrap();
        let identity = certs.identity(&name.parse().unwrap(), SystemTime::now());
        let identity = identity.unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let connection = runtime.block_on(async {
            let endpoint = Endpoint::outgoing(address, &identity, Pace::default()).unwrap();
            let target = Target::named(address, "orchestrator".parse().unwrap());
            endpoint.connect(&target).await.unwrap()
        });
        Self {
            runtime,
            connection,
        }
    }

    pub(crate) fn ask<Q: PayloadOf<RequestKind>, A: PayloadOf<ResponseKind>>(
        &self,
        request: &Q,
    ) -> A {
        let request = Request::new("1", request).encode();
        let end = tokio::time::Instant::now() + PATIENCE;
        let answer = self.runtime.block_on(self.connection.call(request, end));
        let answer = Response::decode(&answer.unwrap()).unwrap();
        answer.message().unwrap()
    }
}

impl Caller {
    pub(crate) fn register(&self, id: &str, manifest: PluginManifest) -> RegistrationResult {
        let id = id.to_owned();
        self.ask(&PluginManifest { id, ..manifest })
    }

    fn call(&self, tool: &str) -> ToolResponse {
        self.ask(&ToolRequest {
            tool_name: tool.to_owned(),
            ..ToolRequest::default()
        })
    }
}

#[test]
fn a_plugin_may_do_what_is_permitted_for_as_long_as_it_is_used() {
    let workspace = workspace("permit = { tools = [\"list_*\"] }\n");
    let shown = workspace.run(["plugin", "inspect", "--no-start", "tools.sample"]);
    let expected = "to call the tools greet, of which list_* is permitted";
    assert!(shown.out.contains(expected), "{shown:?}");
    let up = Up::start(&workspace);
    let caller = Caller::connect(&workspace, &up, "tools.sample-client");
    let manifest = || PluginManifest {
        needs_tools: vec!["*".to_owned()],
        ..PluginManifest::default()
    };
    assert!(caller.register("tools.sample", manifest()).accepted);
    until(|| caller.call("list_projects").success.then_some(()));
    let refused = caller.call("create_project");
    assert_eq!(refused.error_code, "not_permitted", "{refused:?}");
    // Whoever switches it off ends what it may do, over connections that are open as well.
    let disabled = workspace.run(["mcp", "disable", "tools.sample"]);
    assert_eq!(disabled.code, Some(0), "{disabled:?}");
    until(|| (caller.call("list_projects").error_code == "not_registered").then_some(()));
    let refused = caller.register("tools.sample", manifest());
    assert!(
        refused.reject_reason.contains("which is disabled"),
        "{refused:?}"
    );
    up.end();
}

#[test]
fn a_permission_that_changes_cuts_nobody_off() {
    let workspace = Workspace::board();
    let users = workspace.home().join(".config/orchestra");
    std::fs::create_dir_all(&users).unwrap();
    let permit = |tools: &str| {
        let binary = sample().display().to_string();
        let text = format!(
            "[plugins.\"tools.sample\"]\nbinary = {binary:?}\npermit = {{ tools = [{tools:?}] }}\n"
        );
        std::fs::write(users.join("orchestra.toml"), text).unwrap();
    };
    permit("list_*");
    let up = Up::start(&workspace);
    assert_eq!(up.text("echo", &json!({"text": "hi"})), "hi");
    let caller = Caller::connect(&workspace, &up, "tools.sample-client");
    let manifest = PluginManifest {
        needs_tools: vec!["*".to_owned()],
        ..PluginManifest::default()
    };
    assert!(caller.register("tools.sample", manifest).accepted);
    assert!(caller.call("list_projects").success);
    permit("get_*");
    // It has registered once, and what it may do is other from one call to the next.
    until(|| {
        let answer = caller.call("list_projects");
        assert_ne!(answer.error_code, "not_registered");
        (answer.error_code == "not_permitted").then_some(())
    });
    up.end();
}

#[test]
fn no_plugin_is_called_as_those_who_may_do_more() {
    let workspace = Workspace::board();
    let binary = sample().display().to_string();
    for id in [
        "transport.stdio",
        "orchestrator",
        "tools.sample-client",
        "CA",
    ] {
        let config = format!("[plugins.\"{id}\"]\nbinary = {binary:?}\n");
        workspace.write("orchestra.toml", &config);
        let checked = workspace.run(["mcp", "validate"]);
        assert_eq!(checked.code, Some(3), "{id}: {checked:?}");
        let said = format!("{}{}", checked.out, checked.err);
        assert!(
            said.contains("is reserved for orchestrators"),
            "{id}: {said}"
        );
    }
}

#[test]
fn a_certificate_lets_in_and_says_who_is_there() {
    let workspace = Workspace::board();
    let up = Up::start_with(&workspace, &["--admit", "tools.mine"]);
    let stranger = Caller::connect(&workspace, &up, "tools.stranger-client");
    let refused = stranger.register("tools.stranger", PluginManifest::default());
    assert!(refused.reject_reason.contains("--admit"), "{refused:?}");
    let caller = Caller::connect(&workspace, &up, "tools.mine-client");
    let register = |id: &str, needs_storage: &[&str]| {
        let manifest = PluginManifest {
            id: id.to_owned(),
            needs_storage: needs_storage.iter().map(ToString::to_string).collect(),
            ..PluginManifest::default()
        };
        caller.ask::<_, RegistrationResult>(&manifest)
    };
    let refused: ToolResponse = caller.ask(&ListToolsRequest::default());
    assert_eq!(refused.error_code, "not_registered");
    let other = register("tools.other", &[]);
    assert!(!other.accepted, "{other:?}");
    // Nobody keeps what it needs.
    let lacking = register("tools.mine", &["sqlite"]);
    assert!(lacking.reject_reason.contains("sqlite"), "{lacking:?}");
    let own = register("tools.mine", &["markdown"]);
    assert!(own.accepted, "{own:?}");
    up.end();
}

#[test]
fn documents_and_models_are_those_of_the_plugins_that_stand_for_them() {
    let workspace = Workspace::board();
    let binary = example("keeper").display().to_string();
    workspace.write(
        "orchestra.toml",
        &format!(
            "[plugins.\"storage.memory\"]\nbinary = {binary:?}\n\
             provides_storage = [\"memory\"]\nprovides_ai = [\"openai\"]\n"
        ),
    );
    approve(&workspace, "storage.memory");
    let up = Up::start_with(
        &workspace,
        &["--admit", "tools.mine", "--admit", "tools.other"],
    );
    assert_eq!(
        up.text("storage-memory__ask", &json!({"question": "why?"})),
        "a model would answer: why?"
    );
    let caller = Caller::connect(&workspace, &up, "tools.mine-client");
    let manifest = PluginManifest {
        id: "tools.mine".to_owned(),
        needs_storage: vec!["memory".to_owned()],
        needs_ai: vec!["openai".to_owned()],
        ..PluginManifest::default()
    };
    let registered: RegistrationResult = caller.ask(&manifest);
    assert!(registered.accepted, "{registered:?}");
    let write = |expected_version| {
        let document = StorageWriteRequest {
            path: "a".to_owned(),
            content: "x".into(),
            expected_version,
            storage_type: "memory".to_owned(),
            ..StorageWriteRequest::default()
        };
        caller.ask::<_, StorageWriteResponse>(&document)
    };
    assert_eq!(write(0).new_version, 1);
    let problem = write(0).problem.unwrap();
    assert_eq!(problem.code, "version_conflict", "{problem:?}");
    let read = |storage_type: &str| {
        let request = StorageReadRequest {
            path: "a".to_owned(),
            storage_type: storage_type.to_owned(),
        };
        caller.ask::<_, StorageReadResponse>(&request)
    };
    assert_eq!(read("memory").content, "x");
    assert_eq!(read("markdown").problem.unwrap().code, "not_permitted");
    assert!(!workspace.join(".projects/a").exists());
    // One provider speaks for others.
    let asked = |provider: &str| {
        let question = structs::encode(br#"{"question":"why?"}"#, Numbers::Nearest).unwrap();
        let call = ToolRequest {
            tool_name: "ask".to_owned(),
            arguments: Some(question),
            provider: provider.to_owned(),
            ..ToolRequest::default()
        };
        caller.ask::<_, ToolResponse>(&call)
    };
    for provider in ["openai", "grok"] {
        let answer = asked(provider);
        assert!(answer.success, "{answer:?}");
    }
    assert_eq!(asked("claude").error_code, "not_permitted");
    // Who may call every tool may not call those of models by that.
    let other = Caller::connect(&workspace, &up, "tools.other-client");
    let needs_tools = vec!["*".to_owned()];
    let manifest = PluginManifest {
        needs_tools,
        ..PluginManifest::default()
    };
    assert!(other.register("tools.other", manifest).accepted);
    for tool in ["storage-memory__ask", "ask"] {
        let answer = other.call(tool);
        assert_eq!(answer.error_code, "not_permitted", "{answer:?}");
    }
    assert!(other.call("list_projects").success);
    up.end();
}

/// A plugin of a workspace is approved with what it needs when it runs for the first time, and not
/// with whatever it says later.
#[test]
fn what_a_plugin_needs_later_waits_for_approval() {
    let workspace = Workspace::board();
    let binary = example("hello").display().to_string();
    let plugin = format!("[plugins.\"tools.hello\"]\nbinary = {binary:?}\n");
    workspace.write("orchestra.toml", &plugin);
    approve(&workspace, "tools.hello");
    let up = Up::start(&workspace);
    assert_eq!(up.text("greet", &json!({"name": "Ada"})), "Hello, Ada!\n");
    let kept = workspace.home().join(".local/state/orchestra/mcp/needs");
    until(|| {
        let mut files = std::fs::read_dir(&kept).ok()?.flatten();
        files.find(|file| file.path().extension().is_some_and(|end| end == "json"))
    });
    // It needs nothing, and then says that it does.
    let needs = || PluginManifest {
        needs_tools: vec!["list_*".to_owned()],
        ..PluginManifest::default()
    };
    let caller = Caller::connect(&workspace, &up, "tools.hello-client");
    assert!(caller.register("tools.hello", needs()).accepted);
    let refused = caller.call("list_projects");
    assert_eq!(refused.error_code, "not_permitted", "{refused:?}");
    let waiting = workspace.run(["mcp", "approve"]);
    let wanted = "needs more than was approved: needs_tools list_*";
    assert!(waiting.out.contains(wanted), "{waiting:?}");
    approve(&workspace, "tools.hello");
    let waiting = workspace.run(["mcp", "approve"]);
    assert!(waiting.out.contains("no server waits"), "{waiting:?}");
    // The plugin itself is started anew and registers as well, with nothing.
    until(|| {
        assert!(caller.register("tools.hello", needs()).accepted);
        caller.call("list_projects").success.then_some(())
    });
    // That is all that was approved.
    let more = PluginManifest {
        needs_tools: vec!["*".to_owned()],
        ..PluginManifest::default()
    };
    assert!(caller.register("tools.hello", more).accepted);
    assert_eq!(caller.call("create_project").error_code, "not_permitted");
    up.end();
}

/// Spec 4.6: in the first orchestrator a tool of `claude` hid ordinary ones, also where nobody had
/// asked for a provider.
#[test]
fn tools_of_claude_go_first_where_that_is_configured() {
    let workspace = Workspace::board();
    let (ordinary, model) = (example("hello"), example("annotated"));
    let plugins = format!(
        "[plugins.\"tools.hello\"]\nbinary = {ordinary:?}\n\
         [plugins.\"tools.sample\"]\nbinary = {model:?}\nprovides_ai = [\"claude\"]\n"
    );
    workspace.write("orchestra.toml", &plugins);
    approve(&workspace, "tools.hello");
    approve(&workspace, "tools.sample");
    let greeted = |up: &Up| {
        let caller = Caller::connect(&workspace, up, "transport.stdio-client");
        let greet = ToolRequest {
            tool_name: "greet".to_owned(),
            arguments: structs::encode(br#"{"name":"Ada"}"#, Numbers::Nearest).ok(),
            ..ToolRequest::default()
        };
        let answer: ToolResponse = caller.ask(&greet);
        assert!(answer.success, "{answer:?}");
        let result = structs::decode(&answer.result.unwrap(), Style::Plain).unwrap();
        let result: serde_json::Value = serde_json::from_str(&result).unwrap();
        result["text"].as_str().unwrap().to_owned()
    };
    for (line, expected) in [
        ("", "Hello, Ada!\n"),
        ("claude_first = true\n", "Hello, Ada, from tools.sample."),
    ] {
        workspace.write("orchestra.toml", &format!("{line}{plugins}"));
        let up = Up::start(&workspace);
        // Both are there.
        up.text("greet", &json!({"name": "Ada"}));
        up.text("tools-sample__greet", &json!({"name": "Ada"}));
        assert_eq!(greeted(&up), expected, "{line}");
        up.end();
    }
}

#[test]
fn where_plugins_come_in_is_for_the_user_to_say() {
    let workspace = Workspace::board();
    for (line, is_refused) in [
        ("quic = \"off\"", false),
        ("quic = \"0\"", false),
        ("quic = \"0.0.0.0:0\"", true),
        ("certs_dir = \"certs\"", true),
    ] {
        workspace.write("orchestra.toml", line);
        let said = workspace.run(["config", "show"]);
        assert_eq!(said.code == Some(2), is_refused, "{line}: {said:?}");
    }
    workspace.write("orchestra.toml", "quic = \"off\"");
    let flags = ["up", "--http", "127.0.0.1:0", "--json"];
    let process = Running::start(workspace.command(flags));
    let ready = process.json();
    assert!(ready.get("quic").is_none(), "{ready}");
    process.signal(Signal::TERM);
    assert!(process.end().success());
    // A port that is taken leads to the next one, and a directory that cannot be is told.
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let process = Running::start(workspace.command([&flags[..], &["--quic", &taken]].concat()));
    let ready = process.json();
    assert_ne!(ready["quic"], taken);
    process.signal(Signal::TERM);
    assert!(process.end().success());
    workspace.write("file", "");
    let there = workspace.join("file").display().to_string();
    let said = workspace.run([&flags[..], &["--quic", "0", "--certs-dir", &there]].concat());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("certificates in"), "{said:?}");
}

#[test]
fn a_program_that_is_configured_as_its_own_orchestrator_does_not_call_itself() {
    let workspace = Workspace::board();
    let address = free_address();
    workspace.write(
        "orchestra.toml",
        &format!("[servers.mirror]\norchestrator = \"{address}\"\n"),
    );
    approve(&workspace, "mirror");
    let certs = workspace.home().join(".orchestra/certs");
    let certs = CertDir::open(certs).unwrap();
    certs.ensure_ca(SystemTime::now()).unwrap();
    let flags = ["up", "--http", "127.0.0.1:0", "--json", "--quic", &address];
    let process = Running::start(workspace.command(flags));
    let ready = process.json();
    assert_eq!(ready["quic"], address);
    let http = ready["http"].as_str().unwrap().replace("http://", "");
    until(|| {
        let told = get(&http, "/api/mcp/servers").json().to_string();
        told.contains("is this program itself").then_some(())
    });
    process.signal(Signal::TERM);
    assert!(process.end().success());
}

#[test]
fn tools_that_come_and_go_while_a_plugin_runs_are_told() {
    let workspace = Workspace::board();
    let binary = example("annotated").display().to_string();
    let config = format!("[plugins.\"tools.sample\"]\nbinary = {binary:?}\n");
    workspace.write("orchestra.toml", &config);
    approve(&workspace, "tools.sample");
    let mut session = Session::start(workspace.command(["stdio"]));
    let is_listed = |session: &mut Session| {
        let listed = session.request("tools/list", &json!({}));
        listed["result"].to_string().contains("\"bark\"")
    };
    assert!(!is_listed(&mut session));
    session.tool("learn", &json!({"name": "bark", "says": "woof"}));
    while !is_listed(&mut session) {
        session.notified("notifications/tools/list_changed");
    }
    let said = session.tool("bark", &json!({}));
    assert_eq!(said["content"][0]["text"], "woof");
    session.tool("forget", &json!({"name": "bark"}));
    while is_listed(&mut session) {
        session.notified("notifications/tools/list_changed");
    }
}

#[test]
fn orchestrators_do_not_go_in_circles() {
    let workspaces = [Workspace::board(), Workspace::board()];
    let certs = workspaces[0].home().join("certs").display().to_string();
    let free = workspaces.each_ref().map(|_| free_address());
    CertDir::open(&certs)
        .unwrap()
        .ensure_ca(SystemTime::now())
        .unwrap();
    let started: Vec<(Running, String)> = workspaces
        .iter()
        .zip(free.iter().zip(free.iter().rev()))
        .map(|(workspace, (own, other))| {
            let config =
                format!("[servers.other]\norchestrator = \"{other}\"\ncerts_dir = {certs:?}\n");
            workspace.write("orchestra.toml", &config);
            approve(workspace, "other");
            let flags = ["up", "--http", "127.0.0.1:0", "--json", "--quic", own];
            let flags = [&flags[..], &["--certs-dir", &certs]].concat();
            let process = Running::start(workspace.command(flags));
            let http = process.json()["http"]
                .as_str()
                .unwrap()
                .replace("http://", "");
            (process, http)
        })
        .collect();
    let states = || {
        let servers = started
            .iter()
            .map(|(_, http)| get(http, "/api/mcp/servers").body);
        servers.collect::<String>()
    };
    // One of them stays, and the other waits for its turn.
    until(|| {
        let states = states();
        let is_ready = states.contains("\"status\":\"ready\"");
        (is_ready && states.contains("reaches this program already")).then_some(())
    });
    let stays = started
        .iter()
        .position(|(_, http)| get(http, "/api/mcp/servers").body.contains("\"ready\""));
    let mut started = started;
    let (first, _) = started.remove(stays.unwrap());
    first.signal(Signal::TERM);
    assert!(first.end().success());
    let (other, http) = started.remove(0);
    let shown = get(&http, "/api/mcp/servers").body;
    assert!(
        !shown.contains("\"ready\"") && !shown.contains("invalid"),
        "{shown}"
    );
    other.signal(Signal::TERM);
    assert!(other.end().success());
}
