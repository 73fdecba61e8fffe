//! The hub: who is registered, what they offer together, and how callers reach them.

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use orchestra_wire::Era;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
    task::AbortHandle,
};

use crate::{
    Attachment, Audit, Caller, Catalog, Collision, Metrics, MetricsReport, Permission, Provider,
    ProviderId, ToolMetrics, ToolReport, Toolset,
    attachments::Attachments,
    listing::ListKind,
    merged::{self, Choice, Merged},
    peer::{UnreadFiles, UnusedPeers},
    pump,
    reserved::Reserved,
    slot::Slot,
    view::View,
};

/// Limits and rules of a hub.
#[derive(Debug)]
pub struct HubConfig {
    /// How long a call may take unless its caller sets an earlier deadline.
    pub deadline: Duration,
    /// How long a call may take that goes on after its request was answered.
    pub long_deadline: Duration,
    /// Calls of one caller that run at once; more wait.
    pub calls_per_caller: usize,
    /// Calls to one provider that run at once; more wait.
    pub calls_per_provider: usize,
    /// How long lists wait for a provider that does not know yet what it offers, from the first
    /// list on; after that they do not wait for it any more.
    pub list_wait: Duration,
    /// Which tools may be called.
    pub permission: Permission,
    /// Where calls are recorded.
    pub audit: Option<Audit>,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(15 * 60),
            long_deadline: Duration::from_secs(24 * 60 * 60),
            calls_per_caller: 64,
            calls_per_provider: 256,
            list_wait: Duration::from_secs(2),
            permission: Permission::default(),
            audit: None,
        }
    }
}

/// Number of views that are retained. Clients with catalogs of their own have views of their own.
const MAX_VIEWS: usize = 256;

/// The router of one running program. Clones are the same hub.
#[derive(Clone)]
pub struct Hub(pub(crate) Arc<Inner>);

/// Why a provider cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// A provider with this id is registered.
    #[error("provider {0} is already registered")]
    Registered(ProviderId),
    /// It offers a name that is taken.
    #[error(transparent)]
    Collision(#[from] Collision),
    /// There is no tokio runtime whose task could follow the provider's changes.
    #[error("provider {0} must be registered inside a tokio runtime")]
    NoRuntime(ProviderId),
}

/// The MCP clients that have come until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clients {
    /// Era of the first; `None` before it has come.
    pub first: Option<Era>,
    /// Whether one of them offers roots.
    pub roots: bool,
}

/// What a hub offers, or has offered at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offers {
    /// Prompts.
    pub prompts: bool,
    /// Resources or templates.
    pub resources: bool,
    /// Skills.
    pub skills: bool,
    /// Skills of the one server that is asked what the hub does not know, with their directories.
    pub skills_elsewhere: bool,
    /// Methods the hub does not know.
    pub raw: bool,
}

pub(crate) struct Inner {
    pub(crate) config: HubConfig,
    pub(crate) metrics: Metrics,
    pub(crate) attachments: Mutex<Attachments>,
    pub(crate) clients: watch::Sender<Clients>,
    pub(crate) unused_peers: UnusedPeers,
    pub(crate) unread_files: UnreadFiles,
    generation: AtomicU64,
    merged: RwLock<Arc<Merged>>,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    slots: Vec<(Arc<Slot>, AbortHandle)>,
    tool_metrics: HashMap<String, Arc<ToolMetrics>>,
    raw_to: Option<ProviderId>,
    reserved: Arc<Reserved>,
    offers: Offers,
    /// Of the catalog of now.
    views: HashMap<(Toolset, Choice), Arc<View>>,
    /// Those of now, which were told.
    collisions: HashSet<Collision>,
}

impl Hub {
    /// A hub without providers.
    #[must_use]
    pub fn new(config: HubConfig) -> Self {
        Self(Arc::new(Inner {
            config,
            metrics: Metrics::default(),
            attachments: Mutex::default(),
            clients: watch::Sender::default(),
            unused_peers: UnusedPeers::default(),
            unread_files: UnreadFiles::default(),
            generation: AtomicU64::new(0),
            merged: RwLock::default(),
            registry: Mutex::default(),
        }))
    }

