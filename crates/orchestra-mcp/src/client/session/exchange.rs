//! One call on a greeted connection: it goes out, waits for its answer, for a question, or until
//! nothing was heard for too long.

use std::{
    future::pending,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use orchestra_hub::{BoxFuture, ClientFeatures, InputRequired, Later};
use orchestra_wire::{Era, ErrorCode, RawJson, RequestId, RpcError};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep_until},
};

use super::{Session, spawn};
use crate::client::{
    Answer, ClientError, ClientInfo, Departure, Outgoing, Reply, ServerCall, ServerFacts,
    TransportType,
    masked::error_of,
    open::{Asked, OpenCall, Whose},
    params::Envelope,
    parking::{Parked, State, refuse},
    results::{Kind, Told},
    tasks::{self, FollowedTask},
};
use crate::wanted::lacking;

impl Session {
    /// Makes a call, from its beginning or from where it waits for answers. What is left of it when
    /// its caller has gone keeps its `place` among the calls that the server has at once.
    ///
    /// # Errors
    /// Those of the link; a JSON-RPC error of the server; a timeout.
    pub(in crate::client) async fn call(
        self: &Arc<Self>,
        call: &ServerCall,
        place: Option<Place>,
    ) -> Result<Reply, ClientError> {
        let reply = match self.call_once(call, place.clone()).await {
            Err(ClientError::Rpc(error)) if self.wants_task(call, &error) => {
                let as_task = true;
                let call = ServerCall {
                    as_task,
                    ..call.clone()
                };
                self.call_once(&call, place).await
            }
            reply => reply,
        };
        // The state of a task has errors that its link does not know as such.
        reply.map_err(|error| error_of(&*self.link, error))
    }

    /// Returns whether a call was refused because it must become a task, which its caller does not know.
    /// Nothing has run yet, and it is made again to be followed here. A caller of the stateless era gets
    /// the error, which names the extension to declare.
    fn wants_task(&self, call: &ServerCall, error: &RpcError) -> bool {
        let is_refused = match self.era() {
            Era::Stateless => call.cx.era != Some(Era::Stateless) && tasks::are_wanted_by(error),
            // MCP 2025-11-25, tasks: the error for a tool whose `taskSupport` is `required`.
            Era::Session => {
                let has_tasks = self.facts.get().is_some_and(|facts| facts.can.tasks);
                has_tasks
                    && call.method == "tools/call"
                    && error.code == ErrorCode::METHOD_NOT_FOUND
            }
        };
        is_refused && !call.as_task
    }

