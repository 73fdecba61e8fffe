//! The plugins that are configured, as far as their neighbours must know of each other.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use orchestra_gateway::{
    Needs, NeedsFile,
    config::{Permit, ServerConfig, ServerName, Transport, Trust},
    discovery::{Found, Server, ServerState},
};
use orchestra_plugin::ids::PluginId;
use orchestra_plugin_host::face::{Allowed, Permissions};
use tokio::sync::watch;

/// The plugins that are configured now. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Plugins(Arc<watch::Sender<Arc<Known>>>);

#[derive(Debug, Default)]
struct Known {
    plugins: HashMap<PluginId, Plugin>,
    /// Types of storage, and who keeps them.
    storage: HashMap<String, Keeper>,
    /// Providers of models, and the names of the servers that stand for them.
    ai: HashMap<String, String>,
}

/// A plugin that keeps documents.
#[derive(Debug, Clone)]
pub(super) struct Keeper {
    pub(super) plugin: PluginId,
    /// The name of its server.
    pub(super) server: String,
}

/// A plugin that is configured.
#[derive(Debug, Clone)]
struct Plugin {
    /// Why it is not started, if it is not.
    unused: Option<&'static str>,
    /// Whether it may be waiting for a call, before its first one or because nobody used it.
    waits_for_calls: bool,
    /// The plugins that come before it. Those that wait for it in turn are not among them.
    after: Vec<PluginId>,
    is_legacy: bool,
    permissions: Permissions,
    name: ServerName,
    /// Where it is kept what it needs, if that is to be approved; or why nobody knows.
    needs: Option<Result<NeedsFile, String>>,
}

/// What a plugin waits for before it is started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// This plugin, which is started as well.
    Running(PluginId),
    /// Nothing that will ever come, and why not.
    Never(PluginId, &'static str),
}

impl Plugins {
    pub(super) fn none() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }

    /// Takes what was found, of which `is_reached` is started.
    /// Gives back those that are not used any more, or may do something else.
    pub(super) fn take(
        &self,
        found: &Found,
        state: &Result<PathBuf, String>,
        is_reached: impl Fn(&ServerName) -> bool,
    ) -> Vec<PluginId> {
        let now = Arc::new(Known::of(found, state, is_reached));
        let before = self.0.send_replace(Arc::clone(&now));
        let is_same = |id: &PluginId, before: &Plugin| {
            now.plugins.get(id).is_some_and(|now| {
                now.unused == before.unused && now.permissions == before.permissions
            })
        };
        let changed = before.plugins.iter();
        let changed = changed.filter(|(id, before)| !is_same(id, before));
        changed.map(|(id, _)| id.clone()).collect()
    }

    /// Who keeps the documents of a type, if it is a plugin.
    pub(super) fn storage(&self, storage_type: &str) -> Option<Keeper> {
        self.0.borrow().storage.get(storage_type).cloned()
    }

    /// The name of the server that stands for a provider of models.
    pub(super) fn ai(&self, provider: &str) -> Option<String> {
        self.0.borrow().ai.get(provider).cloned()
    }

    /// What a plugin may do that is used here.
    ///
    /// # Errors
    /// Why it is not.
    pub(super) fn permissions(&self, plugin: &PluginId) -> Result<Permissions, &'static str> {
        match self.0.borrow().plugins.get(plugin) {
            None => Err("which is not a plugin here"),
            Some(Plugin {
                unused: Some(why), ..
            }) => Err(why),
            Some(found) => Ok(found.permissions.clone()),
        }
    }

    /// What of the needs of a plugin is approved, as it says them now. Reads a small file, and writes
    /// it when they are others than before.
    ///
    /// # Errors
    /// When that cannot be known.
    pub(super) fn approved(&self, plugin: &PluginId, needs: &Needs) -> Result<Permissions, String> {
        let found = self.0.borrow().plugins.get(plugin).cloned();
        let Some((name, file)) = found.and_then(|found| Some((found.name, found.needs?))) else {
            return Ok(Permissions::all());
        };
        let approved = file.and_then(|file| file.announce(needs).map_err(|e| e.to_string()));
        let approved = approved.map_err(|why| format!("cannot read its approved needs: {why}"))?;
        for (kind, more) in needs.beyond(&approved).by_kind() {
            if !more.is_empty() {
                let more = orchestra_wire::shown(&more.join(", ")).into_owned();
                tracing::warn!(
                    %plugin, kind, more,
                    "the plugin requests more than was approved; `orchestra mcp approve {name}` grants it"
                );
            }
        }
        let listed = |names: &[String]| Allowed::listed(names.iter().map(String::as_str));
        Ok(Permissions {
            tools: listed(&approved.tools),
            storage: listed(&approved.storage),
            ai: listed(&approved.ai),
            events: listed(&approved.events),
        })
    }

    /// Whether a plugin is used here that was written for an orchestrator of the past, which shared
    /// its authority.
    pub(super) fn is_legacy(&self, plugin: &PluginId) -> bool {
        let known = self.0.borrow();
        let found = known.plugins.get(plugin);
        found.is_some_and(|found| found.is_legacy && found.unused.is_none())
    }

    /// Whether a plugin stands for models at all.
    pub(super) fn has_models(&self) -> bool {
        !self.0.borrow().ai.is_empty()
    }

    /// A provider of models that a server stands for.
    pub(super) fn provider_of(&self, server: &str) -> Option<String> {
        let known = self.0.borrow();
        let mut stands = known.ai.iter().filter(|(_, other)| *other == server);
        stands.next().map(|(provider, _)| provider.clone())
    }

    /// What must be there before a plugin is started.
    pub(super) fn before(&self, plugin: &PluginId) -> Vec<Before> {
        let known = self.0.borrow();
        let Some(found) = known.plugins.get(plugin) else {
            return Vec::new();
        };
        let waits = found.after.iter().filter_map(|needed| {
            let never = |why| Some(Before::Never(needed.clone(), why));
            match known.plugins.get(needed) {
                None => never("which is not a plugin here"),
                Some(Plugin {
                    unused: Some(why), ..
                }) => never(why),
                // A call starts it.
                Some(Plugin {
                    waits_for_calls: true,
                    ..
                }) => None,
                Some(_) => Some(Before::Running(needed.clone())),
            }
        });
        waits.collect()
    }
}

