//! What everything about the readable files has in common: how the database is reached, and how
//! files are looked at, made durable and removed without leaving `.projects/`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ledger::Seen;
use super::needs::{Durability, Job};
use super::place::{PRIVATE, Part, Place, TEMP, directory, under};
use super::{Board, FilesError, Owner, Work};
use crate::io::{EntryKind, FileIo, Stat};
use crate::reader::Reader;
use crate::rows::Read;
use crate::toon::records::{MAX_FILE_BYTES, utf8};
use crate::{ActionError, Clock};

/// From how many files on one sync of the whole file system is cheaper than one for each.
const MANY: usize = 24;
/// How long a file must be gone before that counts as a removal: programs replace files by
/// removing and writing them.
pub(super) const GONE: Duration = Duration::from_millis(60);

/// What git is told of a mirror: nothing in it is its concern.
const MIRROR_GIT_FILES: [(&str, &str); 1] = [(".gitignore", "*\n")];

/// What git is told, unless somebody told it something else.
const GIT_FILES: [(&str, &str); 2] = [
    (".gitignore", ".store/\n.run/\n.events/\n*.orchestra-tmp\n"),
    (".gitattributes", "*.history.jsonl merge=union\n"),
];

/// The readable files of one workspace.
pub(crate) struct Engine {
    /// `.projects/`
    pub(super) root: PathBuf,
    lock: PathBuf,
    pub(super) io: Arc<dyn FileIo>,
    pub(super) board: Arc<dyn Board>,
    pub(super) clock: Arc<dyn Clock>,
    /// Whether a file that is removed removes what it is about. Otherwise it is written again.
    pub(super) removes: bool,
    /// Whether the board follows files that come back to an earlier state. Otherwise only edits are taken in.
    pub(super) follows: bool,
    /// Files that were there and are not, since when.
    pub(super) absent: HashMap<String, Instant>,
    /// Whether the last taking in waits for what has only just vanished.
    pub(super) waiting: bool,
    /// Directories that were found to be directories in this run.
    pub(super) safe: HashSet<String>,
    /// Owners of costly files, and until when they rest.
    pub(super) resting: HashMap<Owner, Instant>,
    /// Files that are in the way of what is due, since when.
    pub(super) stuck: (BTreeSet<String>, Instant),
}

impl Engine {
    pub(crate) fn new(
        root: PathBuf,
        lock: PathBuf,
        io: Arc<dyn FileIo>,
        board: Arc<dyn Board>,
        clock: Arc<dyn Clock>,
        removes: bool,
    ) -> Self {
        Self {
            root,
            lock,
            io,
            board,
            clock,
            removes,
            follows: removes,
            absent: HashMap::new(),
            waiting: false,
            safe: HashSet::new(),
            resting: HashMap::new(),
            stuck: (BTreeSet::new(), Instant::now()),
        }
    }

    /// The same, where a file that is removed removes nothing.
    pub(crate) fn without_removals(mut self) -> Self {
        self.removes = false;
        self
    }

    /// Creates the files that tell git what to leave out, and how to merge histories. Those of the other mode are
    /// replaced.
    pub(crate) fn tell_git(&mut self) -> Result<(), FilesError> {
        let mut touched = BTreeSet::new();
        let mut sets: [&[(&str, &str)]; 2] = [&MIRROR_GIT_FILES, &GIT_FILES];
        if self.removes {
            sets.reverse();
        }
        let [files, others] = sets;
        self.make_root()?;
        for (path, text) in files {
            let full = under(&self.root, path);
            let other = others.iter().find(|(other, _)| other == path);
            if self.is_replaceable(path, other.map(|(_, text)| *text))? {
                let temp = under(&self.root, &format!("{path}{TEMP}"));
                self.io.write_temp(&temp, text.as_bytes())?;
                self.io.sync_file(&temp)?;
                self.io.rename(&temp, &full)?;
                touched.insert("");
            }
        }
        self.sync(touched.into_iter().collect(), FileIo::sync_dir)
    }

    /// Returns whether a file is missing, or has this content alone.
    fn is_replaceable(&mut self, path: &str, content: Option<&str>) -> Result<bool, FilesError> {
        let Some(found) = self.io.stat(&under(&self.root, path))? else {
            return Ok(true);
        };
        let Some(content) = content.filter(|text| u64::try_from(text.len()) == Ok(found.size))
        else {
            return Ok(false);
        };
        Ok(self.bytes(path)?.as_deref() == Some(content.as_bytes()))
    }

