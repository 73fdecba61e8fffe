//! The server side of one MCP connection, pure: lines and outcomes in, bytes and jobs out.
//!
//! It waits for nothing and reads no clock. A driver feeds it lines, runs the jobs it hands out
//! and brings back each job's outcome, exactly once, cancelled jobs included, unless it made a task
//! of it. Both eras live on one connection: a request is stateless exactly when its `_meta` names
//! its revision.

mod batch;
mod calls;
mod input;
mod open;
mod received;
mod requests;
mod skills;
mod step;
mod subscriptions;
mod targets;
mod tasks;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use orchestra_hub::{Attachment, HubNotice, LogLevel, Outcome, ProviderError};
use orchestra_wire::{
    ErrorCode, Frame, Inbound, Line, Malformed, Message, Method, NotificationRef, Pending,
    RequestId, Revision, Rope, RpcError, parse, shown, write,
};

use crate::{
    http::{Eras, Identity},
    report::{Emit, SessionReports},
    results::Results,
    server::Server,
    tasks::TaskWatch,
    told::{ClientCapabilities, MetaCache, RequestMeta},
};
use batch::Batch;
pub(crate) use calls::too_large;
use input::Question;
use open::{Kind, Open, Stage};
pub(crate) use received::{Asker, Received};
pub use step::{Job, Step, Ticket};
use subscriptions::Subscriptions;
pub(crate) use targets::named;

/// Requests of ours that a client may leave open.
const MAX_QUESTIONS: usize = 256;

/// Calls that may wait for answers of the client, beside those that run and queue.
const MAX_ASKING: usize = 256;

/// How long a connection lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until its stream ends, so that the client can be told things later.
    Stream,
    /// As long, but each request has a stream of its own, and what a call says belongs there.
    Requests,
    /// For one message and its answer, where other messages may open streams that tell of changes
    /// (MCP 2026-07-28, Streamable HTTP).
    Posted,
    /// For one message and its answer; nothing can be subscribed to.
    Message,
}

/// A connection of a [`Server`].
pub struct Connection {
    server: Server,
    lifetime: Lifetime,
    attachment: Arc<Attachment>,
    emit: Arc<dyn Emit>,
    session: Session,
    open: Pending<Open>,
    questions: Pending<Question>,
    /// The client has changed its roots, and was not asked for the new ones.
    has_changed_roots: bool,
    /// The last question for roots that the client did not answer in time.
    missed_roots: Option<RequestId>,
    next_serial: u64,
    /// Jobs that were handed out and whose outcome has not come back.
    running: usize,
    queue: VecDeque<(Job, usize)>,
    queued_bytes: usize,
    batches: HashMap<u64, Batch>,
    subscriptions: Subscriptions,
    next_expiry: Option<Instant>,
    metas: MetaCache,
    eras: Eras,
    /// Who the client is, as far as tasks need to know.
    owner: Identity,
    asker: Asker,
    /// Where it is told which tasks have changed; for connections that can tell their client.
    task_watch: Option<Arc<TaskWatch>>,
}

impl Lifetime {
    const fn is_of_one_message(self) -> bool {
        matches!(self, Self::Posted | Self::Message)
    }
}

/// What `initialize` has agreed upon.
struct Session {
    revision: Option<Revision>,
    initialized: bool,
    /// From which level on it has asked for log messages.
    level: Option<LogLevel>,
    client: Option<Arc<str>>,
    capabilities: ClientCapabilities,
    reports: Arc<SessionReports>,
}

/// What became of one message.
enum Handled {
    Nothing,
    /// A reply was written.
    Written,
    /// A reply was written that must leave before any notice.
    WrittenFirst,
    Run(Job),
}

impl Connection {
    /// Knows what others have said about themselves.
    pub(crate) fn knowing(&mut self, metas: MetaCache) {
        self.metas = metas;
    }

    /// Names only the revisions of these eras, which are served where it came from.
    pub(crate) fn serving(&mut self, eras: Eras) {
        self.eras = eras;
    }

