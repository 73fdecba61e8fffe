//! The sessions of session-era clients: bounded, found by a secret, freed when their clients are
//! gone.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use orchestra_wire::{Revision, Rope};
use tokio::{runtime::Handle, select, sync::watch, time::Instant};

use super::{Eras, HttpOptions, Identity, budget::Budget, streams::Streams};
use crate::{
    connection::{Lifetime, Received},
    report::Emit,
    secret::SecretId,
    server::Server,
    session::Session,
    stdio::AbortOnDrop,
};

/// The id of a session, which nobody guesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionId(SecretId);

/// How often room is looked for where there still is some, in milliseconds.
const LOOK_EVERY_MS: u64 = 50;

/// One session.
pub(super) struct HttpSession {
    pub(super) id: SessionId,
    pub(super) streams: Arc<Streams>,
    driver: Arc<Session>,
    /// Who began it; nobody else has it.
    owner: Identity,
    /// When it was last used, in milliseconds since `began`.
    used: AtomicU64,
    began: Instant,
    _attendant: AbortOnDrop,
}

/// All sessions.
pub(super) struct Sessions {
    server: Server,
    budget: Budget,
    most: usize,
    idle: Duration,
    stop: Option<watch::Receiver<bool>>,
    eras: Eras,
    began: Instant,
    /// When room was looked for last although there was some, in milliseconds since `began`.
    relieved: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    by_id: HashMap<SessionId, Arc<HttpSession>>,
    is_swept: bool,
    is_closed: bool,
}

impl SessionId {
    /// Parses an id; `None` when it cannot be one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        SecretId::parse(text).map(Self)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Sessions {
    pub(super) fn new(server: Server, options: &HttpOptions, budget: Budget) -> Arc<Self> {
        Arc::new(Self {
            server,
            budget,
            most: options.sessions,
            idle: options.idle,
            stop: options.stop.clone(),
            eras: options.eras,
            began: Instant::now(),
            relieved: AtomicU64::new(0),
            open: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session that nobody knows of yet; `None` when the system has no secret to give.
    pub(super) fn begin(&self, owner: Identity) -> Option<HttpSession> {
        let id = SessionId(SecretId::draw()?);
        let streams = Arc::new(Streams::new(self.budget.clone()));
        let (outbox, emit) = (streams.clone(), streams.clone() as Arc<dyn Emit>);
        let runtime = Handle::current();
        let driver = Session::new(
            &self.server,
            "http",
            outbox,
            emit,
            Lifetime::Requests,
            runtime.clone(),
        );
        driver.owned_by(owner);
        driver.serving(self.eras);
        if let Some(stop) = &self.stop {
            driver.until(stop.clone());
        }
        let attendant = AbortOnDrop(runtime.spawn(driver.clone().attend()).abort_handle());
        let session = HttpSession {
            id,
            streams,
            driver,
            owner,
            used: AtomicU64::new(0),
            began: self.began,
            _attendant: attendant,
        };
        session.touch();
        Some(session)
    }

    /// Lets a session be found, and says whether there is room for it.
    pub(super) fn keep(self: &Arc<Self>, session: HttpSession) -> bool {
        let mut open = self.lock();
        if open.is_closed {
            return false;
        }
        if open.by_id.len() >= self.most && !open.forget_longest_idle() {
            return false;
        }
        open.by_id.insert(session.id, Arc::new(session));
        if !std::mem::replace(&mut open.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self), self.idle, self.stop.clone()));
        }
        true
    }

    /// The session with an id, for its owner; to anybody else there is none.
    pub(super) fn find(&self, id: SessionId, caller: Identity) -> Option<Arc<HttpSession>> {
        let found = self.lock().by_id.get(&id).cloned();
        found
            .filter(|session| session.owner == caller)
            .inspect(|session| session.touch())
    }

    /// Ends a session.
    pub(super) fn end(&self, id: SessionId) {
        let ended = self.lock().by_id.remove(&id);
        if let Some(session) = ended {
            session.end();
        }
    }

    /// Ends all sessions, and lets none begin.
    pub(super) fn close(&self) {
        let ended = {
            let mut open = self.lock();
            open.is_closed = true;
            std::mem::take(&mut open.by_id)
        };
        ended.values().for_each(|session| session.end());
    }

    /// Where replies that wait to be read leave little room for others, forgets those that nobody
    /// reads: clients would have to come back for them.
    pub(super) fn relieve(&self) {
        if self.budget.is_spent() || self.budget.is_half_spent() && self.may_look() {
            let open = self.lock();
            let sessions = open.by_id.values();
            sessions.for_each(|session| session.streams.forget_unread());
        }
    }

    /// Whether to look for room where there still is some: not with every message, for it may be
    /// that all of it is being read.
    fn may_look(&self) -> bool {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last = self.relieved.load(Ordering::Relaxed);
        let due = last == 0 || now >= last + LOOK_EVERY_MS;
        due && self
            .relieved
            .compare_exchange(last, now.max(1), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    fn forget_idle(&self) {
        let is_idle = |session: &Arc<HttpSession>| {
            session.idle() >= self.idle && !session.streams.is_in_use()
        };
        let idle: Vec<_> = {
            let mut open = self.lock();
            let ids = open.by_id.values().filter(|session| is_idle(session));
            let ids: Vec<SessionId> = ids.map(|session| session.id).collect();
            ids.iter().filter_map(|id| open.by_id.remove(id)).collect()
        };
        idle.iter().for_each(|session| session.end());
    }
}

impl Open {
    /// Makes room by the session that was not used for longest, if there is one that nobody uses
    /// now.
    fn forget_longest_idle(&mut self) -> bool {
        let unused = self
            .by_id
            .values()
            .filter(|session| !session.streams.is_in_use());
        let Some(longest) = unused
            .max_by_key(|session| session.idle())
            .map(|session| session.id)
        else {
            return false;
        };
        if let Some(session) = self.by_id.remove(&longest) {
            session.end();
        }
        true
    }
}

/// Ends sessions that are idle, and all of them when the server is to stop.
async fn sweep(sessions: Weak<Sessions>, idle: Duration, mut stop: Option<watch::Receiver<bool>>) {
    loop {
        let stops = select! {
            () = tokio::time::sleep(idle / 4) => false,
            () = super::stopped(&mut stop) => true,
        };
        let Some(sessions) = sessions.upgrade() else {
            return;
        };
        if stops {
            return sessions.close();
        }
        sessions.forget_idle();
    }
}

impl HttpSession {
    fn touch(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.used.store(now, Ordering::Relaxed);
    }

    fn idle(&self) -> Duration {
        let used = Duration::from_millis(self.used.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(used)
    }

    /// What `initialize` has agreed upon.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.driver.revision()
    }

    /// Takes one message; what is answered at once is in the result.
    pub(super) fn take(&self, message: &Received<'_>) -> Rope {
        let mut out = Rope::new();
        let mut feeder = self.driver.begin();
        feeder.take(message, &mut out);
        feeder.end(&mut out);
        out
    }

    fn end(&self) {
        self.driver.abandon();
        self.streams.close();
    }
}

impl Drop for HttpSession {
    fn drop(&mut self) {
        // Without it, calls would keep the session that they keep alive.
        self.end();
    }
}
