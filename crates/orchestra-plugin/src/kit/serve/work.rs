//! Runs a handler: with a place among those in flight, isolated, and told when to stop.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    select,
    sync::{SemaphorePermit, mpsc, watch},
    time::{Instant, sleep_until, timeout},
};

use super::{Fault, Phase, Server};
use crate::{
    envelope::{Request, RequestKind},
    generated::{StreamCancel, ToolResponse},
    kit::{
        answer::{self, HANDLER_ERROR},
        cx::{Call, Cancel, Cx},
    },
    quic::{Reply, Requests},
};

/// Frames of a call that wait to be sent; beyond, a streaming tool waits and progress is dropped.
const FRAMES: usize = 16;

/// The most of a panic's message that is passed on.
const PANIC_CHARS: usize = 500;

/// How long a hook may take when nobody said.
const HOOK_TIME: Duration = Duration::from_secs(60);

/// The answer to a call that is one too many.
pub(super) fn busy(most: u32) -> ToolResponse {
    answer::failure(
        "busy",
        format!("the plugin is handling {most} calls already: try again later"),
    )
}

impl Server {
    /// Runs the handler of a call. Nobody who waits gets nothing.
    pub(super) async fn run<T, F, Fut>(
        &self,
        call: Call,
        reply: &mut Reply,
        handler: F,
    ) -> Result<T, Fault>
    where
        F: FnOnce(Cx, mpsc::Sender<Bytes>) -> Fut,
        Fut: Future<Output = T>,
    {
        let (switch, cancel) = Cancel::pair();
        self.run_with(call, reply, switch, cancel, handler).await
    }

    /// The same, with a switch that others can reach.
    pub(super) async fn run_with<T, F, Fut>(
        &self,
        call: Call,
        reply: &mut Reply,
        switch: Arc<watch::Sender<bool>>,
        cancel: Cancel,
        handler: F,
    ) -> Result<T, Fault>
    where
        F: FnOnce(Cx, mpsc::Sender<Bytes>) -> Fut,
        Fut: Future<Output = T>,
    {
        let _place = self.place()?;
        let (sender, frames) = mpsc::channel(FRAMES);
        let cx = Cx::new(self.surroundings.clone(), call, cancel, sender.clone());
        let work = caught(async move { handler(cx, sender).await });
        match self.drive(work, reply, &switch, frames).await {
            Some(Ok(done)) => Ok(done),
            Some(Err(panic)) => Err(Fault::failure(HANDLER_ERROR, told(&*panic, "handler"))),
            None if *self.phase.borrow() == Phase::Stopping => Err(ending()),
            None => Err(Fault::Gone),
        }
    }

    /// Runs a hook of the plugin's own, for so long at most.
    pub(super) async fn run_hook<T>(
        &self,
        name: &str,
        hook: impl Future<Output = T>,
        time: Option<Duration>,
    ) -> Result<T, String> {
        let time = time.unwrap_or(HOOK_TIME);
        match timeout(time, caught(hook)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(panic)) => Err(told(&*panic, name)),
            Err(_) => Err(format!("the {name} takes longer than {time:?}")),
        }
    }

    pub(super) async fn wind_down_once(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        // Those that run get half of the time, and what stops them a quarter.
        self.phase.send_replace(Phase::Draining);
        self.heard.close();
        let idle = async || {
            // It is never closed.
            let _ = self.in_flight.acquire_many(self.max_in_flight).await;
            self.heard.done().await;
        };
        let mut clean = timeout(time / 2, idle()).await.is_ok();
        self.phase.send_replace(Phase::Stopping);
        if !clean {
            clean = timeout(time / 4, idle()).await.is_ok();
        }
        let undone = self.heard.undone();
        if undone > 0 {
            tracing::warn!(undone, "the plugin ended before it handled all events");
            clean = false;
        }
        if let Some(hook) = &self.offer.shutdown {
            let left = until.saturating_duration_since(Instant::now());
            let hooked = async { hook(self.cx()).await };
            match self.run_hook("shutdown hook", hooked, Some(left)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the shutdown hook failed");
                    clean = false;
                }
                Err(error) => {
                    tracing::warn!(error, "the shutdown hook failed");
                    clean = false;
                }
            }
        }
        clean
    }

    /// Polls a handler to its end, sends the frames that it makes, and tells it when to stop.
    /// `None` when it was told and did not.
    async fn drive<T>(
        &self,
        work: impl Future<Output = T>,
        reply: &mut Reply,
        switch: &watch::Sender<bool>,
        mut frames: mpsc::Receiver<Bytes>,
    ) -> Option<T> {
        let mut given_up = reply.cancelled();
        let mut stopping = self.phase.subscribe();
        let mut told = switch.subscribe();
        let mut requests = reply.requests();
        let mut stop = None;
        let mut work = pin!(work);
        let done = loop {
            select! {
                biased;
                done = &mut work => break done,
                Some(frame) = frames.recv() => {
                    if let Err(error) = reply.send(frame).await {
                        tracing::debug!(%error, "cannot send a part of a response");
                        switch.send_replace(true);
                    }
                }
                () = given_up.cancelled(), if stop.is_none() => {
                    switch.send_replace(true);
                }
                () = reached(&mut stopping, Phase::Stopping), if stop.is_none() => {
                    switch.send_replace(true);
                }
                () = cancelled_in_band(&mut requests), if stop.is_none() => {
                    switch.send_replace(true);
                }
                () = sleep_until(stop.unwrap_or_else(Instant::now)), if stop.is_some() => return None,
                () = reached(&mut told, true), if stop.is_none() => {}
            }
            if stop.is_none() && *switch.borrow() {
                stop = Some(Instant::now() + self.cancel_grace);
            }
        };
        while let Ok(frame) = frames.try_recv() {
            if reply.send(frame).await.is_err() {
                break;
            }
        }
        Some(done)
    }

    /// A place among the calls in flight.
    fn place(&self) -> Result<SemaphorePermit<'_>, Fault> {
        if *self.phase.borrow() > Phase::Serving {
            return Err(ending());
        }
        self.in_flight
            .try_acquire()
            .map_err(|_| Fault::Failure(Box::new(busy(self.max_in_flight))))
    }
}

/// Waits until a state is reached; for ever if its owner goes before.
pub(super) async fn reached<T: PartialEq>(state: &mut watch::Receiver<T>, wanted: T) {
    let gone = state.wait_for(|state| *state == wanted).await.is_err();
    if gone {
        std::future::pending::<()>().await;
    }
}

pub(super) fn ending() -> Fault {
    Fault::failure("shutting_down", "the plugin is ending")
}

/// Waits for a cancellation on the stream of a call; for ever if none comes.
async fn cancelled_in_band(requests: &mut Option<Requests>) {
    while let Some(more) = requests {
        match more.next().await {
            Ok(Some(frame)) => {
                let request = Request::decode(&frame);
                if request.is_ok_and(|request| {
                    request.kind() == Some(RequestKind::StreamCancel)
                        && request.message::<StreamCancel>().is_ok()
                }) {
                    return;
                }
            }
            // The caller has said all, or the stream is over, which is told otherwise.
            Ok(None) | Err(_) => break,
        }
    }
    std::future::pending().await
}

/// Polls a future to its end, or until it panics.
pub(super) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut work = pin!(work);
    poll_fn(
        // It is not polled again after a panic, and what it shares it must guard itself.
        |context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        },
    )
    .await
}

/// What a panic said.
pub(super) fn told(panic: &(dyn Any + Send), what: &str) -> String {
    let said = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a word");
    let said: String = said.chars().take(PANIC_CHARS).collect();
    format!("the {what} panicked: {said}")
}
