//! What everything about the readable files has in common: how the database is reached, and how
//! files are looked at, made durable and removed without leaving `.projects/`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::fields::content_hash;
use super::ledger::{Entry, Next, Seen};
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
/// Longest time for which a text that may be half written is not read. A program that replaces the content of a file
/// empties it first, and may be held up before it writes.
pub(super) const HALF_WRITTEN: Duration = Duration::from_secs(1);
/// Time after the last write of a text before it is read. Large texts are written in several parts.
const QUIET: Duration = Duration::from_millis(30);
/// Least age of a file that a power cut can have damaged. An edit in the same tick of the clock as our own write has the
/// same time; it is applied before it is so old.
const DAMAGED_AGE: Duration = Duration::from_secs(10);
/// Number of bytes of which a file that a power cut has cut off has a multiple, in any file system.
const BLOCK: u64 = 512;
/// Time between two looks at files that are gone or half written.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// File with the rules by which git ignores files.
const IGNORE: &str = ".gitignore";

/// Rules by which git ignores a mirror.
const MIRROR_RULES: &str = "*\n";

/// Rules by which git ignores the private files of a board in a checkout.
const CHECKOUT_RULES: &str = ".store/\n.run/\n.events/\n*.orchestra-tmp\n";

/// Files that git reads of a mirror.
const MIRROR_GIT_FILES: [(&str, &str); 1] = [(IGNORE, MIRROR_RULES)];

