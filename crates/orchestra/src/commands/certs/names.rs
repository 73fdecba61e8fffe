//! Names of certificates as they are typed.

use orchestra_plugin::ids::CertName;

use crate::{exit::Failure, output};

/// The name of a certificate that somebody can have.
pub(super) fn issuable(name: &str) -> Result<CertName, Failure> {
    let name = parse(name)?;
    match name.owner() {
        Ok(_) => Ok(name),
        Err(error) => {
            let text = format!("cannot create a certificate for {name}: {error}");
            Err(Failure::usage_text(text))
        }
    }
}

/// The name of a certificate.
pub(super) fn parse(name: &str) -> Result<CertName, Failure> {
    name.parse().map_err(|error| {
        let text = format!("{name:?} is not a valid name for a certificate: {error}");
        Failure::usage_text(output::printable(&text))
    })
}
