//! What one toolset shows of the merged catalog, under the hub's permission rules, and where a
//! request goes. Built once per catalog and toolset.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use orchestra_wire::{Revision, shown};

use crate::{
    BoxFuture, CallEnd, CompletionRef, Cost, LongWork, Outcome, Permission, ProviderError, Request,
    Target, ToolDescriptor, ToolMetrics, Toolset,
    listing::{self, ListKind, Listing},
    merged::{At, Merged},
    search,
    slot::Slot,
};

pub(crate) struct View {
    pub(crate) merged: Arc<Merged>,
    pub(crate) toolset: Toolset,
    /// The tools that are listed.
    shown: Vec<At>,
    /// The tools that can be called, directly or through `call_tool`.
    callable: HashMap<String, (At, Arc<ToolMetrics>)>,
    /// Tools by the names that their servers gave them.
    short_names: OnceLock<HashMap<String, ShortName>>,
    raw_to: Option<Arc<Slot>>,
    lists: [[OnceLock<Listing>; Revision::ALL.len()]; ListKind::ALL.len()],
}

/// Tools to which their servers gave one name.
#[derive(Default)]
struct ShortName {
    /// Number of the tools, including those that cannot be called.
    tools: usize,
    /// Whether a tool is listed under this name.
    is_listed: bool,
    /// Name by which one of the tools is called.
    callable: Option<String>,
    /// Names with which a client can call the tools, or learn why it cannot.
    full: Vec<String>,
}

/// Where a request goes.
pub(crate) enum Route {
    /// To a provider.
    Provider {
        slot: Arc<Slot>,
        cost: Cost,
        metrics: Option<Arc<ToolMetrics>>,
    },
    /// The hub answers itself.
    Answer(Outcome),
    /// The hub answers itself, after it has waited.
    Run(BoxFuture<Result<Outcome, ProviderError>>),
    /// Nowhere.
    Refuse(ProviderError, CallEnd),
}

impl View {
    pub(crate) fn new(
        merged: Arc<Merged>,
        toolset: Toolset,
        permission: &Permission,
        raw_to: Option<Arc<Slot>>,
        mut metrics: impl FnMut(&str) -> Arc<ToolMetrics>,
    ) -> Self {
        let permitted = |at: &&At| permission.permits(&merged.tool(**at).name);
        let in_set = |at: &&At| toolset.shows(merged.tool(**at));
        let shown: Vec<At> = merged
            .tools
            .iter()
            .filter(permitted)
            .filter(in_set)
            .copied()
            .collect();
        let reach: Vec<At> = match toolset {
            Toolset::Search => merged.tools.iter().filter(permitted).copied().collect(),
            _ => shown.clone(),
        };
        let callable = reach.into_iter().map(|at| {
            let name = &merged.tool(at).name;
            (name.clone(), (at, metrics(name)))
        });
        let callable = callable.collect();
        Self {
            shown,
            callable,
            short_names: OnceLock::new(),
            raw_to,
            toolset,
            merged,
            lists: Default::default(),
        }
    }

    pub(crate) fn list(&self, kind: ListKind, revision: Revision) -> &Listing {
        self.lists[kind.index()][revision.index()].get_or_init(|| match (kind, &self.toolset) {
            (ListKind::Tools, Toolset::Search) => search::listing(revision),
            (ListKind::Tools, _) => {
                let tools: Vec<_> = self.shown.iter().map(|at| self.described(*at)).collect();
                Listing::of(tools.iter().map(|tool| &**tool), revision, listing::tool)
            }
            _ => self.merged.listing(kind, revision),
        })
    }

    pub(crate) fn tools(&self) -> Vec<ToolDescriptor> {
        if self.toolset == Toolset::Search {
            return search::descriptors().to_vec();
        }
        let tools = self.shown.iter().map(|at| self.described(*at));
        tools.map(Cow::into_owned).collect()
    }

