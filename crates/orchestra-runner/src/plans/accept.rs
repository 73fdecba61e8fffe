//! Acceptance of plans that this user's programs did not create: their database is trusted, and they are paused.

use std::sync::Arc;

use orchestra_plan::{
    command::{Command, Cx, Request},
    decide::decide,
    outcome::Policy,
    plan::Plan,
};
use tokio::runtime::Handle;

use super::{
    Consent, Folded, Mended, Options, Plans, PlansError, former, key_of, now,
    rebuild::{claimed, claimed_when_idle, rebuild},
    trust,
};
use crate::{
    journal::{self, Append, Fresh, Identity, Journal},
    runner::{Shown, new_job_id},
};

/// Reason for the failure of a job that was under way.
const REASON: &str = "it was under way when its plans were accepted by `orchestra plan trust`";

impl Plans {
    /// Checks that the plans may run here: that this user's programs created their database, or the user accepted
    /// it. Starts and changes nothing.
    ///
    /// # Errors
    /// [`PlansError::Refused`] with the code `plans-untrusted`, in words that name the command.
    pub async fn check_trust(&self) -> Result<(), PlansError> {
        let options = Arc::clone(&self.0.host.options);
        self.folded(move |folded| options.trust.check(&options.storage, folded.reader()))
            .await
    }

    /// Checks that plans in the working tree, where earlier versions kept them, may be moved without a question. Starts
    /// and changes nothing.
    ///
    /// # Errors
    /// [`PlansError::Refused`] with the code `plans-untrusted`, in words that name the command.
    pub async fn check_former(&self) -> Result<(), PlansError> {
        let Some(former) = self.0.former.clone() else {
            return Ok(());
        };
        let options = Arc::clone(&self.0.host.options);
        self.folded(move |_| former::check(&options, &former)).await
    }

    /// Accepts plans that this user's programs did not create. Plans that have not ended are paused, and their jobs
    /// that were under way fail, so that only a command continues one. Returns the plans that were changed.
    ///
    /// # Errors
    /// When a process runs the plans, or the database or the list of trusted databases cannot be written; then the
    /// plans are not accepted.
    pub async fn accept(&self) -> Result<Vec<Arc<Plan>>, PlansError> {
        let (options, runtime) = (Arc::clone(&self.0.host.options), Handle::current());
        let earlier = Arc::clone(&self.0.earlier);
        self.folded(move |_| {
            let changed = accept(&options, &runtime)?;
            earlier.accept(&options)?;
            Ok(changed)
        })
        .await
    }
}

fn accept(options: &Options, runtime: &Handle) -> Result<Vec<Arc<Plan>>, PlansError> {
    options.trust.check_list()?;
    let mut changed = accept_here(options, runtime)?;
    let former = options.former.as_deref().map(Folded::untouched);
    if former.is_some_and(|former| former::check(options, &former).is_err()) {
        options.check_storage(true)?;
        let _leadership = claimed_when_idle(options)?;
        changed.extend(separate(options, runtime)?);
        changed.extend(move_here(options, runtime)?);
    }
    Ok(changed)
}

/// Moves plans in the working tree. Only the holder of the workspace's lock may call it.
fn move_here(options: &Options, runtime: &Handle) -> Result<Vec<Arc<Plan>>, PlansError> {
    let mut how = options.journal();
    how.readable = Some(Arc::new(Shown::new(Folded::new(&options.storage))));
    how.id = options.trust.admit(&options.storage)?;
    let journal = Journal::open(&options.storage, how)?;
    let moved = former::import(options, &journal, runtime, Consent::Given);
    journal.close_now();
    moved
}

fn accept_here(options: &Options, runtime: &Handle) -> Result<Vec<Arc<Plan>>, PlansError> {
    let storage = &options.storage;
    if !storage.is_dir() {
        return Ok(Vec::new());
    }
    let _leadership = claimed_when_idle(options)?;
    journal::end_rebuild(storage)?;
    let reader = journal::Reader::new(storage);
    let is_absent = reader.identity()? == Identity::Absent;
    if is_absent || options.trust.check(storage, &reader).is_ok() {
        return Ok(Vec::new());
    }
    reader.close();
    adopt(options, runtime)
}

