//! The board's rules through its public functions, against the model in memory.

mod claims;
mod fixture;
mod moves;
mod parents;
mod prd;
mod properties;
