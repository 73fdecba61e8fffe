//! Uids: random ones for what is new, and derived ones for what was written without, so that two
//! clones of one board come to the same.

use std::collections::HashMap;

use orchestra_board::{Event, Issue, Uid};

use crate::Fault;
use crate::toon::history::{line, without_uid};

/// A uid from the system's random source.
pub(crate) fn random() -> Result<Uid, Fault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Fault::io("read random numbers of the system", error.into()))?;
    Ok(Uid::from_bytes(bytes))
}

/// The uid of an issue that was written without one. `first` is the first line of its history,
/// empty when it has none.
pub(crate) fn of_issue(project: &str, id: &str, created_at: i64, first: &str) -> Uid {
    let created_at = created_at.to_string();
    Uid::derived(["issue", project, id, &created_at, &without_uid(first)])
}

/// [`of_issue`] of an issue with its history.
pub(crate) fn of_issue_with(issue: &Issue, events: &[Event]) -> Uid {
    let first = events.iter().find_map(line).unwrap_or_default();
    of_issue(
        issue.project.as_str(),
        &issue.id.to_string(),
        issue.created_at.unix_seconds(),
        &first,
    )
}

/// Derives the uids of the lines of one history, in their order.
pub(crate) struct OfLines {
    issue: String,
    /// How often each line came so far.
    times: HashMap<Uid, u32>,
}

impl OfLines {
    pub(crate) fn new(issue: Uid) -> Self {
        Self {
            issue: issue.to_string(),
            times: HashMap::new(),
        }
    }

    /// The uid of the next line, with or without a uid of its own.
    pub(crate) fn next(&mut self, line: &str) -> Uid {
        let line = without_uid(line);
        let first = Uid::derived(["line", &self.issue, &line]);
        let times = self.times.entry(first).or_insert(0);
        *times += 1;
        match *times {
            1 => first,
            again => Uid::derived(["line", &self.issue, &line, &again.to_string()]),
        }
    }
}
