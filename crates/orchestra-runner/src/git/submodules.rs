//! Submodules in worktrees: each gets a working tree of its own from the repository that the user's has.
//!
//! Nothing is fetched. What a job commits in a submodule is in the submodule's repository, where a reference
//! keeps it, so that it outlives the worktree and the collection of what nothing refers to; the user's working
//! tree of it is not touched.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use orchestra_plan::ids::{Commit, PlanId};

use super::{
    DiffStats, GitError, Repository, RepositoryLock, Worktree,
    call::Call,
    files,
    kept::{PREFIX, plan_of, reference},
    links::is_plain,
    names,
    nested::leads_to,
    removal::delete_all,
    sparse,
    unlock::unlocked,
};

/// The mode by which a tree says that an entry is a submodule.
pub(super) const GITLINK: &str = "160000";

impl Worktree {
    /// Gives each submodule that the user has checked out a working tree in this worktree, at the commit
    /// that the worktree's commit names, and the submodules inside of these as well. Returns their paths.
    ///
    /// A submodule that the user has not checked out, or whose commit is not here, is left empty.
    pub async fn link_submodules(&self) -> Result<Vec<String>, GitError> {
        let mut linked: Vec<String> = Vec::new();
        let mut done = 0;
        let mut above: Option<String> = None;
        loop {
            let root = match &above {
                None => self.path().to_owned(),
                Some(above) => self.path().join(above),
            };
            if root.join(".gitmodules").is_file() {
                let call = match &above {
                    None => self.call(LIST, STAGED),
                    // It was checked out just now, with the configuration of the user's checkout.
                    Some(_) => self.repository().git().call(LIST, &root, STAGED),
                };
                for (path, commit) in gitlinks(call).await? {
                    let path = below(above.as_deref(), &path);
                    if self.link_submodule(&path, &commit).await? {
                        linked.push(path);
                    }
                }
            }
            let Some(next) = linked.get(done) else {
                return Ok(linked);
            };
            above = Some(next.clone());
            done += 1;
        }
    }

    /// Checks a submodule out, if the user has it and its place is empty.
    async fn link_submodule(&self, path: &str, commit: &Commit) -> Result<bool, GitError> {
        let Some(place) = real_directory(self.path(), Path::new(path)) else {
            return Ok(false);
        };
        let empty = std::fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_none());
        let directory = self.repository().submodule_directory(path);
        let Some(directory) = directory.filter(|_| empty) else {
            return Ok(false);
        };
        let mut marker = self.marker()?;
        marker.submodules.push(path.to_owned());
        marker.write(self.directory())?;
        let arguments = ["worktree", "add", "--quiet", "--detach", "--"];
        let git = self.repository().git();
        // single-flight: git makes two worktrees at once in each other's way.
        let lock = self.repository().lock().await?;
        let added = git
            .call("check a submodule out", &directory, arguments)
            .in_git_directory()
            .arg(&place)
            .arg(commit.as_str())
            .on(place.display())
            .run()
            .await;
        drop(lock);
        match added {
            Ok(_) => {}
            Err(GitError::Failed { stderr, .. }) if stderr.contains("invalid reference") => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let admin = leads_to(&place, &directory.join("worktrees"));
        if let Some(admin) = admin {
            if sparse::include_all(&admin)? {
                let call = git.call(
                    "check a submodule out",
                    &place,
                    ["reset", "--quiet", "--hard"],
                );
                let call = sparse::APPLIED.into_iter().fold(call, Call::option);
                call.run().await?;
            }
            self.tree(place, admin).note_checkout().await?;
        }
        Ok(true)
    }

    /// Empties the submodules that were given a working tree here, so that nothing is left of what was done in
    /// them and they are linked anew.
    pub(super) async fn unlink_submodules(&self) -> Result<(), GitError> {
        let mut marker = self.marker()?;
        if marker.submodules.is_empty() {
            return Ok(());
        }
        // single-flight: git must not make one while it forgets another.
        let lock = self.repository().lock().await?;
        for path in &marker.submodules {
            // What the commit has no more went with what was not known.
            let place = real_directory(self.path(), Path::new(path));
            if let Some(place) = &place {
                delete_all(place).await?;
            }
            self.forget_submodule(path, &lock).await?;
            if let Some(place) = place {
                std::fs::create_dir(&place).map_err(|source| GitError::File {
                    operation: "empty a submodule",
                    path: place.clone(),
                    source,
                })?;
            }
        }
        marker.submodules.clear();
        marker.write(self.directory())
    }

    /// Has the repository of a submodule forget the working tree that this worktree had of it, and no other.
    pub(super) async fn forget_submodule(
        &self,
        path: &str,
        _lock: &RepositoryLock,
    ) -> Result<(), GitError> {
        let Some(directory) = self.repository().submodule_directory(path) else {
            return Ok(());
        };
        let place = self.path().join(path);
        let arguments = ["worktree", "list", "--porcelain", "-z"];
        let call = self
            .repository()
            .in_submodule("list worktrees", &directory, arguments);
        let listed = call.run().await?;
        let is_it =
            |field: &[u8]| field.strip_prefix(b"worktree ") == Some(place.as_os_str().as_bytes());
        if !listed.fields().any(is_it) {
            return Ok(());
        }
        let arguments = ["worktree", "remove", "--force", "--force", "--"];
        self.repository()
            .in_submodule("forget the worktree of a submodule", &directory, arguments)
            .arg(&place)
            .on(place.display())
            .run()
            .await
            .map(drop)
    }

