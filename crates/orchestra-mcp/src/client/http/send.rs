//! Sends one HTTP request: who sends it, where redirects may lead, and what a refusal means.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use orchestra_secret::Masker;
use reqwest::{
    Body, Method, Request, Response, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE},
};
use tokio::time::timeout;

use super::{
    auth::{AuthRequest, Refusal},
    coding,
    config::same_origin,
    core::Core,
    failure,
};
use crate::client::{ClientError, Departure};

/// Redirects that are followed for one request.
const MAX_REDIRECTS: u32 = 5;

/// How often one request is sent again because of what says who sends it: for a nonce, a new
/// token, and more rights, each once.
const MAX_REFUSALS: u32 = 4;

/// How much of the body of a refusal is read.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;

/// How long its body may take.
const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// A response, and what was shown to get it.
pub(super) struct Sent {
    pub(super) response: Response,
    /// The header `Authorization` of the request.
    pub(super) shown: Option<HeaderValue>,
}

/// What a request carries, and what notes that it leaves.
pub(super) struct Load {
    pub(super) text: Bytes,
    pub(super) departure: Option<Departure>,
}

impl From<Vec<u8>> for Load {
    fn from(text: Vec<u8>) -> Self {
        Self {
            text: text.into(),
            departure: None,
        }
    }
}

impl Load {
    /// Whether it may be sent, once more if it was before.
    fn prepare(&self) -> bool {
        self.departure.as_ref().is_none_or(Departure::prepare)
    }

    fn body(&self) -> Body {
        match &self.departure {
            None => self.text.clone().into(),
            Some(departure) => Body::wrap(Leaving {
                text: self.text.clone(),
                departure: departure.clone(),
            }),
        }
    }
}

/// A body that leaves in one piece when there is a connection for it, unless it was given up by then.
struct Leaving {
    text: Bytes,
    departure: Departure,
}

/// Nobody wants the request any more.
#[derive(Debug, thiserror::Error)]
#[error("the request was canceled")]
struct GivenUp;

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = GivenUp;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, GivenUp>>> {
        if self.text.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(match self.departure.leave() {
            true => Ok(Frame::data(std::mem::take(&mut self.text))),
            false => Err(GivenUp),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.text.len() as u64)
    }
}

