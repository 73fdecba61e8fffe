//! The life of a server as one value, whatever it is served over: started, looked at, stopped.

mod part;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use axum::Router;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    select,
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use crate::{
    causes::with_causes,
    http::{self, MCP_PATH},
    server::Server,
    stdio,
};

pub use part::{PartLook, ServerPart};

/// What a server is served over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// Standard input and output.
    Stdio,
    /// HTTP.
    Http,
}

impl TransportKind {
    /// Its name: `stdio` or `http`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// How a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerStatus {
    /// A client has said something within its lease.
    Connected,
    /// It is ready, and no client is there.
    Available,
    /// It was not started yet, or has ended.
    Stopped,
    /// It could not serve, or the last look at its health failed; the reason.
    Error(String),
}

impl ServerStatus {
    /// Its name: `connected`, `available`, `stopped` or `error`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Available => "available",
            Self::Stopped => "stopped",
            Self::Error(_) => "error",
        }
    }
}

/// Why a life cannot begin.
#[derive(Debug, thiserror::Error)]
#[error("the server was already started; create another one to serve again")]
pub struct StartedError;

/// What is waited for.
#[derive(Debug, Clone, Copy)]
pub struct LifecycleTimes {
    /// For how long a client counts as there after it has said something.
    pub lease: Duration,
    /// How often the health of a server over HTTP is looked at.
    pub probe_every: Duration,
    /// How long it may take to answer.
    pub probe_time: Duration,
}

impl Default for LifecycleTimes {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            probe_every: Duration::from_secs(10),
            probe_time: Duration::from_secs(2),
        }
    }
}

/// A server's life: it is made, started once, and stopped. Clones are the same life. Dropping the
/// last does not end it.
#[derive(Clone)]
pub struct ServerLifecycle(Arc<Life>);

struct Life {
    server: Server,
    transport: TransportKind,
    endpoint: String,
    address: Option<SocketAddr>,
    times: LifecycleTimes,
    serve: Mutex<Option<Serve>>,
    stop: watch::Sender<bool>,
    /// Why serving has ended, once it has.
    ended: watch::Sender<Option<Result<(), String>>>,
    status: Mutex<ServerStatus>,
    /// Held while the callbacks of one change are called, so that changes are told in their order.
    telling: Mutex<()>,
    callbacks: Mutex<Callbacks>,
    /// What lives beside it.
    parts: Mutex<Vec<PartLook>>,
}

type Serve = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;
type Callback = Arc<dyn Fn(&ServerStatus) + Send + Sync>;

#[derive(Default)]
struct Callbacks {
    next: u64,
    all: BTreeMap<u64, Callback>,
}

/// A callback that is told of changes, until this is dropped or [`unsubscribe`](Self::unsubscribe)d.
#[must_use = "the callback is told nothing once this is dropped"]
pub struct StatusSubscription {
    life: Weak<Life>,
    number: u64,
}

impl StatusSubscription {
    /// Tells the callback nothing more.
    pub fn unsubscribe(self) {}
}

impl Drop for StatusSubscription {
    fn drop(&mut self) {
        if let Some(life) = self.life.upgrade() {
            lock(&life.callbacks).all.remove(&self.number);
        }
    }
}

impl ServerLifecycle {
    /// A server over this process's standard input and output, as [`stdio::serve`] serves it.
    #[must_use]
    pub fn stdio(server: &Server, times: LifecycleTimes) -> Self {
        let served = server.clone();
        Self::new(server, "stdio".to_owned(), None, times, move |stop| {
            Box::pin(async move {
                let end = stdio::serve_until(&served, stop).await;
                end.map(drop).map_err(|error| with_causes(&error))
            })
        })
    }

    /// A server over HTTP on sockets that listen already, as [`http::serve`] serves it.
    /// `app` makes its routes; what it is given turns true when the server is to stop.
    ///
    /// # Errors
    /// When the first socket has no address.
    pub fn http(
        server: &Server,
        listeners: impl Into<http::Listeners>,
        app: impl FnOnce(&watch::Receiver<bool>) -> Router,
        limits: http::Limits,
        times: LifecycleTimes,
    ) -> io::Result<Self> {
        let listeners = listeners.into();
        let address = reached(listeners.local_addr()?);
        let endpoint = format!("http://{address}{MCP_PATH}");
        Ok(Self::new(server, endpoint, Some(address), times, |stop| {
            let app = app(&stop);
            Box::pin(async move {
                http::serve(listeners, app, stop, limits).await;
                Ok(())
            })
        }))
    }

