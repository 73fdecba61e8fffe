//! Plans through their handle, with real git and real processes.

mod again;
mod beside;
mod budgets;
mod bytecode;
mod foreseen;
mod graphs;
mod keeping;
mod killing;
mod leaving;
mod mending;
mod mishaps;
mod obstacles;
mod pressure;
mod readying;
mod rebuilding;
mod remotes;
mod removed;
mod rig;
mod running;
mod saying;
mod secrets;
mod steering;
mod storm;
mod targets;
mod witness;
