//! All callers of a hub: who is there, what each watches, and what all of them are told.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::sync::mpsc;

use crate::{
    HubNotice, ListKind, LogLevel, Notice, ProviderId, SubscribeError,
    slot::{Change, Slot},
};

/// Resources that one caller may watch.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 10_000;

/// Bytes of providers in the notices that wait for one caller. A notice that is larger waits alone.
const NOTICE_BYTES: usize = 1024 * 1024;

/// All callers, and which resources they watch.
#[derive(Default)]
pub(crate) struct Attachments {
    next: u64,
    open: HashMap<u64, Listener>,
    watched: HashMap<Arc<str>, Watched>,
    /// The least severe level that anybody has asked for.
    level: Option<LogLevel>,
}

pub(crate) struct Listener {
    sender: mpsc::Sender<HubNotice>,
    backlog: Arc<Backlog>,
    watches: usize,
    /// From which level on it has asked for log messages.
    level: Option<LogLevel>,
}

/// State of the queue of notices of one caller.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Notices were dropped, which the caller does not know yet.
    pub(crate) is_lagged: AtomicBool,
    /// [Bytes](HubNotice::bytes) of the notices that wait.
    pub(crate) bytes: AtomicUsize,
}

struct Watched {
    slot: Arc<Slot>,
    by: HashSet<u64>,
}

impl Listener {
    pub(crate) const fn new(sender: mpsc::Sender<HubNotice>, backlog: Arc<Backlog>) -> Self {
        Self {
            sender,
            backlog,
            watches: 0,
            level: None,
        }
    }

    fn tell(&self, notice: HubNotice) {
        let Backlog { is_lagged, bytes } = &*self.backlog;
        let more = notice.bytes();
        let waiting = bytes.fetch_add(more, Ordering::Relaxed);
        let has_room = more == 0 || waiting == 0 || waiting + more <= NOTICE_BYTES;
        if has_room && self.sender.try_send(notice).is_ok() {
            return;
        }
        bytes.fetch_sub(more, Ordering::Relaxed);
        is_lagged.store(true, Ordering::SeqCst);
        // When the queue was emptied just now, this wakes its reader; otherwise, the reader comes by
        // the flag.
        let is_empty = self.sender.capacity() == self.sender.max_capacity();
        if is_empty && self.sender.try_send(HubNotice::Lagged).is_ok() {
            is_lagged.store(false, Ordering::Release);
        }
    }
}

impl Attachments {
    pub(crate) fn enter(&mut self, listener: Listener) -> u64 {
        self.next += 1;
        self.open.insert(self.next, listener);
        self.next
    }

    /// Forgets a caller; the providers of what nobody watches any more.
    pub(crate) fn leave(&mut self, number: u64) -> Vec<Arc<Slot>> {
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
    pub(crate) fn watch(
        &mut self,
        number: u64,
        uri: &str,
        slot: &Arc<Slot>,
    ) -> Result<bool, SubscribeError> {
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
    pub(crate) fn unwatch(&mut self, number: u64, uri: &str) -> Option<Arc<Slot>> {
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

    /// From which level on anybody wants to hear, if anybody has said so.
    pub(crate) const fn level(&self) -> Option<LogLevel> {
        self.level
    }

    /// Notes from which level on a caller wants to hear; whether that changes what all together
    /// want.
    pub(crate) fn set_level(&mut self, number: u64, level: Option<LogLevel>) -> bool {
        if let Some(listener) = self.open.get_mut(&number) {
            listener.level = level;
        }
        self.look_at_levels()
    }

    /// Whether what all together want to hear has changed.
    pub(crate) fn look_at_levels(&mut self) -> bool {
        let least = self
            .open
            .values()
            .filter_map(|listener| listener.level)
            .min();
        let is_new = self.level != least;
        self.level = least;
        is_new
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
                self.tell_all(&notice);
            }
            Notice::ListChanged(changed) => {
                let changed = ListKind::ALL.map(|kind| kind == changed);
                self.notify_of_lists(&self.numbers(), changed);
            }
            Notice::Other {
                method,
                params,
                client,
            } => {
                let notice = HubNotice::Other {
                    method: method.into(),
                    params,
                };
                match client {
                    // The only client that the hub ever had. With a second client, it could be about a call of that client.
                    None if self.next == 1 => self.tell_all(&notice),
                    None => {}
                    Some(client) => {
                        if let Some(listener) = self.open.get(&client) {
                            listener.tell(notice);
                        }
                    }
                }
            }
        }
    }

    fn tell_all(&self, notice: &HubNotice) {
        let all = self.open.values();
        all.for_each(|listener| listener.tell(notice.clone()));
    }

    /// The numbers of all callers.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.open.keys().copied().collect()
    }

    /// Notifies callers of changes of lists, in the order of [`ListKind::ALL`].
    pub(crate) fn notify_of_lists(&self, callers: &[u64], changed: [bool; 4]) {
        let [tools, prompts, concrete, templates] = changed;
        let resources = concrete || templates;
        if !tools && !prompts && !resources {
            return;
        }
        for listener in callers.iter().filter_map(|caller| self.open.get(caller)) {
            listener.tell(HubNotice::CatalogChanged {
                tools,
                prompts,
                resources,
            });
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
