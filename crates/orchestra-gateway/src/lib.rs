//! Servers of others behind one hub.
//!
//! [`config`] says what a server is, whatever file it was written in; [`discovery`] finds the
//! servers of a workspace and its user, [`approval`] keeps what the user decided of them,
//! [`expand`] puts in what their texts refer to, [`connect`] reaches them, [`hints`] says what may
//! be behind a start that fails, [`rules`] what stands against a call, and [`watch`] tells of changes.
//!
//! A [`Gateway`] runs them behind a hub: each is a provider like any other, whose tools are called
//! under the rules and budgets of its configuration.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod approval;
mod cache;
mod canonical;
mod collisions;
pub mod config;
pub mod connect;
mod definitions;
pub mod discovery;
pub mod expand;
mod explain;
mod files;
mod gateway;
pub mod hints;
mod names;
mod needs;
mod pins;
mod policy;
mod provider;
pub mod rules;
mod runners;
mod schema;
mod server;
mod spill;
pub mod watch;

pub use collisions::NameCollision;
pub use definitions::{Reviewed, review};
pub use gateway::{Connect, Gateway, GatewayOptions, Reach};
pub use needs::{Needs, NeedsFile};
pub use pins::{Change, PinFile, Seen};
