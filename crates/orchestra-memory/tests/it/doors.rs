//! Connections of those who have no token: few, whatever they do, and in nobody's way.

use orchestra_memory::engine::generated::StatsRequest;
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::in_process::{Client, PATIENCE, Served};

use std::time::Duration;

/// As many as may be there at once.
const STRANGERS: usize = 64;

async fn is_answered(client: &mut Client) {
    let asked = client.stats(StatsRequest::default());
    let answered = timeout(PATIENCE, asked).await;
    answered.unwrap().unwrap();
}

/// Whether a connection is still there; what comes over it is thrown away.
fn is_open(stream: &TcpStream) -> bool {
    let mut bytes = [0; 1_024];
    loop {
        match stream.try_read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_few_and_whoever_has_a_token_comes_in() {
    let served = Served::start(None).await;
    let mut early = served.ours().await;
    is_answered(&mut early).await;
    let mut strangers = Vec::new();
    for number in 0..400 {
        let mut stream = TcpStream::connect(served.endpoint.address).await.unwrap();
        // Silent ones, such as begin as they should, and such as speak something else.
        let said: &[u8] = match number % 3 {
            0 => b"",
            1 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            _ => b"\x16\x03\x01\x02\0",
        };
        // It may have been sent away by then.
        let _ = stream.write_all(said).await;
        strangers.push(stream);
        if number % 50 == 0 {
            is_answered(&mut served.ours().await).await;
        }
    }
    let begin = Instant::now();
    let mut late = served.ours().await;
    is_answered(&mut late).await;
    is_answered(&mut early).await;
    // Those that are too many were sent away.
    loop {
        let left = strangers.iter().filter(|stream| is_open(stream)).count();
        if left <= STRANGERS {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{left} are left");
        sleep(Duration::from_millis(10)).await;
    }
    // And those that are left hold up nobody.
    for _ in 0..20 {
        is_answered(&mut served.ours().await).await;
    }
    is_answered(&mut late).await;
    served.end().await;
}
