//! Digests of several texts.

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest of texts, each of which counts with its length.
#[derive(Default)]
pub(crate) struct Digest(Sha256);

impl Digest {
    /// A digest of these texts.
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut digest = Self::default();
        texts.into_iter().for_each(|text| digest.add(text));
        digest
    }

    /// Adds a text.
    pub(crate) fn add(&mut self, text: &str) {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.0.update(length.to_le_bytes());
        self.0.update(text);
    }

    /// Its first `BYTES` bytes, at most 32.
    pub(crate) fn head<const BYTES: usize>(self) -> [u8; BYTES] {
        let digest = self.0.finalize();
        *digest.first_chunk().expect("a SHA-256 digest has 32 bytes")
    }
}
