//! The certificates of both sides, which are the same for both peers.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, Result};
use orchestra_plugin::{
    certs::{CertDir, Identity},
    ids::{CertName, PluginId},
};

/// The plugin, which is called.
pub(crate) fn plugin() -> Result<PluginId> {
    Ok("tools.echo".parse()?)
}

/// Makes an authority and every certificate, so that nobody makes one while time is taken.
///
/// # Errors
/// When the directory cannot be written.
pub(crate) fn make(directory: &Path) -> Result<()> {
    let certs = CertDir::open(directory)?;
    let now = SystemTime::now();
    certs.ensure_ca(now)?;
    let id = plugin()?;
    for name in [id.server_name(), id.client_name(), id.orchestrator_name()] {
        certs.identity(&name, now)?;
    }
    Ok(())
}

/// Who calls.
///
/// # Errors
/// When there is no such certificate.
pub(crate) fn caller(directory: &Path) -> Result<Identity> {
    let certs = CertDir::open(directory)?;
    Ok(certs.identity(&plugin()?.orchestrator_name(), SystemTime::now())?)
}

/// A certificate and its key as they stand in their files.
pub(crate) struct Pem {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pem {
    /// Reads those of a name.
    ///
    /// # Errors
    /// When they are not there.
    pub(crate) fn of(directory: &Path, name: &CertName) -> Result<Self> {
        let read = |path: PathBuf| {
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        };
        Ok(Self {
            authority: read(directory.join("ca.crt"))?,
            certificate: read(directory.join(format!("{name}.crt")))?,
            key: read(directory.join(format!("{name}.key")))?,
        })
    }
}