    /// Receiver of the report that a call lasts, where its tool may last and its server is one of a
    /// session, which reports nothing of it.
    pub(in crate::client) fn later<'c>(&self, call: &'c ServerCall) -> Option<&'c Later> {
        let may_last = call.lasts && self.era() == Era::Session;
        call.cx.later.as_ref().filter(|_| may_last)
    }

    async fn call_once(
        self: &Arc<Self>,
        call: &ServerCall,
        place: Option<Place>,
    ) -> Result<Reply, ClientError> {
        let state = call.cx.answers.as_ref().and_then(|a| a.state.as_deref());
        let state = match state.map(State::parse) {
            Some(State::Task(id)) if self.era() == Era::Stateless => {
                return tasks::resume(self, call, id).await;
            }
            Some(State::Server(state)) => Some(state),
            // Who waits here is taken up before a session is looked for.
            Some(State::Parked(_) | State::Task(_) | State::Roots) | None => None,
        };
        self.begin(call, state, place).await
    }

    async fn begin(
        self: &Arc<Self>,
        call: &ServerCall,
        state: Option<&str>,
        place: Option<Place>,
    ) -> Result<Reply, ClientError> {
        if let Some(heeded) = self.heed(call) {
            heeded.await;
        }
        let entered = self.enter(call, Whose::Caller);
        let stateless = self.era() == Era::Stateless;
        let can = self.facts.get().is_some_and(|facts| facts.can.tasks);
        let may_be_task = call.as_task || (stateless && can);
        let mut outgoing = self.outgoing(entered.number, call, state);
        outgoing.departure = may_be_task.then(Departure::default);
        let departure = outgoing.departure.clone();
        let response = self.link.request(outgoing);
        let waiting = Waiting {
            departure,
            place,
            entered,
            response,
        };
        self.wait(call, waiting).await
    }

    /// Goes on with a call that waited for answers.
    pub(in crate::client) async fn go_on(
        self: &Arc<Self>,
        call: &ServerCall,
        waiting: Waiting,
    ) -> Result<Reply, ClientError> {
        waiting.entered.open.renew(&call.cx);
        let reply = self.wait(call, waiting).await;
        reply.map_err(|error| error_of(&*self.link, error))
    }

    /// Waits for the response, and for the end of the task that it names, for a question, or until nothing was heard for
    /// too long.
    async fn wait(
        self: &Arc<Self>,
        call: &ServerCall,
        mut waiting: Waiting,
    ) -> Result<Reply, ClientError> {
        let silence = call.timeout.unwrap_or(self.config.call_timeout);
        let last = call.cx.deadline.map(Instant::from_std);
        let answer = loop {
            let silent_at = waiting.entered.open.heard() + silence;
            let until = last.map_or(silent_at, |last| last.min(silent_at));
            tokio::select! {
                biased;
                answer = &mut waiting.response => {
                    // What came before it.
                    self.mailbox.empty(self);
                    break answer;
                }
                () = waiting.entered.open.asked.notified() => {
                    let asked = waiting.entered.open.take_questions();
                    // A question may have been taken along with the one before it.
                    if asked.is_empty() {
                        continue;
                    }
                    return Ok(Reply::InputRequired(self.park(call, waiting, asked)));
                }
                () = sleep_until(until) => {
                    if Instant::now() < waiting.entered.open.heard() + silence
                        && last.is_none_or(|last| Instant::now() < last) {
                        continue;
                    }
                    let after = waiting.entered.open.began.elapsed();
                    drop(waiting);
                    self.note_timeout();
                    return Err(ClientError::Timeout { after });
                }
            }
        };
        waiting.entered.done();
        self.timeouts.store(0, Ordering::Relaxed);
        let answer = answer.inspect_err(|error| self.note_end(error))?;
        let answer = refused_for_want(call, &waiting.entered.open, answer);
        let result = answer.map_err(|error| {
            self.has_answered.store(true, Ordering::Relaxed);
            ClientError::Rpc(error)
        })?;
        self.has_answered.store(true, Ordering::Relaxed);
        match Kind::of(self.era(), &result).told(result, &self.config)? {
            Told::Result(result) => Ok(Reply::Result(result)),
            Told::Input(input) => Ok(Reply::InputRequired(input)),
            Told::Task(task) => {
                let followed = FollowedTask::new(self, task, waiting.entered.open.client());
                // The task has begun before its call ends, so that each message in between belongs to its client.
                drop(waiting);
                followed.follow(call).await
            }
        }
    }

    /// Puts a call aside until its questions are answered.
    fn park(
        self: &Arc<Self>,
        call: &ServerCall,
        mut waiting: Waiting,
        asked: Vec<Asked>,
    ) -> InputRequired {
        waiting.place = None;
        waiting.entered.open.park();
        let parked = Parked {
            session: Arc::clone(self),
            waiting,
            asked,
        };
        self.parking
            .park(parked, &call.cx, self.config.answer_timeout)
    }

    /// Sends a request of our own, whose answer may end what it opens. Nothing can be asked
    /// meanwhile.
    pub(in crate::client) fn open_call(self: &Arc<Self>, call: &ServerCall) -> Waiting {
        let whose = match &*call.method {
            "resources/subscribe" | "resources/unsubscribe" => Whose::Watchers,
            _ => Whose::Ours,
        };
        let entered = self.enter(call, whose);
        let outgoing = self.outgoing(entered.number, call, None);
        let response = self.link.request(outgoing);
        Waiting {
            departure: None,
            place: None,
            entered,
            response,
        }
    }

    fn outgoing(&self, number: u64, call: &ServerCall, state: Option<&str>) -> Outgoing {
        let id = RequestId::from_number(number);
        let caller = call.cx.caller.client.as_deref();
        let caller = caller.filter(|_| self.config.names_callers).map(named);
        let params = match self.facts.get() {
            Some(facts) => Envelope {
                revision: facts.revision,
                caller: self.caller(facts, call),
                info: caller.as_ref().unwrap_or(&self.config.client_info),
                call,
                id: &id,
                state,
                // An orchestrator answers as its callers would be answered by itself.
                follows: !self.config.names_callers,
            }
            .params(),
            None => call.params.clone(),
        };
        Outgoing {
            id,
            method: call.method.clone().into_owned(),
            params,
            name: match self.transport {
                TransportType::Http => call.name.clone().or_else(|| meant(call)),
                TransportType::Stdio | TransportType::Quic => None,
            },
            headers: call.headers.clone(),
            along: call.cx.along.clone(),
            departure: None,
        }
    }

    /// What the caller can be asked for, where the server is to know that it is less than was said
    /// for all callers.
    fn caller(&self, facts: &ServerFacts, call: &ServerCall) -> Option<ClientFeatures> {
        let all = self.config.features;
        let can = call.cx.features.and(all);
        (facts.can.translation && facts.revision.era() == Era::Session && can != all).then_some(can)
    }

    fn enter(self: &Arc<Self>, call: &ServerCall, whose: Whose) -> Entered {
        let number = self.next_id();
        let open = Arc::new(OpenCall::new(&call.cx, whose, tasks::awaited(call)));
        self.calls().insert(number, Arc::clone(&open));
        if whose == Whose::Caller {
            self.busy.fetch_add(1, Ordering::Relaxed);
        }
        Entered {
            session: Arc::downgrade(self),
            number,
            open,
            done: AtomicBool::new(false),
        }
    }
}

