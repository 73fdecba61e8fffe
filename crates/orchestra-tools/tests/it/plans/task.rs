//! Runs of plans as tasks of MCP.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orchestra_hub::{Hub, HubConfig};
use orchestra_mcp::{Server, post::Post};
use orchestra_plan::phase::Phase;
use orchestra_tools::{Builtin, Options};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::model::Model;
use super::{job, plan, with};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of the newest revision, which knows tasks or does not.
struct Client {
    post: Post,
    model: Model,
    tasks: bool,
    _directory: TempDir,
}

impl Client {
    fn new(tasks: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = orchestra_store::Options {
            watch: false,
            sweep: false,
            flush: false,
            ..orchestra_store::Options::default()
        };
        let store = orchestra_store::Store::open(directory.path(), options).unwrap();
        let model = Model::new();
        let options = Options {
            plans: Some(Arc::new(model.clone())),
            ..Options::default()
        };
        let hub = Hub::new(HubConfig::default());
        hub.register(Arc::new(Builtin::new(store, options)))
            .unwrap();
        let server = Server::builder(hub, "test").build();
        Self {
            post: Post::new(&server, "test"),
            model,
            tasks,
            _directory: directory,
        }
    }

    async fn result(&self, method: &str, mut params: Value) -> Value {
        let extensions = match self.tasks {
            true => json!({"io.modelcontextprotocol/tasks": {}}),
            false => json!({}),
        };
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions}
        });
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let answer = self
            .post
            .handle(request.to_string().as_bytes())
            .await
            .unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
            .await
    }

    /// Looks until a task is as wanted.
    async fn until(&self, task: &Value, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = self
                .result("tasks/get", json!({"taskId": task["taskId"]}))
                .await;
            if is_wanted(&now) {
                return now;
            }
            assert!(Instant::now() < end, "{now}");
            tokio::task::yield_now().await;
        }
    }

    async fn only(&self) -> String {
        let listed = self.call("list_copilot_plans", json!({})).await;
        listed["structuredContent"]["Plans"][0]["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

#[tokio::test]
async fn a_run_is_a_task_that_tells_how_far_it_is_and_ends_with_the_plan() {
    let client = Client::new(true);
    client.model.fail(&[("two", Phase::Work)]);
    let jobs = plan(&[job("one", &[]), job("two", &["one"])]);
    let task = client.call("create_copilot_plan", jobs).await;
    assert_eq!(
        (&task["resultType"], &task["status"]),
        (&json!("task"), &json!("working"))
    );
    let id = client.only().await;
    client.model.step(&id);
    client.model.step(&id);
    let told = |task: &Value| {
        task["statusMessage"]
            .as_str()
            .is_some_and(|text| text.contains("running: one"))
    };
    client.until(&task, told).await;
    client.model.run(&id);
    let done = client
        .until(&task, |task| task["status"] == "completed")
        .await;
    let answer = &done["result"]["structuredContent"];
    assert_eq!(
        (&answer["planId"], &answer["status"]["status"]),
        (&json!(id), &json!("failed")),
        "{done}"
    );
}

#[tokio::test]
async fn a_canceled_task_leaves_its_plan_running() {
    let client = Client::new(true);
    let task = client
        .call("create_copilot_plan", plan(&[job("one", &[])]))
        .await;
    let id = client.only().await;
    client
        .result("tasks/cancel", json!({"taskId": task["taskId"]}))
        .await;
    client
        .until(&task, |task| task["status"] == "cancelled")
        .await;
    client.model.run(&id);
    assert_eq!(client.model.of(&id).status().name(), "succeeded");
}

#[tokio::test]
async fn who_knows_no_tasks_or_starts_nothing_is_answered_at_once() {
    let client = Client::new(false);
    let made = client
        .call("create_copilot_plan", plan(&[job("one", &[])]))
        .await;
    assert_eq!(made["structuredContent"]["status"]["status"], "pending");
    let client = Client::new(true);
    let paused = with(&plan(&[job("one", &[])]), json!({"startPaused": true}));
    let made = client.call("create_copilot_plan", paused).await;
    assert_eq!(made["structuredContent"]["paused"], true, "{made}");
}
