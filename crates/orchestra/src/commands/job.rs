//! The board as processes of a job in a sandbox reach it: over a descriptor that the job has inherited.
//!
//! The sandbox lets them open no socket, so `orchestra stdio`, `orchestra tool` and `orchestra memory` use this descriptor,
//! which [`Variable::Socket`] names. What can be called there is decided outside the sandbox.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::Shutdown,
    os::{fd::AsFd as _, unix::net::UnixStream},
    thread,
};

use anyhow::Context as _;
use orchestra_process::connect;
use orchestra_wire::MAX_LINE_BYTES;
use serde_json::{Value, json};

use crate::{
    cli::{Command, Common},
    env::Variable,
    exit::{Exit, Failure},
};

/// Revision of MCP that is spoken here.
const REVISION: &str = "2025-11-25";

/// Refuses commands that need files which a job in a sandbox cannot read.
///
/// # Errors
/// When the command is one of them, this process belongs to such a job, and no workspace is named.
pub(crate) fn check(common: &Common, command: &Command) -> Result<(), Failure> {
    let name = match command {
        Command::Audit(_) => "audit",
        Command::Board(_) => "board",
        Command::Doctor(_) => "doctor",
        Command::Log(_) => "log",
        Command::Mcp(_) => "mcp",
        Command::Plan(_) => "plan",
        Command::Sync(_) => "sync",
        Command::Top(_) => "top",
        Command::Up(_) => "up",
        _ => return Ok(()),
    };
    if common.workspace.is_some() || Variable::Socket.read().is_none() {
        return Ok(());
    }
    Err(Failure::denied(format!(
        "`orchestra {name}` is not for a job in a sandbox, which has `orchestra tool`, `orchestra memory` and \
         `orchestra stdio`; --workspace names another workspace that the job may use"
    )))
}

/// Connects to the board of this job; `None` outside of such a job, and when a workspace is named.
///
/// # Errors
/// When the job has a descriptor that cannot be used.
pub(crate) fn connection(common: &Common) -> Result<Option<UnixStream>, Failure> {
    let Some(value) = Variable::Socket
        .read()
        .filter(|_| common.workspace.is_none())
    else {
        return Ok(None);
    };
    let number = value.to_str().and_then(|text| text.parse::<i32>().ok());
    let number = number.filter(|number| *number > 2).ok_or_else(|| {
        Failure::usage_text(format!(
            "{} is not the number of a descriptor; the runner of plans sets it for jobs in a sandbox",
            Variable::Socket
        ))
    })?;
    let stream = connect(number).with_context(|| {
        format!(
            "cannot reach the board of this job over the descriptor {number}; a program between the job and this one \
             may have closed it"
        )
    })?;
    Ok(Some(stream))
}

/// Passes on messages of a client between stdin, stdout and the board, until either side ends.
///
/// # Errors
/// When stdin or stdout cannot be used.
pub(crate) fn relay(stream: UnixStream) -> Result<Exit, Failure> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let sender = stream.try_clone()?;
    // It may be blocked in a read of stdin, and ends with the process.
    thread::Builder::new().spawn(move || {
        let (mut input, mut to) = (input, &sender);
        // When one side is gone, the other sees the end.
        let _ = io::copy(&mut input, &mut to);
        let _ = sender.shutdown(Shutdown::Write);
    })?;
    match io::copy(&mut &stream, &mut output) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(ended()),
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Exit::Ok),
    }
}

/// A session with the board.
pub(crate) struct Session {
    reader: BufReader<UnixStream>,
    last: u64,
}

/// Error that the board answers a request with.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) String);

impl Session {
    /// Begins a session.
    ///
    /// # Errors
    /// When the board does not answer.
    pub(crate) fn begin(stream: UnixStream) -> Result<Self, Failure> {
        let mut session = Self {
            reader: BufReader::new(stream),
            last: 0,
        };
        let hello = json!({
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": {"name": "orchestra", "version": env!("CARGO_PKG_VERSION")},
        });
        if let Err(Refusal(text)) = session.request("initialize", &hello)? {
            return Err(anyhow::anyhow!("the board refused the connection: {text}").into());
        }
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(session)
    }

    /// Returns the result of a request, or the error that it is refused with.
    ///
    /// # Errors
    /// When the board does not answer.
    pub(crate) fn request(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<Result<Value, Refusal>, Failure> {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut message = self.next()?;
            // Notifications are of no interest here.
            if message["id"] != id {
                continue;
            }
            return Ok(match message.get("error") {
                Some(error) => {
                    let text = error["message"].as_str().unwrap_or("no reason given");
                    Err(Refusal(text.to_owned()))
                }
                None => Ok(message["result"].take()),
            });
        }
    }

    fn send(&mut self, message: &Value) -> Result<(), Failure> {
        let mut line = message.to_string();
        line.push('\n');
        let sent = self.reader.get_mut().write_all(line.as_bytes());
        sent.map_err(|error| broken(error, "cannot reach the board"))
    }

    fn next(&mut self) -> Result<Value, Failure> {
        let mut line = Vec::new();
        let most = MAX_LINE_BYTES as u64;
        let read = self.reader.by_ref().take(most).read_until(b'\n', &mut line);
        read.map_err(|error| broken(error, "cannot read the response of the board"))?;
        if line.is_empty() {
            return Err(ended());
        }
        let parsed = serde_json::from_slice(&line);
        Ok(parsed.context("the board returned a response that is not JSON")?)
    }
}

/// Failure of a connection, in words where its other end is gone.
fn broken(error: io::Error, attempt: &'static str) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ended(),
        _ => anyhow::Error::new(error).context(attempt).into(),
    }
}

fn ended() -> Failure {
    anyhow::anyhow!(
        "the board ended the connection; does the workspace have a board? `orchestra init` creates one"
    )
    .into()
}
