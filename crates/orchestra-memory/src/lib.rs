//! Memory that finds what was meant: what stands beside the store, which has all that is remembered.
//!
//! [`search`] ranks what the store recalls for a query, with or without hits by meaning from
//! elsewhere, and says why each was found.

pub mod search;
