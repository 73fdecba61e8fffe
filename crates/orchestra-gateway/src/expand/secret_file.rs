//! Files that hold one secret.

use std::{
    collections::BTreeSet,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

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
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(failed)?;
    // Of the file that is open, so that it cannot be another by now.
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err("is no file".to_owned());
    }
    if let Some(mode) = open_to_others(&metadata) {
        return Err(format!(
            "is open to others (mode {mode:03o}); `chmod 600` makes it yours alone"
        ));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("is larger than {MAX_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "is no text".to_owned())?;
    match text.trim() {
        "" => Err("is empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

#[cfg(unix)]
fn open_to_others(metadata: &std::fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_to_others(_metadata: &std::fs::Metadata) -> Option<u32> {
    None
}
