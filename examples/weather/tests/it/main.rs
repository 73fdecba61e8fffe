//! The weather server over a fake of its source with recorded answers; nothing leaves this machine.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alerts;
mod fake;
mod faults;
mod forecast;
mod kept;
mod serving;
