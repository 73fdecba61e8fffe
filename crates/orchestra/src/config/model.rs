//! The model of `[memory]`: which one finds by meaning, and who may say so.
//!
//! A workspace's file may be another person's. It may name a model that is installed, a directory or a
//! server of this machine; what is remembered goes to other machines, and a key to anybody, only where
//! the user says so: by a file of their own or the environment.

mod details;
mod named;

use std::path::{Path, PathBuf};

use orchestra_memory::model::{MAX_DIMENSIONS, Wish};

use super::{
    Config, Entry, FILE, Origin,
    file::{ConfigFile, ParseError, within, wrong},
    flag, read_files,
};
use crate::{env::Variable, exit::Failure};
use details::Details;
pub(super) use details::own_file;
pub(crate) use named::NONE;
pub(super) use named::is_variable;
use named::{NAMES, Named, named};

/// The longest text that may stand before what a model is given.
const MAX_PREFIX_BYTES: usize = 1_024;

/// What a file says of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ModelFile {
    named: Option<Named>,
    text: String,
    details: Details,
}

/// The same, as it is written.
#[derive(Debug, Default)]
pub(super) struct ModelOnDisk {
    pub(super) model: Option<String>,
    pub(super) model_url: Option<String>,
    pub(super) model_key_env: Option<String>,
    pub(super) model_query_prefix: Option<String>,
    pub(super) model_text_prefix: Option<String>,
    pub(super) model_dimensions: Option<u64>,
}

/// The model that is configured.
#[derive(Debug, Clone)]
pub(crate) struct ModelSettings {
    text: String,
    origin: Origin,
    details: Details,
    wish: Wish,
    /// What the workspace's file says of it and may not, or to no end.
    overreach: Option<String>,
}

impl ModelOnDisk {
    /// As it is used.
    ///
    /// # Errors
    /// When a value is not one that it may have.
    pub(super) fn checked(self) -> Result<ModelFile, ParseError> {
        let text = self.model.unwrap_or_default();
        let named = match text.as_str() {
            "" => None,
            text => Some(named(text).ok_or_else(|| wrong("memory.model", NAMES, text.to_owned()))?),
        };
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let key_env = some(self.model_key_env);
        if let Some(name) = key_env.as_deref().filter(|name| !is_variable(name)) {
            let expected = "the name of an environment variable that holds the key";
            // Who wrote the key itself there is not shown it.
            let found = format!("a string of {} bytes that is not one", name.len());
            return Err(wrong("memory.model_key_env", expected, found));
        }
        let url = some(self.model_url);
        if url
            .as_deref()
            .is_some_and(|url| url.contains(['@', '?', '#']))
        {
            let expected = "an address without a user, password or query; model_key_env names the \
                            variable that holds a key";
            // There may be a key in it.
            return Err(wrong("memory.model_url", expected, "another".to_owned()));
        }
        let dimensions = within(
            "memory.model_dimensions",
            self.model_dimensions.filter(|number| *number > 0),
            &(1..=u64::try_from(MAX_DIMENSIONS).unwrap_or(u64::MAX)),
        )?;
        let prefix = |key, text: Option<String>| match text.unwrap_or_default() {
            text if text.len() > MAX_PREFIX_BYTES => {
                let expected = format!("at most {MAX_PREFIX_BYTES} bytes");
                Err(wrong(key, &expected, format!("{} bytes", text.len())))
            }
            text => Ok(text),
        };
        Ok(ModelFile {
            named,
            text,
            details: Details {
                url,
                key_env,
                query_prefix: prefix("memory.model_query_prefix", self.model_query_prefix)?,
                text_prefix: prefix("memory.model_text_prefix", self.model_text_prefix)?,
                dimensions: dimensions.and_then(|number| usize::try_from(number).ok()),
            },
        })
    }
}

impl ModelFile {
    /// Takes paths as relative to the directory of the file.
    pub(super) fn resolve(&mut self, directory: &Path) {
        self.named = self.named.take().map(|named| named.within(directory));
    }
}

impl ModelSettings {
    /// What a flag says, the environment, or a file, the strongest first.
    pub(super) fn settle(
        workspace: &Path,
        given: Option<String>,
        files: &[(PathBuf, ConfigFile)],
    ) -> Result<Self, Failure> {
        let near = workspace.join(FILE);
        let own = files.iter().find(|(path, _)| *path != near);
        let of_user = own.map(|(_, file)| &file.memory.model);
        let variable = Variable::Model.read().map(|text| {
            (
                text.to_string_lossy().into_owned(),
                Origin::Environment(Variable::Model),
            )
        });
        if let Some((text, origin)) = flag(given).or(variable) {
            let named = named(&text)
                .map(|named| named.within(workspace))
                .ok_or_else(|| Failure::usage_text(format!("{origin}: {NAMES}, not `{text}`")))?;
            let details = of_user.map(|file| file.details.clone()).unwrap_or_default();
            let wish = details.wish(&named);
            return Ok(Self {
                text,
                origin,
                details,
                wish,
                overreach: None,
            });
        }
        Ok(Self::of_files(&near, files))
    }

