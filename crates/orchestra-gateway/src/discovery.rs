//! Which servers there are: the files that are looked at, in their order, and what becomes of each
//! server in them.

mod decide;
mod found;
mod places;
mod plugins;

pub(crate) use decide::LastRead;
pub use decide::is_own;
pub use found::{Change, Found, LookedAt, Server, ServerState, Shadowed};
pub use places::Places;