    /// A tool that is shown, as it is shown.
    fn described(&self, at: At) -> Cow<'_, ToolDescriptor> {
        let tool = self.merged.tool(at);
        match &tool.lean_schema {
            Some(lean) if self.toolset.shortens(tool) => Cow::Owned(ToolDescriptor {
                input_schema: lean.clone(),
                ..tool.clone()
            }),
            _ => Cow::Borrowed(tool),
        }
    }

    pub(crate) fn reachable(&self) -> impl Iterator<Item = &ToolDescriptor> {
        // In catalog order, so that equal scores keep it.
        let callable = |at: &&At| self.callable.contains_key(&self.merged.tool(**at).name);
        self.merged
            .tools
            .iter()
            .filter(callable)
            .map(|at| self.merged.tool(*at))
    }

    /// Whether a call of `target` may go on after its request was answered.
    pub(crate) fn long_work(&self, target: &Target) -> LongWork {
        let Target::Tool { name, arguments } = target else {
            return LongWork::Never;
        };
        // An unknown tool may belong to a provider that is not ready yet.
        let is_late = || self.merged.slots().any(|slot| !slot.is_ready());
        let of = |name: &str| match self.callable(name) {
            Some(tool) => tool.long,
            None if is_late() => LongWork::Later,
            None => LongWork::Never,
        };
        if self.toolset != Toolset::Search {
            return of(name);
        }
        search::inner_name(name, arguments).map_or(LongWork::Never, |name| of(&name))
    }

    /// A tool that can be called by this name: its own, or the one that its server gave it when no
    /// other has that.
    pub(crate) fn callable(&self, name: &str) -> Option<&ToolDescriptor> {
        let by = |name: &str| self.callable.get(name);
        let found = by(name).or_else(|| by(self.bare(name)?));
        found.map(|(at, _)| self.merged.tool(*at))
    }

    /// The name of the only tool that its server calls so. There is none while a server starts, which may have
    /// another one.
    fn bare(&self, name: &str) -> Option<&str> {
        let short = self.short_name(name).filter(|short| short.tools == 1)?;
        let is_unsure = self.merged.slots().any(|slot| slot.lacks_tools());
        short.callable.as_deref().filter(|_| !is_unsure)
    }

    /// The full names of the tools that have a short name, of those that the caller may learn of.
    pub(crate) fn full_names(&self, name: &str) -> &[String] {
        let short = self.short_name(name);
        short.map(|short| short.full.as_slice()).unwrap_or_default()
    }

    fn short_name(&self, name: &str) -> Option<&ShortName> {
        if !self.merged.permits_bare(name) {
            return None;
        }
        let all = self.short_names.get_or_init(|| self.all_short_names());
        all.get(name).filter(|short| !short.is_listed)
    }

    fn all_short_names(&self) -> HashMap<String, ShortName> {
        let mut all: HashMap<String, ShortName> = HashMap::new();
        for (slot, catalog) in self.merged.slots().zip(self.merged.catalogs()) {
            for own in catalog.tools.iter().filter_map(own_name) {
                all.entry(own).or_default().tools += 1;
            }
            let may_show = self.may_show(slot);
            for hidden in &catalog.hidden_tools {
                let short = all.entry(hidden.own.clone()).or_default();
                short.tools += 1;
                if may_show && hidden.name != hidden.own {
                    short.full.push(hidden.name.clone());
                }
            }
        }
        for at in &self.merged.tools {
            let tool = self.merged.tool(*at);
            all.entry(tool.name.clone()).or_default().is_listed = true;
            if !self.callable.contains_key(&tool.name) {
                continue;
            }
            if let Some(own) = own_name(tool) {
                let short = all.entry(own).or_default();
                short.callable = Some(tool.name.clone());
                short.full.push(tool.name.clone());
            }
        }
        all.values_mut().for_each(|short| short.full.sort());
        all
    }

    /// Finds where `request` goes. A call of `call_tool` becomes the call of the inner tool, and one
    /// by the name of a server's own the call of the name that is shown. What is not known goes to
    /// the provider that does not know yet what it offers, and may have it.
    pub(crate) fn route(&self, request: &mut Request, permission: &Permission) -> Route {
        let route = self.route_known(request);
        let Route::Refuse(ProviderError::Unknown { .. }, _) = &route else {
            return route;
        };
        let late = match &request.target {
            Target::Tool { name, .. } => self.late_tool(name).filter(|slot| self.may_show(slot)),
            Target::Prompt { name, .. } => self.late(name),
            Target::Complete {
                reference: CompletionRef::Prompt(name),
                ..
            } => self.late(name).filter(|slot| slot.lists_anew),
            Target::Resource { uri }
            | Target::Complete {
                reference: CompletionRef::Resource(uri),
                ..
            } => self.late(uri).filter(|slot| slot.lists_anew),
            _ => None,
        };
        match (late, &request.target) {
            (Some(_), Target::Tool { name, .. }) if !permission.permits(name) => denied(name),
            (Some(slot), _) => to(slot),
            (None, _) => route,
        }
    }

    /// Returns whether a request has a URI that no provider is known to offer.
    pub(crate) fn lacks_uri(&self, target: &Target) -> bool {
        match target {
            Target::Resource { uri }
            | Target::Complete {
                reference: CompletionRef::Resource(uri),
                ..
            } => {
                let is_offered = self.merged.find_offered(uri).is_some();
                !is_offered && self.merged.find_template(uri).is_none()
            }
            _ => false,
        }
    }

    /// The provider that does not know yet what it offers, and may have this.
    fn late(&self, name: &str) -> Option<&Arc<Slot>> {
        self.merged.slots().find(|slot| {
            if self.merged.reserved_by(slot, name).is_some() {
                return false;
            }
            let may_know = slot.guarded(|provider| provider.may_know(name));
            may_know.unwrap_or_default()
        })
    }

    /// The same for a tool, unless another tool of this name is in the catalog, shown or not.
    fn late_tool(&self, name: &str) -> Option<&Arc<Slot>> {
        let mut all = self.merged.tools.iter().map(|at| self.merged.tool(*at));
        let is_known = all.any(|tool| tool.name == name);
        (!is_known).then(|| self.late(name)).flatten()
    }

    /// Whether tools that a provider has later will be in the toolset.
    pub(crate) fn may_show(&self, slot: &Slot) -> bool {
        match &self.toolset {
            Toolset::All | Toolset::Search => true,
            toolset => {
                let server = slot.provider.server();
                server.is_some_and(|server| toolset.shows_server(server))
            }
        }
    }

    fn route_known(&self, request: &mut Request) -> Route {
        if self.toolset == Toolset::Search
            && let Target::Tool { name, arguments } = &request.target
        {
            match search::resolve(self, name, arguments) {
                search::Resolved::Inner(target) => request.target = target,
                search::Resolved::Answer(outcome) => return Route::Answer(outcome),
                search::Resolved::NotOurs => return unknown("tool", name),
            }
        }
        match &mut request.target {
            Target::Tool { name, .. } => self.route_tool(name),
            Target::Prompt { name, arguments } => match self.merged.find_prompt(name) {
                None => unknown("prompt", name),
                Some((slot, prompt)) => {
                    let missing = prompt.arguments.iter().find(|argument| {
                        argument.required && !arguments.contains_key(&argument.name)
                    });
                    match missing {
                        None => to(slot),
                        Some(argument) => Route::Refuse(
                            ProviderError::InvalidParams(format!(
                                "prompt {name} needs argument {}",
                                argument.name
                            )),
                            CallEnd::InvalidParams,
                        ),
                    }
                }
            },
            Target::Resource { uri } => self
                .merged
                .find_resource(uri)
                .map_or_else(|| unknown("resource", uri), to),
            Target::Complete {
                reference: CompletionRef::Prompt(name),
                ..
            } => self
                .merged
                .find_prompt(name)
                .map_or_else(|| unknown("prompt", name), |(slot, _)| to(slot)),
            Target::Complete {
                reference: CompletionRef::Resource(uri),
                ..
            } => self
                .merged
                .find_template(uri)
                .or_else(|| self.merged.find_resource(uri))
                .map_or_else(|| unknown("resource", uri), to),
            Target::Skills(_) => unknown("method", "skills"),
            Target::List { .. } => unknown("method", "list"),
            Target::Raw { method, .. } => self
                .raw_to
                .as_ref()
                .map_or_else(|| unknown("method", method), to),
        }
    }

    fn route_tool(&self, name: &mut String) -> Route {
        let there = |(at, metrics): &(At, Arc<ToolMetrics>)| Route::Provider {
            slot: Arc::clone(self.merged.slot(*at)),
            cost: self.merged.tool(*at).cost,
            metrics: Some(Arc::clone(metrics)),
        };
        if let Some(tool) = self.callable.get(name) {
            return there(tool);
        }
        let mut all = self.merged.tools.iter().map(|at| self.merged.tool(*at));
        let is_shown =
            |tool: &ToolDescriptor| self.toolset == Toolset::Search || self.toolset.shows(tool);
        if all.any(|tool| tool.name == *name && is_shown(tool)) {
            return denied(name);
        }
        let meant = self.bare(name).map(str::to_owned);
        match meant.and_then(|shown| self.callable.get_key_value(&shown)) {
            Some((shown, tool)) => {
                name.clone_from(shown);
                there(tool)
            }
            None => unknown("tool", name),
        }
    }
}

/// The name that its server gave a tool.
fn own_name(tool: &ToolDescriptor) -> Option<String> {
    let name = tool.definition.as_ref()?.member("name")?;
    name.parse::<String>().ok()
}

fn denied(name: &str) -> Route {
    let denied = ProviderError::Denied(shown(name).into_owned());
    Route::Refuse(denied, CallEnd::Denied)
}

fn to(slot: &Arc<Slot>) -> Route {
    Route::Provider {
        slot: Arc::clone(slot),
        cost: Cost::Quick,
        metrics: None,
    }
}

fn unknown(kind: &'static str, name: &str) -> Route {
    Route::Refuse(
        ProviderError::Unknown {
            kind,
            name: shown(name).into_owned(),
        },
        CallEnd::Unknown,
    )
}
