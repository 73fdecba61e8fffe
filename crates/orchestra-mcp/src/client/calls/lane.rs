//! The connections of a client that were greeted alike, and those beside them for callers that need
//! another greeting.
//!
//! A server that speaks both eras can ask its client only in the way of the era in which it was called,
//! and a process speaks the one in which it was greeted. A session knows roots only where its greeting
//! has offered them, and those of one list alone. So callers of each [`Profile`] have connections of
//! their own where several are there.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use orchestra_hub::ListKind;
use orchestra_wire::{Era, RawJson};
use tokio::{
    task::AbortHandle,
    time::{Instant, timeout},
};

use super::Client;
use crate::client::{
    ClientConfig, ClientError, ProtocolChoice, ServerCall, greeting, lists,
    member::{Member, Patience, Shared},
    profile::Profile,
    roots::{Roots, RootsNeeded, RootsOffer},
    session::{Session, spawn},
};

/// How long connections beside the first ones are kept open without a call.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// How long callers share the first connections after those beside them could not be opened.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Lists of roots that have connections of their own at a time. Each may be a process.
pub(super) const MOST_ROOTS: usize = 8;

/// Connections that were greeted alike.
pub(super) struct Lane {
    pub(super) shared: Arc<Shared>,
    pub(super) members: Vec<Arc<Member>>,
    /// How many of them have been needed so far.
    pub(super) used: AtomicUsize,
    last_chosen: Mutex<Instant>,
    hold: Hold,
    /// Lists without those that only clients with certain roots see.
    listed: Mutex<Listed>,
    tasks: Vec<AbortHandle>,
}

/// Lists as they were when they were fetched last, in the order of [`ListKind::ALL`].
pub(super) type Listed = [Option<Vec<RawJson>>; ListKind::ALL.len()];

/// Held by a call that has chosen connections, so that they are not closed to make room.
pub(super) type Hold = Arc<()>;

/// Connections beside the first ones, as far as a caller has needed them.
#[derive(Default)]
pub(super) struct Beside {
    states: Mutex<HashMap<Profile, State>>,
    /// Shared with the connections that end to make room.
    closing: Arc<()>,
}

enum State {
    /// The server does not speak their era.
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
            last_chosen: Mutex::new(Instant::now()),
            hold: Hold::default(),
            listed: Mutex::default(),
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

    /// A list of connections beside the first ones: as it was fetched last, where none is open or none
    /// answers soon.
    pub(super) async fn list(&self, kind: ListKind) -> Vec<RawJson> {
        let mut open = self.members.iter().filter_map(|member| member.ready());
        if let Some(session) = open.next() {
            let fetched = fetch_soon(&session, &[kind]).await.pop();
            if let (Some((_, items)), None) = (fetched, session.client_roots()) {
                self.listed()[kind as usize] = Some(items);
            }
        }
        self.listed()[kind as usize].clone().unwrap_or_default()
    }

    /// Returns whether a call can use a session of the lane; its client is a user of the session from then on.
    ///
    /// # Errors
    /// When the client must be asked for its roots first.
    pub(super) fn admits(&self, session: &Session, call: &ServerCall) -> Result<bool, RootsNeeded> {
        // The guard is held meanwhile, so that the roots of the lane change before or after that.
        let profile = self.shared.profile();
        session.admits(call, profile.as_deref())
    }

    /// Changes to the roots of a client that alone uses its sessions. Returns false where another client uses one of
    /// them.
    fn change_roots(&self, client: u64, after: &Profile, roots: &Roots) -> bool {
        let Some(mut profile) = self.shared.profile() else {
            return false;
        };
        let open = self.members.iter().filter_map(|member| member.ready());
        let open: Vec<Arc<Session>> = open.collect();
        let (theirs, others): (Vec<_>, Vec<_>) = open
            .into_iter()
            .partition(|session| session.has_roots_of(client));
        let is_theirs = !theirs.is_empty() && others.iter().all(|other| other.has_unused_roots());
        if is_theirs {
            profile.clone_from(after);
            theirs
                .iter()
                .for_each(|session| session.change_roots(client, roots));
        }
        is_theirs
    }