impl Known {
    fn of(
        found: &Found,
        state: &Result<PathBuf, String>,
        is_reached: impl Fn(&ServerName) -> bool,
    ) -> Self {
        let cycles: Vec<HashSet<String>> = found
            .plugin_order()
            .cycles
            .iter()
            .map(|cycle| cycle.iter().map(ToString::to_string).collect())
            .collect();
        let mut known = Self::default();
        for server in &found.servers {
            let Some((id, config)) = plugin(server) else {
                continue;
            };
            let Transport::Plugin(plugin) = &config.transport else {
                continue;
            };
            let is_cyclic = |needed: &String| {
                let both =
                    |cycle: &HashSet<String>| cycle.contains(id.as_str()) && cycle.contains(needed);
                cycles.iter().any(both)
            };
            let after = plugin.depends_on.iter().map(ToString::to_string);
            let after = after.filter(|needed| !is_cyclic(needed));
            let unused = unused(server, is_reached(&server.name));
            if unused.is_none() {
                for storage in &plugin.provides_storage {
                    let keeper = known.storage.entry(storage.clone());
                    keeper.or_insert_with(|| Keeper {
                        plugin: id.clone(),
                        server: server.name.to_string(),
                    });
                }
                for provider in &plugin.provides_ai {
                    let stands = known.ai.entry(provider.clone());
                    stands.or_insert_with(|| server.name.to_string());
                }
            }
            let plugin = Plugin {
                unused,
                waits_for_calls: config.lazy || config.idle_stop.is_some(),
                after: after.filter_map(|needed| needed.parse().ok()).collect(),
                is_legacy: plugin.is_legacy,
                permissions: permissions(&plugin.permit),
                needs: (server.origin.trust == Trust::Ask)
                    .then(|| Ok(NeedsFile::new(state.as_deref()?, config)))
                    .map(|file: Result<_, &String>| file.map_err(Clone::clone)),
                name: server.name.clone(),
            };
            known.plugins.insert(id, plugin);
        }
        known
    }
}

fn plugin(server: &Server) -> Option<(PluginId, &ServerConfig)> {
    let config = server.config()?;
    match &config.transport {
        Transport::Plugin(plugin) => Some((plugin.id.as_str().parse().ok()?, config)),
        _ => None,
    }
}

/// What the operator permits.
fn permissions(permit: &Permit) -> Permissions {
    let allowed = |names: &Option<Vec<String>>| match names {
        None => Allowed::All,
        Some(names) => Allowed::listed(names.iter().map(String::as_str)),
    };
    Permissions {
        tools: allowed(&permit.tools),
        storage: allowed(&permit.storage),
        ai: allowed(&permit.ai),
        events: allowed(&permit.events),
    }
}

fn unused(server: &Server, is_reached: bool) -> Option<&'static str> {
    match &server.state {
        ServerState::Usable(_) if is_reached => None,
        ServerState::Usable(_) => Some("which --tools excludes"),
        ServerState::Disabled { .. } => Some("which is disabled"),
        ServerState::NeedsApproval { .. } => Some("which is not approved yet"),
        ServerState::Invalid { .. } | ServerState::Own => Some("which cannot be used"),
    }
}
