//! Disks that are full soon.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::skip::skip;

/// A small file system in memory, for as long as it lives.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, loudly, where we may not mount one.
    pub(crate) fn mount(path: &Path, megabytes: u32) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(path)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(path.to_owned())),
            other => {
                skip(&format!("a full disk cannot be had here: {other:?}"));
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}
