//! One line of a recording.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Which way a message went, seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the server.
    Sent,
    /// From the server.
    Received,
}

impl Direction {
    /// The other way.
    #[must_use]
    pub const fn back(self) -> Self {
        match self {
            Self::Sent => Self::Received,
            Self::Received => Self::Sent,
        }
    }
}

/// The form of a line in the file: one message, or what was left out.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Line<'a> {
    /// When it passed, in milliseconds since 1970.
    pub(super) time: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) direction: Option<Direction>,
    #[serde(borrow)]
    pub(super) server: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a RawValue>,
    /// The method; of an answer, that of its request.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<Cow<'a, str>>,
    /// How long it was on its way, without its line end.
    pub(super) bytes: u64,
    /// How long the answer took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ms: Option<f64>,
    /// The message, secrets masked; as a text the beginning of what is none.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<&'a RawValue>,
    /// Whether a secret was masked in it, so that it does not mean what it meant.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) masked: bool,
    /// Set in a line of its own: so many messages before it are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dropped: Option<u64>,
}
