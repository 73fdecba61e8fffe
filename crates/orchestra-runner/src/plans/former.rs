//! The database of plans that earlier versions kept in the working tree: shown, and moved once.
//!
//! The holder of the workspace's lock moves the plans of a database that this user's programs created, and
//! `orchestra plan trust` those of any other. Plans that have not ended are paused; those that this program cannot read
//! are moved as they are. A plan is joined by its id: one that was moved before is skipped, so that a move that was
//! interrupted is continued. The database stays with a newer schema number, by which earlier versions refuse it.

use std::{fs, io, path::Path, sync::Arc};

use orchestra_fs::Directory;
use orchestra_plan::plan::Plan;
use tokio::runtime::Handle;

use super::{
    Folded, Options, PlansError, Unreadable, accept::pause, key_of, read::All, rebuild::claimed,
};
use crate::journal::{self, Append, Fault, Fresh, Identity, Journal, PlanKey, Reader};

/// Reason for the failure of a job that was under way.
const REASON: &str = "it was under way when its plans were moved out of the working tree";

/// Most events that are read at a time.
const PAGE: u32 = 1_000;

/// Databases that are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// Those that this user's programs created.
    Listed,
    /// Any: the user agreed.
    Given,
}

/// The plans that can be read and were not moved yet. One that is being moved may be in both places: the caller reads
/// those of the storage root afterwards, and drops the ones that are there.
pub(super) fn plans(former: Option<&Folded>) -> Vec<Arc<Plan>> {
    let plans = former.map(Folded::all).transpose();
    let plans = plans.unwrap_or_else(|error| {
        tracing::debug!(%error, "cannot show the plans in the working tree");
        None
    });
    plans.unwrap_or_default()
}

/// The plans that this program cannot read and that were not moved yet.
///
/// # Errors
/// When the database cannot be read.
pub(super) fn unreadable(former: &Folded) -> Result<Vec<Unreadable>, PlansError> {
    match former.all_kept() {
        Err(PlansError::Storage(Fault::Moved)) => Ok(Vec::new()),
        all => Ok(all?.unreadable),
    }
}

/// Checks that the plans that were not moved yet may be moved without a question. Changes nothing.
///
/// # Errors
/// [`PlansError::Refused`] with the code `plans-untrusted`.
pub(super) fn check(options: &Options, former: &Folded) -> Result<(), PlansError> {
    match &options.former {
        Some(root) if is_there(former.reader()) => options.trust.check(root, former.reader()),
        _ => Ok(()),
    }
}

/// Returns whether plans of this user's programs wait to be moved.
pub(super) fn waits(options: &Options, former: &Folded) -> bool {
    is_there(former.reader()) && check(options, former).is_ok()
}

/// Returns whether a database exists and was not moved. One that cannot be read stays where it is.
fn is_there(reader: &Reader) -> bool {
    matches!(
        reader.identity(),
        Ok(Identity::Unidentified | Identity::Id(_))
    )
}

/// Moves the plans into an open journal, and returns those that were paused. Only the holder of the workspace's lock
/// may call it. Blocks while the disk works.
///
/// # Errors
/// When a process of an earlier version runs the plans, or a file cannot be moved or written. What was not moved is
/// moved by the next call.
pub(crate) fn import(
    options: &Options,
    journal: &Journal,
    runtime: &Handle,
    consent: Consent,
) -> Result<Vec<Arc<Plan>>, PlansError> {
    let Some(root) = &options.former else {
        return Ok(Vec::new());
    };
    // The files change only when the plans are moved.
    let looked = Folded::untouched(root);
    let may_move = match consent {
        Consent::Listed => waits(options, &looked),
        Consent::Given => is_there(looked.reader()),
    };
    if !may_move || !is_reached_without_links(options, root)? {
        return Ok(Vec::new());
    }
    let _leadership = claimed(root)?;
    let former = Folded::new(root);
    // It may have been replaced since.
    if consent == Consent::Listed && !waits(options, &former) {
        return Ok(Vec::new());
    }
    let All { plans, unreadable } = former.all_kept()?;
    let ours = Folded::new(&options.storage).known()?;
    let (mut moved, mut changed) = (Vec::new(), Vec::new());
    let readable = plans.into_iter().map(|plan| (*plan.id(), Some(plan)));
    // A newer program can read the others: nothing of them runs here.
    let unreadable = unreadable.iter().map(|unreadable| (unreadable.plan, None));
    for (id, plan) in readable.chain(unreadable) {
        let key = key_of(id)?;
        move_files(root, &options.storage, &key)?;
        if !ours.contains(&id) {
            let mut events = events(former.reader(), &key)?;
            if let Some(mut plan) = plan.map(Arc::unwrap_or_clone) {
                let pauses = pause(&mut plan, &options.policy, REASON)?;
                changed.extend((!pauses.is_empty()).then(|| Arc::new(plan)));
                events.extend(pauses);
            }
            let append = Append {
                plan: key.clone(),
                expected: 0,
                events,
                once: None,
            };
            let appended = runtime.block_on(journal.append(append));
            appended.map_err(|error| PlansError::Internal(error.to_string()))?;
        }
        moved.push(key);
    }
    former.reader().close();
    // Last: until then the rest is moved by the next holder.
    journal::retire(root, &moved)?;
    Ok(changed)
}

/// Reads all events of a plan.
fn events(reader: &Reader, plan: &PlanKey) -> Result<Vec<Fresh>, PlansError> {
    let mut events = Vec::new();
    loop {
        let after = u64::try_from(events.len()).unwrap_or(u64::MAX);
        let page = reader.events(plan, after, PAGE)?;
        if let Some(damage) = page.damage {
            return Err(damage.into());
        }
        let is_end = page.events.is_empty() || !page.is_more;
        let page = page.events.into_iter();
        events.extend(page.map(|kept| Fresh {
            at: kept.at,
            body: kept.body,
        }));
        if is_end {
            return Ok(events);
        }
    }
}

/// Returns whether the directory is inside the workspace and not behind a symbolic link.
fn is_reached_without_links(options: &Options, root: &Path) -> Result<bool, PlansError> {
    let Ok(below) = root.strip_prefix(&options.workspace) else {
        return Ok(false);
    };
    let reached = Directory::open(&options.workspace).and_then(|top| top.below(below));
    let reached = reached.map_err(|error| unmoved(&error.into()))?;
    Ok(reached.is_some())
}

/// Moves the readable files and logs of a plan, unless there are some already.
fn move_files(from: &Path, to: &Path, plan: &PlanKey) -> Result<(), PlansError> {
    let (from, to) = (from.join(plan.as_str()), to.join(plan.as_str()));
    let is_directory = fs::symlink_metadata(&from).is_ok_and(|found| found.is_dir());
    if !is_directory || fs::symlink_metadata(&to).is_ok() {
        return Ok(());
    }
    orchestra_fs::move_directory(&from, &to).map_err(|error| unmoved(&error.into()))
}

/// Reason that a plan which was not moved does not change.
pub(super) fn refusal(options: &Options, former: &Folded) -> PlansError {
    let words = "the plan is in the working tree, where an earlier version stores it: end the programs of that version, and try again";
    match check(options, former) {
        Err(doubt) => doubt,
        Ok(()) => not_moved(words.to_owned()),
    }
}

fn unmoved(error: &io::Error) -> PlansError {
    not_moved(format!(
        "the plans in the working tree cannot be moved: {error}"
    ))
}

fn not_moved(message: String) -> PlansError {
    PlansError::Refused {
        code: "plans-not-moved".to_owned(),
        message,
    }
}
