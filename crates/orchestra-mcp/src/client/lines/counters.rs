//! What a link has seen that was no answer to anybody.

use std::sync::{
    Mutex, OnceLock, PoisonError,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use orchestra_wire::shown;

/// What a link has seen that was no answer to anybody. All of it is survived.
#[derive(Debug, Default)]
pub struct LinkCounters {
    junk: AtomicU64,
    junk_in_a_row: AtomicU32,
    unknown_ids: AtomicU64,
    too_long: AtomicU64,
    dropped: AtomicU64,
    first_junk: OnceLock<String>,
    last_junk: Mutex<String>,
}

impl LinkCounters {
    /// Lines that were no messages.
    #[must_use]
    pub fn junk(&self) -> u64 {
        self.junk.load(Ordering::Relaxed)
    }

    /// The first of them: its beginning, fit to be shown, without secrets.
    #[must_use]
    pub fn first_junk(&self) -> Option<&str> {
        self.first_junk.get().map(String::as_str)
    }

    /// Responses to requests that nobody waits for: never made, given up, or answered already.
    #[must_use]
    pub fn unknown_ids(&self) -> u64 {
        self.unknown_ids.load(Ordering::Relaxed)
    }

    /// Messages over the permitted length.
    #[must_use]
    pub fn too_long(&self) -> u64 {
        self.too_long.load(Ordering::Relaxed)
    }

    /// Notifications that were dropped because nobody listened, or not fast enough.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The last line that was no message and how many in a row there were, when at least `many`.
    pub(super) fn junk_in_a_row(&self, many: u32) -> Option<(u32, String)> {
        let in_a_row = self.junk_in_a_row.load(Ordering::Relaxed);
        (in_a_row >= many).then(|| {
            let last = self.last_junk.lock();
            (
                in_a_row,
                last.unwrap_or_else(PoisonError::into_inner).clone(),
            )
        })
    }

    pub(super) fn count_message(&self) {
        // Read first, so that no line of memory is written for each message.
        if self.junk_in_a_row.load(Ordering::Relaxed) > 0 {
            self.junk_in_a_row.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a line that begins so; whether it is the first.
    pub(super) fn count_junk(&self, excerpt: &str) -> bool {
        self.junk.fetch_add(1, Ordering::Relaxed);
        self.junk_in_a_row.fetch_add(1, Ordering::Relaxed);
        let last = self.last_junk.lock();
        excerpt.clone_into(&mut last.unwrap_or_else(PoisonError::into_inner));
        self.first_junk.set(excerpt.to_owned()).is_ok()
    }

    pub(super) fn count_unknown_id(&self) {
        self.unknown_ids.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_too_long(&self) {
        self.too_long.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_dropped(&self) -> u64 {
        self.dropped.fetch_add(1, Ordering::Relaxed)
    }
}

/// How much of a line is looked at for its excerpt.
pub(super) const HEAD_BYTES: usize = 1_024;

/// The beginning of a text, fit to be shown.
pub(super) fn shown_head(head: &str) -> String {
    let text: String = head
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    shown(&text).into_owned()
}
