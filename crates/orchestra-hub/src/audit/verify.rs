//! Looks whether the lines of the audit files follow each other.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::{
    chain::{Line, Lines, Link, MAX_LINE},
    line,
    note::Note,
    place::{Place, wait_for_lock},
};

/// How long a program that writes is waited for.
const LOCK_TIME: Duration = Duration::from_secs(1);

/// How often the file is looked for again that a program puts aside at that moment, and how soon.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// Files that are open at once: fewer than every system permits. Where more are kept, the older ones
/// are read one by one while nobody writes; who records waits for that.
const AT_ONCE: usize = 64;

/// Torn lines that are named.
const MAX_TORN: usize = 100;

/// What was found in the audit files of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files that were read.
    pub files: usize,
    /// Records in them.
    pub records: u64,
    /// Records from before there was a chain.
    pub unchained: u64,
    /// Whether they begin with the first of all, rather than where older ones were removed.
    pub is_from_the_beginning: bool,
    /// Lines that end in the middle of a record, because the program ended that wrote it: the first
    /// hundred of them.
    pub torn: Vec<Spot>,
    /// The hash of the last line; whoever keeps it elsewhere can tell that nothing before it was
    /// changed.
    pub last: Option<String>,
    /// The first line that does not fit.
    pub misfit: Option<Misfit>,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: u64,
}

/// A line that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Where.
    pub spot: Spot,
    /// What does not fit, and what that means.
    pub reason: String,
}

/// Reads the audit file at `path` and the older ones beside it. Programs may write meanwhile.
///
/// # Errors
/// When they cannot be read. That there are none is no error.
pub fn verify_audit(path: &Path) -> io::Result<Verified> {
    let place = match Place::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Verified::default()),
        place => place?,
    };
    let Locked { current, is_still } = lock(&place)?;
    let numbers = place.numbers()?;
    let (older, newer) = numbers.split_at(numbers.len().saturating_sub(AT_ONCE));
    let mut reader = Reader {
        directory: path.parent().unwrap_or(Path::new("")),
        found: Verified::default(),
        first: None,
        last: None,
        is_chained: false,
        note: Note::read(&place)?,
        is_still,
        is_first_seen: false,
        is_last_seen: false,
        behind: None,
    };
    for number in older {
        if let Some(file) = place.read(*number)? {
            reader.file(Path::new(&place.numbered(*number)), file)?;
        }
        if reader.found.misfit.is_some() {
            return Ok(reader.end(&place));
        }
    }
    for (name, file, length) in open(&place, newer, current)? {
        reader.file(&name, io::Read::take(file, length))?;
        if reader.found.misfit.is_some() {
            break;
        }
    }
    Ok(reader.end(&place))
}

/// The file that is written to.
struct Locked {
    /// Nobody writes to it before it is unlocked.
    current: Option<File>,
    /// Whether nobody wrote while it was locked.
    is_still: bool,
}

/// Locks the file that stands at the path.
fn lock(place: &Place) -> io::Result<Locked> {
    let mut current = None;
    let mut is_still = false;
    for _ in 0..TRIES {
        let Some(file) = place.read(0)? else {
            if place.numbers()?.is_empty() {
                break;
            }
            thread::sleep(PAUSE);
            continue;
        };
        // One that was stopped while it wrote is not waited for.
        let lock = wait_for_lock(|| file.try_lock_shared(), |waited| waited >= LOCK_TIME);
        let is_there = place.is_there(&file);
        current = Some(file);
        if is_there {
            is_still = lock.is_ok_and(|is_had| is_had);
            break;
        }
    }
    Ok(Locked { current, is_still })
}

/// Opens the youngest files with their lengths, the oldest of them first, and lets others write. What
/// is open stays what it is, whatever its name becomes.
fn open(
    place: &Place,
    numbers: &[usize],
    current: Option<File>,
) -> io::Result<Vec<(PathBuf, File, u64)>> {
    let mut files = Vec::new();
    for number in numbers {
        if let Some(file) = place.read(*number)? {
            let length = file.metadata()?.len();
            files.push((place.numbered(*number).into(), file, length));
        }
    }
    if let Some(file) = current {
        let length = file.metadata()?.len();
        let _ = file.unlock();
        files.push((place.numbered(0).into(), file, length));
    }
    Ok(files)
}

struct Reader<'p> {
    directory: &'p Path,
    found: Verified,
    /// The first line.
    first: Option<Spot>,
    /// The line before, and its hash.
    last: Option<(Spot, Link)>,
    /// Whether a record was read that says what it follows.
    is_chained: bool,
    note: Option<Note>,
    is_still: bool,
    /// Whether the line was read that is noted as the one which the first follows, or one that
    /// follows it.
    is_first_seen: bool,
    /// The same of the one that is noted as the last.
    is_last_seen: bool,
    /// The first line behind that.
    behind: Option<Spot>,
}

