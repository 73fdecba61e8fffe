//! Behaviour of the store, through its public door.

mod board;
mod bounds;
mod child;
mod crash;
mod faults;
mod files;
mod fixture;
mod hands;
mod import;
mod lists;
mod memory;
mod model;
mod notices;
mod power;
mod processes;
mod recording;
mod scale;
mod search;
mod unseen;
