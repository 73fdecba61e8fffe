//! The hub as faces and providers see it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod anew;
mod calls;
mod catalog;
mod log;
mod names;
mod notices;
mod others;
mod provider;
mod skills;
mod toolsets;
