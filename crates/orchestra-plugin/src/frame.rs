//! Cuts a stream of bytes into frames: four bytes of length, big-endian, and that many bytes of
//! payload. What a payload means is left to the envelope.

use bytes::{Buf, Bytes, BytesMut};

/// Largest payload of a frame, inclusive: 16 MiB, as every peer of this protocol has it.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of the length in front of a payload.
pub const HEADER_BYTES: usize = 4;

/// Room that is made for a frame whose first bytes have arrived. More is made when these are there.
const FIRST_ROOM_BYTES: usize = 4 * 1024;

/// Why bytes cannot be sent as a frame, or are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The payload is larger than a frame may be.
    #[error(
        "a frame of {length} bytes exceeds the limit of {limit} bytes; send large data in chunks"
    )]
    TooLong {
        /// How large it is, or says that it is.
        length: u64,
        /// How large it may be.
        limit: usize,
    },
    /// The stream ends before the frame does.
    #[error("the stream ends inside a frame, after {received} of its bytes")]
    Truncated {
        /// How many bytes of the frame have arrived, those of its length included.
        received: usize,
    },
}

/// The header of a frame whose payload has `length` bytes.
///
/// # Errors
///
/// [`FrameError::TooLong`] when that is over [`MAX_FRAME_BYTES`].
pub fn header(length: usize) -> Result<[u8; HEADER_BYTES], FrameError> {
    match u32::try_from(length) {
        Ok(short) if length <= MAX_FRAME_BYTES => Ok(short.to_be_bytes()),
        _ => Err(FrameError::TooLong {
            length: length as u64,
            limit: MAX_FRAME_BYTES,
        }),
    }
}

/// Header and encoding of `message` in one buffer, to be sent by one write.
///
/// # Errors
///
/// [`FrameError::TooLong`] when it is over [`MAX_FRAME_BYTES`]; nothing is encoded then.
pub fn encode(message: &impl prost::Message) -> Result<Bytes, FrameError> {
    let length = message.encoded_len();
    let header = header(length)?;
    let mut frame = Vec::with_capacity(HEADER_BYTES + length);
    frame.extend_from_slice(&header);
    message.encode_raw(&mut frame);
    Ok(frame.into())
}

/// Decodes frames from chunks of any size.
///
/// A frame that lies wholly inside a chunk is a part of that chunk and not copied. Otherwise it is
/// collected, in room that grows with what has arrived: never more than twice as much, whatever
/// the header says. After an error the decoder is of no more use.
#[derive(Debug)]
pub struct FrameDecoder {
    limit: usize,
    header: [u8; HEADER_BYTES],
    header_held: usize,
    /// The length of the frame, once its header has arrived.
    length: Option<usize>,
    payload: BytesMut,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        Self::new(MAX_FRAME_BYTES)
    }
}

impl FrameDecoder {
    /// A decoder that accepts payloads of up to `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            header: [0; HEADER_BYTES],
            header_held: 0,
            length: None,
            payload: BytesMut::new(),
        }
    }

    /// Takes the payload of the next frame from the front of `input`. `None` means that `input` is
    /// used up and more bytes are needed.
    ///
    /// # Errors
    ///
    /// [`FrameError::TooLong`] as soon as a header has arrived which says so.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, FrameError> {
        let Some(length) = self.length(input)? else {
            return Ok(None);
        };
        let missing = length - self.payload.len();
        if input.len() < missing {
            self.collect(input, length);
            input.clear();
            return Ok(None);
        }
        let last = input.split_to(missing);
        self.length = None;
        self.header_held = 0;
        if self.payload.is_empty() {
            return Ok(Some(last));
        }
        self.collect(&last, length);
        Ok(Some(std::mem::take(&mut self.payload).freeze()))
    }

    /// Says at the end of the stream whether it ended between frames.
    ///
    /// # Errors
    ///
    /// [`FrameError::Truncated`] when it did not.
    pub fn finish(&self) -> Result<(), FrameError> {
        match self.header_held + self.payload.len() {
            0 => Ok(()),
            received => Err(FrameError::Truncated { received }),
        }
    }

    /// How many bytes of a payload are held back because the frame has not ended.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.payload.len()
    }

    /// The length of the next frame, as soon as its header has arrived, which is taken from the
    /// front of `input`.
    ///
    /// # Errors
    ///
    /// As for [`Self::next`].
    pub fn length(&mut self, input: &mut Bytes) -> Result<Option<usize>, FrameError> {
        if self.length.is_some() {
            return Ok(self.length);
        }
        let taken = input.len().min(HEADER_BYTES - self.header_held);
        input.copy_to_slice(&mut self.header[self.header_held..self.header_held + taken]);
        self.header_held += taken;
        if self.header_held < HEADER_BYTES {
            return Ok(None);
        }
        let said = u32::from_be_bytes(self.header);
        match usize::try_from(said) {
            Ok(length) if length <= self.limit => {
                self.length = Some(length);
                Ok(Some(length))
            }
            _ => Err(FrameError::TooLong {
                length: u64::from(said),
                limit: self.limit,
            }),
        }
    }

    /// Puts `part` behind what is held of a frame of `length` bytes.
    fn collect(&mut self, part: &[u8], length: usize) {
        let held = self.payload.len();
        if self.payload.capacity() - held < part.len() {
            let room = (4 * held).max(held + part.len()).max(FIRST_ROOM_BYTES);
            self.payload.reserve(room.min(length) - held);
        }
        self.payload.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests;
