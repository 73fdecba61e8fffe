//! What a plugin may do: what its manifest says that it needs, as far as its host permits it.

use std::sync::Arc;

use orchestra_hub::NamePattern;
use orchestra_plugin::{generated::PluginManifest, ids::PluginId};

/// Names of one kind that are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// All.
    All,
    /// Those that all of these lists have, by a pattern in which `*` stands for any text.
    Listed(Vec<Arc<[NamePattern]>>),
}

impl Allowed {
    /// The names that fit one of `patterns`; none when there are none.
    pub fn listed<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let patterns = patterns.into_iter().map(NamePattern::new).collect();
        Self::Listed(vec![patterns])
    }

    /// Whether `name` is allowed.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(lists) => lists
                .iter()
                .all(|list| list.iter().any(|pattern| pattern.matches(name))),
        }
    }

    /// What both allow.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        match (self, other) {
            (ours, Self::All) => ours,
            (Self::All, theirs) => theirs.clone(),
            (Self::Listed(mut ours), Self::Listed(theirs)) => {
                ours.extend(theirs.iter().cloned());
                Self::Listed(ours)
            }
        }
    }
}

/// What a plugin may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// The tools and prompts that it may call.
    pub tools: Allowed,
    /// The types of storage that it may use.
    pub storage: Allowed,
    /// The AI providers that it may call.
    pub ai: Allowed,
    /// The topics that it may subscribe to.
    pub events: Allowed,
}

impl Permissions {
    /// Everything.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            tools: Allowed::All,
            storage: Allowed::All,
            ai: Allowed::All,
            events: Allowed::All,
        }
    }

    /// What a manifest says that its plugin needs.
    #[must_use]
    pub fn needed(manifest: &PluginManifest) -> Self {
        let listed = |names: &[String]| Allowed::listed(names.iter().map(String::as_str));
        Self {
            tools: listed(&manifest.needs_tools),
            storage: listed(&manifest.needs_storage),
            ai: listed(&manifest.needs_ai),
            events: listed(&manifest.needs_events),
        }
    }

    /// What both permit.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        Self {
            tools: self.tools.and(&other.tools),
            storage: self.storage.and(&other.storage),
            ai: self.ai.and(&other.ai),
            events: self.events.and(&other.events),
        }
    }
}

/// Things that a plugin may use, which have names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Tool,
    Prompt,
    Storage,
    Provider,
    Topic,
}

impl Need {
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Storage => "storage",
            Self::Provider => "AI provider",
            Self::Topic => "topic",
        }
    }

    /// The kind of a record in the audit log.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Provider => "ai",
            Self::Tool | Self::Prompt | Self::Storage | Self::Topic => self.noun(),
        }
    }

    /// The list of the manifest that has to name it.
    pub(super) const fn needs(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "needs_tools",
            Self::Storage => "needs_storage",
            Self::Provider => "needs_ai",
            Self::Topic => "needs_events",
        }
    }
}

/// Whoever starts plugins, and knows what their operator permits. Its methods must be quick.
pub trait Host: Send + Sync + 'static {
    /// Admits a plugin that registers, with all that it is permitted; what its manifest does not
    /// name, it may not do in any case.
    ///
    /// A plugin registers again when it offers other tools than before, on the same connection:
    /// whoever follows it should ask it anew then, by [`Links::changed`](crate::link::Links::changed).
    ///
    /// # Errors
    /// Why it is not admitted, in words for its author.
    fn admit(&self, plugin: &PluginId, manifest: &PluginManifest) -> Result<Permissions, String>;

    /// The name that the tool `tool` of the AI provider `provider` has in the hub, if there is one.
    fn ai_tool(&self, provider: &str, tool: &str) -> Option<String> {
        let _ = (provider, tool);
        None
    }

    /// The AI provider whose tool `tool` of the hub is, if it is one of a provider.
    fn ai_provider_of(&self, tool: &str) -> Option<String> {
        let _ = tool;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_be_allowed_by_all() {
        let manifest = Allowed::listed(["get_*", "search"]);
        assert!(manifest.allows("get_task") && manifest.allows("search"));
        assert!(!manifest.allows("delete_task"));
        assert!(!Allowed::listed([]).allows("search"));
        assert_eq!(manifest.clone().and(&Allowed::All), manifest);
        assert_eq!(Allowed::All.and(&manifest), manifest);
        let both = manifest.and(&Allowed::listed(["*_task"]));
        assert!(both.allows("get_task"));
        assert!(!both.allows("search") && !both.allows("delete_task"));
    }
}
