//! What is set of starts and connections is what happens.

use std::{sync::atomic::Ordering, time::Duration};

use orchestra_gateway::config::{Backoff, Circuit, Restart, Transport};
use orchestra_hub::PeerStatus;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    played::{Bench, Played, config, tool, until},
    rig::{Rig, child, http},
    scripted::{Scripted, empty, json_of},
};

#[tokio::test(start_paused = true)]
async fn starts_are_spaced_and_given_up_as_it_is_set() {
    let server = Played::new(vec![tool("get")]);
    server.is_away.store(true, Ordering::SeqCst);
    let bench = Bench::new(&[("s", &server)]);
    let mut config = config("s");
    config.restart = Restart {
        backoff: Backoff::Constant,
        initial: Duration::from_secs(100),
        max: Duration::from_secs(100),
    };
    config.circuit = Circuit {
        failures: 3,
        pause: Duration::from_secs(10_000),
        successes: 1,
    };
    let begun = Instant::now();
    bench.gateway.apply(vec![config]);
    let starts = async |count: usize| {
        while server.connects.load(Ordering::SeqCst) < count {
            let elapsed = begun.elapsed().as_secs();
            assert!(elapsed < 20_000, "not started {count} times");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        begun.elapsed().as_secs()
    };
    // Each pause is a fifth longer or shorter, by chance.
    let third = starts(3).await;
    assert!((150..260).contains(&third), "{third}");
    until(|| bench.hub.peers()[0].1.status == PeerStatus::Offline).await;
    let fourth = starts(4).await;
    assert!((10_150..10_300).contains(&fourth), "{fourth}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_probed_for_as_long_as_it_is_set() {
    let server = Played::new(vec![tool("get")]);
    let bench = Bench::new(&[("s", &server)]);
    let mut config = config("s");
    config.probe_timeout = Duration::from_millis(10);
    server.ignores_probes.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    bench.gateway.apply(vec![config]);
    while bench.tools().await.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(1), "still probed");
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "probed for long");
}

/// A server that takes a call and says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_head_of_a_response_is_waited_for_as_long_as_it_is_set() {
    let site = Scripted::new(|seen| async move {
        let told = match seen.rpc() {
            _ if seen.method == "GET" => return empty(405),
            "server/discover" => json!({
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "resultType": "complete",
            }),
            "tools/list" => json!({"tools": [tool("write")], "resultType": "complete"}),
            "tools/call" => std::future::pending().await,
            _ => json!({}),
        };
        json_of(200, &seen.result(&told))
    })
    .await;
    let mut far = http("far", &format!("http://{}/mcp", site.address));
    let Transport::Http(reached) = &mut far.transport else {
        unreachable!("it is one on the network")
    };
    reached.connections.connect = Duration::from_secs(1);
    reached.connections.first_byte = Duration::from_secs(2);
    let rig = Rig::with(&[far, child("near", "faulty", &[])]).await;
    let told = rig.call("far__write", json!({"text": "x"})).await;
    told.failed("timeout", true, &["no answer within 3.0 s"]);
    rig.close(&[]).await;
}
