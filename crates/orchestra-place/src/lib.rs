//! The directories of a workspace's private state.
//!
//! Databases, sockets, tokens and locks do not belong into the working tree, which a clone, a checkout or `git clean`
//! changes. In a git repository they are in its common directory, and otherwise in the state directory of the user.
//! [`Place::find`] finds the repository as git does, without starting git and without its environment variables.
//!
//! Programs that run in a workspace elect leaders in these directories ([`Election`]).
//!
//! A place proves nothing: an archive can contain a git directory. Users of this crate decide for themselves which
//! content of it they trust.

mod error;
mod id;
mod index;
mod inside;
mod key;
mod known;
mod leadership;
mod place;
mod repository;
mod run;
mod shared;

pub use error::PlaceError;
pub use id::DatabaseId;
pub use index::{is_tracked, repository};
pub use known::{Databases, KnownDatabases, ListError, Listing};
pub use leadership::{Election, Leader, Leadership};
pub use place::{Choice, IN_GIT, Place};
pub use repository::{Checkout, Safety, check_answer, check_links};
pub use run::RunDirectory;
