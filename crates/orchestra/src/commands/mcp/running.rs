//! Current state of the servers, from the `orchestra up` that runs them in the workspace.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use orchestra_gateway::{approval::Fingerprint, config::ServerConfig};
use serde::{Deserialize, Serialize};

use crate::{
    access,
    commands::up::endpoint::{Endpoint, Place, Tokens},
    config::Config,
    output,
};

/// Deadline of the answer, which waits for no server.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest answer: some thousand servers.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Message where a token is missing.
pub(in crate::commands) const ASKS_TOKEN: &str =
    "it asks for a token: set ORCHESTRA_TOKEN, or access.token_file in your orchestra.toml";

/// Path of the request.
const PATH: &str = "/api/mcp/servers";

/// Current state of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::commands) struct Now {
    #[serde(skip_serializing)]
    name: String,
    status: String,
    #[serde(default, skip_serializing)]
    transport: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    calls: Calls,
    restarts: u64,
    #[serde(default, skip_serializing)]
    processes: u64,
    #[serde(default)]
    failed_starts: u64,
    /// Of the definition by which it runs.
    #[serde(default, skip_serializing)]
    fingerprint: Option<String>,
    latency_ms: Latency,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_error: Option<LastError>,
}

/// Calls by their end.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Calls {
    answered: u64,
    refused: u64,
    failed: u64,
    aside: u64,
    in_flight: u64,
}

/// Milliseconds that calls took.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Latency {
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
}

/// What failed last.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LastError {
    unix_ms: u64,
    text: String,
}

#[derive(Deserialize)]
struct Answer {
    servers: Vec<Now>,
}

impl Now {
    /// How servers are right now, by their names. Where that is not known, that is said, and the rest
    /// is told without.
    pub(in crate::commands) fn of_all(config: &Config) -> BTreeMap<String, Self> {
        ask(config).unwrap_or_else(|error| {
            let text = format!("cannot read the current state of the servers: {error:#}");
            output::complain(&output::printable(&text));
            BTreeMap::new()
        })
    }

    /// Number of processes that run for it.
    pub(in crate::commands) fn processes(&self) -> u64 {
        self.processes
    }

    /// Its starts after the first.
    pub(in crate::commands) fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Its status.
    pub(in crate::commands) fn status(&self) -> &str {
        &self.status
    }

    /// Returns whether it is a plugin.
    pub(in crate::commands) fn comes_over_quic(&self) -> bool {
        self.transport.as_deref() == Some("quic")
    }

    /// Why, where that is not as it should be.
    pub(in crate::commands) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Whether what runs is what this definition says.
    pub(super) fn is_of(&self, config: &ServerConfig) -> bool {
        let ours = Fingerprint::of_definition(config);
        let theirs = self.fingerprint.as_deref();
        theirs.is_none_or(|theirs| theirs == ours.as_str())
    }

    /// Mean latency, calls that brought an error or failed, restarts, and starts that failed.
    pub(super) fn figures(&self) -> [String; 4] {
        let calls = &self.calls;
        let ended = calls.answered + calls.refused + calls.failed;
        let latency = match ended {
            0 => "-".to_owned(),
            _ => format!("{:.1} ms", self.latency_ms.mean),
        };
        let errors = calls.refused.saturating_add(calls.failed);
        let errors = errors.to_string();
        let (restarts, failed) = (self.restarts.to_string(), self.failed_starts.to_string());
        [latency, errors, restarts, failed]
    }
}

/// Current state of the servers of the workspace, by their names. Empty if no `up` runs, or if it serves another
/// worktree, which is reported.
///
/// # Errors
/// When one runs and does not tell.
pub(super) fn ask(config: &Config) -> anyhow::Result<BTreeMap<String, Now>> {
    let Some(endpoint) = Place::find(config)?.published()? else {
        return Ok(BTreeMap::new());
    };
    if let Some(note) = endpoint.other_worktree(&config.workspace) {
        output::complain(&output::printable(&note));
        return Ok(BTreeMap::new());
    }
    let answer = get(config, &endpoint);
    let answer = answer.with_context(|| format!("ask {}{PATH}", endpoint.http))?;
    let answer: Answer =
        serde_json::from_slice(&answer).context("cannot parse the response of `up`")?;
    let servers = answer.servers.into_iter();
    Ok(servers.map(|now| (now.name.clone(), now)).collect())
}

/// The local address of a running `up`, and the token for it.
///
/// # Errors
/// When it is reached over TLS, or is on another machine.
pub(in crate::commands) fn reach(
    config: &Config,
    endpoint: &Endpoint,
) -> anyhow::Result<(SocketAddr, Option<String>)> {
    anyhow::ensure!(
        endpoint.http.starts_with("http://"),
        "the state of a program that serves TLS is not readable from here; open its dashboard, or read its /metrics"
    );
    let address = near(endpoint.address).context("that is another machine")?;
    let token = match endpoint.asks_token {
        true => match &endpoint.tokens {
            Some(Tokens::Own) => access::stored_token(),
            Some(Tokens::File(path)) => access::first_of_file(path),
            // Only this program's own environment can hold that token.
            Some(Tokens::Environment) | None => access::first_token(&config.access),
        },
        false => None,
    };
    Ok((address, token))
}

fn get(config: &Config, endpoint: &Endpoint) -> anyhow::Result<Vec<u8>> {
    let (address, token) = reach(config, endpoint)?;
    let shown = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let request = format!(
        "GET {PATH} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\n\
         Connection: close\r\n{}\r\n",
        shown.unwrap_or_default()
    );
    let answer = exchange(address, &request)?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.context("not an HTTP response")?);
    let head = String::from_utf8_lossy(head);
    match head.split(' ').nth(1) {
        Some("200") => Ok(body[4..].to_vec()),
        Some("401") => anyhow::bail!(ASKS_TOKEN),
        status => anyhow::bail!("it returned status {}", status.unwrap_or("none")),
    }
}

/// The address under which this machine reaches itself; `None` where it is another's, which is shown
/// no token.
fn near(address: SocketAddr) -> Option<SocketAddr> {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    // Only addresses of this machine can be listened on.
    let is_ours = ip.is_loopback() || TcpListener::bind((ip, 0)).is_ok();
    is_ours.then(|| SocketAddr::new(ip, address.port()))
}

/// Sends a request, and reads until the other side closes.
fn exchange(address: SocketAddr, request: &str) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => return Ok(answer),
            count => answer.extend_from_slice(&buffer[..count]),
        }
        if answer.len() > MAX_BYTES {
            return Err(io::Error::other("the answer is too long"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_shown_a_token() {
        for (told, reached) in [
            ("127.0.0.1:7420", Some("127.0.0.1:7420")),
            ("0.0.0.0:7420", Some("127.0.0.1:7420")),
            ("[::]:7420", Some("[::1]:7420")),
            // For documentation (RFC 5737): nobody's.
            ("192.0.2.1:7420", None),
        ] {
            let reached = reached.map(|reached| reached.parse().unwrap());
            assert_eq!(near(told.parse().unwrap()), reached, "{told}");
        }
    }
}
