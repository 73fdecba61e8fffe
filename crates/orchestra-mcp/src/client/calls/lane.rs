//! The connections of a client that speak one era, and those beside them for callers of the other one.
//!
//! A server that speaks both eras can ask its client only in the way of the era in which it was called,
//! and a process speaks the one in which it was greeted. So callers of each era have connections of
//! their own where both are there.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use orchestra_wire::Era;
use tokio::{task::AbortHandle, time::Instant};

use super::Client;
use crate::client::{
    ClientConfig, ClientError, ProtocolChoice, ServerCall,
    member::{Member, Patience, Shared},
    session::Session,
    watching::Watching,
};

/// How long connections beside the first ones are kept open without a call.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// How long callers share the first connections after those beside them could not be opened.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Connections that speak one era.
pub(super) struct Lane {
    pub(super) shared: Arc<Shared>,
    pub(super) members: Vec<Arc<Member>>,
    /// How many of them have been needed so far.
    pub(super) used: AtomicUsize,
    tasks: Vec<AbortHandle>,
}

/// Connections in the other era than the first ones.
#[derive(Default)]
pub(super) struct Beside(Mutex<State>);

#[derive(Default)]
enum State {
    /// No caller has needed one.
    #[default]
    Untried,
    /// The server does not speak that era.
    Unspoken,
    /// They could not be opened, and are tried again after this time.
    Failed(Instant),
    Open(Arc<Lane>),
}

impl Lane {
    /// Connections of which none is made yet. Must be called inside a tokio runtime.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (pool, outstanding) = (shared.config.pool.max(1), shared.config.outstanding);
        let transport = shared.connector.transport();
        let members: Vec<_> = (0..pool)
            .map(|_| Arc::new(Member::new(outstanding, transport)))
            .collect();
        let tasks = members
            .iter()
            .map(|member| tokio::spawn(Arc::clone(member).keep(Arc::clone(&shared))))
            .map(|task| task.abort_handle())
            .collect();
        Self {
            shared,
            members,
            used: AtomicUsize::new(1),
            tasks,
        }
    }

    /// The first of its connections.
    pub(super) fn first(&self) -> &Arc<Member> {
        &self.members[0]
    }

    pub(super) async fn close(&self, deadline: Option<Instant>) {
        // All at once: each may take its grace.
        join_all(self.members.iter().map(|member| member.close(deadline))).await;
        self.abort();
    }

    pub(super) fn abort(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }

    /// The connection to use: the first that has room, and another one only when none has.
    pub(super) fn pick(&self) -> &Arc<Member> {
        let used = self.used.load(Ordering::Relaxed);
        let free = |member: &&Arc<Member>| member.outstanding.available_permits() > 0;
        if let Some(member) = self.members[..used].iter().find(free) {
            return member;
        }
        if used < self.members.len() {
            self.used.fetch_max(used + 1, Ordering::Relaxed);
            return &self.members[used];
        }
        let room = |member: &&Arc<Member>| member.outstanding.available_permits();
        self.members
            .iter()
            .max_by_key(room)
            .unwrap_or(&self.members[0])
    }

    /// A connection on which a call would confuse nobody.
    pub(super) fn unshared(&self, call: &ServerCall) -> Option<&Arc<Member>> {
        let used = self.used.load(Ordering::Relaxed);
        let fits = |member: &&Arc<Member>| {
            let ready = member.ready();
            member.outstanding.available_permits() > 0
                && ready.is_none_or(|session| !session.would_confuse(&call.cx))
        };
        let found = self.members[..used].iter().find(fits);
        if found.is_none() && used < self.members.len() {
            self.used.fetch_max(used + 1, Ordering::Relaxed);
            return Some(&self.members[used]);
        }
        found
    }

    /// Connections to the same server that speak one era alone.
    fn beside(&self, era: Era) -> Self {
        let config = &self.shared.config;
        let config = ClientConfig {
            protocol: ProtocolChoice::Era(era),
            idle_stop: Some(config.idle_stop.map_or(IDLE, |idle| idle.min(IDLE))),
            lazy: true,
            ..ClientConfig::clone(config)
        };
        Self::new(Arc::new(Shared {
            connector: Arc::clone(&self.shared.connector),
            config: Arc::new(config),
            events: self.shared.events.clone(),
            parking: Arc::clone(&self.shared.parking),
            meter: Arc::clone(&self.shared.meter),
            // What is watched is watched by the first connection.
            watching: Watching::new(),
            breaker: Arc::clone(&self.shared.breaker),
            is_beside: true,
        }))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.abort();
    }
}

