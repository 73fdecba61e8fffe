//! What is taken over of a plan of the earlier system.

use serde_json::Value;

/// A plan of the earlier system.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OriginalPlan {
    /// Its id, as its file says it.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether it was being made, paused, deleted.
    pub is_scaffolding: bool,
    /// Whether it was paused.
    pub is_paused: bool,
    /// Whether it was deleted.
    pub is_deleted: bool,
    /// From where it started.
    pub base_branch: Option<String>,
    /// Where its work went.
    pub target_branch: Option<String>,
    /// How many of its jobs ran at once.
    pub max_parallel: Option<u64>,
    /// In milliseconds since the Unix epoch, as all times here.
    pub created_at: Option<u64>,
    /// When its first job began.
    pub started_at: Option<u64>,
    /// When it ended.
    pub ended_at: Option<u64>,
    /// The names of its environment variables; values may be secrets and are left out.
    pub env_names: Vec<String>,
    /// Its jobs, in the order of its file, without the one that the earlier system added itself.
    pub jobs: Vec<OriginalJob>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// A job of the earlier system.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OriginalJob {
    /// Its id.
    pub id: String,
    /// What it was called by other jobs.
    pub producer_id: String,
    /// Its name.
    pub name: String,
    /// What it was for.
    pub task: String,
    /// The producer ids of those that it waited for.
    pub dependencies: Vec<String>,
    /// Its group.
    pub group: Option<String>,
    /// Its work, as it was written: text or an object.
    pub work: Option<Value>,
    /// What was checked before.
    pub prechecks: Option<Value>,
    /// What was checked afterwards.
    pub postchecks: Option<Value>,
    /// Whether a failure was to be mended; the earlier system did so unless told otherwise.
    pub auto_heal: bool,
    /// Whether it was right that nothing changed.
    pub expects_no_changes: bool,
    /// How far it got, in the words of the earlier system.
    pub status: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// How often it was tried.
    pub attempts: Option<u64>,
    /// The commit that it began from.
    pub base_commit: Option<String>,
    /// The commit that it left.
    pub completed_commit: Option<String>,
}
