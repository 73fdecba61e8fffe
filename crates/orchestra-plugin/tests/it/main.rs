//! Tests of the plugin protocol through its public seams.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod annotated;
mod certs;
mod generated;
mod guide;
mod kit;
mod kit_asks;
mod kit_events;
mod kit_faults;
mod kit_life;
mod kit_rig;
mod language_rig;
mod languages;
mod quic;
mod quic_hostile;
mod quic_killed;
mod quic_rig;
mod quic_rogue;
mod quic_weather;
mod relay;
#[path = "../../../orchestra-runner/tests/it/skip.rs"]
mod skip;
mod vectors;
