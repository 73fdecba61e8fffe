//! A workspace that goes with the test, and short words for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use orchestra_board::{Body, Command, Label, NewProject, SessionId, Slug, Timestamp, Title};
use orchestra_memory::search::{Found, Near, Search, search};
use orchestra_store::{
    Action, Clock, ContextItem, MemoryFilter, NewChunk, NewSession, NewSessionEvent, Options,
    Recall, Store,
};

/// A clock that stands still until it is told.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) struct Workspace {
    pub(crate) store: Store,
    clock: Arc<TestClock>,
    _directory: tempfile::TempDir,
}

pub(crate) fn slug() -> Slug {
    Slug::parse("my-app").expect("a slug")
}

pub(crate) fn label(text: &str) -> Label {
    Label::parse(text).expect("a label")
}

pub(crate) fn body(text: &str) -> Body {
    Body::parse(text).expect("a text")
}

pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

pub(crate) fn chunk(content: &str) -> NewChunk {
    NewChunk::of(slug(), body(content))
}

impl Workspace {
    /// Project `my-app`, on 1 March 2026.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let start = at("2026-03-01T12:00:00Z").unix_seconds();
        let clock = Arc::new(TestClock(AtomicI64::new(start)));
        let options = Options {
            clock: clock.clone(),
            watch: false,
            sweep: false,
            flush: false,
            ..Options::default()
        };
        let store = Store::open(directory.path(), options).expect("the store opens");
        let workspace = Self {
            store,
            clock,
            _directory: directory,
        };
        workspace.act(Action::Board(Command::CreateProject(NewProject {
            name: Title::parse("My App").expect("a title"),
            description: Body::default(),
        })));
        workspace
    }

    pub(crate) fn act(&self, action: Action) {
        self.store
            .submit_blocking(None, action)
            .expect("it is allowed");
    }

    pub(crate) fn set_time(&self, text: &str) {
        self.clock
            .0
            .store(at(text).unix_seconds(), Ordering::Relaxed);
    }

    pub(crate) fn remember(&self, new: NewChunk) {
        self.act(Action::SaveMemory(new));
    }

    pub(crate) fn remember_all(&self, contents: &[&str]) {
        contents
            .iter()
            .for_each(|content| self.remember(chunk(content)));
    }

    pub(crate) fn save_session(&self, id: &str, summary: &str, events: &[&str]) {
        let event = |text: &&str| NewSessionEvent {
            kind: label("note"),
            summary: body(text),
            at: None,
        };
        self.act(Action::SaveSession(NewSession {
            project: slug(),
            id: SessionId::parse(id).expect("an id"),
            summary: body(summary),
            events: events.iter().map(event).collect(),
            started_at: None,
            ended_at: None,
            from_hooks: false,
        }));
    }

    pub(crate) fn save_plan(&self, title: &str, content: &str) {
        self.act(Action::SavePlan {
            project: slug(),
            title: Title::parse(title).expect("a title"),
            content: body(content),
            issue: None,
            replace: true,
        });
    }

    pub(crate) fn found(&self, query: &str) -> Vec<Found> {
        self.found_with(query, &MemoryFilter::default(), &[])
    }

    pub(crate) fn found_with(
        &self,
        query: &str,
        filter: &MemoryFilter,
        near: &[Near],
    ) -> Vec<Found> {
        let project = slug();
        let ask = Search {
            project: &project,
            query,
            filter,
            limit: 10,
            sessions: true,
            now: self.store.now(),
            near,
            weight: 0.5,
        };
        let found = self
            .store
            .read(|reader| search(reader, &ask))
            .expect("the store can be read");
        assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{query}");
        found
    }

    /// The rows of what a project remembers, the newest first.
    pub(crate) fn rows(&self, project: &Slug) -> Vec<i64> {
        let recall = Recall {
            words: &[],
            filter: &MemoryFilter::default(),
            sessions: true,
            most: 100,
        };
        let rows = self
            .store
            .read(|reader| reader.newest_remembered(project, &recall));
        rows.expect("the store can be read")
    }

    pub(crate) fn ids(&self, query: &str) -> Vec<String> {
        ids(&self.found(query))
    }
}

pub(crate) fn ids(found: &[Found]) -> Vec<String> {
    found
        .iter()
        .map(|found| match &found.item {
            ContextItem::Chunk(chunk) => chunk.id.to_string(),
            ContextItem::Session(session) => session.id.to_string(),
        })
        .collect()
}
