//! Vectors in step with a store: new, changed and forgotten texts, restarts, another model, failures.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_board::{Body, Command, NewProject, SessionId, Slug, Title, composed};
use orchestra_engine::index::{Index, Phase, Progress};
use orchestra_engine::model::{EmbedError, Embedder, ModelId, ModelKind, Purpose};
use orchestra_engine::vectors::Within;
use orchestra_store::{Action, ChunkId, Made, NewChunk, NewSession, Options, Store};

use crate::tiny::model;

/// How long anything may take here.
const LONG: Duration = Duration::from_secs(30);

/// A model that counts its texts, and fails on them when told.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn Embedder>,
    id: ModelId,
    texts: AtomicUsize,
    broken: AtomicBool,
    panics: AtomicBool,
    /// Whether a text came whose letters and marks were apart.
    apart: AtomicBool,
    /// Where there is one, each batch of texts waits for it.
    turns: Mutex<Option<Receiver<()>>>,
}

impl Watched {
    fn new() -> Arc<Self> {
        Self::called("00000000000000000000000000000001")
    }

    fn called(id: &str) -> Arc<Self> {
        Arc::new(Self {
            inner: model(),
            id: id.parse().expect("an id"),
            texts: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            apart: AtomicBool::new(false),
            turns: Mutex::default(),
        })
    }

    fn texts(&self) -> usize {
        self.texts.load(Ordering::Relaxed)
    }
}

impl Embedder for Watched {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn kind(&self) -> ModelKind {
        ModelKind::Network
    }

    fn dimensions(&self) -> usize {
        self.inner.dimensions()
    }

    fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Vec<f32>>, EmbedError> {
        let of_texts = purpose == Purpose::Text;
        if texts.iter().any(|text| composed(text) != *text) {
            self.apart.store(true, Ordering::Relaxed);
        }
        assert!(!of_texts || !self.panics.load(Ordering::Relaxed), "told to");
        if of_texts && self.broken.load(Ordering::Relaxed) {
            return Err(EmbedError::Unreachable {
                server: "here".to_owned(),
                fault: "it is broken".to_owned(),
            });
        }
        if texts.iter().any(|text| text.contains("poison")) {
            return Err(EmbedError::Model("it fails on that".to_owned()));
        }
        if of_texts && let Some(turns) = &*self.turns.lock().expect("nobody panicked") {
            // Where the other side is gone, nobody waits.
            let _ = turns.recv_timeout(LONG);
        }
        if of_texts {
            self.texts.fetch_add(texts.len(), Ordering::Relaxed);
        }
        self.inner.embed(texts, purpose)
    }
}

fn slug() -> Slug {
    Slug::parse("shop").expect("a slug")
}

fn open(directory: &Path) -> Store {
    let options = Options {
        watch: false,
        sweep: false,
        flush: false,
        ..Options::default()
    };
    Store::open(directory, options).expect("the store opens")
}

/// A store with the project `shop`.
fn shop(directory: &Path) -> Store {
    let store = open(directory);
    let project = Command::CreateProject(NewProject {
        name: Title::parse("Shop").expect("a name"),
        description: Body::default(),
    });
    let made = store.submit_blocking(None, Action::Board(project));
    made.expect("a project");
    store
}

fn save(store: &Store, text: &str) -> ChunkId {
    let chunk = NewChunk {
        summary: Body::default(),
        ..NewChunk::of(slug(), Body::parse(text).expect("a text"))
    };
    let saved = store.submit_blocking(None, Action::SaveMemory(chunk));
    match saved.expect("it is saved").made {
        Made::Chunk { chunk, .. } => chunk.id,
        other => panic!("{other:?}"),
    }
}

fn talk(store: &Store, about: &str) {
    let body = |text| Body::parse(text).expect("a text");
    let session = NewSession {
        project: slug(),
        id: SessionId::parse("monday").expect("an id"),
        summary: body(about),
        events: Vec::new(),
        started_at: None,
        ended_at: None,
        from_hooks: false,
    };
    let saved = store.submit_blocking(None, Action::SaveSession(session));
    saved.expect("it is saved");
}

fn forget(store: &Store, id: ChunkId) {
    let project = slug();
    let done = store.submit_blocking(None, Action::ForgetMemory { project, id });
    done.expect("it is forgotten");
}

fn vectors_of(directory: &Path) -> std::path::PathBuf {
    directory.join(".projects/.store")
}

fn start(store: &Store, directory: &Path, model: &Arc<Watched>) -> Index {
    let model = Arc::<Watched>::clone(model);
    Index::start(store.clone(), &vectors_of(directory), model).expect("it starts")
}

#[track_caller]
fn wait(index: &Index, until: impl Fn(&Progress) -> bool) -> Progress {
    let progress = index.wait(LONG, &until);
    assert!(until(&progress), "{progress:?}");
    progress
}

