//! What REST says instead of an answer: a status and `{"error": text}`. Each reason for it stands
//! here once, with its status and what the OpenAPI document says of it.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use orchestra_hub::ProviderError;
use orchestra_mcp::{
    DirectError,
    http::{BodyError, Refused, RepliesWait, TooManyStreams},
};
use orchestra_wire::ErrorCode;
use serde::Serialize;
use utoipa::{
    IntoResponses, PartialSchema as _, ToSchema,
    openapi::{ContentBuilder, RefOr, Response as Described, ResponseBuilder},
};

/// Why something is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The body or its parameters cannot be understood.
    Malformed,
    /// Nobody has shown a token, or a wrong one.
    Stranger,
    /// Not from here: the `Host` or `Origin` header says so. Or with a token that is not good for
    /// this.
    Foreign,
    /// The rules do not permit the tool.
    Denied,
    /// There is no such thing.
    Unknown,
    /// The tool refuses, as things are.
    Refused,
    /// The body came too slowly.
    Slow,
    /// The body is too large.
    Large,
    /// The body is no JSON by its headers, or compressed.
    NotJson,
    /// The caller asks for too much.
    Greedy,
    /// The provider broke, or is not there.
    Broke,
    /// There is too much to do, or the keys of whoever gave out the token cannot be had.
    Busy,
    /// The answer took too long.
    Late,
}

impl Reason {
    /// The reasons for which any request may be refused before its route is asked.
    const OF_ALL: &[Self] = &[Self::Foreign, Self::Greedy];

    /// Those for which one may be that must not be made by everybody.
    const OF_GUARDED: &[Self] = &[Self::Stranger, Self::Foreign, Self::Greedy, Self::Busy];

    /// Those for which a call may be refused.
    const OF_CALLS: &[Self] = &[
        Self::Malformed,
        Self::Stranger,
        Self::Foreign,
        Self::Denied,
        Self::Unknown,
        Self::Slow,
        Self::Large,
        Self::NotJson,
        Self::Greedy,
        Self::Broke,
        Self::Busy,
        Self::Late,
    ];

    /// Those for which a stream of 2024-11-05 may be refused.
    const OF_STREAMS: &[Self] = &[
        Self::Stranger,
        Self::Foreign,
        Self::Unknown,
        Self::Greedy,
        Self::Busy,
    ];

    /// Those for which one of its messages may be.
    const OF_MESSAGES: &[Self] = &[
        Self::Malformed,
        Self::Stranger,
        Self::Foreign,
        Self::Unknown,
        Self::Slow,
        Self::Large,
        Self::NotJson,
        Self::Greedy,
        Self::Busy,
    ];

    /// Those for which something of a list may be, to look at.
    const OF_THINGS: &[Self] = &[Self::Malformed, Self::Unknown, Self::Broke];

    /// Those for which a tool that is called by another name may be, beside those of calls.
    const OF_TOOLS: &[Self] = &[Self::Refused];

    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Stranger => StatusCode::UNAUTHORIZED,
            Self::Foreign | Self::Denied => StatusCode::FORBIDDEN,
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Refused => StatusCode::CONFLICT,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Large => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Greedy => StatusCode::TOO_MANY_REQUESTS,
            Self::Broke => StatusCode::BAD_GATEWAY,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Late => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Malformed => "The request is invalid. The error text names the reason.",
            Self::Stranger => "The token is missing or invalid.",
            Self::Foreign => {
                "The Host or Origin header is not allowed, or the token lacks a required scope."
            }
            Self::Denied => "The configured rules deny the tool.",
            Self::Unknown => "The named object does not exist.",
            Self::Refused => {
                "The tool refused the call in the current state. The error text names the reason."
            }
            Self::Slow => "The request body did not arrive in time.",
            Self::Large => "The request body is too large.",
            Self::NotJson => "The request body is not application/json, or it is compressed.",
            Self::Greedy => {
                "Too many requests from this caller. Retry-After names the time until the next attempt."
            }
            Self::Broke => {
                "The provider of the tool failed, cannot be reached, or returned a result above the size limit."
            }
            Self::Busy => "The server is overloaded or cannot verify tokens. Retry later.",
            Self::Late => "The call exceeded its time limit.",
        }
    }
}

/// A refusal.
#[derive(Debug)]
pub(crate) struct Refusal {
    reason: Reason,
    text: String,
    /// The time after which the same may be asked again, if that is known.
    wait: Option<Duration>,
    /// The content codings that a body may have, if its coding is the reason.
    codings: Option<HeaderValue>,
}

impl Refusal {
    pub(crate) const fn new(reason: Reason, text: String) -> Self {
        let wait = match reason {
            Reason::Busy => Some(Duration::from_secs(1)),
            _ => None,
        };
        Self {
            reason,
            text,
            wait,
            codings: None,
        }
    }

    /// The same, with the time after which it may be asked again.
    pub(crate) fn after(self, wait: Duration) -> Self {
        Self {
            wait: Some(wait),
            ..self
        }
    }
}