    /// As [`http`](Self::http), over TLS.
    ///
    /// # Errors
    /// When the first socket has no address.
    pub fn https(
        server: &Server,
        listeners: impl Into<http::Listeners>,
        tls: http::Tls,
        app: impl FnOnce(&watch::Receiver<bool>) -> Router,
        limits: http::Limits,
        times: LifecycleTimes,
    ) -> io::Result<Self> {
        let listeners = listeners.into();
        let address = reached(listeners.local_addr()?);
        let endpoint = format!("https://{address}{MCP_PATH}");
        Ok(Self::new(server, endpoint, Some(address), times, |stop| {
            let app = app(&stop);
            Box::pin(async move {
                http::serve_tls(listeners, tls, app, stop, limits).await;
                Ok(())
            })
        }))
    }

    fn new(
        server: &Server,
        endpoint: String,
        address: Option<SocketAddr>,
        times: LifecycleTimes,
        serve: impl FnOnce(watch::Receiver<bool>) -> Serve,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        Self(Arc::new(Life {
            server: server.clone(),
            transport: match address {
                Some(_) => TransportKind::Http,
                None => TransportKind::Stdio,
            },
            endpoint,
            address,
            times,
            serve: Mutex::new(Some(serve(stopped))),
            stop,
            ended: watch::Sender::new(None),
            status: Mutex::new(ServerStatus::Stopped),
            telling: Mutex::default(),
            callbacks: Mutex::default(),
            parts: Mutex::default(),
        }))
    }

    /// What it is served over.
    #[must_use]
    pub fn transport(&self) -> TransportKind {
        self.0.transport
    }

    /// Where this machine reaches it: a URL, or `stdio`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.0.endpoint
    }

    /// How it is.
    #[must_use]
    pub fn status(&self) -> ServerStatus {
        lock(&self.0.status).clone()
    }

    /// Completes when a client has sent something since the server was built.
    pub async fn heard(&self) {
        self.0.server.0.activity.heard().await;
    }

    /// Whether it was started and has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        lock(&self.0.serve).is_none() && self.0.ended.borrow().is_none()
    }

    /// Starts to serve. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When it was started before.
    pub fn start(&self) -> Result<(), StartedError> {
        let serve = lock(&self.0.serve).take().ok_or(StartedError)?;
        let life = Arc::clone(&self.0);
        life.turn(ServerStatus::Available);
        tokio::spawn(async move {
            // In a task of its own: whoever waits for the end learns of it when this breaks as well.
            let mut serving = tokio::spawn(serve);
            let ended = select! {
                ended = &mut serving => ended.unwrap_or_else(|_| Err("serving broke".to_owned())),
                never = life.watch_until_stopping() => match never {},
            };
            let status = match &ended {
                Ok(()) => ServerStatus::Stopped,
                Err(reason) => ServerStatus::Error(reason.clone()),
            };
            life.ended.send_replace(Some(ended));
            life.turn(status);
        });
        Ok(())
    }

    /// Ends it: nothing more is accepted, and what is being answered may finish within the grace
    /// time. Completes when it has ended; at once when it was never started.
    ///
    /// # Errors
    /// As [`ended`](Self::ended).
    pub async fn stop(&self) -> Result<(), String> {
        self.0.stop.send_replace(true);
        if lock(&self.0.serve).is_some() {
            return Ok(());
        }
        self.ended().await
    }

    /// Completes when it has ended: when it was stopped, and over standard input and output when
    /// the client has gone or a signal came.
    ///
    /// # Errors
    /// The reason, when it could not serve.
    pub async fn ended(&self) -> Result<(), String> {
        let mut ended = self.0.ended.subscribe();
        let ended = ended.wait_for(Option::is_some).await;
        let ended = ended.expect("the sender lives as long as this");
        ended.clone().unwrap_or(Ok(()))
    }

    /// Tells `callback` of each change of the status from now on, in order, until what is given
    /// back is dropped. It must not block, nor wait for this life.
    pub fn on_status_change(
        &self,
        callback: impl Fn(&ServerStatus) + Send + Sync + 'static,
    ) -> StatusSubscription {
        let mut callbacks = lock(&self.0.callbacks);
        let number = callbacks.next;
        callbacks.next += 1;
        callbacks.all.insert(number, Arc::new(callback));
        StatusSubscription {
            life: Arc::downgrade(&self.0),
            number,
        }
    }
}

