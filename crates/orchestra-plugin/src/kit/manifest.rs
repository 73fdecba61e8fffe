//! What a plugin says of itself: as a message to the orchestrator, and as the JSON of `--manifest`.

use serde::Serialize;

use crate::generated::PluginManifest;

/// The additions that this kit understands.
pub const FEATURES: [&str; 4] = ["mcp_params", "mcp_result", "mcp_message", "problem"];

/// The addition that a plugin names which offers resources.
pub(super) const RESOURCES: &str = "resources";

/// The manifest as `--manifest` prints it, which installers and orchestrators read.
#[derive(Serialize)]
struct Printed<'a> {
    id: &'a str,
    version: &'a str,
    description: &'a str,
    author: &'a str,
    language: &'a str,
    provides_tools: &'a [String],
    provides_storage: &'a [String],
    provides_transport: &'a [String],
    provides_ai: &'a [String],
    provides_prompts: &'a [String],
    provides_events: &'a [String],
    needs_storage: &'a [String],
    needs_ai: &'a [String],
    needs_tools: &'a [String],
    needs_events: &'a [String],
}

/// The JSON of `--manifest`. Lists are never null.
pub(super) fn to_json(manifest: &PluginManifest) -> String {
    let printed = Printed {
        id: &manifest.id,
        version: &manifest.version,
        description: &manifest.description,
        author: &manifest.author,
        language: &manifest.language,
        provides_tools: &manifest.provides_tools,
        provides_storage: &manifest.provides_storage,
        provides_transport: &manifest.provides_transport,
        provides_ai: &manifest.provides_ai,
        provides_prompts: &manifest.provides_prompts,
        provides_events: &manifest.provides_events,
        needs_storage: &manifest.needs_storage,
        needs_ai: &manifest.needs_ai,
        needs_tools: &manifest.needs_tools,
        needs_events: &manifest.needs_events,
    };
    serde_json::to_string_pretty(&printed).expect("texts and lists of texts have a form in JSON")
}
