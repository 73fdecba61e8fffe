//! The calling side: one connection, and the calls on it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use quinn::SendStream;
use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    codes,
    error::{CallError, ReplyError},
    nobody::deserted,
    payload::Payload,
    peer::Peer,
    wire::{self, Frames, Last, WRITE_TIME},
};
use crate::frame::MAX_FRAME_BYTES;

/// Older peers take 100 calls at once, and others fewer. When a stream cannot be opened while we have
/// fewer than these, and fewer than we have had before on this connection, the peer has lost count of
/// them and never gives one again.
const USUAL_STREAMS: usize = 100;

/// The part of their streams that some peers collect before they give them back.
const GIVEN_BACK_AT_ONCE: usize = 8;

/// How often it is looked whether anything has come while a call waits. In twice this time a ping was
/// answered, or nobody answers.
const LOOK: Duration = Duration::from_millis(500);

/// How often otherwise.
const IDLE_LOOK: Duration = Duration::from_secs(2);

/// A connection to a peer, over which we call.
#[derive(Debug, Clone)]
pub struct Connection {
    inner: quinn::Connection,
    peer: Peer,
    calls: Arc<watch::Sender<Calls>>,
}

/// How many calls there are on a connection.
#[derive(Debug, Clone, Copy, Default)]
struct Calls {
    now: usize,
    /// The most that there were at once.
    most: usize,
}

impl Calls {
    /// Whether the peer has room for more, going by what it has taken before.
    fn has_room(self) -> bool {
        let known = self.most.min(USUAL_STREAMS);
        self.now < known - known / GIVEN_BACK_AT_ONCE
    }
}

/// Why no stream was opened.
#[derive(Debug)]
pub(super) enum NotOpened {
    /// The peer gives no stream although it should.
    Wedged,
    /// The connection is gone.
    Gone(quinn::ConnectionError),
    /// The time is over.
    Late,
}

impl From<NotOpened> for CallError {
    fn from(not: NotOpened) -> Self {
        match not {
            NotOpened::Wedged | NotOpened::Late => Self::NotTaken,
            NotOpened::Gone(cause) => Self::LostBefore(cause),
        }
    }
}

impl Connection {
    pub(super) fn new(inner: quinn::Connection, peer: Peer) -> Self {
        Self {
            inner,
            peer,
            calls: Arc::new(watch::Sender::new(Calls::default())),
        }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// How many calls are going on.
    pub fn calls(&self) -> usize {
        self.calls.borrow().now
    }

    /// Calls and waits for the one answer. Dropping the future cancels the call.
    ///
    /// # Errors
    /// [`CallError::may_have_run`] tells whether the call may have had an effect.
    pub async fn call(
        &self,
        request: impl Into<Payload>,
        deadline: Instant,
    ) -> Result<Bytes, CallError> {
        let request = request.into();
        self.open(deadline, None)
            .await?
            .call(request, deadline)
            .await
    }

    /// Calls and hands over the answers one by one. The deadline is for sending the request.
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub async fn stream(
        &self,
        request: impl Into<Payload>,
        deadline: Instant,
    ) -> Result<Answers, CallError> {
        let request = request.into();
        self.open(deadline, None)
            .await?
            .stream(request, deadline)
            .await
    }

    /// As [`Self::stream`], with more request frames to follow the first.
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub async fn open_duplex(
        &self,
        request: impl Into<Payload>,
        deadline: Instant,
    ) -> Result<(Sender, Answers), CallError> {
        let request = request.into();
        self.open(deadline, None)
            .await?
            .duplex(request, deadline)
            .await
    }

    /// Ends the connection. Calls that are going on fail at once.
    pub fn close(&self) {
        self.inner.close(codes::CLOSED, b"client closed");
    }

    /// Waits until the connection has ended, and says why.
    pub async fn closed(&self) -> quinn::ConnectionError {
        self.inner.closed().await
    }

    /// Waits until nobody is at the other end any more, although the connection has not ended.
    pub(super) async fn deserted(&self) {
        let calls = self.calls.subscribe();
        let pause = || {
            let mut calls = calls.clone();
            async move {
                let called = async {
                    // Its sender is held by the connection.
                    drop(calls.wait_for(|calls| calls.now > 0).await);
                    sleep(LOOK).await;
                };
                // Whichever is sooner.
                let _ = timeout(IDLE_LOOK, called).await;
            }
        };
        deserted(&self.inner, pause).await;
    }

    pub(super) const fn inner(&self) -> &quinn::Connection {
        &self.inner
    }

    pub(super) fn id(&self) -> usize {
        self.inner.stable_id()
    }

    /// Waits until no call is going on, or the connection has ended.
    pub(super) async fn idle(&self) {
        let mut calls = self.calls.subscribe();
        select! {
            _ = calls.wait_for(|calls| calls.now == 0) => {}
            _ = self.inner.closed() => {}
        }
    }

    /// Opens a stream. With `patience`, the peer is found to be wedged after so long.
    pub(super) async fn open(
        &self,
        deadline: Instant,
        patience: Option<Duration>,
    ) -> Result<Outgoing, NotOpened> {
        let opening = self.inner.open_bi();
        tokio::pin!(opening);
        loop {
            let step =
                patience.map_or(deadline, |patience| deadline.min(Instant::now() + patience));
            match timeout_at(step, &mut opening).await {
                Ok(Ok((send, recv))) => {
                    return Ok(Outgoing {
                        send: Some(send),
                        frames: Frames::new(recv),
                        settled: false,
                        _place: Place::take(&self.calls),
                    });
                }
                Ok(Err(cause)) => return Err(NotOpened::Gone(cause)),
                Err(_) if Instant::now() >= deadline => return Err(NotOpened::Late),
                Err(_) if self.calls.borrow().has_room() => return Err(NotOpened::Wedged),
                Err(_) => {}
            }
        }
    }
}

/// One of the calls that are going on.
#[derive(Debug)]
struct Place(Arc<watch::Sender<Calls>>);

impl Place {
    fn take(calls: &Arc<watch::Sender<Calls>>) -> Self {
        calls.send_modify(|calls| {
            calls.now += 1;
            calls.most = calls.most.max(calls.now);
        });
        Self(calls.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.send_modify(|calls| calls.now -= 1);
    }
}

/// An open stream. Dropped before it is settled, it cancels its call.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Gone when the request's further frames are somebody else's.
    send: Option<SendStream>,
    frames: Frames,
    settled: bool,
    _place: Place,
}

impl Outgoing {
    pub(super) async fn call(
        mut self,
        request: Payload,
        deadline: Instant,
    ) -> Result<Bytes, CallError> {
        self.send(request, Last::Yes, deadline).await?;
        match timeout_at(deadline, self.frames.next()).await {
            Ok(Ok(Some(answer))) => {
                self.settle().await;
                Ok(answer)
            }
            Ok(Ok(None)) => {
                self.settle().await;
                Err(CallError::NoAnswer)
            }
            Ok(Err(error)) => Err(CallError::reading(error)),
            Err(_) => Err(CallError::Late),
        }
    }

