//! The certificates of plugins: handed out at each start, and anew while they run.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use orchestra_plugin::{
    certs::{CertDir, CertError, Looks},
    ids::PluginId,
};
use orchestra_plugin_host::link::Links;

use super::{
    known::Plugins,
    listening::{LOOKS, legacy},
};

/// The directory of certificates that we use towards a plugin, and that of its own if it has one.
///
/// A plugin of today gets its own certificates and cannot make others. Those of the past make a new
/// authority where they cannot read the key of one, and so share one among them, which we trust for
/// them alone.
pub(super) fn certificates(
    certs: &Path,
    id: &PluginId,
    is_legacy: bool,
) -> Result<(PathBuf, Option<PathBuf>), CertError> {
    if is_legacy {
        return Ok((legacy(certs), None));
    }
    let theirs = hand_out(certs, id)?;
    Ok((certs.to_owned(), Some(theirs)))
}

/// Hands out the certificates of a plugin, renewed when they are due, and says where they are.
fn hand_out(certs: &Path, id: &PluginId) -> Result<PathBuf, CertError> {
    let now = SystemTime::now();
    let ours = CertDir::open(certs)?;
    ours.ensure_ca(now)?;
    let names = [id.server_name(), id.client_name()];
    for name in &names {
        ours.identity(name, now)?;
    }
    let theirs = CertDir::open(ours.of_plugin(id))?;
    forget_authority(theirs.path());
    if ours.hand_out(&names, &theirs)? {
        tracing::debug!(plugin = %id, "issued certificates to a plugin");
    }
    Ok(theirs.path().to_owned())
}

/// The key of an authority, which no plugin is given.
const CA_KEY: &str = "ca.key";

/// Whether a plugin made an authority of its own where it was given certificates alone. It was written
/// for an orchestrator of the past.
pub(super) fn made_authority(certs: &Path, id: &PluginId) -> bool {
    let theirs = CertDir::open(certs).map(|ours| ours.of_plugin(id));
    theirs.is_ok_and(|theirs| fs::symlink_metadata(theirs.join(CA_KEY)).is_ok())
}

/// Removes the authority that a plugin made, so that it is given ours again.
fn forget_authority(theirs: &Path) {
    if fs::symlink_metadata(theirs.join(CA_KEY)).is_err() {
        return;
    }
    for file in [CA_KEY, "ca.crt"] {
        // direct: what a plugin wrote into its own directory; nothing of ours is kept there.
        match fs::remove_file(theirs.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let place = theirs.display();
                tracing::warn!(%place, file, %error, "cannot remove the certificate authority of a plugin");
            }
            _ => {}
        }
    }
}

/// Hands out certificates anew to the plugins that run, as they are renewed or somebody changes the
/// authority. A plugin that runs reads them again by itself.
pub(super) async fn keep(certs: PathBuf, links: Links, plugins: Plugins) {
    keep_every(LOOKS, &certs, || {
        let mut running = links.connected();
        running.retain(|plugin| !plugins.is_legacy(plugin));
        running
    })
    .await;
}

/// The same as often as is said.
pub(super) async fn keep_every(every: Duration, certs: &Path, running: impl Fn() -> Vec<PluginId>) {
    let certs = certs.to_owned();
    let looks = Looks::new(&certs, &[], every);
    each(looks, running, move |plugin| hand_out(&certs, plugin)).await;
}

async fn each(
    mut looks: Looks,
    running: impl Fn() -> Vec<PluginId>,
    hand_out: impl Fn(&PluginId) -> Result<PathBuf, CertError> + Send + Sync + 'static,
) {
    let hand_out = Arc::new(hand_out);
    loop {
        looks.next().await;
        for plugin in running() {
            let (hand_out, id) = (Arc::clone(&hand_out), plugin.clone());
            let handed = match tokio::task::spawn_blocking(move || hand_out(&id)).await {
                // The program ends.
                Err(error) if error.is_cancelled() => return,
                handed => handed.map_err(anyhow::Error::from),
            };
            if let Err(error) = handed.and_then(|handed| Ok(handed?)) {
                tracing::warn!(%plugin, "cannot issue new certificates: {error:#}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tempfile::TempDir;
    use tokio::time::{sleep, timeout};

    use super::*;

    #[test]
    fn plugin_that_made_an_authority_is_given_ours_again() {
        let home = TempDir::new().unwrap();
        let id: PluginId = "tools.demo".parse().unwrap();
        let certs = home.path().join("certs");
        let (_, theirs) = certificates(&certs, &id, false).unwrap();
        let theirs = theirs.unwrap();
        assert!(!made_authority(&certs, &id));
        let other = CertDir::open(home.path().join("other")).unwrap();
        other.ensure_ca(SystemTime::now()).unwrap();
        for file in ["ca.crt", "ca.key"] {
            fs::copy(other.path().join(file), theirs.join(file)).unwrap();
        }
        assert!(made_authority(&certs, &id));
        certificates(&certs, &id, false).unwrap();
        assert!(!made_authority(&certs, &id));
        let read = |directory: &Path| fs::read(directory.join("ca.crt")).unwrap();
        assert_eq!(read(&theirs), read(&certs));
    }

    #[tokio::test]
    async fn a_plugin_that_runs_is_given_what_a_rotation_made() {
        let home = TempDir::new().unwrap();
        let id: PluginId = "tools.demo".parse().unwrap();
        let certs = home.path().join("certs");
        let (_, theirs) = certificates(&certs, &id, false).unwrap();
        let theirs = CertDir::open(theirs.unwrap()).unwrap();
        let before = theirs.identity(&id.server_name(), SystemTime::now());
        let ours = CertDir::open(&certs).unwrap();
        let (directory, plugin) = (certs.clone(), id.clone());
        let keeping = tokio::spawn(async move {
            let every = Duration::from_millis(10);
            keep_every(every, &directory, || vec![plugin.clone()]).await;
        });
        for _ in 0..3 {
            ours.rotate(SystemTime::now()).unwrap();
        }
        let read = |file: &str| {
            let there = |directory: &CertDir| fs::read(directory.path().join(file)).unwrap();
            (there(&ours), there(&theirs))
        };
        let handed_out = async {
            for file in ["ca.crt", "ca-previous.crt", "tools.demo.crt"] {
                while !theirs.path().join(file).is_file() || read(file).0 != read(file).1 {
                    sleep(Duration::from_millis(10)).await;
                }
            }
        };
        timeout(Duration::from_secs(30), handed_out).await.unwrap();
        keeping.abort();
        let _ = keeping.await;
        let after = theirs.identity(&id.server_name(), SystemTime::now());
        let (before, after) = (before.unwrap(), after.unwrap());
        assert_eq!(after.anchors().len(), 4);
        assert_ne!(after.chain()[0], before.chain()[0]);
    }

    #[tokio::test]
    async fn a_plugin_for_which_it_breaks_holds_up_nobody() {
        let ids = ["tools.broken", "tools.demo"].map(|id| id.parse::<PluginId>().unwrap());
        let handed = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&handed);
        let hand_out = move |plugin: &PluginId| {
            assert_ne!(plugin.as_str(), "tools.broken", "as it is to be");
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(PathBuf::new())
        };
        let keeping = tokio::spawn(async move {
            let looks = Looks::new(Path::new("/nowhere"), &[], Duration::from_millis(10));
            each(looks, || ids.to_vec(), hand_out).await;
        });
        let goes_on = async {
            while handed.load(Ordering::SeqCst) < 2 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(30), goes_on).await.unwrap();
        keeping.abort();
        let _ = keeping.await;
    }
}
