//! Servers of others behind one hub.
//!
//! [`config`] says what a server is, whatever file it was written in; [`discovery`] finds the
//! servers of a workspace and its user, [`approval`] keeps what the user decided of them,
//! [`expand`] puts in what their texts refer to, and [`watch`] tells of changes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod approval;
pub mod config;
pub mod discovery;
pub mod expand;
pub mod watch;
