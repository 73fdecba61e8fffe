//! A readable file, parsed and handed out field by field, with the line of each for errors.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::error::{FileError, FileFault};
use super::{counts, flat};

/// The version of the files' form that is written, and the newest that is read.
pub(crate) const SCHEMA: u64 = 1;

/// The fields of a file, or of one row in it, taken out one by one.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    file: &'a str,
    text: &'a str,
    fields: Map<String, Value>,
    /// The list and the row this is, when it is not the whole file.
    row: Option<(String, usize)>,
}

type Result<T> = std::result::Result<T, FileError>;

impl<'a> Document<'a> {
    /// Parses a file. `file` is the name that errors give it.
    ///
    /// # Errors
    /// When the text is not TOON, holds marks of a merge or a comment, is of a newer schema or ends
    /// too early.
    pub(crate) fn parse(file: &'a str, text: &'a str) -> Result<Self> {
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        check_first_line(file, text)?;
        check_merge_marks(file, text)?;
        check_comments(file, text)?;
        let fields = match flat::parse(text) {
            Some(fields) => fields,
            None => match toon_format::decode_default::<Value>(text) {
                Ok(Value::Object(fields)) => fields,
                Ok(_) => {
                    let fault =
                        FileFault::Syntax("holds no fields; `name: value` is meant".to_owned());
                    return Err(FileError::whole(file, fault));
                }
                Err(error) => {
                    // A text merge leaves wrong counts behind.
                    let repaired = counts::repaired(text)
                        .and_then(|text| toon_format::decode_default::<Value>(&text).ok());
                    match repaired {
                        Some(Value::Object(fields)) => fields,
                        _ => return Err(syntax(file, text, &error)),
                    }
                }
            },
        };
        let mut document = Self {
            file,
            text,
            fields,
            row: None,
        };
        let schema = document.number("schema")?;
        if schema != SCHEMA {
            return Err(document.error("schema", format!("must be {SCHEMA}")));
        }
        match document.fields.shift_remove("end") {
            Some(Value::Bool(true)) => Ok(document),
            _ => {
                let line = line_number(text.lines().count());
                Err(FileError {
                    file: file.to_owned(),
                    line,
                    field: String::new(),
                    fault: FileFault::Truncated,
                })
            }
        }
    }

    /// An error about a field of this document.
    pub(crate) fn error(&self, key: &str, what: impl Into<String>) -> FileError {
        self.error_at(key, None, what)
    }

    fn error_at(&self, key: &str, index: Option<usize>, what: impl Into<String>) -> FileError {
        let (line, mut field) = match &self.row {
            None => (find_field(self.text, key), key.to_owned()),
            Some((list, row)) => (
                find_row(self.text, list, *row, key),
                format!("{list}[{}].{key}", row + 1),
            ),
        };
        if let Some(index) = index {
            field.push_str(&format!("[{}]", index + 1));
        }
        let fault = FileFault::Field(what.into());
        FileError {
            file: self.file.to_owned(),
            line: line_number(line),
            field,
            fault,
        }
    }

    fn optional(&mut self, key: &str) -> Option<Value> {
        self.fields
            .shift_remove(key)
            .filter(|value| !value.is_null())
    }

    fn required(&mut self, key: &str) -> Result<Value> {
        self.optional(key)
            .ok_or_else(|| self.error(key, "is missing"))
    }

