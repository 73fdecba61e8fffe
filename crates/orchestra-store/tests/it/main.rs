//! Behaviour of the store, through its public door.

mod board;
mod bounds;
mod checkout;
mod child;
mod crash;
mod faults;
mod files;
mod fixture;
mod gated;
mod git;
mod hands;
mod import;
mod keeping;
mod lists;
mod memory;
mod model;
mod notices;
mod power;
mod processes;
mod rebuild;
mod recorded;
mod recording;
mod scale;
mod search;
mod unseen;
mod words;
