//! How servers are reached: connectors out of configurations. What texts refer to is put in when a
//! process is started or a request is sent, so that nothing here holds a secret.

mod approved;
mod late;
mod oauth;
mod quic;
mod tapped;

use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{
    ChildConfig, ChildConnector, Client, ClientError, Connected, Connector, Root, TransportType,
    http::{
        self as client_http, HttpConnector,
        oauth::{FileStore, MemoryStore, SignIn, SignedIn, SignedOut, TokenStore, login, logout},
    },
    tap::Tap,
};
use orchestra_process as process;
use orchestra_secret::Masker;

use approved::{Compared, blocking, compare};
use late::Late;
pub use quic::Quic;

use crate::{
    config::{Auth, Flavour, HttpConfig, InheritEnv, Sandbox, ServerConfig, Transport},
    discovery::{nested, protected},
    expand::{ExpandError, Reference, Scope, references},
    gateway::{Connect, Reach},
    hints::Hints,
    server::client_config,
};

/// Reaches servers.
#[derive(Debug, Clone)]
pub struct Connectors {
    scope: Scope,
    logs: Option<PathBuf>,
    tokens: Option<PathBuf>,
    tap: Option<Tap>,
    quic: quic::ByQuic,
}

impl Connectors {
    /// Puts in what `scope` knows.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            logs: None,
            tokens: None,
            tap: None,
            quic: quic::ByQuic::default(),
        }
    }

    /// Keeps what processes write to standard error in a directory, a file for each server.
    #[must_use]
    pub fn with_logs(mut self, directory: &Path) -> Self {
        self.logs = Some(directory.to_owned());
        self
    }

    /// Keeps what sign-ins bring in a directory; otherwise it is forgotten with this program.
    #[must_use]
    pub fn with_tokens(mut self, directory: &Path) -> Self {
        self.tokens = Some(directory.to_owned());
        self
    }

    /// As a gateway wants it.
    #[must_use]
    pub fn connect(self) -> Connect {
        Arc::new(move |config| self.reach(config))
    }

    /// How a server is reached.
    ///
    /// # Errors
    /// When its configuration cannot be used.
    pub fn reach(&self, config: &ServerConfig) -> Result<Reach, ClientError> {
        Ok(Reach {
            connector: self.tapped(self.connector(config)?, config),
            roots: self.roots(config).map_err(invalid)?,
            hints: self.hints(config),
        })
    }

    /// What may be behind a start of a server that fails.
    #[must_use]
    pub fn hints(&self, config: &ServerConfig) -> Hints {
        Hints::of(config, &self.scope)
    }

    /// A client of a server, without a hub around it. Starts nothing yet.
    ///
    /// # Errors
    /// When its configuration cannot be used.
    pub fn client(&self, config: &ServerConfig) -> Result<Client, ClientError> {
        let Reach {
            connector, roots, ..
        } = self.reach(config)?;
        let mut client = client_config(config, roots);
        client.callers_have_roots = false;
        Ok(Client::new(connector, client))
    }

    /// Signs a person in to a server, unless that asks for no sign-in. `show` shows the addresses.
    ///
    /// # Errors
    /// When the server is no server on the network, or the sign-in does not come about.
    pub async fn sign_in(
        &self,
        config: &ServerConfig,
        scopes: &[String],
        show: Arc<dyn SignIn>,
    ) -> Result<SignedIn, ClientError> {
        let http = self.http(network(config)?, config)?;
        login(http, self.store(), scopes, show).await
    }

    /// Has what a sign-in to a server brought taken back by whoever gave it out, and forgets it.
    ///
    /// # Errors
    /// When the server is no server on the network, or what is kept cannot be removed.
    pub async fn sign_out(&self, config: &ServerConfig) -> Result<SignedOut, ClientError> {
        let http = self.http(network(config)?, config)?;
        let forgotten = logout(http, self.store()).await;
        forgotten.map_err(|error| ClientError::InvalidConfig {
            what: format!("forget the tokens: {error}"),
        })
    }

    fn store(&self) -> Arc<dyn TokenStore> {
        match &self.tokens {
            Some(directory) => Arc::new(FileStore::new(directory.clone())),
            None => Arc::new(MemoryStore::default()),
        }
    }

    fn connector(&self, config: &ServerConfig) -> Result<Arc<dyn Connector>, ClientError> {
        match &config.transport {
            Transport::Stdio(_) => Ok(Arc::new(self.late_child(config))),
            Transport::Http(http) => {
                let reached: Arc<dyn Connector> =
                    Arc::new(HttpConnector::new(self.http(http, config)?)?);
                if config.covered.is_none() {
                    return Ok(reached);
                }
                Ok(Arc::new(Compared {
                    inner: reached,
                    config: Arc::new(config.clone()),
                    scope: self.scope.clone(),
                }))
            }
            Transport::Plugin(_) | Transport::Orchestrator(_) => self.by_quic(config),
        }
    }

    fn late_child(&self, config: &ServerConfig) -> LateChild {
        let logs = self.logs.as_ref();
        LateChild {
            scope: self.scope.clone(),
            config: Arc::new(config.clone()),
            log: logs.map(|logs| log_file(logs, config.name.as_str())),
        }
    }

    /// Compares the files that the approval of a server covers before each start of its program.
    fn check(&self, config: &ServerConfig) -> client_http::Check {
        let (config, scope) = (Arc::new(config.clone()), self.scope.clone());
        Arc::new(move || {
            let (config, scope) = (Arc::clone(&config), scope.clone());
            Box::pin(blocking(move || compare(&config, &scope)))
        })
    }

    /// The roots that are configured for a server.
    fn roots(&self, config: &ServerConfig) -> Result<Vec<Root>, ExpandError> {
        let mut paths = Vec::with_capacity(config.roots.len());
        for root in &config.roots {
            paths.push(self.scope.path(root, config)?);
        }
        Ok(paths.iter().map(|path| root(path)).collect())
    }

    /// A server on the network. Headers and tokens are looked up when they are sent.
    fn http(
        &self,
        http: &HttpConfig,
        config: &ServerConfig,
    ) -> Result<client_http::HttpConfig, ClientError> {
        let endpoint = self.scope.endpoint(http, config).map_err(invalid)?;
        let url = endpoint.url.parse().map_err(|error| {
            let what = format!("url: {error}");
            ClientError::InvalidConfig { what }
        })?;
        let mut late = Late::default();
        let mut reached = client_http::HttpConfig::new(config.name.as_str(), url);
        reached.flavour = match endpoint.flavour {
            Flavour::Auto => client_http::Flavour::Auto,
            Flavour::Streamable => client_http::Flavour::Streamable,
            Flavour::Rpc => client_http::Flavour::Rpc,
            Flavour::Sse => client_http::Flavour::Sse,
        };
        for (name, value) in &http.headers {
            reached.headers.push((name.clone(), late.text(value)?));
        }
        reached.auth = match &http.auth {
            None if says_who(http) => client_http::Auth::None,
            None => self.oauth(None, config, &mut late)?,
            Some(Auth::OAuth(oauth)) => self.oauth(Some(oauth), config, &mut late)?,
            Some(Auth::Bearer(token)) => client_http::Auth::Bearer(late.text(token)?),
            Some(Auth::Env(variable)) => client_http::Auth::Env(variable.clone()),
            Some(Auth::Command { command, args }) => client_http::Auth::Command {
                program: self.scope.expand(command, config).map_err(invalid)?,
                args: self.scope.all(args, config).map_err(invalid)?,
                directory: config.directory().clone(),
                check: self.check(config),
            },
        };
        reached.ca_file = endpoint.ca_file;
        reached.client_certificate = endpoint.client_cert.map(|(certificate, key)| {
            let key = key.unwrap_or_else(|| certificate.clone());
            (certificate, key)
        });
        reached.allow_insecure = endpoint.allow_insecure;
        reached.max_message_bytes = config.max_message_bytes;
        let connections = &http.connections;
        reached.timeouts.connect = connections.connect;
        reached.timeouts.first_byte = connections.first_byte;
        reached.timeouts.idle_stream = connections.idle;
        reached.max_idle_connections = connections.kept;
        reached.secrets = late.secrets(self.scope.clone(), config.clone());
        Ok(reached)
    }
}

