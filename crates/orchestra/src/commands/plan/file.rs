//! Plan files: YAML, TOML, TOON and JSON, all of the same fields.

use std::{
    fmt::Display,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use orchestra_plan::{spec::PlanSpec, work::WorkSpec};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Given;
use crate::{exit::Failure, output};

/// The longest file: some hundred jobs with long instructions.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The longest message about a file.
const MAX_WORDS: usize = 1_000;

/// In which language a plan is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Yaml,
    Toml,
    Toon,
    Json,
    /// JSON where it begins as that does, else YAML.
    JsonOrYaml,
}

/// Reads a plan, and puts what was said otherwise in it.
///
/// # Errors
/// When it cannot be read or is none; the message names the file, and the line or the field.
pub(super) fn read(given: &Given) -> Result<PlanSpec, Failure> {
    let mut plan = read_file(&given.file)?;
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

/// Reads a plan file.
///
/// # Errors
/// As [`read`].
pub(super) fn read_file(file: &Path) -> Result<PlanSpec, Failure> {
    let name = match file == Path::new("-") {
        true => "stdin".to_owned(),
        false => file.display().to_string(),
    };
    let wrong = |what: String| {
        let what: String = what.chars().take(MAX_WORDS).collect();
        Failure::usage_text(format!("{name}: {}", output::printable(&what)))
    };
    let language = language(file).map_err(wrong)?;
    let text = text(file).map_err(|error| wrong(error.to_string()))?;
    understood(&text, language).map_err(wrong)
}

/// Work that is said by a flag: a text as in a file, or an object as JSON.
///
/// # Errors
/// When it is no work.
pub(super) fn work(flag: &str, text: &str) -> Result<WorkSpec, Failure> {
    match text.trim_start().starts_with('{') {
        false => said(flag, text),
        true => {
            let mut reader = serde_json::Deserializer::from_str(text);
            let work = serde_path_to_error::deserialize(&mut reader).map_err(in_field);
            work.map_err(|error| {
                Failure::usage_text(format!("{flag}: {}", output::printable(&error)))
            })
        }
    }
}

/// A value of a flag, as it would be read in a file.
fn said<T: DeserializeOwned>(flag: &str, text: &str) -> Result<T, Failure> {
    let value = serde_json::from_value(Value::from(text));
    value.map_err(|error| Failure::usage_text(format!("{flag}: {error}")))
}

fn language(file: &Path) -> Result<Language, String> {
    if file == Path::new("-") {
        return Ok(Language::JsonOrYaml);
    }
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("yaml" | "yml") => Ok(Language::Yaml),
        Some("toml") => Ok(Language::Toml),
        Some("toon") => Ok(Language::Toon),
        Some("json") => Ok(Language::Json),
        _ => Err("a plan file is called .yaml, .toml, .toon or .json".to_owned()),
    }
}

fn text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = match file == Path::new("-") {
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
    Ok(text)
}

fn understood(text: &str, language: Language) -> Result<PlanSpec, String> {
    let language = match language {
        Language::JsonOrYaml if text.trim_start().starts_with('{') => Language::Json,
        Language::JsonOrYaml => Language::Yaml,
        language => language,
    };
    match language {
        Language::Json => {
            let mut reader = serde_json::Deserializer::from_str(text);
            let plan = serde_path_to_error::deserialize(&mut reader).map_err(in_field)?;
            reader.end().map_err(|error| error.to_string())?;
            Ok(plan)
        }
        Language::Yaml | Language::JsonOrYaml => {
            let reader = serde_norway::Deserializer::from_str(text);
            let plan = serde_path_to_error::deserialize(reader);
            plan.map_err(|error| match indented_by_tab(text, error.inner()) {
                Some(line) => {
                    format!("line {line} is indented with a tab; YAML takes blanks alone")
                }
                None => in_field(error),
            })
        }
        Language::Toml => {
            let reader = toml::Deserializer::parse(text).map_err(|error| error.to_string())?;
            serde_path_to_error::deserialize(reader).map_err(in_field)
        }
        Language::Toon => {
            let value: Value =
                toon_format::decode_default(text).map_err(|error| error.to_string())?;
            serde_path_to_error::deserialize(value).map_err(in_field)
        }
    }
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

/// The name in a message about an unknown one that it is most like: `unknown field `x`, expected one of
/// `a`, `b``. None where it is like none of them.
fn nearest(what: &str) -> Option<&str> {
    /// One letter may differ of so many.
    const FAR: usize = 2;
    /// Longer names are like none.
    const LONG: usize = 64;
    let (_, rest) = what.rsplit_once("unknown field `")?;
    let (unknown, rest) = rest.split_once("`, expected ")?;
    if unknown.len() > LONG {
        return None;
    }
    let known = rest.split('`').skip(1).step_by(2);
    let far = |name: &str| distance(&unknown.to_lowercase(), &name.to_lowercase());
    let near = known.map(|name| (far(name), name)).min()?;
    (near.0 * FAR <= near.1.len()).then_some(near.1)
}

/// How many letters must be put in, left out or replaced to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut costs: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut before = row;
        costs[0] = row + 1;
        for (column, with) in other.iter().enumerate() {
            let replaced = before + usize::from(letter != *with);
            before = costs[column + 1];
            costs[column + 1] = replaced.min(before + 1).min(costs[column] + 1);
        }
    }
    costs.last().copied().unwrap_or_default()
}

