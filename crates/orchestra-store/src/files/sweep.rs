//! Looks for changed files without an event that names them: at the start, when the watcher lost events, and where a
//! whole directory came or went.
//!
//! Looking through everything takes time in proportion to the board. It is done in parts, between which the caller
//! handles what is reported meanwhile, so that an event costs only its file at any time.

use std::collections::BTreeSet;

use super::FilesError;
use super::engine::{Engine, LOOK, is_old, system_start};
use super::ledger;
use super::listing::Listing;
use super::place::{CONFLICT, Place, under};
use crate::io::EntryKind;

/// How many known files are compared on one snapshot.
const PAGE: u32 = 1_000;

/// Time in nanoseconds after which the system has written a file to the disk by itself, at the latest. Of a mirror, the
/// files that were written in this time before the last one are read, by programs that start after the system did.
const UNSYNCED_NANOS: i64 = 60_000_000_000;

/// Called between the parts of a sweep; returns whether to continue.
pub(crate) type Between<'b> = dyn FnMut(&mut Engine) -> Result<bool, FilesError> + 'b;

impl Engine {
    /// Looks through everything and takes in what changed, as long as `between` returns true. Returns the paths that must
    /// be looked at again a little later.
    pub(crate) fn sweep(
        &mut self,
        between: &mut Between<'_>,
    ) -> Result<BTreeSet<String>, FilesError> {
        let questionable = self.read(|reader| ledger::problems(reader.connection()))?;
        let mut changed: BTreeSet<String> =
            questionable.into_iter().map(|(path, _, _)| path).collect();
        let newest = match self.follows {
            true => None,
            false => self.read(|reader| ledger::newest(reader.connection()))?,
        };
        // There was no power cut since files are written, or since the system was started.
        let is_before = |newest: &i64| {
            let start = system_start();
            start.is_none_or(|start| newest.saturating_sub(UNSYNCED_NANOS) < start)
        };
        let newest = newest.filter(|newest| is_old(*newest) && is_before(newest));
        let is_late = |seen: &ledger::Seen| {
            newest.is_some_and(|newest| seen.modified > newest.saturating_sub(UNSYNCED_NANOS))
        };
        let mut last = String::new();
        while between(self)? {
            let known = self.read(|reader| ledger::after(reader.connection(), &last, PAGE))?;
            let Some(end) = known.last() else { break };
            last.clone_from(&end.path);
            self.distrust();
            for entry in known {
                let Some(seen) = &entry.seen else { continue };
                let same = self
                    .stat(&entry.path)
                    .is_ok_and(|stat| stat.is_some_and(|stat| seen.fits(&stat)));
                if !same || (is_late(seen) && !self.has_content(&entry.path, seen)) {
                    changed.insert(entry.path);
                }
            }
        }
        changed.append(&mut self.unknown("", between)?);
        // All at once: git changes together what belongs together.
        self.take_in_rest(&mut changed)
    }

    /// Looks through everything, and waits for files that have only just vanished or are being written.
    pub(crate) fn sweep_whole(&mut self) -> Result<(), FilesError> {
        let mut later = self.sweep(&mut |_| Ok(true))?;
        while !later.is_empty() {
            std::thread::sleep(LOOK);
            later = self.take_in(later)?;
        }
        Ok(())
    }

    /// The files below a directory that are not known yet; removes what a run that was cut off left
    /// half written.
    fn unknown(
        &mut self,
        directory: &str,
        between: &mut Between<'_>,
    ) -> Result<BTreeSet<String>, FilesError> {
        let mut unknown = BTreeSet::new();
        let mut directories = vec![directory.to_owned()];
        while let Some(directory) = directories.pop() {
            if !between(self)? {
                break;
            }
            let files = self.list(&directory, &mut directories)?;
            let news = self.read(|reader| {
                let mut news = Vec::new();
                for path in files {
                    if Place::found(&path).is_some()
                        && ledger::at(reader.connection(), &path)?.is_none()
                    {
                        news.push(path);
                    }
                }
                Ok(news)
            })?;
            unknown.extend(news);
        }
        Ok(unknown)
    }

