//! Who is let in over HTTP, as flags, the environment and the user's configuration file say. The
//! workspace's file has no say in it: it may come from anybody who shares the repository.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use orchestra_mcp::http::{HostName, WebOrigin};

use super::{
    Entry, Origin, Setting,
    file::ConfigFile,
    flag,
    oauth::{OAuthConfig, OAuthFile, OAuthFlags},
    settle,
};
use crate::{env::Variable, exit::Failure};

/// How many requests a second a caller from another machine may make, unless it is said otherwise:
/// more than an agent ever makes, and little for this program.
const DEFAULT_RATE: u32 = 200;

/// Authentication of HTTP clients
#[derive(Debug, Default, Args)]
pub(crate) struct AccessFlags {
    /// File with the tokens that clients must send, one per line. Changes of the file apply while `up` runs
    /// [default: ORCHESTRA_TOKEN, if it is set]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Host name under which other machines reach this one, such as box.example; may be repeated
    #[arg(long = "allow-host", value_name = "HOST")]
    hosts: Vec<HostName>,
    /// Web origin whose pages may send requests, such as `https://app.example`; may be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    origins: Vec<WebOrigin>,
    /// File with the certificate chain in PEM, starting with the server's own certificate; turns TLS on
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// File with the private key of --tls-cert, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    oauth: OAuthFlags,
}

/// Where the tokens are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// Nowhere: none is asked for.
    None,
    /// In [`Variable::Token`].
    Environment,
    /// In a file.
    File(PathBuf),
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The chain of certificates.
    pub(crate) cert: PathBuf,
    /// The key of the first.
    pub(crate) key: PathBuf,
}

/// Who is let in over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct AccessConfig {
    /// Where the tokens are that callers must show.
    pub(crate) token: Setting<TokenSource>,
    /// Names of this machine.
    pub(crate) hosts: Setting<Vec<HostName>>,
    /// Origins whose pages may call.
    pub(crate) origins: Setting<Vec<WebOrigin>>,
    /// How many requests a second each caller may make; 0 for any number.
    pub(crate) requests_per_second: Setting<u32>,
    /// What TLS is served with.
    pub(crate) tls: Setting<Option<TlsFiles>>,
    /// Whose tokens are trusted besides.
    pub(crate) oauth: OAuthConfig,
}

/// What a configuration file sets.
#[derive(Debug, Default)]
pub(super) struct AccessFile {
    pub(super) token_file: Option<PathBuf>,
    pub(super) hosts: Option<Vec<HostName>>,
    pub(super) origins: Option<Vec<WebOrigin>>,
    pub(super) requests_per_second: Option<u32>,
    pub(super) tls: Option<TlsFiles>,
    pub(super) oauth: OAuthFile,
}

impl AccessFile {
    /// Whether it says who is let in.
    pub(super) const fn lets_in(&self) -> bool {
        self.token_file.is_some()
            || self.hosts.is_some()
            || self.origins.is_some()
            || self.tls.is_some()
            || self.oauth.lets_in()
    }

    /// Forgets what is not for a workspace to say, and harms nobody where it is not heard.
    pub(super) fn leave_out_rates(&mut self) {
        self.requests_per_second = None;
    }

    /// Takes paths as relative to the directory of the file.
    pub(super) fn resolve(&mut self, directory: &Path) {
        let tls = self.tls.as_mut();
        let tls = tls.map(|files| [&mut files.cert, &mut files.key]);
        let paths = self.token_file.iter_mut().chain(tls.into_iter().flatten());
        for path in paths {
            *path = directory.join(&*path);
        }
    }
}

