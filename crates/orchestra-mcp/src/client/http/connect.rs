//! Connections of the HTTP client: TCP, TLS and proxies.
//!
//! The HTTP library reads for as long as data is there, and takes up to 400 KiB at once. A [`Stream`] gives it
//! less at once, so that a server that floods a connection does not hold up the other tasks of the thread. It
//! also ends when the number of interim responses exceeds its bound.

use std::{
    error, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::http::uri::Scheme;
use hyper::Uri;
use hyper_util::{
    client::{
        legacy::connect::{Connected, Connection, HttpConnector as Tcp, proxy::Tunnel},
        proxy::matcher::Matcher,
    },
    rt::TokioIo,
};
use orchestra_hub::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take},
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, pki_types::ServerName},
};
use tower_service::Service;

/// Maximum number of bytes that one read takes from a connection.
const MAX_READ: u64 = 16 * 1024;

/// Time without data after which TCP asks whether the server is still there, and between these questions.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Number of these questions without an answer that end a connection.
const KEEPALIVE_RETRIES: u32 = 3;

/// Time for which sent data may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

type BoxError = Box<dyn error::Error + Send + Sync>;

/// Makes connections, through a proxy if the environment names one for the address.
#[derive(Clone)]
pub(super) struct Connector {
    direct: Direct,
    to_proxy: Direct,
    proxies: Option<Arc<Matcher>>,
    wait: Duration,
}

/// Makes connections without a proxy.
#[derive(Clone)]
struct Direct {
    tcp: Tcp,
    tls: Arc<ClientConfig>,
}

/// Ends one connection. Clones end the same connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Ending(Arc<AtomicBool>);

/// An open connection.
pub(super) struct Stream {
    io: Take<Box<dyn Io>>,
    is_h2: bool,
    via_proxy: bool,
    ending: Ending,
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Connector {
    /// `wait` is the time that a connection may take.
    pub(super) fn new(tls: ClientConfig, wait: Duration, proxies: Option<Arc<Matcher>>) -> Self {
        let mut tcp = Tcp::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(wait));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let mut to_proxy = tls.clone();
        to_proxy.alpn_protocols.clear();
        Self {
            to_proxy: Direct {
                tcp: tcp.clone(),
                tls: Arc::new(to_proxy),
            },
            direct: Direct {
                tcp,
                tls: Arc::new(tls),
            },
            proxies,
            wait,
        }
    }

    async fn connect(mut self, to: Uri) -> Result<TokioIo<Stream>, BoxError> {
        let proxy = self.proxies.and_then(|proxies| proxies.intercept(&to));
        let Some(proxy) = proxy else {
            return self.direct.call(to).await;
        };
        if to.scheme() == Some(&Scheme::HTTPS) {
            let mut tunnel = Tunnel::new(proxy.uri().clone(), self.to_proxy);
            if let Some(credentials) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(credentials.clone());
            }
            let tunneled = tunnel.call(to.clone()).await?.into_inner();
            let stream = encrypted(tunneled, &to, self.direct.tls).await?;
            return Ok(TokioIo::new(stream));
        }
        let mut stream = self.to_proxy.call(proxy.uri().clone()).await?.into_inner();
        stream.via_proxy = true;
        Ok(TokioIo::new(stream))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = timeout(self.wait, self.clone().connect(to));
        Box::pin(async move {
            match connecting.await {
                Ok(connected) => connected,
                Err(_) => {
                    Err(io::Error::new(io::ErrorKind::TimedOut, "operation timed out").into())
                }
            }
        })
    }
}

impl Service<Uri> for Direct {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.tcp.call(to.clone());
        let tls = Arc::clone(&self.tls);
        Box::pin(async move {
            let tcp = connecting.await?.into_inner();
            let stream = match to.scheme() == Some(&Scheme::HTTPS) {
                true => encrypted(tcp, &to, tls).await?,
                false => Stream::new(tcp),
            };
            Ok(TokioIo::new(stream))
        })
    }
}

async fn encrypted(
    io: impl Io + 'static,
    to: &Uri,
    tls: Arc<ClientConfig>,
) -> Result<Stream, BoxError> {
    let host = to.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(bare.to_owned())?;
    let io = TlsConnector::from(tls).connect(name, io).await?;
    let is_h2 = io.get_ref().1.alpn_protocol() == Some(&b"h2"[..]);
    Ok(Stream {
        is_h2,
        ..Stream::new(io)
    })
}

impl Ending {
    /// Makes the next read of the connection fail.
    pub(super) fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Stream {
    fn new(io: impl Io + 'static) -> Self {
        let io: Box<dyn Io> = Box::new(io);
        Self {
            io: io.take(MAX_READ),
            is_h2: false,
            via_proxy: false,
            ending: Ending::default(),
        }
    }

    fn output(self: Pin<&mut Self>) -> Pin<&mut Box<dyn Io>> {
        Pin::new(self.get_mut().io.get_mut())
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new()
            .proxy(self.via_proxy)
            .extra(self.ending.clone());
        match self.is_h2 {
            true => connected.negotiated_h2(),
            false => connected,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ending.0.load(Ordering::Relaxed) {
            let error = io::Error::other("too many interim responses (1xx) before a response");
            return Poll::Ready(Err(error));
        }
        self.io.set_limit(MAX_READ);
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.output().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output().poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.get_ref().is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.output().poll_write_vectored(context, pieces)
    }
}
