//! What `up` tells, as far as it is shown here. Every field but names may be missing: it may be another
//! version that runs.

use std::collections::BTreeMap;

use orchestra_plan::status::JobStatus;
use serde::Deserialize;

/// The first event of a connection.
#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    /// Whether all is to be asked for anew.
    #[serde(default)]
    pub(super) missed: bool,
    #[serde(default)]
    pub(super) workspace: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Projects {
    pub(super) projects: Vec<Project>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Project {
    pub(super) slug: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) tasks: u64,
    #[serde(default)]
    pub(super) done: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Board {
    pub(super) project: Project,
    pub(super) states: Vec<Column>,
    pub(super) cards: Vec<Card>,
    /// Whether there are more than are shown.
    #[serde(default)]
    pub(super) more: bool,
}

/// A state, and where an issue may go from it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Column {
    pub(super) state: String,
    #[serde(default)]
    pub(super) exits: Vec<Exit>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Exit {
    pub(super) to: String,
    /// What has to be shown on the way.
    #[serde(default)]
    pub(super) asks: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Card {
    pub(super) id: String,
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) priority: Option<String>,
    #[serde(default)]
    pub(super) epic_id: Option<String>,
    #[serde(default)]
    pub(super) story_id: Option<String>,
    #[serde(default)]
    pub(super) assignees: Vec<String>,
    #[serde(default)]
    pub(super) labels: Vec<String>,
    #[serde(default)]
    pub(super) depends_on: Vec<String>,
    #[serde(default)]
    pub(super) claim: Option<Claim>,
    #[serde(default)]
    pub(super) child_count: Option<u64>,
    /// In a form whose order is that of time.
    #[serde(default)]
    pub(super) updated_at: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Claim {
    pub(super) agent: String,
    #[serde(default)]
    pub(super) until: String,
}

/// Issues as they are now.
#[derive(Debug, Deserialize)]
pub(super) struct Cards {
    pub(super) project: String,
    pub(super) cards: Vec<Card>,
}

/// Issues that are not there any more.
#[derive(Debug, Deserialize)]
pub(super) struct Gone {
    pub(super) project: String,
    pub(super) ids: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OfProject {
    pub(super) project: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Plans {
    pub(super) plans: Vec<Plan>,
    #[serde(default)]
    pub(super) unreadable: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) nodes: u32,
    /// Number of jobs by status.
    #[serde(default)]
    pub(super) counts: BTreeMap<String, u32>,
    /// Ended jobs of all jobs, in percent.
    #[serde(default)]
    pub(super) progress: u8,
    #[serde(default)]
    pub(super) created_at: u64,
    #[serde(default)]
    pub(super) started_at: Option<u64>,
    #[serde(default)]
    pub(super) ended_at: Option<u64>,
    #[serde(default)]
    pub(super) base_branch: Option<String>,
    #[serde(default)]
    pub(super) target_branch: Option<String>,
}

/// A plan as it is sent when it changes.
#[derive(Debug, Deserialize)]
pub(super) struct OnePlan {
    pub(super) plan: Plan,
}

/// A plan with all of its jobs.
#[derive(Debug, Deserialize)]
pub(super) struct WholePlan {
    pub(super) plan: Jobs,
}

/// Jobs of a plan: all of them, or those that changed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Jobs {
    pub(super) plan_id: String,
    pub(super) nodes: Vec<Job>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlanGone {
    pub(super) plan_id: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) producer_id: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) waiting: Option<String>,
    #[serde(default)]
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) attempts: u64,
    #[serde(default)]
    pub(super) started_at: Option<u64>,
    #[serde(default)]
    pub(super) ended_at: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Servers {
    pub(super) servers: Vec<Server>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) transport: Option<String>,
    #[serde(default)]
    pub(super) protocol: Option<String>,
    #[serde(default)]
    pub(super) reason: Option<String>,
    #[serde(default)]
    pub(super) calls: Calls,
    #[serde(default)]
    pub(super) restarts: u64,
    #[serde(default)]
    pub(super) failed_starts: u64,
    #[serde(default)]
    pub(super) processes: u64,
    #[serde(default)]
    pub(super) latency_ms: Latency,
    #[serde(default)]
    pub(super) last_error: Option<LastError>,
}

/// Calls by their end.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Calls {
    pub(super) answered: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    pub(super) in_flight: u64,
}

/// Milliseconds that calls took.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Latency {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct LastError {
    pub(super) text: String,
}

impl Plan {
    /// Returns whether it runs.
    pub(super) fn runs(&self) -> bool {
        self.started_at.is_some() && self.ended_at.is_none() && !self.is_ended()
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(
            self.status.as_str(),
            "succeeded" | "failed" | "canceled" | "archived"
        )
    }

    /// For how many seconds it runs or ran.
    pub(super) fn seconds(&self, now: u64) -> Option<u64> {
        let begun = self.started_at?;
        let end = self.ended_at.unwrap_or(now);
        Some(end.saturating_sub(begun) / 1_000)
    }

    /// Number of its jobs that have ended, however they ended.
    pub(super) fn ended_jobs(&self) -> u32 {
        let ended = JobStatus::ALL
            .into_iter()
            .filter(|status| status.is_terminal());
        let counts = ended.filter_map(|status| self.counts.get(status.name()));
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Number of its jobs at work.
    pub(super) fn at_work(&self) -> u32 {
        let of = |status: &str| self.counts.get(status).copied().unwrap_or_default();
        of("running").saturating_add(of("scheduled"))
    }
}

impl Job {
    pub(super) fn runs(&self) -> bool {
        self.started_at.is_some() && self.ended_at.is_none()
    }

    pub(super) fn seconds(&self, now: u64) -> Option<u64> {
        let begun = self.started_at?;
        let end = self.ended_at.unwrap_or(now);
        Some(end.saturating_sub(begun) / 1_000)
    }
}

impl Calls {
    pub(super) const fn ended(&self) -> u64 {
        self.answered
            .saturating_add(self.refused)
            .saturating_add(self.failed)
    }
}
