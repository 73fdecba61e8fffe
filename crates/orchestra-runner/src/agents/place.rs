//! Files within a worktree that are reached without following a link: a job may have put links where
//! we write and read, and no path of ours may lead through one. The files of git are none of them: their settings name
//! programs.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, unlinkat},
    io::Errno,
};

/// The directory of a worktree that is ours: it is never committed.
pub const PRIVATE_DIRECTORY: &str = ".orchestrator";

/// Name of the directory or file by which git finds a repository.
const GIT: &str = ".git";

const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::RDONLY);

/// Writes a file, making the directories that lead to it.
pub(super) fn write(root: &Path, path: &Path, contents: &[u8]) -> io::Result<()> {
    put(root, path, contents, OFlags::TRUNC)
}

/// Writes at the end of a file, which is made if it is not there.
pub(super) fn append(root: &Path, path: &Path, contents: &[u8]) -> io::Result<()> {
    put(root, path, contents, OFlags::APPEND)
}

/// Removes a file. One that is not there is no error.
pub(super) fn remove(root: &Path, path: &Path) -> io::Result<()> {
    let (directory, name) = match parent(root, path, false) {
        Ok(parent) => parent,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    match unlinkat(&directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads a file of at most so many bytes; a longer one is an error, as is anything but a file.
pub(super) fn read(root: &Path, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let (directory, name) = parent(root, path, false)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat(&directory, name, flags, Mode::empty())?;
    if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut contents = Vec::new();
    let mut bounded = File::from(file).take(max_bytes + 1);
    bounded.read_to_end(&mut contents)?;
    if contents.len() as u64 > max_bytes {
        let what = format!("it has more than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(contents)
}

fn put(root: &Path, path: &Path, contents: &[u8], how: OFlags) -> io::Result<()> {
    let (directory, name) = parent(root, path, true)?;
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat(&directory, name, flags | how, Mode::from_raw_mode(0o644))?;
    if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    File::from(file).write_all(contents)
}

/// The directory that holds `path`, and the last name.
fn parent<'a>(
    root: &Path,
    path: &'a Path,
    makes: bool,
) -> io::Result<(OwnedFd, &'a std::ffi::OsStr)> {
    let outside = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path leads out of the worktree",
        )
    };
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) if name.eq_ignore_ascii_case(GIT) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the path leads to files of git",
                ));
            }
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            _ => return Err(outside()),
        }
    }
    let last = names.pop().ok_or_else(outside)?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut directory = openat(CWD, root, flags, Mode::empty())?;
    for name in names {
        let next = openat(directory.as_fd(), name, DIRECTORY, Mode::empty());
        directory = match next {
            Err(Errno::NOENT) if makes => {
                match mkdirat(directory.as_fd(), name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(directory.as_fd(), name, DIRECTORY, Mode::empty())?
            }
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let what = format!("{} is no directory of its own", Path::new(name).display());
                return Err(io::Error::new(io::ErrorKind::NotADirectory, what));
            }
            next => next?,
        };
    }
    Ok((directory, last))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_written_read_and_removed_inside() {
        let root = tempfile::tempdir().unwrap();
        let path = Path::new("a/b/c.txt");
        write(root.path(), path, b"one").unwrap();
        append(root.path(), path, b" two").unwrap();
        assert_eq!(read(root.path(), path, 10).unwrap(), b"one two");
        assert!(read(root.path(), path, 6).is_err());
        remove(root.path(), path).unwrap();
        remove(root.path(), path).unwrap();
        remove(root.path(), Path::new("not/there")).unwrap();
        assert!(read(root.path(), path, 10).is_err());
    }

    #[test]
    fn files_of_git_are_refused() {
        let root = tempfile::tempdir().unwrap();
        for path in [".git", ".GIT", "a/.git", ".git/config"] {
            let path = Path::new(path);
            for refused in [
                write(root.path(), path, b"x"),
                append(root.path(), path, b"x"),
                remove(root.path(), path),
                read(root.path(), path, 100).map(drop),
            ] {
                let refusal = refused.unwrap_err().to_string();
                assert_eq!(refusal, "the path leads to files of git");
            }
        }
    }

    #[test]
    fn no_link_and_no_step_upwards_leads_out() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        symlink(outside.path(), root.path().join("link")).unwrap();
        symlink(outside.path().join("secret"), root.path().join("file")).unwrap();
        for path in ["link/secret", "file", "../secret", "/etc/passwd", "", "."] {
            let path = Path::new(path);
            assert!(
                write(root.path(), path, b"x").is_err(),
                "{}",
                path.display()
            );
            assert!(read(root.path(), path, 100).is_err(), "{}", path.display());
        }
        assert!(read(root.path(), Path::new("link"), 100).is_err());
        let kept = std::fs::read(outside.path().join("secret")).unwrap();
        assert_eq!(kept, b"secret");
    }
}
