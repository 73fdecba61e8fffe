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
    /// Name of the package.
    package: String,
    /// The files, each with the name of the command or import that it is for. Both may have the same pattern.
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
        let command = package.rsplit('/').next().unwrap_or(package);
        let mut found = Self {
            package: package.to_owned(),
            ..Self::default()
        };
        for member in MEMBERS {
            match &value[member] {
                Value::Object(members) => {
                    for (name, value) in members {
                        let name = match member {
                            // A condition.
                            "exports" if !name.starts_with('.') => ".",
                            _ => name.as_str(),
                        };
                        found.add(name, value);
                    }
                }
                value if member == "exports" => found.add(".", value),
                value => found.add(command, value),
            }
        }
        if let Some(directory) = value["directories"]["bin"].as_str() {
            let commands = Value::String(format!("{directory}/*"));
            found.add("*", &commands);
        }
        found
    }

    /// Files for a command, an import, or a name below that of the package itself.
    pub(super) fn files_of(&self, name: &str) -> Vec<String> {
        let below = name.strip_prefix(&*self.package);
        let below = below.filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let below = below.filter(|_| !self.package.is_empty());
        let below = below.map(|rest| format!(".{rest}"));
        let names = || std::iter::once(name).chain(below.as_deref());
        let files = self.files.iter();
        let files =
            files.flat_map(|(key, file)| names().filter_map(move |name| filled(key, file, name)));
        files.collect()
    }

    /// Adds the texts of a value.
    fn add(&mut self, name: &str, value: &Value) {
        match value {
            Value::String(text) if !text.is_empty() => {
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

/// Returns the file for a name, where the key is the name, a pattern for it, or a directory above it.
fn filled(key: &str, file: &str, name: &str) -> Option<String> {
    if key == name {
        return Some(file.to_owned());
    }
    if key.ends_with('/') {
        return Some(format!("{file}{}", name.strip_prefix(key)?));
    }
    let (start, end) = key.split_once('*')?;
    let inner = name.strip_prefix(start)?.strip_suffix(end)?;
    Some(file.replace('*', inner))
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
