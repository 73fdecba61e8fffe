//! What the programs that measure the store have in common.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use orchestra_board::{Body, IssueId, Kind, NewIssue, NewProject, Title};
use orchestra_store::Options;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// The database alone: neither are the readable files looked at, nor are they written.
pub(crate) fn database_alone() -> Options {
    Options {
        watch: false,
        sweep: false,
        flush: false,
        ..Options::default()
    }
}

pub(crate) fn new_project(name: &str) -> Outcome<NewProject> {
    Ok(NewProject {
        name: Title::parse(name)?,
        description: Body::default(),
    })
}

pub(crate) fn new_issue(
    kind: Kind,
    parent: Option<IssueId>,
    title: &str,
    description: &str,
) -> Outcome<NewIssue> {
    Ok(NewIssue {
        kind,
        parent,
        epic: None,
        title: Title::parse(title)?,
        description: Body::parse(description)?,
        priority: None,
        assignees: Vec::new(),
        labels: Vec::new(),
        depends_on: Vec::new(),
    })
}

/// How long things took that were done often.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// `None` when nothing was done.
    pub(crate) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        (!times.is_empty()).then_some(Self(times))
    }

    /// What so many of 100 took at most.
    fn within(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (half, most, all) = (self.within(50), self.within(99), self.within(100));
        write!(f, "p50 {half:>9.1?}  p99 {most:>9.1?}  max {all:>9.1?}")
    }
}