fn failing(progress: &Progress) -> bool {
    matches!(progress.phase, Phase::Failing(_))
}

fn ready(count: usize) -> impl Fn(&Progress) -> bool {
    move |progress| progress.phase == Phase::Ready && progress.vectors == count
}

/// The text that is nearest to a query.
fn nearest(store: &Store, index: &Index, query: &str) -> Option<String> {
    let near = index.near(query, 1, &Within::default()).expect("an answer");
    let row = near.first()?.row;
    let found = store.read(|reader| reader.remembered_text(row));
    Some(found.expect("a row").expect("it is there").text)
}

#[test]
fn what_is_saved_changed_and_forgotten_is_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    save(&store, "an apple");
    let model = Watched::new();
    let index = start(&store, directory.path(), &model);
    wait(&index, ready(1));
    let lock = save(&store, "the lock");
    wait(&index, ready(2));
    assert_eq!(
        nearest(&store, &index, "mutex").as_deref(),
        Some("the lock")
    );
    forget(&store, lock);
    wait(&index, ready(1));
    assert_eq!(
        nearest(&store, &index, "mutex").as_deref(),
        Some("an apple")
    );
    let project = Command::DeleteProject { project: slug() };
    let done = store.submit_blocking(None, Action::Board(project));
    done.expect("it is deleted");
    wait(&index, ready(0));
    index.stop();
    assert_eq!(index.progress().phase, Phase::Stopped);
    assert_eq!(model.texts(), 2);
}

#[test]
fn models_are_given_texts_and_queries_composed() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    save(&store, "the lock of the cafe\u{301}");
    let model = Watched::new();
    let index = start(&store, directory.path(), &model);
    wait(&index, ready(1));
    assert!(nearest(&store, &index, "lock cafe\u{301}").is_some());
    assert!(
        index.known_query("lock caf\u{e9}").is_some(),
        "the same query"
    );
    index.stop();
    assert!(!model.apart.load(Ordering::Relaxed));
}

#[test]
fn a_restart_makes_only_what_is_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    for number in 0..600 {
        save(&store, &format!("the lock {number}"));
    }
    let model = Watched::new();
    let index = start(&store, directory.path(), &model);
    // Stopped on its way.
    wait(&index, |progress| progress.vectors > 0);
    index.stop();
    let made = model.texts();
    assert!(made > 0);
    let first = store.read(|reader| reader.remembered_rows()).expect("rows")[0];
    forget(&store, ChunkId::new(1));
    save(&store, "a pear");
    let index = start(&store, directory.path(), &model);
    wait(&index, ready(600));
    assert_eq!(model.texts(), 601);
    assert_eq!(nearest(&store, &index, "apple").as_deref(), Some("a pear"));
    let within = Within::rows(first..=first);
    let gone = index.near("lock", 5, &within).expect("an answer");
    assert!(gone.is_empty(), "{gone:?}");
    index.stop();
    // And nothing where nothing is missing.
    let index = start(&store, directory.path(), &model);
    wait(&index, ready(600));
    assert_eq!(model.texts(), 601);
}

#[test]
fn another_model_answers_once_it_has_seen_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    save(&store, "the lock");
    let (old, new) = (
        Watched::new(),
        Watched::called("00000000000000000000000000000002"),
    );
    let index = start(&store, directory.path(), &old);
    wait(&index, ready(1));
    new.broken.store(true, Ordering::Relaxed);
    index.change_model(Arc::<Watched>::clone(&new));
    let failing = wait(&index, failing);
    assert_eq!(failing.next, Some((new.id.clone(), 0)));
    assert_eq!(failing.model, old.id);
    assert_eq!(
        nearest(&store, &index, "mutex").as_deref(),
        Some("the lock")
    );
    new.broken.store(false, Ordering::Relaxed);
    let done = wait(&index, |progress| progress.model == new.id);
    assert_eq!((done.next, done.vectors), (None, 1));
    assert_eq!(
        nearest(&store, &index, "mutex").as_deref(),
        Some("the lock")
    );
    index.stop();
    let names = std::fs::read_dir(vectors_of(directory.path())).expect("files");
    let names: Vec<String> = names
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("vectors-") && name.ends_with(".db"))
        .collect();
    assert_eq!(names, [format!("vectors-{}.db", new.id)]);
}

#[test]
fn a_text_that_a_model_fails_on_stops_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    save(&store, "the lock");
    save(&store, "poison");
    save(&store, "a pear");
    let model = Watched::new();
    let index = start(&store, directory.path(), &model);
    wait(&index, ready(3));
    assert_eq!(nearest(&store, &index, "apple").as_deref(), Some("a pear"));
    let all = index
        .near("apple", 10, &Within::default())
        .expect("an answer");
    assert_eq!(all.len(), 2, "{all:?}");
}

