//! A server under measurement over HTTP: its process, and single requests to it.

use std::{
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use ureq::{Agent, http::Response};

use crate::server::{Era, SESSION_REVISION, STATELESS_REVISION};

/// How long a start and one answer may take: some interpreters are slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server, killed when dropped.
pub(crate) struct Listening {
    child: Child,
    url: String,
    agent: Agent,
}

/// A request as it is sent again and again.
pub(crate) struct Prepared {
    pub(crate) body: String,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Listening {
    /// Starts a program that tells its URL on standard error.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it listens.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let told = child.stderr.take().context("no pipe from the server")?;
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .build();
        let mut server = Self {
            child,
            url: String::new(),
            agent: config.into(),
        };
        for line in BufReader::new(told).lines() {
            let line = line.context("reading from the server")?;
            if let Some(at) = line.find("http://") {
                line[at..].trim().clone_into(&mut server.url);
                return Ok(server);
            }
        }
        bail!("the server ended before it listened")
    }

    /// Starts a program that listens at a URL it was told, and waits until it does.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it listens.
    pub(crate) fn start_at(command: &mut Command, address: SocketAddr, path: &str) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let config = Agent::config_builder().timeout_global(Some(PATIENCE));
        let mut server = Self {
            child,
            url: format!("http://{address}{path}"),
            agent: config.build().into(),
        };
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            let ended = server.child.try_wait().context("looking at the server")?;
            ensure!(ended.is_none(), "the server ended before it listened");
            ensure!(Instant::now() < end, "the server does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Begins a session; its id, when the server keeps one.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) fn initialize(&self) -> Result<Option<String>> {
        let params = json!({
            "protocolVersion": SESSION_REVISION,
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1.0.0"},
        });
        let body = message(Some(1), "initialize", &params);
        let mut response = self.post(&Prepared::of(Era::Session, None, body))?;
        let id = response.headers().get("mcp-session-id");
        let id = id.map(|id| id.to_str().map(str::to_owned)).transpose()?;
        let said = response.body_mut().read_to_string()?;
        ensure!(said.contains("\"result\""), "initialize: {said}");
        let done = message(None, "notifications/initialized", &json!({}));
        self.post(&Prepared::of(Era::Session, id.as_deref(), done))?;
        Ok(id)
    }

    /// Ends a session.
    ///
    /// # Errors
    /// When it is refused.
    pub(crate) fn leave(&self, session: &str) -> Result<()> {
        let request = self.agent.delete(&self.url);
        request.header("mcp-session-id", session).call()?;
        Ok(())
    }

    /// Makes sure that a call of the echo tool is answered with its text.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn check(&self, call: &Prepared, text: &str) -> Result<()> {
        let said = self.post(call)?.body_mut().read_to_string()?;
        let answered = said.contains("\"result\"") && said.contains(text);
        ensure!(answered, "the echo was {said}");
        Ok(())
    }

    fn post(&self, call: &Prepared) -> Result<Response<ureq::Body>> {
        let mut request = self.agent.post(&self.url);
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        let sent = request.send(&call.body);
        sent.with_context(|| format!("posting {}", call.body))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Prepared {
    /// A call of the echo tool.
    pub(crate) fn echo(era: Era, session: Option<&str>, text: &str) -> Self {
        let mut params = json!({"name": "echo", "arguments": {"text": text}});
        if era == Era::Stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS_REVISION,
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let mut call = Self::of(era, session, message(Some(2), "tools/call", &params));
        if era == Era::Stateless {
            call.headers.push(("mcp-method", "tools/call".to_owned()));
            call.headers.push(("mcp-name", "echo".to_owned()));
        }
        call
    }

    fn of(era: Era, session: Option<&str>, body: String) -> Self {
        let revision = match era {
            Era::Session => SESSION_REVISION,
            Era::Stateless => STATELESS_REVISION,
        };
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
            ("mcp-protocol-version", revision.to_owned()),
        ];
        headers.extend(session.map(|id| ("mcp-session-id", id.to_owned())));
        Self { body, headers }
    }
}

fn message(id: Option<u32>, method: &str, params: &Value) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
    if let Some(id) = id {
        message["id"] = id.into();
    }
    message.to_string()
}
