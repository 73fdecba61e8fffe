//! A board in a directory of its own, and short ways to work it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orchestra_board::{Command, IssuePatch, Kind, NewProject, State};
use orchestra_store::{
    Action, DocumentPath, Fix, IssueFilter, Options, ReadError, Reader, Receipt, Report, Store,
};

use crate::words::{body, chunk, create, every, hook, id, rename, slug, title, update};

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Board {
    // Closed before its directory goes.
    pub(crate) store: Store,
    pub(crate) directory: tempfile::TempDir,
}

/// Neither watching nor sweeping, so that a test decides what is seen when.
pub(crate) fn still() -> Options {
    Options {
        watch: false,
        sweep: false,
        ..Options::default()
    }
}

impl Board {
    /// An empty board.
    pub(crate) fn new(options: Options) -> Self {
        Self::within(tempfile::tempdir().expect("a directory"), options)
    }

    /// An empty board in this directory.
    pub(crate) fn within(directory: tempfile::TempDir, options: Options) -> Self {
        let store = Store::open(directory.path(), options).expect("opens");
        Self { directory, store }
    }

    /// A board with project `my-app`, epic MA-1, story MA-2 and tasks MA-3 and MA-4.
    pub(crate) fn with_tasks(options: Options) -> Self {
        Self::new(options).filled()
    }

    /// The board with what [`Board::with_tasks`] names, which it must not have yet.
    pub(crate) fn filled(self) -> Self {
        self.run(Command::CreateProject(NewProject {
            name: title("My App"),
            description: body("An app."),
        }));
        for (kind, parent, name) in [
            (Kind::Epic, None, "Epic"),
            (Kind::Story, Some("MA-1"), "Story"),
            (Kind::Task, Some("MA-2"), "First"),
            (Kind::Task, Some("MA-2"), "Second"),
        ] {
            self.run(create(kind, parent, name));
        }
        self.settle();
        self
    }

    pub(crate) fn run(&self, command: Command) -> Receipt {
        self.act(Action::Board(command))
    }

    pub(crate) fn act(&self, action: Action) -> Receipt {
        self.store.submit_blocking(None, action).expect("done")
    }

    pub(crate) fn update(&self, issue: &str, patch: IssuePatch) {
        self.run(update(issue, patch));
    }

    pub(crate) fn rename(&self, issue: &str, name: &str) {
        self.run(rename(issue, name));
    }

    pub(crate) fn describe(&self, issue: &str, text: &str) {
        self.update(
            issue,
            IssuePatch {
                description: Some(body(text)),
                ..IssuePatch::default()
            },
        );
    }

    pub(crate) fn set_state(&self, issue: &str, state: State) {
        self.update(
            issue,
            IssuePatch {
                state: Some(state),
                ..IssuePatch::default()
            },
        );
    }

    pub(crate) fn hook(&self) {
        self.act(Action::HookEvent(hook("PostToolUse")));
    }

    pub(crate) fn remember(&self, text: &str) {
        self.act(Action::SaveMemory(chunk(text)));
    }

    /// Has the doctor mend what can be mended; what it found.
    pub(crate) fn mend(&self) -> Report {
        self.store.doctor(Fix::Mend).expect("mends")
    }

    pub(crate) fn settle(&self) {
        self.store.settle(PATIENCE).expect("settles");
    }

    /// Closes the store and opens it again, after `between`.
    pub(crate) fn reopened(self, options: Options, between: impl FnOnce(&Path)) -> Self {
        let Self { directory, store } = self;
        store.close(PATIENCE);
        drop(store);
        between(&directory.path().join(".projects"));
        let store = Store::open(directory.path(), options).expect("opens again");
        Self { directory, store }
    }

    /// Closes the board, lets the files be changed, and opens it with nothing but them.
    pub(crate) fn rebuilt(self, change: impl FnOnce(&Path)) -> Self {
        self.reopened(still(), |projects| {
            fs::remove_dir_all(projects.join(".store")).expect("removes");
            change(projects);
        })
    }

    pub(crate) fn issue(&self, text: &str) -> Option<orchestra_board::Issue> {
        let found = self
            .store
            .read(|reader| reader.issue(&slug(), &id(text)))
            .expect("reads");
        found
            .map(|record| record.issue)
            .filter(|issue| issue.id == id(text))
    }

