//! Temporary directories.

use std::{fs::Permissions, io, os::unix::fs::PermissionsExt as _};

use tempfile::TempDir;

/// Creates a directory for temporary files that only its owner can look into, with any umask. It is removed with the
/// value.
///
/// # Errors
/// When it cannot be created.
pub fn temporary_directory() -> io::Result<TempDir> {
    let mut directory = tempfile::Builder::new();
    directory.prefix("orchestra-");
    directory.permissions(Permissions::from_mode(0o700));
    directory.tempdir()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn temporary_directory_is_of_its_owner_alone() {
        let directory = temporary_directory().unwrap();
        let found = directory.path().metadata().unwrap();
        assert_eq!(found.mode() & 0o777, 0o700);
    }
}
