//! One caller's place at the hub: its calls, its lists, its subscriptions and what it is told.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use orchestra_wire::{Era, RawJson, Revision, shown};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    Call, CallEnd, Caller, ClientFeatures, ListKind, Listing, LogLevel, LongWork, Offers, Request,
    SessionName, Target, Toolset,
    attachments::{Backlog, Listener, MAX_SUBSCRIPTIONS},
    audit::Record,
    hub::Inner,
    slot::Slot,
    view::View,
};

/// Notices that wait for one caller; past that it is told that it missed some.
const NOTICE_QUEUE: usize = 256;

/// The longest URI that can be watched.
const MAX_URI_BYTES: usize = 2_048;

/// A caller's place at the hub; dropping it ends its subscriptions.
pub struct Attachment {
    hub: Arc<Inner>,
    number: u64,
    roots_version: AtomicU64,
    caller: Caller,
    /// Drawn when it is needed.
    session: OnceLock<SessionName>,
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
    /// A notification of another server that the hub does not know.
    Other {
        /// Method.
        method: Arc<str>,
        /// Parameters, verbatim.
        params: Option<RawJson>,
    },
    /// Notices were lost because the caller is slow: anything may have changed.
    Lagged,
}

/// The notices of one caller, in order.
#[derive(Debug)]
pub struct Notices {
    receiver: mpsc::Receiver<HubNotice>,
    backlog: Arc<Backlog>,
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

impl Attachment {
    pub(crate) fn new(hub: Arc<Inner>, caller: Caller, toolset: Toolset) -> Self {
        let (sender, receiver) = mpsc::channel(NOTICE_QUEUE);
        let backlog = Arc::<Backlog>::default();
        let listener = Listener::new(sender, Arc::clone(&backlog));
        let number = hub.attachments().enter(listener);
        Self {
            permits: Arc::new(Semaphore::new(hub.config.calls_per_caller)),
            notices: Mutex::new(Some(Notices { receiver, backlog })),
            view: Mutex::default(),
            session: OnceLock::new(),
            number,
            roots_version: AtomicU64::new(0),
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

    /// What tells its calls apart from those of others ([`Cx::connection`](crate::Cx::connection)).
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Records that the client has changed its roots. Later calls have the new roots.
    pub fn roots_changed(&self) {
        self.roots_version.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of changes of its roots ([`Cx::roots_version`](crate::Cx::roots_version)).
    #[must_use]
    pub fn roots_version(&self) -> u64 {
        self.roots_version.load(Ordering::Relaxed)
    }

    /// Returns whether a provider has the roots of the client, and is notified with
    /// [`set_roots`](Self::set_roots) of new ones.
    #[must_use]
    pub fn has_given_roots(&self) -> bool {
        let merged = self.hub.merged();
        let mut slots = merged.slots();
        slots.any(|slot| {
            let has_roots = slot.guarded(|provider| provider.has_roots_of(self.number));
            has_roots.unwrap_or_default()
        })
    }

    /// Passes on the roots that the client has now: its answer to `roots/list`.
    pub fn set_roots(&self, answer: &RawJson) {
        let (client, version) = (self.number, self.roots_version());
        for slot in self.hub.merged().slots() {
            slot.guarded(|provider| provider.set_roots(client, version, answer));
        }
    }

    /// The session that its calls are made for, as whoever answers them is told where the face names
    /// no other.
    #[must_use]
    pub fn session(&self) -> &SessionName {
        self.session.get_or_init(|| SessionName::draw(self.number))
    }

    /// Records the era of its client and what the client can be asked for, see
    /// [`Hub::clients`](crate::Hub::clients).
    pub fn introduce(&self, era: Era, features: ClientFeatures) {
        let now = *self.hub.clients.borrow();
        if now.first.is_some() && (now.roots || !features.roots) {
            return;
        }
        self.hub.clients.send_if_modified(|clients| {
            let before = *clients;
            clients.first.get_or_insert(era);
            clients.roots |= features.roots;
            *clients != before
        });
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
        // A call that became a task is still that of the connection it came from.
        if request.cx.connection == 0 {
            request.cx.connection = self.number;
            request.cx.roots_version = self.roots_version();
        }
        let along = &mut request.cx.along;
        along.session.get_or_insert_with(|| self.session().clone());
        self.with_view(|view| Call::new(&self.hub, view, &self.permits, request, now))
    }

    /// Counts and records a call that the transport refused, because its caller may not make it:
    /// `kind` and `name` are those of its target, such as `tool` and the tool's name.
    pub fn refused(&self, kind: &'static str, name: &str, client: Option<Arc<str>>) {
        self.hub.metrics.end(CallEnd::Denied, Duration::ZERO);
        if let Some(audit) = &self.hub.config.audit {
            audit.record(Record {
                ended: SystemTime::now(),
                face: self.caller.face,
                client: client.or_else(|| self.caller.client.clone()),
                provider: None,
                kind,
                name: name.to_owned(),
                argument_bytes: 0,
                result_bytes: 0,
                end: CallEnd::Denied,
                remark: None,
                elapsed: Duration::ZERO,
                trace: None,
            });
        }
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

    /// Whether all providers know what they offer, or have been waited for long enough, and none
    /// wants to be asked for each list; otherwise a list is better asked for as a call, which waits.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.hub.settling(Instant::now()).is_none() && !self.hub.lists_anew()
    }

    /// Waits until all providers know what they offer, which is bounded by
    /// [`HubConfig::list_wait`](crate::HubConfig::list_wait).
    pub async fn settled(&self) {
        let settling = self.hub.settling(Instant::now());
        if let Some(settling) = settling {
            settling.await;
        }
    }

    /// Says from which level on this caller wants to hear log messages.
    pub fn set_log_level(&self, level: Option<LogLevel>) {
        let is_new = self.hub.attachments().set_level(self.number, level);
        if is_new {
            self.hub.tell_level();
        }
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
        view.callable(tool).map(|tool| tool.input_schema.clone())
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
        let offered = offered.or_else(|| view.merged.find_unlisted(uri));
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
        let view = self.hub.view(&self.toolset, self.number);
        *kept = Arc::downgrade(&view);
        use_view(&view)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut attachments = self.hub.attachments();
        let left = attachments.leave(self.number);
        let is_level_new = attachments.look_at_levels();
        drop(attachments);
        left.iter().for_each(|slot| slot.run_changes());
        if is_level_new {
            self.hub.tell_level();
        }
    }
}

impl Notices {
    /// Waits for the next notice; `None` when the attachment is gone. May be cancelled without
    /// losing one.
    pub async fn next(&mut self) -> Option<HubNotice> {
        let notice = match self.receiver.try_recv() {
            Ok(notice) => notice,
            Err(_) if self.backlog.is_lagged.swap(false, Ordering::SeqCst) => HubNotice::Lagged,
            Err(_) => self.receiver.recv().await?,
        };
        let bytes = notice.bytes();
        self.backlog.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Some(notice)
    }
}

impl HubNotice {
    /// Number of bytes that a provider has written.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Log { logger, data, .. } => {
                logger.as_ref().map_or(0, String::len) + data.as_bytes().len()
            }
            Self::Other { method, params } => {
                let params = params.as_ref();
                method.len() + params.map_or(0, |params| params.as_bytes().len())
            }
            Self::CatalogChanged { .. } | Self::ResourceUpdated(_) | Self::Lagged => 0,
        }
    }
}
