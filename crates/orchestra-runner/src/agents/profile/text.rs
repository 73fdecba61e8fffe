//! Profiles as people write them.

use std::{collections::BTreeMap, fmt};

use orchestra_plan::work::{Effort, ModelTier};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agents::reader::OutputText;

/// How a program gets its prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PromptBy {
    /// By `{prompt}` among its arguments. A prompt that is too long for an argument is put into a
    /// file, and the argument says which.
    #[default]
    Argument,
    /// By its standard input.
    Stdin,
    /// By a file, whose path is `{prompt_file}` among its arguments.
    File,
}

impl fmt::Display for PromptBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Argument => "argument",
            Self::Stdin => "stdin",
            Self::File => "file",
        })
    }
}

/// Models of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// For work of the fast tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast: Option<String>,
    /// For work of the standard tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard: Option<String>,
    /// For work of the premium tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub premium: Option<String>,
    /// All that may be asked for; empty asks the program, or takes any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 500)))]
    pub known: Vec<String>,
}

impl Models {
    /// All names of the table.
    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        let tiers = [&self.fast, &self.standard, &self.premium];
        tiers.into_iter().flatten().chain(&self.known)
    }

    /// The model of a tier.
    #[must_use]
    pub fn of(&self, tier: ModelTier) -> Option<&str> {
        match tier {
            ModelTier::Fast => self.fast.as_deref(),
            ModelTier::Standard => self.standard.as_deref(),
            ModelTier::Premium => self.premium.as_deref(),
        }
    }
}

/// How a program is asked what it can do. It is called with each of these lists of arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Arguments by which it says its version; empty does not ask.
    #[serde(default = "version_argument")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub version: Vec<String>,
    /// Arguments by which it says its options; empty does not ask, and takes the profile's word.
    #[serde(default = "help_argument")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub help: Vec<String>,
    /// Arguments by which it lists its models, one to a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub models: Vec<String>,
    /// The option whose help lists the models as choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_choices: Option<String>,
    /// What the help has to name for a feature to be there.
    #[serde(default)]
    pub options: ProbeOptions,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            version: version_argument(),
            help: help_argument(),
            models: Vec::new(),
            model_choices: None,
            options: ProbeOptions::default(),
        }
    }
}

fn version_argument() -> Vec<String> {
    vec!["--version".to_owned()]
}

fn help_argument() -> Vec<String> {
    vec!["--help".to_owned()]
}

/// Words of the help by which features are known. One that is not given is taken to be there when
/// the arguments express it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProbeOptions {
    /// For naming a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// For resuming a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// For an effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// For a limit of turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<String>,
    /// For more folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folders: Option<String>,
    /// For addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<String>,
}

/// How its failures are told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Failures {
    /// Texts, however their letters are written, by which a failure is one that passes; besides
    /// those that are always known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub transient: Vec<String>,
    /// Texts, however their letters are written, by which a failure is one that no repetition cures, such
    /// as a missing login; in addition to the texts that are always known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub permanent: Vec<String>,
    /// Exit codes by which it crashed, rather than failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub crash_codes: Vec<i32>,
}

/// A profile as people write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProfileText {
    /// Its name on `PATH`, or its path.
    pub program: String,
    /// Groups of arguments with placeholders: `{prompt}`, `{prompt_file}`, `{model}`, `{session}`,
    /// `{new_session}`, `{worktree}`, `{private}`, `{effort}`, `{max_turns}`, and lists, for each of
    /// which a group stands once: `{folders}`, `{urls}`, `{domains}`; with a comma, as `{urls,}`,
    /// all stand in one argument. A group is left out when something that it names is not given. One
    /// whose first word begins with `?` is given only to programs whose help names that option.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub arguments: Vec<Vec<String>>,
    /// Arguments that stand in place of those when a session is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub resume_arguments: Option<Vec<Vec<String>>>,
    /// How it gets its prompt.
    #[serde(default)]
    pub prompt: PromptBy,
    /// Names of variables that it may have from our environment, such as keys. Their values are
    /// never kept, and masked in what it prints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub environment: Vec<String>,
    /// Variables with values that are no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub variables: BTreeMap<String, String>,
    /// Its models.
    #[serde(default)]
    pub models: Models,
    /// Efforts that it knows; empty when it knows all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 4)))]
    pub efforts: Vec<Effort>,
    /// Whether it may read everywhere in any case: allowed folders are then only named to it.
    #[serde(default)]
    pub reads_everywhere: bool,
    /// Names, as in `.gitignore`, of what it leaves in a worktree and that is no work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub leaves: Vec<String>,
    /// How many tokens its models can be given at once. Without it nobody knows how full a context
    /// is, and its agents are never asked to leave parts of their work to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// How it is asked what it can do.
    #[serde(default)]
    pub probe: Probe,
    /// How its output is read.
    #[serde(default)]
    pub output: OutputText,
    /// How its failures are told apart.
    #[serde(default)]
    pub failures: Failures,
}
