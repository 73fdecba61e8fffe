//! The database of plans that earlier versions kept in the working tree: shown, and moved once.
//!
//! The holder of the workspace's lock moves the plans of a database that this user's programs created, and
//! `orchestra plan trust` those of any other. Plans that have not ended are paused. A plan is joined by its id: one
//! that was moved before is skipped, so that a move that was interrupted is continued. The database stays with a
//! newer schema number, by which earlier versions refuse it.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestra_fs::{Access, Directory};
use orchestra_plan::{ids::PlanId, plan::Plan};
use tokio::runtime::Handle;

use super::{Folded, Options, PlansError, accept::pause, key_of, read::All, rebuild::claimed};
use crate::journal::{self, Append, Fresh, Identity, Journal, PlanKey, Reader};

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

/// The plans that were not moved yet, but for those with the ids of `ours`.
pub(super) fn plans(former: Option<&Folded>, ours: &HashSet<PlanId>) -> Vec<Arc<Plan>> {
    let Some(former) = former else {
        return Vec::new();
    };
    let mut plans = former.all().unwrap_or_else(|error| {
        tracing::debug!(%error, "plans in the working tree are not shown");
        Vec::new()
    });
    plans.retain(|plan| !ours.contains(plan.id()));
    plans
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
    let _claim = claimed(root)?;
    let former = Folded::new(root);
    let All { plans, unreadable } = former.all_kept()?;
    for plan in unreadable {
        tracing::warn!(what = %plan.what, "a plan stays in the working tree");
    }
    let ours = Folded::new(&options.storage).known()?;
    let (mut moved, mut changed) = (Vec::new(), Vec::new());
    for found in plans {
        let key = key_of(*found.id())?;
        move_files(root, &options.storage, &key)?;
        if !ours.contains(found.id()) {
            let mut plan = Arc::unwrap_or_clone(found);
            let mut events = events(former.reader(), &key)?;
            let pauses = pause(&mut plan, options, REASON)?;
            let is_changed = !pauses.is_empty();
            events.extend(pauses);
            let append = Append {
                plan: key.clone(),
                expected: 0,
                events,
                once: None,
            };
            let appended = runtime.block_on(journal.append(append));
            appended.map_err(|error| PlansError::Internal(error.to_string()))?;
            changed.extend(is_changed.then(|| Arc::new(plan)));
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
    match fs::rename(&from, &to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy(&from, &to).map_err(|error| unmoved(&error))
        }
        renamed => renamed.map_err(|error| unmoved(&error)),
    }
}

/// Copies a directory into another file system, in one step: under another name, then renamed.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(".moving");
    let unfinished = PathBuf::from(unfinished);
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    copy_directory(from, &unfinished)?;
    fs::rename(&unfinished, to)
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    let directory = Directory::private(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        if kind.is_dir() {
            copy_directory(&entry.path(), &to.join(&name))?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, to.join(&name))?;
        } else if kind.is_file() {
            let Some(mut source) = orchestra_fs::open(&entry.path())? else {
                continue;
            };
            let mut target = directory.create_new(&name, Access::Private)?;
            io::copy(&mut source, &mut target)?;
            target.sync_all()?;
        }
    }
    directory.sync()?;
    Ok(())
}

/// Reason that a plan which was not moved does not change.
pub(super) fn refusal(options: &Options, former: &Folded) -> PlansError {
    let words = "the plan is in the working tree, where an earlier version keeps it: end the programs of that version, \
                 and try again";
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
