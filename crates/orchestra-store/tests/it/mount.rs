//! File systems in memory, with little room.

use std::process::Command;

use crate::skip::skip;

/// A file system of its own that is torn down with the test.
pub(crate) struct Mount(pub(crate) tempfile::TempDir);

impl Mount {
    /// Mounts one; `None` where mounting is not allowed, which is reported, and fails in CI.
    pub(crate) fn tmpfs(megabytes: u32) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(directory.path())
            .output();
        let reason = match mounted {
            Ok(output) if output.status.success() => return Some(Self(directory)),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        skip(&format!("no file system can be mounted: {reason}"));
        None
    }

    /// Mounts it once more, with other options.
    pub(crate) fn remount(&self, how: &str) {
        let done = Command::new("mount")
            .args(["-o", &format!("remount,{how}")])
            .arg(self.0.path())
            .status();
        assert!(done.expect("mount runs").success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
