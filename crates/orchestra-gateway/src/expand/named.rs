//! Files that a server's texts name.

use super::Scope;
use crate::config::{NamedFile, ServerConfig, Template, Transport};

impl Scope {
    /// The files that a server names to be read for it, as they are now.
    #[must_use]
    pub fn named_files(&self, config: &ServerConfig) -> Vec<NamedFile> {
        let mut texts: Vec<&Template> = Vec::new();
        match &config.transport {
            Transport::Stdio(stdio) => texts.extend(&stdio.env_file),
            Transport::Http(http) => {
                texts.extend(&http.ca_file);
                if let Some((certificate, key)) = &http.client_cert {
                    texts.push(certificate);
                    texts.extend(key);
                }
            }
            Transport::Plugin(_) | Transport::Orchestrator(_) => {}
        }
        let paths = texts.into_iter().map(|text| self.path(text, config));
        paths.flatten().map(NamedFile::read).collect()
    }
}
