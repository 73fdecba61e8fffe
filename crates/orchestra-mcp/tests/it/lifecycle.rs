//! A server's life: started, looked at, told of, stopped.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, http::StatusCode};
use bytes::Bytes;
use futures_util::FutureExt as _;
use orchestra_mcp::{
    Direct, DirectCaller, LifecycleTimes, Limits, PartLook, ServerLifecycle, ServerPart,
    ServerStatus, StatusSubscription, TransportKind,
    http::{self, HttpOptions},
};
use orchestra_wire::Method;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc, watch},
    time::timeout,
};

use crate::memory::server_with;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A lease so short that its end is awaited, and no looks at health.
const SHORT: LifecycleTimes = LifecycleTimes {
    lease: Duration::from_millis(50),
    probe_every: PATIENCE,
    probe_time: PATIENCE,
};

async fn over_http(
    times: LifecycleTimes,
    app: impl FnOnce(Router, &watch::Receiver<bool>) -> Router,
) -> ServerLifecycle {
    let (server, _) = server_with(Limits::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let routes = |stop: &watch::Receiver<bool>| {
        let options = HttpOptions {
            stop: Some(stop.clone()),
            ..HttpOptions::default()
        };
        app(http::router(&server, options), stop)
    };
    let limits = http::Limits::default();
    ServerLifecycle::http(&server, listener, routes, limits, times).unwrap()
}

/// What a callback is told.
fn listen(life: &ServerLifecycle) -> (StatusSubscription, mpsc::UnboundedReceiver<ServerStatus>) {
    let (sender, told) = mpsc::unbounded_channel();
    let subscription = life.on_status_change(move |status| {
        let _ = sender.send(status.clone());
    });
    (subscription, told)
}

async fn next(told: &mut mpsc::UnboundedReceiver<ServerStatus>) -> ServerStatus {
    let status = timeout(PATIENCE, told.recv()).await.expect("told in time");
    status.expect("still subscribed")
}

async fn ping(life: &ServerLifecycle) -> String {
    let address = life.endpoint().strip_prefix("http://").unwrap();
    let address = address.strip_suffix("/mcp").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request = format!(
        "POST /rpc HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    said
}

/// What listens on every address is told under one that can be connected to.
#[tokio::test]
async fn the_endpoint_can_be_connected_to_wherever_it_listens() {
    let (server, _) = server_with(Limits::default());
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let routes = |_: &watch::Receiver<bool>| http::router(&server, HttpOptions::default());
    let limits = http::Limits::default();
    let life = ServerLifecycle::http(&server, listener, routes, limits, SHORT).unwrap();
    assert_eq!(life.endpoint(), format!("http://127.0.0.1:{port}/mcp"));
    life.start().unwrap();
    let said = ping(&life).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

/// A server over stdio is one as any other, without an address.
#[tokio::test]
async fn over_stdio_the_endpoint_is_stdio() {
    let (server, _) = server_with(Limits::default());
    let life = ServerLifecycle::stdio(&server, SHORT);
    assert_eq!(
        (life.transport(), life.endpoint()),
        (TransportKind::Stdio, "stdio")
    );
    assert_eq!(
        (life.status(), life.is_running()),
        (ServerStatus::Stopped, false)
    );
}

/// A client that comes while others are being told that the one before has gone.
#[tokio::test]
async fn what_is_said_while_a_change_is_told_is_not_missed() {
    let (server, _) = server_with(Limits::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let routes = |_: &watch::Receiver<bool>| http::router(&server, HttpOptions::default());
    // Not over before the life looks again.
    let times = LifecycleTimes {
        lease: Duration::from_secs(1),
        ..SHORT
    };
    let limits = http::Limits::default();
    let life = ServerLifecycle::http(&server, listener, routes, limits, times).unwrap();
    let (_subscription, mut told) = listen(&life);
    life.start().unwrap();
    assert_eq!(next(&mut told).await, ServerStatus::Available);
    // What it says is heard at once, whatever becomes of it.
    let client = Direct::new(&server, "test");
    let none = Bytes::new();
    let talk = move || {
        let call = client.call(Method::ToolsCall, &none, DirectCaller::default());
        assert!(call.now_or_never().is_some_and(|said| said.is_err()));
    };
    talk();
    assert_eq!(next(&mut told).await, ServerStatus::Connected);
    let _talk = life.on_status_change(move |status| {
        if *status == ServerStatus::Available {
            talk();
        }
    });
    assert_eq!(next(&mut told).await, ServerStatus::Available);
    assert_eq!(next(&mut told).await, ServerStatus::Connected);
}

#[tokio::test]
async fn clients_come_and_go_and_each_change_is_told_once() {
    let life = over_http(SHORT, |app, _| app).await;
    let (subscription, mut told) = listen(&life);
    assert_eq!(life.transport(), TransportKind::Http);
    assert_eq!(
        (life.status(), life.is_running()),
        (ServerStatus::Stopped, false)
    );
    life.start().unwrap();
    assert!(life.is_running());
    assert_eq!(next(&mut told).await, ServerStatus::Available);
    for _ in 0..2 {
        let said = ping(&life).await;
        assert!(
            said.ends_with(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            "{said}"
        );
        assert_eq!(next(&mut told).await, ServerStatus::Connected);
        assert_eq!(next(&mut told).await, ServerStatus::Available);
    }
    subscription.unsubscribe();
    let (_subscription, mut later) = listen(&life);
    timeout(PATIENCE, life.stop()).await.unwrap().unwrap();
    assert_eq!(
        (life.status(), life.is_running()),
        (ServerStatus::Stopped, false)
    );
    assert_eq!(next(&mut later).await, ServerStatus::Stopped);
    assert_eq!(told.recv().await, None, "nothing is told after the end");
}

#[tokio::test]
async fn a_life_is_lived_once() {
    let life = over_http(SHORT, |app, _| app).await;
    // Nothing is running that could be waited for.
    life.stop().await.unwrap();
    let life = over_http(SHORT, |app, _| app).await;
    life.start().unwrap();
    assert!(life.start().is_err());
    let waiting = tokio::spawn({
        let life = life.clone();
        async move { life.ended().await }
    });
    life.stop().await.unwrap();
    timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert!(life.start().is_err());
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_in_trouble_until_it_does() {
    let hangs = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&hangs);
    let times = LifecycleTimes {
        lease: PATIENCE,
        probe_every: Duration::from_millis(10),
        probe_time: Duration::from_millis(100),
    };
    let life = over_http(times, |_, _| {
        Router::new().fallback(move || async move {
            if switch.load(Ordering::SeqCst) {
                pending::<()>().await;
            }
            StatusCode::OK
        })
    })
    .await;
    let (_subscription, mut told) = listen(&life);
    life.start().unwrap();
    assert_eq!(next(&mut told).await, ServerStatus::Available);
    let ServerStatus::Error(reason) = next(&mut told).await else {
        panic!("no trouble was told");
    };
    assert!(reason.ends_with("did not answer within 100 ms"), "{reason}");
    assert!(life.is_running());
    hangs.store(false, Ordering::SeqCst);
    assert_eq!(next(&mut told).await, ServerStatus::Available);
}

/// What is being answered at the end is waited for, and nobody is let in meanwhile: no trouble.
#[tokio::test]
async fn a_server_that_stops_is_in_no_trouble() {
    let times = LifecycleTimes {
        lease: PATIENCE,
        probe_every: Duration::from_millis(1),
        probe_time: Duration::from_secs(5),
    };
    let (begun, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (began, ends) = (Arc::clone(&begun), Arc::clone(&end));
    let slow = axum::routing::get(move || async move {
        began.notify_one();
        ends.notified().await;
        StatusCode::OK
    });
    let life = over_http(times, |_, _| Router::new().route("/slow", slow)).await;
    let (_subscription, mut told) = listen(&life);
    life.start().unwrap();
    assert_eq!(next(&mut told).await, ServerStatus::Available);
    let address = life.endpoint().strip_prefix("http://").unwrap();
    let address = address.strip_suffix("/mcp").unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let request = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    begun.notified().await;
    let stopping = tokio::spawn({
        let life = life.clone();
        async move { life.stop().await }
    });
    let closed = async { while TcpStream::connect(&address).await.is_ok() {} };
    timeout(PATIENCE, closed).await.unwrap();
    // A hundred looks would find nobody.
    let heard = timeout(Duration::from_millis(100), told.recv()).await;
    assert!(heard.is_err(), "{heard:?}");
    end.notify_one();
    timeout(PATIENCE, stopping).await.unwrap().unwrap().unwrap();
    assert_eq!(next(&mut told).await, ServerStatus::Stopped);
}

#[tokio::test]
async fn a_callback_that_breaks_harms_nobody() {
    let life = over_http(SHORT, |app, _| app).await;
    let _breaks = life.on_status_change(|_| panic!("a callback breaks"));
    let (_subscription, mut told) = listen(&life);
    life.start().unwrap();
    assert_eq!(next(&mut told).await, ServerStatus::Available);
    timeout(PATIENCE, life.stop()).await.unwrap().unwrap();
    assert_eq!(next(&mut told).await, ServerStatus::Stopped);
}

#[tokio::test]
async fn what_lives_beside_it_is_reported_with_it() {
    let life = over_http(SHORT, |routes, _| routes).await;
    assert!(life.parts().is_empty());
    let runs = Arc::new(AtomicBool::new(false));
    let looked = Arc::clone(&runs);
    life.add_part(PartLook::new(move || ServerPart {
        name: "plans",
        endpoint: "runner.sock".to_owned(),
        status: match looked.load(Ordering::SeqCst) {
            true => ServerStatus::Connected,
            false => ServerStatus::Stopped,
        },
        reason: None,
    }));
    assert_eq!(life.parts()[0].status, ServerStatus::Stopped);
    runs.store(true, Ordering::SeqCst);
    let part = &life.parts()[0];
    assert_eq!((part.name, &*part.endpoint), ("plans", "runner.sock"));
    assert_eq!(part.status, ServerStatus::Connected);
}
