//! One attempt of a call: its turn, its way to a connection, its count; and whether there is another.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use orchestra_wire::Era;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{
    Client, Inner,
    lane::{ChoiceError, Chosen},
};
use crate::client::{
    ClientError, ClientStatus, Reply, Sent, ServerCall, TransportType,
    breaker::{Breaker, Standing},
    latency::Ended,
    member::{Member, Patience, Shared},
    parking::State,
    roots,
    session::{Claim, Session},
    tasks,
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
        turn: &mut Turn<'_>,
    ) -> Result<Reply, ClientError> {
        let shared = &self.0.lane.shared;
        let state = call.cx.answers.as_ref().and_then(|a| a.state.as_deref());
        if let (Some(State::Parked(name)), Some(answers)) =
            (state.map(State::parse), &call.cx.answers)
        {
            let Some(mut parked) = shared.parking.take(name) else {
                return Err(ClientError::Rpc(orchestra_wire::RpcError::invalid_params(
                    "the call that asked is gone: its server was restarted, or the answer came too \
                     late; call again without inputResponses and requestState",
                )));
            };
            parked.answer(answers, &call.cx);
            let (session, waiting) = (parked.session, parked.waiting);
            let went_on = session.go_on(call, waiting);
            return self
                .metered(call, Instant::now(), &session, turn, went_on)
                .await;
        }
        let began = Instant::now();
        let patience = match call.safe {
            true => Patience::Deadline,
            false => Patience::OneTry,
        };
        let until = *waits.get_or_insert_with(|| deadline.min(Instant::now() + self.start_wait()));
        let (session, place, _hold, _claim) = loop {
            let chosen = match self.choose(call, until, patience).await {
                Ok(chosen) => chosen,
                Err(ChoiceError::RootsNeeded) => {
                    return Ok(Reply::InputRequired(roots::question()));
                }
                Err(ChoiceError::Failed(error)) => return Err(error),
            };
            *waits = None;
            let (chosen, claim) = apart(call, chosen, deadline).await;
            let Chosen {
                lane,
                hold,
                member,
                session,
            } = chosen;
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
            // Its server may have asked another client for roots meanwhile.
            if !session.has_own_roots() || matches!(lane.admits(&session, call), Ok(true)) {
                break (session, place, hold, claim);
            }
        };
        session.notify_roots().await;
        let asked = Instant::now();
        let checked = match timeout_at(deadline, session.check_tool(call)).await {
            Ok(checked) => checked,
            Err(_) => {
                let after = asked.elapsed();
                Err(ClientError::Timeout { after }.unlisted())
            }
        };
        if let Err(error) = checked {
            turn.outcome = Outcome::Aside;
            if error.cause().is_server_fault() {
                self.note_failure(&session, turn, &error).await;
            }
            return Err(error);
        }
        let place = Arc::new(place);
        let calling = session.call(call, Some(Arc::clone(&place)));
        let reply = self.metered(call, began, &session, turn, calling).await;
        drop(place);
        reply
    }

    /// Counts a call, whatever becomes of it.
    async fn metered(
        &self,
        call: &ServerCall,
        began: Instant,
        session: &Arc<Session>,
        turn: &mut Turn<'_>,
        calling: impl Future<Output = Result<Reply, ClientError>>,
    ) -> Result<Reply, ClientError> {
        let meter = &self.0.lane.shared.meter;
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
        };
        meter.begin(bytes_out);
        let reply = match session.later(call) {
            Some(later) => tasks::lasting(calling, later).await,
            None => calling.await,
        };
        counted.took = Some(counted.sent.elapsed());
        turn.outcome = Outcome::Aside;
        match &reply {
            Ok(reply) => {
                turn.outcome = Outcome::Success;
                counted.how = Ended::Answered;
                if let Reply::Result(result) = reply {
                    counted.bytes_in = result.as_bytes().len();
                }
                if self.0.lane.shared.connector.transport() == TransportType::Http {
                    *self
                        .0
                        .succeeded
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                }
            }
            Err(ClientError::Rpc(_)) => {
                turn.outcome = Outcome::Success;
                counted.how = Ended::Refused;
            }
            Err(error) if error.is_server_fault() => {
                counted.how = Ended::Failed;
                self.note_failure(session, turn, error).await;
            }
            Err(_) => {}
        }
        reply
    }

    /// Records a failure that is the server's fault: for the statistics, and for the circuit breaker if it counts there.
    async fn note_failure(&self, session: &Arc<Session>, turn: &mut Turn<'_>, error: &ClientError) {
        self.0.lane.shared.meter.failed(error.explain());
        let cause = error.cause();
        if cause.counts_for_circuit() && !session.is_excused(cause).await {
            turn.outcome = Outcome::Failure(error.clone());
        }
    }
}

