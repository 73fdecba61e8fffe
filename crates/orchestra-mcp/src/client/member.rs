//! Keeps one connection to a server: starts it, watches it, starts it again.

mod leave;
mod phase;
mod regain;
mod start;

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orchestra_hub::ListKind;
use orchestra_wire::Era;
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, sleep, timeout_at},
};

use super::{
    ClientConfig, ClientError, Connector, Link, TransportType,
    breaker::Breaker,
    events::Events,
    latency::Meter,
    parking::Parking,
    profile::Profile,
    roots::ClientRoots,
    session::{Left, Session},
    watching::Watching,
};

pub(super) use phase::Phase;
use phase::{left_alone, not_yet};

/// How long a call waits for a server that is left alone, when it is asked once more for that call.
const ONE_TRY: Duration = Duration::from_secs(2);

/// For how long a call waits for a server that cannot be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as it may take.
    Deadline,
    /// Until it was tried once more.
    OneTry,
}

/// What all connections of one client share.
pub(super) struct Shared {
    pub(super) connector: Arc<dyn Connector>,
    pub(super) config: Arc<ClientConfig>,
    pub(super) events: Events,
    pub(super) parking: Arc<Parking>,
    pub(super) meter: Arc<Meter>,
    pub(super) watching: Arc<Watching>,
    pub(super) breaker: Arc<Breaker>,
    pub(super) client_roots: Arc<ClientRoots>,
    /// Profile of the connections beside the first ones: how the server is does not depend on them, and
    /// one that cannot be opened is not tried again. It changes with the roots of their only client.
    pub(super) profile: Option<Mutex<Profile>>,
}

impl Shared {
    /// Returns whether these are connections beside the first ones.
    pub(super) const fn is_beside(&self) -> bool {
        self.profile.is_some()
    }

    /// The profile of connections beside the first ones.
    pub(super) fn profile(&self) -> Option<MutexGuard<'_, Profile>> {
        let profile = self.profile.as_ref()?;
        Some(profile.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports a start. A connection beside the first one may list more.
    fn report_start(&self) {
        match self.is_beside() {
            false => self.events.started(),
            true => ListKind::ALL
                .into_iter()
                .for_each(|kind| self.events.list_changed(kind)),
        }
    }
}

/// One connection, as long as its client lives.
pub(super) struct Member {
    phase: watch::Sender<Phase>,
    /// Somebody waits for it.
    wanted: Notify,
    /// Somebody wants it anew, whatever it is.
    restart: Notify,
    /// Somebody calls while it is away, and wants it to be asked now.
    hurry: Notify,
    /// It is reached over HTTP.
    remote: bool,
    closing: AtomicBool,
    /// Connections that have ended on which calls may go on: what is on its way to a server that has
    /// forgotten its session.
    left: Mutex<Vec<Weak<dyn Link>>>,
    /// Bounds what one process is asked at once.
    pub(super) outstanding: Arc<Semaphore>,
}

impl Member {
    pub(super) fn new(outstanding: usize, transport: TransportType) -> Self {
        Self {
            phase: watch::Sender::new(Phase::Idle),
            wanted: Notify::new(),
            restart: Notify::new(),
            hurry: Notify::new(),
            remote: transport == TransportType::Http,
            closing: AtomicBool::new(false),
            left: Mutex::default(),
            outstanding: Arc::new(Semaphore::new(outstanding.max(1))),
        }
    }

