//! The certificates that a plugin shows.

use std::time::SystemTime;

use super::StartError;
use crate::{
    certs::{CertDir, CertError, Identity},
    ids::{CertName, PluginId},
};

/// Opens the directory of certificates that a flag names; the user's when it is empty.
pub(super) async fn open_certs(named: String) -> Result<CertDir, StartError> {
    let open = move || {
        let home = std::env::home_dir();
        CertDir::open(CertDir::locate(&named, home.as_deref())?)
    };
    blocking(open).await.map_err(StartError::Certs)
}

/// The plugin's own identity, and the one for calling the orchestrator.
pub(super) async fn load(certs: CertDir, id: PluginId) -> Result<(Identity, Identity), CertError> {
    let load = move || {
        let now = SystemTime::now();
        let identity = |name: CertName| match certs.identity(&name, now) {
            // Where programs of this user have their authority, the first one founds it. Any other
            // directory is filled by who hands out certificates, and with an authority it is taken.
            Err(_) if is_usual(&certs) => {
                certs.ensure_ca(now)?;
                certs.identity(&name, now)
            }
            found => found,
        };
        Ok((identity(id.server_name())?, identity(id.client_name())?))
    };
    blocking(load).await
}

/// Whether a directory is the one that is used where nobody names one.
fn is_usual(certs: &CertDir) -> bool {
    let home = std::env::home_dir();
    let usual = CertDir::locate("", home.as_deref());
    let usual = usual.ok().and_then(|usual| usual.canonicalize().ok());
    usual.is_some_and(|usual| usual == certs.path())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The runtime ends after us, so it has panicked.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
