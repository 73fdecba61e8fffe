//! One caller's place at the hub: its calls, its lists, its subscriptions and what it is told.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use orchestra_wire::{RawJson, Revision, shown};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    Call, Caller, ListKind, Listing, LogLevel, LongWork, Notice, Offers, ProviderId, Request,
    Target, Toolset,
    hub::Inner,
    merged::{Change, Slot},
    view::View,
};

/// Notices that wait for one caller; past that it is told that it missed some.
const NOTICE_QUEUE: usize = 256;

/// Resources that one caller may watch.
const MAX_SUBSCRIPTIONS: usize = 10_000;

/// The longest URI that can be watched.
const MAX_URI_BYTES: usize = 2_048;

/// A caller's place at the hub; dropping it ends its subscriptions.
pub struct Attachment {
    hub: Arc<Inner>,
    number: u64,
    caller: Caller,
    toolset: Toolset,
    /// What the toolset showed at the last call. The hub owns it, so that a caller who does nothing
    /// keeps no provider that was removed.
    view: Mutex<Weak<View>>,
    permits: Arc<Semaphore>,
    notices: Mutex<Option<Notices>>,
}

/// What a caller is told without having asked.
#[derive(Debug, Clone)]
pub enum HubNotice {
    /// Lists have changed.
    CatalogChanged {
        /// The tools.
        tools: bool,
        /// The prompts.
        prompts: bool,
        /// The resources or templates.
        resources: bool,
    },
    /// A resource the caller watches has changed.
    ResourceUpdated(Arc<str>),
    /// A provider logs.
    Log {
        /// Severity.
        level: LogLevel,
        /// Which part logs.
        logger: Option<String>,
        /// Any JSON.
        data: RawJson,
    },
    /// Notices were lost because the caller is slow: anything may have changed.
    Lagged,
}

/// The notices of one caller, in order.
#[derive(Debug)]
pub struct Notices {
    receiver: mpsc::Receiver<HubNotice>,
    lagged: Arc<AtomicBool>,
}

/// Why a resource cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// No provider has it.
    #[error("unknown resource: {0}")]
    Unknown(String),
    /// Its URI is too long to be kept.
    #[error("the URI is too long: at most {MAX_URI_BYTES} bytes")]
    TooLong,
    /// The caller watches too many.
    #[error("too many subscriptions: at most {MAX_SUBSCRIPTIONS}")]
    TooMany,
}

/// All callers, and which resources they watch.
#[derive(Default)]
pub(crate) struct Attachments {
    next: u64,
    open: HashMap<u64, Listener>,
    watched: HashMap<Arc<str>, Watched>,
}

struct Listener {
    sender: mpsc::Sender<HubNotice>,
    lagged: Arc<AtomicBool>,
    watches: usize,
}

struct Watched {
    slot: Arc<Slot>,
    by: HashSet<u64>,
}

impl Attachment {
    pub(crate) fn new(hub: Arc<Inner>, caller: Caller, toolset: Toolset) -> Self {
        let (sender, receiver) = mpsc::channel(NOTICE_QUEUE);
        let lagged = Arc::new(AtomicBool::new(false));
        let listener = Listener {
            sender,
            lagged: Arc::clone(&lagged),
            watches: 0,
        };
        let number = hub.attachments().enter(listener);
        Self {
            permits: Arc::new(Semaphore::new(hub.config.calls_per_caller)),
            notices: Mutex::new(Some(Notices { receiver, lagged })),
            view: Mutex::default(),
            number,
            caller,
            toolset,
            hub,
        }
    }

