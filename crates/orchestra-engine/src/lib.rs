//! Finding by meaning: embedding [`model`]s, the [`vectors`] made with them, and an [`index`] that keeps
//! those in step with the store.
//!
//! [`Indexed`] is all of it behind the interface that the memory engine serves; the program of this crate
//! is that engine. Everything here is derived from the store, and may be killed, deleted or absent.

pub mod index;
mod indexed;
pub mod model;
mod patience;
pub mod vectors;

pub use indexed::Indexed;
