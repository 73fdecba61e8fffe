//! Accepts connections and serves each, so many at once, and none that does not go on: whose head
//! does not come, or whose peer does not read what is sent.

mod connections;
mod listeners;
mod paced;
mod repeated;
mod tls;

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::ConnectInfo,
    http::{HeaderValue, Request, Response, StatusCode, header},
};
use futures_util::future::BoxFuture;
use hyper::{
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::Service,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
    task::JoinSet,
    time::timeout,
};

use orchestra_process::{PeerUser, PeerUsers};
use rustix::net::sockopt;
use tokio_rustls::server::TlsStream;

pub(super) use connections::Guest;
use connections::{Connections, Place, Running};
pub use listeners::Listeners;
use paced::Paced;
use repeated::Repeated;
pub use tls::{Tls, TlsError};

/// The longest head of a request, in bytes; a token, a session and the name of a tool fit many
/// times. One that is longer is answered with 431, as is one of more than 100 headers.
const HEAD_BYTES: usize = 64 * 1024;

/// How long nothing is accepted after the system refused to give a connection; it does so when
/// there are no file descriptors left.
const AFTER_REFUSAL: Duration = Duration::from_millis(500);

/// Paths that are answered where all connections are busy, in place of any other.
const RESERVED_PATHS: [&str; 2] = ["/health", "/ready"];

/// How often a connection on which nothing is sent is probed, and how many probes may be lost.
#[cfg(target_os = "linux")]
const PROBES_EVERY: Duration = Duration::from_secs(10);
#[cfg(target_os = "linux")]
const PROBES: u32 = 3;

/// What bounds the connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of connections served at once. For one more, the connection that has been idle for longest is
    /// closed. Where none is idle, only requests for the health of the program are answered. Callers that are not the
    /// user who runs the program, and have shown no token, have a quarter of them together, and can have requests
    /// answered on an eighth.
    pub connections: usize,
    /// Maximum number of connections of one peer, which is another machine or another user of this one. A few more
    /// are accepted, on which only requests for the health of the program are answered.
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

/// Extension of requests that came over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverTls;

/// Serves until `stop` turns true, then lets the requests that run finish. Requests carry the
/// address of their peer as [`ConnectInfo`], and its user as [`PeerUser`]. A connection of another user of this machine
/// ends after its first answer, unless an [`Access`](super::Access) has accepted a token on it.
pub async fn serve(
    listeners: impl Into<Listeners>,
    app: Router,
    stop: watch::Receiver<bool>,
    limits: Limits,
) {
    serve_over(listeners.into(), None, app, stop, limits).await;
}

/// As [`serve`], over TLS, which [`OverTls`] marks. A client whose greeting takes longer than the head of a request may is
/// given up.
pub async fn serve_tls(
    listeners: impl Into<Listeners>,
    tls: Tls,
    app: Router,
    stop: watch::Receiver<bool>,
    limits: Limits,
) {
    serve_over(listeners.into(), Some(tls), app, stop, limits).await;
}

async fn serve_over(
    listeners: Listeners,
    tls: Option<Tls>,
    app: Router,
    mut stop: watch::Receiver<bool>,
    limits: Limits,
) {
    let graceful = GracefulShutdown::new();
    let open = Connections::new(limits.connections, limits.of_one_peer);
    let mut users = PeerUsers::new();
    let (mut refused, mut failed) = (Repeated::default(), Repeated::default());
    // Owns the connections: what is left of them ends with it.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // An error means that the sender is gone, which ends the program as well.
            _ = stop.wait_for(|stopped| *stopped) => break,
            accepted = accept(&listeners, limits.write_time) => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => {
                let user = users.find(&stream, address);
                let peer = Peer { address, user };
                let place = open.open(peer);
                if place.as_ref().is_none_or(Place::is_beyond_share)
                    && let Some(count) = refused.count(Instant::now())
                {
                    tracing::warn!(%address, count, "connection closed or left to health checks: too many are open");
                }
                let Some(place) = place else {
                    continue;
                };
                let place = Arc::new(place);
                let stream = Paced::new(stream, limits.write_time);
                let (tls, app, watcher) = (tls.clone(), app.clone(), graceful.watcher());
                connections.spawn(async move {
                    let service = OfPeer {
                        service: TowerToHyperService::new(app),
                        peer,
                        is_tls: tls.is_some(),
                        place: Arc::clone(&place),
                    };
                    let answers = async {
                        match tls {
                            None => answer(stream, service, watcher, limits).await,
                            Some(tls) => {
                                if let Some(stream) = greet(&tls, stream, address, limits).await {
                                    answer(stream, service, watcher, limits).await;
                                }
                            }
                        }
                    };
                    tokio::select! {
                        () = answers => {}
                        () = place.closed() => {
                            tracing::debug!(%address, "closed an idle connection to accept a new one");
                        }
                    }
                });
            }
            Err(error) => {
                if let Some(count) = failed.count(Instant::now()) {
                    tracing::warn!(%error, count, "cannot accept a connection");
                }
                tokio::time::sleep(AFTER_REFUSAL).await;
            }
        }
    }
    drop(listeners);
    if let Some(count) = refused.rest() {
        tracing::warn!(
            count,
            "more connections were closed or left to health checks: too many were open"
        );
    }
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
            tracing::debug!(%peer, %error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!(%peer, "TLS handshake timed out");
            None
        }
    }
}

