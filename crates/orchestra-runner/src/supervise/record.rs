//! The files of a run, by which it is found.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use orchestra_fs::Access;
use orchestra_process::{Process, numbering};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::{Ending, RunId};

/// The version of both files.
const VERSION: u32 = 1;

/// Most bytes of a file of a run; both are a few hundred.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// So that no two of one process write aside at one place.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// How many bytes are reserved for how a run ended.
const RESERVED: usize = 1024;

/// The first line of the file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    v: u32,
    pub(crate) id: RunId,
    /// Who supervises it; nobody when it was decided that it never begins.
    pub(crate) supervisor: Option<WireProcess>,
    /// Head and tail of the bytes that are kept.
    pub(crate) raw: [u64; 2],
    /// What ids of processes counted in.
    #[serde(default)]
    numbering: Option<String>,
}

/// What every version says.
#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

/// The second line, when the command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Started {
    pub(crate) guard: Option<WireProcess>,
    pub(crate) command: WireProcess,
}

/// A process in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireProcess {
    id: u32,
    began: Option<u64>,
}

/// How a run ended, in its file.
#[derive(Debug, Serialize, Deserialize)]
struct Ended {
    v: u32,
    id: RunId,
    ending: Ending,
}

/// The files of one run.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    directory: PathBuf,
    id: RunId,
}

impl From<Process> for WireProcess {
    fn from(process: Process) -> Self {
        Self {
            id: process.id(),
            began: process.began(),
        }
    }
}

impl WireProcess {
    /// It, unless the system has given its id to another one since.
    pub(crate) fn find(self) -> Option<Process> {
        Process::find(self.id, self.began)
    }

    /// As it was found, whether or not it is there.
    pub(crate) fn known(self) -> Option<Process> {
        Process::known(self.id, self.began)
    }
}

impl Begun {
    pub(crate) fn new(id: &RunId, supervisor: Option<Process>, raw: [u64; 2]) -> Self {
        Self {
            v: VERSION,
            id: id.clone(),
            supervisor: supervisor.map(WireProcess::from),
            raw,
            numbering: numbering(),
        }
    }

    /// Whether the ids of its processes still mean them: neither was the system started anew since, nor the
    /// container.
    pub(crate) fn is_of_now(&self) -> bool {
        self.numbering.is_none() || self.numbering == numbering()
    }
}

