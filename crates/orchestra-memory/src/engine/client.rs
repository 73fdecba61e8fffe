//! What a program has of the engine of its workspace.
//!
//! One task (`follow`) finds the engine or starts one, attends it, and looks whether it answers. Calls
//! see only what that task knows: an engine that is not known to answer is not asked, and one that is asked has
//! [`DEADLINE`] to answer. So the engine can be killed, hang or be gone without a call that waits longer
//! for it than that, once.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use orchestra_board::Slug;
use orchestra_place::{Leader, RunDirectory};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};
use tonic::{Code, Status};

use super::{
    connection::{Connection, is_an_answer},
    endpoint::Endpoint,
    generated::NearRequest,
    meaning::{NearHit, kind_of},
    place::Place,
    spawn::{ENDING, Started},
    talk::{Of, Talk, Tell},
};
use crate::model::ModelKind;

/// How long a call of a tool waits for the engine.
const DEADLINE: Duration = Duration::from_millis(150);

/// How often an engine is asked whether it has no client any more, and how often at most.
const LEFT_EVERY: Duration = Duration::from_millis(20);
const LEFT_LOOKS: u32 = 10;

/// How a program uses engines.
#[derive(Clone)]
pub struct Settings {
    /// The workspace, absolute and without links.
    pub workspace: PathBuf,
    /// Its run directory.
    pub run: RunDirectory,
    /// What the program calls itself.
    pub client: &'static str,
    /// Whether it starts an engine where there is none.
    pub starts: bool,
    /// Whether an engine is asked that has no model: it then says that nothing is near.
    pub always_asks: bool,
    /// The file of this program.
    pub program: PathBuf,
    /// Where programs are looked for.
    pub search_path: Option<OsString>,
    /// Where a person is told of trouble.
    pub tell: Tell,
}

/// What an engine says is near a query.
#[derive(Debug, Clone, PartialEq)]
pub struct NearAnswer {
    /// By which model.
    pub model: String,
    /// What sort of model that is, which says how far it can be trusted.
    pub kind: ModelKind,
    /// The nearest first.
    pub hits: Vec<NearHit>,
}

/// The engine of a workspace, as this program uses it. Clones are the same.
#[derive(Clone)]
pub struct Engines(pub(super) Arc<Inner>);

impl std::fmt::Debug for Engines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engines").finish_non_exhaustive()
    }
}

pub(super) struct Inner {
    pub(super) settings: Settings,
    pub(super) place: Place,
    pub(super) talk: Talk,
    pub(super) mode: watch::Sender<Mode>,
    /// Calls that were not answered, one after the other.
    pub(super) strikes: AtomicU32,
    /// How many times an engine began to answer.
    pub(super) spells: AtomicU64,
    /// A call was not answered: is the engine still there?
    pub(super) doubt: Notify,
    /// The trouble with its model that was told last.
    pub(super) told: Mutex<String>,
    pub(super) started: Mutex<Option<Started>>,
    pub(super) task: Mutex<Option<JoinHandle<()>>>,
}

/// Whether there is an engine that answers.
#[derive(Debug, Clone)]
pub(super) enum Mode {
    /// Nobody knows yet.
    Looking,
    /// It answers.
    Answers(Box<Ready>),
    /// There is none, or none that answers.
    Away,
}

#[derive(Debug, Clone)]
pub(super) struct Ready {
    pub(super) connection: Connection,
    pub(super) is_asked: bool,
    /// Whether it is about to say how its model is.
    pub(super) is_opening: bool,
    /// Since which of the times that an engine began to answer this one has.
    pub(super) spell: u64,
}

impl Ready {
    pub(super) const fn new(connection: Connection, is_asked: bool, is_opening: bool) -> Self {
        Self {
            connection,
            is_asked,
            is_opening,
            spell: 0,
        }
    }
}

