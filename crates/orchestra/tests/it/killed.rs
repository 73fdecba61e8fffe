//! The program is killed under load, again and again, with servers of others behind it: no process
//! of theirs is left, no call runs twice, and the next start works.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::Command,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, sleep},
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    runtimes::{Program, faulty, node, python},
    support::{PATIENCE, Running, Session, Workspace},
};

/// Calls at once.
const CALLERS: usize = 50;

/// Rounds, each with a kill.
const ROUNDS: usize = 8;

/// One of so many rounds does not wait for the servers before it kills.
const AT_ONCE_ONE_OF: usize = 4;

/// How long it goes on: a few rounds, or with `ORCHESTRA_SOAK` for ten minutes.
fn goes_on(round: usize, since: Instant) -> bool {
    match std::env::var_os("ORCHESTRA_SOAK").is_some() {
        true => since.elapsed() < Duration::from_secs(600),
        false => round < ROUNDS,
    }
}

/// A workspace with a file of servers, and what has become of all calls so far.
struct World {
    workspace: Workspace,
    servers: Vec<&'static str>,
    number: AtomicU64,
    answered: BTreeSet<u64>,
    /// How long it took until all servers answered after a start.
    starts: Vec<Duration>,
    kills: usize,
}

impl World {
    fn new() -> Self {
        let workspace = Workspace::git();
        let rust = Program {
            path: faulty(),
            // It would go on without its guard.
            arguments: vec!["--ignore-end".to_owned(), "--journal".to_owned()],
        };
        let home = workspace.home();
        let all = [
            ("rust", Some(rust)),
            ("node", node(&home)),
            ("python", python(&home)),
        ];
        let mut servers = serde_json::Map::new();
        let mut names = Vec::new();
        for (name, program) in all {
            let Some(Program {
                path,
                mut arguments,
            }) = program
            else {
                continue;
            };
            let journal = home.join(format!("{name}.journal"));
            arguments.push(journal.to_str().unwrap().to_owned());
            if name == "python" {
                arguments.push("--family".to_owned());
            }
            servers.insert(name.to_owned(), json!({"command": path, "args": arguments}));
            names.push(name);
        }
        let file = json!({ "mcpServers": servers }).to_string();
        workspace.write("servers.json", &file);
        Self {
            workspace,
            servers: names,
            number: AtomicU64::new(0),
            answered: BTreeSet::new(),
            starts: Vec::new(),
            kills: 0,
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let file = self.workspace.join("servers.json");
        let flags = ["--mcp-config", file.to_str().unwrap()];
        self.workspace.command([words, &flags[..]].concat())
    }

    /// A call that no other is like: its number, and its parameters.
    fn next_call(&self) -> (u64, Value) {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let server = self.servers[number as usize % self.servers.len()];
        let arguments = json!({ "text": format!("n{number}.") });
        let name = format!("{server}__echo");
        (number, json!({ "name": name, "arguments": arguments }))
    }

    /// Processes that work in the workspace: whoever was started by whoever was started there.
    fn processes(&self) -> Vec<String> {
        let place = self.workspace.path();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let processes = entries.filter_map(|entry| {
            let works_in = fs::read_link(entry.path().join("cwd")).ok()?;
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            works_in.starts_with(&place).then(|| {
                let id = PathBuf::from(entry.file_name());
                format!("{} {words}", id.display())
            })
        });
        processes.collect()
    }

    /// All servers have answered: they are there, each with its guard, and what they have started.
    fn has_begun(&mut self, began: Instant) {
        self.starts.push(began.elapsed());
        let family = usize::from(self.servers.contains(&"python"));
        let expected = 1 + 2 * self.servers.len() + family;
        let processes = self.processes();
        assert_eq!(processes.len(), expected, "{processes:#?}");
    }

    /// Waits until nothing is left of the program that has ended.
    fn nothing_is_left(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "left: {left:#?}");
            sleep(Duration::from_millis(2));
        }
    }

    /// No call has run twice, and all that were answered have run.
    fn told(mut self, what: &str) -> String {
        let mut runs: HashMap<u64, u32> = HashMap::new();
        for server in &self.servers {
            let journal = self.workspace.home().join(format!("{server}.journal"));
            for line in fs::read_to_string(journal).unwrap().lines() {
                let number = line.split_once("\"n").unwrap().1.split_once('.').unwrap().0;
                *runs.entry(number.parse().unwrap()).or_default() += 1;
            }
        }
        let twice: Vec<_> = runs.iter().filter(|(_, runs)| **runs > 1).collect();
        assert!(twice.is_empty(), "ran more than once: {twice:?}");
        for number in &self.answered {
            assert!(runs.contains_key(number), "call {number} never ran");
        }
        self.starts.sort_unstable();
        let starts = &self.starts;
        format!(
            "{what}: {} kills, {} calls, {} of them answered, {} ran, 0 twice; 0 processes left; \
             all servers answered {:.1?} after a start, at most {:.1?}",
            self.kills,
            self.number.into_inner(),
            self.answered.len(),
            runs.len(),
            starts[starts.len() / 2],
            starts[starts.len() - 1],
        )
    }
}

