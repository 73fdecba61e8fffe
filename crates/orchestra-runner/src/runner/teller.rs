//! How a job's task tells the engine what came of its act, and hears what is next.

use std::{fs::File, sync::Arc, time::Duration};

use orchestra_plan::{
    command::Report,
    ids::{AttemptNumber, JobId, PlanId},
};
use tokio::sync::{mpsc, oneshot};

use super::{assignment::Assignment, engine::Event};

/// How long a task waits before it tells again what could not be kept, as on a full disk.
const AGAIN: Duration = Duration::from_millis(500);

/// What a task is told.
#[derive(Debug)]
pub(crate) enum Next {
    /// The attempt goes on as it was.
    Go,
    /// Do this.
    Do(Box<Assignment>),
    /// The attempt is over. `seal`: what is uncommitted in the worktree is the job's.
    Over {
        /// Whether that is to be noted.
        seal: bool,
    },
    /// It could not be kept: tell it again.
    Later,
    /// Nobody runs the plans here any more: leave everything as it is.
    Gone,
}

/// What a task wants to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Whether it may go on.
    Go,
    /// The next act.
    Next,
}

/// What a task tells.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) plan: PlanId,
    pub(crate) job: JobId,
    pub(crate) attempt: AttemptNumber,
    pub(crate) reports: Vec<Report>,
    pub(crate) wants: Wants,
    pub(crate) answer: oneshot::Sender<Next>,
}

/// A task's way to the engine.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    /// The slot of the machine that the job has, for its supervisors to have as well.
    pub(crate) slot: Option<Arc<File>>,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) plan: PlanId,
    pub(crate) job: JobId,
    pub(crate) attempt: AttemptNumber,
}

impl Teller {
    /// Tells what came of an act and hears what is next; all of it is durable then.
    pub(crate) async fn tell(&self, reports: Vec<Report>, wants: Wants) -> Next {
        loop {
            let (answer, answered) = oneshot::channel();
            let told = Told {
                plan: self.plan,
                job: self.job,
                attempt: self.attempt,
                reports: reports.clone(),
                wants,
                answer,
            };
            if self.events.send(Event::Told(told)).await.is_err() {
                return Next::Gone;
            }
            match answered.await {
                Ok(Next::Later) => tokio::time::sleep(AGAIN).await,
                Ok(next) => return next,
                Err(_) => return Next::Gone,
            }
        }
    }

    /// Tells how far an act is; `false` when the attempt is over, or nobody hears it.
    pub(crate) async fn progress(&self, report: Report) -> bool {
        matches!(self.tell(vec![report], Wants::Go).await, Next::Go)
    }
}
