//! What a script may say.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Steps, of which the first that is meant is done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// In the order in which they are looked at.
    pub steps: Vec<Step>,
}

/// What is done, and when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When it is meant; always, unless said.
    #[serde(default)]
    pub when: When,
    /// What is done, one after the other.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
}

/// Conditions, all of which have to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The prompt has this text in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// It is this run in the worktree, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
}

/// One thing that is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// A line on standard output.
    Print(String),
    /// A line on standard error.
    PrintError(String),
    /// So many bytes on standard output, at most 1 GiB.
    Flood(u64),
    /// A file, in place of what was there.
    Write {
        /// Where, within the worktree.
        path: String,
        /// What it holds.
        text: String,
    },
    /// More at the end of a file.
    Append {
        /// Where, within the worktree.
        path: String,
        /// What is added.
        text: String,
    },
    /// A text of a file by another, which has to be there.
    Replace {
        /// Where, within the worktree.
        path: String,
        /// What is looked for.
        from: String,
        /// What stands in its place.
        to: String,
    },
    /// A file less.
    Delete(String),
    /// A file that shows that nothing had to be changed, of the job of this id.
    Evidence {
        /// The id of the job.
        job: String,
        /// What was found.
        summary: String,
    },
    /// So many milliseconds without doing anything, at most a minute.
    Wait(u64),
    /// Waiting until a file is there, at most a minute.
    WaitFor(String),
    /// A commit of everything, with this message.
    Commit(String),
    /// What it says it used.
    Usage(UsageSaid),
    /// Saying that the figures are the final ones.
    Last,
    /// Saying that the work is done.
    Complete,
    /// Saying that it failed.
    Fail(String),
    /// Ending with a code.
    Exit(u8),
    /// Ending by a signal.
    Signal(Signal),
    /// Not ending, for at most an hour.
    Hang,
}

impl Action {
    /// What it is called.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Print(_) => "print",
            Self::PrintError(_) => "print_error",
            Self::Flood(_) => "flood",
            Self::Write { .. } => "write",
            Self::Append { .. } => "append",
            Self::Replace { .. } => "replace",
            Self::Delete(_) => "delete",
            Self::Evidence { .. } => "evidence",
            Self::Wait(_) => "wait",
            Self::WaitFor(_) => "wait_for",
            Self::Commit(_) => "commit",
            Self::Usage(_) => "usage",
            Self::Last => "last",
            Self::Complete => "complete",
            Self::Fail(_) => "fail",
            Self::Exit(_) => "exit",
            Self::Signal(_) => "signal",
            Self::Hang => "hang",
        }
    }
}

/// A signal by which it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Term,
    /// SIGABRT.
    Abort,
}

/// Figures that it says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UsageSaid {
    /// Tokens read.
    #[serde(default)]
    pub input: u64,
    /// Tokens written.
    #[serde(default)]
    pub output: u64,
    /// Tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Tokens written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Money, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Requests that count against a subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub premium: Option<f64>,
    /// Time spent waiting for a model, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_ms: Option<u64>,
    /// Lines added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_added: Option<u64>,
    /// Lines removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_removed: Option<u64>,
}

impl Script {
    /// The step that is meant.
    pub(super) fn step(&self, prompt: &str, run: u32) -> Option<&Step> {
        self.steps.iter().find(|step| {
            let When {
                prompt: text,
                run: at,
            } = &step.when;
            text.as_ref()
                .is_none_or(|text| prompt.contains(text.as_str()))
                && at.is_none_or(|at| at == run)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_that_is_meant_is_taken() {
        let script: Script = serde_json::from_str(
            r#"{"steps": [
                {"when": {"prompt": "mend", "run": 2}, "do": [{"print": "a"}]},
                {"when": {"run": 1}, "do": ["hang"]},
                {"do": [{"write": {"path": "x", "text": "y"}}, {"exit": 3}, {"signal": "kill"}]}
            ]}"#,
        )
        .unwrap();
        let at = |prompt: &str, run| {
            let step = script.step(prompt, run).unwrap();
            script.steps.iter().position(|other| other == step).unwrap()
        };
        assert_eq!(
            (at("please mend", 2), at("please mend", 1), at("x", 2)),
            (0, 1, 2)
        );
        let empty = Script::default();
        assert!(empty.step("x", 1).is_none());
        assert!(serde_json::from_str::<Script>(r#"{"steps": [{"do": [{"run": "rm"}]}]}"#).is_err());
    }
}
