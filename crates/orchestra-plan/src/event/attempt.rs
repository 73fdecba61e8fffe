//! What attempts are made of: their acts, their ends, and what follows.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Branch, Commit, Millis};
use crate::phase::Phase;

/// A part of an attempt: a phase, or an agent that heals what failed in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Act {
    /// The phase.
    pub phase: Phase,
    /// Whether an agent heals it, instead of the phase itself being done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub heal: bool,
}

impl Act {
    /// The phase itself.
    #[must_use]
    pub const fn of(phase: Phase) -> Self {
        Self { phase, heal: false }
    }

    /// An agent that heals what failed in the phase.
    #[must_use]
    pub const fn heal(phase: Phase) -> Self {
        Self { phase, heal: true }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.heal {
            write!(f, "heal of {}", self.phase)
        } else {
            self.phase.fmt(f)
        }
    }
}

/// Why there is an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// It is the first.
    Initial,
    /// A phase failed, and the plan's own rules try again.
    AutoHeal,
    /// A person asked for it.
    Retry,
    /// The target moved while the result was validated.
    PostchecksRevalidation,
    /// An agent handed on a part of its work.
    ContextPressureReshape,
    /// The process, or who ran it, was gone.
    Recovery,
    /// What failed is expected to pass by itself.
    Transient,
}

/// What the next attempt of a job does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Next {
    /// Why there is one.
    pub trigger: Trigger,
    /// The first phase that is done again; merge-fi is done in any case.
    pub from: Phase,
    /// The phase that an agent heals first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<Phase>,
    /// Whether agents take up the job's last session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resume_session: bool,
    /// Whether the worktree is made anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clear_worktree: bool,
    /// Not before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Millis>,
    /// The failure that a person has seen and asked to pass over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub despite: Option<FailureKind>,
}

impl Next {
    /// An attempt that does everything from the start.
    #[must_use]
    pub const fn whole(trigger: Trigger) -> Self {
        Self::resuming(trigger, Phase::MergeFi)
    }

