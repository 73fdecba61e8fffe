//! The plugins that are connected now, by their ids: for what is to be said to one of them from
//! elsewhere.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use futures_util::future::BoxFuture;
use orchestra_mcp::client::{Incoming, ServerMessage};
use orchestra_plugin::{
    envelope::{Request, Response},
    generated::ToolResponse,
    ids::PluginId,
};
use tokio::sync::watch;

use super::line::Line;
use crate::{events::Deliver, translate::Question};

/// The plugins that are connected now. Clones are the same. It keeps none of them connected.
#[derive(Clone, Default)]
pub struct Links(Arc<watch::Sender<HashMap<PluginId, Place>>>);

/// What there is of a plugin.
#[derive(Default)]
struct Place {
    /// Those who are starting it.
    starting: usize,
    /// The line that is ready to serve.
    line: Option<Weak<Line>>,
    /// The version that it registered with.
    version: Option<String>,
}

/// The most characters of a version.
const MAX_VERSION: usize = 64;

impl Links {
    /// Nobody is connected yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says on behalf of a plugin that it offers something else than before, so that whoever follows
    /// it asks it anew. False when it is not connected: whoever connects asks anyway.
    pub fn changed(&self, plugin: &PluginId) -> bool {
        let Some(line) = self.line(plugin) else {
            return false;
        };
        for list in ["tools", "prompts", "resources"] {
            line.tell(Incoming {
                message: ServerMessage::Notification {
                    method: format!("notifications/{list}/list_changed"),
                    params: None,
                },
                related: None,
            });
        }
        true
    }

    /// Notes the version that a plugin registers with, if it is connected or being started.
    pub fn note_version(&self, plugin: &PluginId, version: &str) {
        let version: String = version.chars().take(MAX_VERSION).collect();
        self.0.send_if_modified(|places| {
            let place = places.get_mut(plugin).filter(|_| !version.is_empty());
            let Some(place) = place else { return false };
            let version = Some(orchestra_wire::shown(&version).into_owned());
            let is_new = place.version != version;
            place.version = version;
            is_new
        });
    }

    /// Waits until a plugin has registered its version, or nobody starts it. May be cancelled.
    pub(super) async fn until_version(&self, plugin: &PluginId) {
        let mut places = self.0.subscribe();
        let is_known = |places: &HashMap<PluginId, Place>| {
            let place = places.get(plugin);
            place.is_none_or(|place| place.version.is_some())
        };
        // Its sender is held, so that waiting cannot fail.
        let _ = places.wait_for(is_known).await;
    }

    /// The version that a plugin registered with.
    pub(super) fn version(&self, plugin: &PluginId) -> Option<String> {
        self.0.borrow().get(plugin)?.version.clone()
    }

    /// The plugins that are connected now.
    #[must_use]
    pub fn connected(&self) -> Vec<PluginId> {
        let places = self.0.borrow();
        let ready = places.iter().filter(|(_, place)| place.line.is_some());
        ready.map(|(plugin, _)| plugin.clone()).collect()
    }

    /// Waits until a plugin is connected. May be cancelled.
    pub async fn until_connected(&self, plugin: &PluginId) {
        let mut places = self.0.subscribe();
        let is_ready = |places: &HashMap<PluginId, Place>| {
            places.get(plugin).is_some_and(|place| place.line.is_some())
        };
        // Its sender is held, so that waiting cannot fail.
        let _ = places.wait_for(is_ready).await;
    }

    /// Waits until a plugin is not connected, and nobody starts it. May be cancelled.
    pub async fn until_gone(&self, plugin: &PluginId) {
        let mut places = self.0.subscribe();
        let is_gone = |places: &HashMap<PluginId, Place>| !places.contains_key(plugin);
        // Its sender is held, so that waiting cannot fail.
        let _ = places.wait_for(is_gone).await;
    }

