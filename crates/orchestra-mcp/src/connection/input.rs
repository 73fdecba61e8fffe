//! Calls that need answers of the client before they can go on. A stateless client gets an
//! input-required result and calls again; for a session the engine sends the requests itself and
//! makes the call again.

use std::time::{Duration, Instant};

use orchestra_hub::{
    Answers, Caller, Content, Cx, InputRequired, Outcome, ProgressSink, ProviderError, Remark,
    Request, Target, ToolResult,
};
use orchestra_wire::{
    Era, ErrorCode, RawJson, Reply, RequestId, ResponseRef, Rope, RpcError, write,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Connection, Job, Kind, Open, Stage, Step, Ticket, internal};
use crate::{
    report::cancelled,
    seal::Purpose,
    told::Ask,
    translation,
    wanted::{
        NOTHING_ASKED, NOTHING_CAN_BE_ASKED, TOO_OFTEN, UNKNOWN_FORM, Wanted, lacking, understand,
    },
};

/// Longest time in which a client answers `roots/list`, for which it asks no user. After that the call continues without
/// roots.
const ROOTS_ANSWER: Duration = Duration::from_secs(5);

/// A call that waits for answers.
#[derive(Debug)]
pub(super) struct Asking {
    keys: Vec<String>,
    answers: Vec<Option<RawJson>>,
    state: Option<String>,
    /// Whether an error of the client answers a question.
    takes_errors: bool,
}

/// A request of ours that the client has not answered.
#[derive(Debug)]
pub(super) struct Question {
    /// The call that asks; `None` for roots that the client has changed.
    ticket: Option<Ticket>,
    /// Which of the call's questions it is.
    place: usize,
    method: String,
    expires: Instant,
}

impl Connection {
    pub(super) fn on_input_required(
        &mut self,
        ticket: &Ticket,
        mut input: InputRequired,
        now: Instant,
        out: &mut Rope,
    ) -> Step {
        let Some(open) = self.open.get(&ticket.id) else {
            return Step::Nothing;
        };
        let (era, kind, capabilities) = (open.era(), open.kind, open.capabilities);
        // MCP 2026-07-28, multi round-trip requests: no other results ask for input.
        if era == Era::Stateless && kind == Kind::Other {
            self.fail(ticket, internal(NOTHING_CAN_BE_ASKED), out);
            return Step::Nothing;
        }
        let requests = input.requests.clone();
        let Some((wanted, asks)) = understand(&requests) else {
            self.fail(ticket, internal(UNKNOWN_FORM), out);
            return Step::Nothing;
        };
        let missing: Vec<Ask> = asks
            .into_iter()
            .filter(|ask| !capabilities.can(*ask))
            .collect();
        if !missing.is_empty() {
            self.lacks_capability(ticket, era, &missing, out);
            return Step::Nothing;
        }
        if wanted.0.is_empty() && input.state.is_none() {
            self.fail(ticket, internal(NOTHING_ASKED), out);
            return Step::Nothing;
        }
        match era {
            Era::Stateless => {
                input.state = input.state.map(|state| self.seal(ticket, &state, now));
                self.settle(ticket, Ok(Outcome::InputRequired(input)), out);
                Step::Nothing
            }
            Era::Session => self.ask(ticket, &wanted, input.state, input.takes_errors, now, out),
        }
    }

    /// Seals a state for its way through the client, who may bring it back as long as it may take
    /// to answer. A call that could not have asked for anything is not kept: its state fits whatever
    /// its caller asks for.
    fn seal(&self, ticket: &Ticket, state: &str, now: Instant) -> String {
        let target = self
            .open
            .get(&ticket.id)
            .and_then(|open| open.again.as_ref());
        let purpose = match target {
            Some(target) => Purpose::of(self.owner, target),
            None => Purpose::any(self.owner),
        };
        let server = &self.server.0;
        server
            .sealer
            .seal(state, &purpose, now, server.limits.answer)
    }

