//! How people declare what output says.

use std::{collections::BTreeMap, time::Duration};

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    FINAL_GRACE, Form, Output,
    json::{Event, Path},
    pattern::Pattern,
};

/// Bounds of what may be declared.
const MAX_RULES: usize = 64;
const MAX_TEXT_CHARS: usize = 400;
const MAX_GRACE_MS: u64 = 600_000;

/// How output is read, as people write it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OutputText {
    /// In which form figures are printed.
    #[serde(default)]
    pub form: FormText,
    /// For JSON: what members say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub events: Vec<EventText>,
    /// For text: what lines say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub lines: Vec<LineText>,
    /// Texts by which the program says that its work is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub complete: Vec<String>,
    /// Whether figures of a resumed session are those of the whole session.
    #[serde(default)]
    pub reports_session: bool,
    /// Whether `input` counts what was read from or written to a cache as well.
    #[serde(default)]
    pub input_includes_cache: bool,
    /// How long it may go on after its final figures, in milliseconds; 30 000 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 600_000)))]
    pub final_grace_ms: Option<u64>,
}

/// The form of output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FormText {
    /// It says nothing that is read.
    #[default]
    None,
    /// One object of JSON to a line of standard output.
    JsonLines,
    /// All of standard output is one object of JSON.
    Json,
    /// Lines of text, of either output.
    Text,
}

/// What an object of JSON says. Members are named by paths: names with points between.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventText {
    /// Which objects: those whose members at these paths have these values, as text; `null` is also
    /// what is not there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub when: BTreeMap<String, String>,
    /// Where the session stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Where the name of a model stands, to which tokens belong from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where tokens stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensText>,
    /// Where tokens stand by model. When there are any, `tokens` is passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<ModelsText>,
    /// Where it stands what the model was given in its last call: that is how full its context is.
    /// What was read from and written to a cache counts, what the model wrote does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<TokensText>,
    /// Where the cost stands, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<String>,
    /// Where requests stand that count against a subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub premium: Option<String>,
    /// Where the time spent waiting for models stands, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_ms: Option<String>,
    /// Where the time of the session stands, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ms: Option<String>,
    /// Where the number of turns stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<String>,
    /// Where the number of lines added stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_added: Option<String>,
    /// Where the number of lines removed stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_removed: Option<String>,
    /// Where a message about a failure stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether its figures add to earlier ones; else they stand in their place.
    #[serde(default)]
    pub adds: bool,
    /// Whether it is one turn.
    #[serde(default)]
    pub turn: bool,
    /// Whether these are the final figures.
    #[serde(default)]
    pub last: bool,
    /// Whether it says that the work is done.
    #[serde(default)]
    pub complete: bool,
    /// Whether it says that the run failed.
    #[serde(default)]
    pub failed: bool,
}

/// Where tokens stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TokensText {
    /// Read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<String>,
    /// Written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<String>,
    /// All together; counts when neither input nor output is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<String>,
}

/// Where an object stands whose members are named like models, and where tokens stand in each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelsText {
    /// The object.
    pub at: String,
    /// Its members' tokens.
    pub tokens: TokensText,
}

/// What a line of text says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LineText {
    /// How it begins, with captures: `{session}`, `{model}`, `{input}`, `{output}`, `{cache_read}`,
    /// `{cache_write}`, `{cost_usd}`, `{premium}`, `{api_time}`, `{session_time}`, `{turns}`,
    /// `{lines_added}`, `{lines_removed}`, and `{_}` for what does not matter.
    pub pattern: String,
    /// Whether its figures add to earlier ones; else they stand in their place, but for tokens of
    /// models that are named, one to a line.
    #[serde(default)]
    pub adds: bool,
    /// Whether the figures are the final ones.
    #[serde(default)]
    pub last: bool,
}

/// Why output cannot be read like that.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OutputError {
    /// More rules than are looked at.
    #[error("there are more than {MAX_RULES} rules; remove some of them")]
    TooMany,
    /// A text is empty or too long.
    #[error("`{text}` must have 1 to {MAX_TEXT_CHARS} characters")]
    Text {
        /// Its beginning.
        text: String,
    },
    /// Rules of another form.
    #[error("`form` must be {expected} for {rules}")]
    Form {
        /// What it has to be.
        expected: &'static str,
        /// Which rules are there.
        rules: &'static str,
    },
    /// A pattern that cannot be read.
    #[error("the pattern `{pattern}` {what}")]
    Pattern {
        /// Which.
        pattern: String,
        /// What is wrong.
        what: String,
    },
    /// A grace that is too long.
    #[error("`final_grace_ms` must be at most {MAX_GRACE_MS}")]
    Grace,
}

impl TryFrom<OutputText> for Output {
    type Error = OutputError;

    fn try_from(text: OutputText) -> Result<Self, OutputError> {
        let longest = [text.events.len(), text.lines.len(), text.complete.len()];
        if longest.into_iter().any(|count| count > MAX_RULES) {
            return Err(OutputError::TooMany);
        }
        for mark in &text.complete {
            check_text(mark)?;
        }
        let is_json = matches!(text.form, FormText::Json | FormText::JsonLines);
        if !is_json && !text.events.is_empty() {
            return Err(OutputError::Form {
                expected: "\"json-lines\" or \"json\"",
                rules: "`events`",
            });
        }
        if text.form != FormText::Text && !text.lines.is_empty() {
            return Err(OutputError::Form {
                expected: "\"text\"",
                rules: "`lines`",
            });
        }
        let events = || {
            text.events
                .iter()
                .map(Event::parse)
                .collect::<Result<_, _>>()
        };
        let form = match text.form {
            FormText::None => Form::None,
            FormText::JsonLines => Form::JsonLines(events()?),
            FormText::Json => Form::Json(events()?),
            FormText::Text => Form::Text(
                text.lines
                    .iter()
                    .map(Pattern::parse)
                    .collect::<Result<_, _>>()?,
            ),
        };
        let grace = text
            .final_grace_ms
            .map(Duration::from_millis)
            .unwrap_or(FINAL_GRACE);
        if grace > Duration::from_millis(MAX_GRACE_MS) {
            return Err(OutputError::Grace);
        }
        Ok(Self {
            form,
            reports_session: text.reports_session,
            input_includes_cache: text.input_includes_cache,
            grace,
            complete: text.complete,
            transient: Vec::new(),
            permanent: Vec::new(),
        })
    }
}

/// Whether a text has a length that is looked at.
pub(super) fn check_text(text: &str) -> Result<(), OutputError> {
    match (1..=MAX_TEXT_CHARS).contains(&text.chars().count()) {
        true => Ok(()),
        false => Err(OutputError::Text {
            text: text.chars().take(40).collect(),
        }),
    }
}

impl Path {
    /// A path that people wrote, if they did.
    pub(super) fn of(text: Option<&String>) -> Result<Option<Self>, OutputError> {
        text.map(|text| Self::parse(text)).transpose()
    }
}
