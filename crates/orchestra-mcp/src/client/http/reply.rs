//! What a request is answered with, in one piece: read within bounds, and parsed once.

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use orchestra_wire::{
    Inbound, MAX_BATCH, Message, RawJson, Reply, RequestId, ResponseRef, RpcError, parse,
    parse_item,
};
use reqwest::{Response, header::CONTENT_TYPE};
use tokio::time::timeout;

use super::{
    chores::Chore,
    core::Core,
    failure,
    names::{EVENT_STREAM, JSON},
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
        if body.is_empty() {
            return Err(ClientError::InvalidMessage {
                what: "an empty body instead of a response".into(),
            });
        }
        match self.read(&body, id)? {
            Some(answer) => Ok(answer),
            None => Err(ClientError::InvalidMessage {
                what: format!(
                    "no response to the request {id}: {}",
                    failure::excerpt(&body, &[])
                ),
            }),
        }
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
        let mut next = Some(second);
        while let Some(chunk) = next {
            if body.len() + chunk.len() > cap {
                return Err(self.too_large());
            }
            body.extend_from_slice(&chunk);
            next = self.chunk(&mut response).await?;
        }
        Ok(body.freeze())
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
            what: format!("{what}: {}", failure::excerpt(text, &[])),
        };
        match parse(text).map_err(|malformed| invalid(&malformed))? {
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
                if response.id.as_ref() == Some(id)
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
    } else if essence.eq_ignore_ascii_case(JSON) {
        Form::Json
    } else {
        Form::Other
    }
}

/// The error that a body carries for a request, or for what nobody could read.
pub(super) fn error_of(body: &[u8], id: &RequestId) -> Option<RpcError> {
    match parse(body).ok()? {
        Inbound::One(Message::Response(response)) => match (response.id, response.reply) {
            (None, Reply::Error(error)) => Some(RpcError::from_raw(error)),
            (Some(answered), Reply::Error(error)) if answered == *id => {
                Some(RpcError::from_raw(error))
            }
            _ => None,
        },
        _ => None,
    }
}