    /// A connection. What its calls report while they run goes to `emit`.
    #[must_use]
    pub fn new(
        server: Server,
        attachment: Arc<Attachment>,
        emit: Arc<dyn Emit>,
        lifetime: Lifetime,
    ) -> Self {
        let limits = &server.0.limits;
        let session = Session {
            revision: None,
            initialized: false,
            level: None,
            client: None,
            capabilities: ClientCapabilities::default(),
            reports: Arc::new(SessionReports::new(Arc::clone(&emit))),
        };
        Self {
            open: Pending::new(limits.running + limits.queued + MAX_ASKING),
            questions: Pending::new(MAX_QUESTIONS),
            next_serial: 0,
            running: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            batches: HashMap::new(),
            subscriptions: Subscriptions::default(),
            next_expiry: None,
            has_changed_roots: false,
            missed_roots: None,
            metas: MetaCache::default(),
            eras: server.0.eras,
            owner: Identity::Anyone,
            asker: Asker {
                name: server.0.client.clone(),
                ..Asker::default()
            },
            task_watch: (lifetime == Lifetime::Stream).then(Arc::default),
            session,
            lifetime,
            server,
            attachment,
            emit,
        }
    }

    /// Takes one frame of the stream. Replies are appended to `out`, each with a line end.
    pub fn on_frame(&mut self, frame: &Frame<'_>, now: Instant, out: &mut Rope) -> Step {
        match frame {
            Frame::Line(line) => self.on_line(line, now, out),
            Frame::TooLong => {
                let most = self.server.0.limits.line_bytes;
                let text = format!("invalid request: a line may have at most {most} bytes");
                write::error(out, None, &RpcError::invalid_request(text));
                out.push_byte(b'\n');
                Step::Nothing
            }
        }
    }

    /// Takes one line. Replies are appended to `out`, each with a line end.
    pub fn on_line(&mut self, line: &Line<'_>, now: Instant, out: &mut Rope) -> Step {
        self.on_inbound(&parse(line.as_bytes()), line, now, out)
    }

    /// As [`on_line`](Self::on_line), for one that was parsed already.
    pub(crate) fn on_received(
        &mut self,
        received: &Received<'_>,
        now: Instant,
        out: &mut Rope,
    ) -> Step {
        self.on_inbound(&received.inbound, &received.line, now, out)
    }

    fn on_inbound(
        &mut self,
        inbound: &Result<Inbound<'_>, Malformed>,
        line: &Line<'_>,
        now: Instant,
        out: &mut Rope,
    ) -> Step {
        self.expire(now, out);
        let step = self.on_received_message(inbound, line, now, out);
        match (self.ask_changed_roots(now, out), step) {
            (true, Step::Nothing) => Step::Watch,
            (_, step) => step,
        }
    }

    fn on_received_message(
        &mut self,
        inbound: &Result<Inbound<'_>, Malformed>,
        line: &Line<'_>,
        now: Instant,
        out: &mut Rope,
    ) -> Step {
        match inbound {
            Ok(Inbound::One(message)) => match self.on_message(message, line, None, now, out) {
                Handled::Nothing => Step::Nothing,
                Handled::Written => {
                    out.push_byte(b'\n');
                    Step::Nothing
                }
                Handled::WrittenFirst => {
                    out.push_byte(b'\n');
                    Step::Flush
                }
                Handled::Run(job) => Step::Run(job),
            },
            Ok(Inbound::Batch(items)) => self.on_batch(items, now, out),
            Ok(Inbound::BatchTooLong) => self.on_long_batch(out),
            Err(malformed) => {
                write_malformed(out, malformed);
                out.push_byte(b'\n');
                Step::Nothing
            }
        }
    }

    /// Takes the outcome of a job. Replies are appended to `out`.
    pub fn on_outcome(
        &mut self,
        ticket: &Ticket,
        outcome: Result<Outcome, ProviderError>,
        now: Instant,
        out: &mut Rope,
    ) -> Step {
        self.running = self.running.saturating_sub(1);
        if let Ok(Outcome::InputRequired(input)) = outcome {
            let open = self.open.get(&ticket.id);
            if open.is_none_or(|open| open.serial != ticket.serial) {
                return Step::Nothing;
            }
            return self.on_input_required(ticket, input, now, out);
        }
        self.settle(ticket, outcome, out);
        Step::Nothing
    }

