//! Runs the jobs of one connection: what every driver has in common.
//!
//! A job is polled once in place, where its line was read; only what waits becomes a task, and
//! only what computes longer goes to the blocking pool. First polls happen in order of arrival,
//! so that changes keep their order.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use orchestra_hub::{Attachment, Call, Cost, Notices, Outcome, ProviderError};
use orchestra_wire::{Frame, RequestId, Revision, Rope};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::JoinSet,
    time::{sleep_until, timeout},
};

use crate::{
    connection::{Connection, Job, Lifetime, Received, Step, Ticket},
    http::{Eras, Identity},
    report::Emit,
    server::Server,
    tasks::{Ended, Long, until_later},
};

/// Where a session's bytes go. No method may block, save where it says so.
pub(crate) trait Outbox: Emit {
    /// Sends `message`, soon; for tasks.
    fn send(&self, message: Rope);

    /// Takes `message` into the order of what is sent; [`send`](Self::send) or a later flush moves
    /// it. Returns at once, so that it may be called under a lock.
    fn enqueue(&self, message: Rope);

    /// Sends what the client is asked for the sake of its request `about`.
    fn ask(&self, about: &RequestId, questions: Rope) {
        let _ = about;
        self.send(questions);
    }

    /// Completes when so little waits that one more message may be sent that nobody waits for.
    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Takes the frames of one batch of input. Calls start in the order of their frames.
pub(crate) struct Feeder<'s> {
    session: &'s Arc<Session>,
    dispatch: MutexGuard<'s, ()>,
    /// Read once per call: the end of one call is the beginning of the next.
    now: Instant,
    has_queue: bool,
}

impl Feeder<'_> {
    /// Takes one frame. Replies that are there at once are appended to `out`, for the caller to
    /// send.
    pub(crate) fn feed(&mut self, frame: &Frame<'_>, out: &mut Rope) {
        self.step(out, |connection, now, out| {
            connection.on_frame(frame, now, out)
        });
    }

    /// As [`feed`](Self::feed), for a message that was parsed already.
    pub(crate) fn take(&mut self, message: &Received<'_>, out: &mut Rope) {
        self.step(out, |connection, now, out| {
            connection.on_received(message, now, out)
        });
    }

    fn step(
        &mut self,
        out: &mut Rope,
        take: impl FnOnce(&mut Connection, Instant, &mut Rope) -> Step,
    ) {
        let session = self.session;
        let mut connection = session.connection();
        let step = take(&mut connection, self.now, out);
        self.has_queue = connection.has_queue();
        if matches!(step, Step::Flush) {
            // Under the lock, so that no notice gets ahead of its acknowledgement.
            session.outbox.enqueue(std::mem::take(out));
        }
        drop(connection);
        match step {
            Step::Nothing | Step::Flush => {}
            Step::Watch => session.asked.notify_one(),
            Step::Run(job) => session.start(job, &mut self.now, out),
            Step::RunAll(jobs) => {
                jobs.into_iter()
                    .for_each(|job| session.start(job, &mut self.now, out));
            }
        }
    }

    /// Ends the batch: starts calls that queued and whose turn has come.
    pub(crate) fn end(self, out: &mut Rope) {
        // Whoever finished a call meanwhile found the dispatch taken and left the queue to us.
        drop(self.dispatch);
        if self.has_queue {
            self.session.start_ready(out);
        }
    }
}

/// One connection with the calls that run for it.
pub(crate) struct Session {
    connection: Mutex<Connection>,
    /// Held from the moment a call is taken up to its first poll.
    dispatch: Mutex<()>,
    server: Server,
    attachment: Arc<Attachment>,
    outbox: Arc<dyn Outbox>,
    runtime: Handle,
    tasks: Mutex<JoinSet<()>>,
    /// The client was asked something.
    asked: Notify,
    /// When tasks end, if they end before the server.
    stop: OnceLock<watch::Receiver<bool>>,
}

impl Session {
    pub(crate) fn new(
        server: &Server,
        face: &'static str,
        outbox: Arc<dyn Outbox>,
        emit: Arc<dyn Emit>,
        lifetime: Lifetime,
        runtime: Handle,
    ) -> Arc<Self> {
        let attachment = Arc::new(server.attach(face));
        let connection = Connection::new(server.clone(), Arc::clone(&attachment), emit, lifetime);
        Arc::new(Self {
            connection: Mutex::new(connection),
            dispatch: Mutex::new(()),
            tasks: Mutex::new(JoinSet::new()),
            asked: Notify::new(),
            stop: OnceLock::new(),
            server: server.clone(),
            attachment,
            outbox,
            runtime,
        })
    }

