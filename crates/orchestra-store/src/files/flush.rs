//! Brings files up to date with the database, so that at every moment, power cuts included, each
//! file is what was there before or what is to be there, and nobody else's change is overwritten.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use orchestra_board::IssueId;

use super::engine::{Engine, GONE};
use super::fields::{ContentHash, content_hash};
use super::ledger::{self, Entry, Next, Seen};
use super::place::{Part, Place, TEMP, directory, under};
use super::render::{self, Rendered};
use super::{FilesError, Owner};
use crate::io::{EntryKind, FileIo, Stat};
use crate::reader::Reader;
use crate::rows::Read;
use crate::toon::records::MAX_FILE_BYTES;

/// How many owners are brought up to date at once.
const BATCH: u32 = 256;
/// A file whose text took longer than this to make rests for [`REST`] times as long before it is
/// made again, at most [`MAX_REST`]: under steady changes the lists of a large project then take a
/// twentieth of one core, and a single change is still there at once.
const COSTLY: Duration = Duration::from_millis(2);
const REST: u32 = 20;
const MAX_REST: Duration = Duration::from_secs(2);

/// Whether somebody waits for the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    /// Nobody; costly files may rest.
    None,
    /// Somebody does.
    Now,
}

/// What a run of [`Engine::flush`] left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing: files show what was committed when it began.
    Nothing,
    /// More owners are due.
    More,
    /// Some owners wait for something outside; look again after this.
    Waiting(Duration),
}

/// What is to be done for one owner.
struct Plan {
    owner: Owner,
    change: i64,
    /// Files to be written, each with what is known of it.
    writes: Vec<(Rendered, Option<Entry>)>,
    /// Files to be removed.
    removals: Vec<Entry>,
}

/// How a file stands to what is known of it.
enum Standing {
    /// As it was seen, or not there and never seen, or something we wrote ourselves.
    Ours(Option<Stat>),
    /// It says already what it is to say.
    Done(Stat),
    /// Somebody changed, made or removed it.
    Theirs,
    /// It is gone, but not for long.
    Gone,
}

impl Engine {
    /// Brings one batch of owners up to date.
    pub(crate) fn flush(&mut self, haste: Haste) -> Result<Left, FilesError> {
        if !self.is_due()? {
            return Ok(Left::Nothing);
        }
        self.safe.clear();
        let now = Instant::now();
        self.resting
            .retain(|_, until| haste == Haste::None && *until > now);
        let resting = self.resting.values().min().map(|until| *until - now);
        let Planned { plans, full, costs } = self.read(|reader| planned(reader, &self.resting))?;
        for (owner, cost) in costs {
            self.resting
                .insert(owner, Instant::now() + (cost * REST).min(MAX_REST));
        }
        if plans.is_empty() {
            return Ok(resting.map_or(Left::Nothing, Left::Waiting));
        }
        let (ready, theirs, waiting) = self.inspect(plans)?;
        self.carry_out(ready)?;
        if !theirs.is_empty() {
            self.take_in(theirs)?;
            return Ok(Left::More);
        }
        Ok(match (full, waiting, resting) {
            (true, ..) => Left::More,
            (false, true, _) => Left::Waiting(GONE),
            (false, false, Some(rest)) => Left::Waiting(rest),
            // What became due meanwhile wakes us by itself.
            (false, false, None) => Left::Nothing,
        })
    }

    /// Sorts out the owners whose files somebody else changed.
    fn inspect(
        &mut self,
        plans: Vec<Plan>,
    ) -> Result<(Vec<Ready>, BTreeSet<String>, bool), FilesError> {
        let (mut ready, mut theirs, mut waiting) = (Vec::new(), BTreeSet::new(), false);
        for plan in plans {
            let (mut work, mut blocked) = (Ready::new(plan.owner, plan.change), false);
            for (file, entry) in plan.writes {
                let path = file.place.path();
                let hash = content_hash(file.text.as_bytes());
                match self.standing(&path, entry.as_ref(), Some(&hash))? {
                    Standing::Done(stat) => {
                        let seen = Seen {
                            hash,
                            size: stat.size,
                            modified: stat.modified,
                            fields: file.fields,
                        };
                        let known = entry.as_ref().is_some_and(|entry| {
                            entry.next.is_none()
                                && entry.owner == work.owner.key()
                                && entry.seen.as_ref() == Some(&seen)
                        });
                        if !known {
                            work.adopted.push((path, seen));
                        }
                    }
                    Standing::Ours(before) => work.writes.push(Write {
                        path,
                        hash,
                        before,
                        file,
                    }),
                    Standing::Theirs => {
                        theirs.insert(path);
                        blocked = true;
                    }
                    Standing::Gone => (blocked, waiting) = (true, true),
                }
            }
            for entry in plan.removals {
                match self.standing(&entry.path, Some(&entry), None)? {
                    Standing::Ours(_) | Standing::Done(_) | Standing::Gone => {
                        work.removals.push(entry.path)
                    }
                    Standing::Theirs => {
                        theirs.insert(entry.path);
                        blocked = true;
                    }
                }
            }
            if blocked {
                // What was rendered for it is not written yet, and must not wait for that.
                self.resting.remove(&work.owner);
            } else {
                ready.push(work);
            }
        }
        Ok((ready, theirs, waiting))
    }

