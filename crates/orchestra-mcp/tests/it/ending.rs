//! How serving ends: end of input, signals, a client that goes away.

use std::{
    io::ErrorKind,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use orchestra_mcp::{Limits, stream};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{io::AsyncWriteExt, time::timeout};

use crate::{child::Server, memory};

const SLOW: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_slow","arguments":{"milliseconds":300}}}"#;

#[test]
fn at_the_end_of_input_calls_finish_and_the_exit_is_clean() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    server.send(SLOW);
    // The last line needs no line end.
    server.send_bytes(br#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    server.close_input();
    let rest = server.rest();
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert!(rest[1].contains("slow"));
    assert!(server.exit().success());
}

#[test]
fn signals_let_calls_finish_and_the_exit_is_clean() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::session("everything", "2025-11-25", "{}");
        server.send(SLOW);
        // The call runs once this is answered.
        server.call(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
        kill_process(Pid::from_child(&server.process), signal).unwrap();
        let rest = server.rest();
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert!(rest[0].contains("slow"));
        assert!(server.exit().success());
    }
}

#[test]
fn a_signal_ends_a_server_whose_client_does_not_read() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    // A call that outlasts every grace time, and replies that nobody takes: more than pipe and
    // channel hold, so that the server's reader is blocked in a write.
    server.stop_reading();
    server.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_slow","arguments":{"milliseconds":600000}}}"#);
    for id in 0..4 {
        server.send(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"test_large","arguments":{{"bytes":8000000}}}}}}"#));
    }
    let began = Instant::now();
    kill_process(Pid::from_child(&server.process), Signal::TERM).unwrap();
    assert!(server.exit().success());
    // The grace time, not the ten minutes of the call.
    assert!(began.elapsed() < Duration::from_secs(300));
}

#[test]
fn a_server_ends_when_its_output_is_closed() {
    let mut server = Server::session("everything", "2025-11-25", "{}");
    server.hang_up();
    // The first of these finds the output closed; the input stays open throughout.
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    while server.process.try_wait().unwrap().is_none() {
        if !server.try_send(ping) {
            break;
        }
        std::thread::yield_now();
    }
    assert!(server.exit().success());
}

#[tokio::test]
async fn a_stream_whose_output_breaks_ends_with_its_calls() {
    let (server, shared) = memory::server_with(Limits::default());
    let (mut requests, input) = tokio::io::duplex(64 * 1024);
    let (output, replies) = tokio::io::duplex(64 * 1024);
    drop(replies);
    let serving = tokio::spawn(async move { stream::serve(&server, "test", input, output).await });
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"never"}}"#;
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    let lines = format!("{call}\n{ping}\n");
    requests.write_all(lines.as_bytes()).await.unwrap();
    // The input stays open.
    let served = timeout(Duration::from_secs(30), serving).await.unwrap();
    assert_eq!(served.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    while shared.dropped.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_ends_with_its_calls() {
    let (server, shared) = memory::server_with(Limits::default());
    let (mut requests, input) = tokio::io::duplex(64 * 1024);
    let (output, _replies) = tokio::io::duplex(64 * 1024);
    let serving = tokio::spawn(async move { stream::serve(&server, "test", input, output).await });
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"never"}}"#;
    requests
        .write_all(format!("{call}\n").as_bytes())
        .await
        .unwrap();
    while shared.order.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    serving.abort();
    let end = Instant::now() + Duration::from_secs(30);
    while shared.dropped.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < end, "the call goes on");
        tokio::task::yield_now().await;
    }
}