/// What a call of the stateless era that failed comes to whose server wanted to ask what its caller
/// cannot answer: who declares nothing is told what to declare (MCP 2026-07-28, capabilities).
fn refused_for_want(call: &ServerCall, open: &OpenCall, answer: Answer) -> Answer {
    let (Some(lacked), Some(Era::Stateless)) = (open.lacked(), call.cx.era) else {
        return answer;
    };
    let failed = answer.as_ref().map_or(true, |result| {
        let flag = result.member("isError");
        flag.is_some_and(|flag| flag.as_str() == "true")
    });
    if failed {
        Err(lacking(&lacked))
    } else {
        answer
    }
}

/// A caller as a client of its own. Of which version it is, it may have said, and nobody remembers.
fn named(caller: &str) -> ClientInfo {
    ClientInfo {
        name: caller.to_owned(),
        version: "unknown".to_owned(),
    }
}

/// The tool, prompt or URI that a call means whose caller has not said.
fn meant(call: &ServerCall) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Meant<'a> {
        #[serde(borrow)]
        name: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow)]
        uri: Option<std::borrow::Cow<'a, str>>,
    }
    let meant: Meant<'_> = call.params.as_ref()?.parse().ok()?;
    match &*call.method {
        "tools/call" | "prompts/get" => meant.name.map(std::borrow::Cow::into_owned),
        "resources/read" => meant.uri.map(std::borrow::Cow::into_owned),
        _ => None,
    }
}

/// One of the calls that a server has at once; given back when nobody holds it any more.
pub(in crate::client) type Place = Arc<OwnedSemaphorePermit>;

/// A call that was sent and not answered yet.
pub(in crate::client) struct Waiting {
    /// How far it has come, where its answer may be the name of a task that goes on until it is
    /// cancelled.
    departure: Option<Departure>,
    place: Option<Place>,
    entered: Entered,
    response: BoxFuture<Result<Answer, ClientError>>,
}

impl Waiting {
    /// What is known of it while it is open.
    pub(in crate::client) fn open(&self) -> Arc<OpenCall> {
        Arc::clone(&self.entered.open)
    }

    /// Its answer. May be dropped, and waited for once more.
    pub(in crate::client) async fn ended(&mut self) -> Result<Answer, ClientError> {
        let answer = (&mut self.response).await;
        self.entered.done();
        answer
    }
}

impl Drop for Waiting {
    /// Whoever goes away while the name of a task is on its way has that task cancelled as well. What
    /// has not left by then never does, and the server need not be told of it.
    fn drop(&mut self) {
        let Some(departure) = &self.departure else {
            return;
        };
        if self.entered.done.load(Ordering::Relaxed) {
            return;
        }
        if !departure.give_up() {
            return self.entered.done();
        }
        if let Some(session) = self.entered.session.upgrade() {
            let response = std::mem::replace(&mut self.response, Box::pin(pending()));
            tasks::give_up(session, &self.entered.open, response, self.place.take());
        }
    }
}

/// Holds the place of a call; when it is dropped before the call is done, the server is told that
/// nobody waits any more.
struct Entered {
    session: Weak<Session>,
    number: u64,
    open: Arc<OpenCall>,
    done: AtomicBool,
}

impl Entered {
    /// The call was answered, or never left.
    fn done(&self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(session) = self.session.upgrade() else {
            return;
        };
        let is_done = self.done.load(Ordering::Relaxed);
        if !is_done && self.open.whose == Whose::Caller {
            let time = session.config.call_timeout;
            session.background.abandon(self.open.client(), time);
        }
        session.calls().remove(&self.number);
        // It has ended before its caller was asked.
        refuse(&session, self.open.take_questions());
        if self.open.whose == Whose::Caller {
            session.busy.fetch_sub(1, Ordering::Relaxed);
            *session.last_used() = Instant::now();
        }
        // Closing the stream of its response says it over stateless HTTP.
        let by_stream = session.transport == TransportType::Http && session.era() == Era::Stateless;
        if is_done || by_stream || session.facts().is_none() {
            return;
        }
        let params = format!(
            r#"{{"requestId":{},"reason":"the caller does not wait any more"}}"#,
            self.number
        );
        let params = serde_json::from_str(&params).map(RawJson::from_raw).ok();
        spawn(session.link.notify("notifications/cancelled", params));
    }
}