    pub(super) async fn stream(
        mut self,
        request: Payload,
        deadline: Instant,
    ) -> Result<Answers, CallError> {
        self.send(request, Last::Yes, deadline).await?;
        Ok(Answers { outgoing: self })
    }

    pub(super) async fn duplex(
        mut self,
        request: Payload,
        deadline: Instant,
    ) -> Result<(Sender, Answers), CallError> {
        self.send(request, Last::No, deadline).await?;
        let send = self.send.take().ok_or(CallError::LateBefore)?;
        Ok((
            Sender {
                send,
                finished: false,
            },
            Answers { outgoing: self },
        ))
    }

    async fn send(
        &mut self,
        request: Payload,
        last: Last,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let length = request.len();
        if length > MAX_FRAME_BYTES {
            return Err(CallError::RequestTooLarge { length });
        }
        let Some(send) = &mut self.send else {
            return Err(CallError::LateBefore);
        };
        match timeout_at(deadline, wire::write(send, request, last, WRITE_TIME)).await {
            Ok(Ok(())) => Ok(()),
            // The answer may be there already, and says more.
            Ok(Err(ReplyError::Stopped)) => Ok(()),
            Ok(Err(ReplyError::Lost(cause))) => Err(CallError::LostBefore(cause)),
            // A request without its end is not started by anyone.
            Ok(Err(_)) | Err(_) => Err(CallError::LateBefore),
        }
    }

    async fn settle(&mut self) {
        self.frames.take_end().await;
        self.settled = true;
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if !self.settled {
            self.frames.stop(codes::CANCELLED);
            if let Some(send) = &mut self.send {
                // It fails when all was sent and has arrived, which is as good.
                let _ = send.reset(codes::CANCELLED);
            }
        }
    }
}

/// The answers of a call, one by one. Dropping it before its end cancels the call.
///
/// What is not taken stays with the peer, whose writing then waits.
#[derive(Debug)]
pub struct Answers {
    outgoing: Outgoing,
}

impl Answers {
    /// The next answer; `None` when the peer has ended them. May be given up and repeated.
    ///
    /// # Errors
    /// As for [`Connection::call`].
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        let next = self
            .outgoing
            .frames
            .next()
            .await
            .map_err(CallError::reading)?;
        self.outgoing.settled = next.is_none();
        Ok(next)
    }

    /// Ends a call whose last answer was taken, although the peer may not have ended its side yet.
    /// It does not count as cancelled.
    pub async fn done(mut self) {
        self.outgoing.settle().await;
    }
}

/// The further frames of a request. Dropping it before [`Self::finish`] cancels the call.
#[derive(Debug)]
pub struct Sender {
    send: SendStream,
    finished: bool,
}

impl Sender {
    /// Writes one more request frame. Waits while the peer does not read on. Not to be given up and
    /// repeated.
    ///
    /// # Errors
    /// The call is over, or the payload too large.
    pub async fn send(&mut self, request: impl Into<Payload>) -> Result<(), ReplyError> {
        wire::write(&mut self.send, request.into(), Last::No, WRITE_TIME).await
    }

    /// Ends the request.
    pub fn finish(mut self) {
        self.finished = true;
        // It fails when the call is over, which is as good.
        let _ = self.send.finish();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.finished {
            // It fails when the call is over, which is as good.
            let _ = self.send.reset(codes::CANCELLED);
        }
    }
}
