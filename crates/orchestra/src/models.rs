//! The models that are installed for the user, each in a directory of its own.
//!
//! A model is opened before it is put in its place, by a rename; one install or removal at a time.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use orchestra_fs::{Access, Directory, Lock};
use orchestra_memory::model::ModelKind;
use serde::{Deserialize, Serialize};

use crate::{env::Variable, exit::Failure};

/// The longest name.
const MAX_NAME: usize = 64;
/// The most models that are listed.
const MAX_LISTED: usize = 1_000;
/// What is said of a model beside its files.
const ABOUT: &str = "about.json";
/// What is not in its place yet, or not any more, begins so.
const ASIDE: &str = ".aside-";

/// The directory of all of them, whether it is there or not; `None` when the user has no home.
pub(crate) fn directory() -> Option<PathBuf> {
    let usual = || Some(Variable::Home.directory()?.join(".local/share"));
    let data = Variable::DataHome.directory().or_else(usual)?;
    Some(data.join("orchestra").join("models"))
}

/// Whether a text may be the name of one: it is a directory's, and nothing else that can be named.
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(fits)
        && text != crate::config::NO_MODEL
}

/// What sort of model it is, in a word.
pub const fn kind_name(kind: ModelKind) -> &'static str {
    match kind {
        ModelKind::Static => "static",
        ModelKind::Network => "network",
        ModelKind::Remote => "remote",
    }
}

/// What is known of a model that is installed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct About {
    /// Its name, which is that of its directory.
    #[serde(default)]
    pub name: String,
    /// What sort of model it is.
    pub kind: String,
    /// How many numbers a vector has.
    pub dimensions: usize,
    /// How large its files are.
    pub bytes: u64,
    /// Where it is from.
    pub source: String,
}

/// The place where models are installed, while nobody else changes it.
#[derive(Debug)]
pub struct Shelf {
    directory: PathBuf,
    _lock: Lock,
}

/// The models that are installed, by name.
pub(crate) fn list() -> Vec<About> {
    let Some(directory) = directory() else {
        return Vec::new();
    };
    let names = fs::read_dir(&directory).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| is_name(name))
        .take(MAX_LISTED)
        .collect();
    names.sort();
    let about = |name: String| {
        let place = directory.join(&name);
        place.is_dir().then(|| about(&place, name))
    };
    names.into_iter().filter_map(about).collect()
}

/// What is said of a model; what somebody put there by hand says nothing.
fn about(place: &Path, name: String) -> About {
    let text = orchestra_mcp::files::read_text(&place.join(ABOUT), 65_536).unwrap_or_default();
    let about: About = serde_json::from_str(&text).unwrap_or_default();
    About { name, ..about }
}

impl Shelf {
    /// Opens it for a change.
    ///
    /// # Errors
    /// When the user has no home, it cannot be made, or another changes it.
    pub fn open() -> Result<Self, Failure> {
        let directory = directory().ok_or_else(|| {
            Failure::usage_text(
                "set HOME or XDG_DATA_HOME, which determine the directory of models",
            )
        })?;
        Directory::make(&directory)?;
        let lock = Lock::attempt(&directory.join(".lock"))?;
        let lock = lock.ok_or_else(|| {
            Failure::refused(
                "another program installs or removes a model; try again when it is done",
            )
        })?;
        let shelf = Self {
            directory,
            _lock: lock,
        };
        shelf.tidy();
        Ok(shelf)
    }

    /// Removes what an install left that was killed.
    fn tidy(&self) {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            if entry.file_name().to_string_lossy().starts_with(ASIDE) {
                // It is tried again next time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Installs a model. `fill` makes the directory that it is given, with the files of the model in it,
    /// from whatever it keeps meanwhile in the other directory.
    ///
    /// # Errors
    /// When there is one of that name, or `fill` fails.
    pub fn install(
        &self,
        name: &str,
        fill: impl FnOnce(&Path, &Path) -> Result<About, Failure>,
    ) -> Result<About, Failure> {
        let place = self.directory.join(name);
        if fs::symlink_metadata(&place).is_ok() {
            return Err(Failure::refused(format!(
                "the model {name} is installed already; `orchestra memory model remove {name}` removes \
                 it, --name gives this one another name"
            )));
        }
        let staging = tempfile::Builder::new()
            .prefix(ASIDE)
            .tempdir_in(&self.directory)
            .context("write the model")?;
        let made = staging.path().join("model");
        let about = About {
            name: name.to_owned(),
            ..fill(staging.path(), &made)?
        };
        orchestra_fs::write(
            &made.join(ABOUT),
            &serde_json::to_vec(&about)?,
            Access::Shared,
        )?;
        fs::rename(&made, &place).context("cannot move the model into its directory")?;
        Directory::open(&self.directory)?.sync()?;
        Ok(about)
    }

    /// Removes a model.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be removed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Failure> {
        let place = self.directory.join(name);
        if !is_name(name) || !place.is_dir() {
            return Err(Failure::refused(format!(
                "the model {name} is not installed; `orchestra memory model list` shows which are"
            )));
        }
        let aside = self.directory.join(format!("{ASIDE}{name}"));
        fs::rename(&place, &aside).context("remove the model")?;
        Ok(fs::remove_dir_all(&aside).context("remove the model")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_directorys_and_nothing_else() {
        for good in ["potion-base-8M", "m", "a.b_c"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "none", "a:b", "ä"] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(!is_name(&"x".repeat(65)));
    }
}
