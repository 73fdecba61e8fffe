//! How a server of models is asked, and who may say so.

use std::path::Path;

use orchestra_memory::model::{Api, Choice, RemoteOptions, Wish};

use super::{
    super::{FILE, user_directory},
    named::Named,
};
use crate::{
    env::{self, Variable},
    models,
    servers::short,
};

pub(super) const OLLAMA: &str = "http://127.0.0.1:11434";
pub(super) const OPENAI: &str = "https://api.openai.com/v1";

/// The user's own file, as it is told.
pub(in super::super) fn own_file() -> String {
    user_directory().map_or_else(
        || format!("orchestra/{FILE} of your own configuration directory"),
        |directory| short(&directory.join(FILE)),
    )
}

/// How a server is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Details {
    pub(super) url: Option<String>,
    pub(super) key_env: Option<String>,
    pub(super) query_prefix: String,
    pub(super) text_prefix: String,
    pub(super) dimensions: Option<usize>,
}

impl Details {
    fn url(&self, api: Api) -> &str {
        let usual = match api {
            Api::Ollama => OLLAMA,
            Api::OpenAi => OPENAI,
        };
        self.url.as_deref().unwrap_or(usual)
    }

    fn options(&self, api: Api, model: &str) -> RemoteOptions {
        let mut options = RemoteOptions::new(api, self.url(api), model);
        options.dimensions = self.dimensions;
        options.query_prefix.clone_from(&self.query_prefix);
        options.text_prefix.clone_from(&self.text_prefix);
        options
    }

    /// Why a workspace's file may not say this; `None` where it may.
    pub(super) fn refusal(&self, path: &Path, named: &Named) -> Option<String> {
        let what = match named {
            Named::Server(..) if self.key_env.is_some() => {
                "the environment variable that holds a key is"
            }
            Named::Server(api, model) if !self.options(*api, model).is_local() => {
                "a model of another machine, which would get the stored texts, is"
            }
            _ => return None,
        };
        Some(format!(
            "{}: {what} ignored, because other people may have written the file of a workspace; to use it, set it in [memory] of {}, or {}",
            path.display(),
            own_file(),
            Variable::Model
        ))
    }

    pub(super) fn wish(&self, named: &Named) -> Wish {
        match named {
            Named::Nothing => Wish::Nothing,
            Named::Installed(name) => match models::directory() {
                Some(directory) if directory.join(name).is_dir() => {
                    Wish::Model(Choice::Directory {
                        name: name.clone(),
                        path: directory.join(name),
                    })
                }
                _ => Wish::Unknown(format!(
                    "the model {name} is not installed; `orchestra memory model install SOURCE --name \
                     {name}` installs it, `orchestra memory model list` shows which are"
                )),
            },
            Named::At(path) => Wish::Model(Choice::Directory {
                name: path.display().to_string(),
                path: path.clone(),
            }),
            Named::Server(api, model) => {
                let mut options = self.options(*api, model);
                if let Some(name) = &self.key_env {
                    let Some(key) = env::of_user(name) else {
                        return Wish::Refused(format!(
                            "memory.model_key_env: the environment variable {name} is not set here; set \
                             it where the program is started"
                        ));
                    };
                    options.key = Some(key);
                }
                Wish::Model(Choice::Server(Box::new(options)))
            }
        }
    }
}
