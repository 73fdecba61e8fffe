//! Memory beside the store, which holds everything that is remembered.
//!
//! [`search`] ranks what the store recalls for a query, with or without hits by meaning, and gives
//! the reason for each. [`engine`] is the gRPC service that the programs of a workspace share to
//! find by meaning: the server, and the client that finds it, starts it and works without it.
//! [`model`] names the embedding models. The models themselves, the vectors made with them and the
//! index that keeps those in step with the store are in the crate `orchestra-engine`.

pub mod engine;
pub mod model;
pub mod search;