    /// Sends the questions of a session's call, also where the client has not said yet that it is
    /// initialized: a call that it made needs them, and it cannot mean to wait for its own notice.
    fn ask(
        &mut self,
        ticket: &Ticket,
        wanted: &Wanted<'_>,
        state: Option<String>,
        takes_errors: bool,
        now: Instant,
        out: &mut Rope,
    ) -> Step {
        let limits = &self.server.0.limits;
        let (answer, roots_answer) = (limits.answer, limits.answer.min(ROOTS_ANSWER));
        let most = limits.rounds;
        let Some(open) = self.open.get_mut(&ticket.id) else {
            return Step::Nothing;
        };
        open.rounds += 1;
        if open.rounds > most || open.again.is_none() {
            self.fail(ticket, internal(TOO_OFTEN), out);
            return Step::Nothing;
        }
        if wanted.0.is_empty() {
            let answers = Answers {
                responses: RawJson::empty_object(),
                state,
            };
            return self.again(ticket, answers).map_or(Step::Nothing, Step::Run);
        }
        let translates = open.capabilities.translates;
        let mark = out.mark();
        for (place, (key, request)) in wanted.0.iter().enumerate() {
            let mut question = Question {
                ticket: Some(ticket.clone()),
                place,
                method: request.method.clone(),
                expires: now + answer,
            };
            if question.is_for_roots() {
                question.expires = now + roots_answer;
            }
            let expires = question.expires;
            self.next_expiry = Some(self.next_expiry.map_or(expires, |next| next.min(expires)));
            let Ok(id) = self.questions.issue(question) else {
                out.cut_back(mark);
                self.questions
                    .retain(|_, question| !question.is_of(ticket.serial));
                self.fail(
                    ticket,
                    internal("busy: too many questions wait for the client"),
                    out,
                );
                return Step::Nothing;
            };
            let mut params = request.params.map(RawJson::from_raw);
            if translates {
                let count = wanted.0.len();
                let told = translation::question(params.as_ref(), key, count, &ticket.id);
                params = Some(told);
            }
            write::request(out, &id, &request.method, params.as_ref());
            out.push_byte(b'\n');
        }
        let asking = Asking {
            keys: wanted.0.iter().map(|(key, _)| key.clone()).collect(),
            answers: vec![None; wanted.0.len()],
            state,
            takes_errors,
        };
        if let Some(open) = self.open.get_mut(&ticket.id) {
            open.stage = Stage::Asking(Box::new(asking));
        }
        Step::Watch
    }

    /// Asks the client for the roots that it has changed, where a server has the earlier ones. Its earlier answer would
    /// be out of date.
    pub(super) fn ask_changed_roots(&mut self, now: Instant, out: &mut Rope) -> bool {
        let is_changed = std::mem::take(&mut self.has_changed_roots);
        let can_ask = self.session.revision.is_some() && self.session.capabilities.can(Ask::Roots);
        if !is_changed || !can_ask || !self.attachment.has_given_roots() {
            return false;
        }
        self.questions
            .retain(|_, question| question.ticket.is_some());
        let expires = now + self.server.0.limits.answer.min(ROOTS_ANSWER);
        let question = Question {
            ticket: None,
            place: 0,
            method: "roots/list".to_owned(),
            expires,
        };
        // Where too many questions wait, the next call asks.
        let Ok(id) = self.questions.issue(question) else {
            return false;
        };
        self.next_expiry = Some(self.next_expiry.map_or(expires, |next| next.min(expires)));
        write::request(out, &id, "roots/list", None);
        out.push_byte(b'\n');
        true
    }

    /// Takes the client's response to a request of ours; the job, when the call can go on.
    pub(super) fn on_answer(&mut self, response: &ResponseRef<'_>, out: &mut Rope) -> Option<Job> {
        let question = response.id.as_ref().and_then(|id| {
            let exact = self.questions.close(id);
            exact.or_else(|| self.questions.close(&id.other_form()?))
        });
        let Some(question) = question else {
            self.on_late_answer(response);
            return None;
        };
        let answer = match response.reply {
            Reply::Result(result) => RawJson::from_raw(result),
            Reply::Error(_) if question.is_for_roots() => no_roots(),
            Reply::Error(error) if self.takes_errors(&question) => translation::refusal(error),
            Reply::Error(error) => {
                let ticket = question.ticket?;
                self.withdraw_questions(ticket.serial, out);
                let text = format!(
                    "the client refused {}: {}",
                    question.method,
                    message_of(error)
                );
                self.fail(&ticket, internal(text), out);
                return None;
            }
        };
        let Some(ticket) = &question.ticket else {
            self.attachment.set_roots(&answer);
            return None;
        };
        let answers = self.fill_in(&question, answer)?;
        self.again(ticket, answers)
    }

    /// Returns whether an error of the client answers a question.
    fn takes_errors(&self, question: &Question) -> bool {
        let ticket = question.ticket.as_ref();
        let open = ticket.and_then(|ticket| self.open.get(&ticket.id));
        let stage = open.map(|open| &open.stage);
        matches!(stage, Some(Stage::Asking(asking)) if asking.takes_errors)
    }

