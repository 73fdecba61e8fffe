//! What was installed, as a table of hashes: it tells a file of ours from one that was edited.

use std::{collections::BTreeMap, path::Path};

use orchestra_fs::Access;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::hex::hex;
use crate::{
    bundle::{Kind, Selection},
    files::{FileError, Root},
};

/// Where the manifest is, relative to the workspace.
pub(crate) const PATH: &str = ".claude/.orchestra-manifest.json";

/// The form of the manifest that this program writes; a newer one is refused.
const SCHEMA: u32 = 1;

/// Why the manifest was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    /// It could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no manifest.
    #[error(
        "cannot parse {PATH}: {0}; restore the file, or delete it. If you delete it, every installed file counts as edited"
    )]
    Parse(serde_json::Error),
    /// A later program wrote it.
    #[error(
        "{PATH} has schema {0}, but this program supports schemas up to {SCHEMA}; use a newer orchestra"
    )]
    Newer(u32),
}

/// The hashes of what was installed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Whole files, by path relative to the workspace.
    files: BTreeMap<String, String>,
    /// Values inside of shared files, by `path#key`.
    values: BTreeMap<String, String>,
    /// Skills that the user chose.
    skills: Selection,
    /// Agents that the user chose.
    agents: Selection,
}

#[derive(Serialize, Deserialize)]
struct OnDisk {
    schema: u32,
    version: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    values: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Selection::is_default")]
    skills: Selection,
    #[serde(default, skip_serializing_if = "Selection::is_default")]
    agents: Selection,
}

impl Manifest {
    /// Reads the manifest; an empty one when there is none.
    ///
    /// # Errors
    /// When there is one that cannot be understood.
    pub(crate) fn read(root: &Root) -> Result<Self, ManifestError> {
        let Some(text) = root.read(Path::new(PATH))? else {
            return Ok(Self::default());
        };
        let on_disk: OnDisk = serde_json::from_str(&text).map_err(ManifestError::Parse)?;
        if on_disk.schema > SCHEMA {
            return Err(ManifestError::Newer(on_disk.schema));
        }
        Ok(Self {
            files: on_disk.files,
            values: on_disk.values,
            skills: on_disk.skills,
            agents: on_disk.agents,
        })
    }

    /// Writes the manifest if it changed, and removes it when nothing is installed any more.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, root: &Root, before: &Self) -> Result<(), FileError> {
        let path = Path::new(PATH);
        if *self == Self::default() {
            return root.remove_with_directories(path);
        }
        if self == before {
            return Ok(());
        }
        let on_disk = OnDisk {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            files: self.files.clone(),
            values: self.values.clone(),
            skills: self.skills,
            agents: self.agents,
        };
        let mut text =
            serde_json::to_string_pretty(&on_disk).expect("text and numbers always serialise");
        text.push('\n');
        root.write(path, &text, Access::Shared)
    }

    /// Whether `text` is what was installed at `path`.
    pub(crate) fn has_file(&self, path: &Path, text: &str) -> bool {
        self.files
            .get(&key(path))
            .is_some_and(|known| *known == hash(text))
    }

    /// Returns whether a file was installed at `path`.
    pub(crate) fn names_file(&self, path: &Path) -> bool {
        self.files.contains_key(&key(path))
    }

    /// Returns the skills or agents that the user chose. Everything else has no choice.
    pub(crate) const fn selection(&self, kind: Kind) -> Selection {
        match kind {
            Kind::Skill => self.skills,
            Kind::Agent => self.agents,
            Kind::Guide | Kind::Hook => Selection::All,
        }
    }

    /// Records the skills and agents that the user chose.
    pub(crate) const fn select(&mut self, skills: Selection, agents: Selection) {
        self.skills = skills;
        self.agents = agents;
    }

    /// Whether `value` is what was installed as `name` of `path`.
    pub(crate) fn has_value(&self, path: &Path, name: &str, value: &Value) -> bool {
        self.values
            .get(&value_key(path, name))
            .is_some_and(|known| *known == hash(&canonical(value)))
    }

    /// Whether anything was installed as `name` of `path`.
    pub(crate) fn names(&self, path: &Path, name: &str) -> bool {
        self.values.contains_key(&value_key(path, name))
    }

    /// Records that `text` was installed at `path`.
    pub(crate) fn add_file(&mut self, path: &Path, text: &str) {
        self.files.insert(key(path), hash(text));
    }

    /// Records that `value` was installed as `name` of `path`.
    pub(crate) fn add_value(&mut self, path: &Path, name: &str, value: &Value) {
        self.values
            .insert(value_key(path, name), hash(&canonical(value)));
    }

    /// Forgets the file at `path`.
    pub(crate) fn forget_file(&mut self, path: &Path) {
        self.files.remove(&key(path));
    }

    /// Forgets `name` of `path`.
    pub(crate) fn forget_value(&mut self, path: &Path, name: &str) {
        self.values.remove(&value_key(path, name));
    }

    /// The paths of the whole files.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }
}

/// A path with `/` on every system, so that the manifest can be shared.
fn key(path: &Path) -> String {
    let parts: Vec<_> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    parts.join("/")
}

fn value_key(path: &Path, name: &str) -> String {
    format!("{}#{name}", key(path))
}

/// A value as text that does not depend on the order of members.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let sorted: BTreeMap<_, _> = members
                .iter()
                .map(|(key, value)| (key, canonical(value)))
                .collect();
            format!("{sorted:?}")
        }
        Value::Array(items) => format!("{:?}", items.iter().map(canonical).collect::<Vec<_>>()),
        plain => plain.to_string(),
    }
}

/// SHA-256 of a text, in hex. Line ends do not count, so that a checkout which changes them does
/// not look like an edit.
fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.replace("\r\n", "\n").as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_survives_the_disk_and_a_newer_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let mut manifest = Manifest::read(&root).unwrap();
        manifest.add_file(Path::new("a/b.md"), "text\n");
        manifest.add_value(Path::new("c.json"), "x", &json!({"a": 1, "b": [2]}));
        manifest.write(&root, &Manifest::default()).unwrap();
        let again = Manifest::read(&root).unwrap();
        assert_eq!(again, manifest);
        assert!(again.has_file(Path::new("a/b.md"), "text\r\n"));
        assert!(!again.has_file(Path::new("a/b.md"), "other\n"));
        assert!(again.has_value(Path::new("c.json"), "x", &json!({"b": [2], "a": 1})));
        assert!(!again.has_value(Path::new("c.json"), "x", &json!({"b": [3], "a": 1})));

        root.write(
            Path::new(PATH),
            r#"{"schema":2,"version":"9"}"#,
            Access::Shared,
        )
        .unwrap();
        assert!(matches!(
            Manifest::read(&root),
            Err(ManifestError::Newer(2))
        ));
        root.write(Path::new(PATH), "null", Access::Shared).unwrap();
        assert!(matches!(
            Manifest::read(&root),
            Err(ManifestError::Parse(_))
        ));
    }
}