/// Whether a configured header says who we are.
fn says_who(http: &HttpConfig) -> bool {
    let mut names = http.headers.iter();
    names.any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

/// A server on the network.
fn network(config: &ServerConfig) -> Result<&HttpConfig, ClientError> {
    let what = match &config.transport {
        Transport::Http(http) => return Ok(http),
        Transport::Stdio(_) => "a process",
        Transport::Plugin(_) => "a plugin",
        Transport::Orchestrator(_) => "an orchestrator, which authenticates clients by certificate",
    };
    Err(ClientError::InvalidConfig {
        what: format!("the server is {what}; only servers on the network have a sign-in"),
    })
}

/// Variable with the directory for bytecode of Python.
const BYTECODE: &str = "PYTHONPYCACHEPREFIX";

/// A child whose texts are expanded when it is started.
#[derive(Clone)]
struct LateChild {
    scope: Scope,
    config: Arc<ServerConfig>,
    log: Option<PathBuf>,
}

impl LateChild {
    /// What the configuration takes from our environment, but for paths, which errors need; and the
    /// passwords of proxies, which processes inherit.
    fn secrets(&self) -> Masker {
        let proxies = process::PROXIES.into_iter().filter_map(|name| {
            let value = self.scope.variable(name).ok()?;
            Some((name.to_owned(), value))
        });
        let names = references(&self.config);
        let names = names.iter().filter_map(Reference::variable);
        let values = names.filter_map(|name| self.scope.variable(&name).ok());
        let values: Vec<String> = values.filter(|value| !leads_somewhere(value)).collect();
        let masker = Masker::default().environment(proxies);
        masker.values(values.iter().map(String::as_str))
    }

    /// The process, after a look at the files that its approval covers.
    fn child(&self) -> Result<ChildConfig, ClientError> {
        compare(&self.config, &self.scope)?;
        self.expanded().map_err(invalid)
    }

    /// The variable by which Python reads and writes bytecode outside of the workspace, where an approval covers files of
    /// the server: bytecode with the time and size of a covered file would run in its place. A sandbox of the server
    /// closes the directory.
    fn bytecode(&self, child: &ChildConfig) -> Option<(OsString, OsString)> {
        let inherits_all = child.environment == process::Environment::All;
        let is_set = child.variables.iter().any(|(name, _)| name == BYTECODE)
            || inherits_all && self.scope.variable(BYTECODE).is_ok();
        let is_covered = self.config.covered.is_some() && self.config.sandbox == Sandbox::None;
        let directory = self.log.as_ref()?.parent()?.join("bytecode");
        (is_covered && !is_set).then(|| (BYTECODE.into(), directory.into()))
    }

    fn expanded(&self) -> Result<ChildConfig, ExpandError> {
        let config = &self.config;
        let started = match &config.transport {
            Transport::Stdio(stdio) => self.scope.process(stdio, config)?,
            Transport::Plugin(plugin) => self.scope.plugin(plugin, config)?,
            Transport::Http(_) | Transport::Orchestrator(_) => {
                return Err(ExpandError::Unusable("the server is not a process"));
            }
        };
        let mut child = ChildConfig::new(config.name.as_str(), started.command);
        child.args = started.args.into_iter().map(Into::into).collect();
        child.cwd = Some(started.cwd);
        child.environment = match started.inherit_env {
            InheritEnv::Default => process::Environment::Default,
            InheritEnv::All => process::Environment::All,
            InheritEnv::None => process::Environment::None,
        };
        let variables = started.env.into_iter();
        child.variables = variables
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let bytecode = self.bytecode(&child);
        child.variables.extend(bytecode);
        child.secrets = self.secrets();
        let limits = &config.limits.process;
        child.limits = process::Limits {
            address_space: limits.address_space,
            open_files: limits.open_files,
            processes: limits.processes,
            cpu_time: limits.cpu_time,
        };
        if let Sandbox::Workspace { read, write } = &config.sandbox {
            let reached = |path: &Path| self.scope.reached_as_approved(path, config);
            child.cwd = match child.cwd.take() {
                Some(cwd) => Some(reached(&cwd)?.unwrap_or(cwd)),
                None => None,
            };
            let (mut paths, mut read_only) = (Vec::new(), Vec::new());
            for path in write {
                let path = self.scope.path(path, config)?;
                paths.push(reached(&path)?.unwrap_or(path));
            }
            for path in read {
                read_only.extend(reached(&self.scope.path(path, config)?)?);
            }
            let open = paths.iter().chain(&read_only).chain(&child.cwd);
            let open: Vec<&Path> = open.map(PathBuf::as_path).collect();
            let program = Path::new(&child.command);
            child.program_file = self.scope.reached_program(program, config, &open)?;
            child.hidden = self.scope.closed().to_vec();
            child.nested = nested();
            child.sandbox = process::Sandbox::Workspace {
                paths,
                read_only,
                protected: protected(self.scope.workspace()).collect(),
            };
        }
        child.grace_stdin = config.grace.stdin;
        child.grace_term = config.grace.term;
        child.max_message_bytes = config.max_message_bytes;
        child.max_junk_lines = config.max_junk_lines;
        child.log.clone_from(&self.log);
        Ok(child)
    }
}

/// Whether a text leads to a place of this machine, or would: it begins with a directory of the root
/// that is there. One in sixty-four keys in base64 begins with a slash as well, and leads nowhere.
fn leads_somewhere(text: &str) -> bool {
    let mut parts = Path::new(text).components();
    match (parts.next(), parts.next()) {
        (Some(Component::RootDir), Some(first)) => Path::new("/").join(first).exists(),
        _ => false,
    }
}

impl Connector for LateChild {
    fn transport(&self) -> TransportType {
        TransportType::Stdio
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        if self.config.covered.is_some() {
            let child = self.clone();
            return Box::pin(async move {
                let child = blocking(move || child.child()).await?;
                ChildConnector::new(child).connect().await
            });
        }
        match self.child() {
            Ok(child) => ChildConnector::new(child).connect(),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// Where what a server writes to standard error is kept.
#[must_use]
pub fn log_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.log"))
}

fn invalid(error: ExpandError) -> ClientError {
    ClientError::InvalidConfig {
        what: error.to_string(),
    }
}

/// A directory as a root.
fn root(path: &Path) -> Root {
    let mut uri = String::from("file://");
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    Root { uri, name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_from_a_key_that_begins_as_one() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().join("not-there/yet");
        let [there, root] = [&there, Path::new("/")].map(|path| path.display().to_string());
        for (text, expected) in [
            (&*there, true),
            ("/dev/null", true),
            (&root, false),
            ("/9j4AAQSkZJRgABAQ==", false),
            ("/9j4/AQSkZJ/gABAQ+=", false),
            ("//", false),
            ("dev/null", false),
            ("", false),
        ] {
            assert_eq!(leads_somewhere(text), expected, "{text}");
        }
    }
}
