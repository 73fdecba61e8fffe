//! One JSON-RPC message at a time, as an HTTP POST carries it: in go the bytes of a message, out
//! come those of the answer, if it has one, and before it what the call reports.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Instant,
};

use bytes::Bytes;
use orchestra_hub::{Attachment, Call, Cost, Outcome, ProviderError};
use orchestra_wire::{Frame, RequestId, Rope, RpcError};
use serde_json::value::RawValue;
use tokio::{
    runtime::Handle,
    select,
    sync::{Notify, watch},
};

use crate::{
    connection::{Asker, Connection, Job, Lifetime, Received, Step, Ticket},
    http::{Eras, Identity, budget::Budget},
    report::Emit,
    server::Server,
    tasks::{Ended, Long, until_later},
    told::{MetaCache, RequestMeta},
};

/// Reports of a call that may wait for a slow reader, and their bytes; past that they are dropped.
const MAX_REPORTS: usize = 1_024;
const MAX_REPORT_BYTES: usize = 256 * 1024;

/// Answers single messages for one server. Nothing is kept between messages, save what the last
/// client said about itself.
pub struct Post {
    server: Server,
    attachment: Arc<Attachment>,
    metas: Mutex<MetaCache>,
    eras: Eras,
    stop: Option<watch::Receiver<bool>>,
    budget: Option<Budget>,
}

/// One message that is being answered. Dropping it cancels its call.
pub(crate) struct Answering {
    server: Server,
    attachment: Arc<Attachment>,
    connection: Connection,
    reports: Arc<Reports>,
    running: Vec<BoxFuture<(Ticket, Ended)>>,
    out: Rope,
    is_over: bool,
    stop: Option<watch::Receiver<bool>>,
}

/// What a call has reported.
#[derive(Default)]
struct Reports {
    waiting: Mutex<Waiting>,
    filled: Notify,
    /// Where what waits counts, if it does.
    budget: Option<Budget>,
}

#[derive(Default)]
struct Waiting {
    queue: VecDeque<Bytes>,
    bytes: usize,
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Reports {
    fn is_empty(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.queue.is_empty()
    }

    fn pop(&self) -> Option<Bytes> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let report = waiting.queue.pop_front()?;
        waiting.bytes -= report.len();
        Some(report)
    }
}

impl Emit for Reports {
    fn emit(&self, _request: Option<&RequestId>, message: Rope) {
        if self.budget.as_ref().is_some_and(Budget::is_spent) {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.queue.len() >= MAX_REPORTS || waiting.bytes > MAX_REPORT_BYTES {
            return;
        }
        let report = line(message);
        let report = match &self.budget {
            Some(budget) => budget.count(report),
            None => report,
        };
        waiting.bytes += report.len();
        waiting.queue.push_back(report);
        drop(waiting);
        self.filled.notify_one();
    }
}

impl Post {
    /// A face named `face` over `server`.
    #[must_use]
    pub fn new(server: &Server, face: &'static str) -> Self {
        Self {
            attachment: Arc::new(server.attach(face)),
            metas: Mutex::default(),
            eras: Eras::Both,
            server: server.clone(),
            stop: None,
            budget: None,
        }
    }

