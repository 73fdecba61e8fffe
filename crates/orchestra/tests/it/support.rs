//! Workspaces, processes and conversations for the tests.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use orchestra_place::{Choice, Place, RunDirectory};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::ports::free_port;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory of a test's own, with a home of its own beside it.
pub(crate) struct Workspace {
    directory: TempDir,
}

/// What a process said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Workspace {
    /// An empty directory.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("home")).unwrap();
        fs::create_dir(directory.path().join("work")).unwrap();
        Self { directory }
    }

    /// An empty git repository.
    pub(crate) fn git() -> Self {
        let workspace = Self::new();
        let status = Command::new("git")
            .args(["init", "--quiet"])
            .current_dir(workspace.path())
            .status()
            .unwrap();
        assert!(status.success());
        workspace
    }

    /// An empty git repository with an empty board.
    pub(crate) fn board() -> Self {
        let workspace = Self::git();
        fs::create_dir(workspace.join(".projects")).unwrap();
        workspace
    }

    /// The same, in which each checkout has a board of its own: the user's file sets the mode.
    pub(crate) fn with_board_in_checkout(self) -> Self {
        let directory = self.home().join(".config/orchestra");
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("orchestra.toml");
        let rest = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, format!("board = \"checkout\"\n{rest}")).unwrap();
        self
    }

    /// Writes the user's own configuration.
    pub(crate) fn own(&self, text: &str) {
        let directory = self.home().join(".config/orchestra");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("orchestra.toml"), text).unwrap();
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("work")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// The directory that stands for the system's; it is not made.
    pub(crate) fn system(&self) -> PathBuf {
        self.directory.path().join("etc")
    }

    pub(crate) fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path().join(path)
    }

    /// The run directory of the program, which may not exist yet.
    pub(crate) fn run_directory(&self) -> PathBuf {
        run_directory(&self.path(), &self.home())
    }

    /// Directory of the plans of the workspace. It may not exist.
    pub(crate) fn plans(&self) -> PathBuf {
        place(&self.path(), &self.home()).own().join("plans")
    }

    /// Database of the board that all checkouts share. It may not exist.
    pub(crate) fn database(&self) -> PathBuf {
        let place = place(&self.path(), &self.home());
        place.shared().join("board/board.db")
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The program, not yet started, in this workspace and with nothing of the tester's own
    /// environment but the path.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        self.command_as(&program(), arguments)
    }

    /// [`Workspace::command`] of the program under another name.
    pub(crate) fn command_as<S: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .envs(self.unmarked())
            .env("PATH", path_with_program())
            .env("HOME", self.home())
            .env("ORCHESTRA_SYSTEM", self.system())
            // Tests of the engine ask for it; others would start many.
            .env("ORCHESTRA_ENGINE", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Variable that names this workspace if nothing in it marks it as one. Without it the program searches
    /// the directories above, where the user may have another workspace.
    fn unmarked(&self) -> Option<(&'static str, PathBuf)> {
        let path = self.path();
        let is_marked = [".git", ".projects"]
            .iter()
            .any(|mark| path.join(mark).exists());
        (!is_marked).then_some(("ORCHESTRATOR_WORKSPACE", path))
    }

    /// Runs the program to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Said {
        said(self.command(arguments), "")
    }

    /// Runs the program to its end, with something on stdin.
    pub(crate) fn run_with_input<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Said {
        said(self.command(arguments), input)
    }

    /// Calls a tool; its result as JSON. Panics when the tool refuses.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Value {
        let said = self.run(["tool", "call", tool, "--args", &arguments.to_string()]);
        assert_eq!(said.code, Some(0), "{tool} {arguments}: {said:?}");
        serde_json::from_str(&said.out).unwrap_or_else(|_| Value::String(said.out.clone()))
    }
}

/// The run directory of the program in a workspace, for the user with this home.
pub(crate) fn run_directory(workspace: &Path, home: &Path) -> PathBuf {
    let run = RunDirectory::new(place(workspace, home));
    run.path().to_owned()
}

/// The place of a workspace's private state, for the user with this home.
fn place(workspace: &Path, home: &Path) -> Place {
    let state = home.join(".local/state/orchestra");
    Place::find(workspace, Some(&state), Choice::default()).unwrap()
}

/// The program to test: the one of this build, or another that ORCHESTRA names.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("ORCHESTRA").filter(|named| !named.is_empty());
    named.map_or_else(|| env!("CARGO_BIN_EXE_orchestra").into(), PathBuf::from)
}

/// The tester's path, and the program before all others on it.
fn path_with_program() -> OsString {
    let program = program();
    let program = program.parent().unwrap();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(program.to_owned()).chain(std::env::split_paths(&others));
    std::env::join_paths(places).unwrap()
}

/// An address with a port that no program listens on.
pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

