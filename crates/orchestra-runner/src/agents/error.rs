//! What goes wrong before an agent runs, said so that it can be mended.

use std::{io, path::PathBuf};

use orchestra_plan::work::ModelTier;
use thiserror::Error;

use super::{Feature, ProfileError};

/// Reason that an agent cannot run as requested.
#[derive(Debug, Error)]
pub enum AgentError {
    /// No profile has this name.
    #[error("there is no agent `{name}`; known agents: {}", agents.join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// All names.
        agents: Vec<String>,
    },
    /// A profile is wrong.
    #[error("the profile of agent `{agent}` is invalid: {what}")]
    Profile {
        /// Agent of the profile.
        agent: String,
        /// What is wrong with it.
        what: ProfileError,
    },
    /// Its program is not there.
    #[error(
        "the program `{program}` of agent `{agent}` is not installed; install it, or name an agent with an installed \
         program ({}). To define one, set `program` and `arguments` of [agents.<name>] in your own {user_file}",
        if installed.is_empty() { "none".to_owned() } else { installed.join(", ") }
    )]
    NotInstalled {
        /// Which agent.
        agent: String,
        /// Its program.
        program: String,
        /// Agents whose programs are there.
        installed: Vec<String>,
        /// The user's own configuration file.
        user_file: String,
    },
    /// Its program does not report its capabilities.
    #[error("agent `{agent}` cannot be used: `{command}` {what}")]
    Probe {
        /// Which agent.
        agent: String,
        /// Command line of the probe.
        command: String,
        /// Result of the probe.
        what: String,
    },
    /// Work asks for something that the installed program cannot do.
    #[error("agent `{agent}` cannot {what}: {why}; omit `{field}`, or name an agent that can")]
    Unsupported {
        /// Which agent.
        agent: String,
        /// The requested feature.
        feature: Feature,
        /// The same in words.
        what: &'static str,
        /// Which field of the work asks for it.
        field: &'static str,
        /// Reason.
        why: String,
    },
    /// The model is not one that the program knows.
    #[error("agent `{agent}` has no model `{model}`; its models: {}", known.join(", "))]
    Model {
        /// Which agent.
        agent: String,
        /// The model that was asked for.
        model: String,
        /// Models that it knows.
        known: Vec<String>,
    },
    /// There is no model for a tier.
    #[error(
        "agent `{agent}` has no model of the {tier} tier; name a model, or set `models.{tier}` of its \
         profile"
    )]
    Tier {
        /// Which agent.
        agent: String,
        /// The tier that was asked for.
        tier: ModelTier,
    },
    /// A value that cannot be meant.
    #[error("`{field}` {what}")]
    Value {
        /// Which field of the work.
        field: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// A folder that may not be allowed.
    #[error("the allowed folder {} {what}; pass the absolute path of an existing directory", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A file of instructions that cannot be used.
    #[error("the instructions file `{file}` cannot be used: {what}")]
    InstructionsFile {
        /// Which.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// A value that does not fit the command line of the profile.
    #[error("the command line of agent `{agent}` cannot be built: {what}")]
    Arguments {
        /// Which agent.
        agent: String,
        /// What is wrong.
        what: String,
    },
    /// A file in the private directory of the worktree could not be written.
    #[error("{} cannot be written", path.display())]
    Write {
        /// Which, within the worktree.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl AgentError {
    /// A name that stays the same, for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "agent_unknown",
            Self::Profile { .. } => "agent_profile",
            Self::NotInstalled { .. } => "agent_not_installed",
            Self::Probe { .. } => "agent_probe_failed",
            Self::Unsupported { feature, .. } => match feature {
                Feature::Model => "agent_model_unsupported",
                Feature::Resume => "agent_resume_unsupported",
                Feature::Effort => "agent_effort_unsupported",
                Feature::MaxTurns => "agent_max_turns_unsupported",
                Feature::Folders => "agent_folders_unsupported",
                Feature::Urls => "agent_urls_unsupported",
            },
            Self::Model { .. } => "agent_model_unknown",
            Self::Tier { .. } => "agent_tier_unknown",
            Self::Value { .. } => "agent_value",
            Self::Folder { .. } => "agent_folder",
            Self::InstructionsFile { .. } => "agent_instructions_file",
            Self::Arguments { .. } => "agent_arguments",
            Self::Write { .. } => "agent_write",
        }
    }
}
