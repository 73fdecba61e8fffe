//! `cargo xtask codegen`: the code that is made from schemas is written anew.
//!
//! A test of each crate that has such code makes it, and fails when what is checked in is something
//! else; here it is only told to write what it has made.

use anyhow::Result;

use crate::run;

/// Crates with generated files, and the part of their tests that makes it.
const CRATES: [(&str, &[&str]); 4] = [
    ("orchestra-plugin", &["--test", "it", "generated::"]),
    ("orchestra-memory", &["--test", "it", "generated::"]),
    ("orchestra-tools", &["--lib", "generated_schemas"]),
    ("orchestra-web", &["--lib", "generated_"]),
];

/// Writes every generated file anew.
///
/// # Errors
/// When a schema cannot be read, or a file not be written.
pub(crate) fn run() -> Result<()> {
    for (package, filter) in CRATES {
        let mut test = run::cargo(["test", "-p", package]);
        run::run(test.args(filter).env("UPDATE_GENERATED", "1"))?;
    }
    Ok(())
}