/// The connection for a call whose server may ask something: another one than the first that has room
/// where nobody could tell on that one whom the server asks, as long as the pool has one. Where there
/// is but one connection, this costs nothing.
async fn apart(
    call: &ServerCall,
    mut chosen: Chosen,
    deadline: Instant,
) -> (Chosen, Option<Claim>) {
    let lane = Arc::clone(&chosen.lane);
    if lane.members.len() == 1 || chosen.session.era() == Era::Stateless {
        return (chosen, None);
    }
    // Others may take a connection while it is waited for.
    for _ in &lane.members {
        if let Some(claim) = chosen.session.claim(&call.cx) {
            return (chosen, Some(claim));
        }
        let Some(other) = lane.unshared(call) else {
            break;
        };
        let Ok(session) = other.session(deadline, Patience::OneTry).await else {
            break;
        };
        let is_alike = session.era() == chosen.session.era();
        if !is_alike || !matches!(lane.admits(&session, call), Ok(true)) || !session.begin_use() {
            break;
        }
        (chosen.member, chosen.session) = (Arc::clone(other), session);
    }
    (chosen, None)
}

/// The turn of a call, however often it is tried: at its end the breaker learns what its last attempt
/// came to.
pub(super) struct Turn<'b> {
    breaker: &'b Breaker,
    outcome: Outcome,
}

/// What an attempt says of how the server treats calls.
enum Outcome {
    /// Nothing: it was not sent, its caller went away, or it failed for another reason.
    Aside,
    Success,
    Failure(ClientError),
}

impl<'b> Turn<'b> {
    /// Takes the turn of a call. One that goes on with answers has had it before.
    ///
    /// # Errors
    /// When the server is left alone now.
    pub(super) fn begin(breaker: &'b Breaker, call: &ServerCall) -> Result<Self, ClientError> {
        let state = call.cx.answers.as_ref().and_then(|a| a.state.as_deref());
        if !matches!(state.map(State::parse), Some(State::Parked(_))) {
            breaker.admit(Instant::now())?;
        }
        let outcome = Outcome::Aside;
        Ok(Self { breaker, outcome })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        match &self.outcome {
            Outcome::Aside => self.breaker.aside(),
            Outcome::Success => self.breaker.success(),
            Outcome::Failure(error) => self.breaker.failure(error, Instant::now()),
        }
    }
}

/// Counts an attempt at its end, and when its caller does not wait for that.
struct Counted<'c> {
    inner: &'c Inner,
    sent: Instant,
    /// How long it took, once it was answered.
    took: Option<Duration>,
    queued: Duration,
    how: Ended,
    bytes_in: usize,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let took = self.took.unwrap_or_else(|| self.sent.elapsed());
        let meter = &self.inner.lane.shared.meter;
        meter.end(self.how, took, self.queued, self.bytes_in);
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
        // Nothing was sent. If the server names a time, the caller decides whether to wait.
        ClientError::Unlisted { last } => match &**last {
            ClientError::Http(failure) if failure.retry_after.is_some() => None,
            last => again(last, true, unsafe_calls),
        },
        _ => (safe || error.sent() == Sent::No).then_some(Duration::ZERO),
    }
}

/// Returns whether a list that failed may be fetched again, and after which pause at least. Connections that
/// end have pauses of their own.
pub(super) fn list_again(error: &ClientError) -> Option<Duration> {
    match error {
        ClientError::Http(_) => again(error, true, false),
        ClientError::Rpc(_) => error.may_list_later().then_some(Duration::ZERO),
        _ => None,
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
                "too many calls failed in a row; calls are refused for a while"
            );
        }
        Standing::Tried(_) => tracing::info!(server, "the next call tries the server again"),
        Standing::Closed => tracing::info!(server, "calls are forwarded again"),
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
