//! Behaviour of the store, through its public door.

mod board;
mod bounds;
mod checkout;
mod child;
mod close_watch;
mod crash;
mod doubt;
mod faults;
mod files;
mod fixture;
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
mod recording;
mod scale;
mod search;
mod unseen;
