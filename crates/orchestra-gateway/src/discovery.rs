//! Which servers there are: the files that are looked at, in their order, and what becomes of each
//! server in them.

mod decide;
mod exchanged;
mod found;
mod identity;
mod places;
mod plugins;
mod settings;

pub(crate) use decide::LastRead;
pub use exchanged::Writer;
pub(crate) use exchanged::refusal;
pub use found::{Change, Found, LookedAt, Replaced, Server, ServerState, Shadowed};
pub use identity::{Identity, identify, is_harmless_variable};
pub use places::Places;
pub(crate) use settings::{nested, protected};