/// Answers what comes on one connection.
async fn answer<S>(stream: S, service: OfPeer, watcher: Watcher, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let peer = service.peer;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_header_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(peer = %peer.address, %error, "connection failed");
    }
}

/// The next connection.
async fn accept(listeners: &Listeners, silence: Duration) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listeners.accept().await?;
    // Answers are small and waited for: none may wait for more to fill a packet.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    if let Err(error) = give_up_after(&stream, silence) {
        tracing::debug!(%error, "cannot set TCP keep-alive: a dead peer is detected late");
    }
    Ok((stream, peer))
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

/// The other end of a connection.
#[derive(Clone, Copy)]
struct Peer {
    address: SocketAddr,
    user: PeerUser,
}

/// The routes, as one peer calls them.
struct OfPeer {
    service: TowerToHyperService<Router>,
    peer: Peer,
    is_tls: bool,
    place: Arc<Place>,
}

impl Service<Request<Incoming>> for OfPeer {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let running = self.place.begin();
        let is_reserved = self.place.is_reserved();
        let is_served = !is_reserved || RESERVED_PATHS.contains(&request.uri().path());
        if running.is_none() || !is_served {
            return Box::pin(std::future::ready(Ok(busy())));
        }
        let extensions = request.extensions_mut();
        extensions.insert(ConnectInfo(self.peer.address));
        extensions.insert(self.peer.user);
        extensions.insert(self.place.guest());
        if self.is_tls {
            extensions.insert(OverTls);
        }
        let is_other_user = matches!(self.peer.user, PeerUser::Other(_));
        let place = Arc::clone(&self.place);
        let answered = self.service.call(request);
        Box::pin(async move {
            let mut response = answered.await?;
            // A user without a token gains nothing by sending requests before the answers.
            if is_reserved || is_other_user && place.is_guest() {
                close(&mut response);
            }
            Ok(response.map(|body| AnswerBody {
                body,
                _running: running,
            }))
        })
    }
}

/// The answer where all connections are busy, and this one is only for the health of the program.
fn busy() -> Response<AnswerBody> {
    let text = "busy: all connections are in use; try again later\n";
    let mut response = Response::new(AnswerBody {
        body: text.into(),
        _running: None,
    });
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let second = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, second);
    close(&mut response);
    response
}

fn close<B>(response: &mut Response<B>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

/// The body of an answer. Its connection is not idle before it was sent.
struct AnswerBody {
    body: Body,
    _running: Option<Running>,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{SocketAddr, TcpStream},
    };

    use axum::routing::get;
    use tokio::{net::TcpListener, task::spawn_blocking};

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
    async fn idle_connections_make_room_for_one_more() {
        let (address, _stop) = served(Limits {
            connections: 2,
            head_time: LONG,
            grace: LONG,
            ..Limits::default()
        })
        .await;
        spawn_blocking(move || {
            let mut idle: Vec<_> = (0..3).map(|_| connect(address, b"GET")).collect();
            assert!(answer(connect(address, REQUEST)).contains("answered"));
            // The last two at most are left.
            assert_eq!(answer(idle.remove(0)), "");
        })
        .await
        .unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn health_is_answered_where_all_connections_are_busy() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_sender, stop) = watch::channel(false);
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let waits = move || {
            let begun = begun.clone();
            async move {
                begun.send(()).unwrap();
                std::future::pending::<()>().await
            }
        };
        let app = Router::new()
            .route("/health", get(async || "alive"))
            .route("/", get(async || "answered"))
            .route("/waits", get(waits));
        let limits = Limits {
            connections: 2,
            head_time: LONG,
            ..Limits::default()
        };
        tokio::spawn(serve(listener, app, stop, limits));
        let waiting = b"GET /waits HTTP/1.1\r\nHost: x\r\n\r\n";
        let busy = [connect(address, waiting), connect(address, waiting)];
        for _ in &busy {
            begins.recv().await.unwrap();
        }
        spawn_blocking(move || {
            let health = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
            // More than are reserved, one after the other: each is closed with its answer.
            for _ in 0..100 {
                let said = answer(connect(address, health));
                assert!(said.contains("alive"), "{said}");
            }
            let said = answer(connect(address, REQUEST));
            assert!(
                said.contains("503") && said.contains("retry-after"),
                "{said}"
            );
            drop(busy);
        })
        .await
        .unwrap();
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_is_told_to_give_up_peers_that_are_dead() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _peer = connect(listener.local_addr().unwrap(), b"");
        let (listeners, silence) = (Listeners::from(listener), Duration::from_secs(7));
        let (stream, _) = accept(&listeners, silence).await.unwrap();
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