    /// Waits until a plugin is connected that is just being started, or its start has failed.
    async fn until_settled(&self, plugin: &PluginId) {
        let mut places = self.0.subscribe();
        let is_settled = |places: &HashMap<PluginId, Place>| {
            let place = places.get(plugin);
            place.is_none_or(|place| place.line.is_some() || place.starting == 0)
        };
        // Its sender is held, so that waiting cannot fail.
        let _ = places.wait_for(is_settled).await;
    }

    /// Says that a plugin is being started, until what is given back is dropped.
    pub(super) fn starting(&self, plugin: &PluginId) -> Starting {
        self.0.send_modify(|places| {
            let place = places.entry(plugin.clone()).or_default();
            place.starting += 1;
            place.version = None;
        });
        Starting {
            links: self.clone(),
            plugin: plugin.clone(),
        }
    }

    /// Puts in a line that is ready to serve; of two to a plugin the later one counts. It is taken
    /// out when what is given back is dropped.
    pub(super) fn put(&self, plugin: &PluginId, line: &Arc<Line>) -> Listed {
        let line = Arc::downgrade(line);
        self.0.send_modify(|places| {
            let place = places.entry(plugin.clone()).or_default();
            place.line = Some(line.clone());
        });
        Listed {
            links: self.clone(),
            plugin: plugin.clone(),
            line,
        }
    }

    fn line(&self, plugin: &PluginId) -> Option<Arc<Line>> {
        self.0.borrow().get(plugin)?.line.as_ref()?.upgrade()
    }

    /// Changes what there is of a plugin, and forgets it when that is nothing. `change` says
    /// whether it has changed anything.
    fn change(&self, plugin: &PluginId, change: impl FnOnce(&mut Place) -> bool) {
        self.0.send_if_modified(|places| {
            let Some(place) = places.get_mut(plugin) else {
                return false;
            };
            let is_changed = change(place);
            if place.starting == 0 && place.line.is_none() {
                places.remove(plugin);
            }
            is_changed
        });
    }
}

impl Deliver for Links {
    /// A plugin that is just being started is waited for: it has registered a moment before it is
    /// ready, and is owed what happens from then on. One that nobody starts has come by itself, and
    /// has no server that is known.
    fn deliver(&self, plugin: &PluginId, event: Request) -> BoxFuture<'static, Result<(), String>> {
        let (links, plugin) = (self.clone(), plugin.clone());
        Box::pin(async move {
            links.until_settled(&plugin).await;
            let line = links.line(&plugin).ok_or("it is not connected")?;
            let kind = event.kind().ok_or("the event has no kind")?;
            let payload = event.payload();
            let answered = line.ask(&Question { kind, payload }, None).await;
            taken(&answered.map_err(|error| error.explain())?)
        })
    }

    fn settled(&self, plugin: &PluginId) -> BoxFuture<'static, ()> {
        let (links, plugin) = (self.clone(), plugin.clone());
        Box::pin(async move { links.until_settled(&plugin).await })
    }

    fn reaches(&self, plugin: &PluginId) -> bool {
        self.0.borrow().contains_key(plugin)
    }
}

/// Whether a plugin has taken an event. Whatever it answers but a refusal, it has.
fn taken(response: &Response) -> Result<(), String> {
    match response.message::<ToolResponse>() {
        Ok(said) if !said.success => {
            let why = orchestra_wire::shown(&said.error_message);
            Err(format!("it refuses it: {why} ({})", said.error_code))
        }
        _ => Ok(()),
    }
}

/// A line that is in; taken out when this is dropped, unless another is there by then.
pub(super) struct Listed {
    links: Links,
    plugin: PluginId,
    line: Weak<Line>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.links.change(&self.plugin, |place| {
            let line = place.line.as_ref();
            let is_ours = line.is_some_and(|line| line.ptr_eq(&self.line));
            if is_ours {
                place.line = None;
            }
            is_ours
        });
    }
}

/// A plugin that is being started; no more when this is dropped.
pub(super) struct Starting {
    links: Links,
    plugin: PluginId,
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.links.change(&self.plugin, |place| {
            place.starting = place.starting.saturating_sub(1);
            true
        });
    }
}
