//! What a request is answered with, in one piece: read within bounds, and parsed once.

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use orchestra_wire::{
    Inbound, MAX_BATCH, Message, RawJson, Reply, RequestId, ResponseRef, RpcError, parse,
    parse_item, unread, without_mark,
};
use reqwest::{Response, header::CONTENT_TYPE};
use tokio::time::timeout;

use super::{
    chores::Chore,
    core::Core,
    failure,
    names::{EVENT_STREAM, JSON},
    send::refusal_body,
};
use crate::{
    causes::with_causes,
    client::{Answer, ClientError},
};

impl Core {
    /// An answer that is one piece of JSON.
    pub(super) async fn whole(
        &self,
        response: Response,
        id: &RequestId,
    ) -> Result<Answer, ClientError> {
        let body = self.body(response).await?;
        self.answer_in_whole(&body, id)
    }

    fn answer_in_whole(&self, body: &Bytes, id: &RequestId) -> Result<Answer, ClientError> {
        if body.is_empty() {
            return Err(ClientError::InvalidMessage {
                what: "an empty body instead of a response".into(),
            });
        }
        match self.read(body, id)? {
            Some(answer) => Ok(answer),
            None => Err(ClientError::InvalidMessage {
                what: format!(
                    "no response to the request {id}: {}",
                    failure::excerpt(body, &self.masker())
                ),
            }),
        }
    }

    /// An answer whose type says neither JSON nor events: it is looked at.
    pub(super) async fn untyped(
        &self,
        mut response: Response,
        id: &RequestId,
    ) -> Result<Answer, ClientError> {
        let mut first = BytesMut::new();
        while without_mark(&first).trim_ascii_start().is_empty() {
            let Some(chunk) = self.chunk(&mut response).await? else {
                break;
            };
            if first.len() + chunk.len() > self.config.max_message_bytes {
                return Err(self.too_large());
            }
            first.extend_from_slice(&chunk);
        }
        let status = response.status();
        let start = without_mark(&first).trim_ascii_start();
        let begins = |words: &[&[u8]]| words.iter().any(|word| start.starts_with(word));
        if begins(&[b"data:", b"event:", b"id:", b"retry:", b":"]) {
            return self.streamed_from(response, id, Some(first.freeze())).await;
        }
        if begins(&[b"{", b"["]) {
            let body = self.body_behind(first, response).await?;
            return self.answer_in_whole(&body, id);
        }
        // The first piece alone may end inside of a secret.
        first.extend_from_slice(&refusal_body(&mut response).await);
        let excerpt = failure::excerpt(&first, &self.masker());
        let what = format!("HTTP status {status} without JSON or events: {excerpt}");
        Err(ClientError::InvalidMessage { what })
    }

