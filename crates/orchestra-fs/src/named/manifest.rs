//! Manifests of packages of Node.js: the files that programs start with.

use std::{fs::File, io::Read as _};

use serde_json::Value;

/// Name of a manifest.
pub(super) const NAME: &str = "package.json";

/// Members that name files of the package which programs start with.
const MEMBERS: [&str; 6] = ["main", "module", "bin", "exports", "imports", "directories"];

/// Maximum number of bytes of a manifest.
const MAX_BYTES: u64 = 1024 * 1024;

/// Maximum number of files that a manifest names.
const MAX_FILES: usize = 128;

/// Maximum number of bytes of the name of a file, a command or an import.
const MAX_NAME_BYTES: usize = 1_024;

/// Files that a manifest names.
#[derive(Debug, Clone, Default)]
pub(super) struct Manifest {
    /// The files, each with the name of the command or import that it is for.
    pub(super) files: Vec<(String, String)>,
    /// True if files are missing, because the manifest is not JSON or exceeds a limit.
    pub(super) is_unclear: bool,
}

impl Manifest {
    /// A manifest whose files are not known.
    pub(super) fn unclear() -> Self {
        Self {
            is_unclear: true,
            ..Self::default()
        }
    }

    /// Reads a manifest.
    pub(super) fn read(file: File) -> Self {
        let Some(value) = parsed(file) else {
            return Self::unclear();
        };
        let package = value["name"].as_str().unwrap_or_default();
        let package = package.rsplit('/').next().unwrap_or(package);
        let mut found = Self::default();
        for member in MEMBERS {
            match &value[member] {
                Value::Object(members) => {
                    for (name, value) in members {
                        found.add(name, value);
                    }
                }
                value => found.add(package, value),
            }
        }
        found
    }

    /// Adds the texts of a value.
    fn add(&mut self, name: &str, value: &Value) {
        match value {
            // Patterns name files by what is imported.
            Value::String(text) if !text.is_empty() && !text.contains('*') => {
                let is_short = name.len().max(text.len()) <= MAX_NAME_BYTES;
                match is_short && self.files.len() < MAX_FILES {
                    true => self.files.push((name.to_owned(), text.clone())),
                    false => self.is_unclear = true,
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.add(name, value)),
            Value::Object(members) => members.values().for_each(|value| self.add(name, value)),
            _ => {}
        }
    }
}

fn parsed(file: File) -> Option<Value> {
    let mut text = Vec::new();
    let mut file = file.take(MAX_BYTES + 1);
    file.read_to_end(&mut text).ok()?;
    if text.len() as u64 > MAX_BYTES {
        return None;
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    serde_json::from_slice(text).ok()
}
