//! Health and readiness.

use std::sync::{Arc, atomic::Ordering};

use orchestra_hub::{HubConfig, PeerReport, PeerStatus, Provider as _, ProviderId};
use orchestra_mcp::{
    PartLook, ServerPart, ServerStatus,
    http::{Eras, HttpOptions},
};
use serde_json::{Value, json};

use crate::{site::Site, toys::visitor};

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_what_runs() {
    let site = Site::new().await;
    let (status, health) = site.rest("GET /health", &Value::Null).await;
    assert_eq!(status, 200);
    assert!(health["uptime_s"].as_u64().unwrap() < 60);
    assert_eq!(
        (&health["status"], &health["plugins"]),
        (&json!("ok"), &json!(1))
    );
    assert_eq!(health["version"], "9.8.7");
    let all = [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "2026-07-28",
    ];
    assert_eq!(health["mcp_revisions"], json!(all));

    let visitor = visitor("visitor", "visit");
    site.hub.register(visitor).unwrap();
    let (_, health) = site.rest("GET /health", &Value::Null).await;
    assert_eq!(health["plugins"], 2);

    assert_eq!(health["parts"], json!([]));
    let part = || ServerPart {
        name: "plans",
        endpoint: "/home/ada/secret/runner.json".to_owned(),
        status: ServerStatus::Error("not for everybody".to_owned()),
        reason: Some("it waits"),
    };
    let options = HttpOptions {
        eras: Eras::Stateless,
        parts: vec![PartLook::new(part)],
        ..HttpOptions::default()
    };
    let site = Site::with(HubConfig::default(), options, |app| app).await;
    let (_, health) = site.rest("GET /health", &Value::Null).await;
    assert_eq!(health["mcp_revisions"], json!(["2026-07-28"]));
    assert_eq!(
        health["parts"],
        json!([{"name": "plans", "status": "error", "reason": "it waits"}])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_when_every_provider_knows_what_it_offers() {
    let site = Site::new().await;
    let ready = async || site.rest("GET /ready", &Value::Null).await;
    let is_ready = (
        200,
        json!({"status": "ready", "waiting_for": [], "failed": [], "unread_files": []}),
    );
    assert_eq!(ready().await, is_ready);
    let late = visitor("late", "visit");
    late.is_ready.store(false, Ordering::SeqCst);
    site.hub.register(Arc::clone(&late) as _).unwrap();
    let starting =
        json!({"status": "starting", "waiting_for": ["late"], "failed": [], "unread_files": []});
    assert_eq!(ready().await, (503, starting));
    late.is_ready.store(true, Ordering::SeqCst);
    assert_eq!(ready().await, is_ready);

    assert!(site.hub.remove(late.id()));
    assert!(site.hub.remove(site.toys.id()));
    let starting =
        json!({"status": "starting", "waiting_for": [], "failed": [], "unread_files": []});
    assert_eq!(ready().await, (503, starting));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_not_ready_any_more_when_it_stops() {
    let site = Site::new().await;
    site.stop.send_replace(true);
    let (status, answer) = site.rest("GET /ready", &Value::Null).await;
    assert_eq!((status, &answer["status"]), (503, &json!("stopping")));
}

#[tokio::test(flavor = "multi_thread")]
async fn health_counts_the_providers_that_run() {
    let site = Site::new().await;
    let server = visitor("weather", "visit");
    site.hub.register(Arc::clone(&server) as _).unwrap();
    for (status, count) in [
        (PeerStatus::Ready, 2),
        (PeerStatus::Degraded, 2),
        (PeerStatus::Idle, 1),
        (PeerStatus::Offline, 1),
        (PeerStatus::NeedsAuth, 1),
    ] {
        *server.peer.lock().unwrap() = Some(PeerReport {
            status,
            ..PeerReport::default()
        });
        let (_, health) = site.rest("GET /health", &Value::Null).await;
        assert_eq!(health["plugins"], count, "{status:?}");
    }
}

/// What is wrong with one is not for everybody to read.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_failed_are_named_and_harm_no_other() {
    let site = Site::new().await;
    let server = visitor("weather", "visit");
    site.hub.register(Arc::clone(&server) as _).unwrap();
    for (status, told) in [
        (PeerStatus::Ready, json!([])),
        (PeerStatus::Idle, json!([])),
        (
            PeerStatus::Offline,
            json!([{"name": "weather", "status": "offline"}]),
        ),
        (
            PeerStatus::NeedsAuth,
            json!([{"name": "weather", "status": "needs_auth"}]),
        ),
    ] {
        *server.peer.lock().unwrap() = Some(PeerReport {
            status,
            reason: Some("exit code 3".into()),
            ..PeerReport::default()
        });
        for path in ["GET /health", "GET /ready"] {
            let (status, body) = site.rest(path, &Value::Null).await;
            assert_eq!((status, &body["failed"]), (200, &told), "{path}");
            assert!(!body.to_string().contains("exit code"), "{path}");
        }
    }
    // So are those that are configured and that nobody can speak for, but for who waits for people.
    let unused = |name: &str, status| {
        let report = PeerReport {
            status,
            reason: Some("exit code 3".into()),
            ..PeerReport::default()
        };
        (ProviderId::parse(name).unwrap(), report)
    };
    site.hub.tell_unused_peers(vec![
        unused("weather", PeerStatus::Invalid),
        unused("maps", PeerStatus::Invalid),
        unused("files", PeerStatus::NeedsApproval),
    ]);
    let told = json!([
        {"name": "weather", "status": "needs_auth"},
        {"name": "maps", "status": "invalid"},
    ]);
    for path in ["GET /health", "GET /ready"] {
        let (status, body) = site.rest(path, &Value::Null).await;
        assert_eq!((status, &body["failed"]), (200, &told), "{path}");
        assert!(!body.to_string().contains("exit code"), "{path}");
    }
    let (_, servers) = site.rest("GET /api/mcp/servers", &Value::Null).await;
    assert_eq!(servers["count"], 3, "{servers}");
    assert_eq!(servers["servers"][2]["status"], "needs_approval");
    assert_eq!(servers["servers"][2]["transport"], Value::Null);
    site.hub.tell_unread_files(vec!["~/mcp.json".to_owned()]);
    for path in ["GET /health", "GET /ready"] {
        let (_, body) = site.rest(path, &Value::Null).await;
        assert_eq!(body["unread_files"], json!(["~/mcp.json"]), "{path}");
    }
    site.hub.tell_unread_files(Vec::new());
    let (_, body) = site.rest("GET /health", &Value::Null).await;
    assert_eq!(body["unread_files"], json!([]));
    site.hub.tell_unused_peers(Vec::new());
    let (_, body) = site.rest("GET /health", &Value::Null).await;
    assert_eq!(body["failed"].as_array().unwrap().len(), 1);
}
