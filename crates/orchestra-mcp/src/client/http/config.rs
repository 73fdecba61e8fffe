//! How one server is reached over HTTP.

use std::{path::PathBuf, sync::Arc, time::Duration};

use orchestra_hub::BoxFuture;
use orchestra_process::Launcher;
use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};

use super::{
    auth::Authorizer,
    oauth::OAuthConfig,
    template::{self, Environment, Secrets, Template},
};
use crate::client::{ClientError, MAX_MESSAGE_BYTES};

/// Headers that belong to the transport and are not for configuration to say.
const OWN_HEADERS: [&str; 10] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// How messages travel over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavour {
    /// Streamable HTTP of 2025-03-26 and later, at the URL as it is given.
    #[default]
    Streamable,
    /// Plain JSON-RPC by POST at the URL with `/rpc` behind it (seed 002).
    Rpc,
    /// HTTP+SSE of 2024-11-05: a stream at the URL, and another place to post to.
    Sse,
    /// Streamable HTTP, or HTTP+SSE where a server does not know that.
    Auto,
}

/// Check that precedes the start of a program.
pub type Check = Arc<dyn Fn() -> BoxFuture<Result<(), ClientError>> + Send + Sync>;

/// How the server is told who calls.
#[derive(Clone, Default)]
pub enum Auth {
    /// It is not; or a configured header says it.
    #[default]
    None,
    /// A token.
    Bearer(Template),
    /// A variable with a token in it.
    Env(String),
    /// A program that prints a token on the first line of its output. It inherits the same variables as a server that
    /// is a process, and ends with what it has started when it is done or its time is over.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its working directory, from which a relative path of the program starts.
        directory: PathBuf,
        /// Runs before each start of the program, which its error prevents.
        check: Check,
    },
    /// Tokens of an authorization server, as MCP describes it.
    OAuth(Box<OAuthConfig>),
    /// Something else that knows.
    Through(Arc<dyn Authorizer>),
}

/// How long things may take. The time of a whole call is up to whoever makes it.
#[derive(Debug, Clone, Copy)]
pub struct HttpTimeouts {
    /// Until a connection is open, TLS included.
    pub connect: Duration,
    /// From there to the head of a response.
    pub first_byte: Duration,
    /// Between two pieces of a response. Streams that nobody waits for (what a server says by
    /// itself) may be silent for longer and are opened again.
    pub idle_stream: Duration,
    /// For what is done while the connection is closed.
    pub close: Duration,
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_mins(5),
            idle_stream: Duration::from_mins(5),
            close: Duration::from_secs(2),
        }
    }
}

/// Everything that is known of a server before it is asked.
#[derive(Clone)]
pub struct HttpConfig {
    /// The name of the server, for what is told about it.
    pub name: String,
    /// Where it is.
    pub url: Url,
    /// How messages travel.
    pub flavour: Flavour,
    /// More headers of each request.
    pub headers: Vec<(String, Template)>,
    /// How the server is told who calls.
    pub auth: Auth,
    /// Which program guards the one of [`Auth::Command`]; this one when nothing is said.
    pub launcher: Option<Launcher>,
    /// Where the values of variables come from.
    pub secrets: Arc<dyn Secrets>,
    /// How long things may take.
    pub timeouts: HttpTimeouts,
    /// A file of PEM certificates that are trusted beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// Files of PEM with our certificate (and what leads to its authority) and its key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Whether an unencrypted connection to another machine is permitted.
    pub allow_insecure: bool,
    /// The largest message of the server.
    pub max_message_bytes: usize,
    /// Connections that are kept open while nothing uses them.
    pub max_idle_connections: usize,
    /// For how long these are kept.
    pub idle_connection: Duration,
}

impl HttpConfig {
    /// The usual way to reach a server.
    #[must_use]
    pub fn new(name: impl Into<String>, url: Url) -> Self {
        Self {
            name: name.into(),
            url,
            flavour: Flavour::default(),
            headers: Vec::new(),
            auth: Auth::default(),
            launcher: None,
            secrets: Arc::new(Environment),
            timeouts: HttpTimeouts::default(),
            ca_file: None,
            client_certificate: None,
            allow_insecure: false,
            max_message_bytes: MAX_MESSAGE_BYTES,
            max_idle_connections: 64,
            idle_connection: Duration::from_secs(90),
        }
    }

    /// The URL that messages go to.
    ///
    /// # Errors
    /// When it cannot be used: no HTTP, credentials in it, or unencrypted to another machine
    /// without leave.
    pub(super) fn endpoint(&self) -> Result<Url, ClientError> {
        let invalid = |what: &str| {
            let what = format!("url of the server {}: {what}", self.name);
            Err(ClientError::InvalidConfig { what })
        };
        let mut url = self.url.clone();
        url.set_fragment(None);
        if !url.username().is_empty() || url.password().is_some() {
            return invalid("it carries a user name or password; use `auth` or `headers`");
        }
        match url.scheme() {
            "https" => {}
            "http" if self.allow_insecure || is_local(&url) => {}
            "http" => {
                return invalid(
                    "http to another machine can be read and changed on the way; use https, \
                     or set `allowInsecure`",
                );
            }
            _ => return invalid("only http and https are known"),
        }
        if self.flavour == Flavour::Rpc {
            let path = format!("{}/rpc", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        Ok(url)
    }

    /// The configured headers that are the same in each request, and those that are not.
    ///
    /// # Errors
    /// When one cannot be a header, or belongs to the transport.
    pub(super) fn split_headers(&self) -> Result<SplitHeaders, ClientError> {
        let mut split = SplitHeaders::default();
        for (name, template) in &self.headers {
            let invalid = |what: &str| {
                let what = format!("header {name:?} of the server {}: {what}", self.name);
                ClientError::InvalidConfig { what }
            };
            let header = HeaderName::try_from(name.as_str())
                .map_err(|_| invalid("this cannot be the name of a header"))?;
            if OWN_HEADERS.contains(&header.as_str()) {
                return Err(invalid("this header belongs to the transport"));
            }
            if template.has_variables() {
                split.variable.push((header, template.clone()));
            } else {
                let value = header_value(name, template, &*self.secrets)?;
                split.fixed.push((header, value));
            }
        }
        Ok(split)
    }
}

/// Headers by whether they may change.
#[derive(Default)]
pub(super) struct SplitHeaders {
    pub(super) fixed: Vec<(HeaderName, HeaderValue)>,
    pub(super) variable: Vec<(HeaderName, Template)>,
}

/// The value of a configured header, now.
///
/// # Errors
/// When a variable is missing, or what comes out cannot be sent.
pub(super) fn header_value(
    name: &str,
    template: &Template,
    secrets: &dyn Secrets,
) -> Result<HeaderValue, ClientError> {
    let text = template
        .expand(secrets)
        .map_err(|error| template::invalid(&format!("header {name}"), &error))?;
    sensitive(&text).ok_or_else(|| ClientError::InvalidConfig {
        what: format!("header {name}: its value has characters that a header cannot have"),
    })
}

/// A header's value that is never shown.
pub(super) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text.trim()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether a URL leads to this machine.
pub(super) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Whether what is sent to a URL is read by nobody else on its way: it is encrypted, or stays on this
/// machine.
#[must_use]
pub fn is_private(url: &Url) -> bool {
    url.scheme() == "https" || url.scheme() == "http" && is_local(url)
}

/// Whether two URLs have scheme, host and port in common.
pub(super) fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host_str() == other.host_str()
        && one.port_or_known_default() == other.port_or_known_default()
}
