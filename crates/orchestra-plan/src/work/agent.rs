//! A task for an agent.

use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{AllowedUrl, FolderPath, WorktreePath};
use crate::{
    ids::{IdError, text_id},
    value::{Line, List, Text, Whole, choice},
};

/// What an agent is told.
pub type Instructions = Text<100_000>;
/// The name of a model.
pub type ModelName = Line<100>;
/// How often an agent may answer.
pub type MaxTurns = Whole<1, 500>;
/// Folders besides its worktree that an agent may read.
pub type AllowedFolders = List<FolderPath, 0, 20>;
/// Addresses that an agent may open.
pub type AllowedUrls = List<AllowedUrl, 0, 50>;

/// A task for an agent, and what it is given to do it with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentWork {
    /// The task.
    pub brief: Brief,
    /// Which of the configured agents; the one that is set as default if there is none.
    pub agent: Option<ProfileName>,
    /// The model; the agent's own choice if there is neither this nor a tier.
    pub model: Option<ModelName>,
    /// What kind of model, where none is named.
    pub model_tier: Option<ModelTier>,
    /// How long it thinks.
    pub effort: Option<Effort>,
    /// How often it may answer.
    pub max_turns: Option<MaxTurns>,
    /// Whether a retry goes on with the session of the attempt before; the runner's choice if it is
    /// not said.
    pub resume_session: Option<bool>,
    /// Folders besides the worktree that it may read.
    pub allowed_folders: AllowedFolders,
    /// Addresses that it may open.
    pub allowed_urls: AllowedUrls,
}

/// Where an agent's task is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Brief {
    /// Here.
    Text(Instructions),
    /// In a file of the worktree.
    File(WorktreePath),
}

choice! {
    /// A kind of model, for who does not care which.
    ModelTier: "a model tier: fast, standard or premium" {
        /// Quick and cheap.
        Fast = "fast",
        /// For most work.
        Standard = "standard",
        /// The best there is.
        Premium = "premium",
    }
}

choice! {
    /// How long an agent thinks.
    Effort: "an effort: low, medium, high or xhigh" {
        /// As little as can be.
        Low = "low",
        /// Some.
        Medium = "medium",
        /// Much.
        High = "high",
        /// As much as can be.
        XHigh = "xhigh",
    }
}

/// The name of a configured agent: 1 to 64 of `a-z0-9_-`, starting with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileName(Arc<str>);

impl AgentWork {
    /// An agent that is only given a task.
    #[must_use]
    pub fn of(brief: Brief) -> Self {
        Self {
            brief,
            agent: None,
            model: None,
            model_tier: None,
            effort: None,
            max_turns: None,
            resume_session: None,
            allowed_folders: AllowedFolders::default(),
            allowed_urls: AllowedUrls::default(),
        }
    }
}

impl ProfileName {
    /// Parses a name.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let legal = (1..=64).contains(&text.len())
            && text.bytes().all(|b| letter(b) || matches!(b, b'_' | b'-'))
            && text.bytes().next().is_some_and(letter);
        let expected = "the name of a configured agent: 1 to 64 characters of a-z, 0-9, _ and -";
        legal
            .then(|| Self(text.into()))
            .ok_or_else(|| IdError::new(text, expected))
    }
}

text_id!(ProfileName);

#[cfg(feature = "schema")]
impl JsonSchema for ProfileName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ProfileName".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"})
    }
}
