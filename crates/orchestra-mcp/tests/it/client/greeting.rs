//! Which era a server speaks is found out, whatever it answers.

use std::time::Duration;

use orchestra_hub::Clients;
use orchestra_mcp::client::{ClientConfig, ClientError, ProtocolChoice, ServerCall, TransportType};
use orchestra_wire::Era;
use serde_json::json;
use tokio::sync::watch;

use super::{
    client_of, config,
    played::{Greets, Played, Said},
    result, tool,
};

fn initialized(version: &str) -> Said {
    Said::result(
        json!({"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}),
    )
}

#[tokio::test]
async fn a_session_is_greeted_once_and_completely() {
    let played = Played::session(|_| Said::result(json!({"content": []})));
    let client = client_of(&played, config());
    result(&client, tool("t")).await;
    result(&client, tool("t")).await;
    for said in ["server/discover", "initialize", "notifications/initialized"] {
        assert_eq!(played.count(said), 1, "{said}");
    }
    let asked = played.last("initialize");
    assert_eq!(asked["protocolVersion"], "2025-11-25");
    assert_eq!(asked["clientInfo"]["name"], "orchestra");
    assert_eq!(
        asked["capabilities"]["elicitation"],
        json!({"form": {}, "url": {}})
    );
    // Nothing of the other era is in a request.
    assert_eq!(
        played.last("tools/call"),
        json!({"name": "t", "arguments": {}})
    );
    let facts = client.server().unwrap();
    assert_eq!(facts.instructions.as_deref(), Some("be kind"));
    assert!(facts.can.subscribe && facts.can.prompts.is_none());
}

#[tokio::test]
async fn a_stateless_server_is_told_with_each_request_who_asks() {
    let played =
        Played::stateless(|_| Said::result(json!({"resultType": "complete", "content": []})));
    let client = client_of(&played, config());
    result(&client, tool("t")).await;
    assert_eq!(played.count("initialize"), 0);
    assert_eq!(played.count("notifications/initialized"), 0);
    let meta = &played.last("tools/call")["_meta"];
    assert_eq!(
        meta["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
    assert_eq!(
        meta["io.modelcontextprotocol/clientInfo"]["name"],
        "orchestra"
    );
    // Nobody can be asked anything in this call.
    let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(
        *capabilities,
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
    );
    assert_eq!(client.metadata().protocol_version, "2026-07-28");
    client.health_check().await.unwrap();
    assert_eq!(
        (played.count("server/discover"), played.count("ping")),
        (2, 0)
    );
}

/// A server that does not know the question and is silent about it, and one that starts slowly.
#[tokio::test(start_paused = true)]
async fn silence_is_not_waited_for_longer_than_it_may_mean_something() {
    let silent = Played::new(Greets::Not, TransportType::Stdio, |asked| {
        match asked.method.as_str() {
            "server/discover" => Said::never(),
            "initialize" => initialized("2025-06-18"),
            _ => Said::result(json!({})),
        }
    });
    let client = client_of(&silent, config());
    result(&client, tool("t")).await;
    assert_eq!(client.metadata().protocol_version, "2025-06-18");

    let slow = Played::new(Greets::Not, TransportType::Stdio, |asked| {
        match asked.method.as_str() {
            "server/discover" => Said::after(
                Duration::from_secs(7),
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}),
            ),
            "initialize" => Said::never(),
            _ => Said::result(json!({})),
        }
    });
    let client = client_of(&slow, config());
    result(&client, tool("t")).await;
    assert_eq!(client.metadata().protocol_version, "2026-07-28");
}

#[tokio::test]
async fn an_error_of_the_newest_era_offers_what_else_there_is() {
    let other = Played::new(Greets::Not, TransportType::Stdio, |asked| {
        match (
            asked.method.as_str(),
            asked.params["protocolVersion"].as_str(),
        ) {
            ("server/discover", _) => {
                let data = orchestra_wire::RawJson::of(
                    &json!({"supported": ["2025-11-25"], "requested": "2026-07-28"}),
                );
                let error =
                    orchestra_wire::RpcError::new(orchestra_wire::ErrorCode(-32022), "unsupported");
                Said::Answer(Duration::ZERO, Err(error.with_data(data.unwrap())))
            }
            ("initialize", _) => initialized("2025-11-25"),
            _ => Said::result(json!({})),
        }
    });
    let client = client_of(&other, config());
    result(&client, tool("t")).await;
    assert_eq!(client.metadata().protocol_version, "2025-11-25");
}

#[tokio::test]
async fn a_revision_that_nobody_knows_is_refused_with_its_name() {
    let strange = Played::new(Greets::Not, TransportType::Stdio, |asked| {
        match asked.method.as_str() {
            "initialize" => initialized("1999-01-01"),
            _ => Said::error(-32601, "method not found"),
        }
    });
    let client = client_of(&strange, config());
    client.start();
    strange.until("initialize", 1).await;
    let mut status = client.status();
    let restarting = |status: &orchestra_mcp::client::ClientStatus| {
        matches!(status, orchestra_mcp::client::ClientStatus::Restarting { reason, .. }
            if matches!(&**reason, ClientError::Handshake { what } if what.contains("1999-01-01")))
    };
    status.wait_for(restarting).await.unwrap();
}

#[tokio::test]
async fn a_server_may_be_held_to_an_era_or_a_revision() {
    let both = || {
        Played::new(Greets::Not, TransportType::Stdio, |asked| {
            match asked.method.as_str() {
                "server/discover" => {
                    Said::result(json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}))
                }
                "initialize" => initialized(asked.params["protocolVersion"].as_str().unwrap()),
                _ => Said::result(json!({})),
            }
        })
    };
    for (choice, revision, asked) in [
        ("auto", "2026-07-28", "server/discover"),
        ("modern", "2026-07-28", "server/discover"),
        ("legacy", "2025-11-25", "initialize"),
        ("2024-11-05", "2024-11-05", "initialize"),
    ] {
        let played = both();
        let mut config = config();
        config.protocol = ProtocolChoice::parse(choice).unwrap();
        let client = client_of(&played, config);
        result(&client, tool("t")).await;
        assert_eq!(client.metadata().protocol_version, revision, "{choice}");
        assert_eq!(played.count(asked), 1);
        let greetings = played.count("initialize") + played.count("server/discover");
        assert_eq!(greetings, 1, "{choice}");
    }
}

