//! The loop that drives plans: it does what `orchestra-plan` says is next, and holds no rule of its own.
//!
//! One task, the engine, owns every plan of the workspace. Commands of people, what jobs have come to, and
//! the passing of time come to it as events; it decides many of them in one turn, makes what was decided
//! durable in one commit, and only then answers and acts. A job at work is a task that does one act after
//! the other and tells the engine what came of it, which gives it the next.
//!
//! Whoever opens the journal as the holder begins where the last one stopped, however that ended: every act
//! under way is looked for and taken up, done again where that is the same as once, or reported lost.

mod act;
mod assignment;
mod beforehand;
mod branches;
mod clean;
mod engine;
mod export;
mod foresee;
mod gone;
mod host;
mod job;
mod permits;
mod recover;
mod roster;
mod service;
mod teller;
mod turn;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestra_plan::ids::{AttemptNumber, JobId, PlanId};

pub(crate) use beforehand::{looked, misnamed};
pub(crate) use clean::known_of;
pub(crate) use export::{Shown, left_out};
pub(crate) use foresee::{foresee, of_new};
pub(crate) use gone::gone;
pub(crate) use host::{Host, new_job_id};
pub(crate) use roster::{Outline, roster, standby};
pub use roster::{Roster, Standby};
pub(crate) use service::SLOTS;

use crate::{
    holder::{Seat, Settings, Start},
    plans::{Options, PlansError},
};

/// Where an attempt keeps its files.
pub(crate) fn attempt_directory(
    storage: &Path,
    plan: PlanId,
    job: JobId,
    attempt: AttemptNumber,
) -> PathBuf {
    job_directory(storage, plan, job)
        .join("attempts")
        .join(attempt.to_string())
}

/// Where a job keeps its files.
pub(crate) fn job_directory(storage: &Path, plan: PlanId, job: JobId) -> PathBuf {
    storage
        .join(plan.to_string())
        .join("specs")
        .join(job.to_string())
}

/// What makes this process run the plans when it becomes the holder.
pub(crate) fn starter(host: Arc<Host>) -> Start {
    Arc::new(move || {
        let host = Arc::clone(&host);
        Box::pin(async move { service::start(host).await })
    })
}

/// Runs the plans of a workspace in the background: follows who holds, takes up the plans when that one
/// leaves, and ends when none has anything to do and nobody asks. The program calls it when it was started
/// by a hand-over. Must run inside a runtime.
///
/// # Errors
/// When the place where plans are kept cannot be used, or was removed meanwhile.
pub async fn background(options: Options) -> Result<(), PlansError> {
    orchestra_process::leave_session();
    let host = Arc::new(Host::new(Arc::new(options)));
    let options = &host.options;
    if !options.storage.is_dir() {
        return Err(gone(&host).await);
    }
    let start = starter(Arc::clone(&host));
    let settings = Settings::new(&options.storage, &options.name, start);
    let seat = Seat::open(settings)?;
    seat.end_when_idle(options.quiet).await;
    Ok(())
}
