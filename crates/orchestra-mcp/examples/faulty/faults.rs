//! The faults, one a tool.

use std::{
    fs::File,
    io::Write,
    net::TcpStream,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Signal, getpid, kill_process, setsid};
use serde_json::{Value, json};

use crate::Server;

/// All of them, save those that are offered apart.
pub(crate) const NAMES: [&str; 32] = [
    "echo",
    "ask",
    "delay",
    "silence",
    "crash",
    "crash_at",
    "garbage",
    "logs",
    "partial",
    "huge",
    "duplicate",
    "string_id",
    "wrong_id",
    "unasked",
    "notify",
    "stderr",
    "close_stdout",
    "close_stdin",
    "fork",
    "change_tools",
    "memory",
    "files",
    "forks",
    "cpu",
    "read",
    "connect",
    "both",
    "neither",
    "null",
    "batch",
    "bare",
    "nothing",
];

impl Server {
    /// Runs a call. What is not told by a fault of its own is answered in good order.
    pub(crate) fn call(&self, id: &Value, params: &Value) {
        let name = params["name"].as_str().unwrap_or("");
        let arguments = &params["arguments"];
        self.journal(name, arguments);
        let number = |key: &str| arguments[key].as_u64();
        let word = |key: &str| arguments[key].as_str().unwrap_or("");
        let output = &self.output;
        match name {
            "echo" => return output.text(id, word("text")),
            "ask" => return output.text(id, &self.ask(word("text"))),
            "delay" => thread::sleep(Duration::from_millis(number("ms").unwrap_or(0))),
            "silence" => return,
            "crash" => crash(arguments),
            "crash_at" => {
                let reply = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
                let text = format!("{reply}\n");
                let end = usize::try_from(number("byte").unwrap_or(0)).unwrap_or(0);
                output.bytes(&text.as_bytes()[..end.min(text.len())]);
                std::process::exit(70);
            }
            "stderr" => flood_stderr(number("bytes").unwrap_or(0)),
            "close_stdout" | "close_stdin" => close(name),
            "fork" => return output.text(id, &fork(arguments["alone"] == true)),
            "change_tools" => self.change_tools(),
            "lie" => {
                let lie = json!({"content": [], "structuredContent": {"n": "not a number"}});
                return output.result(id, &lie);
            }
            lie if lie.starts_with("lie_") => {
                let structured = json!({"content": [], "structuredContent": {"n": {}}});
                return output.result(id, &structured);
            }
            "memory" | "files" | "forks" | "cpu" => take_all(name),
            "read" => match std::fs::read_to_string(word("path")) {
                Ok(text) => return output.text(id, &text),
                Err(error) => return output.failed(id, &error.to_string()),
            },
            "connect" => match TcpStream::connect(word("address")) {
                Ok(_) => return output.text(id, "connected"),
                Err(error) => return output.failed(id, &error.to_string()),
            },
            _ => return self.answer_badly(name, id, arguments),
        }
        output.text(id, name);
    }

    /// Faults in what is printed.
    fn answer_badly(&self, name: &str, id: &Value, arguments: &Value) {
        let output = &self.output;
        let count = arguments["count"].as_u64().unwrap_or(1);
        let reply = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
        let with = |members: Value| {
            let mut message = json!({"jsonrpc": "2.0", "id": id});
            if let (Some(message), Some(members)) = (message.as_object_mut(), members.as_object()) {
                message.extend(members.clone());
            }
            output.message(&message);
        };
        match name {
            "garbage" => (0..count).for_each(|_| output.bytes(b"\xff\xfe{\"id\": nonsense\x07\n")),
            "logs" => (0..count).for_each(|_| output.bytes(b"[info] listening\n")),
            "partial" => {
                let text = format!("{reply}\n");
                let (head, tail) = text.as_bytes().split_at(text.len() / 2);
                output.bytes(head);
                thread::sleep(Duration::from_millis(
                    arguments["ms"].as_u64().unwrap_or(50),
                ));
                return output.bytes(tail);
            }
            "huge" => return self.answer_at_length(id, arguments),
            "duplicate" => output.message(&reply),
            "string_id" => {
                return output.result(&json!(id.to_string()), &json!({"content": []}));
            }
            "wrong_id" => {
                output.result(&json!(9_999_999), &json!({"content": []}));
                return output.result(&Value::Null, &json!({"content": []}));
            }
            "unasked" => (0..count).for_each(|n| output.result(&json!(1_000_000 + n), &json!({}))),
            "notify" => (0..count).for_each(|n| {
                let params = json!({"level": "info", "data": n});
                output.notify("notifications/message", &params);
            }),
            "both" => {
                return with(
                    json!({"result": {"content": []}, "error": {"code": 1, "message": "x"}}),
                );
            }
            "neither" => return with(json!({})),
            "null" => return with(json!({"result": null})),
            "bare" => return output.message(&json!({"id": id, "result": {}})),
            "batch" => return output.message(&json!([reply])),
            "nothing" => return output.bytes(b"\n\r\n  \n"),
            _ => return output.error(id, -32602, "unknown tool"),
        }
        output.message(&reply);
    }

