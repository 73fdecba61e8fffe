//! One JSON-RPC message at a time, as a plain HTTP POST carries it: in go the bytes of a message,
//! out come those of the answer, if it has one.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Instant};

use orchestra_hub::{Attachment, Cost, Outcome, ProviderError};
use orchestra_wire::{Line, Rope};
use tokio::runtime::Handle;

use crate::{
    connection::{Connection, Job, Lifetime, Step, Ticket},
    report::Emit,
    server::Server,
};

/// Answers single messages for one server. Nothing is kept between messages, so what needs a
/// stream is not had here: notifications of running calls are dropped.
pub struct Post {
    server: Server,
    attachment: Arc<Attachment>,
}

/// Drops what a call reports while it runs.
struct Silence;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Emit for Silence {
    fn emit(&self, _message: Rope) {}
}

impl Post {
    /// A face named `face` over `server`.
    #[must_use]
    pub fn new(server: &Server, face: &'static str) -> Self {
        Self {
            attachment: Arc::new(server.attach(face)),
            server: server.clone(),
        }
    }

    /// Answers one message; `None` when it wants no answer. The bytes need not be one line.
    /// Dropping the future cancels the call. It must run inside a tokio runtime.
    pub async fn handle(&self, message: &[u8]) -> Option<Vec<u8>> {
        let attachment = Arc::clone(&self.attachment);
        let mut connection = Connection::new(
            self.server.clone(),
            attachment,
            Arc::new(Silence),
            Lifetime::Message,
        );
        let mut out = Rope::new();
        let line = Line::Borrowed(message);
        let mut running: Vec<BoxFuture<(Ticket, Result<Outcome, ProviderError>)>> = Vec::new();
        let step = if message.len() > self.server.0.limits.line_bytes {
            connection.on_frame(&orchestra_wire::Frame::TooLong, Instant::now(), &mut out)
        } else {
            connection.on_line(&line, Instant::now(), &mut out)
        };
        self.start(step, &mut running);
        while !running.is_empty() {
            let (at, (ticket, outcome)) = next_done(&mut running).await;
            drop(running.swap_remove(at));
            let step = connection.on_outcome(&ticket, outcome, Instant::now(), &mut out);
            self.start(step, &mut running);
            while let Some(job) = connection.next_ready() {
                self.start(Step::Run(job), &mut running);
            }
        }
        let mut answer = out.into_vec();
        if answer.pop_if(|last| *last == b'\n').is_none() && answer.is_empty() {
            return None;
        }
        Some(answer)
    }

    fn start(
        &self,
        step: Step,
        running: &mut Vec<BoxFuture<(Ticket, Result<Outcome, ProviderError>)>>,
    ) {
        match step {
            Step::Nothing | Step::Watch | Step::Flush => {}
            Step::Run(job) => running.push(self.run(job)),
            Step::RunAll(jobs) => running.extend(jobs.into_iter().map(|job| self.run(job))),
        }
    }

    fn run(&self, job: Job) -> BoxFuture<(Ticket, Result<Outcome, ProviderError>)> {
        let call = self.attachment.call(job.request);
        let ticket = job.ticket;
        if call.cost() == Cost::Quick {
            return Box::pin(async move { (ticket, call.await) });
        }
        let running = self.server.0.run_heavy(call, Handle::current());
        Box::pin(async move { (ticket, running.await) })
    }
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
