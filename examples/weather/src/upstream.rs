//! Asks the National Weather Service, within a time and with few retries.

use std::{
    error::Error,
    iter::successors,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{ACCEPT, HeaderMap, HeaderValue, RETRY_AFTER},
    redirect,
};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout_at};
use tokio_rustls::rustls::crypto::ring;

use crate::cache::{Cache, lifetime};

/// The National Weather Service. It needs no key.
pub const DEFAULT_BASE: &str = "https://api.weather.gov";

/// How long all that one call of a tool asks for may take, retries included.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);

/// What it wants to know of who asks: a name and where to complain.
const USER_AGENT: &str = concat!(
    "orchestra-weather/",
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("CARGO_PKG_REPOSITORY"),
    ")"
);

const GEO_JSON: HeaderValue = HeaderValue::from_static("application/geo+json");

/// The most bytes of one answer.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Waits before a second and a third attempt, unless it says how long: its rate limit clears in
/// some five seconds.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Redirects of one request that are followed.
const MOST_REDIRECTS: usize = 3;

/// What asks for weather. Clones share what they keep.
#[derive(Debug, Clone)]
pub struct Upstream {
    client: Client,
    base: Url,
    patience: Duration,
    cache: Arc<Mutex<Cache>>,
}

/// Nobody can be asked.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The base is not usable.
    #[error("{0} is not the http or https URL of a server")]
    Base(String),
    /// The client cannot be made.
    #[error("cannot set up an HTTP client")]
    Client(#[source] reqwest::Error),
}

/// Why a question was not answered: a text for whoever called the tool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the weather service did not answer within {:.0} s; try again later", .0.as_secs_f64())]
    Slow(Duration),
    #[error("the weather service cannot be reached: {0}")]
    Unreachable(String),
    #[error("the weather service answered with status {0}{hint}", hint = hint(*.0))]
    Status(StatusCode),
    #[error("the answer of the weather service is longer than {MOST_BYTES} bytes")]
    Long,
    #[error("the answer of the weather service cannot be understood: {0}")]
    Malformed(String),
    #[error("the weather service refers to another server, {0}, which is not asked")]
    Elsewhere(String),
    #[error("there is no forecast for {0}: only the United States are covered")]
    NotCovered(String),
}

fn hint(status: StatusCode) -> &'static str {
    if may_pass(status) {
        ", also when asked again; try again later"
    } else {
        ""
    }
}

fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

impl Upstream {
    /// What asks at `base`, and takes `patience` for all that one call of a tool needs.
    ///
    /// # Errors
    /// When `base` is no URL, or the system lets nobody ask.
    pub fn new(base: &str, patience: Duration) -> Result<Self, UpstreamError> {
        let url = Url::parse(base).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.has_host() && url.query().is_none()
        });
        let url = url.ok_or_else(|| UpstreamError::Base(base.to_owned()))?;
        // The TLS of the client; that somebody has chosen before is as good.
        let _ = ring::default_provider().install_default();
        let mut client = Client::builder()
            .user_agent(USER_AGENT)
            .default_headers(HeaderMap::from_iter([(ACCEPT, GEO_JSON)]))
            .redirect(same_origin(url.clone()));
        if url.scheme() == "http" {
            // A server on this machine: no proxy leads there, and it shows no certificate.
            client = client.no_proxy().tls_certs_only([]);
        }
        Ok(Self {
            client: client.build().map_err(UpstreamError::Client)?,
            base: url,
            patience,
            cache: Arc::default(),
        })
    }

    /// When a call that begins now must have its answers.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// The URL of a path with a query.
    pub(crate) fn at(&self, path: &str, query: Option<&str>) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url.set_query(query);
        url
    }

    /// The URL that an answer refers to, which must be at the same server.
    ///
    /// # Errors
    /// When it is somewhere else.
    pub(crate) fn referred(&self, text: &str) -> Result<Url, Failure> {
        let url = Url::parse(text).map_err(|error| Failure::Malformed(error.to_string()))?;
        if url.origin() == self.base.origin() {
            Ok(url)
        } else {
            Err(Failure::Elsewhere(
                url.host_str().unwrap_or(text).to_owned(),
            ))
        }
    }

    /// Asks for a document, or takes the one that still holds; it holds for `lifetime` when its
    /// headers do not say.
    ///
    /// # Errors
    /// When there is none by the deadline.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        url: &Url,
        lifetime: Duration,
        deadline: Instant,
    ) -> Result<T, Failure> {
        let body = self.body(url, lifetime, deadline).await?;
        serde_json::from_slice(&body).map_err(|error| Failure::Malformed(error.to_string()))
    }

    async fn body(
        &self,
        url: &Url,
        unless_told: Duration,
        deadline: Instant,
    ) -> Result<Bytes, Failure> {
        let kept = self.cache().find(url.as_str(), Instant::now());
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let fetched = timeout_at(deadline.into(), self.fetch(url, deadline)).await;
        let (body, headers) = fetched.unwrap_or(Err(Failure::Slow(self.patience)))?;
        let lifetime = lifetime(&headers, unless_told);
        self.cache()
            .keep(url.as_str(), &body, lifetime, Instant::now());
        Ok(body)
    }

    async fn fetch(&self, url: &Url, deadline: Instant) -> Result<(Bytes, HeaderMap), Failure> {
        let mut waits = WAITS.into_iter();
        loop {
            let response = self.client.get(url.clone()).send().await;
            let response = response.map_err(unreachable)?;
            let status = response.status();
            if status.is_success() {
                return read(response).await;
            }
            let wait = waits.next().filter(|_| may_pass(status));
            let wait = wait.map(|wait| retry_after(&response).unwrap_or(wait));
            match wait {
                Some(wait) if Instant::now() + wait < deadline => sleep(wait).await,
                _ => return Err(Failure::Status(status)),
            }
        }
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows redirects, but not to anybody else.
fn same_origin(base: Url) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        let stays = attempt.url().origin() == base.origin();
        if stays && attempt.previous().len() <= MOST_REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

async fn read(mut response: Response) -> Result<(Bytes, HeaderMap), Failure> {
    let headers = response.headers().clone();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > MOST_BYTES {
            return Err(Failure::Long);
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body.into(), headers))
}

/// `Retry-After` in seconds (RFC 9110, section 10.2.3).
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// An error of the client with what caused it.
fn unreachable(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    let first: &(dyn Error + 'static) = &error;
    let causes = successors(Some(first), |error| (**error).source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    Failure::Unreachable(causes.join(": "))
}
