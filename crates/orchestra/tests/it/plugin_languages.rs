//! Plugins that were written in other languages than Rust, from the schema and the guide alone, as the
//! program runs them: for a client that comes over a bridge, and beside a plugin in Rust.

use std::{fmt::Write as _, path::PathBuf};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::{
    language_rig::{self, Language, languages},
    support::{Running, Session, Workspace, until},
};

/// The plugin in Rust, which hears of `sample.news` and publishes what it is told to.
fn sample() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/sample");
    assert!(
        program.is_file(),
        "{} is built by `cargo build -p orchestra-plugin --examples`",
        program.display()
    );
    program
}

/// `orchestra up` with plugins, and a client before it.
struct Rig {
    workspace: Workspace,
    up: Running,
    client: Session,
}

impl Rig {
    fn start(languages: &[Language]) -> Self {
        let workspace = Workspace::board();
        let mut config = format!("[plugins.\"tools.sample\"]\nbinary = {:?}\n", sample());
        for Language { id, command, .. } in languages {
            let [program, file] = command;
            let environment = "env = { PYTHONDONTWRITEBYTECODE = \"1\" }";
            writeln!(
                config,
                "[plugins.{id:?}]\nbinary = {program:?}\nargs = [{file:?}]\n{environment}"
            )
            .unwrap();
        }
        workspace.write("orchestra.toml", &config);
        let ids = languages.iter().map(|language| language.id);
        for id in ids.chain(["tools.sample"]) {
            let approved = workspace.run(["mcp", "approve", "--yes", id]);
            assert_eq!(approved.code, Some(0), "{approved:?}");
        }
        let flags = ["--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json"];
        let up = Running::start(workspace.command([&["up"], &flags[..]].concat()));
        let ready = up.json();
        let (address, certs) = (ready["quic"].as_str(), ready["certs_dir"].as_str());
        let bridge = [
            "stdio",
            "--orchestrator-addr",
            address.unwrap(),
            "--certs-dir",
            certs.unwrap(),
        ];
        let mut client = Session::start(workspace.command(bridge));
        // A plugin that is still starting has no tools yet.
        until(|| {
            let listed = client.request("tools/list", &json!({})).to_string();
            let has = |language: &Language| listed.contains(&format!("{:?}", language.answers.0));
            languages.iter().all(has).then_some(())
        });
        Self {
            workspace,
            up,
            client,
        }
    }

    fn text(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.client.tool(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn end(self) {
        let Self { up, client, .. } = self;
        drop(client);
        up.signal(Signal::TERM);
        assert!(up.end().success());
    }
}

fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The processes that run a file for a workspace.
fn processes(language: &Language, workspace: &Workspace) -> Vec<Pid> {
    let file = language.command[1].display().to_string();
    let home = workspace.home().canonicalize().unwrap();
    let home = home.display().to_string();
    let runs = |line: &str| line.contains(&file) && line.contains(&home);
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = numbers.filter(|number: &i32| {
        // One that has just ended has none.
        let line = std::fs::read_to_string(format!("/proc/{number}/cmdline"));
        line.is_ok_and(|line| runs(&line))
    });
    found.filter_map(Pid::from_raw).collect()
}

#[test]
fn a_client_behind_a_bridge_calls_a_tool_of_each_and_others_hear_their_events() {
    let languages: Vec<Language> = languages().collect();
    let mut rig = Rig::start(&languages);
    for Language {
        id,
        answers,
        publishes,
        ..
    } in &languages
    {
        let (tool, given, answer) = answers;
        assert_eq!(rig.text(tool, &arguments(given)), *answer, "{id}");
        let refused = rig.client.refused(tool, &json!({"text": 5}));
        assert!(
            refused.contains("do not match its schema"),
            "{id}: {refused}"
        );
        let (tool, given) = publishes;
        assert!(rig.text(tool, &arguments(given)).starts_with("told"));
        let line = format!("{id} told {{\"news\":\"it rains\"}}");
        until(|| rig.text("heard", &json!({})).contains(&line).then_some(()));
    }
    rig.end();
}

#[test]
fn one_in_python_sets_documents_that_are_what_it_knows_and_hears_events() {
    let Some(python) = language_rig::python() else {
        return;
    };
    let mut rig = Rig::start(&[python]);
    let note = |content: &str, version: i64| json!({"path": "notes/a.md", "content": content, "version": version});
    assert_eq!(rig.text("keep", &note("one", 0)), "version 1");
    for stale in [0, 2] {
        rig.client.refused("keep", &note("lost", stale));
    }
    assert_eq!(rig.text("keep", &note("two", 1)), "version 2");
    let stale = rig.client.refused("keep", &note("lost", 1));
    assert!(stale.contains("version"), "{stale}");
    // Whoever is in Rust writes on where the other has stopped, and the other way round.
    let stored = rig.client.ok("store", &note("three", 2));
    assert_eq!(stored["version"], 3);
    assert_eq!(rig.text("keep", &note("four", 3)), "version 4");
    let said = json!({"topic": "sample.said", "payload": {}});
    assert_eq!(rig.text("publish", &said), "published");
    let news = json!({"news": "it rains"});
    until(|| (rig.text("tell", &news) == "told, and heard 1").then_some(()));
    // The file for people follows what was acknowledged.
    let file = ".projects/notes/a.md";
    let written =
        || std::fs::read_to_string(rig.workspace.join(file)).is_ok_and(|text| text == "four");
    until(|| written().then_some(()));
    rig.end();
}

#[test]
fn one_that_is_killed_is_started_again_and_none_outlives_the_program() {
    let languages: Vec<Language> = languages().collect();
    let mut rig = Rig::start(&languages);
    for language in &languages {
        let (tool, given, answer) = language.answers;
        let given = arguments(given);
        assert_eq!(rig.text(tool, &given), answer);
        let [first] = processes(language, &rig.workspace)[..] else {
            panic!("{} has one process", language.id);
        };
        kill_process(first, Signal::KILL).unwrap();
        // The call that finds out may be lost: nobody can know whether it ran.
        let again = (0..2).any(|_| {
            let result = rig.client.tool(tool, &given);
            result["content"][0]["text"] == answer
        });
        assert!(again, "{}", language.id);
        assert_ne!(processes(language, &rig.workspace), [first]);
    }
    let all: Vec<Pid> = languages
        .iter()
        .flat_map(|language| processes(language, &rig.workspace))
        .collect();
    assert_eq!(all.len(), languages.len());
    rig.up.signal(Signal::KILL);
    until(|| {
        let mut all = all.iter();
        all.all(|process| test_kill_process(*process).is_err())
            .then_some(())
    });
}
