//! Files and directories that are this user's alone, written so that a power cut leaves the old or the
//! new and never half of either.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::Path,
};

use rustix::fs::OFlags;

/// Makes a directory for this user alone, with those above it, and takes from a directory of ours what
/// lets others write in it.
///
/// # Errors
/// When it cannot be made, is a link or a file, or is another user's.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    if !is_ours(&found) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user",
        ));
    }
    let mode = found.permissions().mode();
    if mode & 0o022 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7755))?;
    }
    Ok(())
}

/// Makes a directory for this user alone where its parent is there; one that is there already is fine.
pub(crate) fn make_one(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;

    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Opens a file and nothing else: a link could lead anywhere, and a pipe would hold us up. One that is
/// made is for this user alone.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = options.clone();
    options.mode(0o600).custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    Ok(file)
}

/// Opens, or makes, a file that is only there to be locked.
pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    open(path, &options)
}

/// What a file of this user holds; `None` where there is none.
///
/// # Errors
/// When it cannot be read, is longer than `limit`, or others could have written it.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match open(path, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if !is_ours_alone(&file.metadata()?) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "others could have written it",
        ));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(Some(bytes))
}

/// Puts a file in its place, whole and durable. Only one at a time may do so for one name.
///
/// # Errors
/// When that fails; what stood there before stands there still.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// [`write`] of what `fill` writes.
pub(crate) fn write_with(
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut new = std::ffi::OsString::from(".");
    new.push(name);
    new.push(".new");
    let new = directory.join(new);
    // What a process that was killed left behind, or somebody's link.
    remove(&new)?;
    // Nobody else can read what is given these permissions at its birth.
    let mut file = open(&new, OpenOptions::new().write(true).create_new(true))?;
    let written = fill(&mut file)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // It would only lie there.
        let _ = remove(&new);
    }
    written?;
    sync_directory(directory)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Removes a file; no error where there is none.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_ours(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    found.uid() == rustix::process::geteuid().as_raw()
}

/// Whether nobody else can have written it.
pub(crate) fn is_ours_alone(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    is_ours(found) && found.mode() & 0o022 == 0
}

/// Whether an open file is the one that has this name now.
pub(crate) fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(open), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}