    /// What the files say, the strongest first; `near` is that of the workspace.
    fn of_files(near: &Path, files: &[(PathBuf, ConfigFile)]) -> Self {
        let mut settled = Self {
            text: NONE.to_owned(),
            origin: Origin::Default,
            details: Details::default(),
            wish: Wish::Nothing,
            overreach: None,
        };
        let mut overreach = None;
        for (path, file) in files {
            let ModelFile {
                named,
                text,
                details,
            } = &file.memory.model;
            let Some(named) = named else {
                if path == near && *details != Details::default() {
                    overreach = Some(format!(
                        "{}: settings of a model are ignored without memory.model in the same file",
                        path.display()
                    ));
                }
                continue;
            };
            let refusal = (path == near)
                .then(|| details.refusal(path, named))
                .flatten();
            let is_refused = refusal.is_some();
            overreach = overreach.or_else(|| refusal.clone());
            if !is_refused || matches!(settled.wish, Wish::Nothing) {
                settled = Self {
                    text: text.clone(),
                    origin: Origin::File(path.clone()),
                    details: details.clone(),
                    wish: refusal.map_or_else(|| details.wish(named), Wish::Refused),
                    overreach: None,
                };
            }
            if !is_refused {
                break;
            }
        }
        Self {
            overreach,
            ..settled
        }
    }

    /// What the workspace's file says and may not: why, and what to do instead.
    pub(super) fn overreach(&self) -> Option<&str> {
        self.overreach.as_deref()
    }

    /// What is wanted of models.
    pub(crate) const fn wish(&self) -> &Wish {
        &self.wish
    }

    /// Whether an engine is of use: there is a model, or may be soon.
    pub(crate) const fn is_wanted(&self) -> bool {
        matches!(self.wish, Wish::Model(_) | Wish::Unknown(_))
    }

    /// As it is named.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Where that is said.
    pub(crate) const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Its keys, to be shown.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let details = &self.details;
        let entry = |key, value: String, is_set: bool, meaning| Entry {
            key,
            value,
            meaning,
            origin: match is_set {
                true => self.origin.clone(),
                false => Origin::Default,
            },
        };
        let text =
            |key, value: &str, meaning| entry(key, quoted(value), !value.is_empty(), meaning);
        vec![
            entry(
                "memory.model",
                quoted(&self.text),
                true,
                "model for search by meaning: the name of an installed model, a directory, ollama:NAME, openai:NAME, or none",
            ),
            text(
                "memory.model_url",
                details.url.as_deref().unwrap_or_default(),
                "address of its server; a server on another machine only in your own file",
            ),
            text(
                "memory.model_key_env",
                details.key_env.as_deref().unwrap_or_default(),
                "name of the environment variable with the key of the server; only in your own file",
            ),
            text(
                "memory.model_query_prefix",
                &details.query_prefix,
                "prefix that the model of a server requires before a query",
            ),
            text(
                "memory.model_text_prefix",
                &details.text_prefix,
                "prefix that it requires before a stored text",
            ),
            entry(
                "memory.model_dimensions",
                details.dimensions.unwrap_or_default().to_string(),
                details.dimensions.is_some(),
                "number of dimensions of its vectors, if the model can shorten them; 0 for its default",
            ),
        ]
    }
}

impl Config {
    /// Which model is wanted now: the files are read anew.
    pub(crate) fn model_wish(workspace: &Path, given: Option<&str>) -> Wish {
        let settled = read_files(workspace)
            .and_then(|files| ModelSettings::settle(workspace, given.map(str::to_owned), &files));
        match settled {
            Ok(settled) => settled.wish,
            Err(failure) => Wish::Unknown(failure.text()),
        }
    }
}

impl Config {
    /// Why the configuration file of a directory, the workspace's or the user's own, may not name a model;
    /// `None` where it may.
    ///
    /// # Errors
    /// When the text names no model.
    pub(crate) fn refused_model(
        workspace: &Path,
        directory: &Path,
        text: &str,
    ) -> Result<Option<String>, Failure> {
        let named = named(text)
            .ok_or_else(|| Failure::usage_text(format!("memory.model: {NAMES}, not `{text}`")))?;
        let path = directory.join(FILE);
        let files = read_files(workspace)?;
        let file = files.iter().find(|(other, _)| *other == path);
        let details = file.map(|(_, file)| file.memory.model.details.clone());
        let details = details.unwrap_or_default();
        let refusal = (directory == workspace).then(|| details.refusal(&path, &named));
        if let Some(why) = refusal.flatten() {
            return Ok(Some(why));
        }
        match (details.wish(&named), &named) {
            (Wish::Unknown(why), Named::Installed(_)) => Ok(Some(why)),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