#[test]
fn what_another_process_saves_is_followed_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    let model = Watched::new();
    let index = start(&store, directory.path(), &model);
    wait(&index, ready(0));
    // A second handle has its own writer, as another process has.
    let other = open(directory.path());
    save(&other, "the lock");
    wait(&index, ready(1));
}

#[test]
fn what_was_changed_while_nobody_looked_is_not_found_by_what_it_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    save(&store, "a pear");
    talk(&store, "the lock");
    let model = Watched::new();
    let index = start(&store, directory.path(), &model);
    wait(&index, ready(2));
    assert_eq!(
        nearest(&store, &index, "mutex").as_deref(),
        Some("the lock")
    );
    index.stop();
    talk(&store, "an apple");
    model.broken.store(true, Ordering::Relaxed);
    let index = start(&store, directory.path(), &model);
    wait(&index, failing);
    let near = index.near("mutex", 5, &Within::default());
    assert_eq!(near.expect("an answer").len(), 1);
    assert_eq!(nearest(&store, &index, "mutex").as_deref(), Some("a pear"));
    model.broken.store(false, Ordering::Relaxed);
    wait(&index, ready(2));
    assert_eq!(model.texts(), 3);
}

#[test]
fn a_text_that_a_model_fails_on_stops_nothing_where_it_is_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    save(&store, "poison");
    let model = Watched::new();
    let index = start(&store, directory.path(), &model);
    wait(&index, ready(1));
    save(&store, "a pear");
    wait(&index, ready(2));
    assert_eq!(nearest(&store, &index, "apple").as_deref(), Some("a pear"));
}

#[test]
fn the_model_that_answers_is_gone_back_to_without_making_anything_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    save(&store, "the lock");
    let (old, new) = (
        Watched::new(),
        Watched::called("00000000000000000000000000000002"),
    );
    let index = start(&store, directory.path(), &old);
    wait(&index, ready(1));
    new.broken.store(true, Ordering::Relaxed);
    index.change_model(Arc::<Watched>::clone(&new));
    wait(&index, failing);
    index.change_model(Arc::<Watched>::clone(&old));
    let back = wait(&index, ready(1));
    assert_eq!((back.model, back.next), (old.id.clone(), None));
    assert_eq!(old.texts(), 1);
    index.stop();
    let index = start(&store, directory.path(), &old);
    wait(&index, ready(1));
    assert_eq!(old.texts(), 1, "its file is whole");
}

#[test]
fn the_model_that_answers_is_kept_in_step_while_another_is_filled_or_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    for number in 0..40 {
        save(&store, &format!("the lock {number}"));
    }
    let (old, slow, broken) = (
        Watched::new(),
        Watched::called("00000000000000000000000000000002"),
        Watched::called("00000000000000000000000000000003"),
    );
    let index = start(&store, directory.path(), &old);
    wait(&index, ready(40));
    let (turn, turns) = channel();
    *slow.turns.lock().expect("nobody panicked") = Some(turns);
    index.change_model(Arc::<Watched>::clone(&slow));
    wait(&index, |progress| {
        progress.next == Some((slow.id.clone(), 0))
    });
    save(&store, "a pear");
    // It is in the second of its batches then.
    turn.send(()).expect("it waits");
    wait(&index, |progress| {
        progress.vectors == 41 && progress.next == Some((slow.id.clone(), 16))
    });
    assert_eq!(nearest(&store, &index, "apple").as_deref(), Some("a pear"));
    broken.broken.store(true, Ordering::Relaxed);
    index.change_model(Arc::<Watched>::clone(&broken));
    drop(turn);
    wait(&index, failing);
    save(&store, "an apple");
    let last = wait(&index, |progress| progress.vectors == 42);
    assert_eq!((last.model, old.texts()), (old.id.clone(), 42));
}

#[test]
fn a_model_that_is_reached_by_another_way_keeps_what_it_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    save(&store, "the lock");
    let (old, new) = (Watched::new(), Watched::new());
    let index = start(&store, directory.path(), &old);
    wait(&index, ready(1));
    old.broken.store(true, Ordering::Relaxed);
    save(&store, "a pear");
    wait(&index, failing);
    // As with another key of its server.
    index.change_model(Arc::<Watched>::clone(&new));
    wait(&index, ready(2));
    assert_eq!((old.texts(), new.texts()), (1, 1));
}

#[test]
fn a_panic_is_a_failure_that_passes() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = shop(directory.path());
    save(&store, "the lock");
    let model = Watched::new();
    model.panics.store(true, Ordering::Relaxed);
    let index = start(&store, directory.path(), &model);
    let progress = wait(&index, failing);
    let expected = Phase::Failing("an internal error stopped the indexing".to_owned());
    assert_eq!(progress.phase, expected);
    model.panics.store(false, Ordering::Relaxed);
    wait(&index, ready(1));
    assert_eq!(
        nearest(&store, &index, "mutex").as_deref(),
        Some("the lock")
    );
}
