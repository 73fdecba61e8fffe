//! Memory that finds what was meant: what stands beside the store, which has all that is remembered.
//!
//! [`search`] ranks what the store recalls for a query, with or without hits by meaning from
//! elsewhere, and says why each was found. [`engine`] is the process that a workspace has for those,
//! its gRPC interface, and the clients that find it, start it and do without it. What it finds by is
//! a [`model`], the [`vectors`] made with it, and an [`index`] that keeps those in step with the
//! store: all of it follows from what is stored, and may be killed, deleted or absent.

pub mod engine;
pub mod index;
pub mod model;
pub mod search;
pub mod vectors;
