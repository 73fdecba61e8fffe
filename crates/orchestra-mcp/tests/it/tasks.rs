//! Calls that become tasks, and what clients do with them.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use orchestra_mcp::{
    Limits, Server, TaskLimits,
    http::{self, Access, AccessRules, HttpOptions, OAuth},
    post::Post,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    child,
    memory::{self, Client, Shared, server_keeping, server_with},
    oauth::{self, Issuer, Key},
};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the clients can do here.
fn capabilities() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// A stateless request of a client with such capabilities.
fn request_of(capabilities: &Value, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities
    });
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn request(method: &str, params: Value) -> Value {
    request_of(&capabilities(), method, params)
}

fn call(tool: &str) -> Value {
    request("tools/call", json!({"name": tool, "arguments": {}}))
}

fn about(method: &str, id: &str) -> Value {
    request(method, json!({"taskId": id}))
}

/// One message at a time.
struct Face {
    post: Post,
    shared: Arc<Shared>,
}

impl Face {
    fn new() -> Self {
        Self::over(server_with(Limits::default()))
    }

    fn over((server, shared): (Server, Arc<Shared>)) -> Self {
        let post = Post::new(&server, "test");
        Self { post, shared }
    }

    async fn reply(&self, request: &Value) -> Value {
        memory::post(&self.post, request).await.unwrap()
    }

    async fn result(&self, request: &Value) -> Value {
        let reply = self.reply(request).await;
        assert!(reply.get("error").is_none(), "{reply}");
        reply["result"].clone()
    }

    async fn code(&self, request: &Value) -> i64 {
        self.reply(request).await["error"]["code"].as_i64().unwrap()
    }

    /// Begins a task; its id.
    async fn begin(&self, tool: &str) -> String {
        let begun = self.result(&call(tool)).await;
        assert_eq!(begun["resultType"], "task", "{begun}");
        assert_eq!(begun["status"], "working");
        begun["taskId"].as_str().unwrap().to_owned()
    }

    async fn look(&self, id: &str) -> Value {
        self.result(&about("tasks/get", id)).await
    }

    /// Looks until the task has this status.
    async fn until(&self, id: &str, status: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let task = self.look(id).await;
            if task["status"] == status {
                return task;
            }
            assert!(Instant::now() < end, "{task}");
            tokio::task::yield_now().await;
        }
    }

    async fn dropped(&self, calls: usize) {
        until(|| self.shared.dropped.load(Ordering::SeqCst) == calls).await;
    }
}

async fn until(condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_call_that_waits_becomes_a_task_and_its_result_is_kept() {
    let face = Face::new();
    let begun = face.result(&call("gate")).await;
    assert_eq!(begun["resultType"], "task");
    assert_eq!(begun["ttlMs"], 3_600_000);
    assert_eq!(begun["pollIntervalMs"], 1_000);
    assert_eq!(begun["content"], json!([]));
    assert_eq!(begun.get("result"), None);
    let id = begun["taskId"].as_str().unwrap();
    let task = face.look(id).await;
    assert_eq!(task["resultType"], "complete");
    assert_eq!(task["status"], "working");
    assert_eq!(task["createdAt"], begun["createdAt"]);
    face.shared.gate.notify_one();
    let task = face.until(id, "completed").await;
    assert_eq!(task["result"]["resultType"], "complete");
    assert_eq!(task["result"]["content"][0]["text"], "{}");
    assert_eq!(face.look(id).await, task);
    // Too late, which is no error.
    let acknowledged = face.result(&about("tasks/cancel", id)).await;
    assert_eq!(acknowledged["resultType"], "complete");
    assert_eq!(acknowledged.as_object().unwrap().len(), 2, "{acknowledged}");
    assert_eq!(face.look(id).await, task);
}

#[tokio::test]
async fn what_answers_at_once_is_no_task() {
    let face = Face::new();
    let echoed = face.result(&call("echo")).await;
    assert_eq!(echoed["resultType"], "complete");
    // What is needed before the work begins is asked before there is a task.
    let asked = face.result(&call("ask_once")).await;
    assert_eq!(asked["resultType"], "input_required");
    let mut again = call("ask_once");
    again["params"]["inputResponses"] = json!({"form": {"action": "accept"}});
    let answered = face.result(&again).await;
    assert_eq!(answered["resultType"], "complete");
}

#[tokio::test]
async fn a_client_that_does_not_know_tasks_waits_or_is_refused() {
    let face = Face::new();
    let none = json!({});
    let call = |tool: &str| request_of(&none, "tools/call", json!({"name": tool}));
    face.shared.gate.notify_one();
    assert_eq!(face.result(&call("gate")).await["resultType"], "complete");
    let lacking = |reply: &Value| {
        assert_eq!(reply["error"]["code"], -32021);
        let extensions = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        assert_eq!(reply["error"]["data"]["requiredCapabilities"], extensions);
    };
    lacking(&face.reply(&call("must")).await);
    let id = face.begin("gate").await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": id, "inputResponses": {}});
        lacking(&face.reply(&request_of(&none, method, params)).await);
    }
    // Those of a session know tasks of another kind, if any.
    let session = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "must", "arguments": {}}});
    face.shared.gate.notify_one();
    face.until(&id, "completed").await;
    face.shared.gate.notify_one();
    assert!(face.result(&session).await["content"].is_array());
    let session = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get",
        "params": {"taskId": id}});
    assert_eq!(face.code(&session).await, -32601);
}

