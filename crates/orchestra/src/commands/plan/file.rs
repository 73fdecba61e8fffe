//! Plan files: YAML, TOML, TOON and JSON, all of the same fields.

mod words;

use std::{
    fmt::Display,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use clap::ValueEnum;
use orchestra_gateway::config::merged;
use orchestra_plan::{spec::PlanSpec, work::WorkSpec};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use serde_path_to_error::Segment;
use toml::de::{DeTable, DeValue};

use super::Given;
use crate::{exit::Failure, output};

type JsonReader<'a> = serde_json::Deserializer<serde_json::de::SliceRead<'a>>;
type JsonError = serde_path_to_error::Error<serde_json::Error>;

/// The longest file: some hundred jobs with long instructions.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The longest message about a file.
const MAX_WORDS: usize = 1_000;

/// Format of a plan file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Language {
    /// YAML.
    Yaml,
    /// TOML.
    Toml,
    /// TOON.
    Toon,
    /// JSON.
    Json,
}

/// Reads a plan, and puts what was said otherwise in it.
///
/// # Errors
/// When it cannot be read or is none; the message names the file, and the line or the field.
pub(super) fn read(given: &Given) -> Result<PlanSpec, Failure> {
    let mut plan = read_file(&given.file, given.format)?;
    let settings = &mut plan.settings;
    if let Some(name) = &given.name {
        settings.name = said("--name", name)?;
    }
    if let Some(base) = &given.base {
        settings.base_branch = Some(said("--base", base)?);
    }
    if let Some(target) = &given.target {
        settings.target_branch = Some(said("--target", target)?);
    }
    Ok(plan)
}

/// Reads a plan file, in a language that was said or that its name ends with; stdin as it begins.
///
/// # Errors
/// As [`read`].
pub(super) fn read_file(file: &Path, said: Option<Language>) -> Result<PlanSpec, Failure> {
    let wrong = |what: String| {
        let what: String = what.chars().take(MAX_WORDS).collect();
        Failure::usage_text(format!("{}: {}", name(file), output::printable(&what)))
    };
    let language = match said {
        None if !is_stdin(file) => Some(language(file).map_err(wrong)?),
        said => said,
    };
    let text = text(file).map_err(|error| wrong(error.to_string()))?;
    let is_guessed = language.is_none();
    let language = language.unwrap_or_else(|| guessed(&text));
    understood(&text, language).map_err(|error| {
        wrong(match is_guessed {
            true => format!("{error} (read as {language:?}; `--format` sets another format)"),
            false => error,
        })
    })
}

/// What a file is called in messages.
pub(super) fn name(file: &Path) -> String {
    match is_stdin(file) {
        true => "stdin".to_owned(),
        false => file.display().to_string(),
    }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// Work that is said by a flag: a text as in a file, or an object as JSON.
///
/// # Errors
/// When it is no work.
pub(super) fn work(flag: &str, text: &str) -> Result<WorkSpec, Failure> {
    match text.trim_start().starts_with('{') {
        false => said(flag, text),
        true => of_json(text.as_bytes())
            .map_err(|error| Failure::usage_text(format!("{flag}: {}", output::printable(&error)))),
    }
}

/// A value of a flag, as it would be read in a file.
pub(super) fn said<T: DeserializeOwned>(flag: &str, text: &str) -> Result<T, Failure> {
    let value = serde_json::from_value(Value::from(text));
    value.map_err(|error| {
        let error = words::in_words(&error.to_string());
        Failure::usage_text(format!("{flag}: {}", output::printable(&error)))
    })
}

fn language(file: &Path) -> Result<Language, String> {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("yaml" | "yml") => Ok(Language::Yaml),
        Some("toml") => Ok(Language::Toml),
        Some("toon") => Ok(Language::Toon),
        Some("json") => Ok(Language::Json),
        _ => Err("a plan file is called .yaml, .toml, .toon or .json".to_owned()),
    }
}

/// The language that a text begins like: an object of JSON, the `name = …` of TOML, else YAML. Of TOON
/// nothing is seen at its beginning.
fn guessed(text: &str) -> Language {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let first = first.unwrap_or_default();
    match first.split_once('=') {
        _ if first.starts_with('{') => Language::Json,
        Some((key, _)) if !key.contains(':') => Language::Toml,
        _ => Language::Yaml,
    }
}

fn text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = match is_stdin(file) {
        true => io::stdin()
            .lock()
            .take(MAX_BYTES + 1)
            .read_to_string(&mut text),
        false => File::open(file)?
            .take(MAX_BYTES + 1)
            .read_to_string(&mut text),
    };
    if read? as u64 > MAX_BYTES {
        return Err(io::Error::other(format!(
            "it is larger than {MAX_BYTES} bytes"
        )));
    }
    // Some editors put a byte order mark first.
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