    /// The connection, when it is there; waits for it until `deadline` while it is being made.
    ///
    /// # Errors
    /// When it is not made before the deadline, or is not to be made now. Nothing was sent.
    pub(super) async fn session(
        &self,
        deadline: Instant,
        patience: Patience,
    ) -> Result<Arc<Session>, ClientError> {
        if let Some(session) = self.ready() {
            return Ok(session);
        }
        let mut phase = self.phase.subscribe();
        let (mut until, mut has_hurried) = (deadline, false);
        loop {
            match &*phase.borrow_and_update() {
                Phase::Ready(session) if !session.is_over() => return Ok(Arc::clone(session)),
                // Whoever calls a server on the network has it asked now.
                Phase::Open { .. } | Phase::Waiting { .. } if self.remote && !has_hurried => {
                    has_hurried = true;
                    self.hurry.notify_one();
                }
                Phase::Open { next_at, reason } => return Err(left_alone(*next_at, reason)),
                Phase::Waiting {
                    next_at, reason, ..
                } if patience == Patience::OneTry || !self.remote && *next_at > deadline => {
                    return Err(not_yet(*next_at, reason));
                }
                Phase::Refused(error) => return Err(ClientError::clone(error)),
                Phase::Closed => return Err(ClientError::Closed),
                // One that is over was not noticed to be so yet.
                Phase::Idle | Phase::Starting | Phase::Waiting { .. } | Phase::Ready(_) => {}
            }
            if matches!(&*phase.borrow(), Phase::Open { .. }) {
                until = deadline.min(Instant::now() + ONE_TRY);
            }
            self.wanted.notify_one();
            if timeout_at(until, phase.changed()).await.is_err() {
                return Err(self.still(&phase.borrow()));
            }
        }
    }

    fn still(&self, phase: &Phase) -> ClientError {
        match phase {
            Phase::Waiting {
                next_at, reason, ..
            } => not_yet(*next_at, reason),
            Phase::Open { next_at, reason } => left_alone(*next_at, reason),
            _ => ClientError::Unreachable {
                what: "the server was still starting when the time for the call was over"
                    .to_owned(),
            },
        }
    }

    /// The connection, when it is there now.
    pub(super) fn ready(&self) -> Option<Arc<Session>> {
        match &*self.phase.borrow() {
            Phase::Ready(session) if !session.is_over() => Some(Arc::clone(session)),
            _ => None,
        }
    }

    /// Returns whether the connection is about to be made.
    pub(super) fn is_starting(&self) -> bool {
        matches!(&*self.phase.borrow(), Phase::Idle | Phase::Starting)
    }

    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Starts it, if it is not there.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Starts it anew, whatever it is.
    pub(super) fn restart(&self) {
        self.restart.notify_one();
    }

    fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let closed = matches!(now, Phase::Closed);
            if !closed {
                *now = phase;
            }
            !closed
        });
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Keeps the connection until it is closed.
    pub(super) async fn keep(self: Arc<Self>, shared: Arc<Shared>) {
        let mut course = Course {
            failures: 0,
            last_era: None,
            last_used: None,
            starts: 0,
            eager: false,
            away: None,
            attempted: Instant::now(),
            told: None,
            was_ready: false,
        };
        while !self.is_closing() {
            if !std::mem::take(&mut course.eager) {
                self.enter(Phase::Idle);
                tokio::select! {
                    () = self.wanted.notified() => {}
                    () = self.restart.notified() => {}
                }
                course.resume_outage();
            }
            match self.run(&shared, &mut course).await {
                Ok(()) => course.failures = 0,
                Err(error) => self.wait(&shared, &mut course, error).await,
            }
        }
    }

    /// Starts once and stays until the end. `Ok` when it may be started again at once.
    async fn run(&self, shared: &Arc<Shared>, course: &mut Course) -> Result<(), ClientError> {
        self.enter(Phase::Starting);
        course.attempted = Instant::now();
        course.was_ready = false;
        let started = start::start(shared, course.last_era, course.last_used.clone()).await;
        let session = started.inspect_err(|_| {
            if !shared.is_beside() {
                shared.meter.start_failed();
            }
        })?;
        if self.is_closing() {
            session.link.close().await;
            return Ok(());
        }
        // One that may speak both is greeted as its clients need it then.
        let is_settled = shared.config.clients.is_none() || !session.may_speak_both();
        course.last_era = is_settled.then(|| session.era());
        if !shared.is_beside() {
            let now = Instant::now().into_std();
            shared.meter.ready(Some(now), course.starts > 0);
        }
        course.starts += 1;
        course.was_ready = true;
        self.enter(Phase::Ready(Arc::clone(&session)));
        // Whoever wanted it has it; a wish that is left over is no reason for the next start.
        let mut wish = pin!(self.wanted.notified());
        wish.as_mut().enable();
        shared.report_start();
        let watched = Aborted(tokio::spawn(Arc::clone(shared).watch(Arc::clone(&session))));
        if course.end_outage() {
            shared.breaker.reset();
        }
        let left = loop {
            let left = tokio::select! {
                left = session.live() => left,
                () = self.restart.notified() => Left::Unwanted,
            };
            let Left::Away(lost) = left else { break left };
            if let Some(left) = self.regain(shared, course, &session, lost).await {
                break left;
            }
            tracing::info!(server = %shared.config.name, "server is available again");
            session.is_back();
            course.end_outage();
            course.failures = 0;
            shared.breaker.reset();
            self.enter(Phase::Ready(Arc::clone(&session)));
            // It may be another one by now.
            shared.report_start();
        };
        course.last_used = session.next_profile(course.last_used.take());
        drop(watched);
        if !shared.is_beside() {
            shared.meter.ready(None, false);
        }
        self.leave(shared, course, &session, left).await
    }

    /// After a start that did not help: waits longer each time, and after some is left alone.
    async fn wait(&self, shared: &Arc<Shared>, course: &mut Course, error: ClientError) {
        if shared.is_beside() {
            self.enter(Phase::Refused(Arc::new(error)));
            self.restart.notified().await;
            return;
        }
        course.failures += 1;
        course.eager = true;
        shared.meter.is_failing(&error);
        let (circuit, reconnect) = (shared.config.circuit, shared.config.reconnect);
        let is_just_away = course.is_just_away(&reconnect);
        // Whoever is asked for again and again is told of once for each reason.
        let told = error.in_short();
        let is_told = self.remote && course.told.as_ref() == Some(&told);
        course.told = Some(told);
        match course.failures > 1 && (is_just_away || is_told) {
            true => {
                tracing::debug!(server = %shared.config.name, attempt = course.failures, reason = %error.explain(), "server is still unavailable");
            }
            false => {
                let what = match course.was_ready {
                    true => "server ended unexpectedly",
                    false => "cannot start the server",
                };
                tracing::warn!(server = %shared.config.name, attempt = course.failures, reason = %error.explain(), "{what}");
            }
        }
        let reason = Arc::new(error);
        let (pause, phase): (Duration, Phase) = match &*reason {
            ClientError::NeedsAuth { .. } | ClientError::InvalidConfig { .. } => {
                self.enter(Phase::Refused(reason));
                self.restart.notified().await;
                course.end_outage();
                course.failures = 0;
                return;
            }
            _ if !is_just_away
                && (course.away.is_some() || course.failures >= circuit.failures) =>
            {
                let next_at = Instant::now() + circuit.pause;
                (circuit.pause, Phase::Open { next_at, reason })
            }
            _ => {
                let backoff = match is_just_away {
                    true => reconnect.backoff,
                    false => shared.config.backoff,
                };
                let pause = backoff.next(course.failures - 1);
                let next_at = Instant::now() + pause;
                let attempt = course.failures;
                (
                    pause,
                    Phase::Waiting {
                        attempt,
                        next_at,
                        reason,
                    },
                )
            }
        };
        self.enter(phase);
        let mut closed = pin!(self.closed());
        tokio::select! {
            () = sleep(pause) => {}
            () = self.hurried(course, &reconnect), if self.remote => {}
            () = self.restart.notified() => course.failures = 0,
            () = &mut closed => {}
        }
    }

    async fn closed(&self) {
        let mut phase = self.phase.subscribe();
        // The sender is this member's own.
        let _ = phase.wait_for(|phase| matches!(phase, Phase::Closed)).await;
    }
}

/// A task that ends with whoever began it.
struct Aborted(tokio::task::JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is remembered from one start to the next.
struct Course {
    /// Starts in a row that never became ready, or ended without having answered a call.
    failures: u32,
    /// The era of the last connection, in which the server is greeted first.
    last_era: Option<Era>,
    /// Profile of the last connection on which a caller made a call. Its callers need the next one with
    /// the same.
    last_used: Option<Profile>,
    starts: u32,
    /// Whether the next start waits for nobody.
    eager: bool,
    /// Since when a server on the network is away that was well before; nothing once it is there
    /// again.
    away: Option<Instant>,
    /// When it was reached for the last time.
    attempted: Instant,
    /// Why the last start did not help.
    told: Option<String>,
    /// Whether the server became ready after its last start.
    was_ready: bool,
}
