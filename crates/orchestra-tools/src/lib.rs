//! Orchestra's built-in tools, prompts and resources as a provider of the hub.
//!
//! [`Builtin`] answers calls over one [`Store`](orchestra_store::Store): a call becomes a typed
//! struct, the struct a command for the store's writer or a reading in place, and what comes of it
//! a typed result. What is allowed is the board's to say, who may call is the hub's. The
//! schemas of a tool are generated from its structs and checked in; a test compares the two.

mod args;
mod builtin;
mod bundle;
mod complete;
mod failure;
mod front_matter;
mod groups;
mod job;
mod joined;
mod live;
mod places;
mod plan_service;
mod prompts;
mod resources;
mod schema;
mod services;
mod skills;
mod text;
mod tool;
mod uri;
mod watch;
mod wire;

pub use builtin::{Builtin, EmptyBoardHint, Options};
pub use bundle::{Bundle, BundleError, BundleKind, BundledSkill, EmptyBundle, InstallReport};
pub use groups::{group_names, only_reads, tool_names};
pub use live::{Live, LiveError, LogFrom, Tell};
pub use plan_service::{Asking, Done, DoneItem, Make, PlanFault, PlanService, PutAway};
pub use text::TextFormat;
