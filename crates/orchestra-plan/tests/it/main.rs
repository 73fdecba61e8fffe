//! Tests of plans through what the crate offers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod edits;
mod fair;
mod golden;
mod heals;
mod kept;
mod large;
mod laws;
mod make;
mod random;
mod tree;
mod user;
mod world;
