//! Brings files up to date with the database, so that at every moment, power cuts included, each
//! file is what was there before or what is to be there, and nobody else's change is overwritten.
//!
//! In mode `checkout` files are synced before they take their place, and the directories after it: git and people may have
//! no other copy. The files of a mirror are derived from the database and are not synced, because the syncs of many small
//! files delay those of the database's log. A power cut then leaves a file of a mirror in one of these states, and none is
//! taken for an edit or a deletion:
//!
//! - It is missing. Nothing is deleted by that, and it is written again.
//! - It has its earlier content. Issues tell that by their history, other texts by the contents that they had before.
//! - It is empty, cut off at a block or filled with zeros. It has the time of our write then, or none was recorded since
//!   the write was announced ([`Engine::is_damaged`]), and is written again. The first start of the system's run reads the
//!   files that were written last before it, for zeros may have the right size.
//! - It was removed and is there again. So directories are synced after removals, before the database forgets the file.
//!
//! A file system keeps that promise if it makes the time of a file durable no later than its new name, as journaling file
//! systems do.

mod learn;
mod plan;

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use orchestra_board::Uid;

use self::learn::{is_part, learned};
use self::plan::{Plan, Planned, planned};
use super::conflict::{Asked, Question};
use super::engine::{Engine, GONE, HALF_WRITTEN, is_emptied};
use super::fields::{ContentHash, content_hash};
use super::ledger::{self, Entry, Next, Seen};
use super::place::{Part, Place, TEMP, directory, under};
use super::render::Rendered;
use super::{FilesError, Owner};
use crate::io::{EntryKind, FileIo, Stat};
use crate::reader::Reader;
use crate::rows::Read;
use crate::toon::history::{UID_BYTES, with_uid, without_uid};
use crate::toon::records::MAX_FILE_BYTES;
use crate::uid::{self, OfLines};

/// A file whose text is costly rests for so many times as long as it took before it is made again,
/// at most [`MAX_REST`]: under steady changes the lists of a large project then take a
/// twentieth of one core, and a single change is still there at once.
const REST: u32 = 20;
const MAX_REST: Duration = Duration::from_secs(2);
/// How long the same files may be in the way of what is due, and how often they are taken in meanwhile.
const STUCK: Duration = Duration::from_secs(2);
const STUCK_AGAIN: Duration = Duration::from_millis(10);

/// Whether somebody waits for the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    /// Nobody; costly files may rest.
    None,
    /// Somebody does.
    Now,
}

/// What a run of [`Engine::flush`] left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing: files show what was committed when it began.
    Nothing,
    /// More owners are due.
    More,
    /// Somebody changed these files, which are to be taken in before ours can be written.
    Theirs(BTreeSet<String>),
    /// Some owners wait for something outside; look again after this.
    Waiting(Duration),
}

