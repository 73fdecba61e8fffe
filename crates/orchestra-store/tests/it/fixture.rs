//! A workspace that goes with the test, and short words for commanding it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use orchestra_board::{Command, IssuePatch, Kind, State, Timestamp};
use orchestra_store::{
    Action, ActionError, Clock, IssueFilter, IssueRecord, Options, PageRequest, ReadError, Reader,
    Receipt, Store,
};

use crate::words::{body, chunk, create, create_project, id, ids_of, slug, target};

/// A clock that stands still until it is told.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.0.load(Ordering::Relaxed))
    }
}

impl TestClock {
    pub(crate) fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

pub(crate) struct Workspace {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) store: Store,
}

/// The database alone: the readable files have tests of their own.
pub(crate) fn options(clock: &Arc<TestClock>) -> Options {
    let clock: Arc<dyn Clock> = Arc::<TestClock>::clone(clock);
    Options {
        clock,
        watch: false,
        sweep: false,
        flush: false,
        ..Options::default()
    }
}

pub(crate) fn clock() -> Arc<TestClock> {
    Arc::new(TestClock(AtomicI64::new(1_770_000_000)))
}

pub(crate) fn open(directory: &Path) -> Store {
    Store::open(directory, options(&clock())).expect("the store opens")
}

impl Workspace {
    pub(crate) fn empty() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = clock();
        let store = Store::open(directory.path(), options(&clock)).expect("the store opens");
        Self {
            directory,
            clock,
            store,
        }
    }

    /// Project `my-app` (key `MA`) with epic MA-1 and story MA-2.
    pub(crate) fn with_a_story() -> Self {
        let workspace = Self::empty();
        workspace.make_project("My App");
        workspace.create(Kind::Epic, None, "Epic");
        workspace.create(Kind::Story, Some("MA-1"), "Story");
        workspace
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn make_project(&self, name: &str) {
        self.act(Action::Board(create_project(name)));
    }

    pub(crate) fn act(&self, action: Action) -> Receipt {
        self.try_act(action).expect("an action that is allowed")
    }

    pub(crate) fn try_act(&self, action: Action) -> Result<Receipt, ActionError> {
        self.store.submit_blocking(None, action)
    }

    pub(crate) fn run(&self, command: Command) -> Receipt {
        self.act(Action::Board(command))
    }

    pub(crate) fn create(&self, kind: Kind, parent: Option<&str>, text: &str) -> IssueRecord {
        self.run(create(kind, parent, text)).issues.swap_remove(0)
    }

    pub(crate) fn set_state(&self, id: &str, state: State) -> Receipt {
        let patch = IssuePatch {
            state: Some(state),
            ..IssuePatch::default()
        };
        let evidence = Some(body("evidence that is long enough"));
        self.run(Command::UpdateIssue {
            target: target(id),
            patch,
            evidence,
            version: None,
        })
    }

    pub(crate) fn read<T>(&self, work: impl FnOnce(&Reader<'_>) -> Result<T, ReadError>) -> T {
        self.store.read(work).expect("readable")
    }

    pub(crate) fn issue(&self, issue: &str) -> Option<IssueRecord> {
        self.read(|reader| reader.issue(&slug(), &id(issue)))
    }

    pub(crate) fn ids(&self, filter: &IssueFilter) -> Vec<String> {
        let page = self.read(|reader| reader.issues(&slug(), filter, &PageRequest::first(500)));
        ids_of(&page)
    }

    pub(crate) fn search(&self, query: &str) -> Vec<String> {
        ids_of(&self.read(|reader| reader.search(&slug(), query, &[], &PageRequest::default())))
    }

    pub(crate) fn remember(&self, content: &str) -> Receipt {
        self.act(Action::SaveMemory(chunk(content)))
    }
}
