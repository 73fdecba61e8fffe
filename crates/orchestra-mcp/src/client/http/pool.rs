//! Requests over pooled connections.
//!
//! The HTTP library skips interim responses for as long as a server sends them. Their number is bounded here: a
//! connection with more of them ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::http::{Extensions, uri::Scheme};
use hyper::ext::on_informational;
use hyper_util::{
    client::{
        legacy::{
            self,
            connect::{CaptureConnection, capture_connection},
        },
        proxy::matcher::Matcher,
    },
    rt::{TokioExecutor, TokioTimer},
};
use reqwest::{
    Body, Request, Response,
    header::{
        ACCEPT, ACCEPT_ENCODING, Entry, HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT,
    },
};
use tokio_rustls::rustls::ClientConfig;

use super::connect::{Connector, Ending};

/// Maximum number of interim responses (`1xx`) before a response.
const MAX_INTERIM: u32 = 100;

/// Sends requests. Clones share one pool of connections.
#[derive(Clone)]
pub(super) struct HttpClient {
    pool: legacy::Client<Connector, Body>,
    proxies: Option<Arc<Matcher>>,
    /// Headers of requests that do not have them.
    headers: HeaderMap,
}

/// Bounds of a pool.
pub(super) struct PoolLimits {
    /// Time that a connection may take.
    pub(super) connect: Duration,
    /// Number of unused connections that stay open.
    pub(super) max_idle: usize,
    /// Time for which they stay open.
    pub(super) idle: Duration,
}

/// A request without a response.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// It cannot be sent.
    #[error("invalid request")]
    Invalid(#[source] reqwest::Error),
    /// There is no connection, or it broke.
    #[error("error sending request")]
    Failed(#[source] legacy::Error),
}

impl RequestError {
    /// Returns whether no part of the request was sent.
    pub(super) fn is_before_sending(&self) -> bool {
        match self {
            Self::Invalid(_) => true,
            Self::Failed(error) => error.is_connect(),
        }
    }
}

impl HttpClient {
    /// `uses_proxies` selects the proxies that the environment names.
    pub(super) fn new(tls: ClientConfig, limits: &PoolLimits, uses_proxies: bool) -> Self {
        let proxies = uses_proxies.then(|| Arc::new(Matcher::from_system()));
        let connector = Connector::new(tls, limits.connect, proxies.clone());
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits.idle)
            .pool_max_idle_per_host(limits.max_idle);
        let user_agent = concat!("orchestra/", env!("CARGO_PKG_VERSION"));
        let headers = [
            (ACCEPT, HeaderValue::from_static("*/*")),
            // Without the header, a server may choose any coding.
            (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
            (USER_AGENT, HeaderValue::from_static(user_agent)),
        ];
        Self {
            pool: builder.build(connector),
            proxies,
            headers: HeaderMap::from_iter(headers),
        }
    }

    /// Sends a request and waits for the head of its response. Follows no redirects.
    ///
    /// # Errors
    /// When the request cannot be sent, or the connection ends before the head of the response.
    pub(super) async fn execute(&self, request: Request) -> Result<Response, RequestError> {
        let mut request = hyper::Request::<Body>::try_from(request)
            .map_err(|error| RequestError::Invalid(error.without_url()))?;
        for (name, value) in &self.headers {
            if let Entry::Vacant(entry) = request.headers_mut().entry(name) {
                entry.insert(value.clone());
            }
        }
        if let Some(credentials) = self.proxy_credentials(request.uri()) {
            let entry = request.headers_mut().entry(PROXY_AUTHORIZATION);
            entry.or_insert(credentials);
        }
        let connection = capture_connection(&mut request);
        let interim = AtomicU32::new(0);
        on_informational(&mut request, move |_| {
            if interim.fetch_add(1, Ordering::Relaxed) == MAX_INTERIM {
                end(&connection);
            }
        });
        let response = self.pool.request(request).await;
        let response = response.map_err(RequestError::Failed)?;
        Ok(response.map(Body::wrap).into())
    }

    /// Credentials for a proxy that reads the request. For encrypted requests, the connector sends them.
    fn proxy_credentials(&self, to: &hyper::Uri) -> Option<HeaderValue> {
        let proxies = self.proxies.as_ref()?;
        if to.scheme() != Some(&Scheme::HTTP) {
            return None;
        }
        proxies.intercept(to)?.basic_auth().cloned()
    }
}

/// Ends a connection.
fn end(connection: &CaptureConnection) {
    let mut extras = Extensions::new();
    if let Some(connected) = &*connection.connection_metadata() {
        connected.get_extras(&mut extras);
    }
    if let Some(ending) = extras.get::<Ending>() {
        ending.end();
    }
}
