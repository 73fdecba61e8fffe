//! The protocol as clients see it: real child processes, streams in memory, single messages.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod bad_input;
mod batches;
mod bounds;
mod calls;
mod child;
mod child_servers;
mod client;
mod client_http;
mod ending;
mod eras;
mod faulty;
mod hostile;
mod http;
mod input;
mod lifecycle;
mod lines;
mod listing;
mod memory;
mod notices;
mod oauth;
mod sessions;
mod skills;
mod statuses;
mod tap;
mod tasks;
mod tls;
mod verbatim;