impl From<TooManyStreams> for Refusal {
    fn from(error: TooManyStreams) -> Self {
        Self::new(Reason::Busy, error.to_string()).after(Duration::from_secs(5))
    }
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        let reason = match error {
            BodyError::NotJson | BodyError::Compressed => Reason::NotJson,
            BodyError::TooLarge(_) => Reason::Large,
            BodyError::Busy => Reason::Busy,
            BodyError::TooSlow => Reason::Slow,
        };
        Self {
            codings: error.accepted_codings(),
            ..Self::new(reason, error.to_string())
        }
    }
}

impl From<RepliesWait> for Refusal {
    fn from(error: RepliesWait) -> Self {
        Self::new(Reason::Busy, error.to_string())
    }
}

impl From<DirectError> for Refusal {
    fn from(error: DirectError) -> Self {
        let reason = match &error {
            DirectError::Malformed(_) => Reason::Malformed,
            DirectError::Busy => Reason::Busy,
            DirectError::TooLarge(_) => Reason::Broke,
            DirectError::Provider(error) => of_provider(error),
        };
        Self::new(reason, error.to_string())
    }
}

const fn of_provider(error: &ProviderError) -> Reason {
    match error {
        ProviderError::Unknown { .. } | ProviderError::NoResource { .. } => Reason::Unknown,
        ProviderError::InvalidParams(_) => Reason::Malformed,
        ProviderError::Denied(_) => Reason::Denied,
        ProviderError::Rpc { code, .. } => match ErrorCode(*code) {
            ErrorCode::INVALID_PARAMS | ErrorCode::INVALID_REQUEST => Reason::Malformed,
            ErrorCode::METHOD_NOT_FOUND => Reason::Unknown,
            _ => Reason::Broke,
        },
        ProviderError::DeadlineExceeded => Reason::Late,
        ProviderError::Unreachable(_) | ProviderError::Cancelled => Reason::Broke,
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = error(self.reason.status(), &self.text);
        if let Some(wait) = self.wait {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(codings) = self.codings {
            let headers = response.headers_mut();
            headers.insert(header::ACCEPT_ENCODING, codings);
        }
        response
    }
}

/// The body of a refusal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Error {
    /// What is wrong, for people and models.
    error: String,
}

/// A refusal as a response.
pub(crate) fn error(status: StatusCode, text: &str) -> Response {
    let body = Error {
        error: text.to_owned(),
    };
    (status, axum::Json(body)).into_response()
}

/// Tells in the form of REST what the routes and guards of MCP refuse in theirs.
pub(crate) async fn told(response: Response) -> Response {
    let Some(Refused(text)) = response.extensions().get::<Refused>() else {
        return response;
    };
    let mut told = error(response.status(), text);
    for (name, value) in response.headers() {
        if *name != header::CONTENT_TYPE && *name != header::CONTENT_LENGTH {
            told.headers_mut().append(name, value.clone());
        }
    }
    told
}

/// How anything is refused.
pub(crate) struct Refusals;
/// How lists and documents are refused.
pub(crate) struct Guarded;
/// How something is refused that the path or the query names, beside what is of lists.
pub(crate) struct ThingRefusals;
/// How calls are refused.
pub(crate) struct CallRefusals;
/// How a tool refuses that is called by another name, beside what is of calls.
pub(crate) struct ToolRefusals;
/// How the stream of 2024-11-05 is refused.
pub(crate) struct StreamRefusals;
/// How its messages are refused.
pub(crate) struct MessageRefusals;

type Descriptions = BTreeMap<String, RefOr<Described>>;

impl IntoResponses for Refusals {
    fn responses() -> Descriptions {
        described(Reason::OF_ALL)
    }
}

impl IntoResponses for Guarded {
    fn responses() -> Descriptions {
        described(Reason::OF_GUARDED)
    }
}

impl IntoResponses for ThingRefusals {
    fn responses() -> Descriptions {
        described(Reason::OF_THINGS)
    }
}

impl IntoResponses for ToolRefusals {
    fn responses() -> Descriptions {
        described(Reason::OF_TOOLS)
    }
}

impl IntoResponses for CallRefusals {
    fn responses() -> Descriptions {
        described(Reason::OF_CALLS)
    }
}

impl IntoResponses for StreamRefusals {
    fn responses() -> Descriptions {
        described(Reason::OF_STREAMS)
    }
}

impl IntoResponses for MessageRefusals {
    fn responses() -> Descriptions {
        described(Reason::OF_MESSAGES)
    }
}

fn described(reasons: &[Reason]) -> Descriptions {
    let mut meanings: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for reason in reasons {
        let status = reason.status().as_str().to_owned();
        meanings.entry(status).or_default().push(reason.meaning());
    }
    let described = meanings.into_iter().map(|(status, meanings)| {
        let content = ContentBuilder::new().schema(Some(Error::schema())).build();
        let response = ResponseBuilder::new()
            .description(meanings.join(" Or: "))
            .content("application/json", content)
            .build();
        (status, response.into())
    });
    described.collect()
}
