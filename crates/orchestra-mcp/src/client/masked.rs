//! Errors of a server, without the secrets that it was given. A server may repeat them in any text. Every error passes
//! here before it becomes a state or a result; the results of a server pass unchanged.

use std::sync::Arc;

use orchestra_hub::BoxFuture;
use orchestra_secret::Masker;
use orchestra_wire::{RawJson, RequestId, RpcError};
use tokio::time::Instant;

use super::{
    Agreed, Answer, ClientError, Crash, HttpFailure, Link, LinkCounters, Outgoing, ServerMessage,
};

/// Maximum length of a text of an error.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// A link whose errors have no secrets of the definition of its server.
pub(super) struct MaskedLink(Arc<dyn Link>);

impl MaskedLink {
    /// Masks the errors of a link that knows secrets.
    pub(super) fn of(link: Arc<dyn Link>) -> Arc<dyn Link> {
        match link.masker() {
            Some(_) => Arc::new(Self(link)),
            None => link,
        }
    }
}

/// Masks the secrets of a link's server in an error.
pub(super) fn error_of(link: &dyn Link, error: ClientError) -> ClientError {
    match link.masker() {
        Some(masker) => error.masked(&masker),
        None => error,
    }
}

impl Link for MaskedLink {
    fn request(&self, request: Outgoing) -> BoxFuture<Result<Answer, ClientError>> {
        let link = Arc::clone(&self.0);
        let answering = self.0.request(request);
        Box::pin(async move {
            match answering.await {
                Ok(Ok(result)) => Ok(Ok(result)),
                Ok(Err(error)) => Ok(Err(match link.masker() {
                    Some(masker) => masked_answer(error, &masker),
                    None => error,
                })),
                Err(error) => Err(error_of(&*link, error)),
            }
        })
    }

    fn notify(&self, method: &str, params: Option<RawJson>) -> BoxFuture<Result<(), ClientError>> {
        let link = Arc::clone(&self.0);
        let sending = self.0.notify(method, params);
        Box::pin(async move { sending.await.map_err(|error| error_of(&*link, error)) })
    }

    fn respond(&self, id: RequestId, answer: Answer) -> BoxFuture<Result<(), ClientError>> {
        let link = Arc::clone(&self.0);
        let sending = self.0.respond(id, answer);
        Box::pin(async move { sending.await.map_err(|error| error_of(&*link, error)) })
    }

    fn observe(&self, message: &ServerMessage) {
        self.0.observe(message);
    }

    fn agreed(&self, agreed: Agreed) -> BoxFuture<()> {
        self.0.agreed(agreed)
    }

    fn ended(&self) -> BoxFuture<ClientError> {
        let link = Arc::clone(&self.0);
        let ending = self.0.ended();
        Box::pin(async move { error_of(&*link, ending.await) })
    }

    fn close(&self) -> BoxFuture<()> {
        self.0.close()
    }

    fn close_by(&self, deadline: Instant) -> BoxFuture<()> {
        self.0.close_by(deadline)
    }

    fn trouble(&self) -> Option<String> {
        let trouble = self.0.trouble()?;
        Some(match self.0.masker() {
            Some(masker) => masker.text(&trouble).into_owned(),
            None => trouble,
        })
    }

    fn stderr_tail(&self) -> String {
        self.0.stderr_tail()
    }

    fn masker(&self) -> Option<Masker> {
        self.0.masker()
    }

    fn counters(&self) -> Option<Arc<LinkCounters>> {
        self.0.counters()
    }

    fn process_id(&self) -> Option<u32> {
        self.0.process_id()
    }
}

impl ClientError {
    /// The same error without the secrets in its texts.
    pub(super) fn masked(self, masker: &Masker) -> Self {
        let text = |text: String| masked_text(&text, masker);
        // It is short, and its end matters most.
        let tail = |tail: String| masker.text(&tail).into_owned();
        let last = |last: Arc<Self>| Arc::new((*last).clone().masked(masker));
        match self {
            Self::SlowStart { after, stderr_tail } => Self::SlowStart {
                after,
                stderr_tail: tail(stderr_tail),
            },
            Self::Crashed(crash) => Self::Crashed(Arc::new(Crash {
                stderr_tail: tail(crash.stderr_tail.clone()),
                ..(*crash).clone()
            })),
            Self::InvalidMessage { what } => Self::InvalidMessage { what: text(what) },
            Self::AnswerTooLarge { what } => Self::AnswerTooLarge { what: text(what) },
            Self::NoAnswer { what } => Self::NoAnswer { what: text(what) },
            Self::Http(failure) => Self::Http(Arc::new(HttpFailure {
                excerpt: text(failure.excerpt.clone()),
                ..(*failure).clone()
            })),
            Self::Unreachable { what } => Self::Unreachable { what: text(what) },
            Self::Handshake { what } => Self::Handshake { what: text(what) },
            Self::NeedsAuth { what } => Self::NeedsAuth { what: text(what) },
            Self::InvalidConfig { what } => Self::InvalidConfig { what: text(what) },
            Self::Busy { what } => Self::Busy { what: text(what) },
            Self::TooLarge { what } => Self::TooLarge { what: text(what) },
            Self::NotYet {
                next_at,
                last: before,
            } => Self::NotYet {
                next_at,
                last: last(before),
            },
            Self::Unlisted { last: before } => Self::Unlisted { last: last(before) },
            Self::CircuitOpen {
                retry_in,
                last: before,
            } => Self::CircuitOpen {
                retry_in,
                last: before.map(last),
            },
            Self::Rpc(error) => Self::Rpc(masked_answer(error, masker)),
            Self::Closed | Self::Timeout { .. } | Self::ToolChanged | Self::Cancelled => self,
        }
    }
}

