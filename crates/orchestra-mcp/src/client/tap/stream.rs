//! A tap beside bytes that somebody else copies.

use std::sync::Arc;

use bytes::Bytes;
use orchestra_wire::{Frame, LineDecoder};

use super::{
    record::Direction,
    writer::{Seen, Tap},
};

/// Cuts one direction of a stream into its messages, and hands them to a tap.
#[derive(Debug)]
pub struct TapStream {
    tap: Tap,
    server: Arc<str>,
    direction: Direction,
    lines: LineDecoder,
}

impl TapStream {
    /// A tap at one direction of the stream of `server`.
    #[must_use]
    pub fn new(tap: Tap, server: &str, direction: Direction) -> Self {
        Self {
            tap,
            server: server.into(),
            direction,
            lines: LineDecoder::default(),
        }
    }

    /// Looks at bytes that pass, in their order, before they are handed on. It never waits.
    pub fn passed(&mut self, mut bytes: &[u8]) {
        while let Some(frame) = self.lines.next(&mut bytes) {
            let seen = match frame {
                Frame::Line(line) => match line.shared() {
                    Some(shared) => Seen::Line(shared.clone()),
                    None => Seen::Line(Bytes::copy_from_slice(line.as_bytes())),
                },
                Frame::TooLong => Seen::TooLong,
            };
            self.tap.note(&self.server, self.direction, seen, None);
        }
    }

    /// The stream has ended: what stands behind its last line end is told as well.
    pub fn ended(&mut self) {
        self.passed(b"\n");
    }
}
