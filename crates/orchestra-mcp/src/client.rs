//! The client side: connections to servers of others.
//!
//! A [`Connector`] knows how to reach one server and opens a [`Link`], one live connection, on
//! which messages go out and come in. What a server is, how it is greeted, watched and asked
//! again, is the same whatever carries the messages.

mod error;
mod link;

pub use error::{ClientError, Crash, HttpFailure, Sent};
pub use link::{
    Agreed, Answer, Connected, Connector, Incoming, LINK_QUEUE, Link, Outgoing, ServerMessage,
    TransportType,
};
