//! Plans as people and tools write them: the arguments of the tools that make plans, and plan files
//! (section 6.1 of the plan runner's specification).
//!
//! Each field is held to one limit, whichever way it comes in; null is as if the field were absent. What
//! spans several jobs (names that are there twice, dependencies without a job, cycles) is seen when a
//! [`Definition`](crate::definition::Definition) is made of it.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

#[cfg(feature = "schema")]
use crate::ids::Given;
use crate::{
    ids::{Branch, GroupPath, PlanId, ProducerId, given, given_list},
    value::{Env, Line, List, Money, Text, Whole, or_default},
    work::{Instructions, WorkSpec, WorktreePath},
};

/// The most jobs that one call or one file may define.
pub const MAX_JOBS: usize = 500;

/// The most jobs that a job may depend on, whichever way it came to.
pub const MAX_DEPENDENCIES: usize = 100;

/// The name of a plan or a job.
pub type Name = Line<200>;
/// What a job is for; the message of its commit.
pub type Task = Text<5_000>;
/// How many jobs of a plan may run at once; 0 for no limit of its own.
pub type MaxParallel = Whole<0, 1024>;
/// The jobs that a job waits for.
pub type Dependencies = List<ProducerId, 0, MAX_DEPENDENCIES>;
/// Directories of the user's checkout that every worktree is given a link to.
pub type SymlinkDirs = List<WorktreePath, 0, 20>;
/// What makes every worktree ready, in order.
pub type WorktreeInit = List<WorkSpec, 0, 10>;
/// A text that a caller makes up, so that the same call made twice makes one plan.
pub type IdempotencyKey = Line<200>;

/// What a plan or a job may use up before it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "an object with `tokens`, `cost` or `wallMs`"
)]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct Budget {
    /// Tokens of agents, read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Whole<1, 1_000_000_000_000>>,
    /// What agents cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Time on the clock while it runs, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<Whole<1, 31_536_000_000>>,
}

impl Budget {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Makes a struct of what is said of a plan as a whole, with further fields behind the name.
macro_rules! plan_fields {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($extra:tt)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(JsonSchema))]
        #[serde(
            rename_all = "camelCase",
            deny_unknown_fields,
            expecting = "a plan (an object with at least `name` and `jobs`)"
        )]
        $vis struct $name {
            /// What the plan is called.
            pub name: Name,
            $($extra)*
            /// The branch that it starts from: the current one if there is none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub base_branch: Option<Branch>,
            /// The branch that the result is merged into: one of its own if there is none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub target_branch: Option<Branch>,
            /// How many jobs may run at once; 0 for no limit.
            #[serde(default = "four", deserialize_with = "or_four")]
            pub max_parallel: MaxParallel,
            /// Whether the worktrees of jobs that succeeded are removed.
            #[serde(default = "yes", deserialize_with = "or_yes")]
            pub clean_up_successful_work: bool,
            /// Directories of the checkout, such as node_modules, that every worktree gets a link to: jobs
            /// that write there write into the checkout.
            #[serde(
                default,
                deserialize_with = "or_default",
                skip_serializing_if = "is_empty"
            )]
            pub additional_symlink_dirs: SymlinkDirs,
            /// Whether it waits to be resumed; with resumeAfterPlan it always does.
            #[serde(default = "yes", deserialize_with = "or_yes")]
            pub start_paused: bool,
            /// The check of the combined result, before it is merged.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub verify_ri: Option<WorkSpec>,
            /// Variables of all jobs.
            #[serde(
                default,
                deserialize_with = "or_default",
                skip_serializing_if = "Env::is_empty"
            )]
            pub env: Env,
            /// The plan that must succeed before this one starts.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub resume_after_plan: Option<PlanId>,
            /// What makes every worktree ready.
            #[serde(
                default,
                deserialize_with = "or_default",
                skip_serializing_if = "is_empty"
            )]
            pub worktree_init: WorktreeInit,
            /// What the plan may use up.
            #[serde(
                default,
                deserialize_with = "or_default",
                skip_serializing_if = "Budget::is_empty"
            )]
            pub budget: Budget,
            /// The same key and the same call again give the same plan.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub idempotency_key: Option<IdempotencyKey>,
        }
    };
}

plan_fields! {
    /// What is said of a plan besides its jobs; all of a plan that is still being put together.
    pub struct PlanSettings {}
}

plan_fields! {
    struct PlanWire {
        /// Its jobs, in any order.
        pub jobs: List<JobSpec, 1, MAX_JOBS>,
    }
}