    /// Registers a provider and follows its changes until it is removed.
    ///
    /// # Errors
    /// When its id or one of its names is taken, or outside of a tokio runtime.
    pub fn register(&self, provider: Arc<dyn Provider>) -> Result<(), RegisterError> {
        self.enter(provider, |mut collisions| match collisions.pop() {
            Some(collision) => Err(collision.into()),
            None => Ok(()),
        })
    }

    /// As [`register`](Self::register), for a provider that speaks for another server: those of its
    /// names that are taken are left out, as they are when they come later, and are answered.
    ///
    /// # Errors
    /// When its id is taken, or outside of a tokio runtime.
    pub fn register_beside(
        &self,
        provider: Arc<dyn Provider>,
    ) -> Result<Vec<Collision>, RegisterError> {
        self.enter(provider, Ok)
    }

    /// Registers a provider unless `judge` refuses what it collides with.
    fn enter<T>(
        &self,
        provider: Arc<dyn Provider>,
        judge: impl FnOnce(Vec<Collision>) -> Result<T, RegisterError>,
    ) -> Result<T, RegisterError> {
        let id = provider.id().clone();
        let runtime = Handle::try_current().map_err(|_| RegisterError::NoRuntime(id.clone()))?;
        let calls = provider.concurrency().map(NonZeroUsize::get);
        let calls = calls.unwrap_or(self.0.config.calls_per_provider);
        let slot = Arc::new(Slot {
            catalog: provider.catalog(),
            permits: Arc::new(Semaphore::new(calls.min(Semaphore::MAX_PERMITS))),
            makes_remarks: provider.makes_remarks(),
            lists_anew: provider.lists_anew(),
            uri_prefix: provider.uri_prefix(),
            server: provider.server().map(str::to_owned),
            changes: Mutex::default(),
            turn: Mutex::default(),
            awaited: OnceLock::new(),
            sought: OnceLock::new(),
            id,
            provider,
        });
        let mut registry = self.0.registry();
        if registry.slots.iter().any(|(other, _)| other.id == slot.id) {
            return Err(RegisterError::Registered(slot.id.clone()));
        }
        let slots = registry
            .slots
            .iter()
            .map(|(slot, _)| slot)
            .chain([&slot])
            .cloned();
        let (merged, collisions) = Merged::of(slots, Arc::clone(&registry.reserved));
        let theirs = collisions.iter().filter(|found| found.newcomer == slot.id);
        let judged = judge(theirs.cloned().collect())?;
        merged::tell_of(&mut registry.collisions, collisions);
        let task = runtime.spawn(pump::follow(Arc::downgrade(&self.0), Arc::clone(&slot)));
        registry
            .slots
            .push((Arc::clone(&slot), task.abort_handle()));
        self.0.publish(&mut registry, merged);
        drop(registry);
        let is_level_set = self.0.attachments().level().is_some();
        if is_level_set {
            self.0.tell_level_to(&slot);
        }
        Ok(judged)
    }

    /// Removes a provider. Calls that run go on to their end. False when it is not registered.
    pub fn remove(&self, id: &ProviderId) -> bool {
        let mut registry = self.0.registry();
        let Some(at) = registry.slots.iter().position(|(slot, _)| slot.id == *id) else {
            return false;
        };
        let (_, task) = registry.slots.remove(at);
        task.abort();
        self.0.remerge(&mut registry);
        self.0.attachments().forget_provider(id);
        true
    }

    /// Sends methods that the hub does not know to this provider, or to none.
    pub fn forward_unknown_methods_to(&self, id: Option<ProviderId>) {
        let mut registry = self.0.registry();
        if registry.raw_to == id {
            return;
        }
        registry.offers.raw = id.is_some();
        registry.raw_to = id;
        self.0.remerge(&mut registry);
    }

    /// Reserves the names `SERVER__…` of these servers, in whatever state they are: no other server
    /// has a tool or prompt of such a name. They replace the servers of the call before.
    pub fn reserve_servers(&self, servers: HashSet<String>) {
        let mut registry = self.0.registry();
        if registry.reserved.servers == servers {
            return;
        }
        registry.reserved = Arc::new(Reserved {
            servers,
            tools: registry.reserved.tools.clone(),
        });
        self.0.remerge(&mut registry);
    }

    /// Reserves the names of built-in tools, also where no provider has them: a call by one of these names never reaches
    /// the tool that a server has under it. They replace the names of the call before.
    pub fn reserve_tools(&self, tools: HashSet<String>) {
        let mut registry = self.0.registry();
        if registry.reserved.tools == tools {
            return;
        }
        registry.reserved = Arc::new(Reserved {
            servers: registry.reserved.servers.clone(),
            tools,
        });
        self.0.remerge(&mut registry);
    }

