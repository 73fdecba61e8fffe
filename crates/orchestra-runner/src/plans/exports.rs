//! The readable files beside the plans' database: whether they say what it says, and how they are written
//! anew from it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Folded, PlansError, rebuild::claimed};
use crate::{
    journal::{
        self, EVENTS_FILE, Fault, Journal, PLAN_FILE, PlanKey, PlanRow, read_export, shown_number,
    },
    runner::Shown,
};

/// Readable files below a storage root that are missing or damaged. A file with the state at an earlier event is neither:
/// the next process that runs the plans writes it again. Changes nothing. Blocks while the disk works.
///
/// # Errors
/// When the database cannot be read.
pub fn damaged_files(storage: &Path) -> Result<Vec<PathBuf>, PlansError> {
    unfit_files(storage, |event, row| event <= row.number)
}

/// Readable files that are missing or damaged, or whose last event does not fit.
fn unfit_files(
    storage: &Path,
    fits: impl Fn(u64, &PlanRow) -> bool,
) -> Result<Vec<PathBuf>, PlansError> {
    let reader = journal::Reader::new(storage);
    let mut unfit = Vec::new();
    let mut after: Option<PlanKey> = None;
    loop {
        let rows = reader.plans(after.as_ref())?;
        let Some(last) = rows.last() else {
            return Ok(unfit);
        };
        after = Some(last.plan.clone());
        for row in rows.iter().filter(|row| !row.is_deleted) {
            let directory = storage.join(row.plan.as_str());
            let (events, plan) = (directory.join(EVENTS_FILE), directory.join(PLAN_FILE));
            for (last, path) in [
                (last_event(&events, &row.plan), events),
                (shown_number(&plan, &row.plan), plan),
            ] {
                if !last.is_some_and(|last| fits(last, row)) {
                    unfit.push(path);
                }
            }
        }
    }
}

/// Number of the last event in a whole file of events.
fn last_event(path: &Path, plan: &PlanKey) -> Option<u64> {
    let read = read_export(path, plan).ok()??;
    (!read.is_torn).then_some(read.events.len() as u64)
}

/// Writes the readable files below a storage root again that are missing, damaged or behind, and returns the missing and
/// the damaged ones. No other process may run the plans meanwhile: it holds their lock for as long. Blocks while the disk
/// works.
///
/// # Errors
/// [`PlansError::Refused`] with the code `in-use` where a process runs the plans; else when they cannot be
/// removed or the database cannot be read. What cannot be written stays behind, as [`damaged_files`] says.
pub fn mend_files(storage: &Path) -> Result<Vec<PathBuf>, PlansError> {
    let _leadership = claimed(storage)?;
    if unfit_files(storage, |event, row| event == row.number)?.is_empty() {
        return Ok(Vec::new());
    }
    let damaged = damaged_files(storage)?;
    for file in &damaged {
        let removed = orchestra_fs::remove(file);
        removed.map_err(|error| Fault::io("remove", file, error.into_cause()))?;
    }
    let options = journal::Options {
        readable: Some(Arc::new(Shown::new(Folded::new(storage)))),
        ..journal::Options::default()
    };
    // It writes what is missing or behind.
    Journal::open(storage, options)?.close_now();
    Ok(damaged)
}