/// How a file stands to what is known of it.
enum Standing {
    /// As it was seen, or not there and never seen.
    Ours(Option<Stat>),
    /// What an earlier run had announced, and did not come to record.
    Arrived(Stat, ContentHash),
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
            return Ok(Left::Theirs(theirs));
        }
        self.stuck.0.clear();
        Ok(match (full, waiting, resting) {
            (true, ..) => Left::More,
            (false, true, _) => Left::Waiting(GONE),
            (false, false, Some(rest)) => Left::Waiting(rest),
            // What became due meanwhile wakes us by itself.
            (false, false, None) => Left::Nothing,
        })
    }

    /// Brings all files up to date, and takes in what stands in the way.
    pub(crate) fn flush_all(&mut self) -> Result<(), FilesError> {
        loop {
            match self.flush(Haste::Now)? {
                Left::More => {}
                Left::Theirs(paths) => {
                    self.take_in_theirs(paths)?;
                    if self.waiting {
                        std::thread::sleep(GONE);
                    }
                }
                Left::Nothing | Left::Waiting(_) => return Ok(()),
            }
        }
    }

    /// Takes in the files that are in the way of what is due.
    ///
    /// # Errors
    /// [`FilesError::Stuck`] when the same ones have been for too long.
    pub(crate) fn take_in_theirs(
        &mut self,
        paths: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, FilesError> {
        let is_same = self.stuck.0 == paths;
        if is_same && self.stuck.1.elapsed() > STUCK {
            self.stuck.0.clear();
            let path = paths.into_iter().next().unwrap_or_default();
            return Err(FilesError::Stuck { path });
        }
        if is_same {
            std::thread::sleep(STUCK_AGAIN);
        }
        let later = self.take_in(paths.clone())?;
        if !is_same {
            self.stuck = (paths, Instant::now());
        }
        Ok(later)
    }

    /// Sorts out the owners whose files somebody else changed.
    fn inspect(
        &mut self,
        plans: Vec<Plan>,
    ) -> Result<(Vec<Ready>, BTreeSet<String>, bool), FilesError> {
        let (mut ready, mut theirs, mut waiting) = (Vec::new(), BTreeSet::new(), false);
        for plan in plans {
            let (mut work, mut blocked) = (Ready::new(plan.owner, plan.change), false);
            work.waits = plan.waits;
            let is_there = !plan.writes.is_empty();
            let mut looked = Vec::new();
            for (file, entry) in plan.writes {
                let path = file.place.path();
                let mut hash = content_hash(&file.text);
                let mut standing = self.standing(&path, entry.as_ref(), Some(&hash))?;
                if matches!(standing, Standing::Ours(Some(_)))
                    && let Some(bare) = bare_hash(&file, entry.as_ref())
                    && self.read(|reader| has_derived_uids(reader, &file.place))?
                {
                    // What lacks only uids that follow from what it says is not written for their sake.
                    let as_bare = self.standing(&path, entry.as_ref(), Some(&bare))?;
                    if matches!(as_bare, Standing::Done(_)) {
                        (hash, standing) = (bare, as_bare);
                    }
                }
                looked.extend(entry.clone().map(|entry| (entry, standing.arrived())));
                match standing {
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
                    Standing::Ours(_) | Standing::Arrived(..) => work.writes.push(Write {
                        path,
                        hash,
                        before: standing.stat(),
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
                let standing = self.standing(&entry.path, Some(&entry), None)?;
                if is_there && is_left_open(&entry.path, standing.stat()) {
                    continue;
                }
                if matches!(standing, Standing::Theirs) {
                    theirs.insert(entry.path);
                    blocked = true;
                } else {
                    work.removals.push((entry.path.clone(), standing.stat()));
                    looked.push((entry, standing.arrived()));
                }
            }
            for question in plan.questions {
                match self.is_open(&question)? {
                    Asked::Answered => {
                        theirs.insert(question.path);
                        blocked = true;
                    }
                    Asked::Outdated => work.questions.push(question),
                    Asked::Open => {}
                }
            }
            if blocked {
                // What was rendered for it is not written yet, and must not wait for that.
                self.resting.remove(&work.owner);
            } else {
                work.learned = learned(&looked);
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
            if seen.is_none() || removed_by_us || wanted.is_none() || !self.removes {
                return Ok(Standing::Ours(None));
            }
            return Ok(if self.is_gone(path) {
                Standing::Theirs
            } else {
                Standing::Gone
            });
        };
        if is_emptied(path, stat.size, seen) {
            if !self.has_waited(path, HALF_WRITTEN) {
                return Ok(Standing::Gone);
            }
        } else {
            self.absent.remove(path);
        }
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
        } else if seen.is_some_and(|seen| seen.hash == hash) {
            Standing::Ours(Some(stat))
        } else if next == Some(Next::Content(hash)) {
            Standing::Arrived(stat, hash)
        } else {
            Standing::Theirs
        })
    }

    fn carry_out(&mut self, mut ready: Vec<Ready>) -> Result<(), FilesError> {
        if ready.is_empty() {
            return Ok(());
        }
        let questions = ready
            .iter_mut()
            .flat_map(|work| std::mem::take(&mut work.questions));
        self.ask_anew(questions.collect())?;
        self.announce(&ready)?;
        let mut touched = BTreeSet::new();
        let failure = self.write_all(&mut ready, &mut touched)?;
        if !self.follows {
            // Only removals are synced.
            touched.clear();
        }
        for work in ready.iter_mut().filter(|work| !work.disturbed) {
            for (path, before) in &work.removals {
                if !self.remove_known(path, *before, &mut touched)? {
                    work.disturbed = true;
                    break;
                }
            }
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
                    .map(|(path, _)| (path.clone(), work.owner.clone(), None)),
            );
        }
        if news.is_empty() {
            return Ok(());
        }
        let learned = ready.iter().flat_map(|work| work.learned.iter().cloned());
        let learned: Vec<(String, Seen)> = learned.collect();
        self.note(move |connection| {
            // What is announced now must not make us forget what was written before.
            for (path, seen) in &learned {
                ledger::learn(connection, path, seen)?;
            }
            for (path, owner, next) in &news {
                let next = next.as_ref().map(|(hash, fields)| (hash, fields));
                ledger::announce(connection, path, owner, next)?;
            }
            Ok(())
        })
    }

    /// Writes all files beside where they are to be, syncs them unless they are a mirror's, and puts them in place. Where one
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
                match self.write_beside(&temp, &write.file.text, touched) {
                    Ok(()) => temps.push(temp),
                    Err(error) => {
                        failure.get_or_insert(error);
                        work.disturbed = true;
                        break;
                    }
                }
            }
        }
        if self.follows {
            self.sync(
                temps.iter().map(String::as_str).collect(),
                FileIo::sync_file,
            )?;
        }
        for work in ready.iter_mut().filter(|work| !work.disturbed) {
            for (path, before) in &work.removals {
                // A first look: what is written would not fit to a file that stays.
                work.disturbed |= self.stat(path)? != *before;
            }
            for write in &mut work.writes {
                if work.disturbed {
                    break;
                }
                let (full, temp) = (
                    under(&self.root, &write.path),
                    under(&self.root, &format!("{}{TEMP}", write.path)),
                );
                // Looked at before it is in place: then nobody else's change is taken for ours.
                let coming = self.io.stat(&temp)?;
                if self.io.replace(&temp, &full, write.before)? {
                    touched.insert(directory(&write.path).to_owned());
                    write.before = coming;
                } else {
                    // The rest of the owner's files would not fit to what is there.
                    work.disturbed = true;
                }
            }
            if work.disturbed {
                self.remove_temps(work)?;
            }
        }
        Ok(failure)
    }

    fn remove_temps(&self, work: &Ready) -> Result<(), FilesError> {
        for write in &work.writes {
            let temp = format!("{}{TEMP}", write.path);
            self.io.remove(&under(&self.root, &temp))?;
        }
        Ok(())
    }

    fn write_beside(
        &mut self,
        temp: &str,
        content: &[u8],
        touched: &mut BTreeSet<String>,
    ) -> Result<(), FilesError> {
        self.make_directory(directory(temp), touched)?;
        Ok(self.write_temp(temp, content)?)
    }

    /// Says in the database what is there now.
    fn record(&mut self, ready: Vec<Ready>) -> Result<(), FilesError> {
        for path in ready
            .iter()
            .flat_map(|work| work.writes.iter().map(|write| &write.path))
        {
            self.absent.remove(path);
        }
        // Without it, what was announced is recognised in the files.
        self.note_repeatable(move |connection| {
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
                    ledger::replace(connection, &path, &work.owner, &seen)?;
                }
                for (path, seen) in &work.adopted {
                    ledger::replace(connection, path, &work.owner, seen)?;
                }
                for (path, before) in &work.removals {
                    // Somebody moved it to where it cannot be taken in yet: what both sides agreed on
                    // is needed then.
                    let is_awaited = work.waits && before.is_none() && is_part(path, Part::Fields);
                    if !is_awaited {
                        ledger::forget(connection, path)?;
                        ledger::forget_earlier(connection, path)?;
                    }
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
    /// Files to be removed, each with what it looked like.
    removals: Vec<(String, Option<Stat>)>,
    /// Whether the first file cannot be taken in.
    waits: bool,
    /// What was found out about files beside what is announced next.
    learned: Vec<(String, Seen)>,
    /// Conflicts whose other side is to be shown anew.
    questions: Vec<Question>,
    /// Whether somebody changed a file while it was about to be replaced.
    disturbed: bool,
}

impl Standing {
    /// What the file looks like, when it is there.
    const fn stat(&self) -> Option<Stat> {
        match self {
            Self::Ours(stat) => *stat,
            Self::Arrived(stat, _) | Self::Done(stat) => Some(*stat),
            Self::Theirs | Self::Gone => None,
        }
    }

    const fn arrived(&self) -> Option<(Stat, ContentHash)> {
        match self {
            Self::Arrived(stat, hash) => Some((*stat, *hash)),
            Self::Ours(_) | Self::Done(_) | Self::Theirs | Self::Gone => None,
        }
    }
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
            waits: false,
            learned: Vec::new(),
            questions: Vec::new(),
            disturbed: false,
        }
    }
}

