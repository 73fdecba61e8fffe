//! Reaches servers as they are configured. What their texts refer to is put in when a connection is
//! opened or a request is sent, and kept nowhere.

use std::{path::Path, sync::Arc};

use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{
    ChildConfig, ChildConnector, ClientError, Connected, Connector, Root, TransportType,
    http::{self, Authorizer, HttpConnector, Secrets},
};
use orchestra_process::{Environment, Limits, Sandbox as ChildSandbox};

use crate::{
    config::{
        Auth, Flavour, HttpConfig, InheritEnv, Sandbox, ServerConfig, StdioConfig, Template,
        Transport,
    },
    expand::{ExpandError, Scope},
    gateway::Reach,
};

/// Finds who signs in at a server that wants it.
pub type SignIns = Arc<dyn Fn(&ServerConfig) -> Option<Arc<dyn Authorizer>> + Send + Sync>;

/// Reaches servers as they are configured.
#[derive(Clone)]
pub struct Reacher {
    scope: Scope,
    sign_ins: Option<SignIns>,
}

/// The variable by which a header's text is found again.
const HEADER: &str = "header:";

/// The same for a token.
const BEARER: &str = "bearer";

struct Configured {
    config: Arc<ServerConfig>,
    reacher: Reacher,
}

impl Reacher {
    /// Puts in what `scope` knows.
    #[must_use]
    pub const fn new(scope: Scope) -> Self {
        Self {
            scope,
            sign_ins: None,
        }
    }

    /// Signs in where a server wants it.
    #[must_use]
    pub fn signing_in(mut self, sign_ins: SignIns) -> Self {
        self.sign_ins = Some(sign_ins);
        self
    }

    /// How a server is reached. Nothing is opened yet.
    ///
    /// # Errors
    /// When its roots cannot be told.
    pub fn reach(&self, config: &ServerConfig) -> Result<Reach, ClientError> {
        let roots = match config.roots.is_empty() {
            true => vec![root(self.scope.workspace())],
            false => {
                let paths = config
                    .roots
                    .iter()
                    .map(|text| self.scope.path(text, config));
                let paths: Vec<_> = paths.collect::<Result<_, _>>().map_err(unusable)?;
                paths.iter().map(|path| root(path)).collect()
            }
        };
        let connector = Configured {
            config: Arc::new(config.clone()),
            reacher: self.clone(),
        };
        Ok(Reach {
            connector: Arc::new(connector),
            roots,
        })
    }

    fn child(
        &self,
        stdio: &StdioConfig,
        config: &ServerConfig,
    ) -> Result<ChildConnector, ExpandError> {
        let process = self.scope.process(stdio, config)?;
        let limits = config.limits.process;
        let mut child = ChildConfig::new(config.name.as_str(), process.command);
        child.args = process.args.into_iter().map(Into::into).collect();
        child.cwd = Some(process.cwd);
        child.environment = match process.inherit_env {
            InheritEnv::Default => Environment::Default,
            InheritEnv::All => Environment::All,
            InheritEnv::None => Environment::None,
        };
        let variables = process.env.into_iter();
        child.variables = variables
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        child.limits = Limits {
            address_space: limits.address_space,
            open_files: limits.open_files,
            processes: limits.processes,
            cpu_time: limits.cpu_time,
        };
        child.sandbox = self.sandbox(config)?;
        child.grace_stdin = config.grace.stdin;
        child.grace_term = config.grace.term;
        child.max_message_bytes = config.max_message_bytes;
        Ok(ChildConnector::new(child))
    }

    fn sandbox(&self, config: &ServerConfig) -> Result<ChildSandbox, ExpandError> {
        let Sandbox::Workspace {
            read,
            write,
            network,
        } = &config.sandbox
        else {
            return Ok(ChildSandbox::None);
        };
        if *network {
            let what =
                "a sandbox with a network is not possible; leave out `network`, or the sandbox";
            return Err(ExpandError::Unusable(what));
        }
        let paths = |texts: &[Template]| {
            let paths = texts.iter().map(|text| self.scope.path(text, config));
            paths.collect::<Result<Vec<_>, _>>()
        };
        Ok(ChildSandbox::Workspace {
            paths: paths(write)?,
            read_only: paths(read)?,
        })
    }

