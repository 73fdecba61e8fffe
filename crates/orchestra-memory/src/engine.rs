//! The engine: one process for all programs of a workspace, which finds by meaning.
//!
//! Texts and sessions are rows of the store, and stay there: an engine that is killed, hangs, is of
//! another workspace or version, or is not there at all costs what is found by meaning and nothing
//! else. [`run`] is the engine. [`Engines`] is what another program has of it: it finds the one of its
//! workspace, starts one where there is none, and answers without it whenever that is quicker. They
//! know each other by the endpoint file in the run directory of the workspace, which says where the engine
//! listens and what to show there. The engine is the leader of an election (`orchestra_place::Election`).
//!
//! How what is found is ranked, and which model is meant, is left to others.

mod answers;
mod ask;
mod client;
mod clients;
mod connection;
mod convert;
mod door;
mod endpoint;
mod find;
mod follow;
#[rustfmt::skip]
pub mod generated;
mod guard;
mod listen;
mod meaning;
mod place;
mod program;
mod run;
mod service;
mod spawn;
mod status;
mod talk;
mod vector_files;
mod waiting;

pub use ask::{forget_vectors, rebuild, standing, token};
pub use client::{Engines, NearAnswer, Settings};
pub use endpoint::{Endpoint, PathError};
pub use listen::{Address, AddressError, DEFAULT_PORT};
pub use meaning::{Meaning, MeaningError, NearHit, OPENING, Standing};
pub use place::Place;
pub use program::{ENGINE, NoEngine, find, programs};
pub use run::{EngineError, Life, Options, Outcome, run};
pub use talk::Tell;
pub use vector_files::{remove_other_vectors, remove_vectors, vectors_path};
