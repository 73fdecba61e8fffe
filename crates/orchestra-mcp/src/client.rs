//! The client side: connections to servers of others.
//!
//! A [`Connector`] knows how to reach one server and opens a [`Link`], one live connection, on
//! which messages go out and come in. What a server is, how it is greeted, watched and asked
//! again, is the same whatever carries the messages.

mod api;
mod background;
mod breaker;
mod calls;
mod child;
mod config;
mod error;
mod events;
mod greeting;
pub mod http;
mod incoming;
mod latency;
mod lines;
mod link;
mod lists;
mod masked;
mod member;
mod open;
mod params;
mod parking;
mod profile;
mod results;
mod roots;
mod session;
pub mod tap;
mod tasks;
mod watching;

pub use crate::attribution::{
    URL_ELICITATION_REQUIRED, ascii_address, attribute, attribute_error, attribute_notification,
    attribute_result, is_deceptive, is_hidden, quoted,
};
pub use api::{
    ClientEvent, ClientStatus, Lists, Reply, ServerCall, ServerCan, ServerFacts, ToolCheck,
    TransportMetadata,
};
pub use calls::{Client, ClientLists};
pub use child::{ChildConfig, ChildConnector, Heard, Stderr};
pub use config::{
    Backoff, Circuit, ClientConfig, ClientInfo, Growth, ProtocolChoice, Reconnect, Retry, Root,
};
pub use error::{ClientError, Crash, HttpFailure, Sent};
pub use events::ClientEvents;
pub use latency::ClientStats;
pub use lines::{LinesConfig, LinesLink, LinkCounters, MAX_JUNK_LINES};
pub use link::{
    Agreed, Answer, Connected, Connector, Departure, Incoming, IncomingSender, LINK_QUEUE, Link,
    MAX_MESSAGE_BYTES, Outgoing, ServerMessage, TransportType, step_of_ending,
};
/// What bounds a child, as [`ChildConfig`] takes it.
pub use orchestra_process::{Environment, Launcher, Limit, Limits as ChildLimits, Sandbox};
/// Masker of a link, as [`Link::masker`] returns it.
pub use orchestra_secret::Masker;
