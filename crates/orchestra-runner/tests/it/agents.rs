//! Agents: what their programs can do, how they are called, and what is read from them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod golden;
mod hostile;
mod invocations;
mod probes;
mod scripted;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use orchestra_plan::work::{AgentWork, ProfileName, WorkSpec};
use orchestra_process::{CHILD_COMMAND, Launcher};
use orchestra_runner::agents::{Agents, Prober, Profile};
use serde_json::{Value, json};

/// The example `agent` of this crate.
fn program() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/agent")
}

/// A directory of programs that are looked for.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A program that is this text of a shell.
    fn with(self, name: &str, script: &str) -> Self {
        self.put(name, script);
        self
    }

    /// It is written by another process: while we hold a file open for writing, a process that another
    /// test starts may hold it as well, and it could not be run.
    fn put(&self, name: &str, script: &str) {
        let path = self.path().join(name);
        let write = "printf '#!/bin/sh\n%s\n' \"$1\" > \"$2.new\" && chmod 755 \"$2.new\" && mv \"$2.new\" \"$2\"";
        let status = Command::new("/bin/sh")
            .args(["-c", write, "sh", script])
            .arg(path)
            .status()
            .unwrap();
        assert!(status.success());
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn prober(&self) -> Prober {
        let launcher = Launcher::new(program(), [CHILD_COMMAND]);
        Prober::new(OsString::from(self.path()), program()).launcher(launcher)
    }

    /// All agents, with some of one's own.
    fn agents(&self, configured: &[(&str, Value)]) -> Agents {
        let configured: BTreeMap<ProfileName, Profile> = configured
            .iter()
            .map(|(name, profile)| (ProfileName::parse(name).unwrap(), profile_of(profile)))
            .collect();
        Agents::new(configured, self.prober())
    }
}

fn profile_of(value: &Value) -> Profile {
    serde_json::from_value(value.clone()).unwrap()
}

/// Work for an agent, with what it asks for.
fn work(more: Value) -> AgentWork {
    let mut text = json!({"type": "agent", "instructions": "Do it."});
    for (name, value) in more.as_object().unwrap() {
        text[name] = value.clone();
    }
    let work: WorkSpec = serde_json::from_value(text).unwrap();
    work.agent().unwrap().clone()
}
