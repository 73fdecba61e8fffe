//! Servers of others behind one hub.
//!
//! [`config`] says which servers there are and what each may do, whatever file they were written
//! in.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod config;
