//! Directories that are moved, also into another file system.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use crate::{Access, Directory, Error, Result};

/// Moves a directory to a path at which nothing exists. Into another file system it is copied, under another name until
/// the copy is complete, and then removed: directories, regular files and symbolic links, each for its owner alone.
///
/// # Errors
/// When the directory cannot be moved or copied. Then it is where it was, or a part of it remains beside its copy.
pub fn move_directory(from: &Path, to: &Path) -> Result<()> {
    let moved = match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => copy_and_remove(from, to),
        moved => moved,
    };
    moved.map_err(|error| Error::system("move", from, error))
}

fn copy_and_remove(from: &Path, to: &Path) -> io::Result<()> {
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(".moving");
    let unfinished = PathBuf::from(unfinished);
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    copy(from, &unfinished)?;
    fs::rename(&unfinished, to)?;
    fs::remove_dir_all(from)
}

/// Copies a directory. Sockets, pipes and devices are left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let directory = Directory::private(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        if kind.is_dir() {
            copy(&entry.path(), &to.join(&name))?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, to.join(&name))?;
        } else if kind.is_file() {
            let Some(mut source) = crate::open(&entry.path())? else {
                continue;
            };
            let mut target = directory.create_new(&name, Access::Private)?;
            io::copy(&mut source, &mut target)?;
            target.sync_all()?;
        }
    }
    directory.sync()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_directory_replaces_an_unfinished_copy_and_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir_all(from.join("below")).unwrap();
        fs::write(from.join("below/file"), "content").unwrap();
        std::os::unix::fs::symlink("below/file", from.join("link")).unwrap();
        fs::create_dir(root.path().join("to.moving")).unwrap();
        fs::write(root.path().join("to.moving/partial"), "").unwrap();
        copy_and_remove(&from, &to).unwrap();
        assert_eq!(
            fs::read_to_string(to.join("below/file")).unwrap(),
            "content"
        );
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("below/file")
        );
        assert!(!to.join("partial").exists());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
