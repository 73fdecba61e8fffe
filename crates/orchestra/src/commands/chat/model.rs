//! Which model is talked to, and how it is reached.

use std::{fs, path::Path, sync::Arc};

use anyhow::Context as _;
use orchestra_chat::{About, Backend, Manner, Ollama, OpenAi, Script, Scripted, Trouble};

use super::Talk;
use crate::{
    config::{BackendKind, Config},
    env::{self, Variable},
    exit::Failure,
};

/// Where the servers of OpenAI are.
const OPENAI: &str = "https://api.openai.com/v1";

/// Models that are looked at, where none is named.
const LOOKED_AT: usize = 20;

/// The longest script of a model.
const MAX_SCRIPT_BYTES: u64 = 16 * 1024 * 1024;

/// Where models come from.
#[derive(Debug, Clone)]
pub(super) struct Source {
    kind: BackendKind,
    host: Option<String>,
    key: Option<String>,
    model: Option<String>,
    script: Option<Script>,
    manner: Manner,
}

/// A model that can be talked to.
#[derive(Clone)]
pub(super) struct Model {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) about: About,
}

/// Why no model can be talked to.
#[derive(Debug)]
pub(super) enum NoModel {
    /// It is the command line or the configuration.
    Wrong(String),
    /// Its server.
    Trouble(Trouble),
}

impl NoModel {
    pub(super) fn words(&self) -> String {
        match self {
            Self::Wrong(text) => text.clone(),
            Self::Trouble(trouble) => trouble.to_string(),
        }
    }
}

impl From<Trouble> for NoModel {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Source {
    /// As flags, environment and files say.
    ///
    /// # Errors
    /// When the key or the script is not there.
    pub(super) fn of(config: &Config, arguments: &Talk) -> Result<Self, Failure> {
        let chat = &config.chat;
        let kind = chat.backend.value;
        let script = match (kind, &arguments.script) {
            (BackendKind::Scripted, Some(path)) => Some(script(path)?),
            (BackendKind::Scripted, None) => {
                return Err(Failure::usage_text(
                    "--backend scripted requires a script: pass it with --script FILE",
                ));
            }
            (_, Some(_)) => {
                return Err(Failure::usage_text("--script requires --backend scripted"));
            }
            (_, None) => None,
        };
        let host = chat.host.value.clone();
        let usual = match kind {
            BackendKind::Ollama => Some(Variable::OllamaKey),
            BackendKind::Openai => Some(Variable::OpenAiKey),
            BackendKind::Scripted => None,
        };
        let key = match &chat.key_env.value {
            Some(name) => Some(env::of_user(name).ok_or_else(|| {
                let origin = &chat.key_env.origin;
                Failure::usage_text(format!("chat.key_env ({origin}): {name} is not set"))
            })?),
            // Nobody sends a key unencrypted, or to whom a workspace names, without having said so.
            None if chat.is_of_workspace(&config.workspace) || is_open(host.as_deref()) => None,
            None => usual.and_then(|variable| env::of_user(variable.name())),
        };
        Ok(Self {
            kind,
            host,
            key,
            model: chat.model.value.clone(),
            script,
            manner: Manner {
                temperature: arguments.temperature.or(chat.temperature.value),
                seed: arguments.seed.or(chat.seed.value),
                ..Manner::default()
            },
        })
    }

