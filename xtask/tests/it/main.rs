//! What holds for the whole workspace: its edges, its files and its papers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may fail")]

mod commands;
mod edges;
mod features;
mod language;
mod papers;
mod servers;
mod tidy;
mod tree;