/// A server whose every connection speaks the era of its first request.
fn of_both_eras() -> std::sync::Arc<Played> {
    let eras = std::sync::Mutex::new(std::collections::HashMap::new());
    Played::new(Greets::Not, TransportType::Stdio, move |asked| {
        let is_session = asked.method == "initialize";
        let is_session = *eras
            .lock()
            .unwrap()
            .entry(asked.start)
            .or_insert(is_session);
        match (asked.method.as_str(), is_session) {
            ("initialize", true) => initialized("2025-11-25"),
            ("server/discover", false) => {
                Said::result(json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}))
            }
            ("initialize" | "server/discover", _) => Said::error(-32600, "the other era"),
            _ => Said::result(json!({"resultType": "complete", "content": []})),
        }
    })
}

fn in_era(era: Era) -> ServerCall {
    let mut call = tool("t");
    call.cx.era = Some(era);
    call
}

#[tokio::test(start_paused = true)]
async fn connection_beside_the_first_ends_when_no_caller_of_its_era_is_left() {
    let both = of_both_eras();
    let following = ClientConfig {
        clients: Some(watch::Sender::new(Clients::default()).subscribe()),
        ..config()
    };
    let client = client_of(&both, following);
    result(&client, in_era(Era::Session)).await;
    assert_eq!(both.starts(), 1);
    result(&client, in_era(Era::Stateless)).await;
    result(&client, in_era(Era::Stateless)).await;
    assert_eq!(both.starts(), 2);
    // Calls of the other era do not need it.
    for _ in 0..20 {
        tokio::time::advance(Duration::from_secs(30)).await;
        result(&client, in_era(Era::Session)).await;
    }
    assert_eq!(both.starts(), 2);
    result(&client, in_era(Era::Stateless)).await;
    assert_eq!(both.starts(), 3, "it had ended");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn wait_for_the_first_client_does_not_count_as_start_of_the_server() {
    let both = of_both_eras();
    let clients = watch::Sender::new(Clients::default());
    let following = ClientConfig {
        clients: Some(clients.subscribe()),
        clients_wait: Duration::from_secs(2),
        start_timeout: Duration::from_secs(1),
        ..config()
    };
    let client = client_of(&both, following);
    result(&client, tool("t")).await;
    assert_eq!(both.starts(), 1);
    client.close().await;
}

#[tokio::test]
async fn client_without_callers_in_front_speaks_the_newest_era_over_one_connection() {
    let both = of_both_eras();
    let client = client_of(&both, config());
    for era in [Era::Session, Era::Stateless] {
        result(&client, in_era(era)).await;
        assert_eq!(client.metadata().protocol_version, "2026-07-28");
    }
    assert_eq!(both.starts(), 1);
}
