//! Accepts connections and serves each, so many at once, and none that does not go on: whose head
//! does not come, or whose peer does not read what is sent.

mod paced;
mod places;
mod tls;

use std::{convert::Infallible, io, net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::ConnectInfo,
    http::{Request, Response},
};
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

use rustix::net::sockopt;
use tokio_rustls::server::TlsStream;

use paced::Paced;
use places::{Place, Places};
pub use tls::{Tls, TlsError};

/// The longest head of a request, in bytes; a token, a session and the name of a tool fit many
/// times. One that is longer is answered with 431, as is one of more than 100 headers.
const HEAD_BYTES: usize = 64 * 1024;

/// How long nothing is accepted after the system refused to give a connection; it does so when
/// there are no file descriptors left.
const AFTER_REFUSAL: Duration = Duration::from_millis(500);

/// How often a connection on which nothing is sent is probed, and how many probes may be lost.
#[cfg(target_os = "linux")]
const PROBES_EVERY: Duration = Duration::from_secs(10);
#[cfg(target_os = "linux")]
const PROBES: u32 = 3;

/// What bounds the connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many are served at once; more wait in the system's queue.
    pub connections: usize,
    /// How many of them one peer may have, unless it is this machine; more are closed at once.
    pub of_one_peer: usize,
    /// How long the head of a request may take to arrive, and a connection may be idle.
    pub head_time: Duration,
    /// How long a peer may take nothing of what is sent to it.
    pub write_time: Duration,
    /// How long requests may go on after the signal to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // As many agents and pages as one board ever has, each with a stream that it waits on.
            connections: 2_048,
            of_one_peer: 256,
            head_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

/// Serves until `stop` turns true, then lets the requests that run finish. Requests carry the
/// address of their peer as [`ConnectInfo`].
pub async fn serve(
    listener: TcpListener,
    app: Router,
    stop: watch::Receiver<bool>,
    limits: Limits,
) {
    serve_over(listener, None, app, stop, limits).await;
}

/// As [`serve`], over TLS. A client whose greeting takes longer than the head of a request may is
/// given up.
pub async fn serve_tls(
    listener: TcpListener,
    tls: Tls,
    app: Router,
    stop: watch::Receiver<bool>,
    limits: Limits,
) {
    serve_over(listener, Some(tls), app, stop, limits).await;
}

async fn serve_over(
    listener: TcpListener,
    tls: Option<Tls>,
    app: Router,
    mut stop: watch::Receiver<bool>,
    limits: Limits,
) {
    let graceful = GracefulShutdown::new();
    let places = Places::new(limits.connections, limits.of_one_peer);
    // Owns the connections: what is left of them ends with it.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // An error means that the sender is gone, which ends the program as well.
            _ = stop.wait_for(|stopped| *stopped) => break,
            accepted = accept(&listener, &places, limits.write_time) => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer, Some(place))) => {
                let stream = Paced::new(stream, limits.write_time);
                let (tls, app, watcher) = (tls.clone(), app.clone(), graceful.watcher());
                connections.spawn(async move {
                    match tls {
                        None => answer(stream, peer, app, watcher, limits).await,
                        Some(tls) => {
                            if let Some(stream) = greet(&tls, stream, peer, limits).await {
                                answer(stream, peer, app, watcher, limits).await;
                            }
                        }
                    }
                    drop(place);
                });
            }
            Ok((_, peer, None)) => {
                tracing::warn!(%peer, "a connection was closed: its peer has too many");
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(AFTER_REFUSAL).await;
            }
        }
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(limits.grace) => {
            tracing::warn!("requests were still running {} s after the signal", limits.grace.as_secs());
        }
    }
}

/// Begins TLS with a client.
async fn greet(
    tls: &Tls,
    stream: Paced<TcpStream>,
    peer: SocketAddr,
    limits: Limits,
) -> Option<TlsStream<Paced<TcpStream>>> {
    match timeout(limits.head_time, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a client was not greeted");
            None
        }
        Err(_) => {
            tracing::debug!(%peer, "a client took too long to greet");
            None
        }
    }
}

/// Answers what comes on one connection.
async fn answer<S>(stream: S, peer: SocketAddr, app: Router, watcher: Watcher, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = OfPeer {
        service: TowerToHyperService::new(app),
        peer,
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_header_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%peer, %error, "a connection broke");
    }
}

/// The next connection, once there is room for it, and its place if its peer may have one more.
async fn accept(
    listener: &TcpListener,
    places: &Places,
    silence: Duration,
) -> io::Result<(TcpStream, SocketAddr, Option<Place>)> {
    let room = places.room().await;
    let (stream, peer) = listener.accept().await?;
    // Answers are small and waited for: none may wait for more to fill a packet.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    if let Err(error) = give_up_after(&stream, silence) {
        tracing::debug!(%error, "a peer that is dead will be noticed late");
    }
    Ok((stream, peer, places.take(peer.ip(), room)))
}

/// Has the system give a peer up that is dead: nothing says so where its machine or the way to it is
/// gone, and a stream that waits for events would wait for ever.
fn give_up_after(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    // What is sent and not acknowledged counts from when it was sent, else the probes count.
    #[cfg(target_os = "linux")]
    {
        let silence_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, silence_ms)?;
        sockopt::set_tcp_keepidle(stream, silence.max(Duration::from_secs(1)))?;
        sockopt::set_tcp_keepintvl(stream, PROBES_EVERY)?;
        sockopt::set_tcp_keepcnt(stream, PROBES)?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = silence;
    Ok(())
}

/// The routes, as one peer calls them.
struct OfPeer {
    service: TowerToHyperService<Router>,
    peer: SocketAddr,
}

impl Service<Request<Incoming>> for OfPeer {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(ConnectInfo(self.peer));
        self.service.call(request)
    }
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
            ..Limits::default()
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

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_is_told_to_give_up_peers_that_are_dead() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let places = Places::new(1, 1);
        let _peer = connect(listener.local_addr().unwrap(), b"");
        let (stream, _, _) = accept(&listener, &places, Duration::from_secs(7))
            .await
            .unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let idle = sockopt::tcp_keepidle(&stream).unwrap();
        assert_eq!(idle, Duration::from_secs(7));
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 7_000);
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
