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

/// Largest place of an event of the readable files that is kept. Larger ones are given anew.
const MAX_SEQ: u64 = 1 << 48;

/// A plan with events that come from the readable files.
#[derive(Debug, Clone, Copy)]
pub struct FromFiles<'a> {
    /// Its name.
    pub plan: &'a PlanKey,
    /// All its events.
    pub events: &'a [Kept],
    /// Whether the damaged database can be read and does not have the plan: a copy or an archive can bring files along.
    pub is_unknown: bool,
}

/// Makes the database below a storage root anew. Only who has the lock of the workspace may, and nobody
/// else may use the database. Blocks while the disk works. The damaged one is moved aside.
///
/// Of each plan with events that come from the readable files `ends` is asked: what it gives becomes the last events of
/// the plan, and the plan is left out for `None`. The new database has the id of the damaged one where that can be
/// read.
///
/// # Errors
/// When the files cannot be moved or written; then the damaged database is where it was, or aside and the new
/// one whole, which whoever comes next puts in its place.
pub fn rebuild(
    root: &Path,
    mut ends: impl FnMut(FromFiles<'_>) -> Option<Vec<Fresh>>,
) -> Result<Rebuilt, Fault> {
    schema::end_rebuild(root)?;
    let mut rebuilt = Rebuilt::default();
    let Gathered {
        mut plans,
        from_files,
    } = gather(root, &mut rebuilt);
    let last = plans.values().flatten().map(|event| event.seq).max();
    let mut seq = last.unwrap_or(0);
    for (plan, (is_unknown, count)) in from_files {
        let Some(mut events) = plans.remove(&plan) else {
            continue;
        };
        let found = FromFiles {
            plan: &plan,
            events: &events,
            is_unknown,
        };
        let Some(last) = ends(found) else {
            rebuilt.from_files -= count;
            continue;
        };
        for Fresh { at, body } in last {
            seq += 1;
            events.push(Kept {
                seq,
                number: events.last().map_or(1, |event| event.number + 1),
                plan: plan.clone(),
                at,
                body,
            });
        }
        plans.insert(plan, events);
    }
    rebuilt.plans = plans.len();
    let mut events: Vec<Kept> = plans.into_values().flatten().collect();
    orchestra_sort::sort_by_key(&mut events, |event| event.seq);
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

/// Events that can be read.
struct Gathered {
    /// Those of each plan, without holes.
    plans: BTreeMap<PlanKey, Vec<Kept>>,
    /// The plans that have some from the files, whether the database does not have the plan, and their number.
    from_files: BTreeMap<PlanKey, (bool, usize)>,
}

/// Reads the events of the database, then those of the files. A place among all events is given once: files cannot take
/// one that the database gave.
fn gather(root: &Path, rebuilt: &mut Rebuilt) -> Gathered {
    let reader = Reader::new(root);
    let is_readable = reader.identity().is_ok();
    let (mut plans, mut unknown) = (BTreeMap::new(), BTreeSet::new());
    for (plan, row) in names(root, &reader) {
        if row == Some(Row::Deleted) {
            continue;
        }
        if row.is_none() && is_readable {
            unknown.insert(plan.clone());
        }
        let events = of_database(&reader, &plan);
        plans.insert(plan, events);
    }
    let mut seen: BTreeSet<u64> = plans.values().flatten().map(|event| event.seq).collect();
    let (mut from_files, mut moved) = (BTreeMap::new(), Vec::new());
    let (strange, known): (Vec<_>, Vec<_>) = plans
        .iter_mut()
        .partition(|(plan, _)| unknown.contains(*plan));
    for (plan, events) in known.into_iter().chain(strange) {
        let whole = events.len();
        let file = root.join(plan.as_str()).join(EVENTS_FILE);
        if let Ok(Some(exported)) = read_export(&file, plan) {
            events.extend(exported.events.into_iter().skip(whole));
        }
        if events.len() == whole {
            continue;
        }
        rebuilt.from_files += events.len() - whole;
        let is_unknown = unknown.contains(plan);
        from_files.insert(plan.clone(), (is_unknown, events.len() - whole));
        let is_taken = |event: &Kept| is_unknown || event.seq > MAX_SEQ || !seen.insert(event.seq);
        // What follows in the plan comes later, too.
        if let Some(taken) = events.iter().skip(whole).position(is_taken) {
            moved.push(&mut events[whole + taken..]);
        }
    }
    let mut last = seen.last().copied().unwrap_or(0);
    for event in moved.into_iter().flatten() {
        last += 1;
        event.seq = last;
    }
    plans.retain(|_, events| !events.is_empty());
    Gathered { plans, from_files }
}

/// Row of a plan in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Kept,
    Deleted,
}

/// The plans that the database or a directory tells of, with their rows in the database.
fn names(root: &Path, reader: &Reader) -> BTreeMap<PlanKey, Option<Row>> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| PlanKey::parse(entry.file_name().to_str()?).ok());
    let mut names: BTreeMap<PlanKey, Option<Row>> =
        found.take(MAX_PLANS).map(|plan| (plan, None)).collect();
    let mut after = None;
    while let Ok(rows) = reader.plans(after.as_ref()) {
        let Some(last) = rows.last() else { break };
        after = Some(last.plan.clone());
        names.extend(rows.into_iter().map(|row| match row.is_deleted {
            true => (row.plan, Some(Row::Deleted)),
            false => (row.plan, Some(Row::Kept)),
        }));
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
