//! The answering side of one call, as its handler sees it.

use std::time::Duration;

use bytes::Bytes;
use quinn::SendStream;
use tokio::sync::watch;

use super::{
    codes,
    error::{ReplyError, WireError},
    payload::Payload,
    wire::{self, Frames, Last},
};

/// Where the answers of a call go.
///
/// Dropped before it is finished, it tells the caller that nobody will answer.
#[derive(Debug)]
pub struct Reply {
    send: SendStream,
    finished: bool,
    cancelled: Cancelled,
    requests: Option<Requests>,
    /// How long the write of one frame may take.
    time: Duration,
}

impl Reply {
    pub(super) fn new(
        send: SendStream,
        cancelled: Cancelled,
        requests: Option<Requests>,
        time: Duration,
    ) -> Self {
        Self {
            send,
            finished: false,
            cancelled,
            requests,
            time,
        }
    }

    /// Writes the one answer, or the last of several.
    ///
    /// # Errors
    /// After [`ReplyError::TooLarge`] nothing was written, and another answer may be.
    pub async fn answer(&mut self, payload: impl Into<Payload>) -> Result<(), ReplyError> {
        self.write(payload.into(), Last::Yes).await?;
        self.finished = true;
        Ok(())
    }

    /// Writes one answer of several. Waits while the caller does not read on, within
    /// [`Limits::reply_time`](super::Limits::reply_time).
    ///
    /// # Errors
    /// As for [`Self::answer`].
    pub async fn send(&mut self, payload: impl Into<Payload>) -> Result<(), ReplyError> {
        self.write(payload.into(), Last::No).await
    }

    /// Ends the answers.
    ///
    /// # Errors
    /// They were ended before.
    pub fn finish(&mut self) -> Result<(), ReplyError> {
        self.finished = true;
        self.send.finish().map_err(|_| ReplyError::Finished)
    }

    /// Tells when the caller gives up.
    pub fn cancelled(&self) -> Cancelled {
        self.cancelled.clone()
    }

    /// The further frames of the request, for a call that [`Handler::duplex`] chose; once.
    ///
    /// [`Handler::duplex`]: super::Handler::duplex
    pub fn requests(&mut self) -> Option<Requests> {
        self.requests.take()
    }

    async fn write(&mut self, payload: Payload, last: Last) -> Result<(), ReplyError> {
        if self.finished {
            return Err(ReplyError::Finished);
        }
        wire::write(&mut self.send, payload, last, self.time).await
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.finished {
            // It fails when the stream is over, which is as good.
            let _ = self.send.reset(codes::ABANDONED);
        }
    }
}

/// The further frames of a request.
#[derive(Debug)]
pub struct Requests {
    frames: Frames,
    cancel: watch::Sender<bool>,
}

impl Requests {
    pub(super) fn new(frames: Frames, cancel: watch::Sender<bool>) -> Self {
        Self { frames, cancel }
    }

    /// The next frame; `None` when the caller has ended its side. May be given up and repeated.
    ///
    /// # Errors
    /// What came is no frame, or the call was cancelled, or the connection is gone.
    pub async fn next(&mut self) -> Result<Option<Bytes>, WireError> {
        let next = self.frames.next().await;
        match &next {
            Err(WireError::Reset { .. } | WireError::Lost(_)) => {
                self.cancel.send_replace(true);
            }
            Err(_) => self.frames.stop(codes::MALFORMED),
            Ok(_) => {}
        }
        next
    }
}

/// Tells whether and when the caller has given up: it stopped or reset the stream, or is gone.
#[derive(Debug, Clone)]
pub struct Cancelled(watch::Receiver<bool>);

impl Cancelled {
    pub(super) fn pair() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Whether it has given up.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it gives up; for ever if the call ends first.
    pub async fn cancelled(&mut self) {
        if self.0.wait_for(|given_up| *given_up).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