    /// How a file stands to what is known of it and to what it is to say.
    fn standing(
        &mut self,
        path: &str,
        entry: Option<&Entry>,
        wanted: Option<&ContentHash>,
    ) -> Result<Standing, FilesError> {
        let full = under(&self.root, path);
        let seen = entry.and_then(|entry| entry.seen.as_ref());
        let next = entry.and_then(|entry| entry.next);
        let found = match self.stat(path) {
            // A link where a directory should be: for the taking in to complain about.
            Err(FilesError::NotADirectory { .. }) => return Ok(Standing::Theirs),
            found => found?,
        };
        let Some(stat) = found else {
            let removed_by_us = next == Some(Next::Removed);
            if seen.is_none() || removed_by_us || wanted.is_none() {
                return Ok(Standing::Ours(None));
            }
            return Ok(if self.is_gone(path) {
                Standing::Theirs
            } else {
                Standing::Gone
            });
        };
        self.absent.remove(path);
        if stat.kind != EntryKind::File {
            return Ok(Standing::Theirs);
        }
        if let Some(seen) = seen
            && seen.fits(&stat)
        {
            let done = wanted == Some(&seen.hash);
            return Ok(if done {
                Standing::Done(stat)
            } else {
                Standing::Ours(Some(stat))
            });
        }
        let content = match self.io.read(&full, MAX_FILE_BYTES) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Standing::Gone),
            // What cannot be read is not ours to replace.
            Err(_) => return Ok(Standing::Theirs),
        };
        let hash = content_hash(&content);
        Ok(if wanted == Some(&hash) {
            Standing::Done(stat)
        } else if seen.is_some_and(|seen| seen.hash == hash) || next == Some(Next::Content(hash)) {
            Standing::Ours(Some(stat))
        } else {
            Standing::Theirs
        })
    }

    fn carry_out(&mut self, mut ready: Vec<Ready>) -> Result<(), FilesError> {
        if ready.is_empty() {
            return Ok(());
        }
        self.announce(&ready)?;
        let mut touched = BTreeSet::new();
        let failure = self.write_all(&mut ready, &mut touched)?;
        for path in ready
            .iter()
            .filter(|work| !work.disturbed)
            .flat_map(|work| &work.removals)
        {
            self.remove(path, &mut touched)?;
        }
        self.sync(
            touched.iter().map(String::as_str).collect(),
            FileIo::sync_dir,
        )?;
        self.record(ready)?;
        failure.map_or(Ok(()), Err)
    }

    /// Says in the database what is about to be written, before it is.
    fn announce(&self, ready: &[Ready]) -> Result<(), FilesError> {
        let mut news = Vec::new();
        for work in ready {
            for write in &work.writes {
                let next = (write.hash, write.file.fields.clone());
                news.push((write.path.clone(), work.owner.clone(), Some(next)));
            }
            news.extend(
                work.removals
                    .iter()
                    .map(|path| (path.clone(), work.owner.clone(), None)),
            );
        }
        if news.is_empty() {
            return Ok(());
        }
        self.note(move |connection| {
            for (path, owner, next) in &news {
                let next = next.as_ref().map(|(hash, fields)| (hash, fields));
                ledger::announce(connection, path, owner, next)?;
            }
            Ok(())
        })
    }

    /// Writes all files beside where they are to be, syncs them, and puts them in place. Where one
    /// cannot be written, its owner is left for later, and the first such failure is given back.
    fn write_all(
        &mut self,
        ready: &mut [Ready],
        touched: &mut BTreeSet<String>,
    ) -> Result<Option<FilesError>, FilesError> {
        let (mut temps, mut failure) = (Vec::new(), None);
        for work in &mut *ready {
            for write in &work.writes {
                let temp = format!("{}{TEMP}", write.path);
                match self.write_beside(&temp, write.file.text.as_bytes(), touched) {
                    Ok(()) => temps.push(temp),
                    Err(error) => {
                        failure.get_or_insert(error);
                        work.disturbed = true;
                        break;
                    }
                }
            }
        }
        self.sync(
            temps.iter().map(String::as_str).collect(),
            FileIo::sync_file,
        )?;
        for work in ready.iter_mut().filter(|work| !work.disturbed) {
            for write in &mut work.writes {
                let (full, temp) = (
                    under(&self.root, &write.path),
                    under(&self.root, &format!("{}{TEMP}", write.path)),
                );
                // The last look, so that a change of this very moment is not lost.
                if self.io.stat(&full)? != write.before {
                    self.io.remove(&temp)?;
                    // The rest of the owner's files would not fit to what is there.
                    work.disturbed = true;
                    break;
                }
                self.io.rename(&temp, &full)?;
                touched.insert(directory(&write.path).to_owned());
                write.before = self.io.stat(&full)?;
            }
        }
        Ok(failure)
    }

    fn write_beside(
        &mut self,
        temp: &str,
        content: &[u8],
        touched: &mut BTreeSet<String>,
    ) -> Result<(), FilesError> {
        self.make_directory(directory(temp), touched)?;
        Ok(self.io.write_temp(&under(&self.root, temp), content)?)
    }

    /// Says in the database what is there now.
    fn record(&mut self, ready: Vec<Ready>) -> Result<(), FilesError> {
        for path in ready
            .iter()
            .flat_map(|work| work.writes.iter().map(|write| &write.path))
        {
            self.absent.remove(path);
        }
        self.note(move |connection| {
            // What was disturbed stays announced and due: it will be looked at again.
            for work in ready.into_iter().filter(|work| !work.disturbed) {
                for Write {
                    path,
                    hash,
                    before,
                    file,
                } in work.writes
                {
                    let Some(stat) = before else { continue };
                    let seen = Seen {
                        hash,
                        size: stat.size,
                        modified: stat.modified,
                        fields: file.fields,
                    };
                    ledger::record(connection, &path, &work.owner, &seen)?;
                }
                for (path, seen) in &work.adopted {
                    ledger::record(connection, path, &work.owner, seen)?;
                }
                for path in &work.removals {
                    ledger::forget(connection, path)?;
                }
                ledger::settled(connection, &work.owner.key(), work.change)?;
            }
            Ok(())
        })
    }
}

