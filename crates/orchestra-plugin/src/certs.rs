//! The certificates of a user's programs: one private authority and a leaf for each name.
//!
//! All lies in one directory (0700, files 0600), in the layout that programs already have:
//!
//! | file | content |
//! |---|---|
//! | `ca.crt`, `ca.key` | the authority that signs now |
//! | `NAME.crt`, `NAME.key` | the leaf of NAME |
//! | `ca-previous.crt` | the authorities before, the latest first, each trusted until it ends |
//! | `ca-cross.crt` | the present authority signed by the one before, and that by the one before it, sent behind new leaves; above them the same of one half made |
//! | `ca-next.crt` | an authority half made; the next program finishes or forgets it |
//! | `.lock` | held while anything is written |
//!
//! **Rotation overlaps.** A program that read the directory before the rotation trusts only the old
//! authority, and accepts a new leaf all the same, because the cross certificate comes with it. A
//! program that read it afterwards trusts both. Nothing has to restart in step, and no second rotation
//! takes away what the first one promised.
//!
//! An authority that can be read is never overwritten, whatever is wrong with its key: a new one
//! would shut out every program that trusts the old. A directory may hold `ca.crt` and one leaf
//! alone, which is all that a plugin needs.
//!
//! Everything here blocks on the disk, except for [`Looks`]. The clock is a parameter.

mod dir;
mod error;
mod files;
mod hand_out;
mod identity;
mod key;
mod looks;
mod make;
mod parse;
mod rotate;

pub use dir::{CA_RENEWAL, CertDir, LEAF_RENEWAL};
pub use error::CertError;
pub use identity::{Identity, Listed};
pub use looks::Looks;
pub use make::VALIDITY;
pub(crate) use parse::peer_name;
