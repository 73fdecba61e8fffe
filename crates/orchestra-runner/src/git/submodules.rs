//! Submodules in worktrees: each gets a working tree of its own from the repository that the user's has.
//!
//! Nothing is fetched. What a job commits in a submodule is in the submodule's repository, so that it
//! outlives the worktree, and the user's working tree of it is not touched.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use orchestra_plan::ids::Commit;

use super::{GitError, Worktree, files, links::is_plain, names};

/// The mode by which a tree says that an entry is a submodule.
pub(super) const GITLINK: &str = "160000";

impl Worktree {
    /// Gives each submodule that the user has checked out a working tree in this worktree, at the commit
    /// that the worktree's commit names; submodules of submodules are left empty. Returns their paths.
    ///
    /// A submodule that the user has not checked out, or whose commit is not here, is left empty.
    pub async fn link_submodules(&self) -> Result<Vec<String>, GitError> {
        if !self.path().join(".gitmodules").is_file() {
            return Ok(Vec::new());
        }
        let mut linked = Vec::new();
        for (path, commit) in self.gitlinks().await? {
            let place = self.path().join(&path);
            let empty = std::fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_none());
            let Some(directory) = self.submodule_directory(&path).filter(|_| empty) else {
                continue;
            };
            let mut marker = self.marker()?;
            marker.submodules.push(path.clone());
            marker.write(self.directory())?;
            let arguments = ["worktree", "add", "--quiet", "--detach", "--"];
            let git = self.repository().git();
            // single-flight: git makes two worktrees at once in each other's way.
            let _lock = self.repository().lock().await?;
            let added = git
                .call("check a submodule out", &directory, arguments)
                .in_git_directory()
                .arg(&place)
                .arg(commit.as_str())
                .on(place.display())
                .run()
                .await;
            match added {
                Ok(_) => linked.push(path),
                Err(GitError::Failed { said, .. }) if said.contains("invalid reference") => {}
                Err(error) => return Err(error),
            }
        }
        Ok(linked)
    }

    /// The submodules that the worktree's commit has.
    async fn gitlinks(&self) -> Result<Vec<(String, Commit)>, GitError> {
        let arguments = ["ls-files", "--stage", "-z"];
        let answer = self.call("list the submodules", arguments).run().await?;
        let mut found = Vec::new();
        for field in answer.fields() {
            let text = String::from_utf8_lossy(field);
            let Some((entry, path)) = text.split_once('\t') else {
                continue;
            };
            let mut parts = entry.split(' ');
            if parts.next() == Some(GITLINK)
                && let Some(commit) = parts.next().and_then(|name| names::commit(name).ok())
                && is_plain(Path::new(path))
            {
                found.push((path.to_owned(), commit));
            }
        }
        Ok(found)
    }

    /// The git directory of a submodule that the user has checked out.
    pub(super) fn submodule_directory(&self, path: &str) -> Option<PathBuf> {
        let toplevel = self.repository().toplevel();
        let place = toplevel.join(path).join(".git");
        let directory = if place.is_dir() {
            place
        } else {
            let content = files::read(&place, 64 << 10).ok()??;
            let leads = content.strip_prefix(b"gitdir: ")?.trim_ascii_end();
            toplevel.join(path).join(OsStr::from_bytes(leads))
        };
        let directory = directory.canonicalize().ok()?;
        let inside = [toplevel, self.repository().common_directory()];
        let inside = inside.iter().filter_map(|root| root.canonicalize().ok());
        inside
            .into_iter()
            .any(|root| directory.starts_with(root))
            .then_some(directory)
    }
}
