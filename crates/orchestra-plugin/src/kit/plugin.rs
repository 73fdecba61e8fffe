//! A plugin as its author describes it.

use std::{future::Future, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use super::{
    answer::ToolError,
    cx::{Cx, States},
    events::{Event, Topics},
    flags::OwnFlag,
    health::Health,
    life,
    manifest::{FEATURES, RESOURCES},
    prompt::Prompt,
    resource::Resource,
    serve::{self, Offer},
    storage::Storage,
    tool::Tool,
    toolbox::Tools,
};
use crate::{
    envelope::REVISION,
    generated::{ListPromptsResponse, PluginManifest},
    ids::{NameError, PluginId},
    quic::BoxFuture,
};

/// Calls that are handled at once, unless the author says otherwise.
const IN_FLIGHT: u32 = 256;

/// The most that an author may say.
const MOST_IN_FLIGHT: u32 = 65_536;

/// How long a handler may go on after its call was given up: enough to put something back, and not so
/// long that anybody sees it still at work.
const CANCEL_GRACE: Duration = Duration::from_millis(500);

/// How long the orchestrator may be away, unless the author says otherwise.
const ORCHESTRATOR_PATIENCE: Duration = Duration::from_secs(30);

/// How often certificates are read again, unless the author says otherwise. That others were put into
/// their place is noticed sooner: after a rotation at once nothing else is believed.
const RENEWAL_EVERY: Duration = Duration::from_secs(60);

/// How often they may be looked at.
const MOST_OFTEN: Duration = Duration::from_millis(10);

/// What is wrong with what an author says.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginError {
    #[error("{id:?} is not a valid plugin id")]
    Id {
        id: String,
        #[source]
        source: NameError,
    },
    #[error("there are two {what} named {name:?}")]
    Twice { what: &'static str, name: String },
    #[error("the schema of the tool {tool:?} cannot be sent")]
    Schema {
        tool: String,
        #[source]
        source: crate::structs::StructError,
    },
}

/// A plugin: what it offers and what it needs. [`Self::run`] makes it one.
#[must_use]
pub struct Plugin {
    pub(super) manifest: PluginManifest,
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
    offer: Offer,
    topics: Topics,
    pub(super) states: States,
    pub(super) own_flags: Vec<OwnFlag>,
    pub(super) log_file: Option<PathBuf>,
    pub(super) max_in_flight: u32,
    pub(super) cancel_grace: Duration,
    pub(super) patience: Duration,
    pub(super) renewal_every: Duration,
}

/// A plugin that is ready to be served.
pub(super) struct Parts {
    pub(super) id: PluginId,
    pub(super) offer: Offer,
    pub(super) tools: Tools,
    pub(super) topics: Arc<Topics>,
}

impl Plugin {
    /// A plugin by its id, with dots between the parts, and its version.
    pub fn new(id: &str, version: &str) -> Self {
        let manifest = PluginManifest {
            id: id.to_owned(),
            version: version.to_owned(),
            language: "rust".to_owned(),
            revision: REVISION,
            features: FEATURES.map(str::to_owned).to_vec(),
            ..PluginManifest::default()
        };
        Self {
            manifest,
            tools: Vec::new(),
            prompts: Vec::new(),
            offer: Offer::default(),
            topics: Topics::default(),
            states: States::default(),
            own_flags: Vec::new(),
            log_file: None,
            max_in_flight: IN_FLIGHT,
            cancel_grace: CANCEL_GRACE,
            patience: ORCHESTRATOR_PATIENCE,
            renewal_every: RENEWAL_EVERY,
        }
    }

    /// What it is for, in a sentence.
    pub fn description(mut self, description: &str) -> Self {
        description.clone_into(&mut self.manifest.description);
        self
    }

    /// Who wrote it.
    pub fn author(mut self, author: &str) -> Self {
        author.clone_into(&mut self.manifest.author);
        self
    }

    /// Offers a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.manifest.provides_tools.push(tool.name.clone());
        self.tools.push(tool);
        self
    }

    /// Offers a prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.manifest.provides_prompts.push(prompt.name.clone());
        self.prompts.push(prompt);
        self
    }

    /// Offers a resource.
    pub fn resource(mut self, resource: Resource) -> Self {
        if self.offer.resources.is_empty() {
            self.manifest.features.push(RESOURCES.to_owned());
        }
        self.offer.resources.push(resource);
        self
    }

    /// Offers storage of a kind, such as `markdown`. Of two of a kind the last counts.
    pub fn storage(mut self, kind: &str, storage: impl Storage) -> Self {
        let storage = Arc::new(storage);
        if self
            .offer
            .storages
            .insert(kind.to_owned(), storage)
            .is_none()
        {
            self.manifest.provides_storage.push(kind.to_owned());
        }
        self
    }

    /// Gives all calls something that they share, found by its type: see [`Cx::state`].
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.states.put(state);
        self
    }

    /// Speaks for an AI provider: its tools are found under that name.
    pub fn provides_ai(mut self, provider: &str) -> Self {
        self.manifest.provides_ai.push(provider.to_owned());
        self
    }

    /// Says that it publishes to a topic.
    pub fn publishes(mut self, topic: &str) -> Self {
        self.manifest.provides_events.push(topic.to_owned());
        self
    }

    /// Says that it calls a tool of others, which it may not otherwise: by
    /// [`Orchestrator::call_tool`](super::Orchestrator::call_tool). `*` stands for any text.
    pub fn needs_tool(mut self, name: &str) -> Self {
        self.manifest.needs_tools.push(name.to_owned());
        self
    }

    /// Says that it uses a kind of storage, such as `markdown`: by
    /// [`Orchestrator::storage`](super::Orchestrator::storage).
    pub fn needs_storage(mut self, kind: &str) -> Self {
        self.manifest.needs_storage.push(kind.to_owned());
        self
    }

    /// Says that it calls tools of an AI provider, such as `openai`: by
    /// [`Orchestrator::provider`](super::Orchestrator::provider).
    pub fn needs_ai(mut self, provider: &str) -> Self {
        self.manifest.needs_ai.push(provider.to_owned());
        self
    }

    /// Says that it may subscribe to a topic while it runs: by
    /// [`Orchestrator::subscribe`](super::Orchestrator::subscribe). `*` stands for any text; events of
    /// a topic that is named without it come from the start.
    pub fn needs_event(mut self, topic: &str) -> Self {
        if !self.manifest.needs_events.iter().any(|one| one == topic) {
            self.manifest.needs_events.push(topic.to_owned());
        }
        self
    }

    /// Hears the events of a topic, one after the other in the order in which they came, each when
    /// the functions for the one before have ended; those of another topic come meanwhile.
    ///
    /// A function may take its time. Up to 256 events of a topic wait for it, or 32 MiB of them; what
    /// comes beyond is dropped, and the orchestrator is told so. When the plugin ends, those that wait
    /// are handled as far as there is time, and [`Cx::cancel`] tells when there is no more.
    pub fn on_event<F, Fut>(mut self, topic: &str, function: F) -> Self
    where
        F: Fn(Event, Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self = self.needs_event(topic);
        let function =
            Arc::new(move |event, cx| Box::pin(function(event, cx)) as BoxFuture<'static, ()>);
        self.topics.fixed.push((topic.to_owned(), function));
        self
    }

    /// Runs when the orchestrator boots the plugin, with the settings in [`Cx::config`]. An error
    /// keeps the plugin from serving. It may run more than once.
    pub fn on_boot<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ToolError>> + Send + 'static,
    {
        self.offer.boot = Some(Box::new(move |cx| Box::pin(hook(cx))));
        self
    }

    /// Runs once before the plugin ends, when no call is going on any more.
    pub fn on_shutdown<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ToolError>> + Send + 'static,
    {
        self.offer.shutdown = Some(Box::new(move |cx| Box::pin(hook(cx))));
        self
    }

    /// Says how the plugin is when it is asked, within 2 seconds.
    pub fn on_health<F, Fut>(mut self, check: F) -> Self
    where
        F: Fn(Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Health> + Send + 'static,
    {
        self.offer.health = Some(Box::new(move |cx| Box::pin(check(cx))));
        self
    }

    /// Understands one more flag, `--name VALUE`; handlers find it in [`Cx::flag`].
    pub fn flag(mut self, name: &str, default: &str, help: &str) -> Self {
        self.own_flags.push(OwnFlag {
            name: name.to_owned(),
            default: default.to_owned(),
            help: help.to_owned(),
        });
        self
    }

    /// Writes what would go to stderr to a file, once the plugin is ready; `--log-file` comes first.
    pub fn log_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.log_file = Some(path.into());
        self
    }

    /// How many calls are handled at once; more are answered with the error `busy`. It is 256
    /// otherwise.
    pub fn max_in_flight(mut self, calls: u32) -> Self {
        self.max_in_flight = calls.clamp(1, MOST_IN_FLIGHT);
        self
    }

    /// How long a handler may go on after its call was given up, before it is dropped at its next
    /// `.await`. It is half a second otherwise; a handler that has much to put back after
    /// [`Cx::cancelled`] wants more. When the plugin is to end, it never is longer than that takes.
    pub fn cancel_grace(mut self, time: Duration) -> Self {
        self.cancel_grace = time;
        self
    }

    /// How long the orchestrator may be away before the plugin ends. It is 30 seconds otherwise.
    pub fn orchestrator_patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }

    /// How often the plugin reads its certificates again. It is a minute otherwise, and never less
    /// than 10 milliseconds; that others were put into their place it notices within a second.
    pub fn renewal_every(mut self, time: Duration) -> Self {
        self.renewal_every = time.max(MOST_OFTEN);
        self
    }

    /// Runs the plugin until it is to end, and says with which code.
    ///
    /// It takes over the process: its flags, signals, panics and stderr. See the module for when it
    /// ends.
    #[must_use]
    pub fn run(self) -> ExitCode {
        life::run(self)
    }

    /// Takes apart what was described, if it makes sense.
    pub(super) fn parts(&mut self) -> Result<Parts, PluginError> {
        let id = &self.manifest.id;
        let id: PluginId = id.parse().map_err(|source| PluginError::Id {
            id: id.clone(),
            source,
        })?;
        let mut offer = std::mem::take(&mut self.offer);
        let tools = Tools::new();
        for tool in std::mem::take(&mut self.tools) {
            let name = tool.name.clone();
            if tools.function(&name).is_some() {
                return Err(PluginError::Twice {
                    what: "tools",
                    name,
                });
            }
            tools
                .put(tool)
                .map_err(|source| PluginError::Schema { tool: name, source })?;
        }
        let mut prompts = Vec::new();
        for prompt in std::mem::take(&mut self.prompts) {
            prompts.push(prompt.definition());
            let name = prompt.name.clone();
            if offer.prompts.insert(name.clone(), prompt).is_some() {
                return Err(PluginError::Twice {
                    what: "prompts",
                    name,
                });
            }
        }
        offer.listed_prompts = serve::payload(&ListPromptsResponse { prompts });
        Ok(Parts {
            id,
            offer,
            tools,
            topics: Arc::new(std::mem::take(&mut self.topics)),
        })
    }
}