    /// An attempt that goes on from a phase.
    #[must_use]
    pub const fn resuming(trigger: Trigger, from: Phase) -> Self {
        Self {
            trigger,
            from,
            heal: None,
            resume_session: false,
            clear_worktree: false,
            not_before: None,
            despite: None,
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "result",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum AttemptEnd {
    /// All its acts went well, and the job has succeeded.
    Succeeded {},
    /// It failed, and so did the job.
    Failed {
        /// In this act.
        act: Act,
        /// Why.
        failure: Failure,
    },
    /// It failed, and another attempt follows.
    Again {
        /// In this act.
        act: Act,
        /// Why.
        failure: Failure,
        /// What the next attempt does.
        next: Next,
        /// Whether the next attempt is one of the heals that the phase has.
        counted: bool,
    },
}

/// Why an act failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What happened, in words for people.
    pub message: String,
    /// What the process returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Files that are in conflict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Which of the commands it was that make a worktree ready, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
}

impl Failure {
    /// The longest message that is kept, in bytes: logs hold the rest.
    pub const MESSAGE_MAX: usize = 4096;
    /// The longest name of a file that is kept, in bytes.
    pub const FILE_MAX: usize = 1024;
    /// The most files that are named.
    pub const FILES_MAX: usize = 100;

    /// A failure of a kind; a message that is too long loses its end.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let mut message = message.into();
        truncate(&mut message, Self::MESSAGE_MAX);
        Self {
            kind,
            message,
            exit_code: None,
            signal: None,
            files: Vec::new(),
            part: None,
        }
    }

    /// The same within its bounds, whoever filled its fields.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        truncate(&mut self.message, Self::MESSAGE_MAX);
        self.files.truncate(Self::FILES_MAX);
        for file in &mut self.files {
            truncate(file, Self::FILE_MAX);
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Cuts a text to at most `max` bytes, at the end of a character.
pub(crate) fn truncate(text: &mut String, max: usize) {
    if text.len() > max {
        let mut end = max.saturating_sub('…'.len_utf8());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
}

/// The kinds of failure; each has its own consequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// A process ended with a code other than 0.
    ExitCode,
    /// A signal ended a process, or an agent ended with a code that means that it crashed.
    Signal,
    /// It took longer than it may.
    Timeout,
    /// It was silent for longer than it may.
    IdleTimeout,
    /// It wrote more than it may.
    OutputLimit,
    /// It used more memory or processes than it may.
    ResourceLimit,
    /// It could not be started.
    Spawn,
    /// Something that passes by itself, such as a service that is busy.
    Transient,
    /// A merge left conflicts.
    Conflict,
    /// There is nothing to commit, and nothing says that this is right.
    NothingChanged,
    /// The target is not where it was when its content was validated.
    TargetMoved,
    /// The target is checked out and has changes of the user's.
    TargetDirty,
    /// The target was rewritten: what was taken out of it would come back.
    TargetRewritten,
    /// Somebody else has made the branch that the plan was to make.
    TargetTaken,
    /// The merged tree lost most of its files.
    TreeDestroyed,
    /// A git command failed.
    Git,
    /// A worktree could not be made or found.
    Worktree,
    /// The disk is full, or a file could not be written.
    Storage,
    /// The process, or who ran it, is gone without a result.
    Lost,
    /// A person declared the job failed.
    Forced,
    /// The plan was canceled.
    Canceled,
    /// A budget is used up.
    BudgetExceeded,
    /// What the job asks for is not there: an agent, a file, an option.
    Unavailable,
    /// A fault of ours.
    Internal,
}

impl FailureKind {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::ExitCode,
        Self::Signal,
        Self::Timeout,
        Self::IdleTimeout,
        Self::OutputLimit,
        Self::ResourceLimit,
        Self::Spawn,
        Self::Transient,
        Self::Conflict,
        Self::NothingChanged,
        Self::TargetMoved,
        Self::TargetDirty,
        Self::TargetRewritten,
        Self::TargetTaken,
        Self::TreeDestroyed,
        Self::Git,
        Self::Worktree,
        Self::Storage,
        Self::Lost,
        Self::Forced,
        Self::Canceled,
        Self::BudgetExceeded,
        Self::Unavailable,
        Self::Internal,
    ];

    /// Whether an agent in the worktree could do something about it.
    #[must_use]
    pub const fn is_healable(self) -> bool {
        matches!(
            self,
            Self::ExitCode
                | Self::Signal
                | Self::Timeout
                | Self::IdleTimeout
                | Self::OutputLimit
                | Self::ResourceLimit
                | Self::Spawn
                | Self::Conflict
        )
    }

    /// Whether a person who has seen it can ask for the result all the same.
    #[must_use]
    pub const fn may_be_passed_over(self) -> bool {
        matches!(self, Self::TreeDestroyed | Self::TargetRewritten)
    }

    /// The reason that lists and job details name.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Lost | Self::Signal => "crashed",
            Self::Timeout | Self::IdleTimeout => "timeout",
            Self::Canceled => "user-canceled",
            Self::Forced => "forced",
            Self::BudgetExceeded => "budget-exceeded",
            _ => "execution-error",
        }
    }
}

/// A process that does an act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// When it started, as the system tells it: with the id it names one process only.
    pub started: u64,
}

/// A move of the target that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MergeIntent {
    /// The branch.
    pub target: Branch,
    /// Where it stands; absent where it is made by this move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Commit>,
    /// Where it goes.
    pub new: Commit,
}

/// What a job changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WorkSummary {
    /// Commits made.
    pub commits: u32,
    /// Files that are new.
    pub files_added: u32,
    /// Files that changed.
    pub files_modified: u32,
    /// Files that are gone.
    pub files_deleted: u32,
}

impl WorkSummary {
    /// Both together.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            commits: self.commits.saturating_add(other.commits),
            files_added: self.files_added.saturating_add(other.files_added),
            files_modified: self.files_modified.saturating_add(other.files_modified),
            files_deleted: self.files_deleted.saturating_add(other.files_deleted),
        }
    }
}
