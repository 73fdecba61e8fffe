//! What can be asked of the plans and what is answered.

use orchestra_plan::{
    command::{Decision, NewPlan, Request},
    ids::{JobId, PlanId},
    plan::Plan,
    status::PlanStatus,
};
use serde::{Deserialize, Serialize};

/// Who asks, and under which conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// Who, for the log of the plan.
    pub by: Option<String>,
    /// Names what is asked over repetitions: a second time with the same key changes nothing.
    pub key: Option<String>,
    /// The version of the plan that the caller has seen: when it has gone on since, nothing is done.
    pub expected_version: Option<u64>,
}

impl Caller {
    /// Somebody without conditions.
    #[must_use]
    pub fn named(by: &str) -> Self {
        Self {
            by: Some(by.to_owned()),
            ..Self::default()
        }
    }
}

/// Something asked of who runs the plans.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Order {
    Create {
        new: Box<NewPlan>,
        by: Option<String>,
    },
    Change {
        plan: PlanId,
        request: Box<Request>,
    },
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// To which plan, or which plan was made.
    #[serde(rename = "planId")]
    pub plan: PlanId,
    /// Its version since.
    pub version: u64,
    /// How it stands since.
    pub status: PlanStatus,
    /// What was done to each thing that was named, where several were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Item>,
    /// It had been done before under the same key: nothing was done now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Whether anything was changed by it.
    pub changed: bool,
    /// What should be known of it, as an agent that is not installed here, or changes that no job will see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The agents that the plan may start, a line each, reported at its creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
}

/// What was done to one of several things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// What the caller called it.
    pub asked: String,
    /// The job, where one was found or made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<ItemRefusal>,
}

/// Why something was not done to one of several things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemRefusal {
    /// Which kind of refusal.
    pub code: String,
    /// Why, and what is allowed.
    pub message: String,
}

impl Answer {
    pub(crate) fn of(plan: &Plan, decision: Decision) -> Self {
        let changed = !decision.events.is_empty();
        let items = decision.items.into_iter().map(|item| Item {
            asked: item.asked,
            job: item.job,
            refused: item.refused.map(|refusal| ItemRefusal {
                code: refusal.code().name().to_owned(),
                message: refusal.message().to_owned(),
            }),
        });
        Self {
            plan: *plan.id(),
            version: plan.version(),
            status: plan.status(),
            items: items.collect(),
            repeated: decision.repeated,
            changed,
            warnings: Vec::new(),
            agents: Vec::new(),
        }
    }
}
