//! Files that hold one secret.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use orchestra_mcp::files;

use super::{ExpandError, Scope};
use crate::config::{Auth, HttpConfig, Secret, SecretSource, ServerConfig, Transport};

/// The largest of these files: a key, or a signed statement.
const MAX_BYTES: u64 = 64 * 1024;

impl Scope {
    /// The files that hold the secrets of a server's sign-in.
    #[must_use]
    pub fn secret_files(&self, config: &ServerConfig) -> BTreeSet<PathBuf> {
        let Transport::Http(HttpConfig {
            auth: Some(Auth::OAuth(oauth)),
            ..
        }) = &config.transport
        else {
            return BTreeSet::new();
        };
        let secrets = oauth.secrets().into_iter();
        let paths = secrets.filter_map(|secret| match &secret.source {
            SecretSource::File(path) => self.path(path, config).ok(),
            SecretSource::Text(_) => None,
        });
        paths.collect()
    }

    /// A secret that the sign-in of a server names, as it is now.
    ///
    /// # Errors
    /// When it is not there, or its file is open to others.
    pub fn secret(&self, secret: &Secret, config: &ServerConfig) -> Result<String, ExpandError> {
        match &secret.source {
            SecretSource::Text(text) => self.expand(text, config),
            SecretSource::File(path) => {
                let path = self.path(path, config)?;
                read(&path).map_err(|what| ExpandError::SecretFile {
                    field: secret.field,
                    path,
                    what,
                })
            }
        }
    }
}

/// The text of a file, without what stands around it.
fn read(path: &Path) -> Result<String, String> {
    let bytes = files::read_secret(path, MAX_BYTES);
    let bytes = bytes.map_err(|error| format!("cannot be read: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| "is no text".to_owned())?;
    match text.trim_start_matches('\u{feff}').trim() {
        "" => Err("is empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}