/// What is wrong, with the field that it is about.
fn in_field<E: Display>(error: serde_path_to_error::Error<E>) -> String {
    let path = error.path().to_string();
    let what = error.inner().to_string();
    let what = what.trim_end();
    // Some say themselves where it is, less exactly.
    let what = match what.split_once(": ") {
        Some((place, rest)) if !place.is_empty() && path.starts_with(place) => rest,
        _ => what,
    };
    let meant = nearest(what).map(|name| format!("; did you mean `{name}`?"));
    let meant = meant.unwrap_or_default();
    match path.as_str() {
        // It ended before there was a field.
        "." | "?" => format!("{what}{meant}"),
        path => format!("{path}: {what}{meant}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "\
name: Search
jobs:
  - producerId: index
    task: Build the index
    work: make index
  - producerId: query
    task: Answer queries
    work: {type: process, executable: make, args: [query]}
    dependencies: [index]
";
    const TOML: &str = "\
name = 'Search'
[[jobs]]
producerId = 'index'
task = 'Build the index'
work = 'make index'
[[jobs]]
producerId = 'query'
task = 'Answer queries'
work = { type = 'process', executable = 'make', args = ['query'] }
dependencies = ['index']
";
    const TOON: &str = "\
name: Search
jobs[2]:
  - producerId: index
    task: Build the index
    work: make index
  - producerId: query
    task: Answer queries
    work:
      type: process
      executable: make
      args[1]: query
    dependencies[1]: index
";

    #[test]
    fn all_languages_say_the_same() {
        let yaml = understood(YAML, Language::Yaml).unwrap();
        assert_eq!(yaml.jobs.len(), 2);
        assert_eq!(understood(TOML, Language::Toml).unwrap(), yaml);
        assert_eq!(understood(TOON, Language::Toon).unwrap(), yaml);
        let json = serde_json::to_string(&yaml).unwrap();
        assert_eq!(understood(&json, Language::Json).unwrap(), yaml);
        assert_eq!(understood(&json, Language::JsonOrYaml).unwrap(), yaml);
        assert_eq!(understood(YAML, Language::JsonOrYaml).unwrap(), yaml);
    }

    #[test]
    fn only_what_is_alike_is_taken_for_what_was_meant() {
        for (what, meant) in [
            (
                "unknown field `dependecies`, expected one of `task`, `dependencies`",
                Some("dependencies"),
            ),
            (
                "unknown field `maxparallel`, expected `maxParallel` or `env`",
                Some("maxParallel"),
            ),
            ("unknown field `zebra`, expected one of `task`, `env`", None),
            ("missing field `task`", None),
        ] {
            assert_eq!(nearest(what), meant, "{what}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, language, expected) in [
            (
                YAML.replace("task: Answer", "taks: Answer"),
                Language::Yaml,
                "jobs[1].taks: unknown field `taks`",
            ),
            (
                YAML.replace("jobs:", "maxParalel: 2\njobs:"),
                Language::Yaml,
                "; did you mean `maxParallel`?",
            ),
            (
                TOML.replace("task = 'Answer", "tsak = 'Answer"),
                Language::Toml,
                "; did you mean `task`?",
            ),
            (
                YAML.replace("    task: Build", "\ttask: Build"),
                Language::Yaml,
                "line 4 is indented with a tab",
            ),
            (
                YAML.replace("  - producerId: index", "\t- producerId: index"),
                Language::Yaml,
                "line 3 is indented with a tab",
            ),
            (
                YAML.replace("index\n    task", "Index!\n    task"),
                Language::Yaml,
                "jobs[0].producerId",
            ),
            (
                YAML.replace("name: Search", "name: ["),
                Language::Yaml,
                "line",
            ),
            (
                TOML.replace("name = 'Search'", "name = "),
                Language::Toml,
                "line 1",
            ),
            (
                TOML.replace("'index'\ntask", "7\ntask"),
                Language::Toml,
                "producerId",
            ),
            (
                TOON.replace("  - producerId: query", "  - producer: query"),
                Language::Toon,
                "jobs[1].producer",
            ),
            ("{\"name\": \"x\"} {}".to_owned(), Language::Json, "jobs"),
            ("{\"name\": 7}".to_owned(), Language::Json, "line 1"),
            ("{\"name\"".to_owned(), Language::Json, "EOF"),
        ] {
            let error = understood(&text, language).unwrap_err();
            assert!(error.contains(expected), "{language:?}: {error}");
            assert!(!error.starts_with('?'), "{language:?}: {error}");
        }
    }
}
