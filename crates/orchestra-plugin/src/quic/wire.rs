//! Frames on a stream: four bytes of length, big-endian, then the payload.
//!
//! Nothing is allocated for what a header announces; the buffer grows with what arrives.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use quinn::{RecvStream, SendStream};
use tokio::time::timeout;

use super::{
    codes,
    error::{ReplyError, WireError},
};

/// The longest payload of a frame, inclusive.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

const HEADER_BYTES: usize = 4;

/// The most that is taken from a stream at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// How long a write may wait for the peer to read on, without any progress.
const STALL_TIME: Duration = Duration::from_secs(60);

/// Reads frames from a stream. What was read stays when a wait is given up.
#[derive(Debug)]
pub(super) struct Frames {
    recv: RecvStream,
    buffer: BytesMut,
    ended: bool,
}

impl Frames {
    pub(super) fn new(recv: RecvStream) -> Self {
        Self {
            recv,
            buffer: BytesMut::new(),
            ended: false,
        }
    }

    /// The length of the next payload, once its header is there; `None` at the end of the stream.
    pub(super) async fn length(&mut self) -> Result<Option<usize>, WireError> {
        loop {
            if let Some(length) = announced(&self.buffer)? {
                return Ok(Some(length));
            }
            if !self.fill().await? {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(WireError::Truncated)
                };
            }
        }
    }

    /// The next payload; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, WireError> {
        let Some(length) = self.length().await? else {
            return Ok(None);
        };
        while self.buffer.len() < HEADER_BYTES + length {
            if !self.fill().await? {
                return Err(WireError::Truncated);
            }
        }
        self.buffer.advance(HEADER_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Waits for the end of a stream on which nothing more is expected. Whatever else comes is
    /// refused, so that the stream is over either way. True if the peer has reset it.
    pub(super) async fn tail(&mut self) -> bool {
        if self.buffer.is_empty() {
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
        if !self.ended && self.buffer.is_empty() {
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

    /// Takes what is there; false at the end of the stream.
    async fn fill(&mut self) -> Result<bool, WireError> {
        if self.ended {
            return Ok(false);
        }
        match self.recv.read_chunk(CHUNK_BYTES, true).await? {
            Some(chunk) => self.buffer.extend_from_slice(&chunk.bytes),
            None => self.ended = true,
        }
        Ok(!self.ended)
    }
}

/// Writes one frame; with `last`, the end of the stream goes with it.
///
/// The end is set in the poll that hands over the last byte: a peer that reads just the frame gives
/// the stream back only if both come together. Not to be given up and repeated.
pub(super) async fn write(
    send: &mut SendStream,
    payload: Bytes,
    last: Last,
) -> Result<(), ReplyError> {
    let mut chunks = [header(&payload)?, payload];
    let mut left = &mut chunks[..];
    while !left.is_empty() {
        let Ok(written) = timeout(STALL_TIME, send.write_chunks(left)).await else {
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

fn header(payload: &Bytes) -> Result<Bytes, ReplyError> {
    let length = payload.len();
    match u32::try_from(length) {
        Ok(announced) if length <= MAX_FRAME_BYTES => {
            Ok(Bytes::copy_from_slice(&announced.to_be_bytes()))
        }
        _ => Err(ReplyError::TooLarge { length }),
    }
}

/// What the header at the front of a buffer announces, if it is complete.
fn announced(buffer: &[u8]) -> Result<Option<usize>, WireError> {
    let Some(header) = buffer.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*header);
    match usize::try_from(length) {
        Ok(known) if known <= MAX_FRAME_BYTES => Ok(Some(known)),
        _ => Err(WireError::TooLarge {
            length: length.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_inclusive() {
        assert_eq!(announced(&[1, 0, 0]), Ok(None));
        assert_eq!(announced(&[1, 0, 0, 0]), Ok(Some(MAX_FRAME_BYTES)));
        assert_eq!(
            announced(&[1, 0, 0, 1]),
            Err(WireError::TooLarge { length: 16_777_217 })
        );
        assert!(announced(&[255; 9]).is_err());
        assert!(header(&Bytes::from(vec![0; MAX_FRAME_BYTES])).is_ok());
        let over = header(&Bytes::from(vec![0; MAX_FRAME_BYTES + 1]));
        assert_eq!(
            over,
            Err(ReplyError::TooLarge {
                length: MAX_FRAME_BYTES + 1
            })
        );
    }
}
