//! The authority that plugins share which sign for themselves, when the other one is rotated.

use std::{path::Path, time::SystemTime};

use orchestra_plugin::certs::CertDir;

use super::failed;
use crate::{exit::Failure, orchestrator};

/// Rotates it as well, where there is one and nothing of before is to be believed: each of those
/// plugins reads its key. Says what has become of it.
pub(super) fn rotate(
    certs: &Path,
    is_at_once: bool,
    now: SystemTime,
) -> Result<Option<String>, Failure> {
    let path = orchestrator::legacy(certs);
    if !path.join("ca.crt").is_file() {
        return Ok(None);
    }
    let place = path.display();
    let whose = format!("the authority in {place}, which plugins that sign for themselves share,");
    if !is_at_once {
        let word = orchestra_fs::quoted(&path);
        let how = format!("`orchestra certs rotate --certs-dir {word}` rotates it");
        return Ok(Some(format!("{whose} stays as it is: {how}")));
    }
    let shared = CertDir::open(&path).map_err(failed)?;
    shared.rotate_at_once(now).map_err(failed)?;
    Ok(Some(format!("{whose} was rotated as well")))
}