    /// Who it is, as the face said.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Its notices; `Some` once.
    pub fn take_notices(&self) -> Option<Notices> {
        self.notices
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Prepares a call. Nothing runs before the call is polled.
    #[must_use]
    pub fn call(&self, request: impl Into<Box<Request>>) -> Call {
        self.call_at(request, Instant::now())
    }

    /// As [`call`](Self::call), for a face that knows what time it is.
    #[must_use]
    pub fn call_at(&self, request: impl Into<Box<Request>>, now: Instant) -> Call {
        let mut request = request.into();
        request.cx.connection = self.number;
        self.with_view(|view| Call::new(&self.hub, view, &self.permits, request, now))
    }

    /// What the hub offers beside tools.
    #[must_use]
    pub fn offers(&self) -> Offers {
        self.hub.offers()
    }

    /// Guidance of the providers for the model.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.view().merged.instructions()
    }

    /// A list as this caller sees it, in the form that `revision` knows.
    #[must_use]
    pub fn list(&self, kind: ListKind, revision: Revision) -> Listing {
        self.view().list(kind, revision).clone()
    }

    /// The schema of the arguments of a tool that this caller can call.
    #[must_use]
    pub fn input_schema(&self, tool: &str) -> Option<RawJson> {
        let view = self.view();
        let found = view.reachable().find(|found| found.name == tool);
        found.map(|tool| tool.input_schema.clone())
    }

    /// Whether a call of `target`, as this caller can make it, may go on after its request was
    /// answered.
    #[must_use]
    pub fn long_work(&self, target: &Target) -> LongWork {
        self.with_view(|view| view.long_work(target))
    }

    /// Watches a resource; watching it again changes nothing.
    ///
    /// # Errors
    /// When no provider offers it, its URI is too long, or the caller watches too many.
    pub fn subscribe(&self, uri: &str) -> Result<(), SubscribeError> {
        if uri.len() > MAX_URI_BYTES {
            return Err(SubscribeError::TooLong);
        }
        let view = self.view();
        let offered = view.merged.find_offered(uri);
        let can_watch = |slot: &&Arc<Slot>| {
            let can_watch = slot.guarded(|provider| provider.can_watch(uri));
            can_watch.unwrap_or_default()
        };
        let slot = offered
            .filter(can_watch)
            .ok_or_else(|| SubscribeError::Unknown(shown(uri).into_owned()))?;
        let first = self.hub.attachments().watch(self.number, uri, slot)?;
        if first {
            slot.run_changes();
        }
        Ok(())
    }

    /// Stops watching a resource.
    pub fn unsubscribe(&self, uri: &str) {
        let last = self.hub.attachments().unwatch(self.number, uri);
        if let Some(slot) = last {
            slot.run_changes();
        }
    }

    fn view(&self) -> Arc<View> {
        self.with_view(Arc::clone)
    }

    /// Runs `use_view` on what the toolset shows now; it must not come back here.
    fn with_view<T>(&self, use_view: impl FnOnce(&Arc<View>) -> T) -> T {
        let mut kept = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = kept.upgrade()
            && self.hub.is_current(&view)
        {
            return use_view(&view);
        }
        let view = self.hub.view(&self.toolset);
        *kept = Arc::downgrade(&view);
        use_view(&view)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let left = self.hub.attachments().leave(self.number);
        left.iter().for_each(|slot| slot.run_changes());
    }
}

impl Notices {
    /// Waits for the next notice; `None` when the attachment is gone. May be cancelled without
    /// losing one.
    pub async fn next(&mut self) -> Option<HubNotice> {
        if let Ok(notice) = self.receiver.try_recv() {
            return Some(notice);
        }
        if self.lagged.swap(false, Ordering::AcqRel) {
            return Some(HubNotice::Lagged);
        }
        self.receiver.recv().await
    }
}

impl Listener {
    fn tell(&self, notice: HubNotice) {
        if self.sender.try_send(notice).is_err() {
            self.lagged.store(true, Ordering::Release);
            // When the queue was emptied just now, this wakes its reader; when it is still full,
            // the reader comes by the flag.
            if self.sender.try_send(HubNotice::Lagged).is_ok() {
                self.lagged.store(false, Ordering::Release);
            }
        }
    }
}

impl Attachments {
    fn enter(&mut self, listener: Listener) -> u64 {
        self.next += 1;
        self.open.insert(self.next, listener);
        self.next
    }