    pub(crate) fn title_of(&self, text: &str) -> Option<String> {
        self.issue(text).map(|issue| issue.title.to_string())
    }

    /// Waits until something is so.
    pub(crate) fn wait(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) -> Duration {
        let start = Instant::now();
        while !is_so(self) {
            assert!(
                start.elapsed() < PATIENCE,
                "never came: {what}\n{}\n{}",
                self.problems(),
                self.tree()
            );
            // Without a pause the asking alone would keep a core busy.
            std::thread::sleep(Duration::from_millis(2));
        }
        start.elapsed()
    }

    pub(crate) fn problems(&self) -> String {
        match self.store.doctor(Fix::Nothing) {
            Ok(report) => report
                .findings
                .iter()
                .map(|finding| format!("{finding}\n"))
                .collect(),
            Err(error) => error.to_string(),
        }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(".projects").join(file)
    }

    pub(crate) fn file(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    pub(crate) fn exists(&self, file: &str) -> bool {
        self.path(file).exists()
    }

    /// Changes a file as an editor does.
    pub(crate) fn edit(&self, file: &str, from: &str, to: &str) {
        let text = self.file(file);
        assert!(text.contains(from), "{file} has no `{from}`:\n{text}");
        fs::write(self.path(file), text.replacen(from, to, 1)).expect("writes");
    }

    /// Everything that the board answers.
    pub(crate) fn answers(&self) -> String {
        self.store.read(answers).expect("reads")
    }

    /// All readable files with their contents.
    pub(crate) fn tree(&self) -> String {
        let root = self.directory.path().join(".projects");
        let mut text = String::new();
        let mut left = vec![root.clone()];
        let mut files = Vec::new();
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.ends_with(".store") {
                    continue;
                }
                if path.is_dir() {
                    left.push(path)
                } else {
                    files.push(path)
                }
            }
        }
        files.sort();
        for path in files {
            let name = path.strip_prefix(&root).expect("below").display();
            let content = fs::read_to_string(&path).expect("reads");
            writeln!(text, "--- {name}\n{content}").expect("a string");
        }
        text
    }
}

pub(crate) fn answers(reader: &Reader<'_>) -> Result<String, ReadError> {
    let mut text = String::new();
    for project in every(|page| reader.projects(page))? {
        let slug = project.project.slug.clone();
        writeln!(text, "{project:?}").expect("a string");
        writeln!(text, "{:?}", reader.prd_text(&slug)?).expect("a string");
        writeln!(text, "{:?}", reader.prd_session(&slug)?).expect("a string");
        writeln!(text, "{:?}", reader.readme(&slug)?).expect("a string");
        for issue in every(|page| reader.issues(&slug, &IssueFilter::default(), page))? {
            writeln!(text, "{issue:?}").expect("a string");
            for event in every(|page| reader.history(&slug, &issue.issue.id, page))? {
                writeln!(text, "  {event:?}").expect("a string");
            }
        }
        for request in every(|page| reader.requests(&slug, page))? {
            writeln!(text, "{request:?}").expect("a string");
        }
        for chunk in every(|page| reader.chunks(&slug, page))? {
            writeln!(text, "{chunk:?}").expect("a string");
        }
        for session in every(|page| reader.sessions(&slug, page))? {
            writeln!(text, "{session:?}").expect("a string");
        }
        for plan in every(|page| reader.plans(&slug, page))? {
            writeln!(text, "{:?}", reader.plan(&slug, &plan.id)?).expect("a string");
        }
    }
    // The version of a document is not in its file.
    let path = DocumentPath::parse("my-app/features/A.md").expect("a path");
    let document = reader.document(&path)?;
    let document = document.map(|found| (found.content, found.metadata));
    writeln!(text, "{document:?}").expect("a string");
    writeln!(text, "{:?}", reader.usage(500)?).expect("a string");
    writeln!(text, "{:?}", reader.usage_days()?).expect("a string");
    for event in every(|page| reader.hook_events(None, page))? {
        writeln!(text, "{event:?}").expect("a string");
    }
    Ok(text)
}
