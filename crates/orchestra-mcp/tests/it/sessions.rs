//! Sessions over HTTP: what is answered where, and how they end.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use orchestra_hub::Notice;
use orchestra_mcp::{
    Limits,
    http::{self, Eras, HttpOptions, PeerUser},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    http::{Reply, Site, stateless, tool},
    memory::{WATCHED, server_with},
};

const ACCEPT: (&str, &str) = ("Accept", "text/event-stream");

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn notification() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/x"})
}

fn of(session: &str) -> (&str, &str) {
    ("Mcp-Session-Id", session)
}

/// Sends a batch of a session to a site that takes streams.
async fn batch(site: &Site, session: &str, messages: &[Value]) -> Reply {
    site.in_session(session, &json!(messages)).await
}

fn ids(answers: &Value) -> Vec<&Value> {
    let answers = answers.as_array().unwrap();
    answers.iter().map(|answer| &answer["id"]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_a_session_is_answered_where_it_was_posted() {
    let site = Site::new(HttpOptions::default()).await;
    for revision in ["2024-11-05", "2025-03-26"] {
        let session = site.session(revision).await;
        let reply = batch(&site, &session, &[ping(1), notification(), tool(2, "echo")]).await;
        assert_eq!((reply.status, reply.is_stream()), (200, false));
        assert_eq!(ids(&reply.json().await), [1, 2]);
        // Items that are nothing are answered beside the others.
        let reply = batch(&site, &session, &[json!(3), ping(1)]).await;
        assert_eq!(ids(&reply.json().await), [&Value::Null, &json!(1)]);
        // What only tells is taken.
        let taken = batch(&site, &session, &[notification(), notification()]).await;
        assert_eq!(taken.status, 202);
        for refused in [json!([]), json!([1, 2]), json!([ping(1), ping(1)])] {
            let reply = site.in_session(&session, &refused).await;
            assert_eq!(reply.status, 400, "{refused}");
            assert!(reply.json().await.to_string().contains("-32600"));
        }
        let reply = site.in_session(&session, &ping(1)).await;
        assert_eq!(reply.json().await["id"], 1, "nothing is left open");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_calls_of_a_batch_report_comes_before_their_answers() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-03-26").await;
    let messages = [tool(1, "report"), ping(2), tool(3, "ask")];
    let mut reply = batch(&site, &session, &messages).await;
    assert!(reply.is_stream());
    let first = reply.event().await.unwrap();
    assert!(first.data.contains("notifications/progress"), "{first:?}");
    site.shared.gate.notify_one();
    assert_eq!(reply.message().await["params"]["progress"], 2);
    let answers = reply.message().await;
    assert_eq!(ids(&answers), [2, 3, 1], "as they came");
    assert!(reply.event().await.is_none());
    // A client whose connection broke comes back for them.
    let place = first.id.unwrap();
    let headers = [of(&session), ACCEPT, ("Last-Event-ID", &place)];
    let mut rest = site.send("GET", &headers, "").await;
    assert_eq!(rest.message().await["params"]["progress"], 2);
    assert_eq!(rest.message().await, answers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_on_without_what_is_cancelled() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-03-26").await;
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        of(&session),
    ];
    let body = json!([ping(1), tool(2, "never")]).to_string();
    let waiting = site.send("POST", &headers, &body);
    let cancelling = async {
        while site.shared.order.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let params = json!({"requestId": 2});
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        assert_eq!(site.in_session(&session, &cancel).await.status, 202);
    };
    let (reply, ()) = tokio::join!(waiting, cancelling);
    assert_eq!(ids(&reply.json().await), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_refused_where_there_are_none() {
    let site = Site::new(HttpOptions::default()).await;
    for revision in ["2025-06-18", "2025-11-25"] {
        let session = site.session(revision).await;
        let reply = batch(&site, &session, &[ping(1)]).await;
        assert_eq!(reply.status, 400);
        assert_eq!(reply.json().await["error"]["code"], -32600);
    }
    for version in [None, Some("2025-03-26"), Some("2025-06-18")] {
        let header = version.map(|version| ("MCP-Protocol-Version", version));
        let headers: Vec<_> = header.into_iter().collect();
        let reply = site.post(&headers, &json!([ping(1)])).await;
        assert_eq!(reply.status, 400);
        let text = reply.json().await["error"]["message"].to_string();
        assert!(text.contains("initialize"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_not_known_does_not_end_a_session() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-11-25").await;
    for place in [
        "",
        "x",
        "0-",
        "7-0",
        "0-9",
        "-1-1",
        "0-99999999999999999999999",
    ] {
        let headers = [of(&session), ACCEPT, ("Last-Event-ID", place)];
        let reply = site.send("GET", &headers, "").await;
        assert_eq!(reply.status, 400, "{place:?}");
    }
    assert_eq!(site.in_session(&session, &ping(1)).await.status, 200);
    let headers = [of("no-session"), ACCEPT, ("Last-Event-ID", "0-0")];
    assert_eq!(site.send("GET", &headers, "").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_takes_the_own_stream_over_from_a_connection_that_is_dead() {
    let site = Site::new(HttpOptions::default()).await;
    let session = site.session("2025-11-25").await;
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": WATCHED}});
    assert_eq!(site.in_session(&session, &subscribe).await.status, 200);
    let mut dead = site.send("GET", &[of(&session), ACCEPT], "").await;
    // There is a place to come back to before anything was said.
    let prime = dead.event().await.unwrap();
    let place = prime.id.expect("a place");
    assert_eq!((place.as_str(), prime.data.as_str()), ("0-0", ""));
    let update = Notice::ResourceUpdated(WATCHED.to_owned());
    site.shared.notices.send(update).await.unwrap();
    let told = dead.message().await;
    let headers = [of(&session), ACCEPT, ("Last-Event-ID", &place)];
    let mut back = site.send("GET", &headers, "").await;
    assert_eq!(back.status, 200);
    assert_eq!(back.message().await, told);
    assert!(dead.event().await.is_none(), "it is read elsewhere");
    // Older clients are not given an event that says nothing.
    let older = site.session("2025-06-18").await;
    let mut own = site.send("GET", &[of(&older), ACCEPT], "").await;
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(site.in_session(&older, &done).await.status, 202);
    assert_eq!(site.in_session(&older, &subscribe).await.status, 200);
    let update = Notice::ResourceUpdated(WATCHED.to_owned());
    site.shared.notices.send(update).await.unwrap();
    assert_eq!(own.message().await, told);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_session_that_is_deleted_learn_that_it_is_gone() {
    let site = Site::new(HttpOptions::default()).await;
    for accept in ["application/json", "application/json, text/event-stream"] {
        let session = site.session("2025-06-18").await;
        let begun = site.shared.order.lock().unwrap().len();
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", accept),
            of(&session),
        ];
        let body = tool(1, "never").to_string();
        let waiting = site.send("POST", &headers, &body);
        let deleting = async {
            while site.shared.order.lock().unwrap().len() == begun {
                tokio::task::yield_now().await;
            }
            let deleted = site.send("DELETE", &[of(&session)], "").await;
            assert_eq!(deleted.status, 204);
        };
        let (reply, ()) = tokio::join!(waiting, deleting);
        assert_eq!(reply.status, 404, "{accept}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_get_or_delete_without_a_session_is_told_what_it_lacks() {
    let site = Site::new(HttpOptions::default()).await;
    for method in ["GET", "DELETE"] {
        let reply = site.send(method, &[ACCEPT], "").await;
        assert_eq!(reply.status, 400, "{method}");
        let text = reply.json().await["error"]["message"].to_string();
        assert!(text.contains("Mcp-Session-Id"), "{text}");
        // Revision 2026-07-28 has neither.
        let headers = [ACCEPT, ("MCP-Protocol-Version", "2026-07-28")];
        let reply = site.send(method, &headers, "").await;
        assert_eq!(reply.status, 405, "{method}");
        assert_eq!(reply.header("allow").as_deref(), Some("post"));
    }
    let reply = site.send("PUT", &[], "").await;
    assert_eq!(reply.header("allow").as_deref(), Some("get, post, delete"));
    let site = Site::new(HttpOptions {
        eras: Eras::Stateless,
        ..HttpOptions::default()
    })
    .await;
    for method in ["GET", "DELETE", "PUT"] {
        let reply = site.send(method, &[ACCEPT], "").await;
        assert_eq!(reply.status, 405, "{method}");
        assert_eq!(reply.header("allow").as_deref(), Some("post"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eras_that_are_not_served_are_refused_and_notifications_of_others_are_taken() {
    let only = async |eras| {
        Site::new(HttpOptions {
            eras,
            ..HttpOptions::default()
        })
        .await
    };
    let session_era = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let stateless_era = stateless("tools/list", json!({}));
    let rpc = async |site: &Site, message: &Value| {
        let json = [("Content-Type", "application/json")];
        let reply = site.send("POST /rpc", &json, &message.to_string()).await;
        reply.json().await
    };
    for (eras, served, refused) in [
        (Eras::Stateless, &stateless_era, &session_era),
        (Eras::Session, &session_era, &stateless_era),
    ] {
        let site = only(eras).await;
        assert!(rpc(&site, served).await["result"].is_object(), "{eras:?}");
        let error = &rpc(&site, refused).await;
        assert_eq!(error["id"], 1);
        assert_eq!(error["error"]["code"], -32022, "{error}");
        let supported = error["error"]["data"]["supported"].as_array().unwrap();
        let is_stateless = supported.contains(&json!("2026-07-28"));
        assert_eq!(is_stateless, eras == Eras::Stateless);
    }
    let version = [("MCP-Protocol-Version", "2026-07-28")];
    let site = only(Eras::Stateless).await;
    assert_eq!(site.post(&version, &notification()).await.status, 202);
    assert_eq!(site.post(&[], &notification()).await.status, 400);
    let site = only(Eras::Session).await;
    let session = site.session("2025-06-18").await;
    let taken = site.in_session(&session, &notification()).await;
    assert_eq!(taken.status, 202);
}

/// The routes, called in this process, where time can be made to pass.
struct Face(TowerToHyperService<Router>);

impl Face {
    fn new(options: HttpOptions) -> Self {
        let (server, _) = server_with(Limits::default());
        Self(TowerToHyperService::new(http::router(&server, options)))
    }

    async fn call(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        message: &Value,
    ) -> (StatusCode, HeaderMap, Body) {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .extension(PeerUser::Same)
            .header("Host", "localhost")
            .header("Content-Type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Body::from(message.to_string());
        let response = self.0.call(request.body(body).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        (head.status, head.headers, body)
    }

    async fn session(&self) -> String {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let (status, headers, _) = self.call("POST", &[], &hello).await;
        assert_eq!(status, 200);
        headers["mcp-session-id"].to_str().unwrap().to_owned()
    }

    async fn is_alive(&self, session: &str) -> bool {
        let (status, _, _) = self.call("POST", &[of(session)], &ping(1)).await;
        assert!(matches!(status.as_u16(), 200 | 404), "{status}");
        status == 200
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_nobody_uses_it_and_one_that_is_used_does_not() {
    const IDLE: Duration = Duration::from_secs(600);
    let face = Face::new(HttpOptions {
        idle: IDLE,
        ..HttpOptions::default()
    });
    let [idle, used, read, calling] = [
        face.session().await,
        face.session().await,
        face.session().await,
        face.session().await,
    ];
    // Whoever reads, or waits for an answer, uses its session without a word.
    let (status, _, own) = face.call("GET", &[of(&read), ACCEPT], &Value::Null).await;
    assert_eq!(status, 200);
    let headers = [of(&calling), ACCEPT];
    let (status, _, answer) = face.call("POST", &headers, &tool(1, "never")).await;
    assert_eq!(status, 200);
    for _ in 0..10 {
        sleep(IDLE / 2).await;
        assert!(face.is_alive(&used).await);
    }
    assert!(!face.is_alive(&idle).await);
    assert!(face.is_alive(&read).await && face.is_alive(&calling).await);
    drop(own);
    sleep(2 * IDLE).await;
    assert!(!face.is_alive(&used).await && !face.is_alive(&read).await);
    assert!(face.is_alive(&calling).await, "it is not answered yet");
    drop(answer);
}
