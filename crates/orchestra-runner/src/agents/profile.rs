//! Profiles: which program an agent is, and how it is called, asked and read.
//!
//! [`ProfileText`] is what people write, in `[agents.<name>]` of `orchestra.toml`; a [`Profile`] is
//! one that holds together. The secrets of a program are named, never given: `environment` lists
//! variables that it may have from us.

mod text;

use serde::Deserialize;
use thiserror::Error;

pub use text::{Failures, Models, Probe, ProbeOptions, ProfileText, PromptBy};

use super::{
    Reading, Usage,
    reader::{Output, OutputError, Tells},
    ready,
    template::{One, Template, TemplateError, has_program_text},
};

/// What stands for our own program.
pub(super) const OWN_PROGRAM: &str = "{orchestra}";

/// Bounds of what a profile may hold.
const MAX_PROGRAM_BYTES: usize = 4_096;
const MAX_LIST: usize = 64;
const MAX_MODELS: usize = 500;
const MAX_TEXT_CHARS: usize = 200;
pub(super) const MAX_MODEL_CHARS: usize = 100;

/// Why a profile is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// No program, or one that is neither a name nor an absolute path: what a relative path means depends on
    /// the directory in which it is started.
    #[error(
        "`program` must be a name on PATH or an absolute path, of 1 to {MAX_PROGRAM_BYTES} bytes"
    )]
    Program,
    /// Its arguments.
    #[error("`{field}`: {what}")]
    Arguments {
        /// In which field.
        field: &'static str,
        /// What is wrong.
        what: String,
    },
    /// How its prompt is passed does not fit its arguments.
    #[error("`prompt = \"{by}\"` needs {what}")]
    Prompt {
        /// How.
        by: PromptBy,
        /// What is missing.
        what: &'static str,
    },
    /// Something that is too long, too much or no text of one line.
    #[error("`{field}` {what}")]
    Bounds {
        /// Which field.
        field: &'static str,
        /// What is expected.
        what: String,
    },
    /// How its output is read.
    #[error("`output`: {0}")]
    Output(OutputError),
}

/// A profile that holds together.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "ProfileText")]
pub struct Profile {
    text: ProfileText,
    pub(super) arguments: Template,
    pub(super) resume_arguments: Option<Template>,
    pub(super) output: Output,
}

impl Profile {
    /// As it was written.
    #[must_use]
    pub const fn text(&self) -> &ProfileText {
        &self.text
    }

    /// The arguments for a new session, or a resumed one.
    pub(super) fn template(&self, resumes: bool) -> &Template {
        let resume = self.resume_arguments.as_ref().filter(|_| resumes);
        resume.unwrap_or(&self.arguments)
    }

    /// Returns whether the command lines may run files that their words do not name. Words of the built-in profile of
    /// the same program are known to name none.
    pub(super) fn is_open(&self) -> bool {
        let text = &self.text;
        let is_known = |word: &str| ready::has_word(&text.program, word);
        let Probe {
            version,
            help,
            models,
            ..
        } = &text.probe;
        let mut plain = [version, help, models].into_iter().flatten();
        let mut templates = std::iter::once(&self.arguments).chain(&self.resume_arguments);
        templates.any(|template| template.is_open(&is_known))
            || plain.any(|word| has_program_text(word))
            || text.variables.values().any(|value| has_program_text(value))
            || text.models.all().any(|model| !is_plain(model))
    }

    /// What a run used, of what was read from it. `before` is what its session had used, when it was
    /// resumed: some programs report all of a session.
    #[must_use]
    pub fn used(&self, reading: &Reading, before: Option<&Usage>) -> Usage {
        match before.filter(|_| self.output.reports_session) {
            Some(before) => reading.usage.since(before),
            None => reading.usage.clone(),
        }
    }

    /// What is known of the use of its runs by what its program prints.
    #[must_use]
    pub fn tells(&self) -> Tells {
        self.output.tells()
    }

    /// Whether its output says of a resumed session what all of it used.
    #[must_use]
    pub const fn reports_session(&self) -> bool {
        self.output.reports_session
    }
}

impl TryFrom<ProfileText> for Profile {
    type Error = ProfileError;

    fn try_from(text: ProfileText) -> Result<Self, Self::Error> {
        let is_path = (1..=MAX_PROGRAM_BYTES).contains(&text.program.len())
            && !text.program.starts_with('-')
            && (text.program.starts_with('/') || !text.program.contains('/'))
            && is_line(&text.program);
        if !is_path {
            return Err(ProfileError::Program);
        }
        check_lists(&text)?;
        let arguments = template("arguments", &text.arguments)?;
        let resume = text.resume_arguments.as_ref();
        let resume_arguments = resume
            .map(|groups| template("resume_arguments", groups))
            .transpose()?;
        for arguments in [Some(&arguments), resume_arguments.as_ref()]
            .into_iter()
            .flatten()
        {
            check_prompt(text.prompt, arguments)?;
        }
        let mut output = Output::try_from(text.output.clone()).map_err(ProfileError::Output)?;
        let transient = text.failures.transient.iter();
        output.transient = transient.map(|text| text.to_ascii_lowercase()).collect();
        let permanent = text.failures.permanent.iter();
        output.permanent = permanent.map(|text| text.to_ascii_lowercase()).collect();
        Ok(Self {
            text,
            arguments,
            resume_arguments,
            output,
        })
    }
}

fn template(field: &'static str, groups: &[Vec<String>]) -> Result<Template, ProfileError> {
    Template::parse(groups).map_err(|error: TemplateError| ProfileError::Arguments {
        field,
        what: error.to_string(),
    })
}

