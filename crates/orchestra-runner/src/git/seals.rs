//! Whose the uncommitted things of a worktree are: what its job has left is noted once nothing of it runs any
//! more, and whatever differs from that is somebody's.

use std::{fs, io};

use orchestra_plan::ids::Commit;

use super::{
    GitError, HalfDone, Worktree, marker::Seal, names, repository::small_file, status::Status,
};
use crate::hex::hex;

impl Worktree {
    /// Takes note of what the job has left uncommitted, once nothing of it runs any more, so that what is
    /// there when the worktree is removed can be told from what somebody else has put there.
    pub async fn seal(&self) -> Result<(), GitError> {
        self.unseal()?;
        let mut marker = self.marker()?;
        let status = self.status(&marker.links).await?;
        marker.seal = Some(self.sealed(status).await?.0);
        marker.write(self.directory())
    }

    /// Whether it was [sealed](Self::seal) since its job began to work in it.
    pub fn is_sealed(&self) -> Result<bool, GitError> {
        Ok(self.marker()?.seal.is_some())
    }

    /// Forgets what was sealed, as a job begins to work in it again.
    pub fn unseal(&self) -> Result<(), GitError> {
        let mut marker = self.marker()?;
        let was_sealed = marker.seal.take().is_some();
        if was_sealed || marker.given_up {
            marker.given_up = false;
            marker.write(self.directory())?;
        }
        Ok(())
    }

    /// What identifies the uncommitted things of a worktree.
    pub(super) async fn sealed(&self, status: Status) -> Result<(Seal, Status), GitError> {
        let worktree = self.clone();
        // A job may leave as many files as it likes, of which each is looked at.
        let seal = move || (worktree.seal_of(&status), status);
        let sealed = tokio::task::spawn_blocking(seal).await;
        sealed.map_err(|error| GitError::File {
            operation: "look at what a job has left",
            path: self.path().to_owned(),
            source: io::Error::other(error),
        })
    }

    fn seal_of(&self, status: &Status) -> Seal {
        use sha2::{Digest, Sha256};
        use std::os::unix::{ffi::OsStrExt, fs::MetadataExt};
        let mut digest = Sha256::new();
        digest.update(&status.raw);
        for (path, _) in &status.entries {
            let Ok(data) = fs::symlink_metadata(self.path().join(path)) else {
                continue;
            };
            digest.update(path.as_os_str().as_bytes());
            for number in [data.size(), u64::from(data.mode()), data.ino()] {
                digest.update(number.to_le_bytes());
            }
            digest.update(data.mtime().to_le_bytes());
            digest.update(data.mtime_nsec().to_le_bytes());
        }
        let digest = hex(&digest.finalize());
        Seal {
            head: status.head.as_ref().map(ToString::to_string),
            digest,
        }
    }

    /// Whether it is as it was when it was [sealed](Self::seal); `None` where it is not sealed.
    pub async fn is_as_sealed(&self) -> Result<Option<bool>, GitError> {
        let marker = self.marker()?;
        let Some(seal) = marker.seal.filter(|_| self.is_checked_out()) else {
            return Ok(None);
        };
        let status = self.status(&marker.links).await?;
        Ok(Some(self.sealed(status).await?.0 == seal))
    }

    /// Takes note of the conflicts that a merge has just left.
    pub(super) async fn seal_conflicts(&self) -> Result<(), GitError> {
        let mut marker = self.marker()?;
        let status = self.status(&marker.links).await?;
        marker.conflicts = Some(self.sealed(status).await?.0);
        marker.write(self.directory())
    }

    /// Whether nobody has touched the conflicts that a merge has left, as far as that is known.
    pub async fn has_untouched_conflicts(&self) -> Result<bool, GitError> {
        let marker = self.marker()?;
        let Some(conflicts) = marker.conflicts else {
            return Ok(false);
        };
        let status = self.status(&marker.links).await?;
        Ok(self.sealed(status).await?.0 == conflicts)
    }

    /// Whether it holds nothing that is not committed.
    pub async fn is_clean(&self) -> Result<bool, GitError> {
        let links = self.marker()?.links;
        Ok(self.status(&links).await?.entries.is_empty())
    }

    /// What was begun in it and not ended.
    pub fn half_done(&self) -> Option<HalfDone> {
        HalfDone::at(self.directory())
    }

    /// The commit that is being merged in it, where a merge of one was begun and not ended.
    pub fn merging(&self) -> Result<Option<Commit>, GitError> {
        let heads = small_file(&self.directory().join("MERGE_HEAD"))?.unwrap_or_default();
        let mut heads = heads.lines();
        match (heads.next(), heads.next()) {
            (Some(head), None) => names::commit(head.trim()).map(Some),
            _ => Ok(None),
        }
    }
}