    /// A body whose first bytes were read already.
    async fn body_behind(
        &self,
        mut body: BytesMut,
        mut response: Response,
    ) -> Result<Bytes, ClientError> {
        while let Some(chunk) = self.chunk(&mut response).await? {
            if body.len() + chunk.len() > self.config.max_message_bytes {
                return Err(self.too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// A body, within bounds and without being copied where it came in one piece.
    async fn body(&self, mut response: Response) -> Result<Bytes, ClientError> {
        let cap = self.config.max_message_bytes;
        if response
            .content_length()
            .is_some_and(|length| length > cap as u64)
        {
            return Err(self.too_large());
        }
        let Some(first) = self.chunk(&mut response).await? else {
            return Ok(Bytes::new());
        };
        let Some(second) = self.chunk(&mut response).await? else {
            return Ok(first);
        };
        let mut body = BytesMut::from(first);
        if body.len() + second.len() > cap {
            return Err(self.too_large());
        }
        body.extend_from_slice(&second);
        self.body_behind(body, response).await
    }

    /// The next piece of a body.
    pub(super) async fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<Bytes>, ClientError> {
        let idle = self.config.timeouts.idle_stream;
        match timeout(idle, response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => {
                let what = with_causes(&error.without_url());
                Err(failure::broken(format!("the response broke: {what}")))
            }
            Err(_) => Err(ClientError::Timeout { after: idle }),
        }
    }

    /// Reads a message of a response: the answer if it is that; whatever else it is, is passed on.
    pub(super) fn read(&self, text: &Bytes, id: &RequestId) -> Result<Option<Answer>, ClientError> {
        let invalid = |what: &dyn std::fmt::Display| ClientError::InvalidMessage {
            what: format!("{what}: {}", failure::excerpt(text, &self.masker())),
        };
        let list;
        let (parsed, text) = match parse(text) {
            Ok(parsed) => (parsed, text),
            Err(malformed) => {
                list = unread::shallow_list(text).ok_or_else(|| invalid(&malformed))?;
                let server = &self.config.name;
                tracing::warn!(
                    server,
                    "some definitions of a list are nested too deeply; reading them without the nested members"
                );
                (parse(&list).map_err(|_| invalid(&malformed))?, &list)
            }
        };
        match parsed {
            Inbound::One(message) => Ok(self.taken(&message, id, text)),
            Inbound::Batch(items) => {
                let mut answer = None;
                for item in items {
                    let message = parse_item(item).map_err(|malformed| invalid(&malformed))?;
                    answer = self.taken(&message, id, text).or(answer);
                }
                Ok(answer)
            }
            Inbound::BatchTooLong => Err(invalid(&format_args!(
                "a batch of more than {MAX_BATCH} messages"
            ))),
        }
    }

    fn taken(&self, message: &Message<'_>, id: &RequestId, text: &Bytes) -> Option<Answer> {
        match message {
            // An error without an id can only be about what was sent.
            Message::Response(response)
                if response
                    .id
                    .as_ref()
                    .is_some_and(|answered| answers(answered, id))
                    || (response.id.is_none() && matches!(response.reply, Reply::Error(_))) =>
            {
                Some(answer_of(response, text))
            }
            other => {
                self.hear(other, Some(id));
                None
            }
        }
    }

    /// Reads what follows an answer without making anybody wait.
    pub(super) fn finish(&self, mut response: Response) {
        if let Some(Ok(None)) = response.chunk().now_or_never() {
            return;
        }
        self.later(Chore::Rest(response));
    }

    pub(super) fn too_large(&self) -> ClientError {
        let cap = self.config.max_message_bytes;
        ClientError::InvalidMessage {
            what: format!("it is larger than {cap} bytes; `maxMessageBytes` raises the bound"),
        }
    }
}

/// Returns whether a response with an id answers a request; some servers send numbers as text.
pub(super) fn answers(answered: &RequestId, id: &RequestId) -> bool {
    answered == id || answered.other_form().as_ref() == Some(id)
}

/// The outcome that a response carries.
pub(super) fn answer_of(response: &ResponseRef<'_>, text: &Bytes) -> Answer {
    match response.reply {
        Reply::Result(result) => Ok(RawJson::from_frame(result, Some(text))),
        Reply::Error(error) => Err(RpcError::from_raw(error)),
    }
}

/// What a body is, by its type.
pub(super) enum Form {
    Json,
    Events,
    Other,
}

/// What the body of a response is.
pub(super) fn form(response: &Response) -> Form {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(EVENT_STREAM) {
        Form::Events
    } else if is_json(essence) {
        Form::Json
    } else {
        Form::Other
    }
}

/// Returns whether a media type is JSON, also by one of its other names.
fn is_json(essence: &str) -> bool {
    let essence = essence.to_ascii_lowercase();
    essence == JSON
        || essence.ends_with("+json")
        || matches!(
            essence.as_str(),
            "text/json" | "application/json-rpc" | "application/jsonrequest"
        )
}

/// The error that a body carries for a request, or for what nobody could read.
pub(super) fn error_of(body: &[u8], id: &RequestId) -> Option<RpcError> {
    match parse(body).ok()? {
        Inbound::One(Message::Response(response)) => match (response.id, response.reply) {
            (None, Reply::Error(error)) => Some(RpcError::from_raw(error)),
            (Some(answered), Reply::Error(error)) if answers(&answered, id) => {
                Some(RpcError::from_raw(error))
            }
            _ => None,
        },
        _ => None,
    }
}
