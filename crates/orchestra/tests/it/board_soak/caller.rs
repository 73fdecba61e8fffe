//! Callers of tools through different front ends, whose processes can be killed at any time.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use serde_json::{Value, json};

use super::World;
use crate::support::PATIENCE;

/// Front end that a caller uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One MCP session over stdio.
    Stdio,
    /// HTTP requests to `orchestra up`.
    Http,
    /// One command for each call.
    Command,
    /// One `orchestra hook` for each event.
    Hook,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Stdio, Self::Http, Self::Command, Self::Hook];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Command => "command",
            Self::Hook => "hook",
        }
    }
}

/// Reason why a call is not acknowledged.
#[derive(Debug)]
pub(super) enum Failure {
    /// The tool answered with an error.
    Refused(String),
    /// There is no answer.
    Unanswered(String),
}

impl Failure {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Refused(text) | Self::Unanswered(text) => text,
        }
    }
}

fn unanswered(error: impl ToString) -> Failure {
    Failure::Unanswered(error.to_string())
}

/// Process of a caller, if one runs. Only its caller waits for its end, so that its id is never that of another process.
#[derive(Default)]
pub(super) struct Victim(Mutex<Option<Child>>);

impl Victim {
    fn hold(&self, child: Child) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    }

    fn take(&self) -> Option<Child> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.take()
    }

    /// Kills the process. Returns whether one was held.
    pub(super) fn kill(&self) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_mut().is_some_and(|child| child.kill().is_ok())
    }

    /// Runs a command to its end. Returns its output, unless it was killed or failed.
    fn run(&self, mut command: Command, input: &str) -> Result<(String, String), Failure> {
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(unanswered)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        self.hold(child);
        let (out, err) = thread::scope(|scope| {
            let err = scope.spawn(|| read(stderr));
            if let Some(mut stdin) = stdin {
                // A process that was killed reads nothing.
                let _ = stdin.write_all(input.as_bytes());
            }
            (read(stdout), err.join().unwrap_or_default())
        });
        let mut child = self.take().expect("only its caller takes it");
        let status = child.wait().map_err(unanswered)?;
        match status.code() {
            Some(0) => Ok((out, err)),
            Some(_) => Err(Failure::Refused(err)),
            None => Err(unanswered(status)),
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if let Some(mut child) = self.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn read(pipe: Option<impl std::io::Read>) -> String {
    let mut text = String::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_string(&mut text);
    }
    text
}

/// A caller in a worktree.
pub(super) struct Caller<'w> {
    world: &'w World,
    kind: Kind,
    worktree: usize,
    /// Directory in place of that worktree.
    elsewhere: Option<PathBuf>,
    victim: Arc<Victim>,
    conversation: Option<Conversation>,
}

impl<'w> Caller<'w> {
    pub(super) fn new(world: &'w World, kind: Kind, worktree: usize) -> Self {
        Self {
            world,
            kind,
            worktree,
            elsewhere: None,
            victim: Arc::default(),
            conversation: None,
        }
    }

    /// The same caller in another directory.
    pub(super) fn at(self, directory: PathBuf) -> Self {
        Self {
            elsewhere: Some(directory),
            ..self
        }
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Process that faults may kill.
    pub(super) fn victim(&self) -> Arc<Victim> {
        Arc::clone(&self.victim)
    }

    /// Calls a tool and returns its result.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, Failure> {
        match self.kind {
            Kind::Stdio => self.over_stdio(tool, arguments),
            Kind::Http => over_http(&self.world.address(), tool, arguments),
            Kind::Command | Kind::Hook => {
                let arguments = arguments.to_string();
                let words = ["tool", "call", tool, "--args", &arguments];
                let (out, _) = self.victim.run(self.command(&words), "")?;
                serde_json::from_str(&out).map_err(unanswered)
            }
        }
    }

    /// Calls a tool until it is acknowledged. An attempt without an acknowledgement may have changed the board.
    pub(super) fn call_until_acknowledged(&mut self, tool: &str, arguments: &Value) -> Value {
        let world = self.world;
        world.until_acknowledged(tool, || {
            let answer = self.call(tool, arguments);
            if answer.is_err() {
                self.disconnect();
            }
            answer
        })
    }

    /// Has the next call start another server, in the present directory of the worktree.
    pub(super) fn disconnect(&mut self) {
        self.conversation = None;
    }

    /// Sends an event to `orchestra hook`, which reports an event that it does not store on stderr.
    pub(super) fn send_event(&self, event: &Value) -> Result<(), Failure> {
        // In a directory that is no worktree for a moment, a hook rightly stores nothing.
        let here = self.world.stay(self.worktree);
        let command = self.world.repository.command(&here, &["hook"]);
        let (_, err) = self.victim.run(command, &event.to_string())?;
        match err.contains("not stored") {
            true => Err(Failure::Refused(err)),
            false => Ok(()),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let here = match &self.elsewhere {
            Some(directory) => directory.clone(),
            None => self.world.stay(self.worktree).clone(),
        };
        self.world.repository.command(&here, words)
    }

    fn over_stdio(&mut self, tool: &str, arguments: &Value) -> Result<Value, Failure> {
        let mut conversation = match self.conversation.take() {
            Some(conversation) => conversation,
            None => Conversation::start(self.command(&["stdio"]), &self.victim)?,
        };
        let answer = conversation.call(tool, arguments);
        // A client starts a server again that has ended.
        if !matches!(answer, Err(Failure::Unanswered(_))) {
            self.conversation = Some(conversation);
        }
        answer
    }
}

/// An MCP session over stdio.
struct Conversation {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl Conversation {
    /// Starts a server, and ends the former one.
    fn start(mut command: Command, victim: &Victim) -> Result<Self, Failure> {
        if let Some(mut former) = victim.take() {
            let _ = former.kill();
            let _ = former.wait();
        }
        let child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(unanswered)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        victim.hold(child);
        let mut conversation = Self {
            stdin: stdin.expect("stdin is piped"),
            stdout: BufReader::new(stdout.expect("stdout is piped")),
            next_id: 0,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "soak", "version": "1"},
        });
        conversation.request("initialize", &hello)?;
        conversation.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(conversation)
    }

    fn send(&mut self, message: &Value) -> Result<(), Failure> {
        let sent = writeln!(self.stdin, "{message}").and_then(|()| self.stdin.flush());
        sent.map_err(unanswered)
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).map_err(unanswered)?;
            // The last line of a process that was killed may be cut.
            let message: Value = serde_json::from_str(&line).map_err(unanswered)?;
            if message["id"] == id {
                return Ok(message);
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, Failure> {
        let params = json!({"name": tool, "arguments": arguments});
        result_of(&self.request("tools/call", &params)?)
    }
}

/// Result of a tool in a JSON-RPC response.
fn result_of(response: &Value) -> Result<Value, Failure> {
    let result = &response["result"];
    match result["content"][0]["text"].as_str() {
        Some(text) if result["isError"] != true => serde_json::from_str(text).map_err(unanswered),
        _ => Err(Failure::Refused(response.to_string())),
    }
}

fn over_http(address: &str, tool: &str, arguments: &Value) -> Result<Value, Failure> {
    let params = json!({"name": tool, "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let body = call.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).map_err(unanswered)?;
    let limited = stream.set_read_timeout(Some(PATIENCE));
    limited.map_err(unanswered)?;
    stream.write_all(request.as_bytes()).map_err(unanswered)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(unanswered)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    let body = body.unwrap_or_default();
    result_of(&serde_json::from_str(body).map_err(unanswered)?)
}
