//! One attempt of a call: its turn, its way to a connection, its count; and whether there is another.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use orchestra_wire::Era;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{Client, Inner};
use crate::client::{
    ClientError, ClientStatus, Reply, Sent, ServerCall, TransportType,
    breaker::{Breaker, Standing},
    latency::Ended,
    member::{Member, Patience, Shared},
    parking::State,
    session::{Claim, Session},
};

/// Above this part of failures a server is said to be degraded.
const DEGRADED: f64 = 0.1;

impl Client {
    /// `waits` is until when a call waits that has no connection; nothing while it has one.
    pub(super) async fn attempt(
        &self,
        call: &ServerCall,
        deadline: Instant,
        waits: &mut Option<Instant>,
    ) -> Result<Reply, ClientError> {
        let inner = &self.0;
        let state = call.cx.answers.as_ref().and_then(|a| a.state.as_deref());
        if let (Some(State::Parked(name)), Some(answers)) =
            (state.map(State::parse), &call.cx.answers)
        {
            let Some(mut parked) = inner.shared.parking.take(name) else {
                return Err(ClientError::Rpc(orchestra_wire::RpcError::invalid_params(
                    "the call that asked is gone: its server was restarted, or the answer came too \
                     late; call again without inputResponses and requestState",
                )));
            };
            parked.answer(answers);
            let (session, waiting) = (parked.session, parked.waiting);
            let went_on = session.go_on(call, waiting);
            return self.metered(call, Instant::now(), &session, went_on).await;
        }
        inner.shared.breaker.admit(Instant::now())?;
        let mut admitted = Admitted(Some(&inner.shared.breaker));
        let began = Instant::now();
        let member = self.pick();
        let patience = match call.safe {
            true => Patience::Deadline,
            false => Patience::OneTry,
        };
        let until = *waits.get_or_insert_with(|| deadline.min(Instant::now() + self.start_wait()));
        let session = member.session(until, patience).await?;
        *waits = None;
        let (member, session, _claim) = self.apart(call, member, session, deadline).await;
        let outstanding = || Arc::clone(&member.outstanding);
        let place = match outstanding().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => match timeout_at(deadline, outstanding().acquire_owned()).await {
                Ok(Ok(place)) => place,
                _ => {
                    return Err(ClientError::Busy {
                        what: "the server has as many calls as it takes at once".to_owned(),
                    });
                }
            },
        };
        admitted.0 = None;
        let place = Arc::new(place);
        let calling = session.call(call, Some(Arc::clone(&place)));
        let reply = self.metered(call, began, &session, calling).await;
        drop(place);
        reply
    }

    /// Counts a call, whatever becomes of it.
    async fn metered(
        &self,
        call: &ServerCall,
        began: Instant,
        session: &Arc<Session>,
        calling: impl Future<Output = Result<Reply, ClientError>>,
    ) -> Result<Reply, ClientError> {
        let (meter, breaker) = (&self.0.shared.meter, &self.0.shared.breaker);
        let bytes_out = call
            .params
            .as_ref()
            .map_or(0, |params| params.as_bytes().len());
        let mut counted = Counted {
            inner: &self.0,
            sent: Instant::now(),
            took: None,
            queued: began.elapsed(),
            how: Ended::Aside,
            bytes_in: 0,
            is_settled: false,
        };
        meter.begin(bytes_out);
        let reply = calling.await;
        counted.took = Some(counted.sent.elapsed());
        match &reply {
            Ok(reply) => {
                breaker.success();
                counted.is_settled = true;
                counted.how = Ended::Answered;
                if let Reply::Result(result) = reply {
                    counted.bytes_in = result.as_bytes().len();
                }
                if self.0.shared.connector.transport() == TransportType::Http {
                    *self
                        .0
                        .succeeded
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                }
            }
            Err(ClientError::Rpc(_)) => {
                breaker.success();
                counted.is_settled = true;
                counted.how = Ended::Refused;
            }
            Err(error) if error.is_server_fault() => {
                counted.how = Ended::Failed;
                meter.failed(error.explain());
                if error.counts_for_circuit() && !session.is_excused(error).await {
                    breaker.failure(error, Instant::now());
                    counted.is_settled = true;
                }
            }
            Err(_) => {}
        }
        reply
    }

    /// The connection for a call whose server may ask something: another one than the first that
    /// has room where nobody could tell on that one whom the server asks, as long as the pool has
    /// one. Where there is but one connection, this costs nothing.
    async fn apart<'a>(
        &'a self,
        call: &ServerCall,
        mut member: &'a Arc<Member>,
        mut session: Arc<Session>,
        deadline: Instant,
    ) -> (&'a Arc<Member>, Arc<Session>, Option<Claim>) {
        let inner = &self.0;
        if inner.members.len() == 1 || session.era() == Era::Stateless {
            return (member, session, None);
        }
        // Others may take a connection while it is waited for.
        for _ in &inner.members {
            if let Some(claim) = session.claim(&call.cx) {
                return (member, session, Some(claim));
            }
            let Some(other) = self.unshared(call) else {
                break;
            };
            let Ok(found) = other.session(deadline, Patience::OneTry).await else {
                break;
            };
            (member, session) = (other, found);
        }
        (member, session, None)
    }

    /// A connection on which a call would confuse nobody.
    fn unshared(&self, call: &ServerCall) -> Option<&Arc<Member>> {
        let inner = &self.0;
        let used = inner.used.load(Ordering::Relaxed);
        let fits = |member: &&Arc<Member>| {
            let ready = member.ready();
            member.outstanding.available_permits() > 0
                && ready.is_none_or(|session| !session.would_confuse(&call.cx))
        };
        let found = inner.members[..used].iter().find(fits);
        if found.is_none() && used < inner.members.len() {
            inner.used.fetch_max(used + 1, Ordering::Relaxed);
            return Some(&inner.members[used]);
        }
        found
    }

    /// The connection to use: the first that has room, and another one only when none has.
    fn pick(&self) -> &Arc<Member> {
        let inner = &self.0;
        let used = inner.used.load(Ordering::Relaxed);
        let free = |member: &&Arc<Member>| member.outstanding.available_permits() > 0;
        if let Some(member) = inner.members[..used].iter().find(free) {
            return member;
        }
        if used < inner.members.len() {
            inner.used.fetch_max(used + 1, Ordering::Relaxed);
            return &inner.members[used];
        }
        let room = |member: &&Arc<Member>| member.outstanding.available_permits();
        inner
            .members
            .iter()
            .max_by_key(room)
            .unwrap_or(&inner.members[0])
    }
}