/// Runs a command to its end.
pub(crate) fn said(mut command: Command, input: &str) -> Said {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = thread::spawn(move || {
        // A program that does not read its input closes the pipe, which is its right.
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs a command until it says that it is ready, and ends it; the line it says so in, and all that
/// it said on stderr.
pub(crate) fn until_ready(mut command: Command) -> (Value, String) {
    let mut child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    (serde_json::from_str(&line).expect(&said), said)
}

/// Looks again and again until it sees something.
pub(crate) fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "it does not come to that");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A process that runs on, and is killed at the end of the test.
pub(crate) struct Running {
    child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: Command) -> Self {
        Self::with_stderr(command, Stdio::inherit())
    }

    pub(crate) fn with_stderr(mut command: Command, stderr: impl Into<Stdio>) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            stdin,
            lines,
        }
    }

    /// The next line on stdout; `None` at its end.
    pub(crate) fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line within {PATIENCE:?}"),
        }
    }

    /// The next line on stdout, as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.line().expect("a line")).unwrap()
    }

    /// The process id of the program.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }

    /// Kills the process, and waits until nothing of it is left: its ports are free then.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the process ends, and kills it if it still runs after this time.
    pub(crate) fn kill_after(&mut self, most: Duration) {
        let end = Instant::now() + most;
        let left = || end.saturating_duration_since(Instant::now());
        while self.lines.recv_timeout(left()).is_ok() {}
        self.kill();
    }

    /// How the process has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for the end of the process, whose input ends.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.stdin.take());
        self.wait()
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        // The end of stdout is the end of the process, or just before it.
        while self.line().is_some() {}
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the process does not end");
            thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An MCP session over stdio, one request at a time.
pub(crate) struct Session {
    pub(crate) process: Running,
    next_id: u64,
    /// Notifications that came before the response that was waited for.
    pub(crate) passed: Vec<Value>,
}

impl Session {
    pub(crate) fn start(command: Command) -> Self {
        Self::start_as(command, "test")
    }

    /// Starts one whose client has this name.
    pub(crate) fn start_as(command: Command, client: &str) -> Self {
        Self::over(Running::start(command), client)
    }

    /// Opens a session with a process that was started and has received no message.
    pub(crate) fn over(process: Running, client: &str) -> Self {
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": client, "version": "1"},
        });
        Self::greeting_over(process, &hello)
    }

    /// Starts one whose client greets with these parameters.
    pub(crate) fn greeting(command: Command, hello: &Value) -> Self {
        Self::greeting_over(Running::start(command), hello)
    }

    fn greeting_over(process: Running, hello: &Value) -> Self {
        let mut session = Self {
            process,
            next_id: 0,
            passed: Vec::new(),
        };
        let hello = session.request("initialize", hello);
        assert_eq!(
            hello["result"]["serverInfo"]["name"], "orchestra",
            "{hello}"
        );
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let stdin = self.process.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request and waits for its response; notifications in between are passed over.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.process.json();
            if message["id"] == id {
                return message;
            }
            self.passed.push(message);
        }
    }

    /// Waits for a notification; one that was passed over counts.
    pub(crate) fn notified(&mut self, method: &str) {
        let mut passed = std::mem::take(&mut self.passed).into_iter();
        if passed.any(|message| message["method"] == method) {
            return;
        }
        while self.process.json()["method"] != method {}
    }

    /// Whether a notification was passed over since the last look; all that were are forgotten.
    pub(crate) fn was_notified(&mut self, method: &str) -> bool {
        let mut passed = std::mem::take(&mut self.passed).into_iter();
        passed.any(|message| message["method"] == method)
    }

    /// Calls a tool; the result of `tools/call`.
    pub(crate) fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        let response = self.request("tools/call", &json!({"name": name, "arguments": arguments}));
        assert!(
            response.get("result").is_some(),
            "{name} {arguments}: {response}"
        );
        response["result"].clone()
    }

    /// Calls a tool that must do it; its structured result.
    pub(crate) fn ok(&mut self, name: &str, arguments: &Value) -> Value {
        let result = self.tool(name, arguments);
        assert_ne!(result["isError"], true, "{name} {arguments}: {result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that must refuse; what it says.
    pub(crate) fn refused(&mut self, name: &str, arguments: &Value) -> String {
        let result = self.tool(name, arguments);
        assert_eq!(result["isError"], true, "{name} {arguments}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

/// The answer to an HTTP request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// A header of it.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// Sends bytes over TCP as an HTTP request, `Connection: close` included, and reads the answer.
pub(crate) fn http(address: &str, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let request = request.to_vec();
    // The server may answer before it has read all, and close.
    let sending = thread::spawn(move || drop(writer.write_all(&request)));
    let mut bytes = Vec::new();
    // A connection that is reset after the answer has been read is an answer.
    let _ = stream.read_to_end(&mut bytes);
    sending.join().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// A GET.
pub(crate) fn get(address: &str, path: &str) -> Answer {
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    http(address, head.as_bytes())
}

/// A POST of JSON to `/mcp`, with more or other headers.
pub(crate) fn post(address: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    post_to(address, "/mcp", headers, body)
}

/// The same to another path.
pub(crate) fn post_to(address: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = format!("POST {path} HTTP/1.1\r\nConnection: close\r\n");
    let given = |name: &str| {
        headers
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    if !given("host") {
        request.push_str(&format!("Host: {address}\r\n"));
    }
    if !given("content-type") {
        request.push_str("Content-Type: application/json\r\n");
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    http(address, request.as_bytes())
}
