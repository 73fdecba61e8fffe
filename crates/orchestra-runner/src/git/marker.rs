//! What says that a worktree is ours: a file in its git directory, which no job writes by accident.

use std::path::Path;

use serde::{Deserialize, Serialize};

use orchestra_plan::ids::{Commit, JobId, PlanId};

use super::{GitError, files, names};

/// Name of the file.
const FILE: &str = "orchestra.json";

/// The version of its form.
const VERSION: u32 = 1;

/// Why git is told to keep a worktree: what stands here also says whose it is, from its first moment on.
const REASON: &str = "orchestra: ";

/// More than a marker ever has.
const MOST: u64 = 1 << 20;

/// What the name of a snapshot's directory begins with.
const SNAPSHOT: &str = "_snapshot-";

/// Whose a worktree is: a job of a plan, or the snapshot of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A job of a plan.
    Job(PlanId, JobId),
    /// The snapshot of a plan.
    Snapshot(PlanId),
}

impl Owner {
    /// The plan.
    pub fn plan(&self) -> PlanId {
        match self {
            Self::Job(plan, _) | Self::Snapshot(plan) => *plan,
        }
    }

    /// The name of its directory: the job's whole id, or `_snapshot-` and the plan's.
    pub fn directory(&self) -> String {
        match self {
            Self::Job(_, job) => job.to_string(),
            Self::Snapshot(plan) => format!("{SNAPSHOT}{plan}"),
        }
    }

    /// Why git is told to keep the worktree.
    pub(super) fn reason(&self) -> String {
        format!("{REASON}{} {}", self.plan(), self.directory())
    }

    /// Whose it is by the reason.
    pub(super) fn of_reason(reason: &str) -> Option<Self> {
        let (plan, directory) = reason.trim_end().strip_prefix(REASON)?.split_once(' ')?;
        Self::of(plan, directory)
    }

    fn of(plan: &str, directory: &str) -> Option<Self> {
        let plan = PlanId::parse(plan).ok()?;
        match directory.strip_prefix(SNAPSHOT) {
            Some(of) => (PlanId::parse(of).ok()? == plan).then_some(Self::Snapshot(plan)),
            None => Some(Self::Job(plan, JobId::parse(directory).ok()?)),
        }
    }
}

/// What is known of a worktree of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Whose it is.
    pub owner: Owner,
    /// The commit that it was made at; unknown when its making was broken off.
    pub base: Option<Commit>,
    /// Links that we have put into it, which belong to no commit.
    pub links: Vec<String>,
    /// Submodules that we have given a working tree of their own.
    pub submodules: Vec<String>,
    pub(super) seal: Option<Seal>,
    /// The conflicts of a merge, as git has left them.
    pub(super) conflicts: Option<Seal>,
    pub(super) removing: bool,
    /// What is in it is nobody's: it is thrown away, as was decided, or was just made by us.
    pub(super) given_up: bool,
}

/// What a job left uncommitted, and where its `HEAD` was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seal {
    pub(super) head: Option<String>,
    pub(super) digest: String,
}

/// The form of the file.
#[derive(Serialize, Deserialize)]
struct Form {
    v: u32,
    plan: String,
    job: String,
    base: Option<String>,
    #[serde(default)]
    links: Vec<String>,
    #[serde(default)]
    submodules: Vec<String>,
    #[serde(default)]
    seal: Option<Seal>,
    #[serde(default)]
    conflicts: Option<Seal>,
    #[serde(default)]
    removing: bool,
    #[serde(default)]
    given_up: bool,
}

impl Marker {
    pub(super) fn new(owner: Owner, base: Option<Commit>) -> Self {
        Self {
            owner,
            base,
            links: Vec::new(),
            submodules: Vec::new(),
            seal: None,
            conflicts: None,
            removing: false,
            given_up: false,
        }
    }

    /// Reads the marker of a worktree by its git directory; `None` when it is not ours.
    pub(super) fn read(admin: &Path) -> Result<Option<Self>, GitError> {
        let path = admin.join(FILE);
        let Some(content) = files::read(&path, MOST)? else {
            let reason = files::read(&admin.join("locked"), MOST)?.unwrap_or_default();
            let owner = Owner::of_reason(&String::from_utf8_lossy(&reason));
            return Ok(owner.map(|owner| Self::new(owner, None)));
        };
        let broken = |why: String| GitError::NotOurs {
            path: path.clone(),
            why,
        };
        let form: Form =
            serde_json::from_slice(&content).map_err(|error| broken(error.to_string()))?;
        if form.v != VERSION {
            return Err(broken(format!(
                "its version is {}, and we know {VERSION}",
                form.v
            )));
        }
        let owner = Owner::of(&form.plan, &form.job)
            .ok_or_else(|| broken("it names no plan and job".to_owned()))?;
        Ok(Some(Self {
            owner,
            base: form.base.as_deref().map(names::commit).transpose()?,
            links: form.links,
            submodules: form.submodules,
            seal: form.seal,
            conflicts: form.conflicts,
            removing: form.removing,
            given_up: form.given_up,
        }))
    }

    /// Writes it into a worktree's git directory.
    pub(super) fn write(&self, admin: &Path) -> Result<(), GitError> {
        let form = Form {
            v: VERSION,
            plan: self.owner.plan().to_string(),
            job: self.owner.directory(),
            base: self.base.as_ref().map(ToString::to_string),
            links: self.links.clone(),
            submodules: self.submodules.clone(),
            seal: self.seal.clone(),
            conflicts: self.conflicts.clone(),
            removing: self.removing,
            given_up: self.given_up,
        };
        let path = admin.join(FILE);
        let content = serde_json::to_vec(&form).map_err(|error| GitError::File {
            operation: "write the marker of a worktree",
            path: path.clone(),
            source: error.into(),
        })?;
        files::replace(&path, &content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_read_as_they_are_written() {
        let plan = PlanId::of_random([7; 16]);
        for owner in [
            Owner::Job(plan, JobId::of_random([8; 16])),
            Owner::Snapshot(plan),
        ] {
            assert_eq!(Owner::of_reason(&owner.reason()), Some(owner));
        }
        let other = PlanId::of_random([9; 16]);
        for text in [
            String::new(),
            "portable disk".to_owned(),
            format!("orchestra: {plan}"),
            format!("orchestra: {plan} ../j"),
            format!("orchestra: {plan} _snapshot-{other}"),
        ] {
            assert_eq!(Owner::of_reason(&text), None, "{text}");
        }
    }
}
