//! What can go wrong, and above all whether a call that failed may have run.

use std::{io, net::SocketAddr, sync::Arc};

use quinn::{ConnectionError, ReadError, TransportErrorCode, WriteError};

use super::codes;
use crate::frame::MAX_FRAME_BYTES;
use crate::ids::CertName;

/// Why an endpoint could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address could not be bound.
    #[error("cannot bind {address}")]
    Socket {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The certificates cannot be used.
    #[error("cannot use the certificates of {name}")]
    Identity {
        /// Whose.
        name: CertName,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address or the name is not one to connect to.
    #[error("cannot connect to {address}")]
    Target {
        /// The address.
        address: SocketAddr,
        /// What is wrong.
        #[source]
        source: quinn::ConnectError,
    },
    /// Nobody has the port.
    #[error("no process listens at {address}")]
    Nobody {
        /// The address.
        address: SocketAddr,
    },
    /// Nobody answered in time.
    #[error("no answer from {address} within {seconds} seconds")]
    NoAnswer {
        /// The address.
        address: SocketAddr,
        /// How long was waited.
        seconds: u64,
    },
    /// The handshake failed: another protocol, a certificate that is not believed, or none.
    #[error("the handshake with {address} failed")]
    Handshake {
        /// The address.
        address: SocketAddr,
        /// What was said.
        #[source]
        source: ConnectionError,
    },
    /// Somebody else answered.
    #[error("{address} is {}, not {expected}", .found.as_ref().map_or("a peer without a valid name", CertName::as_str))]
    WrongPeer {
        /// The address.
        address: SocketAddr,
        /// Who was expected.
        expected: CertName,
        /// Who answered, if its certificate names anyone.
        found: Option<CertName>,
    },
    /// There was a connection, and it ended.
    #[error("the connection to {address} was lost")]
    Lost {
        /// The address.
        address: SocketAddr,
        /// How it ended.
        #[source]
        source: ConnectionError,
    },
    /// The caller has been closed.
    #[error("closed")]
    Closed,
}

impl ConnectError {
    /// Whether the peer's certificate was not believed because of who signed it. Authorities of ours
    /// have one name, so that a signature is wrong where another verifier would say that the authority
    /// is unknown.
    pub fn is_of_another_authority(&self) -> bool {
        let Self::Handshake {
            source: ConnectionError::TransportError(error),
            ..
        } = self
        else {
            return false;
        };
        [UNKNOWN_CA, DECRYPT_ERROR]
            .map(TransportErrorCode::crypto)
            .contains(&error.code)
    }
}

/// Alerts of TLS (RFC 8446, 6): nobody who is trusted has signed it, or a signature is wrong.
const UNKNOWN_CA: u8 = 48;
const DECRYPT_ERROR: u8 = 51;

/// Why bytes from the peer are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The announced length is over the limit.
    #[error("a frame of {length} bytes exceeds the limit of {MAX_FRAME_BYTES} bytes")]
    TooLarge {
        /// What was announced.
        length: u64,
    },
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame")]
    Truncated,
    /// The stream was reset.
    #[error("the stream was reset with code {code:#x}")]
    Reset {
        /// The peer's reason.
        code: u64,
    },
    /// The connection is gone.
    #[error("the connection is closed")]
    Lost(#[source] ConnectionError),
}

/// Why a call has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// There is no connection, and the last attempt failed.
    #[error("there is no connection")]
    Unreachable(#[source] Arc<ConnectError>),
    /// There was no connection in time.
    #[error("no connection was established in time")]
    NoConnection,
    /// No stream could be opened in time: the peer takes no more calls.
    #[error("the peer did not accept the call in time")]
    NotTaken,
    /// The request does not fit into a frame.
    #[error("a request of {length} bytes exceeds the limit of {MAX_FRAME_BYTES} bytes")]
    RequestTooLarge {
        /// Its length.
        length: usize,
    },
    /// The connection went before the request had left.
    #[error("the connection was lost before the request was sent")]
    LostBefore(#[source] ConnectionError),
    /// The time was over before the request had left.
    #[error("the deadline passed before the request was sent")]
    LateBefore,
    /// The peer said that it is too busy and has not started.
    #[error("the peer is too busy")]
    Busy,
    /// The connection went after the request had left.
    #[error("the connection was lost while the call was running")]
    Lost(#[source] ConnectionError),
    /// The time was over after the request had left.
    #[error("the deadline passed while the call was running")]
    Late,
    /// The stream ended without an answer.
    #[error("the peer ended the call without an answer")]
    NoAnswer,
    /// The answer is no frame.
    #[error("cannot parse the response")]
    Answer(#[source] WireError),
}

impl CallError {
    /// Whether the peer may have run the call, so that a second try might run it twice.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::NoConnection
            | Self::NotTaken
            | Self::RequestTooLarge { .. }
            | Self::LostBefore(_)
            | Self::LateBefore
            | Self::Busy => false,
            Self::Lost(_) | Self::Late | Self::NoAnswer | Self::Answer(_) => true,
        }
    }

    /// What a failure to read an answer means for the call.
    pub(super) fn reading(error: WireError) -> Self {
        match error {
            WireError::Lost(cause) => Self::Lost(cause),
            WireError::Reset { code } if code == codes::BUSY.into_inner() => Self::Busy,
            other => Self::Answer(other),
        }
    }
}

/// Why an answer could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The payload does not fit into a frame; nothing was written.
    #[error("an answer of {length} bytes exceeds the limit of {MAX_FRAME_BYTES} bytes")]
    TooLarge {
        /// Its length.
        length: usize,
    },
    /// The caller does not want it any more.
    #[error("the caller has stopped the call")]
    Stopped,
    /// The caller has not taken anything for too long.
    #[error("the caller reads too slowly")]
    TooSlow,
    /// The connection is gone.
    #[error("the connection is closed")]
    Lost(#[source] ConnectionError),
    /// The answer was complete already.
    #[error("the response is already complete")]
    Finished,
}

impl From<ReadError> for WireError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(code) => Self::Reset {
                code: code.into_inner(),
            },
            ReadError::ConnectionLost(cause) => Self::Lost(cause),
            ReadError::ClosedStream
            | ReadError::IllegalOrderedRead
            | ReadError::ZeroRttRejected => Self::Lost(ConnectionError::LocallyClosed),
        }
    }
}

impl From<WriteError> for ReplyError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(_) => Self::Stopped,
            WriteError::ConnectionLost(cause) => Self::Lost(cause),
            WriteError::ClosedStream | WriteError::ZeroRttRejected => Self::Finished,
        }
    }
}
