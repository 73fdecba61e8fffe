//! The payload of an envelope: as the bytes that came, or in two parts where it was made of a message
//! whose last field is large, so that this one is sent from where it is.

use std::sync::OnceLock;

use bytes::Bytes;

/// The bytes of a payload. However it is parted, it is the same.
#[derive(Debug, Clone)]
pub(super) struct Body {
    front: Vec<u8>,
    rest: Bytes,
    /// Both in one, once somebody has asked for that.
    joined: OnceLock<Bytes>,
}

impl Body {
    /// A payload that begins with `front`.
    pub(super) fn in_parts(front: Vec<u8>, rest: Bytes) -> Self {
        Self {
            front,
            rest,
            joined: OnceLock::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.front.len() + self.rest.len()
    }

    /// What comes first, and what comes then: mostly the whole.
    pub(super) fn parts(&self) -> (&[u8], &Bytes) {
        (&self.front, &self.rest)
    }

    /// The whole. It is copied together where it has two parts.
    pub(super) fn whole(&self) -> &Bytes {
        match self.front.is_empty() {
            true => &self.rest,
            false => self
                .joined
                .get_or_init(|| [&self.front[..], &self.rest[..]].concat().into()),
        }
    }
}

impl From<Bytes> for Body {
    fn from(whole: Bytes) -> Self {
        Self::in_parts(Vec::new(), whole)
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.whole() == other.whole()
    }
}

impl Eq for Body {}