    /// Arranges the providers of an order among themselves, so that the first of them gets a name that several have,
    /// whenever they were registered. Other providers keep their places.
    pub fn arrange(&self, order: &[ProviderId]) {
        let mut registry = self.0.registry();
        let place = |id: &ProviderId| order.iter().position(|other| other == id);
        let found = registry.slots.iter().map(|(slot, _)| place(&slot.id));
        let found: Vec<Option<usize>> = found.collect();
        if found.iter().flatten().is_sorted() {
            return;
        }
        let slots = std::mem::take(&mut registry.slots).into_iter().zip(found);
        let (mut ordered, mut all) = (Vec::new(), Vec::new());
        for (slot, place) in slots {
            match place {
                Some(place) => {
                    ordered.push((place, slot));
                    all.push(None);
                }
                None => all.push(Some(slot)),
            }
        }
        orchestra_sort::sort_by_key(&mut ordered, |(place, _)| *place);
        let mut ordered = ordered.into_iter().map(|(_, slot)| slot);
        let all = all.into_iter();
        registry.slots = all
            .filter_map(|slot| slot.or_else(|| ordered.next()))
            .collect();
        self.0.remerge(&mut registry);
    }

    /// Lets a caller in.
    #[must_use]
    pub fn attach(&self, caller: Caller, toolset: Toolset) -> Attachment {
        Attachment::new(Arc::clone(&self.0), caller, toolset)
    }

    /// The names of providers that are left out because others have them.
    #[must_use]
    pub fn collisions(&self) -> Vec<Collision> {
        let mut collisions: Vec<Collision> = self.0.registry().collisions.iter().cloned().collect();
        let key = |of: &Collision| (of.newcomer.to_string(), of.kind, of.name.clone());
        orchestra_sort::sort_by_key(&mut collisions, key);
        collisions
    }

    /// The clients that have come, now and after each change.
    #[must_use]
    pub fn clients(&self) -> watch::Receiver<Clients> {
        self.0.clients.subscribe()
    }

    /// Who is registered, in the order of their registration, and whether they know what they
    /// offer.
    #[must_use]
    pub fn providers(&self) -> Vec<(ProviderId, bool)> {
        let merged = self.0.merged();
        merged
            .slots()
            .map(|slot| (slot.id.clone(), slot.is_ready()))
            .collect()
    }

    /// What all providers offer, in the order of their registration.
    #[must_use]
    pub fn catalogs(&self) -> Vec<(ProviderId, Arc<Catalog>)> {
        let merged = self.0.merged();
        merged
            .slots()
            .map(|slot| (slot.id.clone(), slot.catalog.borrow().clone()))
            .collect()
    }

    /// Starts the thread of the audit file, if there is one; otherwise the first call does.
    pub fn start_audit(&self) {
        if let Some(audit) = &self.0.config.audit {
            audit.start();
        }
    }

    /// The audit file, if there is one.
    #[must_use]
    pub fn audit(&self) -> Option<&Audit> {
        self.0.config.audit.as_ref()
    }

    /// The counters of all calls.
    #[must_use]
    pub fn metrics(&self) -> MetricsReport {
        self.0.metrics.report()
    }

    /// The counters of each tool that is offered, by name. They begin anew when a tool comes back
    /// that nobody offered for a while.
    #[must_use]
    pub fn tool_metrics(&self) -> Vec<ToolReport> {
        let registry = self.0.registry();
        let mut reports: Vec<ToolReport> = registry
            .tool_metrics
            .iter()
            .map(|(name, metrics)| metrics.report(name))
            .collect();
        orchestra_sort::sort_by(&mut reports, |a, b| a.name.cmp(&b.name));
        reports
    }
}

impl Inner {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn attachments(&self) -> MutexGuard<'_, Attachments> {
        self.attachments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The merged catalog, brought up to date with what the providers offer now.
    pub(crate) fn merged(&self) -> Arc<Merged> {
        let merged = Arc::clone(&self.merged.read().unwrap_or_else(PoisonError::into_inner));
        if !merged.is_stale() {
            return merged;
        }
        let mut registry = self.registry();
        let merged = Arc::clone(&self.merged.read().unwrap_or_else(PoisonError::into_inner));
        if merged.is_stale() {
            self.remerge(&mut registry)
        } else {
            merged
        }
    }

