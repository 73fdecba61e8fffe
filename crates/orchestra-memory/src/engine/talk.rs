//! What is told to a person of an engine: one line for each change and each failed call, and no flood.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// So many lines are told in [`PERIOD`]; a failing engine is left alone long before.
const LINES: u32 = 6;
const PERIOD: Duration = Duration::from_secs(30);

/// Where a line is told.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Tells lines, and of too many how many they were.
pub(crate) struct Talk {
    tell: Tell,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    since: Option<Instant>,
    lines: u32,
    kept_back: u32,
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").finish_non_exhaustive()
    }
}

impl Talk {
    pub(crate) fn new(tell: Tell) -> Self {
        Self {
            tell,
            told: Mutex::default(),
        }
    }

    /// Tells a line, unless there were too many.
    pub(crate) fn line(&self, text: &str) {
        let before = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            match told.count(Instant::now()) {
                Some(before) => before,
                None => return,
            }
        };
        if before > 0 {
            (self.tell)(&format!("memory: {before} more lines were not told"));
        }
        (self.tell)(text);
    }
}

impl Told {
    /// Counts one more line; how many were kept back before it, or `None` when it is kept back too.
    fn count(&mut self, now: Instant) -> Option<u32> {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= PERIOD;
        if self.since.is_none_or(is_over) {
            let kept_back = std::mem::take(&mut self.kept_back);
            (self.since, self.lines) = (Some(now), 1);
            return Some(kept_back);
        }
        if self.lines < LINES {
            self.lines += 1;
            return Some(0);
        }
        self.kept_back += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_flood_a_few_lines_are_told_and_the_rest_is_counted() {
        let (mut told, begin) = (Told::default(), Instant::now());
        for _ in 0..LINES {
            assert_eq!(told.count(begin), Some(0));
        }
        for _ in 0..100 {
            assert_eq!(told.count(begin + PERIOD / 2), None);
        }
        assert_eq!(told.count(begin + PERIOD), Some(100));
        assert_eq!(told.count(begin + PERIOD), Some(0));
    }
}
