//! Makes a damaged database anew, of what can be read of it and of the readable files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    EVENTS_FILE, Fault, Fresh, Identity, Kept, PlanKey, Reader,
    export::read_export,
    schema::{self, REBUILT},
    writer,
};

/// The most plans that are looked for: more are not made in years.
const MAX_PLANS: usize = 100_000;

/// What was made of a damaged database.
#[derive(Debug, Clone, Default)]
pub struct Rebuilt {
    /// Where the damaged one lies now.
    pub aside: Option<PathBuf>,
    /// How many plans there are.
    pub plans: usize,
    /// How many events they have.
    pub events: usize,
    /// How many of those come from the readable files, from which secrets were left out.
    pub from_files: usize,
}

/// Makes the database below a storage root anew. Only who has the lock of the workspace may, and nobody
/// else may use the database. Blocks while the disk works. The damaged one is moved aside.
///
/// Of each plan with events that come from the readable files `ends` is asked: what it gives, if anything,
/// becomes the last event of the plan. The new database has the id of the damaged one where that can be read.
///
/// # Errors
/// When the files cannot be moved or written; then the damaged database is where it was, or aside and the new
/// one whole, which whoever comes next puts in its place.
pub fn rebuild(
    root: &Path,
    mut ends: impl FnMut(&PlanKey, &[Kept]) -> Option<Fresh>,
) -> Result<Rebuilt, Fault> {
    schema::end_rebuild(root)?;
    let mut rebuilt = Rebuilt::default();
    let mut from_files = BTreeSet::new();
    let mut plans = gather(root, &mut rebuilt, &mut from_files);
    let last = plans.values().flatten().map(|event| event.seq).max();
    let mut seq = last.unwrap_or(0);
    for plan in from_files {
        let Some(events) = plans.get_mut(&plan) else {
            continue;
        };
        if let Some(Fresh { at, body }) = ends(&plan, events) {
            seq += 1;
            events.push(Kept {
                seq,
                number: events.last().map_or(1, |event| event.number + 1),
                plan,
                at,
                body,
            });
        }
    }
    let mut events: Vec<Kept> = plans.into_values().flatten().collect();
    events.sort_by_key(|event| event.seq);
    // The damaged one stays in its place until the new one is whole and on the disk.
    remove_unfinished(root)?;
    let id = match Reader::new(root).identity() {
        Ok(Identity::Id(id)) => Some(id),
        _ => None,
    };
    writer::refill(root, &events, id)?;
    rebuilt.aside = schema::aside(root, &["", "-wal", "-shm"])?;
    schema::end_rebuild(root)?;
    rebuilt.events = events.len();
    Ok(rebuilt)
}

/// The events of each plan that can be read, without holes, and which plans have some from the files.
fn gather(
    root: &Path,
    rebuilt: &mut Rebuilt,
    from_files: &mut BTreeSet<PlanKey>,
) -> BTreeMap<PlanKey, Vec<Kept>> {
    let reader = Reader::new(root);
    let mut plans = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (plan, is_deleted) in names(root, &reader) {
        if is_deleted {
            continue;
        }
        let mut events = of_database(&reader, &plan);
        let whole = events.len();
        let file = root.join(plan.as_str()).join(EVENTS_FILE);
        if let Ok(Some(exported)) = read_export(&file, &plan) {
            events.extend(exported.events.into_iter().skip(whole));
        }
        // A place among all events is given once.
        let end = events.iter().position(|event| !seen.insert(event.seq));
        events.truncate(end.unwrap_or(events.len()));
        rebuilt.from_files += events.len().saturating_sub(whole);
        if events.len() > whole {
            from_files.insert(plan.clone());
        }
        if !events.is_empty() {
            plans.insert(plan, events);
        }
    }
    rebuilt.plans = plans.len();
    plans
}

/// The plans that the database or a directory tells of, and whether they were deleted.
fn names(root: &Path, reader: &Reader) -> BTreeMap<PlanKey, bool> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| PlanKey::parse(entry.file_name().to_str()?).ok());
    let mut names: BTreeMap<PlanKey, bool> =
        found.take(MAX_PLANS).map(|plan| (plan, false)).collect();
    let mut after = None;
    while let Ok(rows) = reader.plans(after.as_ref()) {
        let Some(last) = rows.last() else { break };
        after = Some(last.plan.clone());
        names.extend(rows.into_iter().map(|row| (row.plan, row.is_deleted)));
    }
    names
}

fn of_database(reader: &Reader, plan: &PlanKey) -> Vec<Kept> {
    let mut events: Vec<Kept> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.number);
        let Ok(page) = reader.events(plan, after, 1_000) else {
            return events;
        };
        let is_end = page.events.is_empty() || page.damage.is_some() || !page.is_more;
        events.extend(page.events);
        if is_end {
            return events;
        }
    }
}

/// Takes away what was made by whoever was stopped before it was whole.
fn remove_unfinished(root: &Path) -> Result<(), Fault> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let path = root.join(format!("{REBUILT}{end}"));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Fault::io("remove", &path, error));
            }
            _ => {}
        }
    }
    Ok(())
}
