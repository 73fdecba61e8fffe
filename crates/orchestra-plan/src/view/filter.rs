//! What lists leave out.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::GroupPath;
use crate::plan::{Job, Plan};
use crate::status::{JobStatus, PlanStatus};

/// Which plans a list shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ListFilter {
    /// All.
    #[default]
    All,
    /// Those that could start and have not, paused or not.
    Pending,
    /// Those that are paused and have never started.
    PendingStart,
    /// Those under construction.
    Scaffolding,
    /// Those at work, even if they are being paused.
    Running,
    /// Those that are paused, or will be when what runs has ended.
    Paused,
    /// Those whose jobs all succeeded.
    Succeeded,
    /// Those that have ended, however.
    Completed,
    /// Those that failed.
    Failed,
    /// Those that failed and of which some jobs succeeded.
    Partial,
    /// Those that were canceled.
    Canceled,
    /// Those that were put away.
    Archived,
}

impl ListFilter {
    /// Whether a list with this filter shows a plan.
    #[must_use]
    pub fn shows(self, plan: &Plan) -> bool {
        use PlanStatus as S;
        let status = plan.status();
        match self {
            Self::All => true,
            Self::Pending => matches!(status, S::Pending | S::PendingStart),
            Self::PendingStart => status == S::PendingStart,
            Self::Scaffolding => status == S::Scaffolding,
            Self::Running => matches!(status, S::Running | S::Pausing),
            Self::Paused => matches!(status, S::Paused | S::Pausing),
            Self::Succeeded => status == S::Succeeded,
            Self::Completed => status.is_ended(),
            Self::Failed => status == S::Failed,
            Self::Partial => status == S::Failed && plan.counts().succeeded > 0,
            Self::Canceled => status == S::Canceled,
            Self::Archived => status == S::Archived,
        }
    }
}

/// Which jobs a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Those in this state.
    pub status: Option<JobStatus>,
    /// Those of this group and of the groups in it, by its path.
    pub group_id: Option<String>,
    /// Those of groups of this name, or of this path, whatever the case, and of the groups in them.
    pub group_name: Option<String>,
}

impl JobFilter {
    /// Whether a list with this filter shows a job.
    #[must_use]
    pub fn shows(&self, job: &Job) -> bool {
        let path = job.group().map(GroupPath::as_str);
        let within = |path: Option<&str>, group: &str| {
            path.and_then(|path| path.strip_prefix(group))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let named = |name: &str| {
            let (path, name) = (path.map(str::to_lowercase), name.to_lowercase());
            let path = path.as_deref();
            within(path, &name) || path.is_some_and(|path| path.split('/').any(|part| part == name))
        };
        self.status.is_none_or(|status| status == job.status())
            && self
                .group_id
                .as_deref()
                .is_none_or(|group| within(path, group))
            && self.group_name.as_deref().is_none_or(named)
    }
}