    /// Counts what waits to be read in a budget.
    pub(crate) fn within(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Names only the revisions of these eras.
    pub(crate) const fn serving(mut self, eras: Eras) -> Self {
        self.eras = eras;
        self
    }

    /// Cancels tasks of its calls when `stop` turns true.
    pub(crate) fn until(mut self, stop: Option<watch::Receiver<bool>>) -> Self {
        self.stop = stop;
        self
    }

    /// Answers one message; `None` when it wants no answer. The bytes need not be one line. What
    /// the call reports is left out. Dropping the future cancels the call. It must run inside a
    /// tokio runtime.
    pub async fn handle(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.handle_for(Identity::Anyone, message).await
    }

    /// As [`handle`](Self::handle), for a caller whose tasks nobody else finds.
    pub async fn handle_for(&self, caller: Identity, message: &[u8]) -> Option<Vec<u8>> {
        let received = Received::borrowed(message);
        self.answer(caller, &received).await.map(Into::into)
    }

    /// The answer to one message, counted where this counts.
    pub(crate) async fn answer(&self, caller: Identity, received: &Received<'_>) -> Option<Bytes> {
        let mut answering = Answering::begin(self, caller, received, Lifetime::Message);
        while let Some(message) = answering.next().await {
            if answering.is_over() {
                return Some(message);
            }
        }
        None
    }

    pub(crate) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// Understands what a request says about itself in its `_meta`.
    pub(crate) fn meta<'a>(&self, meta: &'a RawValue) -> Result<RequestMeta<'a>, RpcError> {
        // Understood outside of the lock: others wait for it, and this may be long.
        let mut known = self.metas().clone();
        let understood = known.parse(Some(meta))?;
        let mut metas = self.metas();
        if !metas.is(&known) {
            *metas = known;
        }
        Ok(understood)
    }

    fn metas(&self) -> MutexGuard<'_, MetaCache> {
        self.metas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answering {
    /// Takes a message of `owner` and starts its call.
    pub(crate) fn begin(
        post: &Post,
        owner: Identity,
        message: &Received<'_>,
        lifetime: Lifetime,
    ) -> Self {
        Self::begin_for(post, (owner, Asker::default()), message, lifetime)
    }

    /// As [`begin`](Self::begin), where more is known of whoever asks.
    pub(crate) fn begin_for(
        post: &Post,
        (owner, asker): (Identity, Asker),
        message: &Received<'_>,
        lifetime: Lifetime,
    ) -> Self {
        let (server, attachment) = (post.server.clone(), Arc::clone(&post.attachment));
        let reports = Arc::new(Reports {
            budget: post.budget.clone(),
            ..Reports::default()
        });
        let mut connection = Connection::new(
            server.clone(),
            Arc::clone(&attachment),
            reports.clone(),
            lifetime,
        );
        connection.knowing(post.metas().clone());
        connection.serving(post.eras);
        connection.owned_by(owner);
        connection.asked_by(asker);
        let (mut out, now) = (Rope::new(), Instant::now());
        server.0.activity.note(now);
        let step = if message.line.as_bytes().len() > server.0.limits.line_bytes {
            connection.on_frame(&Frame::TooLong, now, &mut out)
        } else {
            connection.on_received(message, now, &mut out)
        };
        let mut answering = Self {
            server,
            attachment,
            connection,
            reports,
            running: Vec::new(),
            out,
            is_over: false,
            stop: post.stop.clone(),
        };
        answering.start(step);
        answering
    }

    /// The next message: reports, and then the answer, if there is one.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(report) = self.reports.pop() {
                return Some(report);
            }
            if self.running.is_empty() {
                let is_first = !std::mem::replace(&mut self.is_over, true);
                return self.take_answer().filter(|_| is_first);
            }
            select! {
                biased;
                (at, (ticket, ended)) = next_done(&mut self.running) => {
                    drop(self.running.swap_remove(at));
                    match ended {
                        Ended::Answered(outcome) => self.finish(&ticket, outcome),
                        Ended::Later(call) => self.go_on(*call, ticket),
                    }
                }
                () = self.reports.filled.notified() => {}
            }
        }
    }

    /// The answer, if it is there and nothing was said before it. `None` within when there is none
    /// to be given.
    pub(crate) fn at_once(&mut self) -> Option<Option<Bytes>> {
        if !self.running.is_empty() || !self.reports.is_empty() {
            return None;
        }
        self.is_over = true;
        Some(self.take_answer())
    }

    fn take_answer(&mut self) -> Option<Bytes> {
        let answer = line(std::mem::take(&mut self.out));
        let answer = match &self.reports.budget {
            Some(budget) => budget.hold(answer),
            None => answer,
        };
        (!answer.is_empty()).then_some(answer)
    }

    /// Whether the last message was the answer.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    fn finish(&mut self, ticket: &Ticket, outcome: Result<Outcome, ProviderError>) {
        let now = Instant::now();
        let step = self
            .connection
            .on_outcome(ticket, outcome, now, &mut self.out);
        self.start(step);
        while let Some(job) = self.connection.next_ready() {
            self.start(Step::Run(job));
        }
    }

    fn start(&mut self, step: Step) {
        match step {
            Step::Nothing | Step::Watch | Step::Flush => {}
            Step::Run(job) => self.run(job),
            Step::RunAll(jobs) => jobs.into_iter().for_each(|job| self.run(job)),
        }
    }

    fn run(&mut self, job: Job) {
        let Job { ticket, request } = job;
        let long = Long::of(&request.cx);
        let attachment = match request.cx.long {
            false => &self.attachment,
            true => self.server.0.tasks.attachment(&self.server),
        };
        let mut call = attachment.call(request);
        if call.cost() == Cost::Quick {
            // The waker does nothing: whatever waits is polled again by whoever goes on with it.
            let poll = Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(outcome) = poll {
                return self.finish(&ticket, outcome);
            }
        }
        match long {
            Long::Never => self.wait_for(call, ticket),
            Long::AtOnce => self.go_on(call, ticket),
            Long::WhenSaid(later) => self.running.push(Box::pin(async move {
                let ended = until_later(call, &later).await;
                (ticket, ended)
            })),
        }
    }

    /// Makes a call a task, where there is room for one, else waits for it.
    fn go_on(&mut self, call: Call, ticket: Ticket) {
        let now = Instant::now();
        match self.connection.become_task(&ticket, now, &mut self.out) {
            Some(work) => work.run(&self.server, call, self.stop.clone(), &Handle::current()),
            None => self.wait_for(call, ticket),
        }
    }

    fn wait_for(&mut self, call: Call, ticket: Ticket) {
        let running: BoxFuture<_> = if call.cost() == Cost::Quick {
            Box::pin(async move { (ticket, Ended::Answered(call.await)) })
        } else {
            let running = self.server.0.run_heavy(call, Handle::current());
            Box::pin(async move { (ticket, Ended::Answered(running.await)) })
        };
        self.running.push(running);
    }
}