/// A whole plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PlanWire", into = "PlanWire")]
pub struct PlanSpec {
    /// What is said of the plan besides its jobs.
    pub settings: PlanSettings,
    /// Its jobs, at least one.
    pub jobs: List<JobSpec, 1, MAX_JOBS>,
}

/// A job of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "a job (an object with at least `producerId`, `task` and `work`)"
)]
pub struct JobSpec {
    /// The name that other jobs depend on it by.
    #[serde(deserialize_with = "given")]
    #[cfg_attr(feature = "schema", schemars(with = "Given"))]
    pub producer_id: ProducerId,
    /// What it is called where it is shown; the producer id if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// What it is for; the message of its commit.
    pub task: Task,
    /// What it does.
    pub work: WorkSpec,
    /// The producer ids of the jobs whose results it starts from.
    #[serde(
        default,
        deserialize_with = "given_list",
        skip_serializing_if = "is_empty"
    )]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "List<Given, 0, MAX_DEPENDENCIES>")
    )]
    pub dependencies: Dependencies,
    /// The check before the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prechecks: Option<WorkSpec>,
    /// The check after the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postchecks: Option<WorkSpec>,
    /// What agents that work or heal here are told besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Instructions>,
    /// Where it is shown; / nests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupPath>,
    /// Whether an agent is sent to heal what fails.
    #[serde(default = "yes", deserialize_with = "or_yes")]
    pub auto_heal: bool,
    /// Whether it is right that it changes nothing.
    #[serde(default, deserialize_with = "or_default")]
    pub expects_no_changes: bool,
    /// The branch that it starts from, where it depends on nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<Branch>,
    /// Variables of this job.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Env::is_empty"
    )]
    pub env: Env,
    /// What the job may use up.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Budget::is_empty"
    )]
    pub budget: Budget,
}

impl PlanSettings {
    /// A plan of which only the name is said.
    #[must_use]
    pub fn of(name: Name) -> Self {
        Self {
            name,
            base_branch: None,
            target_branch: None,
            max_parallel: four(),
            clean_up_successful_work: true,
            additional_symlink_dirs: SymlinkDirs::default(),
            start_paused: true,
            verify_ri: None,
            env: Env::default(),
            resume_after_plan: None,
            worktree_init: WorktreeInit::default(),
            budget: Budget::default(),
            idempotency_key: None,
        }
    }
}

impl JobSpec {
    /// A job of which only what must be said is said.
    #[must_use]
    pub fn of(producer_id: ProducerId, task: Task, work: WorkSpec) -> Self {
        Self {
            producer_id,
            name: None,
            task,
            work,
            dependencies: Dependencies::default(),
            prechecks: None,
            postchecks: None,
            instructions: None,
            group: None,
            auto_heal: true,
            expects_no_changes: false,
            base_branch: None,
            env: Env::default(),
            budget: Budget::default(),
        }
    }
}

macro_rules! convert {
    ($($field:ident),* $(,)?) => {
        impl From<PlanWire> for PlanSpec {
            fn from(wire: PlanWire) -> Self {
                Self {
                    settings: PlanSettings { $($field: wire.$field,)* },
                    jobs: wire.jobs,
                }
            }
        }

        impl From<PlanSpec> for PlanWire {
            fn from(spec: PlanSpec) -> Self {
                Self { $($field: spec.settings.$field,)* jobs: spec.jobs }
            }
        }
    };
}
convert!(
    name,
    base_branch,
    target_branch,
    max_parallel,
    clean_up_successful_work,
    additional_symlink_dirs,
    start_paused,
    verify_ri,
    env,
    resume_after_plan,
    worktree_init,
    budget,
    idempotency_key,
);

#[cfg(feature = "schema")]
impl JsonSchema for PlanSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PlanSpec".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        PlanWire::json_schema(generator)
    }
}

const fn yes() -> bool {
    true
}

fn four() -> MaxParallel {
    MaxParallel::new(4).expect("4 is in the range")
}

/// Reads a value that is true if it is absent or null.
fn or_yes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::deserialize(deserializer).map(|given| given.unwrap_or_else(yes))
}

/// Reads a value that is 4 if it is absent or null.
fn or_four<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MaxParallel, D::Error> {
    Option::deserialize(deserializer).map(|given| given.unwrap_or_else(four))
}

fn is_empty<T, const MAX: usize>(list: &List<T, 0, MAX>) -> bool {
    list.is_empty()
}

#[cfg(test)]
mod tests;
