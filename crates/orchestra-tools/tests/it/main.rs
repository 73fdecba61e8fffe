//! The built-in provider through its one door, over a real store in a directory of its own.
//!
//! Every result that any of these tests gets is held against the output schema of its tool and
//! against its own text (see [`bench::Bench::call`]).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod bench;
mod catalog;
mod completion;
mod day;
mod hardened;
mod hostile;
mod live;
mod meaning;
mod memory;
mod notices;
mod operations;
mod plans;
mod prd;
mod prompts;
mod resources;
mod rules;
mod scenarios;
mod skills;
mod tokens;
mod tour;
mod workspace;