    /// Notes an answer to a question. Returns the answers to all questions of the call, once none is missing.
    fn fill_in(&mut self, question: &Question, answer: RawJson) -> Option<Answers> {
        let open = self.open.get_mut(&question.ticket.as_ref()?.id)?;
        let Stage::Asking(asking) = &mut open.stage else {
            return None;
        };
        asking.answers[question.place] = Some(answer);
        let is_whole = asking.answers.iter().all(Option::is_some);
        is_whole.then(|| Answers {
            responses: asking.responses(),
            state: asking.state.take(),
        })
    }

    /// Takes an answer that no question waits for. A client that names its roots too late has them from now on.
    fn on_late_answer(&mut self, response: &ResponseRef<'_>) {
        let is_late = |late: &RequestId| {
            let given = response.id.as_ref();
            given.is_some_and(|id| id == late || id.other_form().as_ref() == Some(late))
        };
        if self.missed_roots.as_ref().is_some_and(is_late) {
            self.missed_roots = None;
            self.attachment.roots_changed();
        } else {
            tracing::debug!("ignored a response without a matching request");
        }
    }

    /// Makes the call again with the client's answers; when too many run, it queues.
    fn again(&mut self, ticket: &Ticket, answers: Answers) -> Option<Job> {
        let (job, bytes) = self.repeated(ticket, answers)?;
        if self.running < self.server.0.limits.running {
            self.open.get_mut(&ticket.id)?.stage = Stage::Running;
            self.running += 1;
            return Some(job);
        }
        self.enqueue(job, bytes);
        None
    }

    fn enqueue(&mut self, job: Job, bytes: usize) {
        self.queued_bytes += bytes;
        self.queue.push_back((job, bytes));
    }

    /// The call with the client's answers, as it waits for its turn, and the size of the answers.
    fn repeated(&mut self, ticket: &Ticket, answers: Answers) -> Option<(Job, usize)> {
        let face = self.attachment.caller().face;
        let connection = self.attachment.number();
        let client = self.session.client.clone();
        let open = self.open.get_mut(&ticket.id)?;
        let target: Target = (**open.again.as_ref()?).clone();
        open.stage = Stage::Queued;
        let bytes = answers.responses.as_bytes().len();
        let progress = match &open.reports {
            Some(reports) => ProgressSink::new(reports.clone()),
            None => ProgressSink::new(self.session.reports.clone()),
        };
        let cx = Cx {
            deadline: None,
            cancel: open.cancel.signal(),
            progress,
            caller: Caller { face, client },
            features: open.capabilities.features,
            answers: Some(answers),
            trace: open.trace.clone(),
            log_level: open.log_level,
            connection,
            roots_version: self.attachment.roots_version(),
            along: self.asker.along.clone(),
            params: open.params.clone(),
            remark: Remark::default(),
            era: Some(Era::Session),
            long: false,
            later: None,
        };
        let job = Job {
            ticket: ticket.clone(),
            request: Box::new(Request { target, cx }),
        };
        Some((job, bytes))
    }

    /// Ends the calls that wait for the client, which cannot answer any more.
    pub(super) fn end_questions(&mut self, out: &mut Rope) {
        let asking = self
            .open
            .iter()
            .filter(|(_, open)| matches!(open.stage, Stage::Asking(_)));
        let asking: Vec<Ticket> = asking
            .map(|(id, open)| Ticket {
                id: id.clone(),
                serial: open.serial,
            })
            .collect();
        for ticket in asking {
            self.withdraw_questions(ticket.serial, out);
            let text = "the connection ended before the client answered";
            self.fail(&ticket, internal(text), out);
        }
    }

    fn lacks_capability(&mut self, ticket: &Ticket, era: Era, missing: &[Ask], out: &mut Rope) {
        let lacking = lacking(missing);
        let translates = |open: &Open| open.capabilities.translates;
        match (era, self.open.get(&ticket.id).is_some_and(translates)) {
            (Era::Session, false) => self.fail(ticket, internal(lacking.message), out),
            (Era::Stateless, _) => self.fail(ticket, lacking, out),
            // It knows in which words its own caller is told.
            (Era::Session, true) => self.settle(ticket, Err(refused(lacking)), out),
        }
    }

