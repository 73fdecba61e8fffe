//! Files that differ from the index although nobody has changed them since they were checked out: attributes of
//! line endings, filters, encodings and file modes that a checkout and back do not preserve. They are no work
//! of a job.
//!
//! A file is unchanged if it has exactly the bytes that the index has, unconverted, or if it is as
//! [`Tree::note_checkout`] noted it directly after the checkout of the worktree or of a submodule in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use sha2::{Digest as _, Sha256};

use super::{
    GitError,
    call::Call,
    files,
    nested::Tree,
    status::{Compared, Sameness, Status},
};
use crate::hex::hex;

/// Name of the file with what differed after the checkout, in the git directory of the working tree.
const FILE: &str = "orchestra-checkout";

/// Maximum size of that file: more than git lists in one answer.
const MOST: u64 = 256 << 20;

/// Maximum size of an index of which every file is compared by its content, some 2,500 files. Of a larger one git
/// compares those that were written in the second of the index.
const SMALL_INDEX: u64 = 256 << 10;

/// Time by which the clock of a file system may be behind that of the system.
const LAG: Duration = Duration::from_millis(20);

/// Longest wait until files and the index differ in their second.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

const OPERATION: &str = "look for files that a checkout changes";

/// A file as it was checked out.
#[derive(Debug, PartialEq, Eq)]
struct Noted {
    is_executable: bool,
    digest: String,
}

impl Tree {
    /// Notes the files that git takes for changed although they were just checked out, and has git take those for
    /// unchanged whose content alone is converted. No process may be at work in the working tree.
    pub(super) async fn note_checkout(&self) -> Result<(), GitError> {
        let index = self.index.clone();
        let failed = |source| GitError::File {
            operation: OPERATION,
            path: index.clone(),
            source,
        };
        let Ok(data) = fs::metadata(&index) else {
            return self.write_noted(&[]);
        };
        let written = data.modified().map_err(failed)?;
        let is_small = data.len() <= SMALL_INDEX;
        if is_small {
            // Git compares the content of files that are not older than the index.
            set_modified(&index, UNIX_EPOCH + Duration::from_secs(1)).map_err(failed)?;
        }
        let arguments = ["diff-files", "-z", "--ignore-submodules=all"];
        let call = self.call(OPERATION, arguments).takes_files();
        let answer = call.run().await;
        if is_small {
            set_modified(&index, written).map_err(failed)?;
        }
        let answer = answer?;
        let (mut paths, mut is_converted) = (Vec::new(), false);
        let mut fields = answer.fields();
        while let (Some(modes), Some(path)) = (fields.next(), fields.next()) {
            let mut modes = modes.split(|byte| *byte == b' ');
            let before = modes.next().and_then(|mode| mode.strip_prefix(b":"));
            is_converted |= before == modes.next();
            paths.push(PathBuf::from(OsStr::from_bytes(path)));
        }
        let root = self.root.clone();
        let noted = off_thread(&self.root, move || {
            let noted = paths.into_iter().filter_map(|path| {
                let noted = look(&root.join(&path))?;
                Some((path, noted))
            });
            noted.collect::<Vec<_>>()
        });
        self.write_noted(&noted.await?)?;
        if is_converted {
            settle(&index, written).await.map_err(failed)?;
        }
        Ok(())
    }

    fn write_noted(&self, noted: &[(PathBuf, Noted)]) -> Result<(), GitError> {
        let file = self.directory.join(FILE);
        if noted.is_empty() {
            return match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(GitError::File {
                    operation: OPERATION,
                    path: file,
                    source: error,
                }),
                _ => Ok(()),
            };
        }
        let mut content = Vec::new();
        for (path, noted) in noted {
            content.push(if noted.is_executable { b'x' } else { b'-' });
            content.extend_from_slice(noted.digest.as_bytes());
            content.extend_from_slice(path.as_os_str().as_bytes());
            content.push(0);
        }
        files::replace(&file, &content)
    }

    /// Leaves files out of a status that are as they were checked out.
    pub(super) async fn leave_out_unchanged(&self, status: &mut Status) -> Result<(), GitError> {
        if status.compared().is_empty() {
            return Ok(());
        }
        let file = self.directory.join(FILE);
        let all = off_thread(&self.root, move || read_noted(&file)).await??;
        let compared = status.compared().iter();
        let known: Vec<PathBuf> = compared
            .map(|compared| compared.path.clone())
            .filter(|path| all.contains_key(path))
            .collect();
        let root = self.root.clone();
        let now = off_thread(&self.root, move || {
            let now = known.into_iter().filter_map(|path| {
                let noted = look(&root.join(&path))?;
                Some((path, noted))
            });
            now.collect::<BTreeMap<_, _>>()
        });
        let now = now.await?;
        let is_noted = |compared: &&Compared| {
            let path = &compared.path;
            now.contains_key(path) && now.get(path) == all.get(path)
        };
        let compared = status.compared().iter();
        let others: Vec<&Compared> = compared.filter(|compared| !is_noted(compared)).collect();
        let call = self.call(HASH, HASHED);
        let stored = stored_as_is(call, &self.root, &others).await?;
        status.leave_out(|compared| {
            let (now, then) = (now.get(&compared.path), all.get(&compared.path));
            let noted = now.zip(then);
            Sameness {
                content: stored.contains(&compared.path)
                    || noted.is_some_and(|(now, then)| now.digest == then.digest),
                mode: noted.is_some_and(|(now, then)| now.is_executable == then.is_executable),
            }
        });
        Ok(())
    }
}

