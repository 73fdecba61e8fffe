//! Looks whether the lines of the audit files follow each other.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    chain::{Line, Lines, Link, MAX_LINE},
    line,
    place::{Place, wait_for_lock},
};

/// How long a program that writes is waited for.
const LOCK_TIME: Duration = Duration::from_secs(1);

/// How often the file is looked for again that a program puts aside at that moment.
const TRIES: usize = 100;

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
    let (files, head) = open(&place)?;
    let mut reader = Reader {
        directory: path.parent().unwrap_or(Path::new("")),
        found: Verified::default(),
        last: None,
        is_chained: false,
        head,
        is_head_seen: false,
    };
    for (name, file, length) in files {
        reader.file(&name, io::Read::take(file, length))?;
        if reader.found.misfit.is_some() {
            break;
        }
    }
    Ok(reader.end(&place))
}

type Opened = (PathBuf, File, u64);

/// Opens all files, the oldest first, at a moment at which nobody writes, and what is noted as the
/// last line at that moment. What is open stays what it is, whatever its name becomes.
fn open(place: &Place) -> io::Result<(Vec<Opened>, Option<Link>)> {
    let mut current = None;
    for _ in 0..TRIES {
        let Some(file) = place.read(0)? else { break };
        // One that was stopped while it wrote is not waited for.
        let _ = wait_for_lock(|| file.try_lock_shared(), |waited| waited >= LOCK_TIME);
        let is_there = place.is_there(&file)?;
        current = Some(file);
        if is_there {
            break;
        }
    }
    let mut files = Vec::new();
    for number in place.numbers()? {
        if let Some(file) = place.read(number)? {
            let length = file.metadata()?.len();
            files.push((place.numbered(number).into(), file, length));
        }
    }
    let head = place.head()?;
    if let Some(file) = current {
        let length = file.metadata()?.len();
        let _ = file.unlock();
        files.push((place.numbered(0).into(), file, length));
    }
    Ok((files, head))
}

struct Reader<'p> {
    directory: &'p Path,
    found: Verified,
    /// The line before, and its hash.
    last: Option<(Spot, Link)>,
    /// Whether a record was read that says what it follows.
    is_chained: bool,
    head: Option<Link>,
    is_head_seen: bool,
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
            self.is_head_seen |= self.head == Some(link);
            self.last = Some((spot, link));
        }
        Ok(())
    }

    fn line(&mut self, spot: &Spot, line: &Line) -> Result<(), String> {
        let record = line::read(&line.text).filter(|_| line.length <= MAX_LINE);
        let Some(record) = record else {
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
            self.found.unchained += 1;
            return Ok(());
        };
        let prev = Link::parse(prev).ok_or("names no line that it follows: it was changed")?;
        match &self.last {
            // Nobody can tell what was before.
            None => {
                self.found.is_from_the_beginning = prev == Link::BEGINNING;
                self.is_head_seen |= self.head == Some(prev);
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

    /// Looks whether the end is there as well.
    fn end(mut self, place: &Place) -> Verified {
        self.found.last = self.last.as_ref().map(|(_, link)| link.to_string());
        let is_known = |head: &Link| *head == Link::BEGINNING || self.is_head_seen;
        let reason = match &self.head {
            Some(head) if is_known(head) => None,
            Some(_) => Some(
                "is not the line that was noted as the last one: it was changed, or those behind \
                 it were removed, or the machine lost power before they were on the disk"
                    .to_owned(),
            ),
            None if self.is_chained => {
                let head = self.directory.join(place.head_name());
                let head = head.display();
                Some(format!(
                    "is the last one, and {head} does not say that: it was removed or changed"
                ))
            }
            None => None,
        };
        if let (None, Some(reason)) = (&self.found.misfit, reason) {
            let spot = self.last.map(|(spot, _)| spot).unwrap_or_else(|| Spot {
                file: self.directory.join(place.numbered(0)),
                line: 0,
            });
            self.found.misfit = Some(Misfit { spot, reason });
        }
        self.found
    }
}
