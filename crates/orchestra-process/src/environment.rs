//! Which environment a child gets.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// What a child inherits of our environment, before variables of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Environment {
    /// The few variables that programs need to find their way: `HOME`, `LANG`, `LC_*`, `LOGNAME`,
    /// `PATH`, `SHELL`, `TERM`, `TMPDIR`, `USER`; and those without which they reach no network where
    /// it lies behind a proxy: [`PROXIES`], `NO_PROXY`, `no_proxy`, `NODE_EXTRA_CA_CERTS`,
    /// `SSL_CERT_FILE`, `SSL_CERT_DIR`, `REQUESTS_CA_BUNDLE`, `CURL_CA_BUNDLE`. No secret that we were
    /// given, but for the password that the address of a proxy may hold.
    #[default]
    Default,
    /// All of it.
    All,
    /// Nothing.
    None,
}

/// What [`Environment::Default`] lets through, besides `LC_*` and [`PROXIES`].
const ALLOWED: [&str; 15] = [
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
    "NO_PROXY",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// Variables that hold the address of a proxy, which may hold a password.
pub const PROXIES: [&str; 6] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];

impl Environment {
    /// Whether a child inherits a variable of this name.
    #[must_use]
    pub fn inherits(self, name: &OsStr) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Default => name.to_str().is_some_and(|name| {
                ALLOWED.contains(&name) || PROXIES.contains(&name) || name.starts_with("LC_")
            }),
        }
    }

    /// The environment of a child: what it inherits of `ours`, then `own`, which wins.
    pub(crate) fn resolve(
        self,
        ours: impl Iterator<Item = (OsString, OsString)>,
        own: &BTreeMap<OsString, OsString>,
    ) -> BTreeMap<OsString, OsString> {
        let mut all: BTreeMap<_, _> = ours.filter(|(name, _)| self.inherits(name)).collect();
        all.extend(own.clone());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_inherits_what_is_on_the_list_and_its_own_variables_win() {
        let ours = || {
            [
                "PATH",
                "LC_ALL",
                "TOKEN",
                "HOMES",
                "USER",
                "https_proxy",
                "SSL_CERT_DIR",
                "PIP_INDEX_URL",
            ]
            .map(|name| (name.into(), "ours".into()))
            .into_iter()
        };
        let own = BTreeMap::from([("USER".into(), "own".into()), ("X".into(), "own".into())]);
        let names = |environment: Environment| {
            let all = environment.resolve(ours(), &own);
            assert_eq!(all[OsStr::new("USER")], "own");
            let names = all.keys().map(|name| name.to_string_lossy().into_owned());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            names(Environment::Default),
            "LC_ALL PATH SSL_CERT_DIR USER X https_proxy"
        );
        assert_eq!(
            names(Environment::All),
            "HOMES LC_ALL PATH PIP_INDEX_URL SSL_CERT_DIR TOKEN USER X https_proxy"
        );
        assert_eq!(names(Environment::None), "USER X");
    }
}
