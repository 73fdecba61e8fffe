//! What passes, told to those who look at the moment.

use std::sync::Arc;

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use tokio::sync::broadcast::{self, Receiver};

use super::record::Direction;
use crate::repair::is_failure;

/// How many messages wait for somebody who does not read; of one that is further behind the oldest
/// are left out.
const WAITING: usize = 1_024;

/// How long a message is that is told whole.
const WHOLE_BYTES: usize = 64 * 1024;

/// Those who look at what passes. While there are none nothing is made for them. Clones are the
/// same.
#[derive(Debug, Clone)]
pub struct TapWatch(broadcast::Sender<Arc<str>>);

impl Default for TapWatch {
    fn default() -> Self {
        Self(broadcast::Sender::new(WAITING))
    }
}

impl TapWatch {
    /// Looks from now on. Each message is an object of JSON: `{n, time, server, direction, type, id?,
    /// method?, tool?, bytes, ms?, error?, masked?, body?}`; `body` is the message, secrets masked, or
    /// its beginning as a text where it is longer than 64 KiB. `{dropped}` says that so many before it
    /// are missing.
    #[must_use]
    pub fn look(&self) -> Receiver<Arc<str>> {
        self.0.subscribe()
    }

    /// Whether somebody looks.
    pub(super) fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Nobody may look any more, which is no fault.
    pub(super) fn tell(&self, message: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(message) {
            let _ = self.0.send(text.into());
        }
    }
}

/// A message as it is told.
#[derive(Serialize)]
pub(super) struct Told<'a> {
    pub(super) n: u64,
    pub(super) time: u64,
    pub(super) server: &'a str,
    pub(super) direction: Direction,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool: Option<String>,
    pub(super) bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ms: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) error: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) masked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<Body<'a>>,
}

/// So many are missing.
#[derive(Serialize)]
pub(super) struct Missing {
    pub(super) dropped: u64,
}

/// A message, or its beginning.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Body<'a> {
    Whole(&'a RawValue),
    Begun(&'a str),
}

impl<'a> Body<'a> {
    pub(super) fn of(message: &'a RawValue) -> Self {
        let text = message.get();
        match text.len() > WHOLE_BYTES {
            true => Self::Begun(&text[..text.floor_char_boundary(WHOLE_BYTES)]),
            false => Self::Whole(message),
        }
    }
}

/// What of a message is worth a column.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Probe {
    method: Option<IgnoredAny>,
    id: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
    params: Option<Params>,
    result: Option<Outcome>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Params {
    name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Outcome {
    is_error: Value,
}

impl Probe {
    pub(super) fn of(message: Option<&RawValue>) -> Self {
        // What has another form is a message all the same.
        let probe = message.and_then(|message| serde_json::from_str(message.get()).ok());
        probe.unwrap_or_default()
    }

    pub(super) const fn kind(&self) -> &'static str {
        match (self.method.is_some(), self.id.is_some()) {
            (true, true) => "request",
            (true, false) => "notification",
            (false, _) => "response",
        }
    }

    /// A JSON-RPC error, or a tool that failed.
    pub(super) fn is_error(&self) -> bool {
        let result = self.result.as_ref();
        self.error.is_some() || result.is_some_and(|result| is_failure(&result.is_error))
    }

    pub(super) fn tool(self, method: Option<&str>) -> Option<String> {
        let params = self.params.filter(|_| method == Some("tools/call"))?;
        params.name
    }
}