/// A message without its line end.
pub(crate) fn line(message: Rope) -> Bytes {
    let mut text = message.into_vec();
    text.pop_if(|last| *last == b'\n');
    Bytes::from(text)
}

/// Waits for the first of `running` that completes.
async fn next_done<T>(running: &mut [BoxFuture<T>]) -> (usize, T) {
    poll_fn(|cx| {
        for (at, future) in running.iter_mut().enumerate() {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready((at, value));
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(length: usize) -> Rope {
        let mut rope = Rope::new();
        rope.push(&vec![b'x'; length]);
        rope.push_byte(b'\n');
        rope
    }

    fn waiting(reports: &Reports) -> usize {
        std::iter::from_fn(|| reports.pop()).count()
    }

    #[test]
    fn reports_that_wait_are_bounded_in_number_and_bytes_and_count() {
        let budget = Budget::new(2 * MAX_REPORT_BYTES);
        let reports = Reports {
            budget: Some(budget.clone()),
            ..Reports::default()
        };
        let emit = |length| reports.emit(None, report(length));
        for _ in 0..2 {
            (0..10).for_each(|_| emit(MAX_REPORT_BYTES / 4));
            assert_eq!(waiting(&reports), 5);
            (0..2 * MAX_REPORTS).for_each(|_| emit(1));
            assert_eq!(waiting(&reports), MAX_REPORTS);
        }
        let others = budget.reserve(2 * MAX_REPORT_BYTES);
        emit(1);
        assert!(budget.is_spent());
        emit(1);
        assert_eq!(waiting(&reports), 1, "what others hold leaves no room");
        drop(others);
        assert!(!budget.is_spent());
    }
}
