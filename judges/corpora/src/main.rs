//! Plays public corpora through the parsers that read what others send: the JSON parsing suite
//! through the envelope, the fixtures of the TOON specification through the codec's library.
//!
//! Called with the directory that holds the corpora's packages (`node_modules`); prints a line per
//! corpus and fails when a text is not read as its corpus says.

mod json;
mod toon;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};

/// How the texts of one corpus fared.
struct Score {
    passed: usize,
    failed: Vec<String>,
    left_out: usize,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("corpora: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let packages = std::env::args_os().nth(1).map(PathBuf::from);
    let packages = packages.context("usage: judge-corpora NODE_MODULES")?;
    let mut failed = 0;
    for (name, score) in [
        ("json", json::play(&packages)?),
        ("toon", toon::play(&packages)?),
    ] {
        let Score {
            passed,
            failed: texts,
            left_out,
        } = score;
        say(&format!(
            "{name}: {passed} passed, {} failed, {left_out} left out",
            texts.len()
        ));
        texts.iter().for_each(|text| say(&format!("  {text}")));
        failed += texts.len();
    }
    if failed > 0 {
        bail!("{failed} texts were not read as their corpus says");
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the judge's report is its output")]
fn say(line: &str) {
    println!("{line}");
}
