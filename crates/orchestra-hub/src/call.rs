//! One call on its way through the hub: waits for its turn, runs in the provider's future, ends at
//! its deadline or when it is cancelled, and is counted and recorded at its end.
//!
//! It is one future that is polled in place: no task and no channel of its own.

mod bill;

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use orchestra_wire::RawJson;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    BoxFuture, CallEnd, CancelSignal, Cost, Outcome, ProviderError, Remark, Request, Target,
    ToolResult, Toolset,
    hub::Inner,
    lists, skills,
    slot::Slot,
    view::{Route, View},
};
use bill::{Bill, record_of, result_bytes};

/// Full names that the error of an ambiguous short name lists.
const MAX_FULL_NAMES: usize = 8;

/// A call as a future. Dropping it cancels it. It must be polled inside a tokio runtime with a
/// timer.
pub struct Call {
    state: State,
    cost: Cost,
    cancel: CancelSignal,
    deadline: Instant,
    /// Completes with the reason when the call has to end early; set up when the call first waits.
    interrupt: Option<BoxFuture<ProviderError>>,
    permits: Option<Permits>,
    bill: Option<Bill>,
    ended: Option<Instant>,
}

type Answer = Result<Outcome, ProviderError>;
type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

enum State {
    /// Answered without a provider.
    Settled(Answer, CallEnd),
    /// Waits for providers that do not know yet what they offer.
    Settling(BoxFuture<()>, Box<Later>),
    /// Waits for its turn.
    Queued(BoxFuture<Option<Permits>>, Start),
    /// Has its turn and was not polled yet.
    Ready(Start),
    /// Runs. What answers at its first poll never runs beside another call of its thread, so
    /// permits are taken only when it does not; until then the way to them is kept.
    Running(BoxFuture<Answer>, Option<Turn>),
    Over,
}

/// What is needed to look for the way again.
struct Later {
    toolset: Toolset,
    caller: Arc<Semaphore>,
    request: Box<Request>,
}

struct Start {
    turn: Turn,
    request: Box<Request>,
}

/// Whose limits count.
struct Turn {
    caller: Arc<Semaphore>,
    slot: Arc<Slot>,
}

impl Call {
    pub(crate) fn new(
        hub: &Arc<Inner>,
        view: &View,
        caller_permits: &Arc<Semaphore>,
        mut request: Box<Request>,
        now: Instant,
    ) -> Self {
        let most = match request.cx.long {
            false => hub.config.deadline,
            true => hub.config.long_deadline,
        };
        let latest = now + most;
        let asked = request.cx.deadline.unwrap_or(latest);
        let deadline = asked.min(latest);
        request.cx.deadline = Some(deadline);
        let cancel = request.cx.cancel.clone();
        let route = match &request.target {
            Target::Skills(query) => skills::route(hub, view, query),
            Target::List {
                kind,
                revision,
                start,
                limit,
            } => {
                let client = request.cx.connection;
                lists::route(
                    hub,
                    &view.toolset,
                    client,
                    *kind,
                    *revision,
                    (*start, *limit),
                )
            }
            _ => view.route(&mut request, &hub.config.permission),
        };
        let bill = Bill {
            hub: Arc::clone(hub),
            tool: None,
            began: now,
            waits: false,
            remark: Remark::default(),
            record: hub.config.audit.is_some().then(|| record_of(&request)),
        };
        let mut call = Self {
            state: State::Over,
            cost: Cost::Quick,
            cancel,
            deadline,
            interrupt: None,
            permits: None,
            bill: Some(bill),
            ended: None,
        };
        // What is not known may be that of a provider who does not know yet what it offers. A URI does not tell whose it
        // is, and so each of them is waited for.
        let settling = match &route {
            _ if view.lacks_uri(&request.target) => hub.starting(deadline),
            Route::Refuse(ProviderError::Unknown { kind, .. }, _) if *kind != "method" => {
                hub.settling(now)
            }
            _ => None,
        };
        match settling {
            Some(settling) => {
                let later = Later {
                    toolset: view.toolset.clone(),
                    caller: Arc::clone(caller_permits),
                    request,
                };
                call.state = State::Settling(settling, Box::new(later));
            }
            None => call.set_out(with_servers(hub, view, route), caller_permits, request),
        }
        call
    }