impl Engines {
    /// The engine of a workspace, which is not looked for yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Inner {
            place: Place::new(settings.run.clone()),
            talk: Talk::new(Arc::clone(&settings.tell)),
            settings,
            mode: watch::Sender::new(Mode::Looking),
            strikes: AtomicU32::new(0),
            spells: AtomicU64::new(0),
            doubt: Notify::new(),
            told: Mutex::default(),
            started: Mutex::default(),
            task: Mutex::default(),
        }))
    }

    /// The run directory of its workspace.
    #[must_use]
    pub fn run_directory(&self) -> &RunDirectory {
        &self.0.settings.run
    }

    /// Looks for it from now on, in the background, until [`Engines::end`]. Must run inside a runtime.
    pub fn begin(&self) {
        let mut task = lock(&self.0.task);
        if task.is_none() {
            *task = Some(tokio::spawn(Arc::clone(&self.0).follow()));
        }
    }

    /// What is near a query in meaning; `None` where no engine says so in time. `tool` is who asks, for
    /// whoever is told that it was not answered.
    pub async fn near(
        &self,
        tool: &str,
        project: &Slug,
        query: &str,
        limit: u32,
    ) -> Option<NearAnswer> {
        let mut ready = match &*self.0.mode.borrow() {
            Mode::Answers(ready) if ready.is_asked => Ready::clone(ready),
            _ => return None,
        };
        let request = NearRequest {
            project: project.to_string(),
            query: query.to_owned(),
            limit,
        };
        let asked = timeout(DEADLINE, ready.connection.near(request, DEADLINE)).await;
        match asked {
            Ok(Ok(answer)) => {
                self.0.strikes.store(0, Ordering::Relaxed);
                let hits = answer.hits.iter().map(|hit| NearHit {
                    row: hit.row,
                    similarity: hit.similarity,
                });
                Some(NearAnswer {
                    hits: hits.collect(),
                    // Who does not say is trusted the least.
                    kind: kind_of(answer.kind).unwrap_or(ModelKind::Static),
                    model: answer.model,
                })
            }
            // Whoever asks is refused for the same reason by the store.
            Ok(Err(status)) if matches!(status.code(), Code::NotFound | Code::InvalidArgument) => {
                None
            }
            Ok(Err(status)) if is_an_answer(&status) => {
                self.0.failed(tool, status.message());
                None
            }
            Ok(Err(status)) => {
                self.0.unanswered(ready.spell, tool, &cause(&status));
                None
            }
            Err(_) => {
                let text = format!("it gave no answer within {} ms", DEADLINE.as_millis());
                self.0.unanswered(ready.spell, tool, &text);
                None
            }
        }
    }

    /// Tells why nothing is found by meaning, unless that is what was told last; with nothing to tell, that
    /// there is no reason any more.
    pub fn tell_trouble(&self, trouble: &str) {
        self.0.trouble(trouble);
    }

    /// Waits until an engine answers, or `within` is over; whether one does.
    pub async fn answers(&self, within: Duration) -> bool {
        let mut mode = self.0.mode.subscribe();
        let answers = mode.wait_for(|mode| matches!(mode, Mode::Answers(_)));
        timeout(within, answers)
            .await
            .is_ok_and(|found| found.is_ok())
    }

    /// Attends no more. An engine that this has started and that nobody uses is ended with it, by a
    /// deadline, with SIGTERM, and after three seconds with SIGKILL.
    pub async fn end(&self, deadline: Instant) {
        let task = lock(&self.0.task).take();
        if let Some(task) = task {
            task.abort();
            // It was aborted.
            let _ = task.await;
        }
        let started = lock(&self.0.started).take();
        // What is known here may be old: others may use the engine all the same.
        self.0.mode.send_replace(Mode::Away);
        let Some(started) = started.filter(Started::runs) else {
            return;
        };
        let end = async {
            if self.0.is_of_no_use().await {
                started.process.end(ENDING).await;
            }
        };
        // Whoever is out of time leaves it to its own end.
        let _ = timeout_at(deadline, end).await;
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an engine has no client any more, or is silent. That we have gone it may hear a moment later.
async fn is_left(endpoint: &Endpoint) -> bool {
    for _ in 0..LEFT_LOOKS {
        match Connection::open(endpoint).await {
            Ok((_, stats)) if stats.clients == 0 => return true,
            Ok(_) => sleep(LEFT_EVERY).await,
            Err(error) => return error.is_silence(),
        }
    }
    false
}

fn cause(status: &Status) -> String {
    match status.code() {
        Code::DeadlineExceeded | Code::Cancelled => {
            format!("it gave no answer within {} ms", DEADLINE.as_millis())
        }
        _ => "its connection broke".to_owned(),
    }
}

impl Inner {
    /// Whether nobody is using the engine of the place, or can: it was never told of, or is silent.
    async fn is_of_no_use(&self) -> bool {
        match self.place.leader() {
            Ok(Leader::Published(endpoint)) => is_left(&endpoint).await,
            Ok(Leader::None | Leader::Silent) => true,
            Err(_) => false,
        }
    }

    /// One call was answered with a refusal.
    fn failed(&self, tool: &str, cause: &str) {
        self.talk.refusal(
            cause,
            &format!("{tool}: the memory engine refused: {cause}; answered without it"),
        );
    }

    /// One call was not answered: nobody asks any more until the engine is known to answer. A call that
    /// was asked before then says nothing of the engine that answers now.
    pub(super) fn unanswered(&self, spell: u64, tool: &str, cause: &str) {
        self.talk.line(&format!(
            "{tool}: the memory engine failed: {cause}; answered without it"
        ));
        let is_it = self.mode.send_if_modified(|mode| {
            let is_it = matches!(mode, Mode::Answers(ready) if ready.spell == spell);
            if is_it {
                *mode = Mode::Away;
            }
            is_it
        });
        if is_it {
            self.strikes.fetch_add(1, Ordering::Relaxed);
            self.went_away("does not answer");
            self.doubt.notify_one();
        }
    }

    /// What the engine says of its model: told when it becomes another.
    pub(super) fn trouble(&self, trouble: &str) {
        let before = std::mem::replace(&mut *lock(&self.told), trouble.to_owned());
        if before == trouble {
            return;
        }
        let text = match trouble {
            "" => "memory: what is remembered is found by its meaning again".to_owned(),
            why => format!("memory: {why}; until then memories are found by their words"),
        };
        self.talk.change(Of::Model, &text);
    }

    /// There is no engine that answers.
    pub(super) fn away(&self, why: &str) {
        let before = self.mode.send_replace(Mode::Away);
        if !matches!(before, Mode::Away) {
            self.went_away(why);
        }
    }

    fn went_away(&self, why: &str) {
        self.talk.change(
            Of::Engine,
            &format!(
                "memory: the engine {why}; memories are found by their words alone until it answers"
            ),
        );
    }

    /// There is one that answers.
    pub(super) fn answers(&self, ready: Ready) {
        // Told before anybody asks it.
        if matches!(&*self.mode.borrow(), Mode::Away) {
            self.talk
                .change(Of::Engine, "memory: the engine answers again");
        }
        let spell = self.spells.fetch_add(1, Ordering::Relaxed) + 1;
        self.mode
            .send_replace(Mode::Answers(Box::new(Ready { spell, ..ready })));
    }

    /// The one that answers still does; a call that says otherwise meanwhile is right.
    pub(super) fn still_answers(&self, ready: &Ready) {
        self.mode.send_if_modified(|mode| {
            let Mode::Answers(known) = mode else {
                return false;
            };
            known.is_asked = ready.is_asked;
            true
        });
    }
}
