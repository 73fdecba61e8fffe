//! Puts files aside, and removes those that are too many or too old.

use std::{
    io,
    time::{Instant, SystemTime},
};

use super::{Note, Writer, chain};

impl Writer {
    /// Puts aside and removes what is too old although nothing is recorded, where nobody else is at
    /// it.
    pub(super) fn tidy_or_warn(&mut self) {
        if let Err(error) = self.tidy() {
            tracing::warn!(%error, path = %self.config.path.display(), "cannot remove old audit files");
        }
    }

    fn tidy(&mut self) -> io::Result<()> {
        let is_any = self.file.metadata()?.len() > 0 || !self.place.numbers()?.is_empty();
        if !is_any || !self.lock(|_| true)? {
            return Ok(());
        }
        // Only what is written ends a torn line.
        self.lines.clear();
        let tidied = match self.length > 0 && self.is_full(SystemTime::now()) {
            true => self.rotate(),
            false => {
                self.sweep();
                Ok(())
            }
        };
        tidied.and(self.file.unlock())
    }

    /// Puts the locked file aside, and locks the one that follows it.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        let keep = self.config.keep;
        self.remove_from(keep.max(1))?;
        for number in (1..keep).rev() {
            self.place.rename_if_there(number, number + 1)?;
        }
        if keep > 0 {
            self.place.rename_if_there(0, 1)?;
        } else {
            self.begin_after(self.link)?;
            self.place.remove(0)?;
        }
        self.lock_for_records()?;
        self.sweep();
        Ok(())
    }

    /// Removes older files whose records are all too old, and those that are more than are kept.
    pub(super) fn sweep(&mut self) {
        self.swept = Some(Instant::now());
        if let Err(error) = self.try_sweep() {
            tracing::warn!(%error, path = %self.config.path.display(), "cannot remove old audit files");
        }
    }

    fn try_sweep(&mut self) -> io::Result<()> {
        let too_many = self.config.keep + 1;
        let most = self.config.max_age;
        let before = most.and_then(|most| SystemTime::now().checked_sub(most));
        let too_old = match before {
            Some(before) => self.place.too_old(before)?,
            None => None,
        };
        self.remove_from(too_old.map_or(too_many, |number| number.min(too_many)))
    }

    /// Removes the older files from this number on. Where the chain begins then is noted before, so
    /// that whoever is killed in between leaves more than is noted, and not less.
    fn remove_from(&mut self, number: usize) -> io::Result<()> {
        let mut numbers = self.place.numbers()?;
        numbers.retain(|there| *there >= number && matches!(self.place.read(*there), Ok(Some(_))));
        for newest in numbers.iter().rev() {
            let Some(file) = self.place.read(*newest)? else {
                continue;
            };
            let length = file.metadata()?.len();
            if let Some(tail) = chain::tail(&file, length)? {
                self.begin_after(tail.link)?;
                break;
            }
        }
        let mut numbers = numbers.into_iter();
        numbers.try_for_each(|number| self.place.remove(number))
    }

    /// Notes that the first line that is kept follows this one.
    fn begin_after(&mut self, first: chain::Link) -> io::Result<()> {
        let first = Some(first);
        self.set_note(Note { first, ..self.note })
    }
}