#[tokio::test]
async fn methods_and_ids_that_are_not_there_are_refused() {
    let face = Face::new();
    for method in ["tasks/list", "tasks/result"] {
        assert_eq!(face.code(&about(method, "x")).await, -32601);
    }
    let other = "0123456789abcdef0123456789abcdef";
    for id in ["x", "", other] {
        assert_eq!(face.code(&about("tasks/get", id)).await, -32602);
        assert_eq!(face.code(&about("tasks/cancel", id)).await, -32602);
        let params = json!({"taskId": id, "inputResponses": {}});
        assert_eq!(face.code(&request("tasks/update", params)).await, -32602);
    }
    assert_eq!(face.code(&request("tasks/get", json!({}))).await, -32602);
    let id = face.begin("never").await;
    for bad in [json!(null), json!([]), json!("x")] {
        let params = json!({"taskId": id, "inputResponses": bad});
        assert_eq!(face.code(&request("tasks/update", params)).await, -32602);
    }
    let discovered = face.result(&request("server/discover", json!({}))).await;
    let offered = &discovered["capabilities"];
    assert_eq!(
        offered["extensions"]["io.modelcontextprotocol/tasks"],
        json!({})
    );
    assert_eq!(offered.get("tasks"), None);
}

#[tokio::test]
async fn a_task_asks_its_client_and_goes_on() {
    let face = Face::new();
    let id = face.begin("gate_ask").await;
    face.shared.gate.notify_one();
    let asked = face.until(&id, "input_required").await;
    let asked = asked["inputRequests"].as_object().unwrap().clone();
    let key = asked.keys().next().unwrap();
    assert_eq!(asked[key]["method"], "elicitation/create");
    let answer = |key: &str| {
        let responses = json!({key: {"action": "accept"}});
        request(
            "tasks/update",
            json!({"taskId": id, "inputResponses": responses}),
        )
    };
    // What nobody asked is acknowledged, and ignored.
    assert_eq!(
        face.result(&answer("other")).await["resultType"],
        "complete"
    );
    assert_eq!(face.look(&id).await["status"], "input_required");
    assert_eq!(face.result(&answer(key)).await["resultType"], "complete");
    assert_eq!(face.look(&id).await["status"], "working");
    face.shared.gate.notify_one();
    let task = face.until(&id, "completed").await;
    assert_eq!(
        task["result"]["content"][0]["text"],
        r#"{"form":{"action":"accept"}}"#
    );
    // A client that cannot be asked gets to know why there is no result.
    let tasks_only = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = json!({"name": "gate_ask", "arguments": {}});
    let begun = face
        .result(&request_of(&tasks_only, "tools/call", params))
        .await;
    face.shared.gate.notify_one();
    let task = face
        .until(begun["taskId"].as_str().unwrap(), "failed")
        .await;
    assert_eq!(task["error"]["code"], -32021);
    assert_eq!(task.get("result"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_ends_its_call_wherever_it_runs() {
    let face = Face::new();
    for (ended, tool) in (1..).zip(["never", "heavy"]) {
        let id = face.begin(tool).await;
        // One that has not begun would have nothing to end.
        until(|| face.shared.order.lock().unwrap().len() == ended).await;
        face.result(&about("tasks/cancel", &id)).await;
        let task = face.until(&id, "cancelled").await;
        assert_eq!(task.get("result"), None);
        face.dropped(ended).await;
    }
    let id = face.begin("gate_ask").await;
    face.shared.gate.notify_one();
    face.until(&id, "input_required").await;
    face.result(&about("tasks/cancel", &id)).await;
    assert_eq!(face.look(&id).await["status"], "cancelled");
}

#[tokio::test]
async fn a_call_that_breaks_fails_its_task() {
    let face = Face::new();
    let id = face.begin("panic_later").await;
    let task = face.until(&id, "failed").await;
    assert_eq!(task["error"]["code"], -32603);
    assert!(task["statusMessage"].as_str().unwrap().contains("broke"));
}

#[tokio::test]
async fn whoever_listens_hears_how_a_task_goes() {
    let (server, shared) = server_with(Limits::default());
    let face = Face::over((server.clone(), shared));
    let mut client = Client::connect(&server);
    let id = face.begin("report").await;
    let listen = |capabilities: &Value| {
        let names = json!({"taskIds": [id, "x"]});
        request_of(
            capabilities,
            "subscriptions/listen",
            json!({"notifications": names}),
        )
    };
    client.send(&listen(&json!({})).to_string()).await;
    assert_eq!(client.next().await.unwrap()["error"]["code"], -32021);
    client.send(&listen(&capabilities()).to_string()).await;
    let acknowledged = client.next().await.unwrap();
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({"taskIds": [id]})
    );
    let told = client.next().await.unwrap();
    assert_eq!(told["method"], "notifications/tasks");
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 7});
    assert_eq!(told["params"]["_meta"], meta);
    assert_eq!(told["params"]["taskId"], id.as_str());
    assert_eq!(told["params"]["status"], "working");
    face.shared.gate.notify_one();
    loop {
        let told = client.next().await.unwrap();
        if told["params"]["status"] == "completed" {
            assert_eq!(told["params"]["result"]["content"][0]["text"], "{}");
            break;
        }
        // The progress of its call is what is told of it while it works.
        assert_eq!(told["params"]["statusMessage"], "2 of 2");
    }
    // Nothing more is told, for nothing more happens.
    client.send(&about("tasks/get", &id).to_string()).await;
    assert_eq!(client.next().await.unwrap()["id"], 7);
}

