//! A server under measurement: its process, and MCP spoken to it line by line.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

/// Holds the answers of a full window; less than a pipe, so that the server can refill it while
/// we read a large answer.
const READ_BYTES: usize = 16 * 1024;

/// The revision that session-era runs ask for.
pub(crate) const SESSION_REVISION: &str = "2025-11-25";

/// The revision that stateless runs name in each request.
pub(crate) const STATELESS_REVISION: &str = "2026-07-28";

/// How requests carry the protocol's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Session,
    Stateless,
}

/// A running server, killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: BufReader<ChildStdout>,
    line: Vec<u8>,
    last_id: u64,
}

impl Server {
    /// Starts a program with pipes; its stderr is dropped.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let input = child.stdin.take().context("no pipe to the server")?;
        let output = child.stdout.take().context("no pipe from the server")?;
        Ok(Self {
            child,
            input,
            output: BufReader::with_capacity(READ_BYTES, output),
            line: Vec::new(),
            last_id: 0,
        })
    }

    /// Starts a program and opens a session with it.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub(crate) fn open(command: &mut Command) -> Result<Self> {
        let mut server = Self::start(command)?;
        server.initialize()?;
        Ok(server)
    }

    /// Does the handshake of the session era.
    ///
    /// # Errors
    /// When the server does not answer it.
    pub(crate) fn initialize(&mut self) -> Result<()> {
        self.request(
            "initialize",
            &json!({
                "protocolVersion": SESSION_REVISION,
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1.0.0"},
            }),
        )?;
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.send(&done)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request and waits for its result.
    ///
    /// # Errors
    /// When the server answers with an error, or not at all.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut answer = self.receive()?;
            if answer["id"] != id {
                continue;
            }
            if let Some(error) = answer.get("error") {
                bail!("{method}: {error}");
            }
            return Ok(answer["result"].take());
        }
    }

    /// Calls a tool and returns the text of its answer.
    ///
    /// # Errors
    /// When the tool refuses or the call fails.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.request("tools/call", &params)?;
        text_of(&result).with_context(|| format!("{tool} {arguments}"))
    }

    /// Calls a tool whose text is JSON.
    ///
    /// # Errors
    /// When the tool refuses or its text is something else.
    pub(crate) fn call_json(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let text = self.call(tool, arguments)?;
        serde_json::from_str(&text).with_context(|| format!("{tool} answered {text}"))
    }

    /// Writes one message.
    ///
    /// # Errors
    /// When the server has gone.
    pub(crate) fn send(&mut self, message: &Value) -> Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        let written = self.input.write_all(line.as_bytes());
        written.context("writing to the server")
    }

    /// Reads one line.
    ///
    /// # Errors
    /// When the server has gone.
    pub(crate) fn line(&mut self) -> Result<&[u8]> {
        self.line.clear();
        let read = self.output.read_until(b'\n', &mut self.line);
        let count = read.context("reading from the server")?;
        ensure!(count > 0, "the server closed its output");
        Ok(&self.line)
    }

    /// Reads one message.
    ///
    /// # Errors
    /// When the server has gone or writes something else.
    pub(crate) fn receive(&mut self) -> Result<Value> {
        let line = self.line()?;
        serde_json::from_slice(line)
            .with_context(|| format!("no message: {}", String::from_utf8_lossy(line)))
    }

    /// Ends its input and waits until it has exited.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub(crate) fn close(self) -> Result<()> {
        let Self {
            mut child,
            input,
            mut output,
            ..
        } = self;
        drop(input);
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).context("reading the rest")?;
        child.wait().context("waiting for the server")?;
        Ok(())
    }
}

/// The text of a tool's result.
///
/// # Errors
/// When it is a refusal.
pub(crate) fn text_of(result: &Value) -> Result<String> {
    let blocks = result["content"].as_array().into_iter().flatten();
    let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
    ensure!(result["isError"] != true, "refused: {text}");
    Ok(text)
}

/// A program that was built beside this one.
///
/// # Errors
/// When it is not there.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("looking for our own program")?;
    let path = own.with_file_name("").join(name);
    ensure!(path.exists(), "{} was not built", path.display());
    Ok(path)
}

/// `orchestra stdio` on a workspace.
///
/// # Errors
/// When the program was not built.
pub(crate) fn orchestra(workspace: &Path, options: &[&str]) -> Result<Command> {
    let mut command = Command::new(program("orchestra")?);
    command.arg("stdio").arg("--workspace").arg(workspace);
    use_state_of(workspace, &mut command);
    command.args(options);
    Ok(command)
}

/// Has a program use the list of boards that lies in a workspace: that of the user has none of a benchmark.
pub(crate) fn use_state_of(workspace: &Path, command: &mut Command) {
    command.env("XDG_STATE_HOME", workspace.join(".state"));
}
