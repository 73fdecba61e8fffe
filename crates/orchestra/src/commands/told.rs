//! The result of a tool's call, on stdout and stderr: texts as they are, what is no text by its kind
//! and size, or saved.

use std::{
    io::{self, Write as _},
    path::{Component, Path, PathBuf},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Args;
use orchestra_fs::{Access, Directory};
use orchestra_wire::{RawJson, large_integer};
use serde_json::{Value, value::RawValue};

use crate::{
    exit::{Exit, Failure},
    output,
};

/// Output of a result.
#[derive(Debug, Args)]
pub(crate) struct TellFlags {
    /// Directory in which to save images, audio and other files of the result
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the whole MCP result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A result as it is printed.
pub(crate) struct Printed {
    pub(crate) value: Value,
    /// Its text, if the value does not hold all digits of its integers.
    exact: Option<RawJson>,
}

impl Printed {
    /// The result that a text is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn of(text: RawJson) -> Result<Self, Failure> {
        let value = text.parse_lossy()?;
        let exact = large_integer(text.as_str()).is_some();
        Ok(Self {
            value,
            exact: exact.then(|| text.made_readable().unwrap_or(text)),
        })
    }

    fn json(&self) -> Result<(), Failure> {
        match &self.exact {
            Some(exact) => output::json(&exact.parse::<&RawValue>()?),
            None => output::json(&self.value),
        }
    }

    /// The structure of the result as text.
    fn structured(&self) -> String {
        let exact = self.exact.as_ref();
        let exact = exact.and_then(|exact| exact.member("structuredContent"));
        exact.map_or_else(
            || self.value["structuredContent"].to_string(),
            |exact| exact.as_str().to_owned(),
        )
    }
}

impl From<Value> for Printed {
    fn from(value: Value) -> Self {
        Self { value, exact: None }
    }
}

/// What is no text.
struct Media<'a> {
    mime: &'a str,
    base64: &'a str,
    uri: Option<&'a str>,
}

/// Prints a result as MCP has it: its text, or all of it as JSON. What a tool says that failed goes to
/// stderr, unless all is JSON, and the program exits as `refusal` says. What is no result of a tool
/// is printed as JSON, and said to be none.
pub(crate) fn print(
    tool: &str,
    printed: &Printed,
    flags: &TellFlags,
    refusal: Exit,
) -> Result<Exit, Failure> {
    let result = &printed.value;
    if !is_result(result) {
        output::complain(&format!(
            "error: the response of {tool} is not a tool result: it has no list `content`"
        ));
        match flags.json {
            true => printed.json()?,
            false => output::lines(&output::printable(&result.to_string()))?,
        }
        return Ok(Exit::Problems);
    }
    let is_error = result["isError"] == true;
    let mut saver = flags
        .output
        .as_deref()
        .map(|directory| Saver::new(directory, tool));
    let (mut texts, mut has_unsaved) = (Vec::new(), false);
    for block in result["content"].as_array().into_iter().flatten() {
        let text = match (media(block), &mut saver) {
            (Some(media), Some(saver)) => {
                let path = saver.save(&media)?;
                format!("[{}: {}]", media.words(), path.display())
            }
            (Some(media), None) => {
                has_unsaved = true;
                format!("[{}]", media.words())
            }
            (None, _) => words(block),
        };
        texts.push(text);
    }
    if texts.is_empty() && result["structuredContent"].is_object() {
        texts.push(printed.structured());
    }
    if flags.json {
        printed.json()?;
        return Ok(if is_error { refusal } else { Exit::Ok });
    }
    let texts = texts.iter().map(|text| output::printable_result(text));
    let text = texts.collect::<Vec<_>>().join("\n");
    if is_error {
        return failed(text, refusal);
    }
    output::lines(&text)?;
    if has_unsaved {
        output::complain("`--output DIR` saves content that is not text; `--json` prints it");
    }
    Ok(Exit::Ok)
}

/// Whether it is a result of a tool; some leave out the list where they answer with a structure.
fn is_result(result: &Value) -> bool {
    match &result["content"] {
        Value::Array(_) => true,
        Value::Null => result["structuredContent"].is_object(),
        _ => false,
    }
}

/// What a tool says that failed.
fn failed(text: String, refusal: Exit) -> Result<Exit, Failure> {
    match refusal {
        Exit::Usage => Err(Failure::usage_text(text)),
        Exit::Denied => Err(Failure::denied(text)),
        Exit::Refused => Err(Failure::refused(text)),
        exit => {
            output::complain(&format!("error: {text}"));
            Ok(exit)
        }
    }
}

