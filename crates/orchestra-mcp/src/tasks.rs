//! The tasks of a server (MCP extension `io.modelcontextprotocol/tasks`): calls that go on after
//! their requests were answered, for clients that come back for the result.
//!
//! What a task may become stands in [`state`], which tasks there are in [`ledger`], both pure. Here it is kept behind a lock, the
//! clocks are read, ids are drawn, and whoever watches a task is told; [`work`] runs the calls.

mod id;
mod later;
mod ledger;
mod state;
mod time;
mod watch;
mod work;
mod write;

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use orchestra_hub::{Attachment, CancelSource};
use orchestra_wire::Rope;
use tokio::{runtime::Handle, task::JoinSet};

use crate::{http::Identity, server::Server};
pub(crate) use id::TaskId;
pub(crate) use later::{Ended, Long, until_later};
pub(crate) use ledger::Created;
use ledger::{Ledger, Moment};
pub(crate) use state::{Event, Responses};
pub(crate) use watch::TaskWatch;
use watch::Watchers;
pub(crate) use work::{LongReports, Terms};
pub use work::{TaskTurn, TaskWork};

/// The name of the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Progress is told to those who watch a task at most this often.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Bounds of the tasks of one server, all of its connections together.
#[derive(Debug, Clone)]
pub struct TaskLimits {
    /// Tasks that are kept, those that are over included. A call that could be one more is waited
    /// for as any other.
    pub count: usize,
    /// What is kept for them, in bytes: arguments, answers of clients, results.
    pub bytes: usize,
    /// How long a task is kept after its last change. One whose call runs is not forgotten.
    pub keep: Duration,
    /// How often a client is asked to look, at most.
    pub poll: Duration,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            count: 1_024,
            bytes: 64 * 1024 * 1024,
            keep: Duration::from_secs(60 * 60),
            poll: Duration::from_secs(1),
        }
    }
}

/// The tasks of one server.
pub(crate) struct Tasks {
    state: Mutex<State>,
    running: Mutex<JoinSet<()>>,
    /// Where their calls are made: calls that take long do not take the places of others.
    attachment: OnceLock<Arc<Attachment>>,
}

struct State {
    ledger: Ledger,
    watchers: Watchers,
}

impl Tasks {
    pub(crate) fn new(limits: TaskLimits) -> Self {
        let state = State {
            ledger: Ledger::new(limits),
            watchers: Watchers::default(),
        };
        Self {
            state: Mutex::new(state),
            running: Mutex::default(),
            attachment: OnceLock::new(),
        }
    }

    /// Where the calls of tasks are made.
    pub(crate) fn attachment(&self, server: &Server) -> &Arc<Attachment> {
        self.attachment
            .get_or_init(|| Arc::new(server.attach("tasks")))
    }

    /// Whether one more task can be kept whose arguments have so many bytes.
    pub(crate) fn has_room(&self, bytes: usize, now: Instant) -> bool {
        self.lock().ledger.has_room(bytes, now)
    }

    /// Begins a task; `None` when it cannot be kept. From here on it is found.
    pub(crate) fn create(
        &self,
        owner: Identity,
        cancel: CancelSource,
        bytes: usize,
        now: Instant,
    ) -> Option<TaskId> {
        let id = TaskId::draw()?;
        let created = Created {
            owner,
            cancel,
            bytes,
        };
        let is_kept = self.lock().ledger.create(id, created, moment(now));
        is_kept.then_some(id)
    }

    /// Appends the members of a task: those of its creation.
    pub(crate) fn write_created(&self, id: TaskId, now: Instant, out: &mut Rope) {
        let state = self.lock();
        if let Some(task) = state.ledger.find(id) {
            write::task(out, id, task, state.ledger.limits(), now);
        }
    }

    /// Appends the members of a task as it is now, if its owner asks; false when there is none.
    pub(crate) fn write_now(
        &self,
        id: TaskId,
        owner: Identity,
        now: Instant,
        out: &mut Rope,
    ) -> bool {
        let state = self.lock();
        let Some(task) = state.ledger.find_for(id, owner, now) else {
            return false;
        };
        write::task(out, id, task, state.ledger.limits(), now);
        write::detail(out, task);
        true
    }

    /// Whether its owner would find a task.
    pub(crate) fn is_there(&self, id: TaskId, owner: Identity, now: Instant) -> bool {
        self.lock().ledger.find_for(id, owner, now).is_some()
    }

    /// Something happened to a task. Whether it is over, or gone.
    pub(crate) fn happened(&self, id: TaskId, event: Event, now: Instant) -> bool {
        let mut state = self.lock();
        if state.ledger.happened(id, event, moment(now)) {
            state.watchers.tell(id);
        }
        state.ledger.find(id).is_none_or(|task| task.is_over())
    }

    /// Whether nothing happens to a task any more.
    pub(crate) fn is_over(&self, id: TaskId) -> bool {
        self.lock()
            .ledger
            .find(id)
            .is_none_or(|task| task.is_over())
    }

    /// A client answers questions; false when there is no such task of this owner. Answers to what
    /// is not asked are ignored.
    pub(crate) fn answer(
        &self,
        id: TaskId,
        owner: Identity,
        responses: Responses,
        now: Instant,
    ) -> bool {
        let is_there = self.is_there(id, owner, now);
        if is_there {
            self.happened(id, Event::Given(responses), now);
        }
        is_there
    }

    /// A client wants a task to end; false when there is no such task of this owner.
    pub(crate) fn cancel(&self, id: TaskId, owner: Identity, now: Instant) -> bool {
        let mut state = self.lock();
        if state.ledger.find_for(id, owner, now).is_none() {
            return false;
        }
        if state.ledger.cancel(id, moment(now)) {
            state.watchers.tell(id);
        }
        true
    }

    /// The call of a task says how far it is.
    pub(crate) fn progress(&self, id: TaskId, message: &str, now: Instant) {
        let mut state = self.lock();
        if state.ledger.progress(id, message, moment(now), TELL_EVERY) {
            state.watchers.tell(id);
        }
    }

    /// What whoever runs a task is to do next.
    pub(crate) fn turn(&self, id: TaskId, now: Instant) -> ledger::Turn {
        let mut state = self.lock();
        let turn = state.ledger.turn(id, now);
        if matches!(turn, ledger::Turn::Over) {
            state.watchers.forget(id);
        }
        turn
    }

    /// Has `watch` told of changes of a task, first of the state it is in.
    pub(crate) fn watch(&self, id: TaskId, watch: &Arc<TaskWatch>) {
        self.lock().watchers.watch(id, watch);
    }

    /// Has `watch` told no more.
    pub(crate) fn unwatch(&self, id: TaskId, watch: &Arc<TaskWatch>) {
        self.lock().watchers.unwatch(id, watch);
    }

    /// Runs what a task does until it is forgotten.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static, runtime: &Handle) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn_on(task, runtime);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tasks {
    /// A call that runs on a thread of its own hears of the end in no other way.
    fn drop(&mut self) {
        self.lock().ledger.cancel_all();
    }
}

/// This moment on both clocks.
fn moment(instant: Instant) -> Moment {
    Moment {
        instant,
        wall: SystemTime::now(),
    }
}
