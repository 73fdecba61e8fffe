//! Conversations in files: one each, a line of JSON for everything that happened and everything that was wanted then,
//! so that a conversation can be read, gone on with, branched, exported, and played again.

mod error;
mod export;
mod line;
mod recorder;
mod replay;

pub use error::SessionError;
pub use export::exported;
pub use line::{Header, words};
pub use recorder::Recorder;
pub use replay::{Difference, Played, Session, played};
