//! What is wrong among plugins, each of which is sound: names that meet, and orders that there are
//! none of.

use std::sync::Arc;

use super::{Found, Server, ServerState};
use crate::config::{
    Diagnostic, PluginConfig, PluginId, ServerConfig, Severity, Transport, Written, order::Order,
};

impl Found {
    /// The order in which the plugins that are used are started.
    #[must_use]
    pub fn plugin_order(&self) -> Order {
        let plugins = self.usable().filter_map(|config| plugin(config));
        let plugins = plugins.map(|plugin| (plugin.id.clone(), plugin.depends_on.clone()));
        Order::of(&plugins.collect::<Vec<_>>())
    }
}

fn plugin(config: &ServerConfig) -> Option<&PluginConfig> {
    match &config.transport {
        Transport::Plugin(plugin) => Some(plugin),
        _ => None,
    }
}

/// Two that are called alike and are not the same, one of them a plugin: whoever wrote one file may
/// not have known the other.
pub(super) fn clash(written: &Written, stronger: &Server) -> Option<Diagnostic> {
    let mut configs = written.config.iter().map(|config| &**config);
    let is_plugin = configs.any(|config| plugin(config).is_some())
        || stronger
            .config()
            .is_some_and(|config| plugin(config).is_some());
    if !is_plugin || written.shown_name == stronger.shown_name {
        return None;
    }
    let (name, other, origin) = (&written.name, &stronger.shown_name, &stronger.origin);
    Some(Diagnostic {
        severity: Severity::Error,
        file: Arc::clone(&written.origin.file),
        place: written.origin.place,
        path: written.shown_name.clone(),
        server: Some(name.clone()),
        message: format!(
            "has the name `{name}`, as `{other}` has ({origin}), and is ignored; rename one of them"
        ),
    })
}

/// No more of these are told: what is written once may be wrong for every plugin.
const MAX_TOLD: usize = 100;

/// Plugins that depend on each other, or on what is not started.
pub(super) fn disordered(found: &Found) -> Vec<Diagnostic> {
    let order = found.plugin_order();
    let cycles = order.cycles.iter().filter_map(|cycle| {
        let names: Vec<String> = cycle.iter().map(|id| format!("`{id}`")).collect();
        let message = match &names[..] {
            [_] => "depends on itself, which is ignored".to_owned(),
            names => format!(
                "{} depend on each other; they are started side by side",
                names.join(", ")
            ),
        };
        warning(found, cycle.first()?, message)
    });
    let missing = order.missing.iter().filter_map(|(id, needed)| {
        let message = format!("depends on `{needed}`, {}", why_missing(found, needed));
        warning(found, id, message)
    });
    cycles.chain(missing).take(MAX_TOLD).collect()
}

fn why_missing(found: &Found, id: &PluginId) -> &'static str {
    let mut servers = found.servers.iter();
    let server = servers.find(|server| server.shown_name == id.as_str());
    match server.map(|server| &server.state) {
        None => "which is not a plugin here",
        Some(ServerState::Disabled { .. }) => "which is disabled",
        Some(ServerState::NeedsApproval { .. }) => "which is not approved yet",
        Some(ServerState::Invalid { .. }) => "which cannot be used",
        Some(ServerState::Usable(_) | ServerState::Own) => "which is a server, not a plugin",
    }
}

fn warning(found: &Found, id: &PluginId, message: String) -> Option<Diagnostic> {
    let of_it = |server: &&Server| {
        let config = server.config().and_then(|config| plugin(config));
        config.is_some_and(|plugin| plugin.id == *id)
    };
    let server = found.servers.iter().find(of_it)?;
    Some(Diagnostic {
        severity: Severity::Warning,
        file: Arc::clone(&server.origin.file),
        place: server.origin.place,
        path: server.shown_name.clone(),
        server: Some(server.name.clone()),
        message,
    })
}