    /// Keeps the commits of submodules that the worktree's commit names anew: the plan that merges it would
    /// else name what the next collection in the submodule takes away.
    pub(super) async fn keep_submodules(&self, stats: &DiffStats) -> Result<(), GitError> {
        if !stats.changes.iter().any(|change| change.submodule) {
            return Ok(());
        }
        let kept = reference(self.owner());
        let known = self.marker()?.submodules;
        let is_new = |path: &str| {
            let mut changes = stats.changes.iter();
            changes.any(|change| change.path == Path::new(path))
        };
        let mut named = gitlinks(self.call(LIST, STAGED)).await?;
        named.retain(|(path, _)| is_new(path));
        while let Some((path, commit)) = named.pop() {
            let Some(directory) = self.repository().submodule_directory(&path) else {
                continue;
            };
            let arguments = ["update-ref", "-m", "orchestra", &kept, commit.as_str()];
            let call = || {
                let repository = self.repository();
                let call = repository.in_submodule("keep a commit", &directory, arguments);
                call.on(&commit)
            };
            match unlocked(&directory, call).await {
                // The commit is not there, so nothing can keep it.
                Err(GitError::Failed { stderr, .. }) if stderr.contains("nonexistent object") => {}
                done => drop(done?),
            }
            // That commit may name others in turn.
            if let Some(tree) = self.linked(&known, Path::new(&path)) {
                let inside = gitlinks(tree.call(LIST, STAGED)).await?;
                let inside = inside.into_iter();
                named.extend(inside.map(|(inner, commit)| (below(Some(&path), &inner), commit)));
            }
        }
        Ok(())
    }
}

/// A path below a directory, if there is one.
fn below(above: Option<&str>, path: &str) -> String {
    above.map_or_else(|| path.to_owned(), |above| format!("{above}/{path}"))
}

/// A directory below another, where no link is on the way.
pub(super) fn real_directory(below: &Path, path: &Path) -> Option<PathBuf> {
    let mut place = below.to_owned();
    for part in path {
        place.push(part);
        let data = std::fs::symlink_metadata(&place).ok()?;
        data.is_dir().then_some(())?;
    }
    Some(place)
}

/// How the submodules of a working tree are asked for.
pub(super) const LIST: &str = "list the submodules";
pub(super) const STAGED: [&str; 3] = ["ls-files", "--stage", "-z"];

async fn gitlinks(call: Call) -> Result<Vec<(String, Commit)>, GitError> {
    let answer = call.run().await?;
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

impl Repository {
    /// Keeps nothing in submodules any more for these plans, but what no branch of a submodule has: a branch
    /// of the repository may name it.
    pub(super) async fn forget_in_submodules(
        &self,
        is_forgotten: impl Fn(&PlanId) -> bool,
    ) -> Result<(), GitError> {
        let mut waiting: Vec<Option<String>> = vec![None];
        while let Some(above) = waiting.pop() {
            let root = match &above {
                None => self.toplevel().to_owned(),
                Some(above) => self.toplevel().join(above),
            };
            if !root.join(".gitmodules").is_file() {
                continue;
            }
            for (path, _) in gitlinks(self.git().call(LIST, &root, STAGED)).await? {
                let path = below(above.as_deref(), &path);
                if let Some(directory) = self.submodule_directory(&path) {
                    self.forget_in(&directory, &is_forgotten).await?;
                    waiting.push(Some(path));
                }
            }
        }
        Ok(())
    }

    async fn forget_in(
        &self,
        directory: &Path,
        is_forgotten: &impl Fn(&PlanId) -> bool,
    ) -> Result<(), GitError> {
        let arguments = ["for-each-ref", "--format=%(refname)", PREFIX];
        let call = self.in_submodule("list what plans keep", directory, arguments);
        let listed = call.run().await?.text();
        let mut orders = String::new();
        for name in listed.lines() {
            if !plan_of(name).is_some_and(|plan| is_forgotten(&plan)) {
                continue;
            }
            let contains = format!("--contains={name}");
            let arguments = [
                "for-each-ref",
                "--count=1",
                &contains,
                "refs/heads/",
                "refs/tags/",
                "refs/remotes/",
            ];
            let call = self.in_submodule("look for a branch", directory, arguments);
            if !call.run().await?.output.is_empty() {
                orders.push_str(&format!("option no-deref\ndelete {name}\n"));
            }
        }
        if !orders.is_empty() {
            let arguments = ["update-ref", "--stdin"];
            let call = || {
                self.in_submodule("forget what plans kept", directory, arguments)
                    .input(orders.clone())
            };
            unlocked(directory, call).await?;
        }
        Ok(())
    }

    /// A call of git in the git directory of a submodule.
    fn in_submodule<const N: usize>(
        &self,
        operation: &'static str,
        directory: &Path,
        arguments: [&str; N],
    ) -> Call {
        self.git()
            .call(operation, directory, arguments)
            .in_git_directory()
    }

    /// The git directory of a submodule that the user has checked out.
    pub(super) fn submodule_directory(&self, path: &str) -> Option<PathBuf> {
        let toplevel = self.toplevel();
        let place = toplevel.join(path).join(".git");
        let directory = if place.is_dir() {
            place
        } else {
            let content = files::read(&place, 64 << 10).ok()??;
            let leads = content.strip_prefix(b"gitdir: ")?.trim_ascii_end();
            toplevel.join(path).join(OsStr::from_bytes(leads))
        };
        let directory = directory.canonicalize().ok()?;
        let inside = [toplevel, self.common_directory()];
        let inside = inside.iter().filter_map(|root| root.canonicalize().ok());
        inside
            .into_iter()
            .any(|root| directory.starts_with(root))
            .then_some(directory)
    }
}