/// Files that git reads of a board in a checkout.
const GIT_FILES: [(&str, &str); 2] = [
    (IGNORE, CHECKOUT_RULES),
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
    /// Files that are gone or may be half written, since when.
    pub(super) absent: HashMap<String, Instant>,
    /// Whether the last taking in waits for what has only just vanished.
    pub(super) waiting: bool,
    /// Directories that were found to be directories in this run.
    pub(super) safe: HashSet<String>,
    /// Owners of costly files, and until when they rest.
    pub(super) resting: HashMap<Owner, Instant>,
    /// Files that are in the way of what is due, since when.
    pub(super) stuck: (BTreeSet<String>, Instant),
    /// Whether a directory in the place of the rules of git was reported.
    has_reported_rules: bool,
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
            has_reported_rules: false,
        }
    }

    /// The same, where a file that is removed removes nothing.
    pub(crate) fn without_removals(mut self) -> Self {
        self.removes = false;
        self
    }

    /// Creates the files by which git ignores other files and merges histories. Missing rules of ignored files are added,
    /// and replace those of the other mode.
    pub(crate) fn tell_git(&mut self) -> Result<(), FilesError> {
        let mut touched = BTreeSet::new();
        let (files, other): (&[(&str, &str)], &str) = match self.removes {
            true => (&GIT_FILES, MIRROR_RULES),
            false => (&MIRROR_GIT_FILES, CHECKOUT_RULES),
        };
        self.make_root()?;
        for (path, text) in files {
            let full = under(&self.root, path);
            if let Some(content) = self.git_file(path, text, other)? {
                let temp = under(&self.root, &format!("{path}{TEMP}"));
                self.io.write_temp(&temp, &content)?;
                self.io.sync_file(&temp)?;
                self.io.rename(&temp, &full)?;
                touched.insert("");
            }
        }
        self.sync(touched.into_iter().collect(), FileIo::sync_dir)
    }

    /// Returns the new content of a file that git reads; `None` if it stays. The rules of ignored files count in a file of
    /// another author as well: a repository must not make the user commit private files. `other` are the rules of the
    /// other mode.
    fn git_file(
        &mut self,
        path: &str,
        text: &str,
        other: &str,
    ) -> Result<Option<Vec<u8>>, FilesError> {
        let full = under(&self.root, path);
        let before = match self.io.stat(&full)?.map(|found| found.kind) {
            None => return Ok(Some(text.into())),
            Some(_) if path != IGNORE => return Ok(None),
            Some(EntryKind::Directory) => {
                if !std::mem::replace(&mut self.has_reported_rules, true) {
                    tracing::warn!(
                        "cannot write the rules by which git ignores files of the board: `.projects/{path}` is a directory; \
                         move it away, and restart Orchestra"
                    );
                }
                return Ok(None);
            }
            // Git has no rules of a link.
            Some(EntryKind::Other) => Vec::new(),
            Some(EntryKind::File) => self.io.read(&full, MAX_FILE_BYTES)?,
        };
        Ok(with_rules(&before, text, other))
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

    /// Returns whether a file that is not there has been gone for long enough.
    pub(super) fn is_gone(&mut self, path: &str) -> bool {
        self.has_waited(path, GONE)
    }

    /// Returns whether a file has been gone or half written for so long.
    pub(super) fn has_waited(&mut self, path: &str, patience: Duration) -> bool {
        let since = self
            .absent
            .entry(path.to_owned())
            .or_insert_with(Instant::now);
        since.elapsed() >= patience
    }

    /// Returns whether a file, of which so many bytes were read, may be half written: it changed while it was read, it is
    /// a text that was just emptied, or a text that was just written and may have more parts. Other files tell by
    /// themselves that they are not whole. Where the board follows git, the files that git writes together are not read
    /// at different times: git is known to be at work by its lock.
    pub(super) fn is_half_written(
        &self,
        path: &str,
        (stat, read): (&Stat, usize),
        seen: Option<&Seen>,
    ) -> bool {
        if u64::try_from(read) != Ok(stat.size) || is_emptied(path, stat.size, seen) {
            return true;
        }
        let is_alone = match Place::parse(path) {
            Some(Place::Document(_)) => true,
            Some(place) => is_text(&place) && !self.follows,
            None => false,
        };
        is_alone && !seen.is_some_and(|seen| seen.fits(stat)) && is_fresh(stat)
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

    /// Returns whether a file of a mirror is what a power cut left of the one that was written. It has the time of our
    /// write, unless that was not recorded yet, and its content looks like that. The time alone does not tell: some tools
    /// preserve it in an edit, and some file systems count in seconds. See `flush` for why a file can be damaged.
    pub(super) fn is_damaged(&self, stat: &Stat, content: &[u8], known: Option<&Entry>) -> bool {
        let Some(entry) = known.filter(|_| !self.follows && is_old(stat.modified)) else {
            return false;
        };
        let is_cut = |seen: &Seen| stat.size < seen.size && stat.size.is_multiple_of(BLOCK);
        let is_left = match &entry.seen {
            Some(seen) if seen.modified == stat.modified => is_lost(content) || is_cut(seen),
            _ => matches!(entry.next, Some(Next::Content(_))) && is_lost(content),
        };
        is_left && !entry.is(&content_hash(content))
    }

    /// Returns whether a file that looks as it was seen has the content that was seen.
    pub(super) fn has_content(&mut self, path: &str, seen: &Seen) -> bool {
        let bytes = self.bytes(path).ok().flatten();
        bytes.is_some_and(|bytes| content_hash(&bytes) == seen.hash)
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

/// Returns whether a text is empty that was not, and may be: a program that writes a file under its own name empties it
/// first. A TOON file that is empty tells by itself that it is not whole.
pub(super) fn is_emptied(path: &str, size: u64, seen: Option<&Seen>) -> bool {
    let is_news = size == 0 && seen.is_none_or(|seen| seen.size > 0);
    is_news && Place::parse(path).is_some_and(|place| is_text(&place))
}

/// Returns whether a part of such a file looks like a whole one.
const fn is_text(place: &Place) -> bool {
    match place {
        Place::Document(_) | Place::Prd(_) | Place::Readme(_) => true,
        Place::Issue(_, part) => !matches!(part, Part::Fields),
        _ => false,
    }
}

/// Returns whether a content can be that of a file of which blocks were never written. No edit of a text has zero bytes.
fn is_lost(content: &[u8]) -> bool {
    content.is_empty() || content.contains(&0)
}

/// Returns whether a file was written a moment ago.
fn is_fresh(stat: &Stat) -> bool {
    // A file from the future, by another clock, is not waited for.
    age(stat.modified).is_some_and(|age| age < QUIET)
}

/// Returns whether a power cut can have damaged a file that was written at this time, in nanoseconds since the Unix epoch.
pub(super) fn is_old(modified: i64) -> bool {
    age(modified).is_some_and(|age| age > DAMAGED_AGE)
}

/// Time since a moment; `None` for one in the future.
fn age(modified: i64) -> Option<Duration> {
    let age = u64::try_from(now()?.saturating_sub(modified)).ok()?;
    Some(Duration::from_nanos(age))
}

/// Returns rules of git with the missing ones at the end, and without those of the other mode; `None` if none is missing.
/// A rule counts if no later one begins with `!`, which may cancel it.
fn with_rules(before: &[u8], rules: &str, other: &str) -> Option<Vec<u8>> {
    let lines = || before.split_inclusive(|byte| *byte == b'\n');
    let counting: Vec<&[u8]> = lines()
        .rev()
        .map(without_end)
        .take_while(|line| !line.starts_with(b"!"))
        .collect();
    let missing = rules
        .lines()
        .filter(|rule| !counting.contains(&rule.as_bytes()));
    let missing: Vec<&str> = missing.collect();
    if missing.is_empty() {
        return None;
    }
    let is_other = |line: &[u8]| {
        let line = without_end(line);
        other.lines().any(|rule| rule.as_bytes() == line)
    };
    let own: Vec<&[u8]> = lines().filter(|line| !is_other(line)).collect();
    let mut after = own.concat();
    if !after.is_empty() && !after.ends_with(b"\n") {
        after.push(b'\n');
    }
    for rule in missing {
        after.extend_from_slice(rule.as_bytes());
        after.push(b'\n');
    }
    Some(after)
}

/// Returns a line without its line break.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The time, in nanoseconds since the Unix epoch.
fn now() -> Option<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(now.as_nanos()).ok()
}

/// Time at which the system was started, in nanoseconds since the Unix epoch; `None` where it does not tell.
pub(super) fn system_start() -> Option<i64> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = Some(ClockId::Boottime);
    #[cfg(target_vendor = "apple")]
    let clock = Some(ClockId::Monotonic);
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    let clock: Option<ClockId> = None;
    let up = Duration::try_from(clock_gettime(clock?)).ok()?;
    Some(now()?.saturating_sub(i64::try_from(up.as_nanos()).ok()?))
}
