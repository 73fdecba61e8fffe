//! The calls of tasks: what becomes of their outcomes, and what makes them again when the client
//! has answered.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock, Weak},
    time::Instant,
};

use bytes::Bytes;
use orchestra_hub::{
    Along, Answers, Call, Caller, CancelSource, Cost, Cx, InputRequired, LogLevel, Outcome,
    ProgressListener, ProgressSink, ProviderError, Remark, Request, Target,
};
use orchestra_wire::{ErrorCode, MAX_REPLY_BYTES, RawJson, Rope, RpcError, write};
use tokio::{
    runtime::Handle,
    select,
    sync::{Notify, watch},
    time::sleep_until,
};

use super::{Event, TaskId, ledger, state::Waiting};
use crate::{
    connection::Lifetime,
    http::Eras,
    results::{Results, rpc_error},
    server::{Server, ServerInner},
    told::ClientCapabilities,
    wanted::{NOTHING_ASKED, TOO_OFTEN, UNKNOWN_FORM, Wanted, lacking, understand},
};

/// Questions of one round.
const MAX_QUESTIONS: usize = 256;

/// The largest result that is kept: with what a task says around it, it still fits into a reply.
const MAX_RESULT_BYTES: usize = MAX_REPLY_BYTES - 64 * 1024;

type Answer = Result<Outcome, ProviderError>;
type Running = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What is needed to make the call of a task again.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) target: Box<Target>,
    pub(crate) caller: Caller,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) connection: u64,
    pub(crate) roots_version: u64,
    pub(crate) along: Along,
    pub(crate) params: Option<RawJson>,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) trace: Option<String>,
    pub(crate) revision: orchestra_wire::Revision,
    pub(crate) cancel: CancelSource,
    pub(crate) reports: Arc<LongReports>,
}

/// A task whose call runs. A driver brings the outcome of the call to [`settle`](Self::settle) and
/// then does what [`turn`](Self::turn) says, until the task is over.
pub struct TaskWork {
    server: Weak<ServerInner>,
    id: TaskId,
    /// Until no call follows.
    terms: Option<Terms>,
    rounds: u32,
}

/// What a driver of a task is to do.
#[derive(Debug)]
pub enum TaskTurn {
    /// Make this call, and bring its outcome.
    Call(Box<Request>),
    /// Ask again when the bell rings, and then.
    Wait(Arc<Notify>, Instant),
    /// Nothing any more.
    Over,
}

/// What a call reports: as any call does while its request is open, and then as how far its task
/// is (MCP, extension tasks: there is no progress of tasks but their status).
pub(crate) struct LongReports {
    request: ProgressSink,
    task: OnceLock<(Weak<ServerInner>, TaskId)>,
}

impl TaskWork {
    pub(crate) fn new(server: &Server, id: TaskId, terms: Terms) -> Self {
        let server = Arc::downgrade(&server.0);
        let _ = terms.reports.task.set((server.clone(), id));
        Self {
            server,
            id,
            terms: Some(terms),
            rounds: 0,
        }
    }

    /// Takes the outcome of the call.
    pub fn settle(&mut self, outcome: Result<Outcome, ProviderError>, now: Instant) {
        let (Some(server), Some(terms)) = (self.server.upgrade(), &self.terms) else {
            return;
        };
        let is_cancelled = terms.cancel.signal().is_cancelled();
        let event = match outcome {
            // Nobody will answer.
            Ok(Outcome::InputRequired(_)) if is_cancelled => Event::Cancelled("cancelled"),
            Ok(Outcome::InputRequired(input)) => {
                self.rounds += 1;
                let most = server.limits.rounds;
                match (self.rounds <= most).then(|| asked(input, terms.capabilities, self.rounds)) {
                    Some(Ok(waiting)) => Event::Asked(waiting),
                    Some(Err(error)) => Event::Failed(error),
                    None => Event::Failed(internal(TOO_OFTEN)),
                }
            }
            Ok(outcome) => completed(&server, terms.revision, outcome),
            Err(ProviderError::Cancelled) => Event::Cancelled("cancelled"),
            Err(error) => Event::Failed(rpc_error(error, terms.revision)),
        };
        if server.tasks.happened(self.id, event, now) {
            self.terms = None;
        }
    }

    /// What to do now.
    pub fn turn(&mut self, now: Instant) -> TaskTurn {
        let Some(server) = self.server.upgrade() else {
            return TaskTurn::Over;
        };
        match server.tasks.turn(self.id, now) {
            ledger::Turn::Wait(bell, until) => {
                if server.tasks.is_over(self.id) {
                    self.terms = None;
                }
                TaskTurn::Wait(bell, until)
            }
            ledger::Turn::Over => TaskTurn::Over,
            ledger::Turn::Again(answers) => match &self.terms {
                Some(terms) => TaskTurn::Call(Box::new(terms.request(answers))),
                None => TaskTurn::Over,
            },
        }
    }

    /// Runs the task, whose first call is `call`, until it is forgotten; when `stop` turns true it
    /// is cancelled.
    pub(crate) fn run(
        self,
        server: &Server,
        call: Call,
        stop: Option<watch::Receiver<bool>>,
        runtime: &Handle,
    ) {
        let running = running(server, call, runtime);
        let task = drive(self, running, stop, runtime.clone());
        server.0.tasks.spawn(task, runtime);
    }