    /// Takes the way that was found.
    fn set_out(&mut self, route: Route, caller: &Arc<Semaphore>, mut request: Box<Request>) {
        self.state = match route {
            Route::Answer(outcome) => {
                let end = end_of(&outcome);
                State::Settled(Ok(outcome), end)
            }
            Route::Run(answer) => State::Running(answer, None),
            Route::Refuse(error, end) => State::Settled(Err(error), end),
            Route::Provider {
                slot,
                cost,
                metrics,
            } => {
                self.cost = cost;
                if slot.makes_remarks {
                    request.cx.remark = Remark::new();
                }
                if let Some(bill) = &mut self.bill {
                    bill.remark = request.cx.remark.clone();
                    bill.tool = metrics;
                    if let Some(record) = &mut bill.record {
                        record.provider = Some(slot.id.as_str().to_owned());
                    }
                }
                let caller = Arc::clone(caller);
                let turn = Turn { caller, slot };
                let is_taken = if turn.is_free() && cost == Cost::Quick {
                    false
                } else {
                    self.permits = turn.try_acquire();
                    self.permits.is_none()
                };
                match is_taken {
                    false => State::Ready(Start { turn, request }),
                    true => State::Queued(turn.acquire(), Start { turn, request }),
                }
            }
        };
    }

    /// Looks again for the way, now that it is known what there is.
    fn look_again(&mut self, later: Later) {
        let Some(hub) = self.bill.as_ref().map(|bill| Arc::clone(&bill.hub)) else {
            return;
        };
        let mut request = later.request;
        let view = hub.view(&later.toolset, request.cx.connection);
        let route = view.route(&mut request, &hub.config.permission);
        if let Some(bill) = &mut self.bill {
            bill.record = bill.record.is_some().then(|| record_of(&request));
        }
        if view.lacks_uri(&request.target)
            && let Some(starting) = hub.starting(self.deadline)
        {
            let later = Later { request, ..later };
            self.state = State::Settling(starting, Box::new(later));
            return;
        }
        self.set_out(with_servers(&hub, &view, route), &later.caller, request);
    }

    /// Where the call may run.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Tells whether its caller has cancelled it.
    #[must_use]
    pub fn cancel_signal(&self) -> CancelSignal {
        self.cancel.clone()
    }