/// How many answers are waited for before the kill: now some, now many.
const fn patience(round: usize) -> usize {
    round * 37 % 200
}

/// Holds the answer to a call against it.
fn look_at(result: &Value, number: u64) {
    let text = format!("n{number}.");
    assert_eq!(result["content"][0]["text"], text, "{result}");
}

/// Takes a line of the program, if it is the answer to one of our calls.
fn take(world: &mut World, line: &str) -> bool {
    // The last one may be cut.
    let Ok(message) = serde_json::from_str::<Value>(line) else {
        return false;
    };
    let Some(number) = message["id"].as_str().and_then(|id| id.parse().ok()) else {
        return false;
    };
    look_at(&message["result"], number);
    assert!(world.answered.insert(number), "answered twice: {line}");
    true
}

#[test]
fn stdio_that_is_killed_under_load_leaves_nothing_and_starts_again() {
    let mut world = World::new();
    let since = Instant::now();
    let send = |world: &World, session: &mut Session| {
        let (number, params) = world.next_call();
        let id = number.to_string();
        session
            .send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    };
    for round in 0.. {
        if !goes_on(round, since) {
            break;
        }
        let began = Instant::now();
        let mut session = Session::start(world.command(&["stdio"]));
        let waits = round % AT_ONCE_ONE_OF != AT_ONCE_ONE_OF - 1;
        for _ in world.servers.iter().filter(|_| waits) {
            let (number, params) = world.next_call();
            look_at(&session.request("tools/call", &params)["result"], number);
            world.answered.insert(number);
        }
        if waits {
            world.has_begun(began);
        }
        for _ in 0..CALLERS {
            send(&world, &mut session);
        }
        let mut left = if waits { patience(round) } else { 0 };
        while left > 0 {
            let line = session.process.line().expect("it runs");
            if take(&mut world, &line) {
                left -= 1;
                send(&world, &mut session);
            }
        }
        session.process.signal(Signal::KILL);
        while let Some(line) = session.process.line() {
            take(&mut world, &line);
        }
        session.process.end();
        world.kills += 1;
        world.nothing_is_left();
    }
    let mut last = Session::start(world.command(&["stdio"]));
    let (number, params) = world.next_call();
    look_at(&last.request("tools/call", &params)["result"], number);
    assert!(last.process.end().success());
    world.nothing_is_left();
    println!("{}", world.told("stdio"));
}

/// Calls a tool by REST; nothing when the program is not there to the end.
fn try_call(address: &str, params: &Value) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = params.to_string();
    let length = body.len();
    let request = format!(
        "POST /api/mcp/tools/call HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    // What was cut is no JSON.
    let result = serde_json::from_str(body).ok()?;
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    Some(result)
}

/// Starts `up`; where it listens.
fn up(world: &World) -> (Running, String) {
    let command = world.command(&["up", "--http", "127.0.0.1:0", "--json"]);
    let process = Running::start(command);
    let ready = process.json();
    let address = ready["http"].as_str().unwrap().strip_prefix("http://");
    (process, address.unwrap().to_owned())
}

/// Calls until nobody is there any more; tells of each answer.
fn call_on(world: &World, address: &str, answers: &mpsc::Sender<u64>) {
    loop {
        let (number, params) = world.next_call();
        let Some(result) = try_call(address, &params) else {
            return;
        };
        look_at(&result, number);
        answers.send(number).unwrap();
    }
}

#[test]
fn up_that_is_killed_under_load_leaves_nothing_and_starts_again() {
    let mut world = World::new();
    let since = Instant::now();
    for round in 0.. {
        if !goes_on(round, since) {
            break;
        }
        let began = Instant::now();
        let (process, address) = up(&world);
        let waits = round % AT_ONCE_ONE_OF != AT_ONCE_ONE_OF - 1;
        for _ in world.servers.clone().iter().filter(|_| waits) {
            let (number, params) = world.next_call();
            look_at(&try_call(&address, &params).expect("it answers"), number);
            world.answered.insert(number);
        }
        if waits {
            world.has_begun(began);
        }
        let (sender, answers) = mpsc::channel();
        let first = if waits { patience(round) } else { 0 };
        let mut seen: Vec<u64> = thread::scope(|scope| {
            for _ in 0..CALLERS {
                let sender = sender.clone();
                let (world, address) = (&world, &address);
                scope.spawn(move || call_on(world, address, &sender));
            }
            let seen = (0..first).map(|_| answers.recv_timeout(PATIENCE).unwrap());
            let seen = seen.collect();
            process.signal(Signal::KILL);
            seen
        });
        drop(sender);
        seen.extend(answers);
        world.answered.extend(seen);
        process.end();
        world.kills += 1;
        world.nothing_is_left();
    }
    let (process, address) = up(&world);
    let (number, params) = world.next_call();
    look_at(&try_call(&address, &params).expect("it answers"), number);
    process.signal(Signal::TERM);
    assert!(process.end().success());
    world.nothing_is_left();
    println!("{}", world.told("up"));
}