/// Gives back the turn of a call that was never sent.
struct Admitted<'b>(Option<&'b Breaker>);

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if let Some(breaker) = self.0 {
            breaker.aside();
        }
    }
}

/// Counts a call at its end, and when its caller does not wait for that; then it gives back the turn
/// of a call that says nothing of how the server treats calls, or of which nobody has learned that.
struct Counted<'c> {
    inner: &'c Inner,
    sent: Instant,
    /// How long it took, once it was answered.
    took: Option<Duration>,
    queued: Duration,
    how: Ended,
    bytes_in: usize,
    /// Whether the breaker knows what came of it.
    is_settled: bool,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let took = self.took.unwrap_or_else(|| self.sent.elapsed());
        let meter = &self.inner.shared.meter;
        meter.end(self.how, took, self.queued, self.bytes_in);
        if !self.is_settled {
            self.inner.shared.breaker.aside();
        }
    }
}

/// Whether a call may be made again, and after which pause at least.
pub(super) fn again(error: &ClientError, safe: bool, unsafe_calls: bool) -> Option<Duration> {
    if !error.is_retryable() {
        return None;
    }
    match error {
        ClientError::Http(failure) => {
            let least = failure.retry_after.unwrap_or_default();
            let said_so = matches!(failure.status, 429 | 503) && failure.retry_after.is_some();
            let may = safe || error.sent() == Sent::No || (said_so && unsafe_calls);
            may.then_some(least)
        }
        // The time of the call is over, or will be as soon.
        ClientError::Timeout { .. } => None,
        _ => (safe || error.sent() == Sent::No).then_some(Duration::ZERO),
    }
}

/// Tells how the server is whenever that changes.
pub(super) async fn tell_status(
    member: Arc<Member>,
    shared: Arc<Shared>,
    status: watch::Sender<ClientStatus>,
) {
    /// How often the rate of errors is looked at.
    const LOOK: Duration = Duration::from_secs(1);
    let mut phase = member.phase();
    // What it was before anybody looked.
    phase.mark_changed();
    let (mut last_trouble, mut left_alone) = (None, None);
    let mut last = Standing::Closed;
    loop {
        let looks = member.ready().is_some() || left_alone.is_some();
        let look = async {
            match looks {
                true => sleep(LOOK).await,
                false => std::future::pending().await,
            }
        };
        let changed = tokio::select! {
            changed = phase.changed() => changed.is_ok(),
            () = shared.breaker.turned() => false,
            () = look => false,
        };
        let rate = shared.meter.error_rate();
        let links = member.ready().and_then(|session| session.link.trouble());
        let rate =
            (rate > DEGRADED).then(|| format!("{:.0} % of the last calls failed", rate * 100.0));
        let standing = shared.breaker.standing(Instant::now());
        let tried = match &standing {
            Standing::Tried(last) => Some(format!(
                "it failed too often, and is tried by one call at a time; the last failure: {}",
                last.in_short()
            )),
            Standing::Closed | Standing::Open(..) => None,
        };
        let trouble = links.or(tried).or(rate);
        let open = match &standing {
            Standing::Open(until, _) => Some(*until),
            Standing::Closed | Standing::Tried(_) => None,
        };
        if changed || trouble != last_trouble || open != left_alone {
            let now = phase.borrow_and_update().status(trouble.clone());
            status.send_replace(standing.over(now));
            (last_trouble, left_alone) = (trouble, open);
        }
        if std::mem::discriminant(&standing) != std::mem::discriminant(&last) {
            log_circuit(&shared.config.name, &standing);
            last = standing;
        }
    }
}

fn log_circuit(server: &str, standing: &Standing) {
    match standing {
        Standing::Open(until, last) => {
            let retry_in = until.saturating_duration_since(Instant::now()).as_secs();
            let reason = last.explain();
            tracing::warn!(
                server,
                retry_in,
                reason,
                "calls fail one after the other; it is left alone"
            );
        }
        Standing::Tried(_) => tracing::info!(server, "it is tried again by the next call"),
        Standing::Closed => tracing::info!(server, "calls pass again"),
    }
}

impl Standing {
    /// How a server is that would be called in this way if nobody refused its calls.
    fn over(&self, status: ClientStatus) -> ClientStatus {
        match (self, status) {
            (
                Self::Open(next_at, reason),
                ClientStatus::Idle | ClientStatus::Ready | ClientStatus::Degraded(_),
            ) => ClientStatus::Offline {
                next_at: *next_at,
                reason: Arc::clone(reason),
            },
            (_, status) => status,
        }
    }
}