impl AccessConfig {
    pub(super) fn settle(
        flags: AccessFlags,
        files: &[(PathBuf, ConfigFile)],
        address: SocketAddr,
    ) -> Self {
        let of_environment = Variable::Token.read().map(|_| {
            let origin = Origin::Environment(Variable::Token);
            (TokenSource::Environment, origin)
        });
        let token = flag(flags.token_file.map(TokenSource::File)).or(of_environment);
        let tls = flags.tls_cert.zip(flags.tls_key);
        let tls = tls.map(|(cert, key)| Some(TlsFiles { cert, key }));
        let rate = if address.ip().is_loopback() {
            0
        } else {
            DEFAULT_RATE
        };
        Self {
            oauth: OAuthConfig::settle(flags.oauth, files),
            token: settle(
                token,
                files,
                |file| file.access.token_file.clone().map(TokenSource::File),
                || TokenSource::None,
            ),
            hosts: settle(
                flag(some(flags.hosts)),
                files,
                |file| file.access.hosts.clone(),
                Vec::new,
            ),
            origins: settle(
                flag(some(flags.origins)),
                files,
                |file| file.access.origins.clone(),
                Vec::new,
            ),
            requests_per_second: settle(
                None,
                files,
                |file| file.access.requests_per_second,
                || rate,
            ),
            tls: settle(
                flag(tls),
                files,
                |file| file.access.tls.clone().map(Some),
                || None,
            ),
        }
    }

    /// Refuses an address that others can reach although nothing asks them who they are, or that
    /// they reach under a name that nobody told.
    pub(super) fn check(&self, http: &Setting<SocketAddr>) -> Result<(), Failure> {
        self.oauth.check()?;
        http.check("http", |address| {
            let (is_local, port) = (address.ip().is_loopback(), address.port());
            let name_of = |key| http.origin.name_of(key);
            let (token, issuer) = ("access.token_file", "access.oauth.issuers");
            anyhow::ensure!(
                is_local || self.asks_who_calls(),
                "{address} can be reached from other machines without authentication; set a token file with {} or an issuer with {}, set {}, or use a loopback address such as 127.0.0.1:{port}",
                name_of(token),
                name_of(issuer),
                Variable::Token
            );
            anyhow::ensure!(
                !address.ip().is_unspecified() || self.is_named(),
                "the host names of {address} are not known; set them with {}",
                name_of("access.hosts")
            );
            Ok(())
        })
    }

    /// Whether callers must show a token, of whatever kind.
    pub(crate) fn asks_who_calls(&self) -> bool {
        self.token.value != TokenSource::None || self.oauth.is_set()
    }

    /// Whether a name is told under which this machine is reached.
    fn is_named(&self) -> bool {
        !self.hosts.value.is_empty() || self.oauth.host().is_some()
    }

    /// Every key.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let path = |path: Option<&PathBuf>| {
            let text = path.map(|path| path.display().to_string());
            toml::Value::from(text.unwrap_or_default()).to_string()
        };
        let token = match &self.token.value {
            TokenSource::File(path) => Some(path),
            TokenSource::Environment | TokenSource::None => None,
        };
        let tls = self.tls.value.as_ref();
        let mut entries = vec![
            Entry {
                key: "access.token_file",
                value: path(token),
                meaning: "file with the tokens that HTTP clients must send, one per line",
                origin: self.token.origin.clone(),
            },
            Entry {
                key: "access.hosts",
                value: list(&self.hosts.value),
                meaning: "host names under which other machines reach this one",
                origin: self.hosts.origin.clone(),
            },
            Entry {
                key: "access.origins",
                value: list(&self.origins.value),
                meaning: "web origins whose pages may send requests over HTTP",
                origin: self.origins.origin.clone(),
            },
            Entry {
                key: "access.requests_per_second",
                value: self.requests_per_second.value.to_string(),
                meaning: "maximum number of requests per second of each caller, and twice as many at once after a pause; 0 for no limit; if it is not set, 200 when other machines can connect",
                origin: self.requests_per_second.origin.clone(),
            },
            Entry {
                key: "access.tls_cert",
                value: path(tls.map(|files| &files.cert)),
                meaning: "file with the certificate chain in PEM, starting with the server's own certificate; turns TLS on",
                origin: self.tls.origin.clone(),
            },
            Entry {
                key: "access.tls_key",
                value: path(tls.map(|files| &files.key)),
                meaning: "file with the private key of tls_cert, in PEM",
                origin: self.tls.origin.clone(),
            },
        ];
        entries.extend(self.oauth.entries());
        entries
    }
}

/// Values of which there is at least one.
pub(super) fn some<T>(values: Vec<T>) -> Option<Vec<T>> {
    (!values.is_empty()).then_some(values)
}

pub(super) fn list<T: ToString>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    toml::Value::from(values).to_string()
}
