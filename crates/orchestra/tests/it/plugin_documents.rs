//! Documents that plugins keep: who asks for them asks through the client of the plugin, which is
//! started for that, and by its rules.

use orchestra_plugin::generated::{
    PluginManifest, StorageReadRequest, StorageReadResponse, StorageWriteRequest,
    StorageWriteResponse,
};
use serde_json::json;

use crate::{
    plugins::{Caller, Up, approve, example},
    support::{Session, Workspace, get, until},
};

/// A workspace whose plugin keeps the documents of a type, with more lines about it.
fn keeper(storage_type: &str, more: &str) -> Workspace {
    let workspace = Workspace::board();
    let binary = example("keeper").display().to_string();
    workspace.write(
        "orchestra.toml",
        &format!(
            "[plugins.\"storage.memory\"]\nbinary = {binary:?}\n\
             provides_storage = [{storage_type:?}]\n{more}"
        ),
    );
    approve(&workspace, "storage.memory");
    workspace
}

fn up(workspace: &Workspace) -> Up {
    Up::start_with(workspace, &["--admit", "tools.mine"])
}

/// Somebody who uses the documents of a type.
struct Writer {
    caller: Caller,
    storage_type: &'static str,
}

impl Writer {
    fn new(workspace: &Workspace, up: &Up, id: &str, storage_type: &'static str) -> Self {
        let caller = Caller::connect(workspace, up, &format!("{id}-client"));
        let manifest = PluginManifest {
            needs_storage: vec![storage_type.to_owned()],
            ..PluginManifest::default()
        };
        let registered = caller.register(id, manifest);
        assert!(registered.accepted, "{registered:?}");
        Self {
            caller,
            storage_type,
        }
    }

    fn write(&self, content: &[u8]) -> StorageWriteResponse {
        self.caller.ask(&StorageWriteRequest {
            path: "a.md".to_owned(),
            content: content.to_vec().into(),
            expected_version: -1,
            storage_type: self.storage_type.to_owned(),
            ..StorageWriteRequest::default()
        })
    }

    fn read(&self) -> StorageReadResponse {
        self.caller.ask(&StorageReadRequest {
            path: "a.md".to_owned(),
            storage_type: self.storage_type.to_owned(),
        })
    }
}

/// Waits until the plugin was stopped because nobody used it.
fn stopped(up: &Up) {
    until(|| {
        let servers = get(&up.address, "/api/mcp/servers").json().to_string();
        servers.contains("\"idle\"").then_some(())
    });
}

/// Also one that took over the documents of the workspace.
#[test]
fn a_plugin_that_is_not_there_is_started_for_a_document() {
    for storage_type in ["memory", "markdown"] {
        let workspace = keeper(storage_type, "lazy = true\nidle_stop = \"500ms\"\n");
        let up = up(&workspace);
        let writer = Writer::new(&workspace, &up, "tools.mine", storage_type);
        for _ in 0..2 {
            stopped(&up);
            // It begins anew each time.
            let content: Vec<u8> = (0..=255).collect();
            let written = writer.write(&content);
            assert_eq!((written.new_version, &written.problem), (1, &None));
            assert_eq!(writer.read().content, content);
        }
        assert!(!workspace.join(".projects/a.md").exists());
        up.end();
    }
}

/// Whoever depends on a plugin that was stopped because nobody used it is started without waiting for
/// it: a call would start it, and nothing else does.
#[test]
fn nobody_waits_for_a_plugin_that_waits_for_calls() {
    let sample = example("sample").display().to_string();
    let workspace = keeper(
        "memory",
        &format!(
            "idle_stop = \"500ms\"\n[plugins.\"tools.sample\"]\nbinary = {sample:?}\n\
             depends_on = [\"storage.memory\"]\n"
        ),
    );
    approve(&workspace, "tools.sample");
    let up = up(&workspace);
    let process = || {
        let result = up.call("pid", &json!({}));
        (result["isError"] != true).then(|| result["content"][0]["text"].clone())
    };
    let first = until(process);
    stopped(&up);
    up.call("die", &json!({}));
    // As long as it waited it would not start, and nothing else starts the other.
    assert_ne!(until(process), first);
    up.end();
}

#[test]
fn documents_count_as_calls_of_their_plugin() {
    let workspace = keeper("memory", "limits = { daily_quota = 2 }\n");
    let up = up(&workspace);
    let writer = Writer::new(&workspace, &up, "tools.mine", "memory");
    assert_eq!(writer.write(b"x").new_version, 1);
    assert_eq!(writer.read().content, "x");
    // It was not sent, so that it is known to have done nothing.
    let refused = writer.write(b"y").problem.unwrap();
    assert_eq!(refused.code, "storage_error", "{refused:?}");
    assert!(refused.message.contains("try again in"), "{refused:?}");
    up.end();
}

/// It would be asked for what it asks, without end.
#[test]
fn a_plugin_does_not_ask_itself() {
    let workspace = keeper("memory", "");
    let up = up(&workspace);
    let own = Writer::new(&workspace, &up, "storage.memory", "memory");
    let refused = own.read().problem.unwrap();
    assert_eq!(refused.code, "not_permitted", "{refused:?}");
    assert!(refused.message.contains("itself"), "{refused:?}");
    up.end();
}

/// What is for this program alone is no method for its clients, although the one server behind it is
/// asked what nobody here knows.
#[test]
fn clients_do_not_come_at_documents_of_plugins() {
    let workspace = keeper("memory", "");
    let mut session = Session::start(workspace.command(["stdio"]));
    session.tool("ask", &json!({"question": "why?"}));
    let params = json!({"envelope": "8gEDCgF4"});
    let answer = session.request("orchestra/internal/documents", &params);
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

#[test]
fn plugin_that_stores_through_another_works_from_single_commands() {
    let workspace = Workspace::board();
    let [sample, keeper] = ["sample", "keeper"].map(|name| example(name).display().to_string());
    workspace.write(
        "orchestra.toml",
        &format!(
            "[plugins.\"tools.sample\"]\nbinary = {sample:?}\ndepends_on = [\"storage.memory\"]\n\
             [plugins.\"storage.memory\"]\nbinary = {keeper:?}\nprovides_storage = [\"markdown\"]\n"
        ),
    );
    approve(&workspace, "storage.memory");
    approve(&workspace, "tools.sample");
    let document = ["store", "path=notes/a.md", "content=one", "version=0"];
    for command in [&["tool", "call"][..], &["mcp", "call", "tools.sample"]] {
        let said = workspace.run([command, &document].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.contains("\"version\":1"), "{said:?}");
    }
    // Each command has plugins of its own, and the plugin keeps nothing when it ends.
    assert!(!workspace.join(".projects/notes").exists());
}