    /// Whether `view` shows what is offered now.
    pub(crate) fn is_current(&self, view: &View) -> bool {
        view.merged.generation == self.generation.load(Ordering::Acquire) && !view.merged.is_stale()
    }

    /// What `toolset` shows to a client now; client 0 is none.
    pub(crate) fn view(&self, toolset: &Toolset, client: u64) -> Arc<View> {
        let merged = self.merged();
        let choice = merged.choice(client);
        let key = (toolset.clone(), choice);
        let mut registry = self.registry();
        if let Some(view) = registry.views.get(&key)
            && view.merged.generation == merged.generation
        {
            return Arc::clone(view);
        }
        let merged = merged.chosen(&key.1);
        if registry.views.len() >= MAX_VIEWS {
            registry.views.clear();
        }
        let Registry {
            slots,
            tool_metrics,
            raw_to,
            views,
            ..
        } = &mut *registry;
        let raw_to = slots
            .iter()
            .map(|(slot, _)| slot)
            .find(|slot| Some(&slot.id) == raw_to.as_ref());
        let metrics = |name: &str| match tool_metrics.get(name) {
            Some(metrics) => Arc::clone(metrics),
            None => Arc::clone(tool_metrics.entry(name.to_owned()).or_default()),
        };
        let permission = &self.config.permission;
        let view = Arc::new(View::new(
            merged,
            toolset.clone(),
            permission,
            raw_to.cloned(),
            metrics,
        ));
        views.insert(key, Arc::clone(&view));
        view
    }

    pub(crate) fn offers(&self) -> Offers {
        self.merged();
        self.registry().offers
    }

    fn remerge(&self, registry: &mut Registry) -> Arc<Merged> {
        let slots = registry.slots.iter().map(|(slot, _)| slot).cloned();
        let (merged, collisions) = Merged::of(slots, Arc::clone(&registry.reserved));
        merged::tell_of(&mut registry.collisions, collisions);
        self.publish(registry, merged)
    }

    fn publish(&self, registry: &mut Registry, mut merged: Merged) -> Arc<Merged> {
        let resources = merged.offers(ListKind::Resources) || merged.offers(ListKind::Templates);
        registry.offers.prompts |= merged.offers(ListKind::Prompts);
        registry.offers.skills |= merged.serves_skills();
        // Their files are resources.
        registry.offers.resources |= resources || merged.serves_skills();
        for slot in merged.slots() {
            let may = slot.guarded(|provider| provider.may_offer());
            let may = may.unwrap_or_default();
            registry.offers.prompts |= may.prompts;
            registry.offers.resources |= may.resources;
            registry.offers.skills_elsewhere |= may.skills_elsewhere;
        }
        registry.views.clear();
        let offered: HashSet<&str> = merged.tool_names().collect();
        let counted = &mut registry.tool_metrics;
        counted.retain(|name, _| offered.contains(&**name));
        // Only ever changed under the registry's lock.
        merged.generation = self.generation.load(Ordering::Relaxed) + 1;
        let (generation, merged) = (merged.generation, Arc::new(merged));
        let mut current = self.merged.write().unwrap_or_else(PoisonError::into_inner);
        let previous = std::mem::replace(&mut *current, Arc::clone(&merged));
        drop(current);
        self.generation.store(generation, Ordering::Release);
        self.notify_of_changes(&previous, &merged);
        merged
    }

    /// Notifies each client of the lists that it sees changed.
    fn notify_of_changes(&self, before: &Arc<Merged>, after: &Arc<Merged>) {
        let mut alike: HashMap<(Choice, Choice), Vec<u64>> = HashMap::new();
        let clients = self.attachments().numbers();
        for client in clients {
            let choices = (before.choice(client), after.choice(client));
            alike.entry(choices).or_default().push(client);
        }
        for ((old, new), clients) in alike {
            let (before, after) = (before.chosen(&old), after.chosen(&new));
            let changed = ListKind::ALL.map(|kind| after.differs(&before, kind));
            self.attachments().notify_of_lists(&clients, changed);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let registry = self
            .registry
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        registry.slots.iter().for_each(|(_, task)| task.abort());
    }
}
