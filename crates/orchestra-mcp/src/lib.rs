//! MCP on top of `orchestra-wire` and `orchestra-hub`.
//!
//! [`Connection`] is the protocol, pure: lines and outcomes in, bytes and jobs out. Around it
//! stand drivers that move bytes: [`stdio`] for a process's standard input and output, [`stream`]
//! for any pair of async byte streams, also in memory, [`http`] for HTTP, and [`post`] for one message
//! at a time. [`Direct`] makes calls for faces that have a form of their own, and
//! [`ServerLifecycle`] starts, watches and stops a server. [`files`] reads what a configuration names,
//! and [`owners`] refuses what other users wrote. [`repair`] makes of definitions, results and questions what clients accept.

mod activity;
mod attribution;
mod causes;
pub mod client;
mod connection;
mod cursor;
mod direct;
pub mod files;
mod hex;
pub mod http;
mod lifecycle;
pub mod owners;
pub mod post;
mod relay;
pub mod repair;
mod report;
mod results;
mod seal;
mod secret;
mod server;
mod session;
pub mod stdio;
pub mod stream;
mod tasks;
mod told;
mod translation;
mod wanted;

pub use connection::{Connection, Job, Lifetime, Step, Ticket};
pub use direct::{Direct, DirectCaller, DirectError};
pub use lifecycle::{
    LifecycleTimes, PartLook, ServerLifecycle, ServerPart, ServerStatus, StartedError,
    StatusSubscription, TransportKind,
};
pub use relay::{Asking, Relay, RelayBudget, Relayed, Said};
pub use report::Emit;
pub use server::{Limits, Server, ServerBuilder};
pub use tasks::{TaskLimits, TaskTurn, TaskWork};
