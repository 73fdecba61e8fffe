//! The envelope of a request or response: its id, its kind, and its payload as the bytes that came.
//!
//! A router forwards a payload without decoding it, so that what it does not know of a message
//! survives, and large arguments are never copied. What a payload says is left to
//! [`generated`](crate::generated), the keys that route it to [`Routing`].

mod body;
mod kind;
mod routing;

use bytes::Bytes;

pub use kind::{Kind, PayloadOf, RequestKind, ResponseKind};
pub use routing::Routing;

use crate::field::{self, FieldError};
use crate::frame::{self, FrameError, HEADER_BYTES};
use body::Body;

/// Revision of the additions to the protocol.
pub const REVISION: u32 = 1;

/// The field that holds the id, in requests and responses.
const REQUEST_ID: u32 = 1;

/// A request whose payload is not decoded.
pub type Request = Envelope<RequestKind>;

/// A response whose payload is not decoded.
pub type Response = Envelope<ResponseKind>;

/// Why bytes are no envelope, or its payload not the message that it should be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EnvelopeError {
    /// The envelope is malformed.
    #[error("malformed envelope")]
    Envelope(#[source] FieldError),
    /// There is more than one payload, and receivers might differ in which they take.
    #[error("the envelope holds both {first} and {second}: send one of them")]
    Several {
        /// The first kind.
        first: &'static str,
        /// The second kind; the same when the payload came twice.
        second: &'static str,
    },
    /// The envelope is of another kind than was asked for.
    #[error("expected {wanted}, found {}", found.unwrap_or("nothing"))]
    Kind {
        /// The kind that was asked for.
        wanted: &'static str,
        /// The kind that it is.
        found: Option<&'static str>,
    },
    /// The payload is malformed.
    #[error("malformed {kind}")]
    Fields {
        /// The kind of the envelope.
        kind: &'static str,
        /// What is wrong.
        #[source]
        source: FieldError,
    },
    /// The payload is not the message of its kind.
    #[error("malformed {kind}")]
    Message {
        /// The kind of the envelope.
        kind: &'static str,
        /// What is wrong.
        #[source]
        source: prost::DecodeError,
    },
}

/// The envelope of a request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<K> {
    request_id: String,
    body: Option<(K, Body)>,
    /// The fields that this version does not know, as they came.
    unknown: Bytes,
}

impl<K: Kind> Envelope<K> {
    /// An envelope around `message`. The JSON of a large call or result is not copied: it stands last
    /// in the payload, and is sent from where it is.
    #[must_use]
    pub fn new<M: PayloadOf<K>>(request_id: impl Into<String>, message: &M) -> Self {
        let (front, rest) = message.to_parts();
        Self {
            request_id: request_id.into(),
            body: Some((M::KIND, Body::in_parts(front, rest))),
            unknown: Bytes::new(),
        }
    }

    /// An envelope around a payload that is encoded already.
    #[must_use]
    pub fn raw(request_id: impl Into<String>, kind: K, payload: Bytes) -> Self {
        Self {
            request_id: request_id.into(),
            body: Some((kind, payload.into())),
            unknown: Bytes::new(),
        }
    }

    /// An envelope with nothing in it: as a response, the answer that has nothing to say.
    #[must_use]
    pub fn empty(request_id: impl Into<String>) -> Self {
        Self {
            request_id: request_id.into(),
            body: None,
            unknown: Bytes::new(),
        }
    }

    /// Reads an envelope; payload and unknown fields are parts of `bytes` and not copied, as long
    /// as the unknown ones stand together.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError::Envelope`] for what is no message, [`EnvelopeError::Several`] for more than
    /// one payload. The payload is not looked at.
    pub fn decode(bytes: &Bytes) -> Result<Self, EnvelopeError> {
        let mut request_id = String::new();
        let mut body: Option<(K, Body)> = None;
        let mut several = None;
        let unknown = field::retained(bytes, |field| {
            if field.number == REQUEST_ID {
                field.text()?.clone_into(&mut request_id);
                return Ok(false);
            }
            let Some(kind) = K::from_number(field.number) else {
                return Ok(true);
            };
            let payload = field.shared(bytes)?;
            if let Some((first, _)) = &body {
                several = several.or(Some((first.name(), kind.name())));
            } else {
                body = Some((kind, payload.into()));
            }
            Ok(false)
        })
        .map_err(EnvelopeError::Envelope)?;
        if let Some((first, second)) = several {
            return Err(EnvelopeError::Several { first, second });
        }
        Ok(Self {
            request_id,
            body,
            unknown,
        })
    }

