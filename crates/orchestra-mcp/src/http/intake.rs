//! Takes the bodies of requests in: their kind, their size, and how many are held at once.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, HttpBody as _, to_bytes},
    http::{HeaderMap, HeaderValue, StatusCode, header},
};
use orchestra_wire::without_mark;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::HttpOptions;

/// Bodies up to this length are taken whatever else is held: they are bounded by how many
/// connections there are, and whoever lets large ones dribble in must not keep them out.
const SHORT: usize = 16 * 1024;

/// Longer bodies that are held at once, in bytes, however many messages they are; one message of
/// the largest size is always taken.
const HELD_BYTES: usize = 64 * 1024 * 1024;

/// What the bytes of bodies are counted in.
const HELD_UNIT: usize = 1024;

/// Takes bodies in, within the bounds that all routes have together. Clones share them.
#[derive(Debug, Clone)]
pub struct Intake {
    most: usize,
    time: Duration,
    /// Room for bodies, in [`HELD_UNIT`]s.
    room: Arc<Semaphore>,
}

/// Why a body was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is something else than JSON.
    #[error("the content type must be application/json")]
    NotJson,
    /// It is compressed.
    #[error("the body must not be compressed; send it without Content-Encoding")]
    Compressed,
    /// It is larger than this, or broke off.
    #[error(
        "the request body is incomplete, or has more than {0} bytes; send a complete, smaller body"
    )]
    TooLarge(usize),
    /// There is no room for it now.
    #[error("busy; try again in a moment")]
    Busy,
    /// It did not arrive in time.
    #[error("the request body did not arrive in time")]
    TooSlow,
}

impl BodyError {
    /// The status that says so.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::NotJson | Self::Compressed => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }

    /// Value of `Accept-Encoding` in the refusal, if the content coding is the reason (RFC 9110, section
    /// 15.5.16).
    #[must_use]
    pub const fn accepted_codings(self) -> Option<HeaderValue> {
        match self {
            Self::Compressed => Some(HeaderValue::from_static("identity")),
            Self::NotJson | Self::TooLarge(_) | Self::Busy | Self::TooSlow => None,
        }
    }
}

impl Intake {
    /// One that takes bodies as large as the options say.
    pub(super) fn new(options: &HttpOptions) -> Self {
        let most = options.body_bytes;
        Self {
            most,
            time: options.body_time,
            room: Arc::new(Semaphore::new(units(HELD_BYTES.max(most)))),
        }
    }

    /// Reads a body of JSON, without a byte-order mark, and has room for it until the permit is
    /// dropped; a short one needs none. A compressed one is refused, so that no small body becomes a
    /// large one.
    ///
    /// # Errors
    /// When it is not JSON by its headers, too large or too slow, or there is no room for it.
    pub async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), BodyError> {
        if !is_json(headers.get(header::CONTENT_TYPE)) {
            return Err(BodyError::NotJson);
        }
        let is_identity = |coding: &str| {
            coding.trim().is_empty() || coding.trim().eq_ignore_ascii_case("identity")
        };
        let codings = headers.get_all(header::CONTENT_ENCODING).into_iter();
        let mut codings = codings.map(|value| value.to_str().unwrap_or("?"));
        if !codings.all(|value| value.split(',').all(is_identity)) {
            return Err(BodyError::Compressed);
        }
        let most = self.most;
        // A body of a length that is not told may be of any.
        let length = body
            .size_hint()
            .upper()
            .map_or(most, |upper| usize::try_from(upper).unwrap_or(usize::MAX));
        if length > most {
            return Err(BodyError::TooLarge(most));
        }
        let room = if length <= SHORT {
            None
        } else {
            let units = u32::try_from(units(length)).unwrap_or(u32::MAX);
            let room = Arc::clone(&self.room).try_acquire_many_owned(units);
            Some(room.map_err(|_| BodyError::Busy)?)
        };
        match timeout(self.time, to_bytes(body, most)).await {
            Ok(Ok(body)) => Ok((body.slice_ref(without_mark(&body)), room)),
            Ok(Err(_)) => Err(BodyError::TooLarge(most)),
            Err(_) => Err(BodyError::TooSlow),
        }
    }
}

/// The room that bytes take.
const fn units(bytes: usize) -> usize {
    bytes.div_ceil(HELD_UNIT)
}

fn is_json(content_type: Option<&HeaderValue>) -> bool {
    let text = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