/// The hash of a file as an earlier version of the program writes it, when that is what was seen.
fn bare_hash(file: &Rendered, entry: Option<&Entry>) -> Option<ContentHash> {
    let seen = entry?.seen.as_ref()?;
    let Place::Issue(_, part) = &file.place else {
        return None;
    };
    let text = std::str::from_utf8(&file.text).ok()?;
    let (lines, bytes) = match part {
        Part::Fields => (1, "uid: \n".len() + Uid::LENGTH),
        Part::History => (text.lines().count(), UID_BYTES),
        Part::Description => return None,
    };
    // Long histories are gone through only when it may be worth it.
    if seen.size.checked_add(u64::try_from(lines * bytes).ok()?) != u64::try_from(text.len()).ok() {
        return None;
    }
    let bare: String = match part {
        Part::Fields => text
            .split_inclusive('\n')
            .filter(|line| !line.starts_with("uid: "))
            .collect(),
        _ => text
            .lines()
            .flat_map(|line| [without_uid(line), "\n".into()])
            .collect(),
    };
    let bare = content_hash(bare.as_bytes());
    (bare == seen.hash).then_some(bare)
}

/// Whether the uids of an issue and of its history follow from what they say.
fn has_derived_uids(reader: &Reader<'_>, place: &Place) -> Read<bool> {
    let Place::Issue(place, _) = place else {
        return Ok(false);
    };
    let Some(record) = super::render::issue(reader, &place.project, &place.id)? else {
        return Ok(false);
    };
    let issue = record.issue;
    let history = super::render::history_text(reader, &issue)?;
    let uid = uid::of_issue(
        issue.project.as_str(),
        &issue.id.to_string(),
        issue.created_at.unix_seconds(),
        history.lines().next().unwrap_or_default(),
    );
    let mut uids = OfLines::new(uid);
    let is_derived = |line: &str| with_uid(without_uid(line).into_owned(), uids.next(line)) == line;
    Ok(issue.uid == Some(uid) && history.lines().all(is_derived))
}

/// Whether a file is a description that is empty: somebody may be about to write it, and what goes
/// into a file that was removed meanwhile is seen by nobody.
fn is_left_open(path: &str, stat: Option<Stat>) -> bool {
    is_part(path, Part::Description) && stat.is_some_and(|stat| stat.size == 0)
}