    /// When [`on_time`](Self::on_time) is to be called, if ever: a client has to answer a request
    /// of ours by then.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.next_expiry
    }

    /// Takes what time it is. What the passing of time says is appended to `out`. Calls that go on are those of
    /// [`next_ready`](Self::next_ready).
    pub fn on_time(&mut self, now: Instant, out: &mut Rope) {
        self.expire(now, out);
    }

    /// The next call whose turn has come, if any.
    pub fn next_ready(&mut self) -> Option<Job> {
        if self.running >= self.server.0.limits.running {
            return None;
        }
        let (job, bytes) = self.queue.pop_front()?;
        self.queued_bytes -= bytes;
        if let Some(open) = self.open.get_mut(&job.ticket.id) {
            open.stage = Stage::Running;
        }
        self.running += 1;
        Some(job)
    }

    /// Whether [`next_ready`](Self::next_ready) has one.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.queue.is_empty() && self.running < self.server.0.limits.running
    }

    /// Whether a call waits for its turn.
    #[must_use]
    pub fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether no call runs, queues or waits for the client.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.running == 0
    }

    /// Takes a notice of the hub and appends what the client wants to hear of it.
    pub fn on_notice(&mut self, notice: &HubNotice, out: &mut Rope) {
        self.tell(notice, out);
    }

    /// Cancels all calls; none of them is answered.
    pub fn cancel_all(&mut self) {
        self.queue.clear();
        self.queued_bytes = 0;
        self.batches.clear();
        self.open.retain(|_, open| {
            open.stop();
            false
        });
        self.questions.retain(|_, _| false);
    }

    /// Answers the calls that wait for the client, and ends the subscriptions in good order; for the
    /// end of a connection that still can be written to.
    pub fn close(&mut self, out: &mut Rope) {
        self.end_questions(out);
        self.end_listens(out);
    }

    fn results(&self, revision: Revision) -> Results<'_> {
        Results {
            server: &self.server.0,
            revision,
            lifetime: self.lifetime,
            eras: self.eras,
        }
    }

    /// Takes one message. The answer to a request is appended without a line end; whatever else
    /// has to be said is appended as whole lines.
    fn on_message(
        &mut self,
        message: &Message<'_>,
        line: &Line<'_>,
        batch: Option<u64>,
        now: Instant,
        out: &mut Rope,
    ) -> Handled {
        match message {
            Message::Request(request) => match self.on_request(request, line, batch, now, out) {
                Ok(handled) => handled,
                Err(error) => {
                    write::error(out, Some(&request.id), &error);
                    Handled::Written
                }
            },
            Message::Notification(notification) => {
                self.on_notification(notification, out);
                Handled::Nothing
            }
            Message::Response(response) => match self.on_answer(response, out) {
                Some(job) => Handled::Run(job),
                None => Handled::Nothing,
            },
        }
    }

    fn on_notification(&mut self, notification: &NotificationRef<'_>, out: &mut Rope) {
        match Method::parse(&notification.method) {
            Some(Method::Initialized) => self.session.initialized = true,
            Some(Method::RootsListChanged) => {
                self.attachment.roots_changed();
                self.has_changed_roots = true;
            }
            Some(Method::Cancelled) => self.on_cancelled(&notification.params, out),
            _ => tracing::debug!(method = %shown(&notification.method), "ignored a notification"),
        }
    }

    /// What `initialize` has agreed upon, if it was called.
    pub(crate) const fn revision(&self) -> Option<Revision> {
        self.session.revision
    }

    /// The revision of a request: what it says itself, or else what its session agreed upon.
    fn revision_of(&self, meta: &RequestMeta<'_>) -> Revision {
        let own = meta.stateless.as_ref().map(|meta| meta.revision);
        own.or(self.session.revision)
            .unwrap_or(Revision::NEWEST_SESSION)
    }

    fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }
}

impl Drop for Connection {
    /// A call that runs on a thread of its own hears of the end in no other way.
    fn drop(&mut self) {
        self.cancel_all();
    }
}

fn write_malformed(out: &mut Rope, malformed: &Malformed) {
    write::error(out, malformed.id.as_ref(), &malformed.error);
}

fn internal(text: impl Into<std::borrow::Cow<'static, str>>) -> RpcError {
    RpcError::new(ErrorCode::INTERNAL_ERROR, text)
}
