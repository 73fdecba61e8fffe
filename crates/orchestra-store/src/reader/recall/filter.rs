//! Which remembered texts are wanted, whatever they say.

use orchestra_board::{Label, Timestamp};

use crate::rows::list_text;
use crate::{Chunk, words};

/// Which remembered texts a search is for; what is left empty does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFilter {
    /// From there.
    pub source: Option<Label>,
    /// Of that one.
    pub source_id: Option<Label>,
    /// With all of these tags.
    pub tags: Vec<Label>,
    /// Remembered then or later.
    pub since: Option<Timestamp>,
    /// Remembered then or earlier.
    pub until: Option<Timestamp>,
}

impl MemoryFilter {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn tags_text(&self) -> String {
        list_text(self.tags.iter().map(Label::as_str)).unwrap_or_else(|| "[]".to_owned())
    }

    /// What the full-text engine is asked for the marks of texts that the filter may let through;
    /// `None` where it asks for none, or one has no words.
    pub(super) fn marks(&self) -> Option<String> {
        let marks = self.tags.iter().chain(&self.source_id);
        let words: Vec<String> = marks.map(|mark| words::indexed(mark.as_str())).collect();
        if words.is_empty() || words.iter().any(String::is_empty) {
            return None;
        }
        let phrases = words.iter().map(|words| format!("tags : \"{words}\""));
        Some(phrases.collect::<Vec<_>>().join(" AND "))
    }

    /// Whether a text is let through.
    #[must_use]
    pub fn admits(&self, chunk: &Chunk) -> bool {
        let same = |wanted: &Option<Label>, has: &Option<Label>| wanted.is_none() || wanted == has;
        same(&self.source, &chunk.source)
            && same(&self.source_id, &chunk.source_id)
            && self.tags.iter().all(|tag| chunk.tags.contains(tag))
            && self.since.is_none_or(|since| since <= chunk.created_at)
            && self.until.is_none_or(|until| chunk.created_at <= until)
    }
}