    fn text_of(&self, key: &str, index: Option<usize>, value: Value) -> Result<String> {
        let quote = |shown: String| {
            self.error_at(
                key,
                index,
                format!("must be text, not {shown}; quote it: \"{shown}\""),
            )
        };
        match value {
            Value::String(text) => Ok(text),
            Value::Bool(flag) => Err(quote(flag.to_string())),
            Value::Number(number) => Err(quote(number.to_string())),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                Err(self.error_at(key, index, "must be text"))
            }
        }
    }

    /// A text that must be there.
    pub(crate) fn text(&mut self, key: &str) -> Result<String> {
        let value = self.required(key)?;
        self.text_of(key, None, value)
    }

    /// A text that may be there.
    pub(crate) fn optional_text(&mut self, key: &str) -> Result<Option<String>> {
        self.optional(key)
            .map(|value| self.text_of(key, None, value))
            .transpose()
    }

    /// A whole number that must be there.
    pub(crate) fn number(&mut self, key: &str) -> Result<u64> {
        let value = self.required(key)?;
        value
            .as_u64()
            .ok_or_else(|| self.error(key, "must be a whole number"))
    }

    /// A whole number that must be there, no larger than what it is kept in can hold.
    pub(crate) fn number_up_to(&mut self, key: &str, limit: u64) -> Result<u64> {
        let number = self.number(key)?;
        if number > limit {
            return Err(self.error(key, format!("must be at most {limit}")));
        }
        Ok(number)
    }

    /// A whole number that may be there.
    pub(crate) fn optional_number(&mut self, key: &str) -> Result<Option<u64>> {
        let value = self.optional(key);
        value
            .map(|value| {
                value
                    .as_u64()
                    .ok_or_else(|| self.error(key, "must be a whole number"))
            })
            .transpose()
    }

    /// A field that must be there, parsed.
    pub(crate) fn parsed<T, E: Display>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&str) -> std::result::Result<T, E>,
    ) -> Result<T> {
        let text = self.text(key)?;
        parse(&text).map_err(|error| self.error(key, error.to_string()))
    }

    /// A field that may be there, parsed.
    pub(crate) fn optional_parsed<T, E: Display>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&str) -> std::result::Result<T, E>,
    ) -> Result<Option<T>> {
        let text = self.optional_text(key)?;
        text.map(|text| parse(&text).map_err(|error| self.error(key, error.to_string())))
            .transpose()
    }

    /// One of a few names that must be there.
    pub(crate) fn named<T>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T> {
        let text = self.text(key)?;
        parse(&text).ok_or_else(|| self.unknown_name(key, &text))
    }

    /// One of all there are, by its name, that must be there.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        key: &str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<T> {
        let text = self.text(key)?;
        chosen(&text, all, name).map_err(|wrong| self.error(key, wrong))
    }

    /// One of all there are, by its name, that may be there.
    pub(crate) fn optional_choice<T: Copy>(
        &mut self,
        key: &str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>> {
        let text = self.optional_text(key)?;
        text.map(|text| chosen(&text, all, name).map_err(|wrong| self.error(key, wrong)))
            .transpose()
    }

    fn unknown_name(&self, key: &str, text: &str) -> FileError {
        let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
        self.error(key, format!("cannot be `{shown}`"))
    }

    /// A list of texts, each parsed; empty when it is not there.
    pub(crate) fn list<T, E: Display>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> std::result::Result<T, E>,
    ) -> Result<Vec<T>> {
        let values = match self.optional(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(values)) => values,
            Some(_) => return Err(self.error(key, format!("must be a list: `{key}[2]: a,b`"))),
        };
        let one = |(index, value)| {
            let text = self.text_of(key, Some(index), value)?;
            parse(&text).map_err(|error| self.error_at(key, Some(index), error.to_string()))
        };
        values.into_iter().enumerate().map(one).collect()
    }

    /// A list of rows; empty when it is not there.
    pub(crate) fn rows(&mut self, key: &str) -> Result<Vec<Self>> {
        let values = match self.optional(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(values)) => values,
            Some(_) => return Err(self.error(key, "must be a list of rows")),
        };
        let row = |(index, value)| match value {
            Value::Object(fields) => Ok(Self {
                file: self.file,
                text: self.text,
                fields,
                row: Some((key.to_owned(), index)),
            }),
            _ => Err(self.error_at(key, Some(index), "must be a row with fields")),
        };
        values.into_iter().enumerate().map(row).collect()
    }

    /// Leaves out a field that says nothing of its own.
    pub(crate) fn ignore(&mut self, key: &str) {
        self.fields.shift_remove(key);
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// When a field was not asked for: it would be lost when the file is next written.
    pub(crate) fn finish(self) -> Result<()> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(key) => Err(self.error(key, "is not a field of this file; remove it")),
        }
    }
}

/// Refuses a newer schema before anything else is judged, for its form is not known.
fn check_first_line(file: &str, text: &str) -> Result<()> {
    let first = text
        .trim_start_matches('\u{FEFF}')
        .lines()
        .next()
        .unwrap_or_default();
    let schema = first
        .strip_prefix("schema:")
        .and_then(|rest| rest.trim().parse::<u64>().ok());
    match schema {
        Some(found) if found > SCHEMA => {
            let fault = FileFault::NewerSchema {
                found,
                known: SCHEMA,
            };
            Err(FileError {
                file: file.to_owned(),
                line: 1,
                field: "schema".to_owned(),
                fault,
            })
        }
        _ => Ok(()),
    }
}

