//! Finding by meaning with an index, whose model is whichever is wanted at the time.
//!
//! One thread asks again and again which model that is, opens it, and hands it to the index; what is
//! used goes on until then. A model that cannot be opened is tried again, and why is told to whoever
//! asks how it stands.

use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use orchestra_board::{Refusal, Slug};
use orchestra_memory::engine::{Meaning, MeaningError, NearHit, OPENING, Standing};
use orchestra_remote::with_causes;
use orchestra_store::{ReadError, Store};

use crate::{
    index::{Index, Phase},
    model::{self, Choice, ModelId, ModelKind, Stamp, Wish, Wishes},
    patience::Queries,
    vectors::Within,
};

/// How often it is asked which model is wanted.
const LOOK: Duration = Duration::from_secs(2);
/// How long nothing is tried after a model could not be opened, the first time and at most.
const FIRST_REST: Duration = Duration::from_secs(2);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Finds by meaning with an index.
pub struct Indexed(Arc<Shared>);

struct Shared {
    wishes: Wishes,
    store: OnceLock<Store>,
    state: Mutex<State>,
    queries: Queries,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    index: Option<Arc<Index>>,
    /// What people call the models that were opened.
    names: HashMap<ModelId, String>,
    /// What people call the model that is wanted.
    wanted: Option<String>,
    trouble: Option<String>,
    /// Whether it was found out which model is wanted.
    has_looked: bool,
    has_ended: bool,
}

/// What the thread remembers.
#[derive(Default)]
struct Tried {
    /// What was wanted, and whether it was opened.
    last: Option<(Choice, Stamp, bool)>,
    again_at: Option<Instant>,
    rest: Duration,
}

impl fmt::Debug for Indexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexed").finish_non_exhaustive()
    }
}

impl Indexed {
    /// With a model that is asked for once there is a store.
    #[must_use]
    pub fn new(wishes: Wishes) -> Self {
        Self(Arc::new(Shared {
            wishes,
            store: OnceLock::new(),
            state: Mutex::default(),
            queries: Queries::default(),
            changed: Condvar::new(),
        }))
    }

    fn index(&self) -> Option<Arc<Index>> {
        lock(&self.0.state).index.clone()
    }

    fn range(&self, project: &Slug) -> Result<std::ops::RangeInclusive<i64>, MeaningError> {
        let Some(store) = self.0.store.get() else {
            return Err(MeaningError::NotNow("the board is not open yet".to_owned()));
        };
        let range = store.read(|reader| reader.remembered_range(project));
        range.map_err(|error| match error {
            ReadError::Refused(Refusal::NoProject { project }) => MeaningError::NoProject(project),
            error => MeaningError::NotNow(with_causes(&error)),
        })
    }
}

impl Meaning for Indexed {
    fn model(&self) -> String {
        self.standing().model
    }

    fn near(
        &self,
        project: &Slug,
        query: &str,
        limit: usize,
    ) -> Result<Vec<NearHit>, MeaningError> {
        let Some(index) = self.index() else {
            return Ok(Vec::new());
        };
        let within = Within::rows(self.range(project)?);
        let progress = index.progress();
        let near = match progress.kind {
            ModelKind::Remote => {
                let vector = self.0.queries.vector(&index, query)?;
                vector.map_or_else(Vec::new, |vector| index.near_to(&vector, limit, &within))
            }
            ModelKind::Static | ModelKind::Network => index
                .near(query, limit, &within)
                .map_err(|error| MeaningError::NotNow(with_causes(&error)))?,
        };
        let hits = near.into_iter().map(|near| NearHit {
            row: near.row,
            similarity: near.similarity,
        });
        Ok(hits.collect())
    }

    fn vectors(&self, project: &Slug) -> u64 {
        let (Some(index), Ok(range)) = (self.index(), self.range(project)) else {
            return 0;
        };
        number(index.count(&range))
    }

    fn standing(&self) -> Standing {
        let state = lock(&self.0.state);
        let wanted = state.wanted.clone().unwrap_or_default();
        let Some(index) = &state.index else {
            let phase = match &state.trouble {
                Some(_) => "failing",
                None if state.has_looked && wanted.is_empty() => "",
                None => OPENING,
            };
            return Standing {
                model: wanted,
                phase: phase.to_owned(),
                trouble: state.trouble.clone(),
                ..Standing::default()
            };
        };
        let progress = index.progress();
        let name = |id: &ModelId| state.names.get(id).cloned().unwrap_or_default();
        let (phase, fault) = match progress.phase {
            Phase::Opening => (OPENING, None),
            Phase::Filling => ("filling", None),
            Phase::Ready => ("ready", None),
            Phase::Failing(fault) => ("failing", Some(fault)),
            Phase::Stopped => ("failing", Some("its thread has ended".to_owned())),
        };
        Standing {
            model: name(&progress.model),
            kind: Some(progress.kind),
            vectors: number(progress.vectors),
            wanted: number(progress.wanted.max(progress.vectors)),
            next: progress.next.map(|(id, count)| (name(&id), number(count))),
            phase: phase.to_owned(),
            trouble: state.trouble.clone().or(fault),
        }
    }

