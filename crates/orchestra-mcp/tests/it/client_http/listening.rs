//! What a server of the stateless era says by itself, over HTTP.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use orchestra_hub::ListKind;
use orchestra_mcp::client::{
    Client, ClientConfig, ClientEvent, ClientEvents,
    http::{HttpConfig, HttpConnector},
};
use serde_json::json;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::timeout,
};

use super::scripted::{Scripted, Seen, event, events, json_of};
use crate::http::PATIENCE;

/// A stream that was opened, in the hands of the test.
struct Stream {
    seen: Seen,
    says: UnboundedSender<String>,
}

impl Stream {
    fn say(&self, method: &str, mut params: serde_json::Value) {
        params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": self.seen.body["id"]});
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.says.send(event(&message)).unwrap();
    }

    fn begin(&self) {
        let filter = &self.seen.body["params"]["notifications"];
        self.say(
            "notifications/subscriptions/acknowledged",
            json!({ "notifications": filter }),
        );
    }

    async fn closed(&self) {
        let closed = timeout(PATIENCE, self.says.closed()).await;
        closed.expect("nobody listens any more");
    }
}

/// A client, its events, and what it opens at its server.
struct Stage {
    _server: Scripted,
    client: Client,
    events: ClientEvents,
    opened: UnboundedReceiver<Stream>,
    /// Whether the server refuses the next stream.
    refuses: Arc<AtomicBool>,
}

impl Stage {
    async fn new() -> Self {
        let (opens, opened) = mpsc::unbounded_channel();
        let refuses = Arc::<AtomicBool>::default();
        let refused = Arc::clone(&refuses);
        let server = Scripted::new(move |seen: Seen| {
            let (opens, refused) = (opens.clone(), Arc::clone(&refused));
            async move {
                match seen.rpc() {
                    "server/discover" => json_of(
                        200,
                        &seen.result(&json!({
                            "resultType": "complete", "supportedVersions": ["2026-07-28"],
                            "capabilities": {
                                "tools": {"listChanged": true}, "resources": {"subscribe": true},
                            },
                            "ttlMs": 0, "cacheScope": "private",
                        })),
                    ),
                    "subscriptions/listen" if refused.swap(false, Ordering::SeqCst) => {
                        let error = json!({"code": -32602, "message": "one stream is enough"});
                        let id = &seen.body["id"];
                        json_of(200, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
                    }
                    "subscriptions/listen" => {
                        let (response, says) = events();
                        opens.send(Stream { seen, says }).unwrap();
                        response
                    }
                    "tools/list" => json_of(
                        200,
                        &seen.result(&json!({"resultType": "complete", "tools": []})),
                    ),
                    method => panic!("nobody asks for {method}"),
                }
            }
        });
        let server = server.await;
        let http: HttpConfig = server.config("/mcp");
        let connector = HttpConnector::new(http).unwrap();
        let client = Client::new(Arc::new(connector), ClientConfig::default());
        let events = client.take_events().unwrap();
        client.start();
        Self {
            _server: server,
            client,
            events,
            opened,
            refuses,
        }
    }

    async fn opened(&mut self) -> Stream {
        let opened = timeout(PATIENCE, self.opened.recv()).await;
        opened.expect("a stream is opened").unwrap()
    }

    /// Waits until something is told.
    async fn told(&mut self, what: impl Fn(&ClientEvent) -> bool) -> ClientEvent {
        let told = async {
            loop {
                let event = self.events.recv().await.expect("the client is there");
                if what(&event) {
                    return event;
                }
            }
        };
        timeout(PATIENCE, told).await.expect("it is told")
    }

    /// The next resource whose change is told.
    async fn updated(&mut self) -> String {
        match self.told(is_update).await {
            ClientEvent::ResourceUpdated(uri) => uri,
            other => panic!("{other:?}"),
        }
    }
}

fn is_update(event: &ClientEvent) -> bool {
    matches!(event, ClientEvent::ResourceUpdated(_))
}

fn is_change(event: &ClientEvent) -> bool {
    matches!(event, ClientEvent::ListChanged(ListKind::Tools))
}

#[tokio::test]
async fn a_change_is_heard_while_another_stream_begins() {
    let mut stage = Stage::new().await;
    let first = stage.opened().await;
    first.begin();
    stage.client.watch("a:1");
    let second = stage.opened().await;
    let wanted = &second.seen.body["params"]["notifications"];
    assert_eq!(wanted["resourceSubscriptions"], json!(["a:1"]));
    // The second has not begun: what changes now is told on the first alone.
    first.say("notifications/tools/list_changed", json!({}));
    stage.told(is_change).await;
    second.begin();
    first.closed().await;
    stage.told(is_update).await;
    second.say("notifications/resources/updated", json!({"uri": "a:1"}));
    stage.told(is_update).await;
}

#[tokio::test]
async fn a_server_that_has_one_stream_at_a_time_is_listened_to_and_its_lists_are_fetched_again() {
    let mut stage = Stage::new().await;
    let first = stage.opened().await;
    first.begin();
    stage.client.watch("a:1");
    let second = stage.opened().await;
    second.begin();
    stage.told(is_update).await;
    stage.client.list(ListKind::Tools).await.unwrap();
    stage.refuses.store(true, Ordering::SeqCst);
    stage.client.watch("a:2");
    let third = stage.opened().await;
    second.closed().await;
    third.begin();
    stage.told(is_change).await;
    let mut updated = [stage.updated().await, stage.updated().await];
    updated.sort_unstable();
    assert_eq!(updated, ["a:1", "a:2"]);
}

/// A server whose resources are not there yet leaves them out of its streams.
#[tokio::test]
async fn resource_that_a_stream_leaves_out_is_subscribed_to_when_resources_change() {
    let mut stage = Stage::new().await;
    stage.opened().await.begin();
    stage.client.watch("a:1");
    let without = stage.opened().await;
    without.say(
        "notifications/subscriptions/acknowledged",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    without.say("notifications/resources/list_changed", json!({}));
    let with = stage.opened().await;
    let wanted = &with.seen.body["params"]["notifications"];
    assert_eq!(wanted["resourceSubscriptions"], json!(["a:1"]));
    with.begin();
    assert_eq!(stage.updated().await, "a:1");
}

/// Nobody heard what changed between the two.
#[tokio::test]
async fn list_fetched_before_the_first_stream_began_is_announced_as_changed() {
    let mut stage = Stage::new().await;
    let first = stage.opened().await;
    stage.client.list(ListKind::Tools).await.unwrap();
    first.begin();
    stage.told(is_change).await;
}
