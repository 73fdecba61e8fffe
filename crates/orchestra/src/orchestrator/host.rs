//! Who is admitted over QUIC, and what tools of providers of models are called.

use orchestra_hub::Hub;
use orchestra_plugin::{generated::PluginManifest, ids::PluginId};
use orchestra_plugin_host::{
    face::{Host, Permissions},
    link::Links,
    storage::DEFAULT_TYPE,
};

use super::known::Plugins;

/// Admits whoever has a certificate, unless a plugin of that name is configured and not used.
pub(super) struct Admission {
    pub(super) hub: Hub,
    pub(super) plugins: Plugins,
    pub(super) links: Links,
}

impl Host for Admission {
    fn admit(&self, plugin: &PluginId, manifest: &PluginManifest) -> Result<Permissions, String> {
        if let Some(why) = self.plugins.why_unused(plugin) {
            return Err(format!("this is the plugin {plugin}, {why}"));
        }
        let has_keeper = |needed: &&String| {
            needed.contains('*')
                || *needed == DEFAULT_TYPE
                || self.plugins.storage(needed).is_some()
        };
        if let Some(missing) = manifest.needs_storage.iter().find(|name| !has_keeper(name)) {
            let missing = orchestra_wire::shown(missing);
            return Err(format!(
                "it needs the storage {missing:?}, which nobody keeps here: configure a plugin \
                 that provides it"
            ));
        }
        // It may offer something else than before.
        self.links.changed(plugin);
        Ok(Permissions::all())
    }

    fn ai_tool(&self, provider: &str, tool: &str) -> Option<String> {
        let server = self.plugins.ai(provider)?;
        let prefixed = format!("{server}__{tool}");
        let catalogs = self.hub.catalogs();
        let (_, catalog) = catalogs.iter().find(|(id, _)| id.as_str() == server)?;
        let mut names = catalog.tools.iter().map(|tool| &*tool.name);
        let found = names.find(|name| *name == tool || *name == prefixed);
        found.map(str::to_owned)
    }
}