    /// Forgets a caller; the providers of what nobody watches any more.
    fn leave(&mut self, number: u64) -> Vec<Arc<Slot>> {
        self.open.remove(&number);
        let mut left: Vec<Arc<Slot>> = Vec::new();
        self.watched.retain(|uri, watched| {
            if watched.by.remove(&number) && watched.by.is_empty() {
                watched.slot.change(Change::Unwatch(Arc::clone(uri)));
                if !left.iter().any(|slot| Arc::ptr_eq(slot, &watched.slot)) {
                    left.push(Arc::clone(&watched.slot));
                }
            }
            !watched.by.is_empty()
        });
        left
    }

    /// Whether it is the first who watches `uri`, so that the provider is to be told.
    fn watch(&mut self, number: u64, uri: &str, slot: &Arc<Slot>) -> Result<bool, SubscribeError> {
        let Some(listener) = self.open.get_mut(&number) else {
            return Ok(false);
        };
        if let Some(watched) = self.watched.get_mut(uri) {
            if !watched.by.contains(&number) {
                listener.take_place()?;
                watched.by.insert(number);
            }
            // A provider that was removed while somebody asked for it has left its entry behind.
            let is_theirs = Arc::ptr_eq(&watched.slot, slot);
            if !is_theirs {
                watched.slot = Arc::clone(slot);
                slot.change(Change::Watch(uri.into()));
            }
            return Ok(!is_theirs);
        }
        listener.take_place()?;
        let watched = Watched {
            slot: Arc::clone(slot),
            by: HashSet::from([number]),
        };
        let uri: Arc<str> = uri.into();
        slot.change(Change::Watch(Arc::clone(&uri)));
        self.watched.insert(uri, watched);
        Ok(true)
    }

    /// The provider that is to be told, when `uri` has lost its last watcher.
    fn unwatch(&mut self, number: u64, uri: &str) -> Option<Arc<Slot>> {
        let watched = self.watched.get_mut(uri)?;
        if !watched.by.remove(&number) {
            return None;
        }
        if let Some(listener) = self.open.get_mut(&number) {
            listener.watches -= 1;
        }
        if !watched.by.is_empty() {
            return None;
        }
        let (uri, watched) = self.watched.remove_entry(uri)?;
        watched.slot.change(Change::Unwatch(uri));
        Some(watched.slot)
    }

    pub(crate) fn forget_provider(&mut self, id: &ProviderId) {
        let Self { open, watched, .. } = self;
        watched.retain(|_, entry| {
            let stays = entry.slot.id != *id;
            for number in entry.by.iter().filter(|_| !stays) {
                if let Some(listener) = open.get_mut(number) {
                    listener.watches -= 1;
                }
            }
            stays
        });
    }

    pub(crate) fn tell(&self, notice: Notice) {
        match notice {
            Notice::ResourceUpdated(uri) => {
                let Some((uri, watched)) = self.watched.get_key_value(uri.as_str()) else {
                    return;
                };
                for listener in watched.by.iter().filter_map(|number| self.open.get(number)) {
                    listener.tell(HubNotice::ResourceUpdated(Arc::clone(uri)));
                }
            }
            Notice::Log {
                level,
                logger,
                data,
            } => {
                let notice = HubNotice::Log {
                    level,
                    logger,
                    data,
                };
                self.open
                    .values()
                    .for_each(|listener| listener.tell(notice.clone()));
            }
        }
    }

    pub(crate) fn tell_catalog_changed(&self, tools: bool, prompts: bool, resources: bool) {
        if tools || prompts || resources {
            let notice = HubNotice::CatalogChanged {
                tools,
                prompts,
                resources,
            };
            self.open
                .values()
                .for_each(|listener| listener.tell(notice.clone()));
        }
    }
}

impl Listener {
    fn take_place(&mut self) -> Result<(), SubscribeError> {
        if self.watches >= MAX_SUBSCRIPTIONS {
            return Err(SubscribeError::TooMany);
        }
        self.watches += 1;
        Ok(())
    }
}