    /// Returns whether its lists are those of clients with certain roots.
    pub(super) fn has_client_roots(&self) -> bool {
        let mut open = self.members.iter().filter_map(|member| member.ready());
        open.any(|session| session.client_roots().is_some())
    }

    pub(super) fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections to the same server with another profile.
    fn beside(&self, profile: &Profile) -> Self {
        let config = &self.shared.config;
        let config = ClientConfig {
            protocol: match config.protocol {
                only @ ProtocolChoice::Only(_) => only,
                ProtocolChoice::Auto | ProtocolChoice::Era(_) => ProtocolChoice::Era(profile.era),
            },
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
            watching: Arc::clone(&self.shared.watching),
            breaker: Arc::clone(&self.shared.breaker),
            client_roots: Arc::clone(&self.shared.client_roots),
            profile: Some(Mutex::new(profile.clone())),
        }))
    }

    fn last_chosen(&self) -> MutexGuard<'_, Instant> {
        self.last_chosen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no call uses or waits for a connection.
    fn is_idle(&self) -> bool {
        if Arc::strong_count(&self.hold) > 1 {
            return false;
        }
        // A call that waits for answers holds nothing.
        let mut open = self.members.iter().filter_map(|member| member.ready());
        open.all(|session| session.is_idle())
    }
}

/// Lists of a connection beside the first ones, as far as they can be fetched soon.
pub(super) async fn fetch_soon(
    session: &Arc<Session>,
    kinds: &[ListKind],
) -> Vec<(ListKind, Vec<RawJson>)> {
    let after = session.config.health_timeout;
    let fetches = kinds.iter().copied().map(|kind| async move {
        let fetched = timeout(after, lists::fetch(session, kind)).await;
        match fetched.unwrap_or(Err(ClientError::Timeout { after })) {
            Ok(items) => Some((kind, items)),
            Err(error) => {
                let (server, reason) = (&session.config.name, error.explain());
                tracing::debug!(%server, ?kind, %reason, "cannot fetch a list over another connection");
                None
            }
        }
    });
    join_all(fetches).await.into_iter().flatten().collect()
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.abort();
    }
}

impl Beside {
    fn states(&self) -> MutexGuard<'_, HashMap<Profile, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections, where there are any.
    pub(super) fn open(&self) -> Vec<Arc<Lane>> {
        self.states().values().filter_map(State::lane).collect()
    }

    /// Gives connections that a client alone uses the roots that it has now. Where other connections have these roots,
    /// the client uses those.
    pub(super) fn change_roots(&self, client: u64, roots: &Roots) {
        let mut states = self.states();
        let open = states.iter();
        let open = open.filter_map(|(profile, state)| Some((profile.clone(), state.lane()?)));
        for (before, lane) in open.collect::<Vec<_>>() {
            let after = Profile {
                era: before.era,
                roots: RootsOffer::Of(roots.clone()),
            };
            if !states.contains_key(&after) && lane.change_roots(client, &after, roots) {
                states.remove(&before);
                states.insert(after, State::Open(lane));
            }
        }
    }

    /// Forgets what is known; the connections, where there were any.
    pub(super) fn take(&self) -> Vec<Arc<Lane>> {
        let states = std::mem::take(&mut *self.states());
        states.values().filter_map(State::lane).collect()
    }

