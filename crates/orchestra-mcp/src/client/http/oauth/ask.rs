//! Asks authorization servers, within bounds: small documents, short times, no redirects, and no
//! place that others could listen to.

use std::time::Duration;

use orchestra_secret::Masker;
use reqwest::{
    Client, Method, Request, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{
    causes::with_causes,
    client::{
        ClientError,
        http::{coding, config::is_local, failure},
    },
};

/// The most bytes of a document or of an answer.
const MOST_BYTES: usize = 256 * 1024;

/// How long one answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Asks.
#[derive(Clone)]
pub(super) struct Asks {
    client: Client,
    /// Whether places on this machine may be asked: those of a server that is here itself.
    local: bool,
}

/// An answer, whatever its status.
pub(super) struct Told {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Told {
    pub(super) const fn is_good(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    pub(super) fn parse<T: DeserializeOwned>(&self, url: &Url) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| refused(url, &format!("its answer has no known form: {error}")))
    }
}

impl Asks {
    pub(super) fn new(client: Client, server: &Url) -> Self {
        Self {
            client,
            local: is_local(server),
        }
    }

    /// A place that a document names, if nobody on the way can change what is said to it, and
    /// others do not make us ask this machine.
    pub(super) fn place(&self, text: &str) -> Option<Url> {
        let url: Url = text.parse().ok()?;
        let may = match url.scheme() {
            "https" => self.local || !is_local(&url),
            "http" => self.local && is_local(&url),
            _ => false,
        };
        let is_bare = url.username().is_empty() && url.password().is_none();
        (may && is_bare && url.fragment().is_none()).then_some(url)
    }

    pub(super) async fn get(&self, url: &Url) -> Result<Told, ClientError> {
        let mut request = Request::new(Method::GET, url.clone());
        let accept = HeaderValue::from_static("application/json");
        request.headers_mut().insert(ACCEPT, accept);
        self.ask(request).await
    }

    /// The challenges of a server's refusal; `None` where it refuses neither a look at it nor a
    /// message. Nothing but the head of its answers is waited for.
    pub(super) async fn refusal(&self, server: &Url) -> Result<Option<Vec<String>>, ClientError> {
        let look = Request::new(Method::GET, server.clone());
        let mut message = Request::new(Method::POST, server.clone());
        let headers = message.headers_mut();
        let kinds = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, kinds);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *message.body_mut() = Some(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.into());
        for request in [look, message] {
            let response = match timeout(ANSWER_TIME, self.client.execute(request)).await {
                Ok(response) => response.map_err(|error| unreached(server, error))?,
                Err(_) => return Err(late(server)),
            };
            if response.status() == StatusCode::UNAUTHORIZED {
                let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
                let challenges = challenges.filter_map(|value| value.to_str().ok());
                return Ok(Some(challenges.map(str::to_owned).collect()));
            }
        }
        Ok(None)
    }

    /// Posts a form.
    pub(super) async fn post_form(
        &self,
        url: &Url,
        headers: HeaderMap,
        fields: &[(&str, &str)],
    ) -> Result<Told, ClientError> {
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        self.post(url, headers, kind, encoded(fields)).await
    }

    /// Posts a JSON document.
    pub(super) async fn post_json(&self, url: &Url, text: String) -> Result<Told, ClientError> {
        let kind = HeaderValue::from_static("application/json");
        self.post(url, HeaderMap::new(), kind, text).await
    }

    async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        kind: HeaderValue,
        body: String,
    ) -> Result<Told, ClientError> {
        let mut request = Request::new(Method::POST, url.clone());
        *request.headers_mut() = headers;
        let accept = HeaderValue::from_static("application/json");
        request.headers_mut().insert(ACCEPT, accept);
        request.headers_mut().insert(CONTENT_TYPE, kind);
        *request.body_mut() = Some(body.into());
        self.ask(request).await
    }

    async fn ask(&self, request: Request) -> Result<Told, ClientError> {
        let url = request.url().clone();
        let asked = async {
            let response = self.client.execute(request).await;
            let response = response.map_err(|error| unreached(&url, error))?;
            let mut response = coding::decoded(response)?;
            let mut body = Vec::new();
            while let Some(chunk) = response
                .chunk()
                .await
                .map_err(|_| refused(&url, "its answer broke off"))?
            {
                if body.len() + chunk.len() > MOST_BYTES {
                    return Err(refused(&url, "its answer is too long"));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(Told {
                status: response.status().as_u16(),
                headers: response.headers().clone(),
                body,
            })
        };
        match timeout(ANSWER_TIME, asked).await {
            Ok(told) => told,
            Err(_) => Err(late(&url)),
        }
    }
}

fn unreached(url: &Url, error: reqwest::Error) -> ClientError {
    let what = format!("{}: {}", shown(url), with_causes(&error.without_url()));
    ClientError::Unreachable { what }
}

fn late(url: &Url) -> ClientError {
    let what = format!("{}: no answer in time", shown(url));
    ClientError::Unreachable { what }
}

/// Fields as a form, or as a query.
pub(super) fn encoded(fields: &[(&str, &str)]) -> String {
    let mut url: Url = "http://form".parse().expect("it is a URL");
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// One value as it stands in a form.
pub(super) fn encoded_value(value: &str) -> String {
    encoded(&[("", value)]).split_off(1)
}

/// A sign-in that does not come about: what `url` answers is not what was needed.
pub(super) fn refused(url: &Url, what: &str) -> ClientError {
    ClientError::NeedsAuth {
        what: format!("{}: {what}", shown(url)),
    }
}

/// The beginning of an answer that is a refusal.
pub(super) fn excerpt(told: &Told) -> String {
    format!(
        "HTTP status {}: {}",
        told.status,
        failure::excerpt(&told.body, &Masker::default())
    )
}

/// A URL without what may be secret in it.
pub(super) fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}
