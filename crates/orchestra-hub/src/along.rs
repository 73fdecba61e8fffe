//! What goes along with a call to whoever answers it, beside what it says: for whom it is made, by
//! whom, and what nobody here understands of it.

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

/// What goes along with a call. Providers that make calls of programs of others tell them of it as
/// far as their protocol has a place for it; others need not look at it.
#[derive(Debug, Clone, Default)]
pub struct Along {
    /// The session that the call is made for. It tells callers apart and is no secret of their face:
    /// whoever knows it can do nothing with it there. The hub names that of the caller's place where
    /// the face names none.
    pub session: Option<SessionName>,
    /// The program that makes the call, where its face has proven which it is.
    pub by: Option<Arc<str>>,
    /// What nobody here knows of the message that the call came in.
    pub carried: Option<Arc<Carried>>,
}

/// The name of a session towards whoever answers its calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionName(Arc<str>);

impl SessionName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 256;

    /// A session that somebody else has named; `None` for an empty name, or one that is too long.
    #[must_use]
    pub fn given(name: &str) -> Option<Self> {
        let fits = (1..=Self::MAX_BYTES).contains(&name.len());
        fits.then(|| Self(name.into()))
    }

    /// A name that nobody has and nobody guesses. Without randomness at least `number` tells it from
    /// others.
    pub(crate) fn draw(number: u64) -> Self {
        let mut bytes = [0; 16];
        let _ = getrandom::fill(&mut bytes);
        Self::from_bits(u128::from_be_bytes(bytes) ^ u128::from(number))
    }

    /// As a UUID of version 4 (RFC 9562, section 5.4), which is what sessions have always looked like
    /// to plugins.
    fn from_bits(bits: u128) -> Self {
        let bits = bits & !(0xf000_c000 << 48) | 0x4000_8000 << 48;
        let text = format!("{bits:032x}");
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
        let parts: Vec<&str> = parts
            .into_iter()
            .filter_map(|part| text.get(part))
            .collect();
        Self(parts.join("-").into())
    }

    /// The name of one of several who share this session. From it nobody learns this name, or what
    /// they are told apart by.
    #[must_use]
    pub fn of_one(&self, told_apart_by: &[&[u8]]) -> Self {
        let mut digest = Sha256::new();
        for part in [self.0.as_bytes()].iter().chain(told_apart_by) {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let digest: [u8; 32] = digest.finalize().into();
        let half = digest.first_chunk().copied().unwrap_or_default();
        Self::from_bits(u128::from_be_bytes(half))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Fields of a message of another protocol than MCP that nobody here knows, on their way to whoever
/// answers the message, and those of the answer on their way back. What they mean is between those
/// two.
#[derive(Debug)]
pub struct Carried {
    asked: Fields,
    answered: Mutex<Option<Fields>>,
    /// Who takes an answer in parts, part by part.
    parts: OnceLock<mpsc::Sender<Bytes>>,
    has_parts: AtomicBool,
}

/// Encoded fields, of a kind of message as its protocol numbers them.
#[derive(Debug, Clone)]
struct Fields {
    kind: u32,
    bytes: Bytes,
}

impl Carried {
    /// The fields of a message of this kind; none are there when `bytes` is empty.
    #[must_use]
    pub const fn new(kind: u32, bytes: Bytes) -> Self {
        Self {
            asked: Fields { kind, bytes },
            answered: Mutex::new(None),
            parts: OnceLock::new(),
            has_parts: AtomicBool::new(false),
        }
    }

    /// The fields that go with a message of this kind. Those of another kind would mean something
    /// else there.
    #[must_use]
    pub fn asked(&self, kind: u32) -> Option<&Bytes> {
        let is_theirs = self.asked.kind == kind && !self.asked.bytes.is_empty();
        is_theirs.then_some(&self.asked.bytes)
    }

    /// Takes the fields of the answer, in the place of those of an earlier attempt.
    pub fn answer(&self, kind: u32, bytes: Bytes) {
        *self.answered_now() = (!bytes.is_empty()).then_some(Fields { kind, bytes });
    }

    /// The fields that go back with an answer of this kind.
    #[must_use]
    pub fn answered(&self, kind: u32) -> Option<Bytes> {
        let answered = self.answered_now();
        let fields = answered.as_ref().filter(|fields| fields.kind == kind);
        fields.map(|fields| fields.bytes.clone())
    }

    /// Takes an answer that comes in parts part by part, each a message of its protocol as it came,
    /// where it comes so; the result of the call is empty then. At most `most` wait for whoever calls
    /// this, once.
    pub fn take_parts(&self, most: usize) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(most);
        let _ = self.parts.set(sender);
        receiver
    }

    /// Whether a part of the answer to a message of this kind is wanted as it comes.
    #[must_use]
    pub fn wants_parts(&self, kind: u32) -> bool {
        self.asked.kind == kind && self.parts.get().is_some()
    }

    /// Passes a part on as soon as there is room. Nobody may want it any more.
    pub async fn part(&self, part: Bytes) {
        if let Some(sender) = self.parts.get() {
            self.has_parts.store(true, Ordering::Release);
            let _ = sender.send(part).await;
        }
    }

    /// Whether parts were passed on.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.has_parts.load(Ordering::Acquire)
    }

    fn answered_now(&self) -> MutexGuard<'_, Option<Fields>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stay_with_their_kind_of_message() {
        let carried = Carried::new(20, Bytes::from_static(b"asked"));
        assert_eq!(carried.asked(20).unwrap(), "asked");
        assert!(carried.asked(40).is_none());
        assert!(carried.answered(20).is_none());
        carried.answer(20, Bytes::from_static(b"answered"));
        assert_eq!(carried.answered(20).unwrap(), "answered");
        assert!(carried.answered(41).is_none());
        carried.answer(20, Bytes::new());
        assert!(carried.answered(20).is_none());
        assert!(Carried::new(20, Bytes::new()).asked(20).is_none());
    }

    #[test]
    fn sessions_have_names_of_their_own() {
        let (one, other) = (SessionName::draw(1), SessionName::draw(2));
        assert_ne!(one, other);
        let zeros = SessionName::from_bits(0);
        assert_eq!(zeros.as_str(), "00000000-0000-4000-8000-000000000000");
        let ones = SessionName::from_bits(u128::MAX);
        assert_eq!(ones.as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(one.of_one(&[b"a", b"b"]), one.of_one(&[b"a", b"b"]));
        assert_ne!(one.of_one(&[b"a", b"b"]), one.of_one(&[b"ab", b""]));
        assert_ne!(one.of_one(&[b"a"]), other.of_one(&[b"a"]));
        assert!(SessionName::given("").is_none());
        assert!(SessionName::given(&"x".repeat(257)).is_none());
        assert_eq!(SessionName::given("s-1").unwrap().as_str(), "s-1");
    }
}