    /// An answer of so many bytes, its id at one of its ends or nowhere near them.
    fn answer_at_length(&self, id: &Value, arguments: &Value) {
        let bytes = arguments["bytes"].as_u64().unwrap_or(0);
        let (head, tail) = match arguments["id"].as_str() {
            Some("tail") => (
                "{\"result\":{\"text\":\"".to_owned(),
                format!("\"}},\"id\":{id},\"jsonrpc\":\"2.0\"}}\n"),
            ),
            Some("middle") => {
                let far = "y".repeat(2_000);
                (
                    format!("{{\"far\":\"{far}\",\"id\":{id},\"result\":{{\"text\":\""),
                    format!("{far}\"}},\"jsonrpc\":\"2.0\"}}\n"),
                )
            }
            _ => (
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"text\":\""),
                "\"}}\n".to_owned(),
            ),
        };
        let piece = vec![b'x'; 1 << 20];
        self.output.bytes(head.as_bytes());
        let mut left = bytes;
        while left > 0 {
            let now = left.min(1 << 20);
            self.output
                .bytes(&piece[..usize::try_from(now).unwrap_or(0)]);
            left -= now;
        }
        self.output.bytes(tail.as_bytes());
    }
}

/// Definitions of tools that are wrong, each in its own way.
pub(crate) fn lies() -> Vec<Value> {
    let of = |name: &str, schema: Value| json!({"name": name, "inputSchema": schema});
    let nonsense = json!({"type": "object", "properties": {"a": {"type": "nonsense"}}});
    let pattern = json!({"type": "object", "properties": {"b": {"pattern": "("}}});
    let around = json!({"type": "object", "$ref": "#"});
    let mutual = json!({
        "type": "object", "$ref": "#/$defs/x",
        "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}},
    });
    let branches = json!({"type": "object", "anyOf": [{"$ref": "#"}, {"$ref": "#"}]});
    vec![
        of("lie_type", nonsense),
        of("lie_pattern", pattern),
        of(
            "lie_nowhere",
            json!({"type": "object", "$ref": "#/nowhere"}),
        ),
        of(
            "lie_elsewhere",
            json!({"type": "object", "$ref": "http://127.0.0.1:1/x.json"}),
        ),
        of("lie_around", around.clone()),
        of("lie_mutual", mutual),
        of("lie_branches", branches),
        of("lie_array", json!({"type": "array"})),
        of("lie_text", json!("object")),
        json!({"name": "lie_none"}),
        json!({"name": "lie_output", "inputSchema": {"type": "object"}, "outputSchema": around}),
        of("echo", json!({"type": "object"})),
        of("", json!({"type": "object"})),
        json!({"name": 7, "inputSchema": {"type": "object"}}),
        json!({"inputSchema": {"type": "object"}}),
        json!("lie"),
        json!({
            "name": "long", "inputSchema": {"type": "object"}, "description": "x".repeat(300 << 10),
        }),
    ]
}

pub(crate) fn complain(error: &dyn std::fmt::Display) {
    // There is nobody else to tell.
    let _ = std::io::stderr().write_all(format!("{error}\n").as_bytes());
}

/// A process that has left its session.
pub(crate) fn live_alone() -> ! {
    if let Err(error) = setsid() {
        complain(&error);
    }
    loop {
        thread::park();
    }
}

/// Does not mind SIGTERM.
pub(crate) fn ignore_term() {
    let (ready, wait) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let kind = tokio::signal::unix::SignalKind::terminate();
            let Ok(mut signal) = tokio::signal::unix::signal(kind) else {
                return;
            };
            // The other end waits for it.
            let _ = ready.send(());
            while signal.recv().await.is_some() {}
        });
    });
    // At worst it is not ready.
    let _ = wait.recv();
}

fn crash(arguments: &Value) {
    if let Some(words) = arguments["words"].as_str() {
        complain(&words);
    }
    if let Some(signal) = arguments["signal"].as_i64() {
        let signal = i32::try_from(signal).ok().and_then(Signal::from_named_raw);
        if let Some(Err(error)) = signal.map(|signal| kill_process(getpid(), signal)) {
            complain(&error);
        }
        thread::sleep(Duration::from_secs(60));
    }
    let code = arguments["code"].as_i64().unwrap_or(1);
    std::process::exit(i32::try_from(code).unwrap_or(1));
}

fn flood_stderr(bytes: u64) {
    let line = format!("{}\n", "e".repeat(1_023));
    let mut error = std::io::stderr().lock();
    for _ in 0..bytes / 1_024 {
        if error.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}

fn close(name: &str) {
    let null = File::options().read(true).write(true).open("/dev/null");
    let closed = null.and_then(|null| {
        match name {
            "close_stdout" => rustix::stdio::dup2_stdout(null)?,
            _ => rustix::stdio::dup2_stdin(null)?,
        }
        Ok(())
    });
    if let Err(error) = closed {
        complain(&error);
    }
}

/// A process of its own; answers its id.
fn fork(alone: bool) -> String {
    let this = std::env::current_exe();
    let child = this.and_then(|this| {
        let mut command = match alone {
            true => Command::new(this),
            false => Command::new("sleep"),
        };
        command
            .arg(if alone { "alone" } else { "3600" })
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    });
    match child {
        Ok(child) => child.id().to_string(),
        Err(error) => error.to_string(),
    }
}

/// Takes of something until there is no more.
fn take_all(what: &str) {
    let mut memory = Vec::new();
    let mut files = Vec::new();
    loop {
        match what {
            "memory" => memory.push(vec![1_u8; 1 << 20]),
            "files" => match File::open("/dev/null") {
                Ok(file) => files.push(file),
                Err(error) => {
                    complain(&error);
                    std::process::exit(1);
                }
            },
            "forks" => drop(fork(true)),
            _ => {
                std::hint::black_box(0);
            }
        }
    }
}
