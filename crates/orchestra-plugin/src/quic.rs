//! Calls over QUIC with mutual TLS, between any two peers of one authority.
//!
//! One bidirectional stream carries one call: a request frame, one or more answer frames. This layer
//! moves whole payloads and knows nothing of what is in them. A peer is known by the certificate that
//! it must show; nothing that it says about itself counts.
//!
//! A [`Caller`] keeps a connection to one address and calls over it; a [`Handler`] answers the calls
//! that come in at an [`Endpoint`]. Stopping and resetting a stream is cancelling its call, in both
//! directions. Every error of a call tells whether the call may have run.

mod admission;
mod caller;
mod codes;
mod connection;
mod endpoint;
mod error;
mod limits;
mod nobody;
mod payload;
mod peer;
mod reply;
mod reset;
mod serve;
mod tls;
mod transport;
mod wire;

pub use crate::frame::MAX_FRAME_BYTES;
pub use caller::{Caller, CallerOptions, Link};
pub use connection::{Answers, Connection, Sender};
pub use endpoint::{Endpoint, Target};
pub use error::{BindError, CallError, ConnectError, ReplyError, WireError};
pub use limits::{Limits, Shared};
pub use payload::Payload;
pub use peer::{ConnectionId, Peer};
pub use reply::{Cancelled, Reply, Requests};
pub use serve::{BoxFuture, Handler, Serving};
pub use transport::{ALPN, Pace};
