//! Stand-ins for the programs of agents, which record that they were started.
//!
//! The tests run with them first on `PATH`. A test that names an agent puts its own program before them, so every start
//! of a stand-in is a start that nothing named.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::run;

/// Programs of the built-in agent profiles.
const PROGRAMS: [&str; 5] = ["claude", "codex", "copilot", "gemini", "opencode"];

/// Maximum number of recorded starts that are reported.
const MAX_SHOWN: usize = 20;

/// Directory with the stand-ins.
pub(crate) struct Agents {
    directory: PathBuf,
}

impl Agents {
    /// Creates the stand-ins, without any record of earlier starts.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub(crate) fn create() -> Result<Self> {
        Self::create_in(run::target().join("xtask/agents"))
    }

    fn create_in(directory: PathBuf) -> Result<Self> {
        let write = || -> std::io::Result<()> {
            if directory.exists() {
                fs::remove_dir_all(&directory)?;
            }
            fs::create_dir_all(&directory)?;
            // Tests of other users start the program with this `PATH`, and must be able to record.
            let starts = directory.join("starts");
            fs::write(&starts, "")?;
            fs::set_permissions(&starts, fs::Permissions::from_mode(0o666))?;
            // Validation asks the program of an agent that a plan names for its version.
            let script = format!(
                "#!/bin/sh\n[ \"$*\" = --version ] && exit 1\nprintf '%s in %s\\n' \"${{0##*/}} $*\" \"$PWD\" >> '{}'\nexit 1\n",
                starts.display()
            );
            for program in PROGRAMS {
                let path = directory.join(program);
                fs::write(&path, &script)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            }
            Ok(())
        };
        write().with_context(|| format!("writing agents to {}", directory.display()))?;
        Ok(Self { directory })
    }

    /// `PATH` with the stand-ins first.
    ///
    /// # Errors
    /// When a directory cannot be part of `PATH`.
    pub(crate) fn path(&self) -> Result<std::ffi::OsString> {
        let others = env::var_os("PATH").unwrap_or_default();
        let all = [self.directory.clone()]
            .into_iter()
            .chain(env::split_paths(&others));
        Ok(env::join_paths(all)?)
    }

    /// Command lines of the stand-ins that were started, one per line. `None` when none was.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub(crate) fn started(&self) -> Result<Option<String>> {
        let path: &Path = &self.directory.join("starts");
        let starts =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let lines: Vec<&str> = starts.lines().take(MAX_SHOWN).collect();
        Ok((!lines.is_empty()).then(|| lines.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn started_agent_is_recorded_with_its_command_line() {
        let directory = env::temp_dir().join(format!("xtask-agents-{}", std::process::id()));
        let agents = Agents::create_in(directory.clone()).unwrap();
        assert_eq!(agents.started().unwrap(), None);
        let path = agents.path().unwrap();
        let first = env::split_paths(&path).next().unwrap();
        assert_eq!(first, directory);
        let mut agent = Command::new(directory.join("claude"));
        let status = agent.arg("--print").current_dir("/").status().unwrap();
        assert_eq!(status.code(), Some(1));
        let mut probed = Command::new(directory.join("codex"));
        assert!(!probed.arg("--version").status().unwrap().success());
        assert_eq!(
            agents.started().unwrap().as_deref(),
            Some("claude --print in /")
        );
        fs::remove_dir_all(directory).unwrap();
    }
}
