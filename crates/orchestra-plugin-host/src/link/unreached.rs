//! Why nobody was reached, with what somebody can put right.

use std::path::Path;

use orchestra_plugin::quic::ConnectError;

use crate::translate::chain;

/// The words for it, where our certificates are in `certs`.
pub(super) fn unreached(error: &ConnectError, certs: &Path) -> String {
    let why = chain(error);
    match error.is_of_another_authority() {
        true => format!(
            "its certificate is signed by an authority that is not in {} (is it another user's, or of \
             another --certs-dir?): {why}",
            certs.join("ca.crt").display()
        ),
        false => why,
    }
}
