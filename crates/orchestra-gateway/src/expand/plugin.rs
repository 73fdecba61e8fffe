//! Plugins and orchestrators elsewhere, with everything put in.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use super::{ExpandError, Process, Scope};
use crate::config::{OrchestratorConfig, PluginConfig, ServerConfig, host_and_port};

/// An orchestrator elsewhere as it is reached.
#[derive(Clone, PartialEq, Eq)]
pub struct Orchestrator {
    /// The machine: a name, or an address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Where our certificates are, where that is said.
    pub certs_dir: Option<PathBuf>,
}

impl fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orchestrator").finish_non_exhaustive()
    }
}

impl Scope {
    /// The process of a plugin, ready to be started but for the arguments that every plugin is
    /// given behind its own.
    ///
    /// # Errors
    /// When something that it refers to is not there.
    pub fn plugin(
        &self,
        plugin: &PluginConfig,
        config: &ServerConfig,
    ) -> Result<Process, ExpandError> {
        let binary = self.expand(&plugin.binary, config)?;
        if binary.is_empty() {
            return Err(ExpandError::Unusable("`binary` is empty"));
        }
        let command = match (binary.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => plugin.directory.join(&binary),
        };
        let Ok(command) = command.into_os_string().into_string() else {
            return Err(ExpandError::Unusable("the path of `binary` is not UTF-8"));
        };
        let mut env = Vec::with_capacity(plugin.env.len());
        for (name, value) in &plugin.env {
            env.push((name.clone(), self.expand(value, config)?));
        }
        Ok(Process {
            command,
            args: self.all(&plugin.args, config)?,
            cwd: match &plugin.cwd {
                Some(cwd) => self.path(cwd, config)?,
                None => config.origin.directory.clone(),
            },
            env,
            inherit_env: plugin.inherit_env,
        })
    }

    /// What a plugin is told when it is booted. Holds secrets.
    ///
    /// # Errors
    /// When something that it refers to is not there.
    pub fn boot(
        &self,
        plugin: &PluginConfig,
        config: &ServerConfig,
    ) -> Result<BTreeMap<String, String>, ExpandError> {
        let pairs = plugin.config.iter();
        let pairs = pairs.map(|(name, text)| Ok((name.clone(), self.expand(text, config)?)));
        pairs.collect()
    }

    /// An orchestrator elsewhere, ready to be reached.
    ///
    /// # Errors
    /// When something that it refers to is not there, or its address is none.
    pub fn orchestrator(
        &self,
        there: &OrchestratorConfig,
        config: &ServerConfig,
    ) -> Result<Orchestrator, ExpandError> {
        let address = self.expand(&there.address, config)?;
        let Some((host, port)) = host_and_port(&address) else {
            let what = "`orchestrator` must be a host and a port, such as `hub.example:7421`";
            return Err(ExpandError::Unusable(what));
        };
        let certs_dir = there.certs_dir.as_ref();
        Ok(Orchestrator {
            host,
            port,
            certs_dir: certs_dir.map(|path| self.path(path, config)).transpose()?,
        })
    }
}