/// A block that holds no bytes, in words.
fn words(block: &Value) -> String {
    let text = block["text"].as_str();
    let text = text.or_else(|| block["resource"]["text"].as_str());
    if let Some(text) = text {
        return text.to_owned();
    }
    match (block["type"].as_str(), block["uri"].as_str()) {
        (Some("resource_link"), Some(uri)) => {
            let more = [&block["name"], &block["mimeType"]].into_iter();
            let more: Vec<&str> = more.filter_map(Value::as_str).collect();
            format!("[{uri}: {}]", more.join(", "))
        }
        _ => block.to_string(),
    }
}

fn media(block: &Value) -> Option<Media<'_>> {
    let (holder, key) = match block["type"].as_str()? {
        "image" | "audio" => (block, "data"),
        "resource" => (&block["resource"], "blob"),
        _ => return None,
    };
    Some(Media {
        mime: holder["mimeType"]
            .as_str()
            .unwrap_or("application/octet-stream"),
        base64: holder[key].as_str()?,
        uri: holder["uri"].as_str(),
    })
}

impl Media<'_> {
    /// What it is, and how large.
    fn words(&self) -> String {
        let digits = self.base64.trim_end_matches('=').len();
        let size = size(digits * 3 / 4);
        match self.uri {
            Some(uri) => format!("{uri}, {}, {size}", self.mime),
            None => format!("{}, {size}", self.mime),
        }
    }

    /// How the name of a file of its kind ends.
    fn ending(&self) -> &'static str {
        const ENDINGS: [(&str, &str); 14] = [
            ("image/png", "png"),
            ("image/jpeg", "jpg"),
            ("image/gif", "gif"),
            ("image/webp", "webp"),
            ("image/svg+xml", "svg"),
            ("audio/mpeg", "mp3"),
            ("audio/wav", "wav"),
            ("audio/x-wav", "wav"),
            ("audio/ogg", "ogg"),
            ("audio/flac", "flac"),
            ("audio/webm", "webm"),
            ("application/pdf", "pdf"),
            ("application/zip", "zip"),
            ("application/json", "json"),
        ];
        let mime = self.mime.split(';').next().unwrap_or_default().trim();
        let mut known = ENDINGS.iter();
        let known = known.find(|(known, _)| known.eq_ignore_ascii_case(mime));
        known.map_or("bin", |(_, ending)| ending)
    }
}

/// A number of bytes for people.
fn size(bytes: usize) -> String {
    // Nobody reads more digits than a float keeps.
    #[expect(clippy::cast_precision_loss, reason = "it is rounded anyway")]
    let tenths = |unit: usize| bytes as f64 / unit as f64;
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{:.1} KiB", tenths(1_024)),
        _ => format!("{:.1} MiB", tenths(1_048_576)),
    }
}

/// Writes files beside each other, over none that is there.
struct Saver<'a> {
    directory: &'a Path,
    /// How their names begin.
    stem: String,
    number: u32,
}

impl<'a> Saver<'a> {
    fn new(directory: &'a Path, tool: &str) -> Self {
        let legal = |c: char| match c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
            true => c,
            false => '_',
        };
        Self {
            directory,
            stem: tool.chars().take(64).map(legal).collect(),
            number: 0,
        }
    }

    fn save(&mut self, media: &Media<'_>) -> Result<PathBuf, Failure> {
        let bytes = STANDARD.decode(media.base64);
        let bytes = bytes.with_context(|| format!("the {} is not in base64", media.mime))?;
        let directory = opened(self.directory)?;
        loop {
            self.number += 1;
            let name = format!("{}-{}.{}", self.stem, self.number, media.ending());
            let path = self.directory.join(&name);
            match directory.create_new(name, Access::Shared) {
                Ok(mut file) => {
                    let written = file.write_all(&bytes);
                    written.with_context(|| format!("writing {}", path.display()))?;
                    return Ok(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Opens the directory for saved files, and creates it. Below the current directory, no component of the path may be a
/// symbolic link, which a repository can contain; behind `..`, the last component may be none.
fn opened(path: &Path) -> Result<Directory, Failure> {
    let current = std::env::current_dir()?;
    let below = path.strip_prefix(&current).unwrap_or(path);
    let mut parts = below.components();
    if parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        let names = below.components();
        let names: PathBuf = names.filter(|part| *part != Component::CurDir).collect();
        return Ok(Directory::open(&current)?.make_below(&names, Access::Shared)?);
    }
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) if path.is_relative() => {
            Ok(Directory::make(above)?.make_below(Path::new(name), Access::Shared)?)
        }
        _ => Ok(Directory::make(path)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_the_unit_that_fits() {
        for (bytes, words) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (12_595, "12.3 KiB"),
            (3 << 20, "3.0 MiB"),
        ] {
            assert_eq!(size(bytes), words);
        }
    }
}
