//! Runs plans: what `orchestra-plan` decides is done here, by git, processes and files, so that it can be
//! found again by whoever comes next when this process is killed.

pub mod agents;
mod cause;
pub mod git;
mod hex;
pub mod holder;
pub mod journal;
pub mod logs;
pub mod plans;
pub mod runner;
pub mod supervise;
