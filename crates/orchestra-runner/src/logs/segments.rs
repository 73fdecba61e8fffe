//! Files with a head and a tail: the first bytes for good, then a row of pieces of which the last few
//! are kept.
//!
//! The head of `name` is the file `name`, its pieces are `name.1`, `name.2` and so on. By the numbers
//! and lengths one sees how much was written and how much is left out, also after a crash.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use orchestra_fs::Access;

/// Pieces of the tail that are kept: the one that grows and whole ones.
const KEPT: u64 = 3;

/// How much is kept of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the head.
    pub head: u64,
    /// Bytes of the tail; a piece of it is half of that, and three pieces may lie there.
    pub tail: u64,
}

impl Bounds {
    /// For what commands print: 16 MiB, of which the last 8 are certain.
    pub const RAW: Self = Self {
        head: 4 * 1024 * 1024,
        tail: 8 * 1024 * 1024,
    };
    /// For lines, whose frame is as long as a short line.
    pub const LINES: Self = Self {
        head: 4 * 1024 * 1024,
        tail: 8 * 1024 * 1024,
    };

    pub(crate) const fn piece(self) -> u64 {
        let half = self.tail / 2;
        if half == 0 { 1 } else { half }
    }
}

/// Where the files of one name lie.
#[derive(Debug, Clone)]
pub(crate) struct Segments {
    directory: PathBuf,
    name: String,
}

impl Segments {
    pub(crate) fn new(directory: &Path, name: &str) -> Self {
        Self {
            directory: directory.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The path of the head (0) or of a piece.
    pub(crate) fn path(&self, number: u64) -> PathBuf {
        match number {
            0 => self.directory.join(&self.name),
            _ => self.directory.join(format!("{}.{number}", self.name)),
        }
    }

    /// The files that are there, in order. One may be gone when it is opened.
    pub(crate) fn present(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(numbers),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix(&self.name));
            match rest {
                Some("") => numbers.push(0),
                Some(rest) => {
                    let number = rest.strip_prefix('.').and_then(|rest| rest.parse().ok());
                    numbers.extend(number.filter(|number: &u64| *number > 0));
                }
                None => {}
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Opens one to append to, made when it is not there, for its owner alone.
    pub(crate) fn open(&self, number: u64) -> io::Result<File> {
        Ok(orchestra_fs::append(&self.path(number), Access::Private)?)
    }

    /// Removes the pieces that are too old when `newest` is the one that grows.
    pub(crate) fn forget_before(&self, newest: u64) -> io::Result<()> {
        for number in self.present()? {
            if number > 0 && number + KEPT <= newest {
                match std::fs::remove_file(self.path(number)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Writes one name, from its beginning, alone. Bytes are cut wherever a file is full.
#[derive(Debug)]
pub(crate) struct ByteWriter {
    segments: Segments,
    bounds: Bounds,
    /// The file that grows, with its number and what is in it.
    current: Option<(File, u64, u64)>,
}

impl ByteWriter {
    pub(crate) const fn new(segments: Segments, bounds: Bounds) -> Self {
        Self {
            segments,
            bounds,
            current: None,
        }
    }

    /// Appends. The first file is made with the first byte.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (file, number, length) = match &mut self.current {
                Some(current) => current,
                None => self.current.insert((self.segments.open(0)?, 0, 0)),
            };
            let room = match number {
                0 => self.bounds.head,
                _ => self.bounds.piece(),
            }
            .saturating_sub(*length);
            if room == 0 {
                let next = *number + 1;
                let file = self.segments.open(next)?;
                self.current = Some((file, next, 0));
                self.segments.forget_before(next)?;
                continue;
            }
            let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            let (now, later) = bytes.split_at(fits);
            file.write_all(now)?;
            *length += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }
}
