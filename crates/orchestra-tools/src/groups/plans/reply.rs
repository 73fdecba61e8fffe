//! What tools of plans answer that is not a view of a plan.

use orchestra_plan::ids::PlanId;
use orchestra_plan::status::PlanStatus;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::plan_service::Done;
use crate::tool::Reply;

/// What most changes of a plan are answered with.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Changed {
    pub(super) message: String,
    pub(super) plan_id: PlanId,
    pub(super) status: PlanStatus,
    pub(super) state_version: u64,
    /// The same was asked before under this key; nothing was done now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) repeated: bool,
}

impl Reply for Changed {}

impl Changed {
    /// What was done, in words.
    pub(super) fn new(done: &Done, message: impl Into<String>) -> Self {
        Self {
            message: told(done, message),
            plan_id: done.plan,
            status: done.status,
            state_version: done.version,
            repeated: done.repeated,
        }
    }
}

/// What was done, in words; or that it was done before.
pub(super) fn told(done: &Done, message: impl Into<String>) -> String {
    match done.repeated {
        true => {
            "A request with this key was carried out before and is not repeated: read the status of the plan.".to_owned()
        }
        false => message.into(),
    }
}

/// Why something was not done to one of several jobs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(super) struct NotDone {
    pub(super) id: String,
    pub(super) code: String,
    pub(super) error: String,
}

/// `1 job`, `3 jobs`.
pub(super) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