impl fmt::Debug for ServerLifecycle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerLifecycle")
            .field("endpoint", &self.0.endpoint)
            .field("status", &self.status())
            .field("parts", &self.parts())
            .finish_non_exhaustive()
    }
}

impl Life {
    /// Notes how the server is, and tells it where that is news.
    fn turn(&self, status: ServerStatus) {
        let _telling = lock(&self.telling);
        let before = std::mem::replace(&mut *lock(&self.status), status.clone());
        if before == status {
            return;
        }
        let callbacks: Vec<Callback> = lock(&self.callbacks).all.values().cloned().collect();
        for callback in callbacks {
            // One that breaks must not keep others from hearing, nor the server from serving.
            let called = catch_unwind(AssertUnwindSafe(|| callback(&status)));
            if called.is_err() {
                tracing::error!("a callback for the server's status panicked");
            }
        }
    }

    /// Watches until the server is told to stop: from then on it need not answer.
    async fn watch_until_stopping(&self) -> Infallible {
        let mut stop = self.stop.subscribe();
        let stops = async { stop.wait_for(|stops| *stops).await.map(drop) };
        select! {
            biased;
            _ = stops => {}
            never = self.watch() => match never {},
        }
        std::future::pending().await
    }

    /// Follows what clients say and how healthy the server is, for ever.
    async fn watch(&self) -> Infallible {
        let activity = &self.server.0.activity;
        let mut fault = None;
        // A server is looked at for the first time when it has had a moment to begin.
        let mut probe = Instant::now() + self.times.probe_time.min(self.times.probe_every);
        loop {
            // Before anything else is looked at or told: what is said meanwhile is news.
            let seen = activity.so_far();
            let lease = activity.last().map(|last| last + self.times.lease);
            let lease = lease.filter(|end| *end > Instant::now());
            self.turn(match (&fault, lease) {
                (Some(reason), _) => ServerStatus::Error(String::clone(reason)),
                (None, Some(_)) => ServerStatus::Connected,
                (None, None) => ServerStatus::Available,
            });
            let lapsed = async {
                match lease {
                    Some(end) => sleep_until(end).await,
                    None => activity.heard_since(seen).await,
                }
            };
            let probed = async {
                match self.address {
                    Some(address) => {
                        sleep_until(probe).await;
                        self.probe(address).await
                    }
                    None => std::future::pending().await,
                }
            };
            select! {
                () = lapsed => {}
                found = probed => {
                    fault = found.err();
                    probe = Instant::now() + self.times.probe_every;
                }
            }
        }
    }

    /// Whether the server answers.
    async fn probe(&self, address: SocketAddr) -> Result<(), String> {
        let asked = async {
            let mut stream = TcpStream::connect(address).await?;
            let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            stream.write_all(request).await?;
            stream.read(&mut [0; 16]).await
        };
        match timeout(self.times.probe_time, asked).await {
            // Any answer will do: it is told in whatever the server speaks.
            Ok(Ok(1..)) => Ok(()),
            Ok(Ok(0)) => Err(format!("{address} closes connections without an answer")),
            Ok(Err(error)) => Err(format!("{address} cannot be reached: {error}")),
            Err(_) => Err(format!(
                "{address} did not answer within {} ms",
                self.times.probe_time.as_millis()
            )),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where this machine reaches what listens on `address`: one that stands for all of the machine's
/// addresses is none that can be connected to everywhere.
fn reached(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}
