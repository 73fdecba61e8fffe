//! The phases that a job goes through, in their order.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::ids::{IdError, parsed_text};

/// One step of a job. They run in the order in which they stand here; see section 9 of the plan
/// runner's specification for what each does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// What the job depends on is brought into its worktree.
    MergeFi,
    /// The worktree is made ready.
    Setup,
    /// The check before the work.
    Prechecks,
    /// The work itself.
    Work,
    /// What the work changed becomes a commit.
    Commit,
    /// The check after the work.
    Postchecks,
    /// What the plan made is merged into the target.
    MergeRi,
    /// What is no longer needed is removed.
    Cleanup,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::MergeFi,
        Self::Setup,
        Self::Prechecks,
        Self::Work,
        Self::Commit,
        Self::Postchecks,
        Self::MergeRi,
        Self::Cleanup,
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MergeFi => "merge-fi",
            Self::Setup => "setup",
            Self::Prechecks => "prechecks",
            Self::Work => "work",
            Self::Commit => "commit",
            Self::Postchecks => "postchecks",
            Self::MergeRi => "merge-ri",
            Self::Cleanup => "cleanup",
        }
    }

    /// Parses a name.
    ///
    /// # Errors
    /// When no phase has that name.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let expected = "a phase: one of merge-fi, setup, prechecks, work, commit, postchecks, \
            merge-ri, cleanup";
        Self::ALL
            .into_iter()
            .find(|phase| phase.as_str() == text)
            .ok_or_else(|| IdError::new(text, expected))
    }

    /// The phase after this one.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase > self)
    }

    /// Whether a failure here may be healed by an agent. What git alone does is not: an agent would
    /// only repeat it.
    #[must_use]
    pub const fn may_be_healed(self) -> bool {
        matches!(
            self,
            Self::MergeFi | Self::Setup | Self::Prechecks | Self::Work | Self::Postchecks
        )
    }

    /// Whether a job may be told to start again here.
    #[must_use]
    pub const fn may_be_resumed_from(self) -> bool {
        !matches!(self, Self::Setup | Self::Cleanup)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

parsed_text!(Phase);

#[cfg(feature = "schema")]
impl JsonSchema for Phase {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Phase".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": Self::ALL.map(Self::as_str)})
    }
}

/// A phase that a job may be told to start again from: `merge-fi`, `prechecks`, `work`, `commit`,
/// `postchecks` or `merge-ri`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResumePhase(Phase);

impl ResumePhase {
    /// Where everything starts.
    pub const START: Self = Self(Phase::MergeFi);

    /// The phase, if a job may start again there.
    #[must_use]
    pub fn new(phase: Phase) -> Option<Self> {
        phase.may_be_resumed_from().then_some(Self(phase))
    }

    /// Parses a name.
    ///
    /// # Errors
    /// When no phase has that name, or no job may start again there.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let expected = "a phase to resume from: one of merge-fi, prechecks, work, commit, \
            postchecks, merge-ri";
        Phase::parse(text)
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| IdError::new(text, expected))
    }

    /// The phase.
    #[must_use]
    pub const fn get(self) -> Phase {
        self.0
    }
}

impl fmt::Display for ResumePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

parsed_text!(ResumePhase);

#[cfg(feature = "schema")]
impl JsonSchema for ResumePhase {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ResumePhase".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Phase::ALL
            .into_iter()
            .filter(|phase| phase.may_be_resumed_from())
            .map(Phase::as_str)
            .collect();
        json_schema!({"type": "string", "enum": names})
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase, ResumePhase};

    #[test]
    fn phases_stand_in_their_order() {
        let mut walked = vec![Phase::MergeFi];
        while let Some(next) = walked.last().and_then(|phase| phase.next()) {
            walked.push(next);
        }
        assert_eq!(walked, Phase::ALL);
        for phase in Phase::ALL {
            assert_eq!(Phase::parse(phase.as_str()), Ok(phase));
        }
    }

    #[test]
    fn a_job_starts_again_only_where_it_may() {
        let may: Vec<String> = Phase::ALL
            .into_iter()
            .filter_map(ResumePhase::new)
            .map(|phase| phase.to_string())
            .collect();
        assert_eq!(
            may,
            [
                "merge-fi",
                "prechecks",
                "work",
                "commit",
                "postchecks",
                "merge-ri"
            ]
        );
        assert!(ResumePhase::parse("setup").is_err());
        assert!(ResumePhase::parse("banana").is_err());
    }
}