/// Masks a text of an error, and cuts it: a server chooses its length, and masking takes time for each byte.
fn masked_text(text: &str, masker: &Masker) -> String {
    let mut masked = masker.excerpt(text, MAX_TEXT_BYTES);
    if text.len() > MAX_TEXT_BYTES {
        masked.push('…');
    }
    masked
}

/// Masks the answer of a server. In its data, which programs read, only known values are masked.
fn masked_answer(error: RpcError, masker: &Masker) -> RpcError {
    let data = error.data.map(|data| {
        let masked = masker.known_values(data.as_str()).into_owned();
        // A number that is a secret leaves no JSON.
        RawJson::checked(masked.into_bytes().into()).unwrap_or_else(|_| RawJson::empty_object())
    });
    RpcError {
        code: error.code,
        message: masked_text(&error.message, masker).into(),
        data,
    }
}

#[cfg(test)]
mod tests {
    use orchestra_wire::ErrorCode;
    use serde_json::json;

    use super::*;

    const SECRET: &str = "keyvalue7766554433";

    #[test]
    fn secrets_are_masked_in_every_text_of_an_error() {
        let masker = Masker::new([SECRET]);
        let what = || format!("no: {SECRET}");
        let rpc = || ClientError::Rpc(RpcError::new(ErrorCode::INTERNAL_ERROR, what()));
        let errors = [
            ClientError::Handshake { what: what() },
            ClientError::InvalidMessage { what: what() },
            ClientError::Unreachable { what: what() },
            ClientError::Crashed(Arc::new(Crash {
                stderr_tail: what(),
                ..Crash::default()
            })),
            ClientError::Http(Arc::new(HttpFailure {
                excerpt: what(),
                ..HttpFailure::default()
            })),
            ClientError::NotYet {
                next_at: None,
                last: Arc::new(rpc()),
            },
            ClientError::CircuitOpen {
                retry_in: std::time::Duration::ZERO,
                last: Some(Arc::new(rpc())),
            },
            rpc(),
        ];
        for error in errors {
            let masked = error.masked(&masker);
            let text = masked.explain();
            assert!(text.contains("***") && !text.contains(SECRET), "{masked:?}");
        }
    }

    #[test]
    fn long_text_of_an_error_is_cut_before_it_is_masked() {
        let masker = Masker::new([SECRET]);
        let message = format!("{SECRET} {}", "token=".repeat(2_000_000));
        let error = ClientError::Rpc(RpcError::new(ErrorCode::INTERNAL_ERROR, message));
        let masked = error.masked(&masker).explain();
        assert!(masked.starts_with("***") && masked.ends_with('…'));
        assert!(masked.len() < MAX_TEXT_BYTES + 4);
    }

    #[test]
    fn data_of_an_answer_remains_json_and_has_no_known_value() {
        let masker = Masker::new([SECRET]);
        let mut error = RpcError::new(ErrorCode::INTERNAL_ERROR, "no");
        let data = json!({"url": "https://a.example/?token=abc", "header": SECRET});
        error.data = Some(RawJson::of(&data).unwrap());
        let masked = masked_answer(error, &masker).data.unwrap();
        let masked: serde_json::Value = masked.parse().unwrap();
        let expected = json!({"url": "https://a.example/?token=abc", "header": "***"});
        assert_eq!(masked, expected);
    }

    #[test]
    fn secret_in_an_error_of_no_known_form_is_masked_wherever_it_is() {
        let masker = Masker::new([SECRET]);
        for before in 0..300 {
            let text = format!("{}{SECRET}", "x".repeat(before));
            for error in [
                json!([text, 1]),
                json!({"detail": text}),
                json!({"message": [text]}),
                json!({"data": text}),
                json!({"code": text, "message": "no"}),
            ] {
                let error = serde_json::value::to_raw_value(&error).unwrap();
                let message = masked_answer(RpcError::from_raw(&error), &masker).message;
                assert!(!message.contains("keyv"), "{message}");
            }
        }
    }
}
