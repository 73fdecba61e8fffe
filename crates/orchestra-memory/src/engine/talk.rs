//! What is told to a person of an engine: each change, one line for each failed call, and no flood.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use super::client::lock;

/// So many lines of calls are told in [`PERIOD`]; a failing engine is left alone long before.
const LINES: u32 = 6;
/// So many changes: whoever changes oftener flaps, and is told of with its last change.
const CHANGES: u32 = 12;
const PERIOD: Duration = Duration::from_secs(30);

/// So many causes of refusals are known to be told; with more of them they are forgotten.
const CAUSES: usize = 32;

/// Where a line is told.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// What has changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Of {
    /// Whether there is an engine that answers.
    Engine,
    /// Whether its model does.
    Model,
}

/// Tells lines, and of too many how many they were.
pub(crate) struct Talk {
    tell: Tell,
    calls: Mutex<Told>,
    engine: Mutex<Changes>,
    model: Mutex<Changes>,
    causes: Mutex<BTreeSet<String>>,
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
            calls: Mutex::default(),
            engine: Mutex::default(),
            model: Mutex::default(),
            causes: Mutex::default(),
        }
    }

    /// Tells of a call, unless there were too many.
    pub(crate) fn line(&self, text: &str) {
        let before = lock(&self.calls).count(Instant::now(), LINES);
        if let Some(before) = before {
            self.after(before, text);
        }
    }

    /// Tells that a call was refused, the first time that it is for this cause.
    pub(crate) fn refusal(&self, cause: &str, text: &str) {
        let is_new = {
            let mut causes = lock(&self.causes);
            if causes.len() >= CAUSES {
                causes.clear();
            }
            causes.insert(cause.to_owned())
        };
        if is_new {
            self.line(text);
        }
    }

    /// Tells a change; of changes that follow too soon upon each other, the last.
    pub(crate) fn change(&self, of: Of, text: &str) {
        let changes = match of {
            Of::Engine => &self.engine,
            Of::Model => &self.model,
        };
        let told = lock(changes).add(Instant::now(), text);
        self.told(told);
    }

    /// Tells the last changes, where they were kept back and it is time.
    pub(crate) fn overdue(&self) {
        for changes in [&self.engine, &self.model] {
            let told = lock(changes).overdue(Instant::now());
            self.told(told);
        }
    }

    fn told(&self, told: Option<(u32, String)>) {
        if let Some((before, text)) = told {
            self.after(before, &text);
        }
    }

    fn after(&self, before: u32, text: &str) {
        if before > 0 {
            (self.tell)(&format!("memory: {before} more lines were not told"));
        }
        (self.tell)(text);
    }
}

/// How many lines were told of late.
#[derive(Debug, Default)]
struct Told {
    since: Option<Instant>,
    lines: u32,
    kept_back: u32,
}

impl Told {
    /// Counts one more line; how many were kept back before it, or `None` when it is kept back too.
    fn count(&mut self, now: Instant, most: u32) -> Option<u32> {
        if self.is_over(now) {
            let kept_back = std::mem::take(&mut self.kept_back);
            (self.since, self.lines) = (Some(now), 1);
            return Some(kept_back);
        }
        if self.lines < most {
            self.lines += 1;
            return Some(0);
        }
        self.kept_back += 1;
        None
    }

    fn is_over(&self, now: Instant) -> bool {
        self.since
            .is_none_or(|since| now.saturating_duration_since(since) >= PERIOD)
    }
}

/// Changes, of which the last is told sooner or later.
#[derive(Debug, Default)]
struct Changes {
    told: Told,
    kept_back: Option<String>,
}

impl Changes {
    /// One more: what is to be told of it now, and how many were not told before it.
    fn add(&mut self, now: Instant, text: &str) -> Option<(u32, String)> {
        match self.told.count(now, CHANGES) {
            Some(before) => {
                self.kept_back = None;
                Some((before, text.to_owned()))
            }
            None => {
                self.kept_back = Some(text.to_owned());
                None
            }
        }
    }

    fn overdue(&mut self, now: Instant) -> Option<(u32, String)> {
        if !self.told.is_over(now) {
            return None;
        }
        let text = self.kept_back.take()?;
        let before = self.told.count(now, CHANGES)?;
        // It was counted when it was kept back.
        Some((before.saturating_sub(1), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk() -> (Talk, Arc<Mutex<Vec<String>>>) {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = Arc::clone(&said);
        let tell: Tell = Arc::new(move |line| lock(&into).push(line.to_owned()));
        (Talk::new(tell), said)
    }

    #[test]
    fn of_a_flood_a_few_lines_are_told_and_the_rest_is_counted() {
        let (mut told, begin) = (Told::default(), Instant::now());
        for _ in 0..LINES {
            assert_eq!(told.count(begin, LINES), Some(0));
        }
        for _ in 0..100 {
            assert_eq!(told.count(begin + PERIOD / 2, LINES), None);
        }
        assert_eq!(told.count(begin + PERIOD, LINES), Some(100));
        assert_eq!(told.count(begin + PERIOD, LINES), Some(0));
    }

    #[test]
    fn a_change_is_told_however_many_calls_failed_before_it() {
        let (talk, said) = talk();
        for number in 0..100 {
            talk.line(&format!("call {number} failed"));
        }
        talk.change(Of::Engine, "it is away");
        assert_eq!(lock(&said).last().unwrap(), "it is away");
    }

    #[test]
    fn a_refusal_is_told_once_for_each_cause() {
        let (talk, said) = talk();
        for number in 0..100 {
            talk.refusal("not now", &format!("call {number}: not now"));
        }
        talk.refusal("never", "call 100: never");
        assert_eq!(*lock(&said), ["call 0: not now", "call 100: never"]);
    }

    #[test]
    fn of_what_flaps_the_last_change_is_told() {
        let (mut changes, begin) = (Changes::default(), Instant::now());
        for number in 0..CHANGES {
            let text = format!("change {number}");
            assert_eq!(changes.add(begin, &text), Some((0, text)));
        }
        for number in 0..50 {
            assert_eq!(changes.add(begin, &format!("more {number}")), None);
        }
        assert_eq!(changes.overdue(begin + PERIOD / 2), None);
        let told = changes.overdue(begin + PERIOD);
        assert_eq!(told, Some((49, "more 49".to_owned())));
        assert_eq!(changes.overdue(begin + PERIOD * 2), None);
    }
}
