//! `cargo xtask codegen`: the code that is made from schemas is written anew.
//!
//! A test of each crate that has such code makes it, and fails when what is checked in is something
//! else; here it is only told to write what it has made.

use anyhow::Result;

use crate::run;

/// Crates whose `generated.rs` is made from a schema.
const CRATES: [&str; 2] = ["orchestra-plugin", "orchestra-memory"];

/// Writes every `generated.rs` anew.
///
/// # Errors
/// When a schema cannot be read, or a file not be written.
pub(crate) fn run() -> Result<()> {
    for package in CRATES {
        let test = ["test", "-p", package, "--test", "it", "generated::"];
        run::run(run::cargo(test).env("UPDATE_GENERATED", "1"))?;
    }
    Ok(())
}
