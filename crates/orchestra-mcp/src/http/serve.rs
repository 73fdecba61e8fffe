//! Accepts connections and serves each, so many at once, and none whose head does not come.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};

/// How long nothing is accepted after the system refused to give a connection; it does so when
/// there are no file descriptors left.
const AFTER_REFUSAL: Duration = Duration::from_millis(500);

/// What bounds the connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many are served at once; more wait in the system's queue.
    pub connections: usize,
    /// How long the head of a request may take to arrive, and a connection may be idle.
    pub head_time: Duration,
    /// How long requests may go on after the signal to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Twice the messages that are answered at once.
            connections: 512,
            head_time: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

/// Serves until `stop` turns true, then lets the requests that run finish.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    mut stop: watch::Receiver<bool>,
    limits: Limits,
) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits.connections));
    // Owns the connections: what is left of them ends with it.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // An error means that the sender is gone, which ends the program as well.
            _ = stop.wait_for(|stopped| *stopped) => break,
            accepted = accept(&listener, &places) => accepted,
        };
        while connections.try_join_next().is_some() {}
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(AFTER_REFUSAL).await;
                continue;
            }
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_time)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app.clone()));
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke");
            }
            drop(place);
        });
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(limits.grace) => {
            tracing::warn!("requests were still running {} s after the signal", limits.grace.as_secs());
        }
    }
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await;
    let place = place.expect("the places are never closed");
    let (stream, _) = listener.accept().await?;
    // Answers are small and waited for: none may wait for more to fill a packet.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    Ok((stream, place))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{SocketAddr, TcpStream},
    };

    use axum::routing::get;
    use tokio::task::spawn_blocking;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    const LONG: Duration = Duration::from_secs(60);

    async fn served(limits: Limits) -> (SocketAddr, watch::Sender<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, stop) = watch::channel(false);
        let app = Router::new().route("/", get(async || "answered"));
        tokio::spawn(serve(listener, app, stop, limits));
        (address, sender)
    }

    fn connect(address: SocketAddr, sent: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(sent).unwrap();
        stream
    }

    fn answer(mut stream: TcpStream) -> String {
        let mut text = String::new();
        // A connection that is reset has said what it had to say.
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_head_that_does_not_come_ends_its_connection() {
        let (address, _stop) = served(Limits {
            head_time: Duration::from_millis(50),
            ..Limits::default()
        })
        .await;
        for half in [&b""[..], b"GET / HTTP/1.1\r\nHost: x\r\n"] {
            let said = spawn_blocking(move || answer(connect(address, half)));
            assert!(!said.await.unwrap().contains("answered"));
        }
        let said = spawn_blocking(move || answer(connect(address, REQUEST)));
        assert!(said.await.unwrap().contains("answered"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn more_connections_than_there_are_places_wait() {
        let (address, _stop) = served(Limits {
            connections: 2,
            head_time: LONG,
            grace: LONG,
        })
        .await;
        spawn_blocking(move || {
            let held = [connect(address, b"GET"), connect(address, b"GET")];
            let waiting = connect(address, REQUEST);
            waiting
                .set_read_timeout(Some(Duration::from_millis(200)))
                .unwrap();
            let early = (&waiting).read(&mut [0; 1]);
            assert!(early.is_err(), "{early:?}");
            drop(held);
            waiting.set_read_timeout(Some(LONG)).unwrap();
            assert!(answer(waiting).contains("answered"));
        })
        .await
        .unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_signal_ends_idle_connections() {
        let (address, stop) = served(Limits {
            head_time: LONG,
            grace: LONG,
            ..Limits::default()
        })
        .await;
        let idle = connect(address, b"");
        stop.send(true).unwrap();
        assert_eq!(spawn_blocking(move || answer(idle)).await.unwrap(), "");
    }
}
