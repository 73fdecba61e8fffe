//! Cutting text into the tokens of a model.

use std::panic::{self, AssertUnwindSafe};

use tokenizers::{ModelWrapper, Tokenizer};

use super::{EmbedError, ModelError, layout::Files};

/// So many bytes of a text are looked at for each token that a model takes: words of any script are
/// shorter on the average, and what is cut is bounded however long the text.
const BYTES_PER_TOKEN: usize = 16;

/// A tokenizer and how much of a text it takes.
#[derive(Debug)]
pub(super) struct Tokens {
    tokenizer: Tokenizer,
    /// The most tokens of a text.
    most: usize,
    /// What stands for what is not known.
    unknown: Option<u32>,
    /// One more than the highest token.
    end: u32,
    special: bool,
}

impl Tokens {
    /// Reads a tokenizer. `special` says whether the marks that its models expect around a text are
    /// to be put there.
    pub(super) fn new(
        files: &Files,
        content: &[u8],
        most: usize,
        special: bool,
    ) -> Result<Self, ModelError> {
        let unfit = |fault: String| ModelError::Unfit {
            path: files.tokenizer.clone(),
            fault: format!("{fault}; expected is a tokenizer.json of the library tokenizers"),
        };
        let read = || Tokenizer::from_bytes(content);
        // The library trusts its files: one that breaks it harms nobody but itself.
        let read = panic::catch_unwind(AssertUnwindSafe(read));
        let mut tokenizer = read
            .map_err(|_| unfit("the library fails on it".to_owned()))?
            .map_err(|error| unfit(error.to_string()))?;
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(None)
            .map_err(|error| unfit(error.to_string()))?;
        let highest = tokenizer.get_vocab(true).into_values().max();
        let end = highest.and_then(|highest| highest.checked_add(1));
        let end = end.ok_or_else(|| unfit("it knows no token".to_owned()))?;
        let unknown = unknown(&tokenizer);
        Ok(Self {
            tokenizer,
            most,
            unknown,
            end,
            special,
        })
    }

    /// One more than the highest token.
    pub(super) const fn end(&self) -> u32 {
        self.end
    }

    /// What stands for what is not known.
    pub(super) const fn unknown(&self) -> Option<u32> {
        self.unknown
    }

    /// The tokens of a text, or of its beginning.
    pub(super) fn of(&self, text: &str) -> Result<Vec<u32>, EmbedError> {
        let text = beginning(text, self.most.saturating_mul(BYTES_PER_TOKEN));
        let encode = || self.tokenizer.encode_fast(text, self.special);
        let encoded = panic::catch_unwind(AssertUnwindSafe(encode));
        let failed = |why: String| EmbedError::Model(format!("its tokenizer fails: {why}"));
        let encoding = encoded
            .map_err(|_| failed("it is damaged".to_owned()))?
            .map_err(|error| failed(error.to_string()))?;
        let ids = encoding.get_ids();
        if ids.len() <= self.most {
            return Ok(ids.to_vec());
        }
        let mut kept = ids.get(..self.most).unwrap_or(ids).to_vec();
        // The mark at the end is kept in the last place.
        if let (true, Some(last), Some(mark)) = (self.special, kept.last_mut(), ids.last()) {
            *last = *mark;
        }
        Ok(kept)
    }
}

/// The beginning of a text, of so many bytes at most.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

fn unknown(tokenizer: &Tokenizer) -> Option<u32> {
    match tokenizer.get_model() {
        ModelWrapper::BPE(model) => tokenizer.token_to_id(model.unk_token.as_deref()?),
        ModelWrapper::WordPiece(model) => tokenizer.token_to_id(&model.unk_token),
        ModelWrapper::WordLevel(model) => tokenizer.token_to_id(&model.unk_token),
        // It keeps its own to itself, and writes it.
        ModelWrapper::Unigram(model) => {
            let written = serde_json::to_value(model).ok()?;
            u32::try_from(written.get("unk_id")?.as_u64()?).ok()
        }
    }
}
