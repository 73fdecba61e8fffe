//! What is noted of the chain in a file beside it: which line is the last, what the first one that
//! is kept follows, and which will be the last while lines are on their way.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::FileExt as _,
};

use super::{Fsync, chain::Link, place::Place};

/// A link, and the end of its line.
const LINE: u64 = 65;

/// What is noted of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    /// The hash of the last line.
    pub(super) last: Link,
    /// What the first line that is kept follows; `None` where a program of before said nothing of it.
    pub(super) first: Option<Link>,
    /// The hash of the last line once all are written that are on their way; that of the last one
    /// where none is. `None` as with `first`.
    pub(super) next: Option<Link>,
}

impl Note {
    /// Of a chain that begins and ends so, and into which nobody writes.
    pub(super) const fn settled(first: Link, last: Link) -> Self {
        Self {
            last,
            first: Some(first),
            next: Some(last),
        }
    }

    /// Whether nothing was on its way when it was made. Whoever is killed meanwhile leaves it so, and
    /// then lines may stand behind the last one.
    pub(super) fn is_settled(&self) -> bool {
        self.next == Some(self.last)
    }

    /// What stands in the file; `None` where nothing is noted.
    pub(super) fn read(place: &Place) -> io::Result<Option<Self>> {
        let Some(file) = place.read_note()? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(3 * LINE).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut links = text.lines().map(Link::parse);
        let Some(last) = links.next().flatten() else {
            return Ok(None);
        };
        Ok(Some(Self {
            last,
            first: links.next().flatten(),
            next: links.next().flatten(),
        }))
    }

    /// Writes it, and makes sure of it where each record is.
    pub(super) fn write(&self, place: &Place, fsync: Fsync) -> io::Result<()> {
        let file: File = place.write_note()?;
        let first = self.first.unwrap_or(Link::BEGINNING);
        let next = self.next.unwrap_or(self.last);
        // As long as the one before, so that it is whole at each moment.
        let text = format!("{}\n{first}\n{next}\n", self.last);
        file.write_all_at(text.as_bytes(), 0)?;
        match fsync {
            Fsync::Always => file.sync_data(),
            Fsync::Never | Fsync::Interval => Ok(()),
        }
    }
}
