//! Who is admitted over QUIC, and what tools of providers of models are called.

use orchestra_gateway::Needs;
use orchestra_hub::Hub;
use orchestra_plugin::{generated::PluginManifest, ids::PluginId};
use orchestra_plugin_host::{
    face::{Host, Permissions},
    link::Links,
    storage::DEFAULT_TYPE,
};

use super::known::Plugins;

/// Admits the plugins that are used here, and those that the user lets in by themselves, with what
/// their configuration permits.
pub(super) struct Admission {
    pub(super) hub: Hub,
    pub(super) plugins: Plugins,
    pub(super) links: Links,
    /// Ids of plugins that come by themselves.
    pub(super) admitted: Vec<PluginId>,
}

impl Host for Admission {
    fn admit(&self, plugin: &PluginId, manifest: &PluginManifest) -> Result<Permissions, String> {
        let permissions = match self.plugins.permissions(plugin) {
            Ok(permissions) => permissions,
            Err(_) if self.admitted.contains(plugin) => Permissions::all(),
            Err(why) => {
                return Err(format!(
                    "this is the plugin {plugin}, {why}: configure it, or let it in with \
                     --admit {plugin}"
                ));
            }
        };
        let has_keeper = |needed: &&String| {
            needed.contains('*')
                || *needed == DEFAULT_TYPE
                || self.plugins.storage(needed).is_some()
        };
        if let Some(missing) = manifest.needs_storage.iter().find(|name| !has_keeper(name)) {
            let missing = orchestra_wire::shown(missing);
            return Err(format!(
                "it needs the storage {missing:?}, which no plugin provides here: configure a plugin that provides it"
            ));
        }
        let needs = Needs {
            tools: manifest.needs_tools.clone(),
            storage: manifest.needs_storage.clone(),
            ai: manifest.needs_ai.clone(),
            events: manifest.needs_events.clone(),
        };
        let approved = self.plugins.approved(plugin, &needs)?;
        self.links.note_version(plugin, &manifest.version);
        // It may offer something else than before.
        self.links.changed(plugin);
        Ok(permissions.and(&approved))
    }

    fn ai_tool(&self, provider: &str, tool: &str) -> Option<String> {
        let server = self.plugins.ai(provider)?;
        // They all have the prefix, which no other server has.
        let prefixed = format!("{server}__{tool}");
        let catalogs = self.hub.catalogs();
        let (_, catalog) = catalogs.iter().find(|(id, _)| id.as_str() == server)?;
        let mut names = catalog.tools.iter().map(|tool| &*tool.name);
        names.any(|name| name == prefixed).then_some(prefixed)
    }

    fn ai_provider_of(&self, tool: &str) -> Option<String> {
        if !self.plugins.has_models() {
            return None;
        }
        let mut of_models = None;
        for (id, catalog) in self.hub.catalogs() {
            let provider = self.plugins.provider_of(id.as_str());
            for other in &catalog.tools {
                let bare = other.name.split_once("__").map(|(_, bare)| bare);
                match &provider {
                    // Its name is nobody's but its own.
                    Some(provider) if *other.name == *tool => return Some(provider.clone()),
                    Some(provider) if bare == Some(tool) => of_models = Some(provider.clone()),
                    None if *other.name == *tool => return None,
                    _ => {}
                }
            }
        }
        of_models
    }
}