    /// Ends a call with an error; for a session's tool that is a result the model can read.
    fn fail(&mut self, ticket: &Ticket, error: RpcError, out: &mut Rope) {
        let reads = |open: &Open| open.kind == Kind::Tool && open.era() == Era::Session;
        let outcome = if self.open.get(&ticket.id).is_some_and(reads) {
            Ok(failed(error.message.into_owned()))
        } else {
            Err(refused(error))
        };
        self.settle(ticket, outcome, out);
    }

    /// Takes back what was asked for a call and is not answered.
    pub(super) fn withdraw_questions(&mut self, serial: u64, out: &mut Rope) {
        self.questions.retain(|id, question| {
            let keep = !question.is_of(serial);
            if !keep {
                cancelled(out, id, "the call that asked has ended");
            }
            keep
        });
    }

    /// Ends calls whose client did not answer in time. A call that only lacks roots continues without any, as soon as
    /// [`next_ready`](Self::next_ready) is asked for it.
    pub(super) fn expire(&mut self, now: Instant, out: &mut Rope) {
        if self.next_expiry.is_none_or(|next| now < next) {
            return;
        }
        let is_late = |(_, question): &(&RequestId, &Question)| question.expires <= now;
        let late = self.questions.iter().filter(is_late);
        let late: Vec<RequestId> = late.map(|(id, _)| id.clone()).collect();
        for id in late {
            // Its call may have ended for another question.
            let Some(question) = self.questions.close(&id) else {
                continue;
            };
            if question.is_for_roots() {
                // It is not cancelled: a late answer counts for later calls.
                self.missed_roots = Some(id);
                let answers = self.fill_in(&question, no_roots());
                let again = question.ticket.as_ref().zip(answers);
                let job = again.and_then(|(ticket, answers)| self.repeated(ticket, answers));
                if let Some((job, bytes)) = job {
                    self.enqueue(job, bytes);
                }
                continue;
            }
            let Some(ticket) = question.ticket else {
                continue;
            };
            cancelled(out, &id, "the client did not answer in time");
            self.withdraw_questions(ticket.serial, out);
            if self
                .open
                .get(&ticket.id)
                .is_some_and(|open| open.serial == ticket.serial)
            {
                self.fail(&ticket, internal("the client did not answer in time"), out);
            }
        }
        self.next_expiry = self
            .questions
            .iter()
            .map(|(_, question)| question.expires)
            .min();
    }
}

impl Question {
    fn is_for_roots(&self) -> bool {
        self.method == "roots/list"
    }

    /// Returns whether the call with this serial number asks it.
    fn is_of(&self, serial: u64) -> bool {
        let ticket = self.ticket.as_ref();
        ticket.is_some_and(|ticket| ticket.serial == serial)
    }
}

/// The answer of a client without roots.
fn no_roots() -> RawJson {
    RawJson::from_static(r#"{"roots":[]}"#)
}

impl Asking {
    fn responses(&self) -> RawJson {
        let mut rope = Rope::new();
        for (at, (key, answer)) in self.keys.iter().zip(&self.answers).enumerate() {
            rope.push_byte(if at == 0 { b'{' } else { b',' });
            write::string(&mut rope, key);
            rope.push_byte(b':');
            match answer {
                Some(answer) => write::raw(&mut rope, answer),
                None => rope.push(b"null"),
            }
        }
        rope.push_byte(b'}');
        let text = rope.into_vec();
        serde_json::from_slice(&text).map_or_else(|_| RawJson::empty_object(), RawJson::from_raw)
    }
}

/// What a session's tool is answered where a code of the newest era says that its client cannot be
/// asked: a result that the model can read.
pub(super) fn readable(open: &Open, error: ProviderError) -> Result<Outcome, ProviderError> {
    match error {
        ProviderError::Rpc { code, message, .. }
            if code == ErrorCode::MISSING_CLIENT_CAPABILITY.0
                && open.kind == Kind::Tool
                && open.era() == Era::Session
                && !open.capabilities.translates =>
        {
            Ok(failed(message))
        }
        error => Err(error),
    }
}

fn failed(text: String) -> Outcome {
    Outcome::Tool(ToolResult {
        content: vec![Content::Text(text)],
        is_error: true,
        ..ToolResult::default()
    })
}

fn refused(error: RpcError) -> ProviderError {
    ProviderError::Rpc {
        code: error.code.0,
        message: error.message.into_owned(),
        data: error.data,
    }
}

fn message_of(error: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Message {
        message: String,
    }
    let message = serde_json::from_str::<Message>(error.get()).map(|error| error.message);
    message.unwrap_or_else(|_| "no reason given".to_owned())
}
