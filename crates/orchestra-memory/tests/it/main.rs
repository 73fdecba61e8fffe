//! Behaviour of memory, on real stores.

mod context;
mod fixture;
mod hostile;
mod search;