/// What is to be done for one owner, after nothing stands in the way.
struct Ready {
    owner: Owner,
    change: i64,
    writes: Vec<Write>,
    /// Files that say already what they are to say.
    adopted: Vec<(String, Seen)>,
    removals: Vec<String>,
    /// Whether somebody changed a file while it was about to be replaced.
    disturbed: bool,
}

struct Write {
    path: String,
    hash: ContentHash,
    /// What stood there when it was looked at, then what stands there.
    before: Option<Stat>,
    file: Rendered,
}

impl Ready {
    const fn new(owner: Owner, change: i64) -> Self {
        Self {
            owner,
            change,
            writes: Vec::new(),
            adopted: Vec::new(),
            removals: Vec::new(),
            disturbed: false,
        }
    }
}

/// What is to be done, all of one snapshot.
struct Planned {
    plans: Vec<Plan>,
    /// Whether there may be more.
    full: bool,
    /// Owners whose texts were costly to make.
    costs: Vec<(Owner, Duration)>,
}

/// The owners that are due and do not rest, with what their files are to say. Files with a problem
/// are left alone.
fn planned(reader: &Reader<'_>, resting: &HashMap<Owner, Instant>) -> Read<Planned> {
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
    let frozen: HashSet<String> = ledger::problems(connection)?
        .into_iter()
        .map(|(path, _, _)| path)
        .collect();
    let mut planned = Planned {
        plans: Vec::new(),
        full: full && !due.is_empty(),
        costs: Vec::new(),
    };
    for (owner, change) in due {
        let start = Instant::now();
        let rendered = render::render(reader, &owner)?;
        if start.elapsed() > COSTLY {
            planned.costs.push((owner.clone(), start.elapsed()));
        }
        let mut known = known_files(reader, &owner, rendered.is_empty())?;
        let mut writes = Vec::new();
        for file in rendered {
            let path = file.place.path();
            let entry = match known.remove(&path) {
                Some(entry) => Some(entry),
                None => ledger::at(connection, &path)?,
            };
            if !frozen.contains(&path) {
                writes.push((file, entry));
            }
        }
        let removals = known
            .into_values()
            .filter(|entry| !frozen.contains(&entry.path))
            .collect();
        planned.plans.push(Plan {
            owner,
            change,
            writes,
            removals,
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
            known.extend(ledger::below(connection, &directory)?);
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
