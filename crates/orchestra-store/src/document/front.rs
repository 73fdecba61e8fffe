//! The file of a document: front matter in YAML between lines of `---`, a blank line, and the body.
//! Without metadata the body is all there is, unless it would pass for front matter itself.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{DocumentBody, Metadata, MetadataError, yaml};

/// Opens and closes front matter.
const MARK: &[u8] = b"---";

/// Why a file is no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrontError {
    /// The line, from 1.
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// The file of a document.
pub(crate) fn write(body: &DocumentBody) -> Vec<u8> {
    let DocumentBody { content, metadata } = body;
    let mut file = Vec::with_capacity(content.len() + 1024);
    match metadata {
        Some(metadata) => {
            file.extend_from_slice(b"---\n");
            file.extend_from_slice(yaml::write(&metadata.fields()).as_bytes());
            file.extend_from_slice(b"---\n\n");
        }
        None if is_mark(first_line(content)) => file.extend_from_slice(b"---\n---\n\n"),
        None => {}
    }
    file.extend_from_slice(content);
    file
}

/// Reads the file of a document.
pub(crate) fn read(file: &[u8]) -> Result<DocumentBody, FrontError> {
    // Some editors put a byte-order mark before the front matter.
    let marked = file.strip_prefix(b"\xef\xbb\xbf");
    let file = marked
        .filter(|rest| is_mark(first_line(rest)))
        .unwrap_or(file);
    if !is_mark(first_line(file)) {
        return Ok(DocumentBody {
            content: file.to_vec(),
            metadata: None,
        });
    }
    let opened = first_line(file).len();
    let (mut at, mut line) = (opened, 2);
    loop {
        let found = first_line(&file[at..]);
        if found.is_empty() {
            return Err(FrontError {
                line: 1,
                what: "the front matter that `---` opens is not closed by another such line"
                    .to_owned(),
            });
        }
        if is_mark(found) {
            let rest = &file[at + found.len()..];
            let rest = rest
                .strip_prefix(b"\n")
                .or_else(|| rest.strip_prefix(b"\r\n"))
                .unwrap_or(rest);
            return Ok(DocumentBody {
                metadata: metadata(&file[opened..at])?,
                content: rest.to_vec(),
            });
        }
        (at, line) = (at + found.len(), line + 1);
        if line > MAX_LINES {
            return Err(FrontError {
                line,
                what: "the front matter has too many lines".to_owned(),
            });
        }
    }
}

/// No metadata that is kept needs more.
const MAX_LINES: usize = Metadata::MAX_BYTES;

/// The first line with its end; empty at the end.
fn first_line(text: &[u8]) -> &[u8] {
    match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => &text[..=end],
        None => text,
    }
}

fn is_mark(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line) == MARK
}

fn metadata(yaml: &[u8]) -> Result<Option<Metadata>, FrontError> {
    let failed = |line: usize, what: String| FrontError { line, what };
    let text = std::str::from_utf8(yaml)
        .map_err(|_| failed(2, "the front matter is not UTF-8 text".to_owned()))?;
    let says_nothing = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
    if text.lines().all(says_nothing) {
        return Ok(None);
    }
    orchestra_fs::check_yaml_depth(text)
        .map_err(|error| failed(2, format!("the front matter is too deep: {error}")))?;
    let budget = Cell::new(Metadata::MAX_BYTES);
    let value = Node(&budget)
        .deserialize(serde_norway::Deserializer::from_str(text))
        .map_err(|error| {
            let line = error.location().map_or(1, |place| place.line());
            failed(
                line + 1,
                format!("the front matter is no YAML that can be kept: {error}"),
            )
        })?;
    match value {
        Value::Null => Ok(None),
        value => Metadata::of(value).map_err(|error| {
            let what = match error {
                MetadataError::NoObject => "the front matter has no fields".to_owned(),
                error => error.to_string(),
            };
            failed(2, what)
        }),
    }
}

/// Reads one value of YAML as one of JSON; the cell holds how much may still come, for what is named
/// and used again grows without end.
#[derive(Clone, Copy)]
struct Node<'a>(&'a Cell<usize>);

impl Node<'_> {
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(bytes + 1);
        self.0
            .set(left.ok_or_else(|| E::custom(MetadataError::TooLarge))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// A name as it is written, whatever type it could pass for.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without a tag")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.spend(0)?;
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        self.spend(0)?;
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        self.spend(0)?;
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        self.spend(0)?;
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        self.spend(0)?;
        let number = Number::from_f64(number);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number that is none or without end; quote it"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.spend(text.len())?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.spend(0)?;
        let mut found = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            found.push(item);
        }
        Ok(Value::Array(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        self.spend(0)?;
        let mut found = Map::new();
        while let Some(Name(name)) = fields.next_key()? {
            self.spend(name.len())?;
            if found.contains_key(&name) {
                return Err(A::Error::custom(format_args!("`{name}` appears twice")));
            }
            let value = fields.next_value_seed(self)?;
            found.insert(name, value);
        }
        Ok(Value::Object(found))
    }
}

#[cfg(test)]
mod tests;