fn understood(text: &str, language: Language) -> Result<PlanSpec, String> {
    if let Language::Yaml = language {
        orchestra_fs::check_yaml_depth(text).map_err(|error| error.to_string())?;
    }
    match language {
        Language::Json => of_json(text.as_bytes()),
        Language::Yaml if text.contains("<<") => {
            let value = serde_norway::from_str(text).map_err(|error| error.to_string())?;
            of_value(&merged(value).map_err(|error| error.to_string())?)
        }
        Language::Yaml => {
            let reader = serde_norway::Deserializer::from_str(text);
            let plan = serde_path_to_error::deserialize(reader);
            plan.map_err(|error| match indented_by_tab(text, error.inner()) {
                Some(line) => {
                    format!("line {line} is indented with a tab; YAML allows only spaces")
                }
                None => in_field(error),
            })
        }
        Language::Toml => of_toml(text),
        Language::Toon => {
            let value: Value =
                toon_format::decode_default(text).map_err(|error| error.to_string())?;
            of_value(&value)
        }
    }
}

/// Reads a text of JSON.
///
/// # Errors
/// A message with the field, and its line and column.
fn of_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = from_json(&mut reader).map_err(in_field)?;
    reader.end().map_err(|error| error.to_string())?;
    Ok(value)
}

/// Reads what another format contains, as JSON.
///
/// # Errors
/// A message with the field. Its line in the JSON is not one of the file.
fn of_value<T: DeserializeOwned>(value: &impl Serialize) -> Result<T, String> {
    let json = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    let read = from_json(&mut serde_json::Deserializer::from_slice(&json));
    read.map_err(|error| words::at(&error.path().to_string(), &without_place(&error)))
}

/// Reads a text of TOML, by way of JSON: another reader of all types of plans would be 390 KB of the program.
///
/// # Errors
/// A message with the field, and its line and column.
fn of_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    // JSON has no such numbers, and `null` would mean that the field is not set.
    if let Some(path) = table.iter().find_map(|(key, value)| not_finite(value, key)) {
        return Err(words::at(&path, "a finite number is expected"));
    }
    let json = serde_json::to_vec(&table).map_err(|error| error.to_string())?;
    let read = from_json(&mut serde_json::Deserializer::from_slice(&json));
    read.map_err(|error| {
        let mut what = without_place(&error);
        if let Some(before) = start_in_toml(text, error.path(), what.starts_with("unknown field")) {
            let line = before.matches('\n').count() + 1;
            let column = before
                .chars()
                .rev()
                .take_while(|letter| *letter != '\n')
                .count()
                + 1;
            what.push_str(&format!(" at line {line} column {column}"));
        }
        words::at(&error.path().to_string(), &what)
    })
}

/// Returns the path of a number that is infinite or not a number.
fn not_finite(value: &toml::Value, at: &str) -> Option<String> {
    match value {
        toml::Value::Float(number) => (!number.is_finite()).then(|| at.to_owned()),
        toml::Value::Array(list) => {
            let mut items = list.iter().enumerate();
            items.find_map(|(index, item)| not_finite(item, &format!("{at}[{index}]")))
        }
        toml::Value::Table(table) => {
            let mut members = table.iter();
            members.find_map(|(key, member)| not_finite(member, &format!("{at}.{key}")))
        }
        _ => None,
    }
}

/// Returns the text of TOML before a value, or before its key. An unknown key has a path, but no value that is wrong.
fn start_in_toml<'a>(
    text: &'a str,
    path: &serde_path_to_error::Path,
    is_key: bool,
) -> Option<&'a str> {
    let table = DeTable::parse(text).ok()?.into_inner();
    let mut value = DeValue::Table(table);
    let mut start = 0;
    for segment in path.iter() {
        let inner = match (segment, value) {
            (Segment::Map { key }, DeValue::Table(table)) => {
                let (key, inner) = table.into_iter().find(|(name, _)| name.get_ref() == key)?;
                start = key.span().start;
                inner
            }
            (Segment::Seq { index }, DeValue::Array(list)) => list.into_iter().nth(*index)?,
            _ => break,
        };
        if !is_key {
            start = inner.span().start;
        }
        value = inner.into_inner();
    }
    text.get(..start)
}

/// Reads JSON as the arguments of tools are read: another reader would generate the code of all types of plans again.
fn from_json<T: DeserializeOwned>(reader: &mut JsonReader<'_>) -> Result<T, JsonError> {
    serde_path_to_error::deserialize(reader)
}

/// What is wrong, without the line of a JSON text that the user never saw.
fn without_place(error: &JsonError) -> String {
    let mut what = error.inner().to_string();
    what.truncate(what.rfind(" at line ").unwrap_or(what.len()));
    what
}

/// The line that a reader of YAML stopped at, or the one behind it, where a tab stands before its text.
fn indented_by_tab(text: &str, error: &serde_norway::Error) -> Option<usize> {
    let place = error.location()?;
    let near = place.line().saturating_sub(1)..=place.line() + 1;
    let mut lines = text.lines().zip(1..);
    let found = lines.find(|(line, number)| {
        let blanks = line.len() - line.trim_start().len();
        near.contains(number) && line[..blanks].contains('\t') && !line.trim().is_empty()
    });
    found.map(|(_, number)| number)
}

/// What is wrong, with the field that it is about.
fn in_field<E: Display>(error: serde_path_to_error::Error<E>) -> String {
    words::at(&error.path().to_string(), &error.inner().to_string())
}

#[cfg(test)]
mod tests;