/// Finds the marks that git leaves in a file it could not merge.
pub(crate) fn check_merge_marks(file: &str, text: &str) -> Result<()> {
    let begins = |line: &str, mark: &str| {
        line.strip_prefix(mark)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\r']))
    };
    if !text.contains("<<<<<<<") {
        return Ok(());
    }
    let Some(start) = text.lines().position(|line| begins(line, "<<<<<<<")) else {
        return Ok(());
    };
    let rest = || text.lines().skip(start + 1);
    if rest().any(|line| begins(line, "=======")) && rest().any(|line| begins(line, ">>>>>>>")) {
        let line = line_number(start + 1);
        return Err(FileError {
            file: file.to_owned(),
            line,
            field: String::new(),
            fault: FileFault::MergeMarks,
        });
    }
    Ok(())
}

/// Refuses lines that are comments (section 5.1 of the specification): they would be lost when the
/// file is next written.
fn check_comments(file: &str, text: &str) -> Result<()> {
    let is_comment = |line: &str| line.trim_start_matches(' ').starts_with('#');
    let text = text.trim_start_matches('\u{FEFF}');
    let Some(index) = text.lines().position(is_comment) else {
        return Ok(());
    };
    let what = "is a comment, which would be lost when the file is next written; remove it, and \
                write it into a description or a comment on the board";
    Err(FileError {
        file: file.to_owned(),
        line: line_number(index + 1),
        field: String::new(),
        fault: FileFault::Syntax(what.to_owned()),
    })
}

fn syntax(file: &str, text: &str, error: &toon_format::ToonError) -> FileError {
    let (line, message) = match error {
        toon_format::ToonError::ParseError { line, message, .. } => (*line, message.clone()),
        other => (0, other.to_string()),
    };
    // Text that is not complete is most often one that was cut off.
    let lines = text.lines().count();
    let ended = text.trim_end().ends_with("end: true");
    let fault = if !ended && line >= lines {
        FileFault::Truncated
    } else {
        FileFault::Syntax(message)
    };
    FileError {
        file: file.to_owned(),
        line: line_number(line.min(lines)),
        field: String::new(),
        fault,
    }
}

pub(crate) fn line_number(line: usize) -> u64 {
    u64::try_from(line).unwrap_or(u64::MAX)
}

/// [`find_field`], as errors have it.
pub(crate) fn line_of(text: &str, key: &str) -> u64 {
    line_number(find_field(text, key))
}

/// The line of a field at the top of a file, from 1; the last line when it is nowhere.
fn find_field(text: &str, key: &str) -> usize {
    let names = |line: &str| is_key(line, key);
    text.lines()
        .position(names)
        .map_or_else(|| text.lines().count(), |index| index + 1)
}

fn is_key(line: &str, key: &str) -> bool {
    let bare = line
        .strip_prefix(key)
        .map(|rest| rest.starts_with([':', '[']));
    bare.unwrap_or_else(|| {
        let quoted = line
            .strip_prefix('"')
            .and_then(|rest| rest.strip_prefix(key));
        quoted.is_some_and(|rest| rest.starts_with("\":") || rest.starts_with("\"["))
    })
}

/// The line of a field in the `row`th row of a list, from 1. In a table that is the row's line.
fn find_row(text: &str, list: &str, row: usize, key: &str) -> usize {
    let start = find_field(text, list);
    let inside = |(_, line): &(usize, &str)| line.is_empty() || line.starts_with(' ');
    let is_content = |(_, line): &(usize, &str)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    };
    let below: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .skip(start)
        .take_while(inside)
        .filter(is_content)
        .collect();
    let depth = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let starts: Vec<usize> = (0..below.len())
        .filter(|at| depth(below[*at].1) <= 2)
        .collect();
    let Some(&first) = starts.get(row) else {
        return start;
    };
    let end = starts.get(row + 1).copied().unwrap_or(below.len());
    let of_field = below[first..end].iter().find(|(_, line)| {
        let line = line.trim_start_matches(' ');
        is_key(line.strip_prefix("- ").unwrap_or(line), key)
    });
    of_field.map_or(below[first].0, |(index, _)| *index) + 1
}

/// The one that has this name; else what is wrong, with the names there are.
pub(super) fn chosen<T: Copy>(
    text: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> std::result::Result<T, String> {
    let found = all.iter().copied().find(|one| name(*one) == text);
    found.ok_or_else(|| {
        let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        format!("cannot be `{shown}`; it is one of {}", names.join(", "))
    })
}