    fn begin(&self, store: &Store) {
        if self.0.store.set(store.clone()).is_err() {
            return;
        }
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("memory-model".to_owned());
        if let Err(error) = thread.spawn(move || shared.follow()) {
            tracing::error!(%error, "cannot open a model");
        }
    }

    fn rebuild(&self) -> bool {
        let index = self.index();
        if let Some(index) = &index {
            index.rebuild();
        }
        index.is_some()
    }

    fn end(&self) {
        let mut state = lock(&self.0.state);
        state.has_ended = true;
        // Dropped, it ends by itself.
        state.index = None;
        self.0.changed.notify_all();
    }
}

impl Drop for Indexed {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Follows what is wanted until the end.
    fn follow(&self) {
        let mut tried = Tried::default();
        loop {
            self.take_up((self.wishes)(), &mut tried);
            let mut state = lock(&self.state);
            state.has_looked = true;
            let waited = self
                .changed
                .wait_timeout_while(state, LOOK, |state| !state.has_ended);
            if waited.unwrap_or_else(PoisonError::into_inner).0.has_ended {
                return;
            }
        }
    }

    fn take_up(&self, wish: Wish, tried: &mut Tried) {
        match wish {
            Wish::Nothing => {
                *tried = Tried::default();
                self.give_up(None, None);
            }
            Wish::Refused(why) => {
                *tried = Tried::default();
                self.give_up(None, Some(why));
            }
            Wish::Unknown(why) => self.trouble(Some(why)),
            Wish::Model(choice) => self.open(choice, tried),
        }
    }

    /// Opens a model, unless that was done, or failed a moment ago.
    fn open(&self, choice: Choice, tried: &mut Tried) {
        let stamp = model::stamp(&choice);
        let is_same = |(last, then, _): &(Choice, Stamp, bool)| *last == choice && *then == stamp;
        if let Some(last) = tried.last.as_ref().filter(|last| is_same(last)) {
            let waits = tried.again_at.is_some_and(|at| Instant::now() < at);
            if last.2 || waits {
                return;
            }
        } else {
            tried.rest = FIRST_REST;
        }
        lock(&self.state).wanted = Some(choice.name());
        let done = model::open_choice(&choice)
            .map_err(|error| with_causes(&error))
            .and_then(|embedder| {
                let mut state = lock(&self.state);
                state.names.insert(embedder.id().clone(), choice.name());
                match (&state.index, self.store.get()) {
                    _ if state.has_ended => {}
                    (Some(index), _) => index.change_model(embedder),
                    (None, Some(store)) => {
                        let started = Index::start(store.clone(), &directory(store), embedder);
                        let index = started.map_err(|error| error.to_string())?;
                        state.index = Some(Arc::new(index));
                    }
                    (None, None) => {}
                }
                Ok(())
            });
        let is_open = done.is_ok();
        self.trouble(done.err().map(|why| {
            format!(
                "the model {} cannot be used: {why}; it is tried again, and `orchestra memory model \
                 use` chooses another",
                choice.name()
            )
        }));
        tried.again_at = Some(Instant::now() + tried.rest);
        tried.rest = (tried.rest * 2).min(LONGEST_REST);
        tried.last = Some((choice, stamp, is_open));
    }

    fn trouble(&self, why: Option<String>) {
        let mut state = lock(&self.state);
        if let Some(why) = why
            .as_ref()
            .filter(|why| state.trouble.as_ref() != Some(why))
        {
            tracing::warn!("{why}");
        }
        state.trouble = why;
    }

    /// Uses no model any more.
    fn give_up(&self, wanted: Option<String>, why: Option<String>) {
        // Nobody sees that there is none without why.
        self.trouble(why);
        let index = {
            let mut state = lock(&self.state);
            state.wanted = wanted;
            state.index.take()
        };
        drop(index);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where vectors are kept: beside the board.
fn directory(store: &Store) -> PathBuf {
    store.directory().to_owned()
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
