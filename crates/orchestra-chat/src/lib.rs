//! A conversation between a person, a model and the tools of a hub.
//!
//! [`Chat`] is the loop, and waits for nothing: events go in, wants come out. [`turn`] drives it, with a [`Backend`] that
//! asks a server of a model, a [`Toolbox`] that calls tools ([`HubTools`] those of a hub), a [`Face`] that shows and
//! decides, and a [`Record`] that takes everything down. [`repair`] makes out what small models mean by what they
//! print.

mod backend;
mod chat;
mod context;
mod driver;
mod exact;
mod hold;
mod hub;
mod message;
pub mod repair;
mod request;
mod schema;
mod select;
pub mod session;
mod settings;
mod thinking;
mod tokens;
mod tool;
mod untrusted;

pub use backend::{
    About, Backend, BoxFuture, Failure, Manner, Ollama, OpenAi, Patience, Script, ScriptError,
    Scripted,
};
pub use chat::{Chat, Due, End, Ending, Event, Made, Note, Outcome, Spent, Verdict, Want};
pub use context::LeftOut;
pub use driver::{Face, Parts, Record, Stop, Stopper, Toolbox, turn};
pub use hub::{Consent, HubTools, tools_of};
pub use message::{Answer, Call, Image, Message};
pub use request::{Piece, Reply, Request, SaidCall, Trouble, Usage};
pub use settings::{Approval, Budget, Context, Price, Settings};
pub use tool::{Described, Nature, Tool, Tools};
pub use untrusted::{capped, guarded, is_plain};
