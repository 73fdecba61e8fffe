//! Servers of others behind the gateway, all at once, from one short `mcp.json`; the calls are made
//! by judges, so that nobody at either end is of ours.
//!
//! `judges/servers` pins the servers: four reference servers on Node.js over stdio, one of them
//! over Streamable HTTP and over the old pair of routes as well, and one in Python. Beside them is
//! `odd.py`, whose tools, answers and greeting have an odd member each.

mod both;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{
    Absent, Judge, LIMIT, NEWEST_OF_EACH_ERA, client, debug, renew, report, workspace_of_check,
};
use crate::{
    run::{self, Ended},
    served::{Served, Told},
    test::Tally,
    tools,
};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Each official client, and the newest revision of each era that it speaks.
const JUDGES: [(&str, Judge, &[&str]); 5] = [
    ("rmcp", Judge::Rmcp, &NEWEST_OF_EACH_ERA),
    (
        "typescript-v1",
        Judge::TypeScript("v1.mjs"),
        &["2025-11-25"],
    ),
    (
        "typescript-v2",
        Judge::TypeScript("v2.mjs"),
        &NEWEST_OF_EACH_ERA,
    ),
    ("python-v1", Judge::PythonFirst, &["2025-11-25"]),
    ("python-v2", Judge::PythonSecond, &NEWEST_OF_EACH_ERA),
];

/// First port of servers that need a fixed one, and the number of these ports: below the ranges from which systems
/// assign ports.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 1_000;

/// Through which command the servers are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Through {
    Stdio,
    Up,
}

/// Where everything is.
struct Installed {
    /// Where the servers in JavaScript are installed.
    home: PathBuf,
    node: PathBuf,
    modules: PathBuf,
    python: PathBuf,
}

/// A server of others over HTTP, killed when dropped.
pub(super) struct Listening {
    process: Child,
    pub(super) address: SocketAddr,
}

/// Runs the judges whose name holds `word`, or all.
pub(super) fn all(word: Option<&str>) -> Tally {
    let mut tally = Tally::default();
    for through in [Through::Stdio, Through::Up] {
        for (judge_name, judge, revisions) in JUDGES {
            for revision in revisions {
                let over = match through {
                    Through::Stdio => "",
                    Through::Up => " over http",
                };
                let name = format!("{judge_name} {revision} others{over}");
                if word.is_none_or(|word| name.contains(word)) {
                    report(&name, sit(judge, revision, through), &mut tally);
                }
            }
        }
    }
    both::all(word, &mut tally);
    tally
}

fn sit(judge: Judge, revision: &str, through: Through) -> Result<Result<Ended>, Absent> {
    let client = client(judge, revision).map_err(Absent)?;
    let installed = Installed::find().map_err(Absent)?;
    Ok(hear(client, revision, through, &installed))
}

fn hear(
    mut client: Command,
    revision: &str,
    through: Through,
    installed: &Installed,
) -> Result<Ended> {
    let directory = workspace_of_check();
    renew(&directory)?;
    let directory = directory.canonicalize().context("the judge's workspace")?;
    fs::create_dir(directory.join("home")).context("creating a home directory")?;
    let http = installed.everything("streamableHttp")?;
    let sse = installed.everything("sse")?;
    let fill = |text: String| {
        [
            ("DIRECTORY", directory.display().to_string()),
            ("NODE", installed.node.display().to_string()),
            ("MODULES", installed.modules.display().to_string()),
            ("PYTHON", installed.python.display().to_string()),
            (
                "SERVERS",
                run::root().join("judges/servers").display().to_string(),
            ),
            ("HTTP", format!("http://{}", http.address)),
            ("SSE", format!("http://{}", sse.address)),
        ]
        .iter()
        .fold(text, |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), value)
        })
    };
    let write = |from: &str, name: &str| -> Result<PathBuf> {
        let from = run::root().join(from);
        let text = fs::read_to_string(&from).with_context(|| format!("reading {}", from.display()));
        let to = directory.join(name);
        fs::write(&to, fill(text?)).with_context(|| format!("writing {}", to.display()))?;
        Ok(to)
    };
    let servers = write("judges/servers/mcp.json", "servers.json")?;
    let script = write("judges/scripts/others.json", "script.json")?;
    client.arg(revision).arg(&script);
    let (mut ended, took) = run_through(client, through, &directory, &servers, &script)?;
    if ended.success {
        let seconds = took.as_secs_f32();
        ended.out = format!("{} in {seconds:.1} s", ended.out.trim());
        super::remove(&directory)?;
    }
    Ok(ended)
}

