//! What there is to be done: the owners that are due, with what their files are to say, all of one
//! snapshot of the database.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use orchestra_board::IssueId;

use crate::files::Owner;
use crate::files::conflict::Question;
use crate::files::ledger::{self, Entry};
use crate::files::place::{Part, Place, directory};
use crate::files::render::{self, Rendered};
use crate::reader::Reader;
use crate::rows::Read;

/// How many owners are brought up to date at once.
const BATCH: u32 = 256;
/// The most bytes of files that are written at once, save the last one.
const BATCH_BYTES: usize = 32 * 1024 * 1024;
/// A file whose text took longer than this to make is costly.
const COSTLY: Duration = Duration::from_millis(2);

/// What is to be done for one owner.
pub(super) struct Plan {
    pub(super) owner: Owner,
    pub(super) change: i64,
    /// Files to be written, each with what is known of it.
    pub(super) writes: Vec<(Rendered, Option<Entry>)>,
    /// Files to be removed.
    pub(super) removals: Vec<Entry>,
    /// Whether the first file has a problem.
    pub(super) waits: bool,
    /// Conflicts that stand, each with what is to be shown of our side.
    pub(super) questions: Vec<Question>,
}

/// What is to be done, all of one snapshot.
pub(super) struct Planned {
    pub(super) plans: Vec<Plan>,
    /// Whether there may be more.
    pub(super) full: bool,
    /// Owners whose texts were costly to make.
    pub(super) costs: Vec<(Owner, Duration)>,
}

/// The owners that are due and do not rest, with what their files are to say. Files with a problem
/// are left alone.
pub(super) fn planned(reader: &Reader<'_>, resting: &HashMap<Owner, Instant>) -> Read<Planned> {
    let connection = reader.connection();
    let found = ledger::due(connection, BATCH)?;
    let full = found.len() >= BATCH as usize;
    let mut due: BTreeMap<Owner, i64> = BTreeMap::new();
    for (key, change) in found {
        // What no version of the program has written is no owner of files.
        let Some(owner) = Owner::parse(&key) else {
            continue;
        };
        if let Owner::Session(slug, _) = &owner {
            due.entry(Owner::Sessions(slug.clone())).or_insert(change);
        }
        due.insert(owner, change);
    }
    due.retain(|owner, _| !resting.contains_key(owner));
    let frozen: HashMap<String, String> = ledger::problems(connection)?
        .into_iter()
        .map(|(path, field, _)| (path, field))
        .collect();
    let shown = |path: &str| match frozen.get(path).map(String::as_str) {
        Some(ledger::CONFLICT_FIELD) => ledger::shown(connection, path),
        _ => Ok(None),
    };
    let mut planned = Planned {
        plans: Vec::new(),
        full: full && !due.is_empty(),
        costs: Vec::new(),
    };
    let mut bytes = 0;
    for (owner, change) in due {
        if bytes > BATCH_BYTES {
            // What is left comes next.
            planned.full = true;
            break;
        }
        let start = Instant::now();
        let rendered = render::render(reader, &owner)?;
        if start.elapsed() > COSTLY {
            planned.costs.push((owner.clone(), start.elapsed()));
        }
        bytes += rendered.iter().map(|file| file.text.len()).sum::<usize>();
        let mut known = known_files(reader, &owner, rendered.is_empty())?;
        let (mut writes, mut questions) = (Vec::new(), Vec::new());
        let of_all = rendered.first().map(|file| file.fields.clone());
        let first = rendered.first().map(|file| file.place.path());
        for file in rendered {
            let path = file.place.path();
            if let Some(shown) = shown(&path)? {
                questions.push(Question {
                    path: path.clone(),
                    shown: shown.hash,
                    text: file.text.clone(),
                    fields: file.fields.clone(),
                });
            }
            let entry = match known.remove(&path) {
                Some(entry) => Some(entry),
                None => ledger::at(connection, &path)?,
            };
            if !frozen.contains_key(&path) {
                writes.push((file, entry));
            }
        }
        let mut removals = Vec::new();
        for entry in known.into_values() {
            if !frozen.contains_key(&entry.path) {
                removals.push(entry);
            } else if let (Some(fields), Some(shown)) = (&of_all, shown(&entry.path)?) {
                // Our side needs no such file, but the person's side has one.
                questions.push(Question {
                    path: entry.path,
                    shown: shown.hash,
                    text: Vec::new(),
                    fields: fields.clone(),
                });
            }
        }
        planned.plans.push(Plan {
            owner,
            change,
            writes,
            removals,
            waits: first.is_some_and(|path| frozen.contains_key(&path)),
            questions,
        });
    }
    Ok(planned)
}

/// The files that are known of an owner, and of what stood below it when it is gone.
fn known_files(reader: &Reader<'_>, owner: &Owner, gone: bool) -> Read<BTreeMap<String, Entry>> {
    let connection = reader.connection();
    let mut known = ledger::of_owner(connection, owner)?;
    if gone {
        let below: Vec<String> = match owner {
            Owner::Project(slug) => vec![slug.to_string()],
            Owner::Issue(_, id) => known
                .iter()
                .filter_map(|entry| parent_directory(&entry.path, id))
                .collect(),
            _ => Vec::new(),
        };
        for directory in below {
            let below = ledger::below(connection, &directory)?.into_iter();
            // What plugins keep beside a board is not the board's.
            known.extend(below.filter(|entry| !Owner::is_document(&entry.owner)));
        }
    }
    Ok(known
        .into_iter()
        .map(|entry| (entry.path.clone(), entry))
        .collect())
}

/// The directory of an epic or story, all of which goes with it.
fn parent_directory(path: &str, id: &IssueId) -> Option<String> {
    match Place::parse(path)? {
        Place::Issue(place, Part::Fields) if place.id == *id && place.story.is_none() => {
            Some(directory(path).to_owned())
        }
        _ => None,
    }
}