    /// The files in a directory, by their paths below `.projects/`; adds the directories in
    /// it, and removes what was left half written.
    pub(crate) fn list(
        &mut self,
        directory: &str,
        directories: &mut Vec<String>,
    ) -> Result<Vec<String>, FilesError> {
        let mut listing = Listing::of(self.io.as_ref(), &self.root, directory)?;
        for path in &listing.unfinished {
            // Nobody writes while we hold the lock, so it is left over.
            self.io.remove(&under(&self.root, path))?;
        }
        directories.append(&mut listing.directories);
        Ok(listing.files)
    }

    fn take_in_rest(
        &mut self,
        changed: &mut BTreeSet<String>,
    ) -> Result<BTreeSet<String>, FilesError> {
        if changed.is_empty() {
            return Ok(BTreeSet::new());
        }
        self.take_in(std::mem::take(changed))
    }

    /// Of paths that were reported as changed, those of files that really were.
    pub(crate) fn really_changed(
        &mut self,
        reported: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, FilesError> {
        self.distrust();
        let mut changed = BTreeSet::new();
        for path in reported {
            let file = path.strip_suffix(CONFLICT);
            let known = self.read(|reader| {
                let connection = reader.connection();
                // The end of a conflict is seen by its file's going.
                let troubled = ledger::problem(connection, file.unwrap_or(&path))?.is_some();
                Ok((ledger::at(connection, &path)?, troubled))
            })?;
            if let Some(file) = file {
                if known.1 && self.stat(&path).is_ok_and(|stat| stat.is_none()) {
                    changed.insert(file.to_owned());
                }
                continue;
            }
            let stat = self.stat(&path).unwrap_or_default();
            let place = Place::parse(&path);
            // A path that could be a document's may as well be a directory's.
            let is_open = matches!(place, Some(Place::Document(_))) && known.0.is_none();
            if place.is_none() || is_open {
                match stat {
                    Some(stat) if stat.kind == EntryKind::Directory => {
                        self.gather_below(path, &mut changed)?
                    }
                    Some(_) => changed.extend(Place::found(&path).map(|_| path)),
                    None => {
                        let below =
                            self.read(|reader| ledger::below(reader.connection(), &path))?;
                        changed.extend(below.into_iter().map(|entry| entry.path));
                    }
                }
                continue;
            }
            let seen = known.0.and_then(|entry| entry.seen);
            let same = match (&stat, &seen) {
                (Some(stat), Some(seen)) => seen.fits(stat),
                (None, None) => true,
                _ => false,
            };
            if !same || known.1 {
                changed.insert(path);
            } else {
                // It came back as it was, so that it is not gone for long the next time.
                self.absent.remove(&path);
            }
        }
        Ok(changed)
    }

    /// The changed files below a directory that has just come up.
    fn gather_below(
        &mut self,
        directory: String,
        changed: &mut BTreeSet<String>,
    ) -> Result<(), FilesError> {
        let mut directories = vec![directory];
        while let Some(directory) = directories.pop() {
            let files = self.list(&directory, &mut directories)?;
            let known = self.read(|reader| {
                let mut known = Vec::new();
                for path in files {
                    let entry = ledger::at(reader.connection(), &path)?;
                    known.push((path, entry.and_then(|entry| entry.seen)));
                }
                Ok(known)
            })?;
            for (path, seen) in known {
                let stat = self.stat(&path).unwrap_or_default();
                // What nobody here has written and is not taken in concerns nobody.
                let ours = seen.is_some() || !is_left(&path);
                let same = matches!((&stat, &seen), (Some(stat), Some(seen)) if seen.fits(stat));
                if !same && ours {
                    changed.insert(path);
                }
            }
        }
        Ok(())
    }
}

/// Whether a file could be a document, and counts as none.
fn is_left(path: &str) -> bool {
    matches!(Place::parse(path), Some(Place::Document(_))) && Place::found(path).is_none()
}
