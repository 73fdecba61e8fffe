//! Child programs that cannot outlive whoever started them, nor exceed their limits.
//!
//! A [`Command`] is not started by us but by a *guard*: our own program in a process of its own,
//! which does nothing but watch one child. The guard hears of our end by the end of a socket, so
//! that the child ends with us whoever killed whom; it kills whatever the child has left behind,
//! and says how the child ended. Between guard and child stands a *stage*, our own program once
//! more, which takes the limits and the confinement upon itself and then becomes the command; one that can
//! do without may leave it out.
//! Programs that use this crate call [`child_main`] when their first argument is `__child`.
//!
//! [`Connections`] reach us from children whose sandbox lets them create no socket but pairs.
//!
//! [`PeerUsers`] is independent of these: it names the user at the other end of a local connection.
//!
//! What crosses between the three is in `message`, what runs in the guard in `guard`, what runs in
//! the stage in `stage`, `links`, `targets`, `mounts`, `plain` and `confine`. Other modules read the pipes of a child.

mod child;
mod command;
#[cfg(target_os = "linux")]
mod confine;
mod detached;
mod environment;
mod error;
mod exit;
mod guard;
mod handover;
mod inherited;
mod launcher;
mod limits;
#[cfg(target_os = "linux")]
mod links;
mod memory;
mod message;
#[cfg(target_os = "linux")]
mod mounts;
mod orphans;
mod peer;
#[cfg(target_os = "linux")]
mod plain;
mod sandbox;
mod stage;
#[cfg(target_os = "linux")]
mod targets;
mod tree;

pub use child::{Child, Handle};
pub use command::Command;
pub use detached::{Detached, Process, ProcessRecord, leave_session, numbering, uptime};
pub use environment::{Environment, PROXIES};
pub use error::SpawnError;
pub use exit::{Certainty, Exit, LimitHit};
pub use guard::child_main;
pub use handover::{Connections, connect};
pub use inherited::close_in_children;
pub use launcher::{CHILD_COMMAND, Launcher};
pub use limits::{Limit, Limits};
pub use memory::memory_there;
pub use orphans::{adopt_orphans, kill_left};
pub use peer::{PeerUser, PeerUsers};
pub use sandbox::{NestedNames, SYSTEM_PATHS, Sandbox, mounts_allowed};
pub use tree::Usage;