impl Beside {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections, where there are any.
    pub(super) fn open(&self) -> Option<Arc<Lane>> {
        match &*self.state() {
            State::Open(lane) => Some(Arc::clone(lane)),
            _ => None,
        }
    }

    /// Forgets what is known; the connections, where there were any.
    pub(super) fn take(&self) -> Option<Arc<Lane>> {
        match std::mem::take(&mut *self.state()) {
            State::Open(lane) => Some(lane),
            _ => None,
        }
    }

    /// The connections, which are made where that may succeed.
    fn wanted(&self, make: impl FnOnce() -> Lane) -> Option<Arc<Lane>> {
        let mut state = self.state();
        match &*state {
            State::Open(lane) => return Some(Arc::clone(lane)),
            State::Unspoken => return None,
            State::Failed(until) if Instant::now() < *until => return None,
            State::Failed(_) | State::Untried => {}
        }
        let lane = Arc::new(make());
        *state = State::Open(Arc::clone(&lane));
        Some(lane)
    }

    /// Gives up connections that could not be opened.
    fn failed(&self, lane: &Arc<Lane>, error: &ClientError) {
        let mut state = self.state();
        if matches!(&*state, State::Open(open) if Arc::ptr_eq(open, lane)) {
            let is_unspoken = matches!(error, ClientError::Handshake { .. } | ClientError::Rpc(_));
            *state = match is_unspoken {
                true => State::Unspoken,
                false => State::Failed(Instant::now() + AFTER_FAILURE),
            };
        }
    }
}

/// The connection that a call has.
pub(super) struct Chosen {
    pub(super) lane: Arc<Lane>,
    pub(super) member: Arc<Member>,
    pub(super) session: Arc<Session>,
}

impl Client {
    /// The connection for a call: one that speaks the era of its caller where the server speaks both
    /// eras, else one of the first.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn choose(
        &self,
        call: &ServerCall,
        until: Instant,
        patience: Patience,
    ) -> Result<Chosen, ClientError> {
        let inner = &self.0;
        let lane = Arc::clone(&inner.lane);
        let member = Arc::clone(lane.pick());
        let mut session = member.session(until, patience).await?;
        while !session.admits(call) {
            session = member.session(until, patience).await?;
        }
        if let Some(beside) = self.beside(call, &session) {
            let member = Arc::clone(beside.pick());
            match member.session(until, Patience::OneTry).await {
                Ok(session) => {
                    return Ok(Chosen {
                        lane: beside,
                        member,
                        session,
                    });
                }
                Err(error) => {
                    let (server, reason) = (&lane.shared.config.name, error.explain());
                    tracing::debug!(%server, %reason, "no connection in the era of the caller");
                    inner.beside.failed(&beside, &error);
                }
            }
        }
        Ok(Chosen {
            lane,
            member,
            session,
        })
    }

    /// The connections in the era of a caller, where the first ones speak the other era and the server
    /// may speak both.
    fn beside(&self, call: &ServerCall, first: &Session) -> Option<Arc<Lane>> {
        let inner = &self.0;
        let follows = inner.lane.shared.config.clients.is_some();
        let era = call.cx.era.filter(|era| *era != first.era())?;
        let wanted = || inner.beside.wanted(|| inner.lane.beside(era));
        (follows && first.may_speak_both()).then(wanted).flatten()
    }
}