/// Gives the copy of a database that is listed with another directory an id of its own, and pauses its plans. Returns
/// those that were changed. Only the holder of the workspace's lock may call it.
///
/// # Errors
/// When the database or the list cannot be read or written.
pub(crate) fn separate(options: &Options, runtime: &Handle) -> Result<Vec<Arc<Plan>>, PlansError> {
    match options.trust.is_copy(&options.storage)? {
        true => adopt(options, runtime),
        false => Ok(Vec::new()),
    }
}

/// Gives a database a new id, pauses its plans, and lists it. Only the holder of the workspace's lock may call it.
fn adopt(options: &Options, runtime: &Handle) -> Result<Vec<Arc<Plan>>, PlansError> {
    let storage = &options.storage;
    let mut how = options.journal();
    how.readable = Some(Arc::new(Shown::new(Folded::new(storage))));
    let journal = Journal::open(storage, how)?;
    let paused = pause_all(options, &journal, runtime);
    journal.close_now();
    let paused = paused?;
    let id = trust::new_id()?;
    options.trust.record(id, storage)?;
    // Last: until then its plans do not run, and this is done again.
    journal::identify(storage, id)?;
    Ok(paused)
}

fn pause_all(
    options: &Options,
    journal: &Journal,
    runtime: &Handle,
) -> Result<Vec<Arc<Plan>>, PlansError> {
    let mut changed = Vec::new();
    for found in Folded::new(&options.storage).all_kept()?.plans {
        let mut plan = Arc::unwrap_or_clone(found);
        let number = plan.version();
        let events = pause(&mut plan, &options.policy, REASON)?;
        if events.is_empty() {
            continue;
        }
        let append = Append {
            plan: key_of(*plan.id())?,
            expected: number,
            events,
            once: None,
        };
        let appended = runtime.block_on(journal.append(append));
        appended.map_err(|error| PlansError::Internal(error.to_string()))?;
        changed.push(Arc::new(plan));
    }
    Ok(changed)
}

/// Decides what brings a plan to rest, applies it, and returns its events. Jobs that are under way fail for `reason`.
pub(super) fn pause(
    plan: &mut Plan,
    policy: &Policy,
    reason: &str,
) -> Result<Vec<Fresh>, PlansError> {
    let mut events = Vec::new();
    if plan.is_deleted() || plan.is_scaffolding() {
        return Ok(events);
    }
    let under_way: Vec<String> = plan.active().map(|job| job.id().to_string()).collect();
    let fails = under_way.into_iter().map(|job| Command::ForceFail {
        job,
        reason: Some(reason.to_owned()),
    });
    for command in fails.chain([Command::Pause]) {
        if plan.status().is_ended() {
            break;
        }
        let mut cx = Cx {
            now: now(),
            policy,
            ids: &mut new_job_id,
            others: &|_| None,
        };
        for event in decide(plan, Request::of(command), &mut cx)?.events {
            let _changes = plan.apply(&event);
            let fresh = Fresh::new(event.at.get(), &event);
            events.push(fresh.map_err(|error| PlansError::Internal(error.to_string()))?);
        }
    }
    Ok(events)
}

/// [`rebuild`](super::rebuild) of a database that is trusted: the new one is trusted, too. Where the id of the damaged
/// one cannot be read, its plans are paused: the files that they come from prove nothing.
///
/// # Errors
/// Those of [`rebuild`](super::rebuild); or when the new database cannot be listed.
pub fn rebuild_trusted(options: &Options, runtime: &Handle) -> Result<Mended, PlansError> {
    let storage = &options.storage;
    let was_trusted = options.trust.has_place(storage);
    let mended = rebuild(storage)?;
    let reader = journal::Reader::new(storage);
    let is_trusted = options.trust.check(storage, &reader).is_ok();
    reader.close();
    if was_trusted && !is_trusted {
        let _leadership = claimed(storage)?;
        adopt(options, runtime)?;
    }
    Ok(mended)
}
