//! Chunks: the answer of a streaming call, piece by piece.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::answer::ToolError;
use crate::{envelope::Response, frame::MAX_FRAME_BYTES, generated::StreamChunk};

/// What an envelope adds to a chunk, at most.
const ENVELOPE_BYTES: usize = 4 * 1024;

/// Where a streaming tool puts its chunks. Whoever calls decides the pace: when nobody reads on,
/// sending waits.
#[derive(Debug)]
pub struct Chunks {
    to: To,
    sent: Arc<AtomicI64>,
}

#[derive(Debug)]
enum To {
    /// Frames on the stream of the call.
    Stream {
        request_id: String,
        stream_id: String,
        frames: mpsc::Sender<Bytes>,
    },
    /// One text, for who called the tool like any other.
    Text { bytes: mpsc::Sender<Bytes> },
}

impl Chunks {
    /// Chunks that are counted in `sent`.
    pub(super) fn stream(
        request_id: String,
        stream_id: String,
        frames: mpsc::Sender<Bytes>,
        sent: &Arc<AtomicI64>,
    ) -> Self {
        let to = To::Stream {
            request_id,
            stream_id,
            frames,
        };
        Self {
            to,
            sent: sent.clone(),
        }
    }

    pub(super) fn text(bytes: mpsc::Sender<Bytes>) -> Self {
        Self {
            to: To::Text { bytes },
            sent: Arc::default(),
        }
    }

    /// Sends a piece of text.
    ///
    /// # Errors
    /// The caller has given up, or the chunk fits into no frame.
    pub async fn send_text(&mut self, text: impl Into<String>) -> Result<(), ToolError> {
        self.send(text.into(), "text/plain").await
    }

    /// Sends a piece of a media type.
    ///
    /// # Errors
    /// As for [`Self::send_text`].
    pub async fn send(
        &mut self,
        data: impl Into<Bytes>,
        content_type: &str,
    ) -> Result<(), ToolError> {
        let data = data.into();
        if data.len() > MAX_FRAME_BYTES - ENVELOPE_BYTES {
            let message = format!(
                "a chunk of {} bytes is too large: send smaller ones",
                data.len()
            );
            return Err(ToolError::new("result_too_large", message));
        }
        let sent = match &self.to {
            To::Text { bytes } => bytes.send(data).await,
            To::Stream {
                request_id,
                stream_id,
                frames,
            } => {
                let chunk = StreamChunk {
                    stream_id: stream_id.clone(),
                    data,
                    content_type: content_type.to_owned(),
                    sequence: self.sent.load(Ordering::Relaxed),
                };
                let frame = Response::new(request_id.as_str(), &chunk).encode();
                frames.send(frame).await
            }
        };
        if sent.is_ok() {
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
        sent.map_err(|_| ToolError::new("cancelled", "the caller no longer reads the chunks"))
    }
}