/// Reads what [`Tree::note_checkout`] has written.
fn read_noted(file: &Path) -> Result<BTreeMap<PathBuf, Noted>, GitError> {
    let content = files::read(file, MOST)?.unwrap_or_default();
    let lines = content.split(|byte| *byte == 0);
    let noted = lines.filter_map(|line| {
        let (mode, rest) = line.split_first()?;
        let (digest, path) = rest.split_at_checked(64)?;
        let noted = Noted {
            is_executable: *mode == b'x',
            digest: String::from_utf8(digest.to_vec()).ok()?,
        };
        Some((PathBuf::from(OsStr::from_bytes(path)), noted))
    });
    Ok(noted.collect())
}

/// Leaves files out of the status of a working tree of the user that have exactly the bytes that the index has,
/// and returns them. The call is one of git in that working tree.
pub(super) async fn leave_out_stored(
    status: &mut Status,
    root: &Path,
    call: impl FnOnce(&'static str, [&'static str; 3]) -> Call,
) -> Result<BTreeSet<PathBuf>, GitError> {
    if status.compared().is_empty() {
        return Ok(BTreeSet::new());
    }
    let compared: Vec<&Compared> = status.compared().iter().collect();
    let stored = stored_as_is(call(HASH, HASHED), root, &compared).await?;
    status.leave_out(|compared| Sameness {
        content: stored.contains(&compared.path),
        mode: false,
    });
    Ok(stored)
}

/// Exit code of git that cannot read a file.
const UNREADABLE: i32 = 128;

/// How the objects of files are named that are not converted.
const HASH: &str = "name the content of files";
const HASHED: [&str; 3] = ["hash-object", "--no-filters", "--stdin-paths"];

/// Returns the paths of files that have exactly the bytes that the index has. The call has the operation [`HASH`]
/// and the arguments [`HASHED`].
async fn stored_as_is(
    call: Call,
    root: &Path,
    compared: &[&Compared],
) -> Result<BTreeSet<PathBuf>, GitError> {
    let paths = compared.iter().map(|it| root.join(&it.path));
    let paths: Vec<PathBuf> = paths.collect();
    // Git ends at the first file that it cannot read.
    let readable = off_thread(root, move || {
        let opened = paths.iter().map(|path| orchestra_fs::open(path));
        opened.map(|file| matches!(file, Ok(Some(_)))).collect()
    });
    let readable: Vec<bool> = readable.await?;
    let files = compared.iter().zip(readable);
    let files: Vec<&Compared> = files
        .filter_map(|(it, readable)| readable.then_some(*it))
        .collect();
    if files.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut input = Vec::new();
    for compared in &files {
        input.extend_from_slice(&quoted(compared.path.as_os_str().as_bytes()));
        input.push(b'\n');
    }
    // One that is gone meanwhile is changed, and so are those after it.
    let answer = call.input(input).accept(&[0, UNREADABLE]).run().await?;
    let text = answer.text();
    let pairs = files.iter().zip(text.lines());
    let same = pairs.filter(|(compared, object)| compared.object == *object);
    Ok(same.map(|(compared, _)| compared.path.clone()).collect())
}

/// A path as git reads it from a line.
fn quoted(path: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => quoted.extend_from_slice(&[b'\\', *byte]),
            0..0x20 | 0x7f => quoted.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// A file as it is now; `None` if it is neither a file nor a link.
fn look(path: &Path) -> Option<Noted> {
    let data = path.symlink_metadata().ok()?;
    let mut digest = Sha256::new();
    if data.is_symlink() {
        digest.update(fs::read_link(path).ok()?.as_os_str().as_bytes());
    } else if data.is_file() {
        // A pipe that takes its place is not waited for.
        let mut file = orchestra_fs::open(path).ok()??;
        let mut part = vec![0; 64 << 10];
        loop {
            match file.read(&mut part).ok()? {
                0 => break,
                length => digest.update(&part[..length]),
            }
        }
    } else {
        return None;
    }
    let digest = hex(&digest.finalize());
    Some(Noted {
        is_executable: data.permissions().mode() & 0o100 != 0,
        digest,
    })
}

/// Sets the time of an index to the second after that in which its files were written. Git then compares their
/// times alone, as it does in a checkout that took longer, and neither it nor `git add` of a job takes a
/// converted file for changed. Later changes have later times, so that none is missed.
async fn settle(index: &Path, written: SystemTime) -> io::Result<()> {
    let since = written.duration_since(UNIX_EPOCH).unwrap_or_default();
    let next = UNIX_EPOCH + Duration::from_secs(since.as_secs() + 1);
    let wait = next.duration_since(SystemTime::now()).unwrap_or_default();
    if wait > LONGEST_WAIT {
        // The clock of the file system is ahead.
        return Ok(());
    }
    tokio::time::sleep(wait + LAG).await;
    set_modified(index, next)
}

fn set_modified(file: &Path, time: SystemTime) -> io::Result<()> {
    // direct: only the time of the file is written.
    File::options().write(true).open(file)?.set_modified(time)
}

async fn off_thread<T: Send + 'static>(
    root: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, GitError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| GitError::File {
        operation: OPERATION,
        path: root.to_owned(),
        source: io::Error::other(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_with_a_line_break_is_one_line() {
        assert_eq!(quoted(b"a\n\"b\\\xff"), b"\"a\\012\\\"b\\\\\xff\"");
    }
}