    /// The id of the request; opaque, empty when there is none.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// What is asked or answered; `None` for nothing, or for a kind that this version does not
    /// know.
    #[must_use]
    pub fn kind(&self) -> Option<K> {
        self.body.as_ref().map(|(kind, _)| *kind)
    }

    /// The payload as it came; empty when there is none.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        let body = self.body.as_ref();
        body.map_or_else(Bytes::new, |(_, body)| body.whole().clone())
    }

    /// The same envelope with another id, for the next hop.
    #[must_use]
    pub fn with_request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = request_id.into();
        self
    }

    /// Decodes the payload; bytes in it are parts of the payload and not copied.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError::Kind`] when it is of another kind, [`EnvelopeError::Message`] when it is
    /// malformed.
    pub fn message<M: PayloadOf<K>>(&self) -> Result<M, EnvelopeError> {
        match &self.body {
            Some((kind, payload)) if *kind == M::KIND => M::decode(payload.whole().clone())
                .map_err(|source| EnvelopeError::Message {
                    kind: kind.name(),
                    source,
                }),
            other => Err(EnvelopeError::Kind {
                wanted: M::KIND.name(),
                found: other.as_ref().map(|(kind, _)| kind.name()),
            }),
        }
    }

    /// The envelope without a frame around it.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        self.put_head(&mut bytes);
        bytes.extend_from_slice(&self.rest());
        bytes.into()
    }

    /// The same in two parts: what stands before the payload or its large last field, and that, which
    /// is not copied.
    #[must_use]
    pub fn to_parts(&self) -> [Bytes; 2] {
        let rest = self.rest();
        let mut head = Vec::with_capacity(self.encoded_len() - rest.len());
        self.put_head(&mut head);
        [head.into(), rest]
    }

    /// The envelope as a frame in one buffer, to be sent by one write.
    ///
    /// # Errors
    ///
    /// [`FrameError::TooLong`] when it is over the limit; nothing is encoded then.
    pub fn to_frame(&self) -> Result<Bytes, FrameError> {
        let length = self.encoded_len();
        let header = frame::header(length)?;
        let mut frame = Vec::with_capacity(HEADER_BYTES + length);
        frame.extend_from_slice(&header);
        self.put_head(&mut frame);
        frame.extend_from_slice(&self.rest());
        Ok(frame.into())
    }

    /// How many bytes the envelope has, without a frame around it.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let id = match self.request_id.len() {
            0 => 0,
            length => field::bytes_field_len(REQUEST_ID, length),
        };
        let body = self.body.as_ref().map_or(0, |(kind, payload)| {
            field::bytes_field_len(kind.number(), payload.len())
        });
        id + self.unknown.len() + body
    }

    /// What comes last, and is not copied.
    fn rest(&self) -> Bytes {
        let body = self.body.as_ref();
        body.map_or_else(Bytes::new, |(_, body)| body.parts().1.clone())
    }

    /// Appends all before that.
    fn put_head(&self, out: &mut Vec<u8>) {
        field::put_text(out, REQUEST_ID, &self.request_id);
        out.extend_from_slice(&self.unknown);
        if let Some((kind, payload)) = &self.body {
            field::put_bytes_head(out, kind.number(), payload.len());
            out.extend_from_slice(payload.parts().0);
        }
    }
}

impl Request {
    /// The keys by which the request is routed, read from the payload without decoding the rest.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError::Fields`] when the payload is malformed, or a key or the arguments are there
    /// twice, so that two receivers might differ in what they take.
    pub fn routing(&self) -> Result<Routing<'_>, EnvelopeError> {
        match &self.body {
            Some((kind, payload)) => Routing::read(*kind, payload.whole()),
            None => Ok(Routing::default()),
        }
    }

    /// The same request, saying that `plugin` makes it, whatever it said before. All other bytes of
    /// the payload stay. Requests that do not name who makes them stay as they are.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError::Fields`] when the payload is malformed.
    pub fn with_caller(mut self, plugin: &str) -> Result<Self, EnvelopeError> {
        if let Some((kind, payload)) = &mut self.body
            && let Some(number) = routing::caller_field(*kind)
        {
            let named = field::with_text(payload.whole(), number, plugin);
            let named = named.map_err(|source| EnvelopeError::Fields {
                kind: kind.name(),
                source,
            })?;
            *payload = named.into();
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
