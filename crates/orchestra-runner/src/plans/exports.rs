//! The readable files beside the plans' database: whether they say what it says, and how they are written
//! anew from it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Folded, PlansError, rebuild::claimed};
use crate::{
    journal::{self, EVENTS_FILE, Fault, Journal, PLAN_FILE, PlanKey, PlanRow, read_export},
    runner::Shown,
};

/// A file that is larger than any plan's is none.
const MAX_BYTES: u64 = 1 << 30;

/// The readable files below a storage root that do not say what the database says: missing, behind or
/// damaged. Who writes them is some moments behind. Changes nothing. Blocks while the disk works.
///
/// # Errors
/// When the database cannot be read.
pub fn damaged_files(storage: &Path) -> Result<Vec<PathBuf>, PlansError> {
    let reader = journal::Reader::new(storage);
    let mut damaged = Vec::new();
    let mut after: Option<PlanKey> = None;
    loop {
        let rows = reader.plans(after.as_ref())?;
        let Some(last) = rows.last() else {
            return Ok(damaged);
        };
        after = Some(last.plan.clone());
        for row in rows.iter().filter(|row| !row.is_deleted) {
            let directory = storage.join(row.plan.as_str());
            let (events, plan) = (directory.join(EVENTS_FILE), directory.join(PLAN_FILE));
            if !tells_events(&events, row) {
                damaged.push(events);
            }
            if !tells_plan(&plan, row) {
                damaged.push(plan);
            }
        }
    }
}

fn tells_events(path: &Path, row: &PlanRow) -> bool {
    let read = read_export(path, &row.plan);
    matches!(read, Ok(Some(read)) if !read.is_torn && read.events.len() as u64 == row.number)
}

fn tells_plan(path: &Path, row: &PlanRow) -> bool {
    let read = orchestra_fs::read_own(path, MAX_BYTES).ok().flatten();
    let value: Option<serde_json::Value> = read.and_then(|text| serde_json::from_slice(&text).ok());
    value.is_some_and(|value| {
        value["id"] == row.plan.as_str()
            && value["events"] == row.number
            && value["plan"].is_object()
    })
}

/// Has the readable files below a storage root written anew that are damaged, and gives those. Nobody may
/// run the plans meanwhile: it takes their lock for as long. Blocks while the disk works.
///
/// # Errors
/// [`PlansError::Refused`] with the code `in-use` where a process runs the plans; else when they cannot be
/// removed or the database cannot be read. What cannot be written stays behind, as [`damaged_files`] says.
pub fn mend_files(storage: &Path) -> Result<Vec<PathBuf>, PlansError> {
    let _leadership = claimed(storage)?;
    let damaged = damaged_files(storage)?;
    if damaged.is_empty() {
        return Ok(damaged);
    }
    for file in &damaged {
        let removed = orchestra_fs::remove(file);
        removed.map_err(|error| Fault::io("remove", file, error.into_cause()))?;
    }
    let options = journal::Options {
        readable: Some(Arc::new(Shown::new(Folded::new(storage)))),
        ..journal::Options::default()
    };
    // It makes what is missing.
    Journal::open(storage, options)?.close_now();
    Ok(damaged)
}