    /// The connections of a profile, which are made where that may succeed.
    ///
    /// # Errors
    /// When as many lists of roots as permitted have connections, and all of them are used.
    fn wanted(
        &self,
        profile: &Profile,
        make: impl FnOnce() -> Lane,
    ) -> Result<Option<(Arc<Lane>, Hold)>, ClientError> {
        let now = Instant::now();
        let mut states = self.states();
        match states.get(profile) {
            Some(State::Open(lane)) => {
                *lane.last_chosen() = now;
                return Ok(Some((Arc::clone(lane), Arc::clone(&lane.hold))));
            }
            Some(State::Unspoken) => return Ok(None),
            Some(State::Failed(until)) if now < *until => return Ok(None),
            Some(State::Failed(_)) | None => {}
        }
        if profile.has_own_roots() {
            make_room(&mut states, &self.closing, now)?;
        }
        let lane = Arc::new(make());
        let hold = Arc::clone(&lane.hold);
        states.insert(profile.clone(), State::Open(Arc::clone(&lane)));
        Ok(Some((lane, hold)))
    }

    /// Gives up connections that could not be opened.
    fn failed(&self, profile: &Profile, lane: &Arc<Lane>, error: &ClientError) {
        let mut states = self.states();
        let Some(state) = states.get_mut(profile) else {
            return;
        };
        if state.lane().is_some_and(|open| Arc::ptr_eq(&open, lane)) {
            let is_unspoken = match error {
                ClientError::Handshake { .. } | ClientError::Rpc(_) => true,
                ClientError::Http(failure) => greeting::refuses(failure),
                _ => false,
            };
            *state = match is_unspoken {
                true => State::Unspoken,
                false => State::Failed(Instant::now() + AFTER_FAILURE),
            };
        }
    }
}

impl State {
    fn lane(&self) -> Option<Arc<Lane>> {
        match self {
            Self::Open(lane) => Some(Arc::clone(lane)),
            Self::Unspoken | Self::Failed(_) => None,
        }
    }
}

/// Forgets connections for one more list of roots: failures that are over, and where that is not enough
/// the connections that were used least recently.
///
/// # Errors
/// When all connections are used, or as many have not ended yet.
fn make_room(
    states: &mut HashMap<Profile, State>,
    closing: &Arc<()>,
    now: Instant,
) -> Result<(), ClientError> {
    states.retain(|_, state| !matches!(state, State::Failed(until) if *until <= now));
    let of_roots = states.iter().filter(|(profile, _)| profile.has_own_roots());
    if of_roots.clone().count() < MOST_ROOTS {
        return Ok(());
    }
    let unused = of_roots.filter_map(|(profile, state)| match state {
        State::Open(lane) => lane.is_idle().then(|| (Some(*lane.last_chosen()), profile)),
        State::Unspoken | State::Failed(_) => Some((None, profile)),
    });
    let may_end = Arc::strong_count(closing) <= MOST_ROOTS;
    let oldest = unused.min_by_key(|(last_chosen, _)| *last_chosen);
    let oldest = oldest.filter(|(last_chosen, _)| last_chosen.is_none() || may_end);
    let Some(profile) = oldest.map(|(_, profile)| profile.clone()) else {
        let what = format!(
            "{MOST_ROOTS} lists of roots of clients have sessions of the server, and all are used or end"
        );
        return Err(ClientError::Busy { what });
    };
    if let Some(State::Open(lane)) = states.remove(&profile) {
        let closing = Arc::clone(closing);
        spawn(async move {
            lane.close(None).await;
            drop(closing);
        });
    }
    Ok(())
}

/// Reason why a call has no connection.
pub(super) enum ChoiceError {
    /// Its client must be asked for its roots first.
    RootsNeeded,
    Failed(ClientError),
}

impl From<RootsNeeded> for ChoiceError {
    fn from(RootsNeeded: RootsNeeded) -> Self {
        Self::RootsNeeded
    }
}

impl From<ClientError> for ChoiceError {
    fn from(error: ClientError) -> Self {
        Self::Failed(error)
    }
}

/// The connection that a call has.
pub(super) struct Chosen {
    pub(super) lane: Arc<Lane>,
    pub(super) hold: Hold,
    pub(super) member: Arc<Member>,
    pub(super) session: Arc<Session>,
}