    fn cancel(&self) {
        if let Some(terms) = &self.terms {
            terms.cancel.cancel();
        }
    }
}

/// Holds nothing that keeps the server alive while it waits.
async fn drive(
    mut work: TaskWork,
    mut running: Running,
    mut stop: Option<watch::Receiver<bool>>,
    runtime: Handle,
) {
    'call: loop {
        let outcome = select! {
            outcome = &mut running => outcome,
            () = crate::http::stopped(&mut stop) => {
                work.cancel();
                work.settle(Err(ProviderError::Cancelled), Instant::now());
                return;
            }
        };
        work.settle(outcome, Instant::now());
        loop {
            let (bell, until) = match work.turn(Instant::now()) {
                TaskTurn::Over => return,
                TaskTurn::Wait(bell, until) => (bell, until),
                TaskTurn::Call(request) => {
                    let Some(server) = work.server.upgrade().map(Server) else {
                        return;
                    };
                    let call = server.0.tasks.attachment(&server).call(request);
                    running = self::running(&server, call, &runtime);
                    continue 'call;
                }
            };
            select! {
                () = bell.notified() => {}
                () = sleep_until(until.into()) => {}
                () = crate::http::stopped(&mut stop) => {
                    work.settle(Err(ProviderError::Cancelled), Instant::now());
                    return;
                }
            }
        }
    }
}

fn running(server: &Server, call: Call, runtime: &Handle) -> Running {
    match call.cost() {
        Cost::Quick => Box::pin(call),
        Cost::Heavy => Box::pin(server.0.run_heavy(call, runtime.clone())),
    }
}

fn completed(server: &ServerInner, revision: orchestra_wire::Revision, outcome: Outcome) -> Event {
    let results = Results {
        server,
        revision,
        lifetime: Lifetime::Message,
        eras: Eras::Both,
    };
    let mut rope = Rope::new();
    results.result(&mut rope, outcome);
    if rope.len() > MAX_RESULT_BYTES {
        let text = format!(
            "result_too_large: the result has more than {MAX_RESULT_BYTES} bytes, ask for less"
        );
        return Event::Failed(internal(text));
    }
    Event::Completed(Bytes::from(rope.into_vec()))
}

/// What a provider asks for in one round.
fn asked(
    input: InputRequired,
    capabilities: ClientCapabilities,
    round: u32,
) -> Result<Waiting, RpcError> {
    let (Wanted(wanted), asks) =
        understand(&input.requests).ok_or_else(|| internal(UNKNOWN_FORM))?;
    let missing = asks.into_iter().filter(|ask| !capabilities.can(*ask));
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        return Err(lacking(&missing));
    }
    if wanted.is_empty() && input.state.is_none() {
        return Err(internal(NOTHING_ASKED));
    }
    if wanted.len() > MAX_QUESTIONS {
        return Err(internal(TOO_OFTEN));
    }
    let questions = wanted.into_iter().map(|(key, request)| {
        let mut rope = Rope::new();
        rope.push(b"{\"method\":");
        write::string(&mut rope, &request.method);
        if let Some(params) = request.params {
            rope.push(b",\"params\":");
            write::raw(&mut rope, &RawJson::from_raw(params));
        }
        rope.push_byte(b'}');
        let request = serde_json::from_slice(&rope.into_vec()).map(RawJson::from_raw);
        (key, request.unwrap_or_else(|_| RawJson::empty_object()))
    });
    let questions: Vec<_> = questions.collect();
    Ok(Waiting::new(questions, input.state, round))
}

fn internal(text: impl Into<std::borrow::Cow<'static, str>>) -> RpcError {
    RpcError::new(ErrorCode::INTERNAL_ERROR, text)
}

impl Terms {
    /// The call once more, with the client's answers.
    fn request(&self, answers: Answers) -> Request {
        let reports: Arc<dyn ProgressListener> = self.reports.clone();
        Request {
            target: (*self.target).clone(),
            cx: Cx {
                deadline: None,
                cancel: self.cancel.signal(),
                progress: ProgressSink::new(reports),
                caller: self.caller.clone(),
                features: self.capabilities.features,
                answers: Some(answers),
                trace: self.trace.clone(),
                log_level: self.log_level,
                connection: self.connection,
                roots_version: self.roots_version,
                along: self.along.clone(),
                params: self.params.clone(),
                remark: Remark::default(),
                era: Some(self.revision.era()),
                long: true,
                later: None,
            },
        }
    }
}

impl LongReports {
    /// Reports to `request` until there is a task.
    pub(crate) fn new(request: ProgressSink) -> Self {
        Self {
            request,
            task: OnceLock::new(),
        }
    }
}

impl std::fmt::Debug for LongReports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let task = self.task.get().map(|(_, id)| id);
        f.debug_tuple("LongReports").field(&task).finish()
    }
}

impl ProgressListener for LongReports {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some((server, id)) = self.task.get() else {
            return self.request.progress(progress, total, message);
        };
        let Some(server) = server.upgrade() else {
            return;
        };
        let counted = || match total {
            Some(total) => format!("{progress} of {total}"),
            None => progress.to_string(),
        };
        let message = message.map_or_else(counted, str::to_owned);
        server.tasks.progress(*id, &message, Instant::now());
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: &RawJson) {
        if self.task.get().is_none() {
            self.request.log(level, logger, data);
        }
    }
}
