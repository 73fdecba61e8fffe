//! Orchestrators that are reached as servers: ours, others, and those that go away.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orchestra_mcp::client::{ClientError, Connector, Sent, ServerMessage};
use orchestra_plugin::{
    certs::CertDir,
    envelope::{PayloadOf, Request, RequestKind, Response, ResponseKind},
    generated::{
        HealthRequest, HealthResult, ListToolsResponse, McpMessage, McpRequest, McpResponse,
        ToolDefinition, ToolRequest, ToolResponse,
    },
    quic::{Endpoint, Handler, Limits, Pace, Peer, Reply, Serving},
};
use orchestra_plugin_host::link::{OrchestratorConnector, OrchestratorSpec};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use crate::rig::{PATIENCE, ask, call, client, outgoing, text, until};

/// Answers as an orchestrator.
struct Fake {
    is_ours: bool,
    hanging: AtomicUsize,
}

impl Fake {
    fn answer(&self, request: &Request) -> Bytes {
        let id = request.request_id();
        match request.kind() {
            Some(RequestKind::Health) => {
                let asked: HealthRequest = request.message().unwrap();
                assert_eq!(asked.revision, 1);
                let mut health = HealthResult {
                    status: 1,
                    ..HealthResult::default()
                };
                if self.is_ours {
                    let revision = "2026-07-28".to_owned();
                    health.details.insert("mcp".to_owned(), revision);
                }
                encoded(id, &health)
            }
            Some(RequestKind::ListTools) => {
                let tool = ToolDefinition {
                    name: "echo".to_owned(),
                    ..ToolDefinition::default()
                };
                encoded(id, &ListToolsResponse { tools: vec![tool] })
            }
            Some(RequestKind::ToolCall) => {
                let call: ToolRequest = request.message().unwrap();
                assert_eq!(call.caller_plugin, "transport.stdio");
                assert_eq!(call.session_id.len(), 36);
                let mut response = ToolResponse {
                    success: true,
                    ..ToolResponse::default()
                };
                if self.is_ours {
                    assert_eq!(call.arguments, None);
                    let result = json!({
                        "content": [{"type": "text", "text": call.tool_name}],
                        "structuredContent": serde_json::from_slice::<Value>(&call.mcp_params).unwrap(),
                    });
                    response.mcp_result = result.to_string().into();
                } else {
                    assert!(call.mcp_params.is_empty());
                    response.result = call.arguments;
                }
                encoded(id, &response)
            }
            Some(RequestKind::Mcp) => {
                let asked: McpRequest = request.message().unwrap();
                let mut response = McpResponse::default();
                match asked.method.as_str() {
                    "server/discover" => {
                        let found = json!({
                            "supportedVersions": ["2026-07-28"],
                            "capabilities": {"tools": {}},
                        });
                        response.result = found.to_string().into();
                    }
                    "tools/list" => {
                        let found = json!({"tools": [{"name": "n", "inputSchema": {}}]});
                        response.result = found.to_string().into();
                    }
                    method => {
                        let error = json!({"code": -32601, "message": method});
                        response.error = error.to_string().into();
                    }
                }
                encoded(id, &response)
            }
            _ => {
                let refusal = ToolResponse {
                    error_code: "unknown_request".to_owned(),
                    ..ToolResponse::default()
                };
                encoded(id, &refusal)
            }
        }
    }
}

fn encoded<M: PayloadOf<ResponseKind>>(id: &str, message: &M) -> Bytes {
    Response::new(id, message).encode()
}

impl Handler for Fake {
    fn handle<'a>(&'a self, peer: &'a Peer, request: Bytes, mut reply: Reply) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            assert_eq!(peer.name().as_str(), "transport.stdio-client");
            let request = Request::decode(&request).unwrap();
            let tool = request.message::<ToolRequest>();
            let tool = tool.map(|call| call.tool_name).unwrap_or_default();
            if tool == "hang" {
                self.hanging.fetch_add(1, Ordering::SeqCst);
                reply.cancelled().cancelled().await;
                self.hanging.fetch_sub(1, Ordering::SeqCst);
                return;
            }
            let asked = request.message::<McpRequest>();
            if asked.is_ok_and(|asked| asked.method == "subscriptions/listen") {
                let json =
                    r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}"#;
                let message = McpMessage {
                    json: Bytes::from_static(json.as_bytes()),
                };
                let frame = encoded(request.request_id(), &message);
                reply.send(frame).await.unwrap();
                self.hanging.fetch_add(1, Ordering::SeqCst);
                reply.cancelled().cancelled().await;
                self.hanging.fetch_sub(1, Ordering::SeqCst);
                return;
            }
            if tool == "tell" {
                for count in 1..4 {
                    let json = json!({
                        "jsonrpc": "2.0",
                        "method": "notifications/progress",
                        "params": {"progressToken": 5, "progress": count},
                    });
                    let message = McpMessage {
                        json: json.to_string().into(),
                    };
                    let frame = encoded(request.request_id(), &message);
                    reply.send(frame).await.unwrap();
                }
            }
            // Who does not wait any more is not told.
            let _ = reply.answer(self.answer(&request)).await;
        })
    }
}