/// Connections that match a caller, with their profile.
type Matching = (Profile, (Arc<Lane>, Hold));

impl Client {
    /// Chooses the connection for a call: one that was greeted as the caller would have greeted the
    /// server, else one of the first, unless that has the roots of another client.
    ///
    /// # Errors
    /// When no such connection can be had, or the client must be asked for its roots first.
    pub(super) async fn choose(
        &self,
        call: &ServerCall,
        until: Instant,
        patience: Patience,
    ) -> Result<Chosen, ChoiceError> {
        let inner = &self.0;
        let first = Arc::clone(&inner.lane);
        let member = Arc::clone(first.pick());
        let mut unfit = None;
        loop {
            let session = member.session(until, patience).await?;
            if session.is_outgrown(call)? {
                continue;
            }
            if let Some((profile, (lane, hold))) = self.beside(call, &session)? {
                let member = Arc::clone(lane.pick());
                let error = match member.session(until, Patience::OneTry).await {
                    Ok(session) if lane.admits(&session, call)? => {
                        return Ok(Chosen {
                            lane,
                            hold,
                            member,
                            session,
                        });
                    }
                    Ok(_) if unfit.as_ref() == Some(&profile) => {
                        let what = "its session for these roots has the roots of another client";
                        return Err(ClientError::Busy { what: what.into() }.into());
                    }
                    // The server has asked for roots meanwhile, or the client has changed them.
                    Ok(_) => {
                        unfit = Some(profile);
                        continue;
                    }
                    Err(error) => error,
                };
                let (server, reason) = (&first.shared.config.name, error.explain());
                let era = profile.era;
                tracing::debug!(%server, ?era, %reason, "cannot open a connection that matches the caller's capabilities");
                // One that still starts may serve later calls.
                if !member.is_starting() {
                    inner.beside.failed(&profile, &lane, &error);
                    continue;
                }
                if session.has_own_roots() {
                    return Err(error.into());
                }
            }
            if session.begin_use() {
                return Ok(Chosen {
                    hold: Arc::clone(&first.hold),
                    lane: first,
                    member,
                    session,
                });
            }
        }
    }

    /// The connections of clients without roots, beside the first ones.
    ///
    /// # Errors
    /// When they could not be opened a short time ago.
    pub(super) fn rootless(&self, era: Era) -> Result<Arc<Lane>, ClientError> {
        let roots = match self.0.lane.shared.config.offers_roots(false) {
            true => RootsOffer::Unasked,
            false => RootsOffer::Nothing,
        };
        let profile = Profile { era, roots };
        let make = || self.0.lane.beside(&profile);
        let found = self.0.beside.wanted(&profile, make)?;
        found.map(|(lane, _)| lane).ok_or_else(|| {
            let what = "no session without the roots of a client could be opened".to_owned();
            ClientError::Unreachable { what }
        })
    }

    /// The connections for a call, where the first ones have another profile than its caller needs.
    /// Where those of the caller's era cannot be had, the caller uses those of the other era.
    fn beside(&self, call: &ServerCall, first: &Session) -> Result<Option<Matching>, ChoiceError> {
        let wanted = |profile: Profile| {
            let make = || self.0.lane.beside(&profile);
            let lane = self.0.beside.wanted(&profile, make)?;
            Ok::<_, ClientError>(lane.map(|lane| (profile, lane)))
        };
        let Some(asked) = first.other_profile(call)? else {
            return Ok(None);
        };
        if let Some(found) = wanted(asked)? {
            return Ok(Some(found));
        }
        let Some(spoken) = first.other_profile_of(call, first.era())? else {
            return Ok(None);
        };
        let found = wanted(spoken)?;
        if found.is_none() && first.has_own_roots() {
            let what = "its session has the roots of another client, and no other session could be \
                        opened";
            return Err(ClientError::Busy { what: what.into() }.into());
        }
        Ok(found)
    }
}
