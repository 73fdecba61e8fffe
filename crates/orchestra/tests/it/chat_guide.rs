//! Runs every command of the documentation of `orchestra chat`: `docs/how-to/chat.md`, `docs/chat.md`, and the READMEs
//! of the chat crate and of the weather server. Every flag, command and key has its place there.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    chat::{SCRIPT, SERVER, runtimes, service, weather},
    models::{Fake, Ollama, OpenAi, Say},
    support::{Workspace, program, said},
};

const SHAPES: Ollama = Ollama("0.12.6");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The lines of the blocks of a document that are typed into a shell.
fn commands(text: &str) -> Vec<String> {
    let fenced = text.split("```").skip(1).step_by(2);
    let typed = fenced.filter_map(|block| block.strip_prefix("sh\n"));
    typed
        .flat_map(str::lines)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A place in which everything is there that the documents speak of.
struct Place {
    workspace: Workspace,
    bin: PathBuf,
    _service: Fake,
    ollama: Fake,
    openai: Fake,
}

impl Place {
    fn new() -> Option<Self> {
        let workspace = Workspace::board();
        let bin = runtimes(&workspace)?;
        let service = service();
        let script = format!(
            "#!/bin/sh\nWEATHER_API_BASE='{}' exec '{}' \"$@\"\n",
            service.address,
            weather().display()
        );
        let path = bin.join("weather");
        fs::write(&path, script).unwrap();
        crate::chat::make_executable(&path);
        let built = workspace.path().join("target/release");
        fs::create_dir_all(&built).unwrap();
        std::os::unix::fs::symlink(&path, built.join("weather")).unwrap();
        std::os::unix::fs::symlink(program(), bin.join("orchestra")).unwrap();
        workspace.write("server.js", SCRIPT);
        workspace.write("server.py", SERVER);
        workspace.write("config.json", "{}");
        workspace.write(
            "test_queries.json",
            "[{\"query\": \"one\"}, {\"query\": \"two\"}]",
        );
        workspace.write(
            "script.json",
            "[{\"text\": \"I can talk.\", \"always\": true}]",
        );
        workspace.write(
            "examples/chat/weather.json",
            &read("examples/chat/weather.json"),
        );
        let answers =
            |asked: &crate::models::Asked, shapes: Say| match asked.what.ends_with("/chat") {
                true => shapes,
                false => SHAPES.about(&asked.what, &asked.body),
            };
        let ollama =
            Fake::start(move |asked, _| answers(asked, Say::Stream(SHAPES.words(&["Well."]))));
        let openai = Fake::openai(
            (0..20)
                .map(|_| Say::Stream(OpenAi.words(&["Well."])))
                .collect(),
        );
        Some(Self {
            workspace,
            bin,
            _service: service,
            ollama,
            openai,
        })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = self.workspace.command_as(Path::new("sh"), ["-c", line]);
        let path = std::env::var_os("PATH").unwrap();
        let all = std::iter::once(self.bin.clone()).chain(std::env::split_paths(&path));
        command
            .env("PATH", std::env::join_paths(all).unwrap())
            .env("OLLAMA_HOST", &self.ollama.address)
            .env("OPENAI_BASE_URL", format!("{}/v1", self.openai.address));
        command
    }

    /// Runs a line to its end.
    fn run(&self, line: &str) {
        if let Some(package) = line.strip_prefix("cargo build --release -p ") {
            // Built it is by whoever runs the tests.
            let told = Command::new(env!("CARGO"))
                .args(["pkgid", "--offline", "-p", package])
                .current_dir(root())
                .output()
                .unwrap();
            assert!(told.status.success(), "{line}");
            return;
        }
        if line.starts_with("ollama pull ") {
            // The fake one has every model.
            return;
        }
        if line.contains("--http ") {
            return self.served(line);
        }
        let said = said(self.command(line), "");
        assert_eq!(said.code, Some(0), "{line}: {said:?}");
    }

    /// A line that serves until it is stopped.
    fn served(&self, line: &str) {
        // Another may have the port.
        let line = line.replace("127.0.0.1:8080", "127.0.0.1:0");
        let mut child = self
            .command(&format!("exec {line}"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut told = String::new();
        BufReader::new(child.stderr.take().unwrap())
            .read_line(&mut told)
            .unwrap();
        assert!(told.starts_with("http://127.0.0.1:"), "{told}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn every_command_of_the_readmes_works_as_it_is_written() {
    let Some(place) = Place::new() else { return };
    let mut count = 0;
    for document in [
        read("docs/how-to/chat.md"),
        read("crates/orchestra-chat/README.md"),
        read("examples/weather/README.md"),
        read("docs/chat.md"),
    ] {
        let lines = commands(&document);
        assert!(lines.len() >= 4, "{document}");
        for line in lines {
            place.run(&line);
            count += 1;
        }
    }
    assert!(count >= 20, "{count}");
    let results = place.workspace.read("results.json");
    assert_eq!(results.lines().count(), 2, "{results}");
    // The one that has neither a model nor a network tells of the alerts that the service has.
    let line = commands(&read("examples/weather/README.md"));
    let line = line.iter().find(|line| line.contains("scripted")).unwrap();
    let said = said(place.command(line), "");
    assert!(
        said.out
            .contains("There are **active alerts** in California."),
        "{said:?}"
    );
}

#[test]
fn every_flag_command_and_key_is_told() {
    let workspace = Workspace::new();
    let guide = read("docs/chat.md");
    let help = workspace.run(["chat", "--help"]).out;
    let flags = help.lines().filter_map(|line| {
        let flag = line
            .trim_start()
            .trim_start_matches("-y, ")
            .trim_start_matches("-q, ");
        let flag = flag.strip_prefix("--")?;
        Some(format!("--{}", flag.split([' ', '[', '=', '<']).next()?))
    });
    // Those that every command has, or that are told where servers are.
    let elsewhere = [
        "--help",
        "--workspace",
        "--log",
        "--mcp-config",
        "--plugins",
        "--mask",
        "--ask",
    ];
    for flag in flags.filter(|flag| !elsewhere.contains(&flag.as_str())) {
        assert!(guide.contains(&flag), "{flag}");
    }
    let shown = workspace.run(["config", "show", "--json"]).out;
    let entries: Vec<Value> = serde_json::from_str(&shown).unwrap();
    let keys = entries.iter().filter_map(|entry| entry["key"].as_str());
    let mut keys: BTreeSet<&str> = keys.filter(|key| key.starts_with("chat.")).collect();
    // Nobody has set these, and nothing stands for that.
    keys.extend(["chat.temperature", "chat.seed"]);
    let rows = guide
        .lines()
        .filter_map(|line| line.strip_prefix("| `chat."));
    let rows: Vec<String> = rows
        .map(|row| format!("chat.{}", row.split('`').next().unwrap()))
        .collect();
    let rows: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
    assert_eq!(rows, keys);
}

#[test]
fn the_settings_of_a_file_are_used() {
    let workspace = Workspace::board();
    let model = Fake::ollama("0.12.6", vec![Say::Stream(SHAPES.words(&["Well."]))]);
    let text = format!(
        "[chat]\nbackend = \"ollama\"\nmodel = \"mine\"\nhost = \"{}\"\nsystem = \"Be brief.\"\nmax_turns = 3\n\
         context = 4096\ntemperature = 0.5\nseed = 7\n",
        model.address
    );
    workspace.write("orchestra.toml", &text);
    let said = workspace.run(["chat", "--query", "Hello?"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let body = model.chats()[0].body.clone();
    assert_eq!(body["model"], "mine");
    assert!(
        body["messages"][0]["content"]
            .as_str()
            .unwrap()
            .starts_with("Be brief.")
    );
    let options = &body["options"];
    assert_eq!(
        (&options["temperature"], &options["seed"]),
        (&json!(0.5), &json!(7))
    );
    assert!(options["num_ctx"].as_u64().unwrap() <= 4_096);
    // A setting of the workspace's file is ignored, and that is reported.
    workspace.write(
        "orchestra.toml",
        "[chat]\nhost = \"https://far.example\"\nmodel = \"m\"\n",
    );
    let words = ["chat", "--host", &model.address, "--query", "Hello?"];
    let said = workspace.run(words);
    assert!(
        said.err.contains("is ignored, because other people"),
        "{said:?}"
    );
    assert!(said.err.contains(": host, which"), "{said:?}");
    // The backend is ignored together with the host.
    workspace.write(
        "orchestra.toml",
        "[chat]\nbackend = \"ollama\"\nhost = \"https://far.example\"\nmodel = \"m\"\n",
    );
    let said = workspace.run(words);
    assert!(said.err.contains(": backend with its host,"), "{said:?}");
}

/// The value and the origin of a setting.
fn setting(workspace: &Workspace, key: &str) -> (String, String) {
    let said = workspace.run(["config", "show", "--json"]);
    let entries: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    let entry = entries.iter().find(|entry| entry["key"] == key).unwrap();
    let text = |value: &Value| value.to_string().replace(['"', '\\'], "");
    (text(&entry["value"]), text(&entry["origin"]))
}

/// Writes the user's own configuration.
fn of_user(workspace: &Workspace, text: &str) {
    let directory = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("orchestra.toml"), text).unwrap();
}

#[test]
fn limits_of_the_user_are_lowered_and_not_raised_by_a_workspace() {
    let workspace = Workspace::board();
    let limits = || ["chat.max_turns", "chat.context"].map(|key| setting(&workspace, key).0);
    of_user(&workspace, "[chat]\nmax_turns = 3\ncontext = 4096\n");
    for text in [
        "max_turns = 10\ncontext = 0\n",
        "max_turns = 4\ncontext = 5000\n",
    ] {
        workspace.write("orchestra.toml", &format!("[chat]\n{text}"));
        assert_eq!(limits(), ["3", "4096"], "{text}");
        let shown = workspace.run(["config", "show"]);
        for key in ["chat.max_turns", "chat.context"] {
            let expected = format!("higher {key} is not used");
            assert!(shown.err.contains(&expected), "{shown:?}");
        }
    }
    workspace.write("orchestra.toml", "[chat]\nmax_turns = 2\ncontext = 2048\n");
    assert_eq!(limits(), ["2", "2048"]);
    of_user(&workspace, "[chat]\n");
    workspace.write(
        "orchestra.toml",
        "[chat]\nmax_turns = 11\ncontext = 32769\n",
    );
    assert_eq!(limits(), ["10", "0"]);
}

#[test]
fn empty_values_of_a_workspace_replace_no_settings_of_the_user() {
    let workspace = Workspace::board();
    of_user(
        &workspace,
        "[chat]\nbackend = \"openai\"\nhost = \"https://own.example/v1\"\nmodel = \"own\"\nkey_env = \"OWN_KEY\"\n\
         system = \"Own.\"\n[memory]\nmodel = \"openai:own\"\nmodel_url = \"https://own.example/v1\"\n\
         [plans]\nagent = \"own\"\nhealer = \"own\"\n[sync]\nremote = \"own\"\n",
    );
    let keys = [
        "chat.backend",
        "chat.host",
        "chat.model",
        "chat.key_env",
        "chat.system",
        "memory.model",
        "memory.model_url",
        "plans.agent",
        "plans.healer",
        "sync.remote",
    ];
    let before = keys.map(|key| setting(&workspace, key));
    assert_eq!(before[1].0, "https://own.example/v1");
    workspace.write(
        "orchestra.toml",
        "[chat]\nbackend = \"\"\nhost = \"\"\nmodel = \"\"\nkey_env = \"\"\nsystem = \"\"\n\
         [memory]\nmodel = \"\"\nmodel_url = \"\"\n[plans]\nagent = \"\"\nhealer = \"\"\n[sync]\nremote = \"\"\n",
    );
    assert_eq!(keys.map(|key| setting(&workspace, key)), before);
}

#[test]
fn workspace_does_not_choose_the_server_of_a_variable() {
    let workspace = Workspace::board();
    workspace.write(
        "orchestra.toml",
        "[chat]\nbackend = \"openai\"\nhost = \"http://127.0.0.1:9/v1\"\n",
    );
    let shown = || {
        let mut command = workspace.command(["config", "show"]);
        command.env("OPENAI_BASE_URL", "https://far.example/v1");
        said(command, "").out
    };
    let out = shown();
    assert!(out.contains("host = \"http://127.0.0.1:9/v1\""), "{out}");
    of_user(&workspace, "[chat]\nbackend = \"openai\"\n");
    let out = shown();
    assert!(out.contains("host = \"https://far.example/v1\""), "{out}");
}
