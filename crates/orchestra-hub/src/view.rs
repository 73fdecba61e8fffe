//! What one toolset shows of the merged catalog, under the hub's permission rules, and where a
//! request goes. Built once per catalog and toolset.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use orchestra_wire::{Revision, shown};

use crate::{
    BoxFuture, CallEnd, CompletionRef, Cost, LongWork, Outcome, Permission, ProviderError, Request,
    Target, ToolDescriptor, ToolMetrics, Toolset,
    listing::{ListKind, Listing},
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
    raw_to: Option<Arc<Slot>>,
    lists: [[OnceLock<Listing>; Revision::ALL.len()]; ListKind::ALL.len()],
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
            raw_to,
            toolset,
            merged,
            lists: Default::default(),
        }
    }

    pub(crate) fn list(&self, kind: ListKind, revision: Revision) -> &Listing {
        self.lists[kind.index()][revision.index()].get_or_init(|| match (kind, &self.toolset) {
            (ListKind::Tools, Toolset::Search) => search::listing(revision),
            (ListKind::Tools, _) => self.merged.tool_listing(&self.shown, revision),
            _ => self.merged.listing(kind, revision),
        })
    }

    pub(crate) fn tools(&self) -> Vec<ToolDescriptor> {
        if self.toolset == Toolset::Search {
            return search::descriptors().to_vec();
        }
        self.shown
            .iter()
            .map(|at| self.merged.tool(*at).clone())
            .collect()
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
        let of = |name: &str| {
            let tool = self.callable.get(name);
            tool.map_or(LongWork::Never, |(at, _)| self.merged.tool(*at).long)
        };
        if self.toolset != Toolset::Search {
            return of(name);
        }
        search::inner_name(name, arguments).map_or(LongWork::Never, |name| of(&name))
    }

    /// Finds where `request` goes. A call of `call_tool` becomes the call of the inner tool.
    pub(crate) fn route(&self, request: &mut Request) -> Route {
        if self.toolset == Toolset::Search
            && let Target::Tool { name, arguments } = &request.target
        {
            match search::resolve(self, name, arguments) {
                search::Resolved::Inner(target) => request.target = target,
                search::Resolved::Answer(outcome) => return Route::Answer(outcome),
                search::Resolved::NotOurs => return unknown("tool", name),
            }
        }
        match &request.target {
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

    fn route_tool(&self, name: &str) -> Route {
        if let Some((at, metrics)) = self.callable.get(name) {
            return Route::Provider {
                slot: Arc::clone(self.merged.slot(*at)),
                cost: self.merged.tool(*at).cost,
                metrics: Some(Arc::clone(metrics)),
            };
        }
        let there = self.merged.tools.iter().map(|at| self.merged.tool(*at));
        match there.into_iter().find(|tool| tool.name == name) {
            Some(tool) if self.toolset == Toolset::Search || self.toolset.shows(tool) => {
                let denied = ProviderError::Denied(shown(name).into_owned());
                Route::Refuse(denied, CallEnd::Denied)
            }
            _ => unknown("tool", name),
        }
    }
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
