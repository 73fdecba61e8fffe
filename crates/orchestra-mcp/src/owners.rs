//! Ownership of what a program finds in a directory. As with git's `safe.directory`, a file or directory is used
//! only where it belongs to the current user and no other user may write it.
//!
//! The file mode decides; access control lists are not read. On systems without file modes everything passes.

use std::{fs::Metadata, path::Path};

/// Users whose files and directories count as the current user's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners {
    user: u32,
    /// The user who started `sudo`, where the current user is root.
    sudo: Option<u32>,
    /// The user's own configuration file, as messages name it.
    user_file: String,
}

/// A file or directory that is not the current user's alone. The hint is a part of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// It belongs to another user.
    #[error(
        "the owner is {owner}, not you; if you trust that user, list the workspace in `safe_directories` of your own \
         {user_file}"
    )]
    Owner {
        /// The owner, by name and number.
        owner: String,
        /// The user's own configuration file.
        user_file: String,
    },
    /// All users share the directory, such as `/tmp`.
    #[error(
        "the owner is {owner}, and all users share the directory (mode {mode:03o}); use a directory of your own, or name one with --workspace"
    )]
    Shared {
        /// The owner, by name and number.
        owner: String,
        /// Its permissions.
        mode: u32,
    },
    /// Other users may write it.
    #[error(
        "the owner is {owner}, and other users have write access (mode {mode:03o}); run `chmod go-w {}`",
        orchestra_fs::quoted(path)
    )]
    Writable {
        /// The owner, by name and number.
        owner: String,
        /// Its permissions.
        mode: u32,
        /// Its path.
        path: String,
    },
}

/// Name of the user's own configuration file where its path is not known.
const USER_FILE: &str = "orchestra.toml";

impl Owners {
    /// Sets how messages name the user's own configuration file.
    #[must_use]
    pub fn with_user_file(mut self, name: String) -> Self {
        self.user_file = name;
        self
    }
}

#[cfg(unix)]
impl Owners {
    /// The current user, and for root the user `sudo` with this number, as git accepts it.
    #[must_use]
    pub fn current(sudo: Option<u32>) -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self {
            user,
            sudo: sudo.filter(|_| user == 0),
            user_file: USER_FILE.to_owned(),
        }
    }

    /// Refuses a file or directory of another user, and one that another user may write. The sticky bit makes no
    /// difference: other users can still create files.
    ///
    /// # Errors
    /// When it is refused.
    pub fn check(&self, path: &Path, metadata: &Metadata) -> Result<(), ForeignError> {
        use std::os::unix::fs::MetadataExt as _;
        let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        let by_group = mode & 0o020 != 0 && !orchestra_fs::is_alone_in(uid, metadata.gid());
        let is_writable = mode & 0o002 != 0 || by_group;
        let owner = || match orchestra_fs::user_name(uid) {
            Some(name) => format!("{name} (uid {uid})"),
            None => format!("uid {uid}"),
        };
        if is_writable && metadata.is_dir() && mode & 0o1000 != 0 {
            let owner = owner();
            return Err(ForeignError::Shared { owner, mode });
        }
        if uid != self.user && Some(uid) != self.sudo {
            return Err(ForeignError::Owner {
                owner: owner(),
                user_file: self.user_file.clone(),
            });
        }
        if is_writable {
            let path = path.display().to_string();
            let owner = owner();
            return Err(ForeignError::Writable { owner, mode, path });
        }
        Ok(())
    }
}

#[cfg(not(unix))]
impl Owners {
    /// The current user.
    #[must_use]
    pub fn current(sudo: Option<u32>) -> Self {
        Self {
            user: 0,
            sudo,
            user_file: USER_FILE.to_owned(),
        }
    }

    /// Accepts everything.
    ///
    /// # Errors
    /// Never.
    pub fn check(&self, _path: &Path, _metadata: &Metadata) -> Result<(), ForeignError> {
        Ok(())
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn file_of_another_user_or_writable_by_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        let check = |owners: &Owners, mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            owners.check(&path, &fs::metadata(&path).unwrap())
        };
        let mine = Owners::current(None).with_user_file("/own/orchestra.toml".to_owned());
        assert_eq!(check(&mine, 0o644), Ok(()));
        let refused = check(&mine, 0o646).unwrap_err().to_string();
        let hint = format!("run `chmod go-w {}`", path.display());
        assert!(
            refused.contains("(mode 646)") && refused.ends_with(&hint),
            "{refused}"
        );
        let user = mine.user;
        let other = Owners {
            user: user + 1,
            sudo: None,
            ..mine
        };
        let refused = check(&other, 0o644).unwrap_err().to_string();
        for part in [
            &*format!("uid {user}"),
            "`safe_directories` of your own /own/orchestra.toml",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        let sudo = Owners {
            sudo: Some(user),
            ..other
        };
        assert_eq!(check(&sudo, 0o644), Ok(()));
    }
}
