//! Small files that a configuration names: certificates, variables, secrets. Reading one never waits
//! for somebody else, and is bounded.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read as _},
    path::Path,
};

use crate::owners::Owners;

/// What a file is, as the open one says it, so that it cannot be another by now.
struct Opened {
    file: File,
    metadata: Metadata,
}

/// What a regular file holds.
///
/// # Errors
/// When it cannot be read, is none (a pipe, a directory, a device), or is longer than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    contents(open(path)?, most)
}

/// As [`read`], for a file of text.
///
/// # Errors
/// Those of [`read`], and when it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

/// Reads a text file that must belong to `owners`, and that no other user may write.
///
/// # Errors
/// Those of [`read_text`], and a [`ForeignError`](crate::owners::ForeignError) inside of the error.
pub fn read_own_text(path: &Path, most: u64, owners: &Owners) -> io::Result<String> {
    let opened = open(path)?;
    owners
        .check(path, &opened.metadata)
        .map_err(io::Error::other)?;
    text(contents(opened, most)?)
}

/// As [`read`], for a file that holds a secret: others than its owner and its group must not be able
/// to read or write it. The group may, for that is how a secret is shared with the programs that need
/// it; and others may read what the system itself has put below `/run` (root's files there), for that
/// is how platforms hand a secret to what runs in a container. The owner is this user or root, or anyone below
/// `/run/secrets`, where files that a platform mounts may have their owners outside of the container.
///
/// # Errors
/// Those of [`read`], and when others can read or write it.
pub fn read_secret(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let opened = open(path)?;
    if let Some(owner) = foreign_owner(path, &opened.metadata) {
        let shown = orchestra_fs::quoted(path);
        return Err(io::Error::other(format!(
            "it belongs to another user (uid {owner}), who can read and change it; run `chown \"$(id -u)\" {shown}`"
        )));
    }
    if let Some(mode) = open_to_others(path, &opened.metadata) {
        let shown = orchestra_fs::quoted(path);
        return Err(io::Error::other(format!(
            "it is open to others (mode {mode:03o}); run `chmod o= {shown}`"
        )));
    }
    contents(opened, most)
}

fn open(path: &Path) -> io::Result<Opened> {
    // direct: a configuration may name a link, as secrets that a platform mounts are.
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        // A pipe would hold us up, and a terminal could become ours.
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(wrong("it is no regular file"));
    }
    Ok(Opened { file, metadata })
}

fn contents(opened: Opened, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    opened.file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it is longer than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8 text"))
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::other(what)
}

/// The mode of a file that others can read or write although they should not.
#[cfg(unix)]
fn open_to_others(path: &Path, metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let mode = metadata.mode() & 0o777;
    let real = std::fs::canonicalize(path);
    let is_systems = metadata.uid() == 0 && real.is_ok_and(|real| is_below_run(&real));
    (mode & forbidden(is_systems) != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_to_others(_path: &Path, _metadata: &Metadata) -> Option<u32> {
    None
}

/// The owner of a file, if another user than this one and root.
#[cfg(unix)]
fn foreign_owner(path: &Path, metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let owner = metadata.uid();
    let is_ours = owner == 0 || owner == rustix::process::geteuid().as_raw();
    let is_mounted = || {
        let real = std::fs::canonicalize(path);
        real.is_ok_and(|real| {
            let mut mounts = ["/run/secrets", "/var/run/secrets"].iter();
            mounts.any(|mount| real.starts_with(mount))
        })
    };
    (!is_ours && !is_mounted()).then_some(owner)
}

#[cfg(not(unix))]
fn foreign_owner(_path: &Path, _metadata: &Metadata) -> Option<u32> {
    None
}

/// What others must not be able to do with a secret.
#[cfg(unix)]
const fn forbidden(is_systems: bool) -> u32 {
    match is_systems {
        true => 0o002,
        false => 0o007,
    }
}

/// Whether a path without links leads to where the system mounts what programs are given.
#[cfg(unix)]
fn is_below_run(real: &Path) -> bool {
    ["/run", "/var/run"].iter().any(|run| real.starts_with(run))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

    use super::*;

    fn said<T>(result: io::Result<T>) -> String {
        match result {
            Ok(_) => "read".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Whoever waited here would wait for ever.
    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for path in [&pipe, &link, &directory.path().to_owned()] {
            for said in [said(read(path, 9)), said(read_secret(path, 9))] {
                assert_eq!(said, "it is no regular file", "{}", path.display());
            }
        }
    }

    #[test]
    fn what_others_can_reach_is_no_secret() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        fs::write(&path, "hunter").unwrap();
        for (mode, is_read) in [
            (0o600, true),
            (0o400, true),
            (0o640, true),
            (0o660, true),
            (0o644, false),
            (0o604, false),
            (0o602, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let said = said(read_secret(&path, 9));
            assert_eq!(said == "read", is_read, "{mode:o}: {said}");
            assert_eq!(said.contains("chmod o= /"), !is_read, "{mode:o}: {said}");
        }
        assert_eq!(said(read(&path, 5)), "it is longer than 5 bytes");
        assert_eq!(read(&path, 6).unwrap(), b"hunter");
    }

    #[test]
    fn secret_of_another_user_is_refused() {
        // Only root can give a file away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        fs::write(&path, "hunter").unwrap();
        for mode in [0o600, 0o640] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            std::os::unix::fs::chown(&path, Some(4242), None).unwrap();
            let refused = said(read_secret(&path, 9));
            assert!(refused.contains("another user (uid 4242)"), "{refused}");
            std::os::unix::fs::chown(&path, Some(0), None).unwrap();
            assert_eq!(said(read_secret(&path, 9)), "read");
        }
    }

    #[test]
    fn what_the_system_mounts_may_be_read_by_all_and_written_by_none() {
        for (path, expected) in [
            ("/run/secrets/token", true),
            ("/var/run/secrets/kubernetes.io/serviceaccount/token", true),
            ("/home/me/run/secrets/token", false),
            ("/runs/token", false),
        ] {
            assert_eq!(is_below_run(&PathBuf::from(path)), expected, "{path}");
        }
        assert_eq!((0o644 & forbidden(true), 0o646 & forbidden(true)), (0, 2));
        assert_ne!(0o644 & forbidden(false), 0);
    }
}