    /// Creates the directory of a mirror that was removed.
    fn make_root(&mut self) -> Result<(), FilesError> {
        if !self.removes && self.io.stat(&self.root)?.is_none() {
            self.io.create_dir(&self.root)?;
        }
        Ok(())
    }

    /// Writes a file under its temporary name.
    pub(super) fn write_temp(&self, temp: &str, content: &[u8]) -> io::Result<()> {
        let full = under(&self.root, temp);
        if temp.starts_with(PRIVATE) {
            self.io.write_private_temp(&full, content)
        } else {
            self.io.write_temp(&full, content)
        }
    }

    /// Reads from one snapshot.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Reader<'_>) -> Read<T>,
    ) -> Result<T, FilesError> {
        let (mut work, mut found) = (Some(work), None);
        self.board.read(&mut |reader| {
            if let Some(work) = work.take() {
                found = Some(work(reader)?);
            }
            Ok(())
        })?;
        Ok(found.expect("the work was done, or reading failed"))
    }

    /// Does work on the writer's thread, durably.
    pub(crate) fn write(
        &self,
        work: impl FnOnce(&mut dyn Work) -> Result<(), ActionError> + Send + 'static,
    ) -> Result<(), FilesError> {
        Ok(self.board.write(Job::synced(work))?)
    }

    /// The text of a file, if there is one.
    pub(crate) fn text(&mut self, path: &str) -> Result<Option<String>, FilesError> {
        let bytes = self.bytes(path)?;
        Ok(bytes.and_then(|bytes| Some(utf8(path, &bytes).ok()?.to_owned())))
    }

    /// What a file holds, if there is one.
    pub(super) fn bytes(&mut self, path: &str) -> Result<Option<Vec<u8>>, FilesError> {
        match self.stat(path)? {
            Some(Stat {
                kind: EntryKind::File,
                ..
            }) => {
                let bytes = self.io.read(&under(&self.root, path), MAX_FILE_BYTES)?;
                Ok(Some(bytes))
            }
            _ => Ok(None),
        }
    }

    /// Removes files, durably.
    pub(crate) fn remove_all(&mut self, paths: &[String]) -> Result<(), FilesError> {
        let mut touched = BTreeSet::new();
        for path in paths {
            self.remove(path, &mut touched)?;
        }
        self.sync(
            touched.iter().map(String::as_str).collect(),
            FileIo::sync_dir,
        )
    }

    /// Changes what is known of the files, durably.
    pub(crate) fn note(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> Read<()> + Send + 'static,
    ) -> Result<(), FilesError> {
        self.write(move |board| Ok(work(board.connection())?))
    }

    /// As [`Engine::note`], of what is found out again after a power failure.
    pub(super) fn note_repeatable(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> Read<()> + Send + 'static,
    ) -> Result<(), FilesError> {
        Ok(self.board.write(Job {
            run: Box::new(move |board| Ok(work(board.connection())?)),
            durability: Durability::Repeatable,
        })?)
    }

    /// The lock of whoever looks at files or writes them; `None` while another process has it.
    /// Everything else here wants it held.
    pub(crate) fn try_lock(&self) -> Result<Option<File>, FilesError> {
        let file = crate::db::lock_file(&self.lock)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => {
                Err(crate::Fault::io("lock .projects/.store/files.lock", error).into())
            }
        }
    }

    /// Whether files are behind the database.
    pub(crate) fn is_due(&self) -> Result<bool, FilesError> {
        self.read(|reader| super::ledger::any_due(reader.connection()))
    }

    /// The number of the latest change of the board.
    pub(crate) fn last_change(&self) -> Result<i64, FilesError> {
        self.read(|reader| super::ledger::last_change(reader.connection()))
    }

    /// Whether files still lack changes up to this one.
    pub(crate) fn is_due_since(&self, change: i64) -> Result<bool, FilesError> {
        self.read(|reader| super::ledger::due_since(reader.connection(), change))
    }

    /// Whether a file that is not there has been gone for long enough.
    pub(super) fn is_gone(&mut self, path: &str) -> bool {
        let since = self
            .absent
            .entry(path.to_owned())
            .or_insert_with(Instant::now);
        since.elapsed() >= GONE
    }

    /// What stands at a path; nothing, when a directory on the way is not one.
    pub(crate) fn stat(&mut self, path: &str) -> Result<Option<Stat>, FilesError> {
        if !self.is_safe(directory(path))? {
            return Ok(None);
        }
        Ok(self.io.stat(&under(&self.root, path))?)
    }

    /// Whether all directories down to this one are there and none is a link.
    fn is_safe(&mut self, path: &str) -> Result<bool, FilesError> {
        if path.is_empty() || self.safe.contains(path) {
            return Ok(true);
        }
        if !self.is_safe(directory(path))? {
            return Ok(false);
        }
        match self.io.stat(&under(&self.root, path))? {
            Some(Stat {
                kind: EntryKind::Directory,
                ..
            }) => {
                self.safe.insert(path.to_owned());
                Ok(true)
            }
            Some(_) => Err(FilesError::NotADirectory {
                path: path.to_owned(),
            }),
            None => Ok(false),
        }
    }

    /// Forgets which directories were found to be directories.
    pub(crate) fn distrust(&mut self) {
        self.safe.clear();
    }

    /// Makes a directory and those above it; adds the ones whose names must be synced.
    pub(super) fn make_directory(
        &mut self,
        path: &str,
        touched: &mut BTreeSet<String>,
    ) -> Result<(), FilesError> {
        if path.is_empty() {
            return self.make_root();
        }
        if self.is_safe(path)? {
            return Ok(());
        }
        self.make_directory(directory(path), touched)?;
        self.io.create_dir(&under(&self.root, path))?;
        touched.insert(directory(path).to_owned());
        if self.is_safe(path)? {
            Ok(())
        } else {
            Err(FilesError::NotADirectory {
                path: path.to_owned(),
            })
        }
    }

    /// Removes a file, whatever it says.
    fn remove(&mut self, path: &str, touched: &mut BTreeSet<String>) -> Result<(), FilesError> {
        if self.stat(path)?.is_some() {
            self.io.remove(&under(&self.root, path))?;
            self.tidy(path, touched)?;
        }
        Ok(())
    }

    /// Removes a file if it is still as it was when it was looked at; says whether it is gone.
    pub(super) fn remove_known(
        &mut self,
        path: &str,
        before: Option<Stat>,
        touched: &mut BTreeSet<String>,
    ) -> Result<bool, FilesError> {
        let Some(before) = before else {
            return Ok(self.stat(path)?.is_none());
        };
        if self.stat(path)?.is_none() {
            return Ok(true);
        }
        let aside = under(&self.root, &format!("{path}{TEMP}"));
        // What a run that was cut off left under that name is nobody's.
        self.io.remove(&aside)?;
        if !self
            .io
            .remove_known(&under(&self.root, path), &aside, before)?
        {
            return Ok(false);
        }
        self.tidy(path, touched)?;
        Ok(true)
    }

    /// Removes the directories in which a file was the last, but not `.projects` itself; adds the
    /// one whose names must be synced.
    fn tidy(&mut self, path: &str, touched: &mut BTreeSet<String>) -> Result<(), FilesError> {
        let mut emptied = directory(path);
        while !emptied.is_empty() && self.io.remove_dir(&under(&self.root, emptied))? {
            touched.remove(emptied);
            self.safe.remove(emptied);
            emptied = directory(emptied);
        }
        touched.insert(emptied.to_owned());
        Ok(())
    }

    /// Makes files or directories durable, in the way that is cheapest for so many.
    pub(super) fn sync(
        &self,
        paths: Vec<&str>,
        one: fn(&(dyn FileIo + 'static), &Path) -> io::Result<()>,
    ) -> Result<(), FilesError> {
        if paths.len() >= MANY && self.io.sync_all(&self.root)? {
            return Ok(());
        }
        for path in paths {
            one(self.io.as_ref(), &under(&self.root, path))?;
        }
        Ok(())
    }
}

/// Whether a file is empty that was not, and may be: whoever writes a file under its own name
/// empties it first, and what he writes comes soon. A TOON file that is empty says what is wrong
/// with it instead.
pub(super) fn is_emptied(path: &str, size: u64, seen: Option<&Seen>) -> bool {
    let is_news = size == 0 && seen.is_none_or(|seen| seen.size > 0);
    let may_be_empty = |place| match place {
        Place::Document(_) => true,
        Place::Issue(_, part) => part != Part::Fields,
        _ => false,
    };
    is_news && Place::parse(path).is_some_and(may_be_empty)
}