    /// When it was answered, if it was.
    #[must_use]
    pub fn ended(&self) -> Option<Instant> {
        self.ended
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Poll<(Answer, CallEnd)> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Settled(answer, end) => return Poll::Ready((answer, end)),
                State::Settling(mut settling, later) => match settling.as_mut().poll(cx) {
                    Poll::Ready(()) => self.look_again(*later),
                    Poll::Pending => {
                        self.state = State::Settling(settling, later);
                        return self.wait(cx);
                    }
                },
                State::Queued(mut permits, start) => match permits.as_mut().poll(cx) {
                    Poll::Ready(permits) => {
                        self.permits = permits;
                        self.state = State::Ready(start);
                    }
                    Poll::Pending => {
                        self.state = State::Queued(permits, start);
                        return self.wait(cx);
                    }
                },
                State::Ready(Start { turn, request }) => {
                    if self.cancel.is_cancelled() {
                        return ended(ProviderError::Cancelled);
                    }
                    let serve = || turn.slot.provider.serve(*request);
                    match catch_unwind(AssertUnwindSafe(serve)) {
                        Ok(future) => {
                            let turn = self.permits.is_none().then_some(turn);
                            self.state = State::Running(future, turn);
                        }
                        Err(_) => return panicked(),
                    }
                }
                State::Running(mut future, turn) => {
                    let poll = || future.as_mut().poll(cx);
                    match catch_unwind(AssertUnwindSafe(poll)) {
                        Ok(Poll::Pending) => {
                            // Where another thread was faster the limit is exceeded by one, rather
                            // than a call stopped that has begun.
                            self.permits = self.permits.take().or_else(|| turn?.try_acquire());
                            self.state = State::Running(future, None);
                            return self.wait(cx);
                        }
                        Ok(Poll::Ready(answer)) => {
                            let end = answer.as_ref().map_or_else(end_of_error, end_of);
                            return Poll::Ready((answer, end));
                        }
                        Err(_) => {
                            // Its destructor may panic as well.
                            let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
                            return panicked();
                        }
                    }
                }
                State::Over => return ended(ProviderError::Cancelled),
            }
        }
    }

    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<(Answer, CallEnd)> {
        if let Some(bill) = self.bill.as_mut().filter(|bill| !bill.waits) {
            bill.waits = true;
            bill.hub.metrics.begin_waiting();
        }
        self.poll_interrupt(cx)
    }

    fn poll_interrupt(&mut self, cx: &mut Context<'_>) -> Poll<(Answer, CallEnd)> {
        let interrupt = self.interrupt.get_or_insert_with(|| {
            let (mut cancel, deadline) = (self.cancel.clone(), self.deadline.into());
            Box::pin(async move {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => ProviderError::Cancelled,
                    () = tokio::time::sleep_until(deadline) => ProviderError::DeadlineExceeded,
                }
            })
        });
        match interrupt.as_mut().poll(cx) {
            Poll::Ready(reason) => {
                let running = std::mem::replace(&mut self.state, State::Over);
                if catch_unwind(AssertUnwindSafe(|| drop(running))).is_err() {
                    tracing::error!("a provider panicked while its call was dropped");
                }
                ended(reason)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Future for Call {
    type Output = Result<Outcome, ProviderError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready((answer, end)) = self.step(cx) else {
            return Poll::Pending;
        };
        self.permits = None;
        self.interrupt = None;
        if let Some(bill) = self.bill.take() {
            self.ended = Some(bill.settle(end, || answer.as_ref().map_or(0, result_bytes)));
        }
        Poll::Ready(answer)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(bill) = self.bill.take() {
            bill.settle(CallEnd::Cancelled, || 0);
        }
    }
}

impl Turn {
    fn is_free(&self) -> bool {
        self.caller.available_permits() > 0 && self.slot.permits.available_permits() > 0
    }

    fn try_acquire(&self) -> Option<Permits> {
        let first = Arc::clone(&self.caller).try_acquire_owned().ok()?;
        Some((
            first,
            Arc::clone(&self.slot.permits).try_acquire_owned().ok()?,
        ))
    }

    /// Waits for both permits; `None` cannot happen, as the semaphores are never closed.
    fn acquire(&self) -> BoxFuture<Option<Permits>> {
        let (caller, provider) = (Arc::clone(&self.caller), Arc::clone(&self.slot.permits));
        Box::pin(async move {
            let first = caller.acquire_owned().await.ok()?;
            Some((first, provider.acquire_owned().await.ok()?))
        })
    }
}

/// Adds to the error of an unknown name the servers that may have it.
fn with_servers(hub: &Inner, view: &View, route: Route) -> Route {
    let (kind, name, end) = match route {
        Route::Refuse(ProviderError::Unknown { kind, name }, end) => (kind, name, end),
        route => return route,
    };
    let unused = match kind {
        "tool" | "prompt" => hub.unused_server(&name),
        _ => None,
    };
    let servers = unused.or_else(|| hub.may_have(view, kind, &name));
    let full = match kind {
        "tool" => full_names(view, &name),
        _ => None,
    };
    let hints: Vec<String> = full.into_iter().chain(servers).collect();
    let hints = (!hints.is_empty()).then(|| hints.join("; "));
    let error = match hints {
        None => ProviderError::Unknown { kind, name },
        // Its data names the URI alone.
        Some(hints) if kind == "resource" => ProviderError::NoResource {
            message: format!("unknown resource: {name}; {hints}"),
            data: RawJson::of(&json!({ "uri": name })).ok(),
        },
        Some(hints) => ProviderError::Unknown {
            kind,
            name: format!("{name}; {hints}"),
        },
    };
    Route::Refuse(error, end)
}

/// The full names of the tools that have a short name.
fn full_names(view: &View, name: &str) -> Option<String> {
    let full = view.full_names(name).iter().take(MAX_FULL_NAMES);
    let full: Vec<_> = full.map(|name| orchestra_wire::shown(name)).collect();
    let full = (!full.is_empty()).then(|| full.join(", "))?;
    Some(format!(
        "this may be the name of tools of several servers, so a call needs a full name: {full}"
    ))
}

fn ended(reason: ProviderError) -> Poll<(Answer, CallEnd)> {
    let end = end_of_error(&reason);
    Poll::Ready((Err(reason), end))
}

fn panicked() -> Poll<(Answer, CallEnd)> {
    let text = "the call broke: its provider panicked".to_owned();
    Poll::Ready((Err(ProviderError::Unreachable(text)), CallEnd::Panicked))
}

fn end_of(outcome: &Outcome) -> CallEnd {
    match outcome {
        Outcome::Tool(ToolResult { is_error: true, .. })
        | Outcome::Verbatim { is_error: true, .. } => CallEnd::ToolError,
        Outcome::InputRequired(_) => CallEnd::InputRequired,
        _ => CallEnd::Answered,
    }
}

fn end_of_error(error: &ProviderError) -> CallEnd {
    match error {
        ProviderError::Unknown { .. } | ProviderError::NoResource { .. } => CallEnd::Unknown,
        ProviderError::InvalidParams(_) => CallEnd::InvalidParams,
        ProviderError::Denied(_) => CallEnd::Denied,
        ProviderError::Unreachable(_) => CallEnd::Unreachable,
        ProviderError::Rpc { .. } => CallEnd::Refused,
        ProviderError::Cancelled => CallEnd::Cancelled,
        ProviderError::DeadlineExceeded => CallEnd::DeadlineExceeded,
    }
}
