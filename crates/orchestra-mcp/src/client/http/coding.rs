//! Reads responses that a server compressed although it was asked not to (`Content-Encoding`).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use hyper::body::{Body as HttpBody, Frame};
use reqwest::{Body, Response, header::CONTENT_ENCODING};

use crate::client::ClientError;

/// Maximum number of bytes that are decompressed at once: few compressed bytes can become very many.
const PIECE: usize = 16 * 1024;

/// Maximum number of codings of a response. Each of them wraps the body once more, and reading the body recurses
/// through all of them.
const MAX_CODINGS: usize = 2;

/// A coding that is understood.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
}

/// Returns a response whose body is read without its content codings.
///
/// # Errors
/// When a successful response has a coding that is not supported, or too many codings.
pub(super) fn decoded(response: Response) -> Result<Response, ClientError> {
    let values = response.headers().get_all(CONTENT_ENCODING).into_iter();
    let names = values.flat_map(|value| value.to_str().unwrap_or("unknown").split(','));
    let names: Vec<String> = names.map(|name| name.trim().to_ascii_lowercase()).collect();
    let (mut codings, mut fault) = (Vec::new(), None);
    for name in names {
        codings.push(match &*name {
            "" | "identity" => continue,
            "gzip" | "x-gzip" => Coding::Gzip,
            "deflate" => Coding::Deflate,
            _ => {
                let name = name.escape_debug();
                fault = Some(format!(
                    "the content coding \"{name}\", which is not supported"
                ));
                break;
            }
        });
        if codings.len() > MAX_CODINGS {
            fault = Some(format!("more than {MAX_CODINGS} content codings"));
            break;
        }
    }
    if let Some(fault) = fault {
        return match response.status().is_success() {
            true => Err(ClientError::InvalidMessage {
                what: format!("the response has {fault}; switch compression off at the server"),
            }),
            false => Ok(response),
        };
    }
    if codings.is_empty() {
        return Ok(response);
    }
    // The coding that was applied last comes off first.
    let (parts, mut body) = hyper::Response::<Body>::from(response).into_parts();
    for coding in codings.into_iter().rev() {
        body = Body::wrap(Decoding::new(body, coding));
    }
    Ok(hyper::Response::from_parts(parts, body).into())
}

/// A body without one coding.
struct Decoding {
    body: Body,
    coding: Coding,
    /// Bytes of the body that were not decompressed yet.
    input: Bytes,
    /// `None` before the compressed data begins, and after it has ended.
    inflate: Option<Decompress>,
    /// There may be more to take without more input.
    is_full: bool,
    has_ended: bool,
}

impl Decoding {
    const fn new(body: Body, coding: Coding) -> Self {
        Self {
            body,
            coding,
            input: Bytes::new(),
            inflate: None,
            is_full: false,
            has_ended: false,
        }
    }

    /// The next piece; empty where that needs more input.
    fn piece(&mut self) -> io::Result<Bytes> {
        let inflate = match (&mut self.inflate, self.input.first()) {
            (Some(inflate), _) => inflate,
            // Members of gzip may follow one another.
            (begins, Some(0x1f)) if self.coding == Coding::Gzip => {
                self.has_ended = false;
                begins.insert(Decompress::new_gzip(15))
            }
            (begins, Some(first)) if !self.has_ended => begins.insert(match self.coding {
                Coding::Gzip => Decompress::new_gzip(15),
                // Some servers leave out the header of zlib.
                Coding::Deflate => Decompress::new(first & 0x0f == 8),
            }),
            (None, _) => {
                self.input.clear();
                return Ok(Bytes::new());
            }
        };
        let mut output = Vec::with_capacity(PIECE);
        let before = inflate.total_in();
        let status = inflate.decompress_vec(&self.input, &mut output, FlushDecompress::None)?;
        let read = usize::try_from(inflate.total_in() - before).unwrap_or(usize::MAX);
        if status == Status::StreamEnd {
            self.inflate = None;
            self.has_ended = true;
        } else if read == 0 && output.is_empty() && !self.input.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.input.advance(read.min(self.input.len()));
        self.is_full = !self.has_ended && output.len() == output.capacity();
        Ok(output.into())
    }
}

impl HttpBody for Decoding {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            if !self.input.is_empty() || self.is_full {
                match self.piece() {
                    Ok(piece) if piece.is_empty() => {}
                    Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                    Err(error) => return Poll::Ready(Some(Err(error.into()))),
                }
                continue;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => self.input = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {
                    let cut = || Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    return Poll::Ready(self.inflate.take().map(|_| cut()));
                }
            }
        }
    }
}