    /// Starts taking frames; called from one place only, inside the runtime's context.
    pub(crate) fn begin(self: &Arc<Self>) -> Feeder<'_> {
        let dispatch = self.dispatch.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        self.server.0.activity.note(now);
        Feeder {
            session: self,
            dispatch,
            now,
            has_queue: false,
        }
    }

    /// Starts the calls whose turn has come. When another thread is at it, that one sees to them:
    /// it looks again after it has let go.
    fn start_ready(self: &Arc<Self>, out: &mut Rope) {
        let mut now = Instant::now();
        loop {
            let dispatch = match self.dispatch.try_lock() {
                Ok(dispatch) => dispatch,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            loop {
                let Some(job) = self.connection().next_ready() else {
                    break;
                };
                self.start(job, &mut now, out);
            }
            drop(dispatch);
            if !self.connection().has_ready() {
                return;
            }
        }
    }

    fn start(self: &Arc<Self>, job: Job, now: &mut Instant, out: &mut Rope) {
        let Job {
            mut ticket,
            request,
        } = job;
        let long = Long::of(&request.cx);
        let attachment = match request.cx.long {
            false => &self.attachment,
            true => self.server.0.tasks.attachment(&self.server),
        };
        let mut call = attachment.call_at(request, *now);
        loop {
            if call.cost() == Cost::Heavy {
                return self.go_on(call, ticket, &long, *now, out);
            }
            // The waker does nothing: whatever waits is polled again by the task it moves to.
            let poll = Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(outcome) = poll else {
                return self.go_on(call, ticket, &long, *now, out);
            };
            *now = call.ended().unwrap_or(*now);
            let mark = out.mark();
            let step = self.connection().on_outcome(&ticket, outcome, *now, out);
            match step {
                // A call that only wants to be made again.
                Step::Run(next) => {
                    ticket = next.ticket;
                    call = self.attachment.call_at(next.request, *now);
                }
                Step::Watch => return self.ask(&ticket, out.split_off(mark)),
                Step::Nothing | Step::Flush | Step::RunAll(_) => return,
            }
        }
    }

    /// Lets a call that waits go on: as a task, if it may be one, else for its request.
    fn go_on(
        self: &Arc<Self>,
        call: Call,
        ticket: Ticket,
        long: &Long,
        now: Instant,
        out: &mut Rope,
    ) {
        if matches!(long, Long::AtOnce) {
            let work = self.connection().become_task(&ticket, now, out);
            if let Some(work) = work {
                return work.run(&self.server, call, self.stop.get().cloned(), &self.runtime);
            }
        }
        let session = Arc::clone(self);
        if let Long::WhenSaid(later) = long {
            let later = later.clone();
            return self.track(async move {
                match until_later(call, &later).await {
                    Ended::Answered(outcome) => session.finish(&ticket, outcome),
                    Ended::Later(call) => session.becomes_long(*call, ticket).await,
                }
            });
        }
        if call.cost() == Cost::Quick {
            return self.track(async move {
                let outcome = call.await;
                session.finish(&ticket, outcome);
            });
        }
        let running = self.server.0.run_heavy(call, self.runtime.clone());
        self.track(async move {
            let outcome = running.await;
            session.finish(&ticket, outcome);
        });
    }

    /// Makes a call a task that has run for a while, where there is room for one.
    async fn becomes_long(self: &Arc<Self>, call: Call, ticket: Ticket) {
        let mut out = Rope::new();
        let work = self
            .connection()
            .become_task(&ticket, Instant::now(), &mut out);
        let Some(work) = work else {
            let outcome = call.await;
            return self.finish(&ticket, outcome);
        };
        work.run(&self.server, call, self.stop.get().cloned(), &self.runtime);
        // Its place is free.
        self.start_ready(&mut out);
        self.outbox.send(out);
    }

    fn finish(self: &Arc<Self>, ticket: &Ticket, outcome: Result<Outcome, ProviderError>) {
        let mut out = Rope::new();
        let mut now = Instant::now();
        let step = self.connection().on_outcome(ticket, outcome, now, &mut out);
        match step {
            Step::Run(job) => self.start(job, &mut now, &mut out),
            Step::Watch => self.ask(ticket, std::mem::take(&mut out)),
            Step::Nothing | Step::Flush | Step::RunAll(_) => {}
        }
        self.start_ready(&mut out);
        if !out.is_empty() {
            self.outbox.send(out);
        }
    }

    fn ask(&self, ticket: &Ticket, questions: Rope) {
        self.outbox.ask(ticket.id(), questions);
        self.asked.notify_one();
    }

    /// Says who the client is, as far as tasks need to know.
    pub(crate) fn owned_by(&self, owner: Identity) {
        self.connection().owned_by(owner);
    }

    /// Names only the revisions of these eras.
    pub(crate) fn serving(&self, eras: Eras) {
        self.connection().serving(eras);
    }

    /// Cancels tasks that begin from now on when `stop` turns true, or nobody can turn it any
    /// more.
    pub(crate) fn until(&self, stop: watch::Receiver<bool>) {
        let _ = self.stop.set(stop);
    }

    /// What `initialize` has agreed upon, if it was called.
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.connection().revision()
    }

    fn track(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.runtime);
    }

    /// Does what no line of the client brings about, until it is dropped: notices of the hub and of
    /// tasks, and the passing of time.
    pub(crate) async fn attend(self: Arc<Self>) {
        tokio::join!(self.pass_notices(), self.pass_tasks(), self.keep_time());
    }

    /// Gives up questions that the client does not answer in time.
    async fn keep_time(self: &Arc<Self>) {
        loop {
            let deadline = self.connection().next_deadline();
            let Some(deadline) = deadline else {
                self.asked.notified().await;
                continue;
            };
            sleep_until(deadline.into()).await;
            let mut out = Rope::new();
            self.connection()
                .on_time(deadline.max(Instant::now()), &mut out);
            self.start_ready(&mut out);
            if !out.is_empty() {
                self.outbox.send(out);
            }
        }
    }

    /// Passes notices of the hub on, for as long as there are any. A client that does not read
    /// leaves them with the hub, which says so when it has to drop some.
    async fn pass_notices(&self) {
        let Some(mut notices) = self.take_notices() else {
            return;
        };
        loop {
            self.outbox.ready().await;
            let Some(notice) = notices.next().await else {
                return;
            };
            let mut out = Rope::new();
            // Sent under the lock, so that notices keep their place behind acknowledgements.
            let mut connection = self.connection();
            connection.on_notice(&notice, &mut out);
            if !out.is_empty() {
                self.outbox.enqueue(out);
            }
            drop(connection);
            self.outbox.send(Rope::new());
        }
    }

    /// Tells the client of the tasks it wants to hear of, as fast as it reads.
    async fn pass_tasks(&self) {
        let Some(watch) = self.connection().task_watch() else {
            return;
        };
        loop {
            watch.rung().await;
            self.outbox.ready().await;
            let mut out = Rope::new();
            // Sent under the lock, so that notices keep their place behind acknowledgements.
            let mut connection = self.connection();
            connection.on_task_changed(Instant::now(), &mut out);
            if !out.is_empty() {
                self.outbox.enqueue(out);
            }
            drop(connection);
            self.outbox.send(Rope::new());
        }
    }

    fn take_notices(&self) -> Option<Notices> {
        self.attachment.take_notices()
    }

    /// Lets calls go on to their end for at most `grace`, then ends the rest, unanswered, and the
    /// subscriptions, in good order.
    pub(crate) async fn wind_up(&self, grace: Duration) {
        let calls = async {
            loop {
                let mut tasks = self.take_tasks();
                if tasks.is_empty() {
                    break;
                }
                while tasks.join_next().await.is_some() {}
            }
        };
        if timeout(grace, calls).await.is_err() {
            tracing::warn!("calls were still running when the grace period ended");
        }
        let mut out = Rope::new();
        {
            let mut connection = self.connection();
            connection.close(&mut out);
            connection.cancel_all();
        }
        drop(self.take_tasks());
        self.outbox.send(out);
    }

    /// Ends all calls at once; for a session that cannot answer any more.
    pub(crate) fn abandon(&self) {
        self.connection().cancel_all();
        drop(self.take_tasks());
    }

    fn take_tasks(&self) -> JoinSet<()> {
        std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
