//! Slots of this machine: so many jobs of a sort run at once, of all workspaces and programs of the user.
//!
//! A slot is a file that is locked. The system gives it back when all who have it open have ended. So a job
//! keeps its slot when its runner is killed: [`Slot::file`] is handed to its supervisor (as its standard
//! input or output is, by `Stdio::from` of a clone), and the lock is of both of them from then on.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_fs::{Directory, Lock};

/// The most slots of a sort.
const MAX_SLOTS: usize = 4_096;
/// How often a slot is looked for where all are taken, at first and at last: locks of files tell nobody that
/// they are free.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_LAST: Duration = Duration::from_millis(100);

/// Trouble with slots.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// What is no sort of job.
    #[error("the name of a kind of slots must have 1 to 32 letters of a-z")]
    Class,
    /// A file or directory cannot be used.
    #[error("cannot use {}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The slots of one sort.
#[derive(Debug, Clone)]
pub struct Slots {
    directory: PathBuf,
    class: String,
    count: usize,
}

/// A slot that is taken, until this is dropped and nobody else has its file open.
#[derive(Debug)]
pub struct Slot {
    lock: Lock,
    number: usize,
}

impl Slot {
    /// The file whose lock it is. Who is given a clone of it has the slot as well, and keeps it.
    #[must_use]
    pub const fn file(&self) -> &File {
        self.lock.file()
    }

    /// Which slot it is.
    #[must_use]
    pub const fn number(&self) -> usize {
        self.number
    }
}

impl Slots {
    /// `count` slots of a sort in a directory. Programs that count differently share those that both count.
    ///
    /// # Errors
    /// When the sort has no fit name, or the directory cannot be made.
    pub fn new(directory: &Path, class: &str, count: usize) -> Result<Self, SlotError> {
        let is_plain = class.bytes().all(|byte| byte.is_ascii_lowercase());
        if !is_plain || !(1..=32).contains(&class.len()) {
            return Err(SlotError::Class);
        }
        Directory::private(directory).map_err(|error| SlotError::Io {
            path: directory.to_owned(),
            source: error.into_cause(),
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            class: class.to_owned(),
            count: count.clamp(1, MAX_SLOTS),
        })
    }

    /// How many of the slots of a sort are free now. Makes nothing, and takes none for longer than a moment.
    /// May block for as long as files are opened.
    #[must_use]
    pub fn free(directory: &Path, class: &str, count: usize) -> usize {
        let count = count.clamp(1, MAX_SLOTS);
        let is_free = |number: &usize| {
            let is_taken = orchestra_fs::is_locked(&directory.join(format!("{class}-{number}")));
            // One that cannot be looked at is not known to be taken.
            !is_taken.unwrap_or(false)
        };
        (0..count).filter(is_free).count()
    }

    /// Takes a slot, if one is free.
    ///
    /// # Errors
    /// When its file cannot be made or locked.
    pub fn try_acquire(&self) -> Result<Option<Slot>, SlotError> {
        // Whoever begins elsewhere than the others finds a free one sooner.
        let begin = random() % self.count;
        for number in (begin..self.count).chain(0..begin) {
            let path = self.directory.join(format!("{}-{number}", self.class));
            let lock = Lock::attempt(&path).map_err(|error| SlotError::Io {
                path,
                source: error.into_cause(),
            })?;
            if let Some(lock) = lock {
                return Ok(Some(Slot { lock, number }));
            }
        }
        Ok(None)
    }

    /// Waits until a slot is free, and takes it. May be cancelled.
    ///
    /// # Errors
    /// Those of [`Slots::try_acquire`].
    pub async fn acquire(&self) -> Result<Slot, SlotError> {
        let mut look = LOOK_FIRST;
        loop {
            if let Some(slot) = self.try_acquire()? {
                return Ok(slot);
            }
            let spread = u32::try_from(random() % 1_000).unwrap_or(0);
            tokio::time::sleep(look / 2 + look * spread / 2_000).await;
            look = (look * 2).min(LOOK_LAST);
        }
    }
}

/// A number that others do not draw at the same time; without randomness, one that is always the same.
fn random() -> usize {
    getrandom::u32().map_or(0, |number| usize::try_from(number).unwrap_or(0))
}
