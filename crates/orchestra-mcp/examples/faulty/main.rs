//! A server with every fault that its client must survive, for tests: which, is chosen by
//! arguments and by the tools that are called. It speaks the session era over stdio, keeps a
//! journal of the calls that it ran, and guards children of its own as any program does.

#[path = "faults.rs"]
mod faults;
#[path = "output.rs"]
mod output;

use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::{BufRead, Write},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use orchestra_process::{CHILD_COMMAND, child_main};
use serde_json::{Value, json};

use output::Output;

/// What the arguments say.
#[derive(Debug, Default)]
struct Options {
    /// Calls that ran, one a line.
    journal: Option<PathBuf>,
    /// SIGTERM is not minded.
    ignores_term: bool,
    /// The input's end is not minded.
    ignores_end: bool,
    /// A log line on standard output before each message.
    logs: bool,
    /// Nothing is ever answered but the greeting.
    silent: bool,
    /// It ends after so many bytes of output, wherever that is.
    crash_at: Option<u64>,
    /// Its tools change this often.
    change_every: Option<Duration>,
    /// It sends so many notifications each second.
    notifications: u32,
    /// It has tools whose definitions are wrong.
    lies: bool,
    /// What it wants to start.
    start_delay: Duration,
}

struct Server {
    options: Options,
    output: Output,
    /// Generation of the list of tools.
    generation: AtomicU64,
    /// Who waits for an answer of the client, by the ids of questions.
    asking: Mutex<HashMap<u64, mpsc::Sender<Value>>>,
    questions: AtomicU64,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    if first.as_deref().is_some_and(|word| word == CHILD_COMMAND) {
        return child_main(words);
    }
    let words: Option<Vec<String>> = first
        .into_iter()
        .chain(words)
        .map(|word| word.into_string().ok())
        .collect();
    let Some(options) = words.and_then(|words| Options::parse(&words)) else {
        let usage = b"see the source for what can be chosen\n";
        // There is nobody else to tell.
        let _ = std::io::stderr().write_all(usage);
        return ExitCode::from(2);
    };
    serve(options);
    ExitCode::SUCCESS
}

impl Options {
    fn parse(words: &[String]) -> Option<Self> {
        let mut options = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "alone" => faults::live_alone(),
                "--journal" => options.journal = Some(words.next()?.into()),
                "--ignore-term" => options.ignores_term = true,
                "--ignore-end" => options.ignores_end = true,
                "--logs" => options.logs = true,
                "--silent" => options.silent = true,
                "--lies" => options.lies = true,
                "--crash-at" => options.crash_at = Some(words.next()?.parse().ok()?),
                "--change-every" => options.change_every = Some(millis(words.next()?)?),
                "--notifications" => options.notifications = words.next()?.parse().ok()?,
                "--start-delay" => options.start_delay = millis(words.next()?)?,
                _ => return None,
            }
        }
        Some(options)
    }
}

fn millis(word: &str) -> Option<Duration> {
    word.parse().ok().map(Duration::from_millis)
}

fn serve(options: Options) {
    thread::sleep(options.start_delay);
    if options.ignores_term {
        faults::ignore_term();
    }
    let server = Arc::new(Server {
        output: Output::new(options.crash_at, options.logs),
        generation: AtomicU64::new(0),
        asking: Mutex::default(),
        questions: AtomicU64::new(1),
        options,
    });
    server.begin_habits();
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    loop {
        line.clear();
        match input.read_line(&mut line) {
            Ok(length) if length > 0 => {}
            _ if server.options.ignores_end => loop {
                thread::park();
            },
            _ => return,
        }
        if let Ok(message) = serde_json::from_str::<Value>(&line) {
            server.take(&message);
        }
    }
}

impl Server {
    /// What it does without being asked.
    fn begin_habits(self: &Arc<Self>) {
        if let Some(every) = self.options.change_every {
            let server = Arc::clone(self);
            thread::spawn(move || {
                loop {
                    thread::sleep(every);
                    server.change_tools();
                }
            });
        }
        if self.options.notifications > 0 {
            let server = Arc::clone(self);
            let pause = Duration::from_secs(1) / self.options.notifications;
            thread::spawn(move || {
                for number in 0_u64.. {
                    thread::sleep(pause);
                    let params = json!({"level": "info", "data": number});
                    server.output.notify("notifications/message", &params);
                }
            });
        }
    }

    fn change_tools(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        let changed = "notifications/tools/list_changed";
        self.output.notify(changed, &json!({}));
    }

    fn take(self: &Arc<Self>, message: &Value) {
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else {
            let question = message["id"].as_u64().unwrap_or(0);
            if let Some(asker) = self.asking().remove(&question) {
                // It may not wait any more.
                let _ = asker.send(message.clone());
            }
            return;
        };
        if self.options.silent && method != "initialize" {
            return;
        }
        let params = &message["params"];
        match method {
            "initialize" => self.output.result(
                id,
                &json!({
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": true}, "logging": {}},
                    "serverInfo": {"name": "faulty", "version": "1"},
                }),
            ),
            "ping" | "logging/setLevel" => self.output.result(id, &json!({})),
            "tools/list" => self.output.result(id, &self.tools()),
            "tools/call" => {
                let server = Arc::clone(self);
                let (id, params) = (id.clone(), params.clone());
                // Calls that take their time hold nobody else up.
                thread::spawn(move || server.call(&id, &params));
            }
            _ => self.output.error(id, -32601, "method not found"),
        }
    }

    fn tools(&self) -> Value {
        let generation = self.generation.load(Ordering::Relaxed);
        let mut tools: Vec<Value> = faults::NAMES
            .iter()
            .map(|name| {
                json!({
                    "name": name,
                    "description": format!("The fault {name}."),
                    "inputSchema": {"type": "object"},
                    "annotations": {"readOnlyHint": *name == "echo" || *name == "delay"},
                })
            })
            .collect();
        tools.push(
            json!({"name": format!("generation_{generation}"), "inputSchema": {"type": "object"}}),
        );
        tools.push(json!({
            "name": "lie",
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        }));
        if self.options.lies {
            tools.extend(faults::lies());
        }
        json!({"tools": tools})
    }

    /// Asks the client's user without saying for which call; what comes back.
    fn ask(&self, text: &str) -> String {
        let id = self.questions.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = mpsc::channel();
        self.asking().insert(id, sender);
        let schema = json!({"type": "object", "properties": {}});
        let params = json!({"message": text, "requestedSchema": schema});
        self.output.message(&json!({
            "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params,
        }));
        answer.recv().unwrap_or_default().to_string()
    }

    fn asking(&self) -> MutexGuard<'_, HashMap<u64, mpsc::Sender<Value>>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down that a call has run, before anything else of it.
    fn journal(&self, name: &str, arguments: &Value) {
        let Some(path) = &self.options.journal else {
            return;
        };
        let line = format!("{} {name} {arguments}\n", std::process::id());
        let file = OpenOptions::new().append(true).create(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            faults::complain(&error);
        }
    }
}
