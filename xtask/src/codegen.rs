//! `cargo xtask codegen`: the code that is made from schemas is written anew.
//!
//! A test of `orchestra-plugin` makes it, and fails when what is checked in is something else; here
//! it is only told to write what it has made.

use anyhow::Result;

use crate::run;

/// Writes `crates/orchestra-plugin/src/generated.rs` anew.
///
/// # Errors
/// When the schema cannot be read, or the file not be written.
pub(crate) fn run() -> Result<()> {
    let test = [
        "test",
        "-p",
        "orchestra-plugin",
        "--test",
        "it",
        "generated::",
    ];
    run::run(run::cargo(test).env("UPDATE_GENERATED", "1"))
}
