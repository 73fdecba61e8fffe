//! The program, in a workspace and a home of its own.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How many write at once where much is written.
const WRITERS: usize = 16;

/// Far more than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// `orchestra up`, killed with this value.
pub(crate) struct Program {
    orchestra: PathBuf,
    variables: &'static [(&'static str, &'static str)],
    directory: TempDir,
    address: String,
    running: Child,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}

impl Program {
    /// Starts it, with further variables in its environment.
    pub(crate) fn start(orchestra: &Path, variables: &'static [(&str, &str)]) -> Result<Self> {
        let directory = tempfile::tempdir().context("making a workspace")?;
        for part in ["home", "workspace"] {
            fs::create_dir(directory.path().join(part)).context("making a workspace")?;
        }
        let mut git = Command::new("git");
        git.args(["init", "--quiet"])
            .current_dir(directory.path().join("workspace"));
        ensure!(
            git.status().context("starting git")?.success(),
            "git init failed"
        );
        let (running, address) = up(orchestra, variables, directory.path(), "127.0.0.1:0")?;
        Ok(Self {
            orchestra: orchestra.to_owned(),
            variables,
            directory,
            address,
            running,
        })
    }

    /// Kills it and starts it anew at the same address.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.running.kill().context("killing the program")?;
        self.running.wait().context("waiting for the program")?;
        let (running, address) = up(
            &self.orchestra,
            self.variables,
            self.directory.path(),
            &self.address,
        )?;
        ensure!(address == self.address, "it came back at {address}");
        self.running = running;
        Ok(())
    }

    /// The beginning of all addresses of it.
    pub(crate) fn site(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Host and port it serves at.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    /// The workspace that it serves.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace")
    }

    /// Writes a file of the workspace.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<()> {
        let path = self.workspace().join(path);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Calls a tool over REST, as an agent does over MCP, and gives its structured result.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Result<Value> {
        let answer = self.post(
            "/api/mcp/tools/call",
            &json!({"name": tool, "arguments": arguments}),
        )?;
        ensure!(answer["isError"] != true, "{tool} refused: {answer}");
        Ok(answer["structuredContent"].clone())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).context("connecting")?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .context("bounding an answer")?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.address
        );
        let head = format!(
            "{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream
            .write_all(&[head.as_bytes(), body.as_bytes()].concat())
            .context("asking")?;
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .context("reading an answer")?;
        let Some((head, body)) = answer.split_once("\r\n\r\n") else {
            bail!("no answer: {answer}");
        };
        ensure!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        serde_json::from_str(body).with_context(|| format!("{path}: {body}"))
    }

    /// A project `app` with an epic, a story and so many tasks in the backlog; their ids.
    pub(crate) fn board(&self, tasks: usize) -> Result<Vec<String>> {
        self.call("create_project", &json!({"name": "App"}))?;
        let id = |made: Value| {
            made["id"]
                .as_str()
                .map(str::to_owned)
                .context("it has an id")
        };
        let epic = id(self.call(
            "create_epic",
            &json!({"project": "app", "title": "First release"}),
        )?)?;
        let story = json!({"project": "app", "epic_id": epic, "title": "Greeting", "user_story": "As a visitor I am greeted"});
        let story = id(self.call("create_story", &story)?)?;
        let task = &|number: usize| {
            let title = format!("Say hello {}", number + 1);
            let task = json!({"project": "app", "story_id": story, "title": title, "type": "task"});
            id(self.call("create_task", &task)?)
        };
        if tasks <= WRITERS {
            return (0..tasks).map(task).collect();
        }
        // Many agents at once.
        let part = tasks.div_ceil(WRITERS);
        thread::scope(|scope| {
            let parts = (0..tasks).step_by(part);
            let writers = parts.map(|from| {
                scope.spawn(move || {
                    (from..tasks.min(from + part))
                        .map(task)
                        .collect::<Result<Vec<_>>>()
                })
            });
            let writers: Vec<_> = writers.collect();
            let made = writers
                .into_iter()
                .map(|writer| writer.join().expect("a writer does not panic"));
            Ok(made.collect::<Result<Vec<_>>>()?.concat())
        })
    }
}

fn up(
    orchestra: &Path,
    variables: &[(&str, &str)],
    directory: &Path,
    address: &str,
) -> Result<(Child, String)> {
    let mut running = Command::new(orchestra)
        .args(["up", "--http", address, "--quic", "off", "--json"])
        .current_dir(directory.join("workspace"))
        .env("HOME", directory.join("home"))
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_DATA_HOME")
        .env_remove("XDG_STATE_HOME")
        .env_remove("ORCHESTRATOR_WORKSPACE")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the program")?;
    let out = running.stdout.take().context("it has an output")?;
    let mut line = String::new();
    BufReader::new(out)
        .read_line(&mut line)
        .context("reading what it says")?;
    let ready: Value = serde_json::from_str(&line).with_context(|| format!("it says {line:?}"))?;
    let address = ready["http"]
        .as_str()
        .and_then(|url| url.strip_prefix("http://"));
    let address = address
        .with_context(|| format!("no address: {ready}"))?
        .to_owned();
    Ok((running, address))
}