fn check_prompt(by: PromptBy, arguments: &Template) -> Result<(), ProfileError> {
    let names = |one| arguments.names(one, &|_| true);
    let what = match by {
        PromptBy::Argument if !names(One::Prompt) => "{prompt} among its arguments",
        PromptBy::File if !names(One::PromptFile) => "{prompt_file} among its arguments",
        PromptBy::Stdin if names(One::Prompt) || names(One::PromptFile) => {
            "arguments without {prompt} and {prompt_file}"
        }
        _ => return Ok(()),
    };
    Err(ProfileError::Prompt { by, what })
}

fn check_lists(text: &ProfileText) -> Result<(), ProfileError> {
    let bounds = |field, what: String| Err(ProfileError::Bounds { field, what });
    let is_variable = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        (1..=MAX_TEXT_CHARS).contains(&name.len()) && name.bytes().all(is_part)
    };
    if text.environment.len() > MAX_LIST || !text.environment.iter().all(|name| is_variable(name)) {
        return bounds(
            "environment",
            format!("has at most {MAX_LIST} names of letters, digits and _"),
        );
    }
    let is_value = |value: &str| value.len() <= MAX_PROGRAM_BYTES && is_line(value);
    let is_pair = |(name, value): (&String, &String)| is_variable(name) && is_value(value);
    if text.variables.len() > MAX_LIST || !text.variables.iter().all(is_pair) {
        return bounds(
            "variables",
            format!(
                "has at most {MAX_LIST} names of letters, digits and _, with values of one line"
            ),
        );
    }
    let Models {
        fast,
        standard,
        premium,
        known,
    } = &text.models;
    let tiers = [fast, standard, premium].into_iter().flatten();
    if known.len() > MAX_MODELS || !known.iter().chain(tiers).all(|model| is_model(model)) {
        return bounds(
            "models",
            format!("has at most {MAX_MODELS} names of at most {MAX_MODEL_CHARS} characters"),
        );
    }
    check_texts(text)
}

fn check_texts(text: &ProfileText) -> Result<(), ProfileError> {
    let bounds = |field, what: String| Err(ProfileError::Bounds { field, what });
    let options = &text.probe.options;
    let options = [
        &options.model,
        &options.resume,
        &options.effort,
        &options.max_turns,
        &options.folders,
        &options.urls,
        &text.probe.model_choices,
    ];
    let lists: [(&'static str, Vec<&String>); 7] = [
        ("leaves", text.leaves.iter().collect()),
        (
            "failures.transient",
            text.failures.transient.iter().collect(),
        ),
        (
            "failures.permanent",
            text.failures.permanent.iter().collect(),
        ),
        ("probe.version", text.probe.version.iter().collect()),
        ("probe.help", text.probe.help.iter().collect()),
        ("probe.models", text.probe.models.iter().collect()),
        ("probe.options", options.into_iter().flatten().collect()),
    ];
    let is_item =
        |item: &&String| (1..=MAX_TEXT_CHARS).contains(&item.chars().count()) && is_line(item);
    for (field, items) in lists {
        if items.len() > MAX_LIST || !items.iter().all(is_item) {
            return bounds(
                field,
                format!(
                    "has at most {MAX_LIST} texts of 1 to {MAX_TEXT_CHARS} characters in one line"
                ),
            );
        }
    }
    if text.failures.crash_codes.len() > MAX_LIST {
        return bounds(
            "failures.crash_codes",
            format!("has at most {MAX_LIST} numbers"),
        );
    }
    Ok(())
}

/// Whether this can be the name of a model, and never an option.
pub(super) fn is_model(name: &str) -> bool {
    (1..=MAX_MODEL_CHARS).contains(&name.chars().count())
        && !name.starts_with('-')
        && !name.contains(|char: char| char.is_whitespace() || char.is_control())
}

/// Returns whether the name of a model has no character by which a program may read it as anything but a name.
fn is_plain(model: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "._:/@+-[]".contains(char);
    model.chars().all(is_part)
}

fn is_line(text: &str) -> bool {
    !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn profile(value: Value) -> Result<Profile, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_program_and_its_prompt_are_enough() {
        let least = json!({"program": "my-agent", "arguments": [["--", "{prompt}"]]});
        let profile = profile(least).unwrap();
        assert_eq!(profile.text().probe.version, ["--version"]);
        assert!(!profile.reports_session());
    }

    #[test]
    fn what_does_not_hold_together_is_refused_with_what_is_expected() {
        let with = |name: &str, value: Value| {
            let mut text = json!({"program": "x", "arguments": [["{prompt}"]]});
            text[name] = value;
            profile(text).unwrap_err()
        };
        for (name, value, expected) in [
            ("program", json!(""), "`program` must be"),
            ("program", json!("--version"), "`program` must be"),
            ("program", json!("./agent"), "or an absolute path"),
            ("program", json!("tools/agent"), "or an absolute path"),
            ("arguments", json!([["{promt}"]]), "not a placeholder"),
            ("arguments", json!([["x"]]), "needs {prompt} among"),
            ("resume_arguments", json!([["x"]]), "needs {prompt} among"),
            ("prompt", json!("stdin"), "without {prompt}"),
            ("prompt", json!("file"), "needs {prompt_file}"),
            ("environment", json!(["KEY=secret"]), "names of letters"),
            ("variables", json!({"A": "x\ny"}), "values of one line"),
            ("models", json!({"fast": "--yolo"}), "names of at most"),
            ("leaves", json!([""]), "1 to 200 characters"),
            ("api_key", json!("x"), "unknown field"),
            ("probe", json!({"options": {"modle": "x"}}), "unknown field"),
        ] {
            let error = with(name, value);
            assert!(error.contains(expected), "{name}: {error}");
        }
    }
}
