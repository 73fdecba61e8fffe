//! Paths that are opened component by component, without following symbolic links.
//!
//! The paths of a sandbox are resolved and checked before its process starts. Another program may exchange a directory
//! for a symbolic link in between. So a path that has become a link is refused, and what is opened is used further by its
//! descriptor.

use std::{
    fmt, io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::fs::{FileType, Mode, OFlags, fstat, open as open_path, openat};

/// Flags by which a path is named and its content is not opened.
const NAMED: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A path that was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The path without `.` and `..`.
    pub(crate) path: PathBuf,
    pub(crate) descriptor: OwnedFd,
    pub(crate) kind: FileType,
    /// Device and number.
    id: (u64, u64),
}

/// A path that has become another one since it was checked.
#[derive(Debug)]
pub(crate) enum Changed {
    Link(PathBuf),
    Replaced(PathBuf),
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, what) = match self {
            Self::Link(path) => (path, "it is a symbolic link now"),
            Self::Replaced(path) => (path, "another directory is in its place now"),
        };
        write!(
            f,
            "`{}` changed during the start: {what}; find the program that changes it, and start again",
            path.display()
        )
    }
}

impl std::error::Error for Changed {}

impl Changed {
    /// Returns whether this is the reason of an error.
    pub(crate) fn is_behind(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// Opens a path. A symbolic link anywhere in it is refused, as [`Changed`].
pub(crate) fn open(path: &Path) -> io::Result<Opened> {
    let mut components = path.components().peekable();
    let (top, mut normal) = match components.next_if_eq(&Component::RootDir) {
        Some(_) => ("/", PathBuf::from("/")),
        None => (".", PathBuf::new()),
    };
    let mut descriptor = open_path(top, NAMED, Mode::empty())?;
    for component in components {
        match component {
            Component::CurDir | Component::Prefix(_) | Component::RootDir => continue,
            Component::ParentDir => {
                normal.pop();
            }
            Component::Normal(name) => normal.push(name),
        }
        let above = descriptor;
        descriptor = openat(&above, component.as_os_str(), NAMED, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&descriptor)?.st_mode) == FileType::Symlink {
            return Err(io::Error::other(Changed::Link(normal)));
        }
    }
    Opened::of(descriptor, normal)
}

impl Opened {
    fn of(descriptor: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let found = fstat(&descriptor)?;
        Ok(Self {
            path,
            kind: FileType::from_raw_mode(found.st_mode),
            id: (found.st_dev, found.st_ino),
            descriptor,
        })
    }

    /// Opens the path once more, such as in another mount, and refuses another directory or file in its place.
    pub(crate) fn again(&self) -> io::Result<Self> {
        let now = open(&self.path)?;
        match now.id == self.id {
            true => Ok(now),
            false => Err(io::Error::other(Changed::Replaced(self.path.clone()))),
        }
    }

    /// Opens an entry of the directory. It may be a symbolic link.
    pub(crate) fn entry(&self, name: &std::ffi::OsStr) -> io::Result<Self> {
        let opened = openat(&self.descriptor, name, NAMED, Mode::empty())?;
        Self::of(opened, self.path.join(name))
    }

    /// Returns the names of the entries of the directory.
    pub(crate) fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        use std::os::unix::ffi::OsStringExt as _;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = openat(&self.descriptor, ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(listed)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(std::ffi::OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Path that leads to the opened file, also after another file took its place.
    pub(crate) fn by_descriptor(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn path_with_a_link_anywhere_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("nowhere", root.join("a/dangling")).unwrap();
        let opened = open(&root.join("./a/../a/b/")).unwrap();
        assert_eq!(opened.path, root.join("a/b"));
        for (path, link) in [
            ("link", "link"),
            ("link/b", "link"),
            ("a/../link/b/..", "link"),
            ("a/dangling", "a/dangling"),
        ] {
            let refused = open(&root.join(path)).unwrap_err();
            assert!(Changed::is_behind(&refused), "{path}");
            let link = root.join(link).display().to_string();
            assert!(refused.to_string().contains(&link), "{path}: {refused}");
        }
        let missing = open(&root.join("a/c")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn exchanged_directory_is_refused_and_the_descriptor_leads_to_the_first() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for name in ["a", "b"] {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join("name"), name).unwrap();
        }
        let opened = open(&root.join("a")).unwrap();
        assert_eq!(opened.again().unwrap().path, opened.path);
        fs::rename(root.join("a"), root.join("c")).unwrap();
        fs::rename(root.join("b"), root.join("a")).unwrap();
        let refused = opened.again().unwrap_err();
        assert!(Changed::is_behind(&refused), "{refused}");
        let through = opened.by_descriptor().join("name");
        assert_eq!(fs::read_to_string(through).unwrap(), "a");
        assert_eq!(opened.names().unwrap(), ["name"]);
        fs::remove_dir_all(root.join("c")).unwrap();
        symlink(root.join("a"), root.join("c")).unwrap();
        let refused = open(&root.join("c")).unwrap_err();
        assert!(Changed::is_behind(&refused), "{refused}");
    }
}
