//! A server in a process of its own, driven line by line.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

pub(crate) struct Server {
    pub(crate) process: Child,
    input: Option<File>,
    lines: Receiver<String>,
    /// Held while nothing is to be read.
    reading: Arc<Mutex<()>>,
}

impl Server {
    /// One of the examples of this crate.
    pub(crate) fn start(example: &str) -> Self {
        Self::with(example, &[])
    }

    /// One with arguments.
    pub(crate) fn with(example: &str, arguments: &[&str]) -> Self {
        let path = path_of(example);
        let mut process = Command::new(&path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let output = process.stdout.take().unwrap();
        let input = process.stdin.take().unwrap();
        Self::over(process, input.into(), output.into())
    }

    /// One whose descriptors do not block.
    pub(crate) fn start_non_blocking(example: &str) -> Self {
        let (input, their_input) = UnixStream::pair().unwrap();
        let (output, their_output) = UnixStream::pair().unwrap();
        their_input.set_nonblocking(true).unwrap();
        their_output.set_nonblocking(true).unwrap();
        let process = Command::new(path_of(example))
            .stdin(OwnedFd::from(their_input))
            .stdout(OwnedFd::from(their_output))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self::over(process, input.into(), output.into())
    }

    fn over(process: Child, input: OwnedFd, output: OwnedFd) -> Self {
        let output = BufReader::new(File::from(output));
        let (sender, lines) = channel();
        let reading = Arc::new(Mutex::new(()));
        let gate = Arc::clone(&reading);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                drop(gate.lock());
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            input: Some(input.into()),
            lines,
            reading,
        }
    }

    /// Stops reading for good, with the output still open.
    pub(crate) fn stop_reading(&mut self) {
        std::mem::forget(Arc::clone(&self.reading));
        // Never unlocked: the reading thread waits at its next line.
        std::mem::forget(self.reading.lock());
    }

    /// Closes the output's end: the reading thread goes away at its next line.
    pub(crate) fn hang_up(&mut self) {
        self.lines = channel().1;
    }

    /// Sends if the server still takes it.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.input
            .as_mut()
            .is_some_and(|input| input.write_all(bytes).is_ok())
    }

    /// The same, after `initialize` for a revision, with the capabilities of a client.
    pub(crate) fn session(example: &str, revision: &str, capabilities: &str) -> Self {
        let mut server = Self::start(example);
        server.send(&format!(
            r#"{{"jsonrpc":"2.0","id":"init","method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{capabilities},"clientInfo":{{"name":"test","version":"1"}}}}}}"#
        ));
        assert_eq!(server.reply()["result"]["protocolVersion"], revision);
        server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        server
    }

    pub(crate) fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// The next line, as it is.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        self.lines
            .recv_timeout(PATIENCE)
            .expect("the server answers")
    }

    /// The next line as JSON.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Sends a line and expects exactly this one back.
    #[track_caller]
    pub(crate) fn check(&mut self, line: &str, expected: &str) {
        self.send(line);
        assert_eq!(self.line(), expected, "{line}");
    }

    /// Sends a request and answers the reply to it.
    #[track_caller]
    pub(crate) fn call(&mut self, line: &str) -> Value {
        self.send(line);
        self.reply()
    }

    /// The end of the output: all lines that were left.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        let end = Instant::now() + PATIENCE;
        let mut rest = Vec::new();
        loop {
            match self
                .lines
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => panic!("the server does not end: {rest:?}"),
            }
        }
    }

    /// Waits for the process to end.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the server does not end");
            thread::yield_now();
        }
    }

    /// Peak resident memory in KiB, where the system tells.
    pub(crate) fn peak_kib(&self) -> Option<u64> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse().ok()
    }
}

fn path_of(example: &str) -> PathBuf {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(example);
    path
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
