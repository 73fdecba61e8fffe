//! Names of entries in a directory.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path},
};

/// Name of an entry in a directory: one path component that leads neither out of it nor below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name<'a>(&'a OsStr);

impl<'a> Name<'a> {
    /// Checks a name; `None` when it is empty, `.` or `..`, or contains `/` or a zero byte.
    pub(crate) fn new(name: &'a OsStr) -> Option<Self> {
        let bytes = name.as_bytes();
        let is_plain = !matches!(bytes, b"" | b"." | b"..");
        (is_plain && !bytes.iter().any(|byte| matches!(byte, b'/' | 0))).then_some(Self(name))
    }

    pub(crate) const fn as_os_str(self) -> &'a OsStr {
        self.0
    }
}

/// Splits a relative path into names; `None` when a component is not a name. The empty path has none.
pub(crate) fn names(relative: &Path) -> Option<Vec<Name<'_>>> {
    let name = |component| match component {
        Component::Normal(name) => Name::new(name),
        _ => None,
    };
    relative.components().map(name).collect()
}

/// Splits a path into its directory, `.` for a bare name, and the name of the file in it.
pub(crate) fn split(path: &Path) -> Option<(&Path, Name<'_>)> {
    let name = Name::new(path.file_name()?)?;
    // `a/b/` and `a/b/.` name a directory.
    let ends_in_name = path.as_os_str().as_bytes().ends_with(name.0.as_bytes());
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    ends_in_name.then_some((directory.unwrap_or(Path::new(".")), name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn special_names_are_refused() {
        for name in ["", ".", "..", "/", "a/b", "a/", "/a", "../a", "a\0b"] {
            assert_eq!(Name::new(OsStr::new(name)), None, "{name:?}");
        }
        for name in ["a", ".a", "...", "a b", "a\n", "-", "ä"] {
            assert!(Name::new(OsStr::new(name)).is_some(), "{name:?}");
        }
        for path in ["", "/", ".", "..", "a/..", "a/.", "a/"] {
            assert_eq!(split(Path::new(path)), None, "{path:?}");
        }
    }

    proptest! {
        /// Joined to any directory, an accepted name is an entry of exactly that directory.
        #[test]
        fn accepted_names_stay_in_their_directory(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let name = OsStr::from_bytes(&bytes);
            let path = Path::new("/a/b").join(name);
            let is_entry = path.components().count() == 4
                && path.parent() == Some(Path::new("/a/b"))
                && path.file_name() == Some(name)
                && !bytes.contains(&0);
            prop_assert_eq!(Name::new(name).is_some(), is_entry);
        }

        #[test]
        fn relative_paths_split_into_accepted_names(text in "[a/.\0]{0,8}") {
            let path = Path::new(&text);
            match names(path) {
                Some(names) => {
                    let joined: std::path::PathBuf = names.iter().map(|name| name.as_os_str()).collect();
                    prop_assert_eq!(joined.as_path(), path.components().as_path());
                }
                None => prop_assert!(text.starts_with('/') || text.contains(['.', '\0']), "{}", text),
            }
        }

        #[test]
        fn split_paths_lead_to_the_same_file(text in "[a/.]{0,8}") {
            if let Some((directory, name)) = split(Path::new(&text)) {
                let joined = directory.join(name.as_os_str());
                let plain = |path: &Path| path.components().filter(|part| *part != Component::CurDir).collect::<std::path::PathBuf>();
                prop_assert_eq!(plain(&joined), plain(Path::new(&text)));
            }
        }
    }
}