#[tokio::test]
async fn past_the_bound_calls_are_waited_for_and_those_that_must_not_are_refused() {
    let limits = TaskLimits {
        count: 1,
        ..TaskLimits::default()
    };
    let face = Face::over(server_keeping(Limits::default(), limits));
    let id = face.begin("never").await;
    let waited = face.result(&call("yield")).await;
    assert_eq!(waited["resultType"], "complete");
    assert_eq!(face.code(&call("must")).await, -32603);
    face.result(&about("tasks/cancel", &id)).await;
    face.until(&id, "cancelled").await;
}

#[tokio::test]
async fn a_task_is_forgotten_some_time_after_its_end() {
    let limits = TaskLimits {
        keep: Duration::from_millis(20),
        ..TaskLimits::default()
    };
    let (server, shared) = server_keeping(Limits::default(), limits);
    let face = Face::over((server, shared));
    let id = face.begin("gate").await;
    face.shared.gate.notify_one();
    let end = Instant::now() + PATIENCE;
    loop {
        let reply = face.reply(&about("tasks/get", &id)).await;
        if reply["error"]["code"] == -32602 {
            break;
        }
        assert!(Instant::now() < end, "{reply}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn tasks_end_with_their_server() {
    let (server, shared) = server_with(Limits::default());
    let face = Face::over((server, Arc::clone(&shared)));
    face.begin("never").await;
    drop(face);
    until(|| shared.dropped.load(Ordering::SeqCst) == 1).await;
}

#[test]
fn a_process_that_is_left_ends_with_a_task_at_work() {
    let mut server = child::Server::start("everything");
    let params = json!({"name": "slow_compute", "arguments": {"seconds": 600}});
    let begun = server.call(&request("tools/call", params).to_string());
    assert_eq!(begun["result"]["status"], "working");
    server.close_input();
    assert!(server.exit().success());
}

const TOKENS: [&str; 2] = [
    "one-0123456789abcdef0123456789abcdef",
    "two-0123456789abcdef0123456789abcdef",
];

/// A server over HTTP.
struct Site {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

impl Site {
    async fn new(access: Access) -> Self {
        let (server, shared) = server_with(Limits::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let options = HttpOptions {
            access,
            stop: Some(stopped.clone()),
            ..HttpOptions::default()
        };
        let app = http::router(&server, options);
        tokio::spawn(async move {
            http::serve(listener, app, stopped, http::Limits::default()).await;
            drop(server);
        });
        Self {
            address,
            shared,
            stop,
        }
    }

    /// Sends a request on a connection of its own; the status and the body of the reply.
    async fn post(&self, name: &str, request: &Value) -> (u16, Value) {
        self.post_as(TOKENS[0], name, request).await
    }

    async fn post_as(&self, token: &str, name: &str, request: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let (body, method) = (request.to_string(), request["method"].as_str().unwrap());
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Authorization: Bearer {token}\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\n\r\n",
            self.address,
            body.len()
        );
        let message = head + &body;
        stream.write_all(message.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = reply.split_once("\r\n\r\n").unwrap();
        (status, serde_json::from_str(body).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_a_task_outlives_its_connection_and_ends_with_the_server() {
    let site = Site::new(Access::default()).await;
    let (status, begun) = site.post("never", &call("never")).await;
    assert_eq!(status, 200);
    let id = begun["result"]["taskId"].as_str().unwrap();
    let (status, task) = site.post(id, &about("tasks/get", id)).await;
    assert_eq!(
        (status, &task["result"]["status"]),
        (200, &json!("working"))
    );
    for wrong in ["other", ""] {
        let (status, reply) = site.post(wrong, &about("tasks/get", id)).await;
        assert_eq!((status, &reply["error"]["code"]), (400, &json!(-32020)));
    }
    assert_eq!(site.shared.dropped.load(Ordering::SeqCst), 0);
    site.stop.send_replace(true);
    until(|| site.shared.dropped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_a_task_is_nobodys_but_whose_who_began_it() {
    let site = Site::new(Access::new(AccessRules {
        tokens: TOKENS.map(|token| token.parse().unwrap()).into(),
        ..AccessRules::default()
    }))
    .await;
    let (_, begun) = site.post("never", &call("never")).await;
    let id = begun["result"]["taskId"].as_str().unwrap();
    for method in ["tasks/get", "tasks/cancel"] {
        let (status, reply) = site.post_as(TOKENS[1], id, &about(method, id)).await;
        assert_eq!((status, &reply["error"]["code"]), (200, &json!(-32602)));
    }
    let (_, task) = site.post(id, &about("tasks/get", id)).await;
    assert_eq!(task["result"]["status"], "working");
    site.stop.send_replace(true);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_a_task_of_a_subject_is_nobodys_else() {
    let key = Key::p256("a");
    let issuer = Issuer::new(std::slice::from_ref(&key)).await;
    let site = Site::new(Access::new(AccessRules {
        tokens: TOKENS.map(|token| token.parse().unwrap()).into(),
        oauth: Some(OAuth::new(oauth::rules(&issuer)).unwrap()),
        ..AccessRules::default()
    }))
    .await;
    let ada = issuer.token(&key, json!({"client_id": "editor"}));
    let (_, begun) = site.post_as(&ada, "never", &call("never")).await;
    let id = begun["result"]["taskId"].as_str().unwrap();
    for other in [
        issuer.token(&key, json!({"sub": "bob", "client_id": "editor"})),
        issuer.token(&key, json!({"client_id": "another"})),
        TOKENS[0].to_owned(),
    ] {
        for method in ["tasks/get", "tasks/cancel"] {
            let (status, reply) = site.post_as(&other, id, &about(method, id)).await;
            assert_eq!((status, &reply["error"]["code"]), (200, &json!(-32602)));
        }
    }
    let later = issuer.token(&key, json!({"client_id": "editor", "jti": 2}));
    let (_, task) = site.post_as(&later, id, &about("tasks/get", id)).await;
    assert_eq!(task["result"]["status"], "working");
    site.stop.send_replace(true);
}