/// Runs a client against the gateway, which offers the servers of a file alone; and how long the client
/// took. The gateway's home is in the directory of its workspace.
pub(super) fn run_through(
    mut client: Command,
    through: Through,
    directory: &Path,
    servers: &Path,
    script: &Path,
) -> Result<(Ended, Duration)> {
    let program = debug("orchestra")?;
    let arguments = |command: &mut Command| {
        command
            .arg("--workspace")
            .arg(directory)
            .arg("--only-servers");
        command.arg("--mcp-config").arg(servers);
        // Its state is removed with the workspace, which no home may be.
        command.env("HOME", directory.join("home"));
    };
    get_to_know(&program, script, &arguments)?;
    let served = match through {
        Through::Stdio => {
            client.arg(program).arg("stdio");
            arguments(&mut client);
            None
        }
        Through::Up => {
            let mut up = Command::new(program);
            up.args(["up", "--json", "--http", "127.0.0.1:0"]);
            arguments(&mut up);
            let served = Served::start(&mut up, Told::Stdout)?;
            let site = served.url().strip_suffix("/mcp");
            client.arg(site.context("MCP is at another path")?);
            Some(served)
        }
    };
    let started = Instant::now();
    let ended = run::run_within(&mut client, LIMIT)?;
    drop(served);
    Ok((ended, started.elapsed()))
}

/// Runs the gateway until it lists what the script looks for: from then on it knows what the servers
/// offer. Interpreters may take longer for their first start than a list waits.
fn get_to_know(program: &Path, script: &Path, arguments: &dyn Fn(&mut Command)) -> Result<()> {
    let script: Value = serde_json::from_slice(&fs::read(script).context("reading the script")?)?;
    let wanted = script["steps"][0]["has"].as_array();
    let wanted = wanted.context("the script begins with a list")?;
    let mut command = Command::new(program);
    command.arg("stdio");
    arguments(&mut command);
    let quiet = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut process = quiet.spawn().context("starting the gateway")?;
    let mut input = process.stdin.take().context("a pipe to the gateway")?;
    let mut output = BufReader::new(process.stdout.take().context("a pipe from it")?);
    let end = Instant::now() + PATIENCE;
    let mut ask = |method: &str, params: Value| -> Result<Value> {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(input, "{message}").context("asking the gateway")?;
        loop {
            let mut line = String::new();
            let length = output
                .read_line(&mut line)
                .context("reading from the gateway")?;
            ensure!(length > 0, "the gateway ended");
            let answer: Value = serde_json::from_str(&line).context("the gateway's answer")?;
            if answer["id"] == 1 {
                return Ok(answer);
            }
        }
    };
    let client = json!({"name": "judge", "version": "1.0.0"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    ask("initialize", hello)?;
    loop {
        let listed = ask("tools/list", json!({}))?;
        let tools = listed["result"]["tools"].as_array();
        let names: Vec<&Value> = tools
            .into_iter()
            .flatten()
            .map(|tool| &tool["name"])
            .collect();
        let missing: Vec<&Value> = wanted.iter().filter(|name| !names.contains(name)).collect();
        if missing.is_empty() {
            break;
        }
        ensure!(
            Instant::now() < end,
            "the gateway does not offer {missing:?}"
        );
        thread::sleep(Duration::from_millis(50));
    }
    drop(input);
    process.wait().context("waiting for the gateway")?;
    Ok(())
}

impl Installed {
    fn find() -> Result<Self> {
        let home = tools::npm_project("judges/servers")?;
        Ok(Self {
            node: tools::node()?,
            modules: home.join("node_modules/@modelcontextprotocol"),
            python: tools::python_of("judges/servers")?,
            home,
        })
    }

    /// Starts the reference server `everything` over one of its transports.
    fn everything(&self, transport: &str) -> Result<Listening> {
        let address = free_address()?;
        let mut command = Command::new(&self.node);
        command.arg(self.modules.join("server-everything/dist/index.js"));
        command
            .arg(transport)
            .env("PORT", address.port().to_string());
        Listening::start(&mut command, address)
    }
}

/// Returns an address at which nothing listens now. Systems do not assign its port to other programs, and each call
/// returns another one, so it stays free until the caller uses it.
pub(super) fn free_address() -> Result<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    for _ in 0..PORTS {
        let port = FIRST_PORT + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("none of the {PORTS} ports from {FIRST_PORT} on is free")
}

impl Listening {
    /// Starts a server and waits until it listens at the address that its command line names.
    pub(super) fn start(command: &mut Command, address: SocketAddr) -> Result<Self> {
        let quiet = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = quiet.spawn().context("starting a server of others")?;
        let mut server = Self { process, address };
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            let ended = server.process.try_wait().context("looking at the server")?;
            ensure!(ended.is_none(), "the server ended before it listened");
            ensure!(Instant::now() < end, "the server does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // What has ended already cannot be ended again.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
