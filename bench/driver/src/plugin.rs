//! Plugins over QUIC: a call beside the same call over gRPC, a call through the bridge, and many
//! plugins at one orchestrator.

mod bridge;
mod calls;
mod many;
mod orchestrator;

use anyhow::{Context as _, Result};

use crate::Bench;

/// The plugin that is called, made with the kit.
const PLUGIN: &str = "bench-plugin";

/// How often each peer runs, in turn with the others.
const ROUNDS: usize = 5;

/// Measures all of it.
///
/// # Errors
/// When a peer cannot be run.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    calls::run(&mut bench.bars).context("calls")?;
    bridge::run(&mut bench.bars).context("the bridge")?;
    many::run(&mut bench.bars).context("many plugins")
}
