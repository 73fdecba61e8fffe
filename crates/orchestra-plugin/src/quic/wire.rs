//! Frames on the streams of a connection: [`frame`](crate::frame) cuts them, here they are waited
//! for and written.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use quinn::{RecvStream, SendStream};
use tokio::time::{Instant, timeout_at};

use super::{
    codes,
    error::{ReplyError, WireError},
    payload::Payload,
};
use crate::frame::{FrameDecoder, FrameError, header};

/// The most parts, each out of a datagram, that are taken from a stream at once.
const PARTS: usize = 32;

/// A payload below this is copied: it would keep the whole of what it came with, up to 64 KiB, for as
/// long as it is kept itself.
const SMALL_BYTES: usize = 8 * 1024;

/// How long a write may wait for the peer to read on, without any progress.
const STALL_TIME: Duration = Duration::from_secs(60);

/// How long the write of a frame may take, with progress: the largest takes less at half a megabit a
/// second. Whoever takes a byte now and then would hold it for ever.
pub(super) const WRITE_TIME: Duration = Duration::from_secs(300);

/// Reads frames from a stream. What was read stays when a wait is given up.
#[derive(Debug)]
pub(super) struct Frames {
    recv: RecvStream,
    decoder: FrameDecoder,
    /// What is being decoded, and what was read after it.
    input: Bytes,
    read: VecDeque<Bytes>,
    ended: bool,
}

impl Frames {
    pub(super) fn new(recv: RecvStream) -> Self {
        Self {
            recv,
            decoder: FrameDecoder::default(),
            input: Bytes::new(),
            read: VecDeque::new(),
            ended: false,
        }
    }

    /// The length of the next payload, once its header is there; `None` at the end of the stream.
    pub(super) async fn length(&mut self) -> Result<Option<usize>, WireError> {
        loop {
            if let Some(length) = self.decoder.length(&mut self.input)? {
                return Ok(Some(length));
            }
            if self.fill(1).await?.is_none() {
                return self.decoder.finish().map(|()| None).map_err(Into::into);
            }
        }
    }

    /// The next payload; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, WireError> {
        loop {
            match self.step().await? {
                Step::Payload(payload) => return Ok(Some(payload)),
                Step::End => return Ok(None),
                Step::Read(_) => {}
            }
        }
    }

    /// The next payload if all of it was read, and otherwise more of it.
    pub(super) async fn step(&mut self) -> Result<Step, WireError> {
        if let Some(payload) = self.decoder.next(&mut self.input)? {
            return Ok(Step::Payload(match payload.len() {
                ..SMALL_BYTES => Bytes::copy_from_slice(&payload),
                _ => payload,
            }));
        }
        match self.fill(PARTS).await? {
            Some(read) => Ok(Step::Read(read)),
            None => Ok(self.decoder.finish().map(|()| Step::End)?),
        }
    }

    /// Whether all that was read was taken.
    fn is_empty(&self) -> bool {
        self.input.is_empty() && self.read.is_empty() && self.decoder.finish().is_ok()
    }

    /// Waits for the end of a stream on which nothing more is expected. Whatever else comes is
    /// refused, so that the stream is over either way. True if the peer has reset it.
    pub(super) async fn tail(&mut self) -> bool {
        if self.is_empty() {
            match self.recv.read_chunk(1, true).await {
                Ok(None) => {
                    self.ended = true;
                    return false;
                }
                Ok(Some(_)) => {}
                Err(_) => return true,
            }
        }
        self.stop(codes::UNWANTED);
        false
    }

    /// Takes the end of the stream if it is there already, which spares the peer a message.
    pub(super) async fn take_end(&mut self) {
        if !self.ended && self.is_empty() {
            tokio::select! {
                biased;
                _ = self.tail() => {}
                () = std::future::ready(()) => {}
            }
        }
    }

    pub(super) fn stop(&mut self, code: quinn::VarInt) {
        // It fails when the stream is over, which is as good.
        let _ = self.recv.stop(code);
    }

    /// Takes what comes next, when all before was decoded, and says how many bytes were read for that;
    /// `None` at the end of the stream. At most so many parts are read: whoever knows only that
    /// something comes has no room for more than one.
    async fn fill(&mut self, most: usize) -> Result<Option<usize>, WireError> {
        if let Some(part) = self.read.pop_front() {
            self.input = part;
            return Ok(Some(0));
        }
        if self.ended {
            return Ok(None);
        }
        let mut parts: [Bytes; PARTS] = Default::default();
        let Some(count) = self.recv.read_chunks(&mut parts[..most]).await? else {
            self.ended = true;
            return Ok(None);
        };
        let mut parts = parts.into_iter().take(count);
        self.input = parts.next().unwrap_or_default();
        self.read.extend(parts);
        let later: usize = self.read.iter().map(Bytes::len).sum();
        Ok(Some(self.input.len() + later))
    }
}

/// What comes of reading on.
#[derive(Debug)]
pub(super) enum Step {
    /// A payload is there.
    Payload(Bytes),
    /// So many bytes of it were read.
    Read(usize),
    /// The stream has ended.
    End,
}

/// Writes one frame; with `last`, the end of the stream goes with it.
///
/// The end is set in the poll that hands over the last byte: a peer that reads just the frame gives
/// the stream back only if both come together. It takes at most so much time. Not to be given up and
/// repeated.
pub(super) async fn write(
    send: &mut SendStream,
    payload: Payload,
    last: Last,
    time: Duration,
) -> Result<(), ReplyError> {
    let until = Instant::now() + time;
    let length = payload.len();
    let header = header(length).map_err(|_| ReplyError::TooLarge { length })?;
    let [head, body] = payload.into_parts();
    let mut chunks = [Bytes::copy_from_slice(&header), head, body];
    let mut left = &mut chunks[..];
    while !left.is_empty() {
        let stalled = Instant::now() + STALL_TIME;
        let Ok(written) = timeout_at(stalled.min(until), send.write_chunks(left)).await else {
            let _ = send.reset(codes::TOO_SLOW);
            return Err(ReplyError::TooSlow);
        };
        let done = written?.chunks;
        left = &mut left[done..];
        // An empty payload leaves an empty chunk, which is never reported as written.
        if left.iter().all(Bytes::is_empty) {
            break;
        }
    }
    if last == Last::Yes && send.finish().is_err() {
        return Err(ReplyError::Finished);
    }
    Ok(())
}

/// Whether a frame is the last of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Yes,
    No,
}

impl From<FrameError> for WireError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::TooLong { length, .. } => Self::TooLarge { length },
            FrameError::Truncated { .. } => Self::Truncated,
        }
    }
}