    /// The model that is named, if one is.
    pub(super) fn named(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The same with the model that a conversation was held with, where no other is named.
    pub(super) fn going_on(self, with: Option<(&str, &str)>) -> Self {
        match with {
            Some((backend, model)) if self.model.is_none() && backend == self.kind.name() => {
                self.with(model)
            }
            _ => self,
        }
    }

    /// The same with another model.
    pub(super) fn with(&self, model: &str) -> Self {
        Self {
            model: Some(model.to_owned()),
            ..self.clone()
        }
    }

    fn backend(&self, model: &str) -> Result<Arc<dyn Backend>, NoModel> {
        let host = self.host.as_deref();
        let key = self.key.as_deref();
        let wrong = |error: &dyn std::fmt::Display| NoModel::Wrong(format!("--host: {error}"));
        Ok(match (self.kind, &self.script) {
            (BackendKind::Ollama, _) => {
                let ollama = Ollama::new(host.unwrap_or_default(), key, model, self.manner);
                Arc::new(ollama.map_err(|error| wrong(&error))?)
            }
            (BackendKind::Openai, _) => {
                let openai = OpenAi::new(host.unwrap_or(OPENAI), key, model, self.manner);
                Arc::new(openai.map_err(|error| wrong(&error))?)
            }
            (BackendKind::Scripted, Some(script)) => Arc::new(Scripted::new(script.clone(), model)),
            (BackendKind::Scripted, None) => {
                return Err(NoModel::Wrong("it has no script".to_owned()));
            }
        })
    }

    /// The models that there are.
    pub(super) async fn models(&self) -> Result<Vec<String>, NoModel> {
        Ok(self.backend("")?.models().await?)
    }

    /// Asks its server for the model that is named, else for one that takes tools.
    ///
    /// # Errors
    /// When there is none, or its server does not answer.
    pub(super) async fn open(&self) -> Result<Model, NoModel> {
        if self.kind == BackendKind::Scripted {
            return self
                .known(self.model.as_deref().unwrap_or("scripted"))
                .await;
        }
        match &self.model {
            Some(model) => self.known(model).await,
            None => self.chosen().await,
        }
    }

    async fn known(&self, model: &str) -> Result<Model, NoModel> {
        let backend = self.backend(model)?;
        let about = match backend.about().await {
            Ok(about) => about,
            Err(trouble @ (Trouble::NoModel { .. } | Trouble::Unreachable { .. })) => {
                return Err(trouble.into());
            }
            // Whoever cannot tell of a model may have it all the same.
            Err(trouble) => {
                tracing::debug!(%trouble, "no information about the model is available");
                About::default()
            }
        };
        Ok(Model { backend, about })
    }

    /// The first that takes tools, else the first.
    async fn chosen(&self) -> Result<Model, NoModel> {
        let models = self.models().await?;
        if models.is_empty() {
            return Err(NoModel::Wrong(
                "the server has no model yet; `ollama pull llama3.2` downloads one, --model selects one"
                    .to_owned(),
            ));
        }
        if self.kind == BackendKind::Openai && models.len() > 1 {
            let some = models.iter().take(LOOKED_AT).map(String::as_str);
            return Err(NoModel::Wrong(format!(
                "the server has {} models; select one with --model NAME: {}",
                models.len(),
                some.collect::<Vec<_>>().join(", ")
            )));
        }
        let mut first = None;
        for name in models.iter().take(LOOKED_AT) {
            let model = self.known(name).await?;
            if model.about.takes_tools != Some(false) {
                return Ok(model);
            }
            first = first.or(Some(model));
        }
        first.ok_or_else(|| NoModel::Wrong("the server has no model".to_owned()))
    }
}

/// Whether what goes to a server can be read on the way.
fn is_open(host: Option<&str>) -> bool {
    host.is_some_and(|host| {
        let whole = match host.contains("://") {
            true => host.to_owned(),
            false => format!("http://{host}"),
        };
        whole.starts_with("http://") && !orchestra_remote::is_local_address(&whole)
    })
}

fn script(path: &Path) -> Result<Script, Failure> {
    let read = || {
        let size = fs::metadata(path)?.len();
        if size > MAX_SCRIPT_BYTES {
            anyhow::bail!("it has {size} bytes, more than the limit of {MAX_SCRIPT_BYTES}");
        }
        Ok(Script::parse(&fs::read_to_string(path)?)?)
    };
    let read: anyhow::Result<Script> = read();
    read.with_context(|| format!("--script {}", path.display()))
        .map_err(Failure::usage)
}