impl Core {
    /// Sends a request and answers with its response, whatever its status, unless that is a
    /// redirect or says that we are not let in. `headers` is asked again for each try.
    pub(super) async fn send(
        &self,
        method: Method,
        to: &Url,
        headers: impl Fn() -> HeaderMap,
        load: Option<Load>,
    ) -> Result<Sent, ClientError> {
        let mut url = to.clone();
        let (mut redirects, mut refusals) = (0, 0);
        loop {
            if !load.as_ref().is_none_or(Load::prepare) {
                return Err(ClientError::Cancelled);
            }
            let mut request = Request::new(method.clone(), url.clone());
            *request.headers_mut() = headers();
            self.add_variable(request.headers_mut())?;
            self.authorization
                .add(&method, &url, request.headers_mut())
                .await?;
            let shown = request.headers().get(AUTHORIZATION).cloned();
            if let Some(shown) = &shown {
                self.note_shown(shown);
            }
            *request.body_mut() = load.as_ref().map(Load::body);
            let wait = self.config.timeouts.connect + self.config.timeouts.first_byte;
            let response = match timeout(wait, self.client.execute(request)).await {
                Ok(Ok(response)) => coding::decoded(response)?,
                Ok(Err(error)) => return Err(failure::unsent(&error.without_url())),
                Err(_) => return Err(ClientError::Timeout { after: wait }),
            };
            self.authorization.observe(response.headers());
            let status = response.status();
            if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
                redirects += 1;
                url = self.redirected(&method, &url, &response, redirects)?;
                continue;
            }
            if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                return Ok(Sent { response, shown });
            }
            if refusals >= MAX_REFUSALS {
                return Err(self.failed(Sent { response, shown }).await);
            }
            let request = AuthRequest {
                method: method.clone(),
                url: url.clone(),
            };
            self.refused(request, response, shown, refusals).await?;
            refusals += 1;
        }
    }

    /// Where a redirect leads, if it may be followed.
    fn redirected(
        &self,
        method: &Method,
        from: &Url,
        response: &Response,
        redirects: u32,
    ) -> Result<Url, ClientError> {
        let status = response.status();
        let refuse = |what: String| Err(failure::not_run(status, what));
        let place = response.headers().get(LOCATION);
        let place = place.and_then(|place| place.to_str().ok());
        let Some(to) = place.and_then(|place| from.join(place).ok()) else {
            return refuse("it redirects to nowhere".into());
        };
        if redirects > MAX_REDIRECTS {
            return refuse(format!("it redirects more than {MAX_REDIRECTS} times"));
        }
        // Nothing of a URL but its origin and path is told: the rest may be a secret.
        let shown = format!("{}{}", to.origin().ascii_serialization(), to.path());
        if !same_origin(from, &to) {
            return refuse(format!(
                "it redirects to another origin, which is not followed; if you trust it, set \
                 `url` to {shown}"
            ));
        }
        let keeps_method = matches!(
            status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        if keeps_method || method == Method::GET {
            return Ok(to);
        }
        refuse(format!("it is no longer there; set `url` to {shown}"))
    }

    /// What becomes of a request that was refused: sent again, or given up.
    async fn refused(
        &self,
        request: AuthRequest,
        response: Response,
        shown: Option<HeaderValue>,
        before: u32,
    ) -> Result<(), ClientError> {
        let status = response.status();
        if status == StatusCode::FORBIDDEN && !self.authorization.may_ask_for_more() {
            return Err(self.failed(Sent { response, shown }).await);
        }
        let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let refusal = Refusal {
            status: status.as_u16(),
            challenges: challenges
                .filter_map(|challenge| challenge.to_str().ok().map(str::to_owned))
                .collect(),
            shown: shown.clone(),
            request,
            before,
            headers: response.headers().clone(),
        };
        match self.authorization.refused(refusal).await? {
            true => Ok(()),
            false if status == StatusCode::FORBIDDEN => {
                Err(self.failed(Sent { response, shown }).await)
            }
            false => Err(self.authorization.lost(status)),
        }
    }

    /// A response that is no answer, as an error.
    pub(super) async fn failed(&self, mut sent: Sent) -> ClientError {
        let body = refusal_body(&mut sent.response).await;
        self.failed_with(&sent, &body)
    }

    /// The same where the body was read.
    pub(super) fn failed_with(&self, sent: &Sent, body: &[u8]) -> ClientError {
        let secrets = self.secrets(sent.shown.as_ref());
        failure::status(
            sent.response.status(),
            sent.response.headers(),
            body,
            &Masker::new(secrets.iter().map(String::as_str)),
        )
    }

    /// Masks what a server was given and may repeat: configured headers, and the tokens that were shown last.
    pub(super) fn masker(&self) -> Masker {
        let mut secrets = self.secrets(None);
        for shown in self.last_shown() {
            secrets.extend(texts_of(&shown).map(str::to_owned));
        }
        Masker::new(secrets.iter().map(String::as_str))
    }

    /// What a server could tell of what it was told, and nobody else may see.
    fn secrets(&self, shown: Option<&HeaderValue>) -> Vec<String> {
        let mut headers = HeaderMap::clone(&self.common().headers);
        // Where a variable is missing nothing was sent.
        drop(self.add_variable(&mut headers));
        let values = headers.values().filter(|value| value.is_sensitive());
        let texts = values.chain(shown).flat_map(texts_of);
        texts.map(str::to_owned).collect()
    }
}

/// The value of a header, and its credential without the scheme.
fn texts_of(value: &HeaderValue) -> impl Iterator<Item = &str> {
    let text = value.to_str().ok();
    let texts = text.map(|text| [text, text.rsplit(' ').next().unwrap_or(text)]);
    texts.into_iter().flatten()
}

/// The beginning of the body of a response that is no answer.
pub(super) async fn refusal_body(response: &mut Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = MAX_REFUSAL_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() >= room {
                break;
            }
        }
    };
    // What has come by then is enough.
    drop(timeout(REFUSAL_TIME, read).await);
    body
}
