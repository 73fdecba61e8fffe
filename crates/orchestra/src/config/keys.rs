//! What the keys of a configuration file are called on the command line.

use super::Origin;

/// Each key that has a flag, with it.
const FLAGS: [(&str, &str); 22] = [
    ("tools", "--tools"),
    ("format", "--format"),
    ("http", "--http"),
    ("quic", "--quic"),
    ("certs_dir", "--certs-dir"),
    ("admit", "--admit"),
    ("engine", "--engine"),
    ("chat.backend", "--backend"),
    ("chat.host", "--host"),
    ("chat.model", "--model"),
    ("chat.sandbox", "--sandbox"),
    ("log", "--log"),
    ("access.token_file", "--token-file"),
    ("access.hosts", "--allow-host"),
    ("access.origins", "--allow-origin"),
    ("access.tls_cert", "--tls-cert"),
    ("access.tls_key", "--tls-key"),
    ("access.oauth.issuers", "--oauth-issuer"),
    ("access.oauth.resource", "--oauth-resource"),
    ("access.oauth.audiences", "--oauth-audience"),
    ("access.oauth.scopes", "--oauth-scope"),
    ("access.oauth.jwks_url", "--oauth-jwks"),
];

impl Origin {
    /// What `key` is called where the value comes from: whoever wrote a file is told of keys, and
    /// whoever gave flags of flags.
    pub(crate) fn name_of(&self, key: &'static str) -> &'static str {
        let flag = FLAGS.iter().find(|(other, _)| *other == key);
        match (self, flag) {
            (Self::Flag | Self::Default, Some((_, flag))) => flag,
            _ => key,
        }
    }
}