impl Record {
    pub(crate) fn new(directory: &Path, id: &RunId) -> Self {
        Self {
            directory: directory.to_owned(),
            id: id.clone(),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn run_path(&self) -> PathBuf {
        self.directory.join(format!("{}.run", self.id.stem()))
    }

    fn exit_path(&self) -> PathBuf {
        self.directory.join(format!("{}.exit.json", self.id.stem()))
    }

    /// Makes the file of the run, if nobody has before: `AlreadyExists` then. It is there with its first
    /// line, or is not there, so that nobody who looks meanwhile takes one who is slow for one who is gone.
    /// It may be gone after the machine has stopped.
    pub(crate) fn begin(&self, begun: &Begun) -> io::Result<File> {
        if self.has_begun() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // Whoever had this name before was killed, or began in another container.
        let (stem, pid) = (self.id.stem(), std::process::id());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let aside = self
            .directory
            .join(format!(".{stem}.run.{pid}.{number}.tmp"));
        // Left behind by a process of the same id.
        orchestra_fs::remove(&aside)?;
        let mut file = orchestra_fs::create_new(&aside, Access::Private)?;
        append(&mut file, begun)?;
        let path = self.run_path();
        match renameat_with(CWD, &aside, CWD, &path, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(file),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(error) => {
                std::fs::remove_file(&aside)?;
                return Err(error.into());
            }
        }
        // A file system that cannot: two steps, and who supervises looks for an end before it starts anything.
        std::fs::remove_file(&aside)?;
        let mut file = orchestra_fs::create_new(&path, Access::Private)?;
        append(&mut file, begun)?;
        Ok(file)
    }

    /// What the file of the run says; `None` when there is none, and nothing of what is not whole. A
    /// file of another run that lies there says nothing.
    pub(crate) fn begun(&self) -> io::Result<Option<(Option<Begun>, Option<Started>)>> {
        let Some(bytes) = read(&self.run_path())? else {
            return Ok(None);
        };
        let mut lines = bytes.split(|byte| *byte == b'\n');
        if let Some(Ok(Versioned { v })) = lines.clone().next().map(serde_json::from_slice)
            && v != VERSION
        {
            return Err(io::Error::other(format!(
                "a run was begun by another version of this program (form {v}, not {VERSION}); let that one see it to its end"
            )));
        }
        let first = lines
            .next()
            .and_then(|line| serde_json::from_slice(line).ok());
        let first = first.filter(|begun: &Begun| begun.id == self.id);
        let second = lines
            .next()
            .and_then(|line| serde_json::from_slice(line).ok());
        Ok(Some((first, second)))
    }

    /// Whether the run has begun, or was found never to begin.
    pub(crate) fn has_begun(&self) -> bool {
        self.run_path().exists()
    }

    /// Takes the room in which it will be written how the run ended, while there is some.
    pub(crate) fn reserve(&self) -> io::Result<()> {
        self.open_temp()?.write_all(&[b' '; RESERVED])
    }

    fn temp_path(&self) -> PathBuf {
        self.directory.join(format!(".{}.exit.tmp", self.id.stem()))
    }

    fn open_temp(&self) -> io::Result<File> {
        Ok(orchestra_fs::open_or_create(
            &self.temp_path(),
            Access::Private,
        )?)
    }

    /// Writes how it ended, whole or not at all, and so that it is there after a machine has stopped.
    pub(crate) fn end(&self, ending: &Ending) -> io::Result<()> {
        let ended = Ended {
            v: VERSION,
            id: self.id.clone(),
            ending: ending.clone(),
        };
        let mut line = serde_json::to_vec(&ended)?;
        // Space behind it says nothing, and needs no room that is not there.
        line.resize(line.len().max(RESERVED), b' ');
        let mut file = self.open_temp()?;
        file.write_all(&line)?;
        Ok(orchestra_fs::publish(&self.temp_path(), &self.exit_path())?)
    }

    /// How it ended, if that is known.
    pub(crate) fn ending(&self) -> io::Result<Option<Ending>> {
        let bytes = read(&self.exit_path())?;
        let ended = bytes.and_then(|bytes| serde_json::from_slice::<Ended>(&bytes).ok());
        let ended = ended.filter(|ended| ended.id == self.id && ended.v == VERSION);
        Ok(ended.map(|ended| ended.ending))
    }
}

pub(crate) fn append(file: &mut File, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    file.write_all(&line)
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    Ok(orchestra_fs::read(path, MAX_FILE_BYTES)?)
}

/// The lock of an attempt, made when it is not there.
pub(crate) fn lock_file(directory: &Path) -> io::Result<File> {
    Ok(orchestra_fs::open_or_create(
        &directory.join("attempt.lock"),
        Access::Private,
    )?)
}

/// Whether an attempt is not where it was any more, as when somebody has deleted its directory: its lock,
/// which we have open, is not found there. What cannot be looked at now is taken to be there.
pub(crate) fn is_gone(directory: &Path, lock: &File) -> bool {
    match std::fs::metadata(directory.join("attempt.lock")) {
        Ok(there) => lock
            .metadata()
            .is_ok_and(|ours| (there.dev(), there.ino()) != (ours.dev(), ours.ino())),
        Err(error) => matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
    }
}

/// Whether a supervisor holds the lock of an attempt.
pub(crate) fn is_locked(directory: &Path) -> io::Result<bool> {
    // Nobody waits for long who comes at the same moment: it is freed at once.
    Ok(orchestra_fs::is_locked(&directory.join("attempt.lock"))?)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    #[test]
    fn the_file_of_a_run_is_never_seen_without_its_first_line() {
        let home = tempfile::tempdir().unwrap();
        let records: Arc<Vec<Record>> = Arc::new(
            (1..=500)
                .map(|run| Record::new(home.path(), &RunId::new("job", 1, "work", run).unwrap()))
                .collect(),
        );
        let seen = Arc::clone(&records);
        let looks = thread::spawn(move || {
            for record in seen.iter() {
                loop {
                    if let Some((first, _)) = record.begun().unwrap() {
                        assert!(first.is_some(), "{} is empty", record.id.name());
                        break;
                    }
                }
            }
        });
        for record in records.iter() {
            let begun = Begun::new(&record.id, Some(Process::this()), [0, 0]);
            record.begin(&begun).unwrap();
            let again = record.begin(&begun).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        }
        looks.join().unwrap();
        let left = std::fs::read_dir(home.path()).unwrap().count();
        assert_eq!(left, records.len());
    }

    #[test]
    fn who_began_under_another_numbering_is_not_of_now() {
        let id = RunId::new("job", 1, "work", 1).unwrap();
        let begun = Begun::new(&id, Some(Process::this()), [0, 0]);
        assert!(begun.is_of_now());
        let other = Begun {
            numbering: Some("another start of the machine".to_owned()),
            ..begun.clone()
        };
        assert_eq!(other.is_of_now(), numbering().is_none());
        // Nobody said it then.
        let silent = Begun {
            numbering: None,
            ..begun
        };
        assert!(silent.is_of_now());
    }
}
