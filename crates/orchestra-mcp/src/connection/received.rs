//! Messages that came by themselves, parsed once for whoever looks at them.

use std::sync::Arc;

use bytes::Bytes;
use orchestra_hub::Along;
use orchestra_wire::{Inbound, Line, Malformed, parse};

use super::Connection;

/// A line and what it holds.
pub(crate) struct Received<'a> {
    pub(crate) line: Line<'a>,
    pub(crate) inbound: Result<Inbound<'a>, Malformed>,
}

impl<'a> Received<'a> {
    /// A message that came by itself.
    pub(crate) fn of(body: &'a Bytes) -> Self {
        Self {
            line: Line::Shared(body.clone()),
            inbound: parse(body),
        }
    }

    /// As [`of`](Self::of), for one that somebody else keeps.
    pub(crate) fn borrowed(body: &'a [u8]) -> Self {
        Self {
            line: Line::Borrowed(body),
            inbound: parse(body),
        }
    }
}

/// What a face knows of whoever asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asker {
    /// Its name, whatever it calls itself.
    pub(crate) name: Option<Arc<str>>,
    /// W3C `traceparent`, where the request names none itself.
    pub(crate) trace: Option<String>,
    /// What goes along with its calls.
    pub(crate) along: Along,
}

impl Connection {
    /// Takes what the face knows of whoever asks.
    pub(crate) fn asked_by(&mut self, asker: Asker) {
        self.asker = asker;
    }
}
