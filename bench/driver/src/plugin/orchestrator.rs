//! An orchestrator of ours with its plugins, and who reaches it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::PLUGIN;
use crate::{seed, server::program};

/// How long an orchestrator and its plugins may take to start.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// A directory where the programs keep what they keep, with so many plugins configured.
pub(super) struct Home {
    directory: TempDir,
}

impl Home {
    /// Plugins `tools.s0` and so on, each a process of its own.
    pub(super) fn of(plugins: usize) -> Result<Self> {
        let home = Self {
            directory: seed::directory()?,
        };
        for name in ["work", "client"] {
            fs::create_dir(home.path(name)).context("making a workspace")?;
        }
        let binary = Value::from(program(PLUGIN)?.display().to_string());
        let prefix = plugins > 1;
        let plugin = |number| {
            format!(
                "[plugins.\"tools.s{number}\"]\nbinary = {binary}\nprefix = {prefix}\n\
                 env = {{ BENCH_PLUGIN = \"tools.s{number}\" }}\n"
            )
        };
        let text: String = (0..plugins).map(plugin).collect();
        fs::write(home.path("orchestra.toml"), text).context("writing the configuration")?;
        Ok(home)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `orchestra up` with the plugins and no tools of its own.
    pub(super) fn up(&self) -> Result<Up> {
        let mut up = self.orchestra("up", "work")?;
        up.args(["--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json"]);
        up.arg("--mcp-config").arg(self.path("orchestra.toml"));
        up.arg("--only-servers");
        Up::start(&mut up)
    }

    /// The bridge to it.
    pub(super) fn bridge(&self, to: &Up) -> Result<Command> {
        let mut bridge = self.orchestra("stdio", "client")?;
        bridge.args(["--orchestrator-addr", &to.quic]);
        Ok(bridge)
    }

    fn orchestra(&self, command: &str, workspace: &str) -> Result<Command> {
        let mut orchestra = Command::new(program("orchestra")?);
        orchestra.arg(command);
        orchestra.arg("--workspace").arg(self.path(workspace));
        orchestra.arg("--certs-dir").arg(self.path("certs"));
        orchestra.env("HOME", self.directory.path());
        for variable in [
            "XDG_STATE_HOME",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
        ] {
            orchestra.env_remove(variable);
        }
        Ok(orchestra)
    }
}

/// An orchestrator that runs, ended when dropped.
pub(super) struct Up {
    child: Child,
    quic: String,
    _told: BufReader<ChildStdout>,
}

impl Up {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting the orchestrator")?;
        let told = child.stdout.take().context("no pipe from it")?;
        let mut up = Self {
            child,
            quic: String::new(),
            _told: BufReader::new(told),
        };
        let mut line = String::new();
        up._told.read_line(&mut line).context("reading from it")?;
        ensure!(!line.is_empty(), "it ended before it was ready");
        let ready: Value = serde_json::from_str(&line).context("reading that it is ready")?;
        let quic = ready["quic"].as_str();
        quic.with_context(|| format!("no `quic` in {line}"))?
            .clone_into(&mut up.quic);
        Ok(up)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It takes its plugins along, whoever ends it.
        drop(self.child.kill().and_then(|()| self.child.wait()));
    }
}
