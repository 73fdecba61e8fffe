//! Certificates for somebody who must not sign: leaves with their keys and the authority's
//! certificate, in a directory of their own.

use std::path::PathBuf;

use super::{
    dir::{CA, CROSS, CertDir, PREVIOUS},
    error::CertError,
    parse::Cert,
};
use crate::ids::{CertName, PluginId};

/// Where the directories of plugins are.
const PLUGINS: &str = "plugins";

impl CertDir {
    /// Where a plugin of ours has its certificates.
    pub fn of_plugin(&self, id: &PluginId) -> PathBuf {
        self.path().join(PLUGINS).join(id.as_str())
    }

    /// Writes the leaves of some names with their keys, and the authority without its key, into
    /// another directory. The authorities before that count, and what ties them together, go with it.
    /// Says whether anything was other than before.
    ///
    /// Who has that directory is these names and can make no others; when they end, they are handed
    /// out anew. The directory of a plugin of ours ([`of_plugin`](Self::of_plugin)) takes the
    /// present authority whatever it held; any other must be empty or of this authority.
    ///
    /// # Errors
    /// A leaf is not here or a name is the authority's, or the other directory cannot be written, is
    /// this one, or belongs to another authority.
    pub fn hand_out(&self, names: &[CertName], to: &Self) -> Result<bool, CertError> {
        self.check_taker(to)?;
        let ours = self.files.lock()?;
        // The authorities come first: what is there goes on being believed until its leaf follows.
        let mut files = Vec::new();
        for name in [PREVIOUS, CROSS, CA] {
            let file = format!("{name}.crt");
            let text = self.files.read(&file)?;
            files.push((file, text));
        }
        for name in names {
            self.check_leaf_name(name)?;
            for file in [format!("{name}.key"), format!("{name}.crt")] {
                let text = self.files.read(&file)?.ok_or_else(|| CertError::Content {
                    path: self.files.at(&file),
                    what: "leaf",
                    why: "there is no such file".to_owned(),
                })?;
                files.push((file, Some(text)));
            }
        }
        drop(ours);
        let lock = to.files.lock()?;
        let mut is_new = false;
        for (file, text) in files {
            if to.files.read(&file).is_ok_and(|there| there == text) {
                continue;
            }
            is_new = true;
            match text {
                Some(text) => {
                    let text = String::from_utf8_lossy(&text);
                    to.files.write(&lock, &file, &text)?;
                }
                None => to.files.remove(&lock, &file)?,
            }
        }
        Ok(is_new)
    }

    /// Refuses a directory to which nothing is handed out, before anything is made for it.
    ///
    /// # Errors
    /// It is this one, it belongs to another authority, or it cannot be read.
    pub fn check_taker(&self, to: &Self) -> Result<(), CertError> {
        let taken = |why: &'static str| CertError::Taken {
            path: to.path().to_owned(),
            why,
        };
        if to.path() == self.path() {
            return Err(taken("it is the source directory"));
        }
        if to.files.read("ca.key")?.is_some() {
            return Err(taken("an authority signs there"));
        }
        // Nobody but us writes there.
        if to.path().parent() == Some(&self.path().join(PLUGINS)) {
            return Ok(());
        }
        let Some(theirs) = to.cert(CA)? else {
            return Ok(());
        };
        let mut ours = self.certs(PREVIOUS)?;
        ours.extend(self.cert(CA)?);
        let is_ours = |ca: &Cert| ca.der() == theirs.der();
        match ours.iter().any(is_ours) {
            true => Ok(()),
            false => Err(taken("it holds certificates of another authority")),
        }
    }
}