    fn http(
        &self,
        http: &HttpConfig,
        config: &Arc<ServerConfig>,
    ) -> Result<HttpConnector, ClientError> {
        let endpoint = self.scope.endpoint(http, config).map_err(unusable)?;
        let url = endpoint
            .url
            .parse()
            .map_err(|_| ClientError::InvalidConfig {
                what: "the url is none".to_owned(),
            })?;
        let mut reached = http::HttpConfig::new(config.name.as_str(), url);
        reached.flavour = match endpoint.flavour {
            Flavour::Auto => http::Flavour::Auto,
            Flavour::Streamable => http::Flavour::Streamable,
            Flavour::Rpc => http::Flavour::Rpc,
            Flavour::Sse => http::Flavour::Sse,
        };
        let headers = http.headers.iter().zip(endpoint.headers).enumerate();
        let headers = headers.map(|(at, ((name, text), (_, now)))| {
            Ok((name.clone(), later(text, &format!("{HEADER}{at}"), now)?))
        });
        reached.headers = headers.collect::<Result<_, ClientError>>()?;
        reached.auth = self.auth(http, config)?;
        reached.secrets = self.secrets(http, config);
        reached.ca_file = endpoint.ca_file;
        let certificate = endpoint.client_cert;
        // Both may stand in one file.
        reached.client_certificate =
            certificate.map(|(certificate, key)| (certificate.clone(), key.unwrap_or(certificate)));
        reached.allow_insecure = endpoint.allow_insecure;
        reached.max_message_bytes = config.max_message_bytes;
        HttpConnector::new(reached)
    }

    fn auth(
        &self,
        http: &HttpConfig,
        config: &Arc<ServerConfig>,
    ) -> Result<http::Auth, ClientError> {
        let signed_in = || self.sign_ins.as_ref().and_then(|sign_ins| sign_ins(config));
        Ok(match &http.auth {
            Some(Auth::Bearer(text)) => {
                let now = self.scope.expand(text, config).map_err(unusable)?;
                http::Auth::Bearer(later(text, BEARER, now)?)
            }
            Some(Auth::Env(name)) => http::Auth::Env(name.clone()),
            Some(Auth::Command { command, args }) => http::Auth::Command {
                program: self.scope.expand(command, config).map_err(unusable)?,
                args: self.scope.all(args, config).map_err(unusable)?,
            },
            // A server may want a sign-in of which its configuration says nothing.
            Some(Auth::OAuth { .. }) | None => {
                signed_in().map_or(http::Auth::None, http::Auth::Through)
            }
        })
    }

    /// What requests refer to, as it is when they are sent.
    fn secrets(&self, http: &HttpConfig, config: &Arc<ServerConfig>) -> Arc<dyn Secrets> {
        let (scope, config, http) = (self.scope.clone(), Arc::clone(config), http.clone());
        Arc::new(move |name: &str| {
            let header = name
                .strip_prefix(HEADER)
                .and_then(|at| at.parse::<usize>().ok());
            let text = match (header, &http.auth) {
                (Some(at), _) => Some(&http.headers.get(at)?.1),
                (None, Some(Auth::Bearer(text))) if name == BEARER => Some(text),
                _ => None,
            };
            match text {
                Some(text) => scope.expand(text, &config).ok(),
                None => scope.variable(name).ok(),
            }
        })
    }
}

impl Connector for Configured {
    fn transport(&self) -> TransportType {
        match self.config.transport {
            Transport::Stdio(_) => TransportType::Stdio,
            Transport::Http(_) => TransportType::Http,
        }
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let Self { config, reacher } = self;
        match &config.transport {
            Transport::Stdio(stdio) => match reacher.child(stdio, config) {
                Ok(child) => child.connect(),
                Err(error) => Box::pin(async { Err(unusable(error)) }),
            },
            Transport::Http(http) => match reacher.http(http, config) {
                Ok(http) => http.connect(),
                Err(error) => Box::pin(async { Err(error) }),
            },
        }
    }
}

/// A text that is put in when a request is sent, where it refers to something; `now` is what it is
/// at this moment.
fn later(text: &Template, variable: &str, now: String) -> Result<http::Template, ClientError> {
    if !text.written().contains("${") {
        return Ok(http::Template::verbatim(now));
    }
    http::Template::parse(&format!("${{{variable}}}")).map_err(|error| ClientError::InvalidConfig {
        what: error.to_string(),
    })
}

fn unusable(error: ExpandError) -> ClientError {
    ClientError::InvalidConfig {
        what: error.to_string(),
    }
}

/// A directory as a root.
fn root(path: &Path) -> Root {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(*byte));
            }
            byte => {
                let digits = [byte >> 4, byte & 15].map(|digit| {
                    char::from_digit(u32::from(digit), 16)
                        .unwrap_or('0')
                        .to_ascii_uppercase()
                });
                uri.push('%');
                uri.extend(digits);
            }
        }
    }
    Root {
        uri,
        name: path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_file_uri() {
        let root = root(Path::new("/a b/ü"));
        assert_eq!(root.uri, "file:///a%20b/%C3%BC");
        assert_eq!(root.name.as_deref(), Some("ü"));
    }
}
