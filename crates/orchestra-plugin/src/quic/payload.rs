//! What goes into a frame: bytes, in two parts so that what stands before a large payload need not
//! be put into one buffer with it.

use bytes::Bytes;

use crate::envelope::{Envelope, Kind};

/// The payload of a frame. Clones share its bytes.
#[derive(Debug, Clone, Default)]
pub struct Payload([Bytes; 2]);

impl Payload {
    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Whether it has none, which is a payload as well.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn into_parts(self) -> [Bytes; 2] {
        self.0
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self([bytes, Bytes::new()])
    }
}

impl<K: Kind> From<&Envelope<K>> for Payload {
    fn from(envelope: &Envelope<K>) -> Self {
        Self(envelope.to_parts())
    }
}
