//! Certificates for somebody who must not sign: leaves with their keys and the authority's
//! certificate, in a directory of their own.

use super::{
    dir::{CA, CROSS, CertDir, PREVIOUS},
    error::CertError,
};
use crate::ids::CertName;

impl CertDir {
    /// Writes the leaves of some names with their keys, and the authority without its key, into
    /// another directory. What ties the authority to the one before goes with it while that counts.
    ///
    /// Who has that directory is these names and can make no others; when they end, they are handed
    /// out anew.
    ///
    /// # Errors
    /// A leaf is not here, or the other directory cannot be written, is this one, or belongs to
    /// another authority.
    pub fn hand_out(&self, names: &[CertName], to: &Self) -> Result<(), CertError> {
        self.check_taker(to)?;
        let mut files = Vec::new();
        for name in names {
            for file in [format!("{name}.key"), format!("{name}.crt")] {
                let text = self.files.read(&file)?.ok_or_else(|| CertError::Content {
                    path: self.files.at(&file),
                    what: "leaf",
                    why: "there is no such file".to_owned(),
                })?;
                files.push((file, text));
            }
        }
        for name in [PREVIOUS, CROSS, CA] {
            let file = format!("{name}.crt");
            let text = self.files.read(&file)?;
            files.extend(text.map(|text| (file, text)));
        }
        let lock = to.files.lock()?;
        for (file, text) in files {
            let text = String::from_utf8_lossy(&text);
            to.files.write(&lock, &file, &text)?;
        }
        Ok(())
    }

    /// Refuses a directory in which an authority would be lost.
    fn check_taker(&self, to: &Self) -> Result<(), CertError> {
        let taken = |why: &'static str| CertError::Taken {
            path: to.path().to_owned(),
            why,
        };
        if to.path() == self.path() {
            return Err(taken("it is where they are taken from"));
        }
        if to.files.read("ca.key")?.is_some() {
            return Err(taken("an authority signs there"));
        }
        let Some(theirs) = to.cert(CA)? else {
            return Ok(());
        };
        let ours = [self.cert(CA)?, self.cert(PREVIOUS)?];
        let is_ours = |ca: &super::parse::Cert| ca.der() == theirs.der();
        match ours.iter().flatten().any(is_ours) {
            true => Ok(()),
            false => Err(taken("it holds certificates of another authority")),
        }
    }
}
