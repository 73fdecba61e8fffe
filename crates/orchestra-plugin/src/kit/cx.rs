//! What a handler knows of its call, and how it speaks to whoever called.

use std::{
    any::{Any, TypeId, type_name},
    collections::{BTreeMap, HashMap},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};

use super::{answer::ToolError, orchestrator::Orchestrator, toolbox::Tools};
use crate::{envelope::Response, generated::McpMessage, ids::PluginId};

/// What all handlers of a plugin share.
#[derive(Debug)]
pub(super) struct Surroundings {
    pub(super) id: PluginId,
    pub(super) workspace: PathBuf,
    pub(super) flags: BTreeMap<String, String>,
    pub(super) config: Mutex<BTreeMap<String, String>>,
    pub(super) orchestrator: Orchestrator,
    pub(super) states: States,
    pub(super) tools: Tools,
}

/// What the calls of a plugin share, one of each type.
#[derive(Default)]
pub(super) struct States(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl States {
    pub(super) fn put<T: Send + Sync + 'static>(&mut self, state: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(state));
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").finish_non_exhaustive()
    }
}

/// What is particular to one call.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) request_id: String,
    pub(super) caller: String,
    pub(super) session: String,
    pub(super) trace_parent: String,
    pub(super) provider: String,
    /// What progress is reported under, if anyone asked for it.
    pub(super) progress_token: Option<Box<RawValue>>,
}

/// A handler's view of its call. Cheap to clone; a clone may outlive the call.
#[derive(Clone)]
pub struct Cx {
    surroundings: Arc<Surroundings>,
    call: Arc<Call>,
    cancel: Cancel,
    frames: mpsc::Sender<Bytes>,
}

impl Cx {
    pub(super) fn new(
        surroundings: Arc<Surroundings>,
        call: Call,
        cancel: Cancel,
        frames: mpsc::Sender<Bytes>,
    ) -> Self {
        Self {
            surroundings,
            call: Arc::new(call),
            cancel,
            frames,
        }
    }

    /// The id of the plugin.
    pub fn plugin(&self) -> &PluginId {
        &self.surroundings.id
    }

    /// Who calls: the id of a plugin, or a transport's; empty when nobody said. It is what the
    /// orchestrator vouches for.
    pub fn caller(&self) -> &str {
        &self.call.caller
    }

    /// The session of the client that the call is made for; empty when there is none.
    pub fn session(&self) -> &str {
        &self.call.session
    }

    /// The trace that the call belongs to: the value of the W3C header `traceparent`, or empty.
    pub fn trace_parent(&self) -> &str {
        &self.call.trace_parent
    }

    /// The AI provider that the tool is wanted of; empty for an ordinary tool.
    pub fn provider(&self) -> &str {
        &self.call.provider
    }

    /// The workspace that the plugin was started for.
    pub fn workspace(&self) -> &Path {
        &self.surroundings.workspace
    }

    /// The value of one of the plugin's own flags.
    pub fn flag(&self, name: &str) -> Option<&str> {
        self.surroundings.flags.get(name).map(String::as_str)
    }

    /// A setting that the plugin was booted with.
    pub fn config(&self, key: &str) -> Option<String> {
        let config = &self.surroundings.config;
        let config = config.lock().unwrap_or_else(PoisonError::into_inner);
        config.get(key).cloned()
    }

    /// What the plugin was given by [`Plugin::state`](super::Plugin::state), by its type.
    ///
    /// # Errors
    /// The plugin was given none of that type.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T, ToolError> {
        let state = self.surroundings.states.0.get(&TypeId::of::<T>());
        let state = state.and_then(|state| state.downcast_ref());
        state.ok_or_else(|| {
            let name = type_name::<T>();
            ToolError::message_only(format!(
                "the plugin has no state of the type {name}: give it one by Plugin::state"
            ))
        })
    }

    /// The tools of the plugin, to add some and to remove some.
    pub fn tools(&self) -> &Tools {
        &self.surroundings.tools
    }

    /// The orchestrator, to call back. Calls made through it belong to the session and the trace of
    /// this call.
    pub fn orchestrator(&self) -> Orchestrator {
        self.surroundings
            .orchestrator
            .on_behalf(&self.call.session, &self.call.trace_parent)
    }

    /// Tells when the caller has given up, or the plugin is to end.
    ///
    /// A handler that goes on is dropped at its next `.await` half a second later, or after what
    /// [`Plugin::cancel_grace`](super::Plugin::cancel_grace) says; what must be finished all the same
    /// belongs into a task of its own.
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Whether the caller has given up.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Waits until the caller gives up.
    pub async fn cancelled(&self) {
        self.cancel.clone().cancelled().await;
    }

    /// Whether anyone listens to [`Self::progress`].
    pub fn wants_progress(&self) -> bool {
        self.call.progress_token.is_some()
    }

    /// Reports how far the work is: `done` of `total` when that is known, and rising. Nothing
    /// happens when nobody asked; a report is dropped when those before it have not left yet.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let Some(token) = &self.call.progress_token else {
            return;
        };
        let params = ProgressParams {
            progress_token: token,
            progress: done,
            total,
            message,
        };
        let notification = Notification {
            jsonrpc: "2.0",
            method: "notifications/progress",
            params,
        };
        // Numbers that are not finite have no form in JSON; there is nothing to report then.
        if let Ok(json) = serde_json::to_vec(&notification) {
            let message = McpMessage { json: json.into() };
            let frame = Response::new(self.call.request_id.as_str(), &message).encode();
            // A full queue holds older reports of the same.
            let _ = self.frames.try_send(frame);
        }
    }
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("plugin", &self.surroundings.id)
            .field("caller", &self.call.caller)
            .finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Notification<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: ProgressParams<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a> {
    progress_token: &'a RawValue,
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// Tells whether and when a call is given up.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Receiver<bool>);

impl Cancel {
    pub(super) fn pair() -> (Arc<watch::Sender<bool>>, Self) {
        let (sender, receiver) = watch::channel(false);
        (Arc::new(sender), Self(receiver))
    }

    /// Whether it is given up.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is given up; for ever if it ends first.
    pub async fn cancelled(&mut self) {
        if self.0.wait_for(|given_up| *given_up).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
