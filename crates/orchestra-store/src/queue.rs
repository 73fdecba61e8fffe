//! What waits for the writer.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use orchestra_board::{AgentName, Source};
use tokio::sync::oneshot;

use crate::files::needs;
use crate::{Action, ActionError, Fault, Receipt};

/// The most actions that wait.
const MAX_QUEUED: usize = 65_536;
/// The most bytes of documents that wait: a few of the largest.
const MAX_QUEUED_BYTES: usize = 128 * 1024 * 1024;
/// How long an action, an opening or an ending waits for the writers' lock before it is given up.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(20);

pub(crate) type Answer<T> = oneshot::Sender<Result<T, ActionError>>;

/// Something to be done by the writer.
pub(crate) enum Job {
    /// An action of a caller.
    Action {
        source: Source,
        agent: Option<AgentName>,
        action: Box<Action>,
        answer: Answer<Receipt>,
    },
    /// Work of the readable files.
    Files {
        work: needs::Job,
        answer: Answer<()>,
    },
    /// The database file is another one; open it anew.
    Reopen,
}

/// What waits to be done.
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(Instant, Job)>,
    /// The bytes of the documents among them.
    bytes: usize,
    closed: bool,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State::default()),
            filled: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, job: Job) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return job.fail(Fault::Closed);
        }
        let bytes = state.bytes.saturating_add(job.bytes());
        if state.jobs.len() >= MAX_QUEUED || bytes > MAX_QUEUED_BYTES {
            drop(state);
            return job.fail(Fault::Overloaded);
        }
        state.bytes = bytes;
        state.jobs.push_back((Instant::now(), job));
        drop(state);
        self.filled.notify_one();
    }

    /// Lets nothing more in; what waits is still done.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// Waits until there is something to do; `false` at the end.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.lock();
        loop {
            if !state.jobs.is_empty() {
                return true;
            }
            if state.closed {
                return false;
            }
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn pop(&self) -> Option<Job> {
        self.lock().take()
    }

    /// Gives up what has waited too long for another process.
    pub(crate) fn give_up(&self) {
        let mut state = self.lock();
        let mut late = Vec::new();
        while state
            .jobs
            .front()
            .is_some_and(|(since, _)| since.elapsed() > LOCK_PATIENCE)
        {
            late.extend(state.take());
        }
        drop(state);
        late.into_iter().for_each(|job| job.fail(Fault::Locked));
    }

    pub(crate) fn fail_all(&self, fault: &Fault) {
        let mut state = self.lock();
        state.bytes = 0;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        jobs.into_iter()
            .for_each(|(_, job)| job.fail(fault.clone()));
    }
}

impl State {
    fn take(&mut self) -> Option<Job> {
        let (_, job) = self.jobs.pop_front()?;
        self.bytes -= job.bytes();
        Some(job)
    }
}

impl Job {
    /// What a document holds that waits to be written.
    fn bytes(&self) -> usize {
        match self {
            Self::Action { action, .. } => match &**action {
                Action::WriteDocument(document) => document.body.bytes(),
                _ => 0,
            },
            Self::Files { .. } | Self::Reopen => 0,
        }
    }

    // Whoever asked may be gone; then nobody misses the answer.
    fn fail(self, fault: Fault) {
        match self {
            Self::Action { answer, .. } => drop(answer.send(Err(fault.into()))),
            Self::Files { answer, .. } => drop(answer.send(Err(fault.into()))),
            Self::Reopen => {}
        }
    }
}