/// An orchestrator, and what is needed to reach it.
struct Rig {
    home: TempDir,
    fake: Arc<Fake>,
    endpoint: Option<Endpoint>,
    serving: Option<Serving>,
    address: SocketAddr,
}

impl Rig {
    fn new(is_ours: bool) -> Self {
        let home = TempDir::new().unwrap();
        let fake = Arc::new(Fake {
            is_ours,
            hanging: AtomicUsize::new(0),
        });
        let (endpoint, serving) = serve(&home, &fake, Endpoint::LOOPBACK);
        let address = endpoint.address().unwrap();
        Self {
            home,
            fake,
            endpoint: Some(endpoint),
            serving: Some(serving),
            address,
        }
    }

    fn connector(&self) -> OrchestratorConnector {
        OrchestratorConnector::new(OrchestratorSpec {
            address: self.address.to_string(),
            certs: self.home.path().join("certs"),
            expected: Some("orchestrator".parse().unwrap()),
            from: None,
        })
    }

    /// Goes away without a word to anybody's call.
    async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop(Instant::now()).await;
        }
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.close().await;
        }
    }

    /// Comes back at the same address, as soon as that is free.
    async fn start(&mut self) {
        let identity = identity(&self.home);
        let end = Instant::now() + PATIENCE;
        let endpoint = loop {
            match Endpoint::bind(self.address, &identity, Pace::default()) {
                Ok(endpoint) => break endpoint,
                Err(error) => assert!(Instant::now() < end, "never free: {error}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        };
        let handler = Arc::clone(&self.fake) as Arc<dyn Handler>;
        self.serving = Some(endpoint.serve(handler, Limits::default()));
        self.endpoint = Some(endpoint);
    }
}

fn identity(home: &TempDir) -> orchestra_plugin::certs::Identity {
    let certs = CertDir::open(home.path().join("certs")).unwrap();
    certs.ensure_ca(SystemTime::now()).unwrap();
    let name = "orchestrator".parse().unwrap();
    certs.identity(&name, SystemTime::now()).unwrap()
}

fn serve(home: &TempDir, fake: &Arc<Fake>, address: SocketAddr) -> (Endpoint, Serving) {
    let endpoint = Endpoint::bind(address, &identity(home), Pace::default()).unwrap();
    let serving = endpoint.serve(Arc::clone(fake) as Arc<dyn Handler>, Limits::default());
    (endpoint, serving)
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_is_spoken_to_in_mcp() {
    let mut rig = Rig::new(true);
    let client = client(Arc::new(rig.connector()));
    let listed = ask(&client, "tools/list", json!({})).await.unwrap();
    assert_eq!(listed["tools"][0]["name"], "n");
    let called = call(&client, "n", json!({"big": 9_007_199_254_740_993_u64})).await;
    let called = called.unwrap();
    assert_eq!(text(&called), "n");
    let params = &called["structuredContent"];
    assert_eq!(params["arguments"]["big"], 9_007_199_254_740_993_u64);
    let revision = "io.modelcontextprotocol/protocolVersion";
    assert_eq!(params["_meta"][revision], "2026-07-28");
    let error = ask(&client, "no/such", json!({})).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::Rpc(rpc) if rpc.code.0 == -32601),
        "{error:?}"
    );
    client.close().await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ours_says_during_a_call_belongs_to_it() {
    let mut rig = Rig::new(true);
    let mut connected = rig.connector().connect().await.unwrap();
    let request = outgoing(5, "tools/call", json!({"name": "tell"}));
    let related = request.id.clone();
    connected.link.request(request).await.unwrap().unwrap();
    for count in 1..4 {
        let told = connected.incoming.recv().await.unwrap();
        assert_eq!(told.related.as_ref(), Some(&related));
        let ServerMessage::Notification { method, params } = told.message else {
            panic!("it asks");
        };
        assert_eq!(method, "notifications/progress");
        let params: Value = params.unwrap().parse().unwrap();
        assert_eq!(params["progress"], count);
    }
    connected.link.close().await;
    assert!(connected.incoming.recv().await.is_none());
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_listened_to_for_as_long_as_somebody_wants() {
    let mut rig = Rig::new(true);
    let mut connected = rig.connector().connect().await.unwrap();
    let request = outgoing(3, "subscriptions/listen", json!({"notifications": {}}));
    let related = request.id.clone();
    let stream = tokio::spawn(connected.link.request(request));
    let told = connected.incoming.recv().await.unwrap();
    assert_eq!(told.related, Some(related));
    let hanging = |count| rig.fake.hanging.load(Ordering::SeqCst) == count;
    until("it goes on", || hanging(1)).await;
    // Others are answered meanwhile.
    let request = outgoing(4, "tools/list", json!({}));
    connected.link.request(request).await.unwrap().unwrap();
    assert!(!stream.is_finished());
    stream.abort();
    until("it is cancelled", || hanging(0)).await;
    connected.link.close().await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_spoken_to_in_the_plugin_protocol() {
    let mut rig = Rig::new(false);
    let client = client(Arc::new(rig.connector()));
    let listed = ask(&client, "tools/list", json!({})).await.unwrap();
    let echo = json!({"name": "echo", "inputSchema": {"type": "object"}});
    assert_eq!(listed["tools"], json!([echo]));
    let called = call(&client, "echo", json!({"text": "hello"}))
        .await
        .unwrap();
    assert_eq!(text(&called), "hello");
    let templates = ask(&client, "resources/templates/list", json!({})).await;
    assert_eq!(
        templates.unwrap()["resourceTemplates"]
            .as_array()
            .unwrap()
            .len(),
        6
    );
    client.close().await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_connection_is_lost_may_have_run() {
    for is_ours in [true, false] {
        let mut rig = Rig::new(is_ours);
        let connected = rig.connector().connect().await.unwrap();
        let request = outgoing(1, "tools/call", json!({"name": "hang"}));
        let given_up = tokio::spawn(connected.link.request(request.clone()));
        let hanging = |count| rig.fake.hanging.load(Ordering::SeqCst) == count;
        until("it hangs", || hanging(1)).await;
        given_up.abort();
        until("it is cancelled", || hanging(0)).await;
        let lost = tokio::spawn(connected.link.request(request.clone()));
        until("it hangs again", || hanging(1)).await;
        rig.stop().await;
        let error = timeout(PATIENCE, lost).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.sent(), Sent::Maybe, "{error:?}");
        let ended = timeout(PATIENCE, connected.link.ended()).await.unwrap();
        assert!(matches!(ended, ClientError::Closed), "{ended:?}");
        let error = connected.link.request(request).await.unwrap_err();
        assert_eq!(error.sent(), Sent::No, "{error:?}");
        assert!(
            error.explain().contains("orchestrator tool_call failed: "),
            "{error:?}"
        );
        connected.link.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_comes_back_is_used_again() {
    for is_ours in [true, false] {
        let mut rig = Rig::new(is_ours);
        let client = client(Arc::new(rig.connector()));
        call(&client, "echo", json!({"text": "first"}))
            .await
            .unwrap();
        rig.stop().await;
        rig.start().await;
        let end = Instant::now() + PATIENCE;
        // What is called before its end is noticed is told so.
        while let Err(error) = call(&client, "echo", json!({"text": "echo"})).await {
            assert!(Instant::now() < end, "{error:?}");
        }
        let called = call(&client, "echo", json!({"text": "echo"}))
            .await
            .unwrap();
        assert_eq!(text(&called), "echo");
        client.close().await;
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_sign_is_told_what_to_do() {
    let mut rig = Rig::new(true);
    std::fs::remove_file(rig.home.path().join("certs/ca.key")).unwrap();
    let error = rig.connector().connect().await.err().unwrap();
    let told = error.explain();
    assert!(
        told.contains("`orchestra certs issue transport.stdio-client`"),
        "{told}"
    );
    rig.stop().await;
    let mut spec = OrchestratorSpec {
        address: "nowhere.invalid:1".to_owned(),
        certs: rig.home.path().join("others"),
        expected: None,
        from: None,
    };
    let error = OrchestratorConnector::new(spec.clone()).connect().await;
    let error = error.err().unwrap();
    // It is tried again by itself: certificates are put right where they are.
    assert!(
        matches!(&error, ClientError::Unreachable { .. })
            && error.explain().contains("no authority"),
        "{error:?}"
    );
    let certs = CertDir::open(&spec.certs).unwrap();
    certs.ensure_ca(SystemTime::now()).unwrap();
    let error = OrchestratorConnector::new(spec.clone()).connect().await;
    let error = error.err().unwrap();
    assert!(
        matches!(&error, ClientError::Unreachable { .. }),
        "{error:?}"
    );
    // An authority of its own does not believe this orchestrator.
    let rig = Rig::new(true);
    spec.address = rig.address.to_string();
    let error = OrchestratorConnector::new(spec)
        .connect()
        .await
        .err()
        .unwrap();
    assert!(
        error.explain().contains("orchestrator dial failed: "),
        "{error:?}"
    );
}
