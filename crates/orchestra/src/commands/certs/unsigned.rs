//! Why nothing can be signed where an authority is, and what helps.

use orchestra_plugin::certs::CertDir;

use super::failed;
use crate::exit::Failure;

/// What is to be known of an authority without its key.
pub(super) const NO_KEY: &str = "cannot sign certificates: there is no ca.key here; issue certificates on the machine of the authority";

/// What stands in the way of signing, where there is an authority.
pub(super) fn unsigned(directory: &CertDir) -> Result<Option<String>, Failure> {
    let Some(why) = directory.why_unsigned().map_err(failed)? else {
        return Ok(None);
    };
    Ok(Some(match directory.path().join("ca.key").exists() {
        false => NO_KEY.to_owned(),
        true => format!(
            "cannot sign certificates: {why}; restore the matching ca.key, or move both files away and create another authority with `orchestra certs init`"
        ),
    }))
}