impl Reader<'_> {
    fn file(&mut self, name: &Path, file: impl io::Read) -> io::Result<()> {
        self.found.files += 1;
        let (mut lines, mut line, mut number) = (Lines::new(file), Line::default(), 0);
        while let Some(link) = lines.next(&mut line)? {
            number += 1;
            let spot = Spot {
                file: self.directory.join(name),
                line: number,
            };
            if let Err(reason) = self.line(&spot, &line) {
                self.found.misfit = Some(Misfit { spot, reason });
                return Ok(());
            }
            self.first.get_or_insert_with(|| spot.clone());
            if self.is_last_seen {
                self.behind.get_or_insert_with(|| spot.clone());
            }
            self.see(link);
            self.last = Some((spot, link));
        }
        Ok(())
    }

    /// Looks whether a line is one of those that are noted.
    fn see(&mut self, link: Link) {
        let Some(note) = &self.note else { return };
        self.is_first_seen |= note.first == Some(link);
        if note.last == link {
            self.is_last_seen = true;
            self.behind = None;
        }
    }

    fn line(&mut self, spot: &Spot, line: &Line) -> Result<(), String> {
        let record = line::read(&line.text).filter(|_| line.length <= MAX_LINE);
        let Some(record) = record else {
            self.begin_unnamed();
            // That it is as it was written, the next line says.
            if self.found.torn.len() < MAX_TORN {
                self.found.torn.push(spot.clone());
            }
            return Ok(());
        };
        self.found.records += 1;
        let Some(prev) = record.prev() else {
            if self.is_chained {
                return Err("names no line that it follows: it was put in or changed".into());
            }
            self.begin_unnamed();
            self.found.unchained += 1;
            return Ok(());
        };
        let prev = Link::parse(prev).ok_or("names no line that it follows: it was changed")?;
        match &self.last {
            // Nobody can tell what was before.
            None => {
                self.found.is_from_the_beginning = prev == Link::BEGINNING;
                self.see(prev);
                if self.is_last_seen {
                    self.behind = Some(spot.clone());
                }
            }
            Some((before, link)) if *link != prev => {
                let before = match before.file == spot.file {
                    true => format!("line {}", before.line),
                    false => format!("{}:{}", before.file.display(), before.line),
                };
                return Err(format!(
                    "does not follow {before}: that was changed, or lines between them were \
                     removed, or this one was put in"
                ));
            }
            Some(_) => {}
        }
        self.is_chained = true;
        Ok(())
    }

    /// What a line follows that does not say it, nobody can tell, where it is the first.
    fn begin_unnamed(&mut self) {
        self.is_first_seen |= self.last.is_none();
    }

    /// Looks whether the beginning and the end are there as well.
    fn end(mut self, place: &Place) -> Verified {
        self.found.last = self.last.as_ref().map(|(_, link)| link.to_string());
        if self.found.misfit.is_none() {
            self.found.misfit = self.at_the_beginning().or_else(|| self.at_the_end(place));
        }
        self.found
    }

    fn at_the_beginning(&self) -> Option<Misfit> {
        let is_noted = self.note?.first.is_some();
        let spot = self.first.clone()?;
        (is_noted && !self.is_first_seen).then(|| Misfit {
            spot,
            reason: "does not follow the recorded beginning: lines before it were removed"
                .to_owned(),
        })
    }

    fn at_the_end(&self, place: &Place) -> Option<Misfit> {
        // Nothing was written yet of what is kept, or somebody was killed at the first of it.
        let is_at_first = |note: &Note| {
            let first = note.first.unwrap_or(Link::BEGINNING);
            let is_first = [Link::BEGINNING, first].contains(&note.last);
            is_first && (self.last.is_none() || !note.is_settled())
        };
        let (spot, reason) = match &self.note {
            Some(note) if self.is_last_seen || is_at_first(note) => {
                let spot = self.behind.clone();
                // Whoever is killed while they write leaves lines that are not noted yet.
                let spot = spot.filter(|_| self.is_still && note.is_settled())?;
                let reason = "follows the line that is recorded as the last one: it was inserted, \
                              or the machine lost power before its record was on the disk";
                return Some(Misfit {
                    spot,
                    reason: reason.to_owned(),
                });
            }
            Some(_) => (
                self.last.as_ref(),
                "is not the line that is recorded as the last one: it was changed, or lines after \
                 it were removed, or the machine lost power before they were on the disk"
                    .to_owned(),
            ),
            None if self.is_chained => {
                let head = self.directory.join(place.head_name());
                let head = head.display();
                let reason = format!(
                    "is the last one, but {head} does not record it: that file was removed or changed"
                );
                (self.last.as_ref(), reason)
            }
            None => return None,
        };
        let spot = spot.map(|(spot, _)| spot.clone()).unwrap_or_else(|| Spot {
            file: self.directory.join(place.numbered(0)),
            line: 0,
        });
        Some(Misfit { spot, reason })
    }
}
