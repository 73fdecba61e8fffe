//! What a job, a check or a preparation does: a shell line, a program, or an agent.
//!
//! It is written as text or as an object (section 4 of the plan runner's specification); both become
//! a [`WorkSpec`], which is written back as an object. What a value may not be is refused here, where
//! it is read: a path that leaves the worktree, an address of a scheme that no agent may open, a
//! field that does not belong to the type.

mod agent;
mod error;
mod path;
mod shell;
mod url;
mod wire;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    phase::ResumePhase,
    value::{Env, Line, List, Raw, Text, Whole, choice, or_default},
};

pub use agent::{
    AgentWork, AllowedFolders, AllowedUrls, Brief, Effort, Instructions, MaxTurns, ModelName,
    ModelTier, ProfileName,
};
pub use error::WorkError;
pub use path::{FolderPath, WorktreePath};
pub use shell::{ErrorAction, Shell, ShellWork};
pub use url::AllowedUrl;

/// A command line, or any other text that becomes work.
pub type CommandText = Text<50_000>;
/// How long a phase may take, in milliseconds: at most a week.
pub type TimeoutMs = Whole<1, 604_800_000>;

/// What is to be done, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkSpec {
    /// What is done.
    pub action: Action,
    /// Variables besides those of the job and of the plan.
    pub env: Env,
    /// Where it is done, from the top of the worktree; the top if there is none.
    pub cwd: Option<WorktreePath>,
    /// When it is ended, whatever it does.
    pub timeout_ms: Option<TimeoutMs>,
    /// When it is ended because it has said nothing for so long.
    pub idle_timeout_ms: Option<TimeoutMs>,
    /// What happens when it fails.
    pub on_failure: OnFailure,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A line for a shell.
    Shell(ShellWork),
    /// A program, started without a shell.
    Process(ProcessWork),
    /// An agent, given a task.
    Agent(AgentWork),
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessWork {
    /// The program: a name that is looked for in the path, or a path.
    pub executable: Executable,
    /// Its arguments.
    pub args: Args,
}

/// A program's name or path.
pub type Executable = Line<4_096>;
/// A program's arguments.
pub type Args = List<Raw<32_768>, 0, 256>;

/// What happens when work fails; by default it is healed where that is on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "an object with `noAutoHeal`, `message` or `resumeFromPhase`"
)]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct OnFailure {
    /// No agent is sent to heal it.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub no_auto_heal: bool,
    /// What people are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Text<1_000>>,
    /// The job starts again here, without an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_from_phase: Option<ResumePhase>,
}

choice! {
    /// What work counts as when it is decided how much may run at once.
    AdmissionClass: "a kind of work: agent, shell or process" {
        /// An agent: it costs money, and its service has limits.
        Agent = "agent",
        /// A shell, and whatever it starts.
        Shell = "shell",
        /// A program that is started by itself.
        Process = "process",
    }
}

impl WorkSpec {
    /// Work that only says what is done.
    #[must_use]
    pub fn of(action: Action) -> Self {
        Self {
            action,
            env: Env::default(),
            cwd: None,
            timeout_ms: None,
            idle_timeout_ms: None,
            on_failure: OnFailure::default(),
        }
    }

    /// Parses the text form: an object of JSON, `@agent` and a task, or a line for a shell.
    ///
    /// # Errors
    /// When the text is not one of these, or says something that work may not be.
    pub fn parse(text: &str) -> Result<Self, WorkError> {
        wire::parse(text)
    }

    /// What this counts as when it is decided how much may run at once.
    #[must_use]
    pub const fn class(&self) -> AdmissionClass {
        match self.action {
            Action::Shell(_) => AdmissionClass::Shell,
            Action::Process(_) => AdmissionClass::Process,
            Action::Agent(_) => AdmissionClass::Agent,
        }
    }

    /// The agent's task, if this is for an agent.
    #[must_use]
    pub const fn agent(&self) -> Option<&AgentWork> {
        match &self.action {
            Action::Agent(agent) => Some(agent),
            Action::Shell(_) | Action::Process(_) => None,
        }
    }
}

impl std::str::FromStr for WorkSpec {
    type Err = WorkError;

    fn from_str(text: &str) -> Result<Self, WorkError> {
        Self::parse(text)
    }
}

impl OnFailure {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests;
