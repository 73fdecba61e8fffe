//! One request over Streamable HTTP, or over plain JSON-RPC: a POST, and what it is answered with.

use std::sync::{Arc, atomic::Ordering};

use orchestra_wire::{Era, RequestId, Rope, RpcError, write};
use reqwest::{
    Method, Response, StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;

use super::{
    config::Flavour,
    core::{Common, Core},
    names::{METHOD, NAME, PROTOCOL_VERSION, SESSION, encoded},
    reply::{Form, error_of, form},
    send::{Load, Sent, refusal_body},
};
use crate::client::{Answer, ClientError, HttpFailure, Outgoing};

/// A request that did not run because the server knows the session no more, in the status that MCP
/// has for it, whatever the server's was. `denied` if the server answered it.
fn forgotten(denied: bool) -> ClientError {
    ClientError::Http(Arc::new(HttpFailure {
        status: StatusCode::NOT_FOUND.as_u16(),
        excerpt: "the server has ended the session; a new one is needed".to_owned(),
        denied,
        ..HttpFailure::default()
    }))
}

impl Core {
    /// Sends a request and waits for its answer.
    pub(super) async fn exchange(&self, outgoing: &Outgoing) -> Result<Answer, ClientError> {
        let common = self.common();
        let extra = self.extra_headers(outgoing, &common);
        let headers = || {
            let mut headers = HeaderMap::clone(&common.headers);
            headers.extend(extra.iter().cloned());
            headers
        };
        let load = Some(message(outgoing));
        let sent = self
            .send(Method::POST, &self.endpoint, headers, load)
            .await?;
        let status = sent.response.status();
        if common.has_session && status == StatusCode::NOT_FOUND {
            return Err(self.session_is_denied(sent).await);
        }
        if !status.is_success() {
            return self.not_answered(sent, outgoing, &common).await;
        }
        if common.has_session {
            self.answered.store(true, Ordering::Release);
        }
        if outgoing.method == "initialize" && self.is_mcp() {
            self.take_session(&sent.response)?;
        }
        match form(&sent.response) {
            Form::Events => self.streamed(sent.response, &outgoing.id).await,
            Form::Json => self.whole(sent.response, &outgoing.id).await,
            Form::Other => self.untyped(sent.response, &outgoing.id).await,
        }
    }

    /// Sends a message that is not answered.
    pub(super) async fn tell(&self, message: Vec<u8>) -> Result<(), ClientError> {
        let common = self.common();
        let headers = || HeaderMap::clone(&common.headers);
        let load = Some(message.into());
        let mut sent = self
            .send(Method::POST, &self.endpoint, headers, load)
            .await?;
        let status = sent.response.status();
        if !status.is_success() {
            let body = refusal_body(&mut sent.response).await;
            return Err(match common.has_session && denies_session(status, &body) {
                true => self.session_is_gone(),
                false => self.failed_with(&sent, &body),
            });
        }
        self.finish(sent.response);
        Ok(())
    }

    /// The headers of one request.
    fn extra_headers(
        &self,
        outgoing: &Outgoing,
        common: &Common,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let mut extra = Vec::new();
        if !self.is_mcp() {
            return extra;
        }
        // Before anything is agreed upon, a request itself says what it speaks.
        let said = match common.revision {
            Some(_) => None,
            None => said_revision(outgoing),
        };
        if let Some(said) = &said {
            extra.push((PROTOCOL_VERSION, encoded(said)));
        }
        let is_stateless = match common.revision {
            Some(revision) => revision.era() == Era::Stateless,
            None => said.is_some(),
        };
        if is_stateless {
            extra.push((METHOD, encoded(&outgoing.method)));
            if let Some(name) = &outgoing.name {
                extra.push((NAME, encoded(name)));
            }
        }
        for (name, value) in &outgoing.headers {
            let Ok(name) = HeaderName::try_from(name.as_str()) else {
                continue;
            };
            let value = HeaderValue::try_from(value.as_str()).unwrap_or_else(|_| encoded(value));
            extra.push((name, value));
        }
        extra
    }

    /// Keeps the session that a server began with its answer to `initialize`.
    fn take_session(&self, response: &Response) -> Result<(), ClientError> {
        let Some(session) = response.headers().get(SESSION) else {
            return Ok(());
        };
        let visible = |byte: &u8| matches!(byte, b'!'..=b'~');
        if session.is_empty() || !session.as_bytes().iter().all(visible) {
            return Err(ClientError::InvalidMessage {
                what: "its session id has characters that are not permitted".into(),
            });
        }
        self.begin_session(session);
        Ok(())
    }

    /// The server does not know our session any more: this connection is over.
    pub(super) fn session_is_gone(&self) -> ClientError {
        self.leave_session();
        self.forgotten.store(true, Ordering::Release);
        self.end(ClientError::Closed);
        forgotten(true)
    }

    /// The server answers a request as if it did not know our session. This connection is over. A
    /// session in which nothing was answered was not forgotten: the request may have run.
    async fn session_is_denied(&self, mut sent: Sent) -> ClientError {
        let body = refusal_body(&mut sent.response).await;
        self.session_is_denied_with(&sent, &body)
    }

    fn session_is_denied_with(&self, sent: &Sent, body: &[u8]) -> ClientError {
        let failure = self.failed_with(sent, body);
        let gone = self.session_is_gone();
        match self.answered.load(Ordering::Acquire) {
            true => gone,
            false => failure,
        }
    }

    /// Why nothing is sent any more, once the connection has ended.
    pub(super) fn over(&self) -> Option<ClientError> {
        let ended = self.has_ended()?;
        Some(
            match self.forgotten.load(Ordering::Acquire) && !self.is_closed() {
                true => forgotten(false),
                false => ended,
            },
        )
    }

    /// A response whose status says that the request failed. Its body may be an answer all the
    /// same.
    async fn not_answered(
        &self,
        mut sent: Sent,
        outgoing: &Outgoing,
        common: &Common,
    ) -> Result<Answer, ClientError> {
        let status = sent.response.status();
        let body = refusal_body(&mut sent.response).await;
        let is_overloaded = matches!(status.as_u16(), 429 | 502..=504);
        // Servers that know only the old pair refuse a greeting in ways of their own.
        let is_greeting = self.config.flavour == Flavour::Auto && outgoing.method == "initialize";
        if is_overloaded || is_greeting {
            return Err(self.failed_with(&sent, &body));
        }
        let error = error_of(&body, &outgoing.id);
        if common.has_session && means_no_session(status, &body, error.as_ref()) {
            return Err(self.session_is_denied_with(&sent, &body));
        }
        match error {
            Some(error) => Ok(Err(error)),
            None => Err(self.failed_with(&sent, &body)),
        }
    }
}

/// A request as it is sent.
pub(super) fn message(outgoing: &Outgoing) -> Load {
    let mut rope = Rope::new();
    write::request(
        &mut rope,
        &outgoing.id,
        &outgoing.method,
        outgoing.params.as_ref(),
    );
    Load {
        text: rope.into_vec().into(),
        departure: outgoing.departure.clone(),
    }
}

/// The longest refusal without any form that is taken for what a session came to.
const MAX_PLAIN_BYTES: usize = 256;

/// Whether a refusal of what is no request says that its session is not known.
pub(super) fn denies_session(status: StatusCode, body: &[u8]) -> bool {
    // No request has this id: the error is of nobody, or of who knows whom.
    let error = error_of(body, &RequestId::from_number(0));
    status == StatusCode::NOT_FOUND || means_no_session(status, body, error.as_ref())
}

/// Whether a refusal, and the error in it, say that a session is not known. Servers built on the
/// official SDKs and their samples answer 400 after they were started anew, and nothing but their
/// text tells it apart.
fn means_no_session(status: StatusCode, body: &[u8], error: Option<&RpcError>) -> bool {
    let said = match error {
        Some(error) if matches!(error.code.0, -32000 | -32001 | -32600) => &*error.message,
        None if body.len() <= MAX_PLAIN_BYTES && !body.starts_with(b"{") => {
            str::from_utf8(body).unwrap_or_default()
        }
        _ => return false,
    };
    let text = said.to_ascii_lowercase();
    let names_session = text.contains("session");
    let says_gone = [
        "no valid",
        "not found",
        "invalid",
        "unknown",
        "expired",
        "not initialized",
    ]
    .iter()
    .any(|word| text.contains(word));
    status == StatusCode::BAD_REQUEST
        && (names_session && says_gone || text.contains("server not initialized"))
}

/// The revision that a request itself says it speaks.
fn said_revision(outgoing: &Outgoing) -> Option<String> {
    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
        version: String,
    }
    let said: Said = outgoing.params.as_ref()?.parse().ok()?;
    Some(said.meta.version)
}
