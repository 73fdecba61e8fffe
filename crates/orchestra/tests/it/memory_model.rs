//! Models from the shell, and what one session remembers found by its meaning in another.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    thread,
};

use flate2::{Compression, write::GzEncoder};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    engine::{engine_but, signal, talk, with_engine},
    support::{Running, Said, Session, Workspace, said, until},
};

/// The words that the tiny models know, and what each means: locks, fruit, nothing.
const WORDS: [(&str, [f32; 3]); 6] = [
    ("[UNK]", [9.0, 9.0, 9.0]),
    ("lock", [1.0, 0.0, 0.0]),
    ("mutex", [0.9, 0.1, 0.0]),
    ("apple", [0.0, 1.0, 0.0]),
    ("pear", [0.0, 0.9, 0.1]),
    ("the", [0.0, 0.0, 0.01]),
];

/// Writes a tiny model, whose vectors are a little longer than those of others.
fn make(directory: &Path, more: f32) -> PathBuf {
    fs::create_dir_all(directory).unwrap();
    let places = WORDS.iter().enumerate();
    let words: BTreeMap<&str, usize> = places.map(|(place, (word, _))| (*word, place)).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"},
    });
    fs::write(directory.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let numbers = WORDS.iter().flat_map(|(_, numbers)| numbers);
    let data: Vec<u8> = numbers.flat_map(|x| (x + more).to_le_bytes()).collect();
    let head = json!({"embeddings": {
        "dtype": "F32", "shape": [WORDS.len(), 3], "data_offsets": [0, data.len()],
    }});
    let head = head.to_string();
    let mut table = (head.len() as u64).to_le_bytes().to_vec();
    table.extend(head.as_bytes());
    table.extend(data);
    fs::write(directory.join("model.safetensors"), table).unwrap();
    directory.to_owned()
}

/// The same as an archive, some directories deep.
fn packed(directory: &Path, more: f32) -> PathBuf {
    let model = make(directory, more);
    let path = directory.join("packed.tar.gz");
    let mut archive = tar::Builder::new(GzEncoder::new(
        File::create(&path).unwrap(),
        Compression::fast(),
    ));
    for (from, to) in [
        ("tokenizer.json", "pack/tokenizers/x_tokenizer_config.json"),
        ("model.safetensors", "pack/weights/x_256.safetensors"),
    ] {
        archive.append_path_with_name(model.join(from), to).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap();
    path
}

fn model(workspace: &Workspace, words: &[&str]) -> Said {
    workspace.run([&["memory", "model"], words].concat())
}

fn done(workspace: &Workspace, words: &[&str]) -> String {
    let said = model(workspace, words);
    assert_eq!(said.code, Some(0), "{words:?}: {said:?}");
    said.out
}

fn answer(workspace: &Workspace, words: &[&str]) -> Value {
    let text = done(workspace, &[words, &["--json"]].concat());
    serde_json::from_str(&text).unwrap()
}

fn session(workspace: &Workspace) -> Session {
    let mut command = with_engine(workspace, &["stdio"]);
    command.env("ORCHESTRA_ENGINE", "auto");
    Session::start(command)
}

fn contents(session: &mut Session, query: &str) -> Vec<String> {
    let found = session.ok("search_memory", &json!({"project": "demo", "query": query}));
    let found = found["items"].as_array().unwrap().iter();
    found
        .map(|item| item["content"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until what shares no word with a query is found by it.
fn by_meaning(session: &mut Session) {
    until(|| {
        let found = contents(session, "lock");
        (found.first().map(String::as_str) == Some("the mutex")).then_some(())
    });
}

fn engine(workspace: &Workspace, is_so: impl Fn(&Value) -> bool) -> Value {
    until(|| {
        let shown = answer(workspace, &["show"]);
        is_so(&shown["engine"]).then(|| shown["engine"].clone())
    })
}

#[test]
fn what_one_session_saves_another_finds_by_its_meaning() {
    let workspace = Workspace::board();
    let tiny = make(&workspace.home().join("tiny"), 0.0);
    let told = done(&workspace, &["install", tiny.to_str().unwrap()]);
    assert!(
        told.starts_with("tiny is installed: static, 3 dimensions"),
        "{told}"
    );
    let told = done(&workspace, &["use", "tiny"]);
    assert!(told.contains(".config/orchestra/orchestra.toml"), "{told}");

    let mut first = session(&workspace);
    first.ok("create_project", &json!({"name": "Demo"}));
    for text in ["the mutex", "the pear"] {
        let save = json!({"project": "demo", "content": text, "summary": ""});
        first.ok("save_memory", &save);
    }
    assert!(first.process.end().success());
    let mut second = session(&workspace);
    by_meaning(&mut second);
    let found = second.ok(
        "search_memory",
        &json!({"project": "demo", "query": "lock"}),
    );
    assert_eq!(found["items"][0]["why"], "similar in meaning");

    // And the shell does.
    let call = [
        "tool",
        "call",
        "search_memory",
        "project=demo",
        "query=lock",
    ];
    for words in [&["memory", "search", "lock"][..], &call] {
        let mut command = workspace.command(words);
        command.env("ORCHESTRA_ENGINE", "auto");
        let found = said(command, "");
        assert!(found.out.contains("the mutex"), "{found:?}");
    }

    // The engine is killed: words still answer, and it comes back.
    let before = engine_but(&workspace, None);
    signal(before, Signal::KILL);
    assert_eq!(contents(&mut second, "mutex")[0], "the mutex");
    engine_but(&workspace, Some(before));
    by_meaning(&mut second);

    // Another model is taken up by the engine that runs.
    let other = packed(&workspace.home().join("other"), 0.01);
    let other = other.to_str().unwrap();
    done(&workspace, &["install", other, "--name", "other"]);
    done(&workspace, &["use", "other"]);
    let shown = answer(&workspace, &["show"]);
    let of = |key: &str| shown["engine"][key].as_str().unwrap_or_default();
    let is_told = [of("model"), of("awaits")].contains(&"other");
    assert!(
        is_told || shown["engine"]["next"]["model"] == "other",
        "{shown}"
    );
    let stands = engine(&workspace, |engine| {
        engine["model"] == "other" && engine["phase"] == "ready"
    });
    assert_eq!(
        (&stands["vectors"], &stands["kind"]),
        (&json!(2), &json!("static"))
    );
    by_meaning(&mut second);
    let again = workspace.run(["memory", "reindex", "--json"]);
    assert!(again.out.contains("\"vectors\":\"now\""), "{again:?}");
    by_meaning(&mut second);
    let stats = workspace.run(["memory", "stats"]);
    assert!(stats.out.contains("have a vector of other"), "{stats:?}");

    done(&workspace, &["use", "none"]);
    engine(&workspace, |engine| engine["model"] == "");
    assert_eq!(contents(&mut second, "lock"), Vec::<String>::new());
    assert_eq!(contents(&mut second, "mutex"), ["the mutex"]);
}

#[test]
fn a_session_that_runs_finds_by_a_model_that_is_chosen_later() {
    let workspace = Workspace::board();
    let tiny = make(&workspace.home().join("tiny"), 0.0);
    done(&workspace, &["install", tiny.to_str().unwrap()]);
    let mut session = session(&workspace);
    session.ok("create_project", &json!({"name": "Demo"}));
    let save = json!({"project": "demo", "content": "the mutex", "summary": ""});
    session.ok("save_memory", &save);
    assert_eq!(contents(&mut session, "lock"), Vec::<String>::new());
    // No engine is needed where there is no model.
    assert!(!workspace.run_directory().join("engine.json").exists());
    done(&workspace, &["use", "tiny"]);
    by_meaning(&mut session);
}

/// An engine that somebody else gave a model is used by everybody.
#[test]
fn a_session_without_a_model_finds_by_the_engine_that_runs() {
    let workspace = Workspace::board();
    let tiny = make(&workspace.home().join("tiny"), 0.0);
    let mut session = session(&workspace);
    session.ok("create_project", &json!({"name": "Demo"}));
    let save = json!({"project": "demo", "content": "the mutex", "summary": ""});
    session.ok("save_memory", &save);
    assert_eq!(contents(&mut session, "lock"), Vec::<String>::new());
    let words = ["engine", "--model", tiny.to_str().unwrap()];
    let given = Running::start(with_engine(&workspace, &words));
    by_meaning(&mut session);
    let found = with_engine(&workspace, &["memory", "search", "lock"]);
    let found = said(found, "");
    assert!(found.out.contains("the mutex"), "{found:?}");
    assert!(session.process.end().success());
    given.signal(Signal::TERM);
}

#[test]
fn models_are_installed_listed_and_removed() {
    let workspace = Workspace::git();
    assert!(done(&workspace, &["list"]).starts_with("no model is installed"));
    let shown = done(&workspace, &["show"]);
    assert!(shown.contains("`orchestra memory model list`"), "{shown}");
    let tiny = make(&workspace.home().join("tiny"), 0.0);
    let tiny = tiny.to_str().unwrap();
    done(&workspace, &["install", tiny]);
    let again = model(&workspace, &["install", tiny]);
    assert_eq!(again.code, Some(3), "{again:?}");
    assert!(again.err.contains("is installed already"), "{again:?}");
    let about = done(&workspace, &["use", "tiny", "--scope", "workspace"]);
    assert!(about.contains("orchestra.toml"), "{about}");
    assert_eq!(
        workspace.read("orchestra.toml"),
        "[memory]\nmodel = \"tiny\"\n"
    );
    let list = answer(&workspace, &["list"]);
    let item = &list["items"][0];
    assert_eq!(
        (
            &item["name"],
            &item["kind"],
            &item["dimensions"],
            &item["in_use"]
        ),
        (&json!("tiny"), &json!("static"), &json!(3), &json!(true))
    );
    let used = model(&workspace, &["remove", "tiny"]);
    assert!(
        used.err.contains("is in use") && used.err.contains("`orchestra memory model use none`"),
        "{used:?}"
    );
    // It goes where it was said, without being told so.
    done(&workspace, &["use", "none"]);
    assert_eq!(
        workspace.read("orchestra.toml"),
        "[memory]\nmodel = \"none\"\n"
    );
    done(&workspace, &["remove", "tiny"]);
    assert_eq!(answer(&workspace, &["list"])["total"], 0);
    let kept: Vec<_> = fs::read_dir(workspace.home().join(".local/share/orchestra/models"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(kept, [".lock"]);
    for (words, said) in [
        (vec!["remove", "../x"], "is not installed"),
        (vec!["use", "tiny"], "`orchestra memory model list` shows"),
        (
            vec!["install", tiny, "--name", "none"],
            "none stands for no model",
        ),
        (vec!["use", "a/b"], "no such directory"),
        (vec!["use", "a b"], "the name of an installed model"),
        (
            vec!["install", "nothing-there"],
            "not an existing directory or archive",
        ),
        (
            vec![
                "install",
                workspace.home().to_str().unwrap(),
                "--name",
                "../x",
            ],
            "--name",
        ),
    ] {
        let refused = model(&workspace, &words);
        assert!(refused.err.contains(said), "{words:?}: {refused:?}");
        assert_ne!(refused.code, Some(0));
    }
}

#[test]
fn what_is_no_model_is_not_installed() {
    let workspace = Workspace::new();
    let place = make(&workspace.home().join("broken"), 0.0);
    fs::write(place.join("model.safetensors"), b"no tensors").unwrap();
    let refused = model(&workspace, &["install", place.to_str().unwrap()]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused
            .err
            .contains("broken: model.safetensors is not a usable model")
            && !refused.err.contains(".aside-"),
        "{refused:?}"
    );
    fs::remove_file(place.join("tokenizer.json")).unwrap();
    let refused = model(&workspace, &["install", place.to_str().unwrap()]);
    assert!(
        refused.err.contains("tokenizer.json is missing")
            && refused.err.contains("broken: there is no model"),
        "{refused:?}"
    );
    // Nor is it used as it lies there.
    fs::create_dir(workspace.home().join("empty")).unwrap();
    for name in ["empty", "broken"] {
        let path = workspace.home().join(name);
        let refused = model(&workspace, &["use", path.to_str().unwrap()]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.err.contains("is not used"), "{refused:?}");
    }
    assert_eq!(answer(&workspace, &["show"])["model"], "none");
    // A second source has it.
    let other = make(&workspace.home().join("other"), 0.0);
    fs::remove_file(place.join("model.safetensors")).unwrap();
    let table = place.join("weights.safetensors");
    fs::rename(other.join("model.safetensors"), table).unwrap();
    let both = [place.to_str().unwrap(), other.to_str().unwrap()];
    let said = done(&workspace, &["install", both[0], both[1], "--name", "both"]);
    assert!(said.starts_with("both is installed"), "{said}");
    assert_eq!(answer(&workspace, &["list"])["total"], 1);
}

#[test]
fn a_workspace_names_no_model_elsewhere() {
    let workspace = Workspace::board();
    workspace.write(
        "orchestra.toml",
        "[memory]\nmodel = \"openai:x\"\nmodel_url = \"https://example.org/v1\"\n\
         model_key_env = \"HOME\"\nmax_items = 9000000\n",
    );
    let mut session = session(&workspace);
    session.ok("create_project", &json!({"name": "Demo"}));
    let save = json!({"project": "demo", "content": "the mutex", "summary": ""});
    session.ok("save_memory", &save);
    assert_eq!(contents(&mut session, "mutex"), ["the mutex"]);
    let said = talk(&workspace);
    assert!(said.contains("ignored, because other people"), "{said}");
    assert!(!workspace.run_directory().join("engine.json").exists());
    let shown = answer(&workspace, &["show"]);
    assert!(
        shown["trouble"].as_str().unwrap().contains("[memory] of"),
        "{shown}"
    );
    let config = workspace.run(["config", "show"]);
    assert!(config.out.contains("max_items = 1000000\n"), "{config:?}");
    let refused = model(&workspace, &["use", "openai:y", "--scope", "workspace"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
}

/// What of it is not used is said, and what to do instead.
#[test]
fn a_workspace_that_says_more_than_it_may_is_told_so() {
    let workspace = Workspace::board();
    workspace.write(
        "orchestra.toml",
        "[memory]\nmodel = \"openai:x\"\nmax_items = 2000000\nmax_bytes = 2000000000\n",
    );
    let check = |said: &str| {
        let said: Vec<&str> = said.lines().filter(|line| line.contains(".toml")).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        for what in [
            "openai",
            "max_items = 2000000 exceeds",
            "max_bytes = 2000000000 exceeds",
        ] {
            let is_of = |line: &&&str| match what {
                "openai" => line.contains("a model of another machine"),
                _ => line.contains(what),
            };
            let line = said.iter().find(is_of).unwrap();
            assert!(line.contains("[memory] of ~/.config"), "{line}");
        }
    };
    check(&workspace.run(["config", "show"]).err);
    check(&model(&workspace, &["show"]).err);
    for (face, engine) in [
        ("stdio", "off"),
        ("stdio", "auto"),
        ("up", "off"),
        ("up", "always"),
    ] {
        let _ = fs::remove_file(workspace.home().join("talk"));
        let words = [&[face][..], &["--http", "127.0.0.1:0"][..]].concat();
        let words = &words[..if face == "up" { 3 } else { 1 }];
        let mut command = with_engine(&workspace, words);
        command.env("ORCHESTRA_ENGINE", engine);
        if face == "up" {
            let mut running = Running::start(command);
            running.line();
            check(&talk(&workspace));
            running.signal(Signal::TERM);
            assert!(running.wait().success());
        } else {
            let session = Session::start(command);
            check(&talk(&workspace));
            assert!(session.process.end().success());
        }
    }
    // What says how, and not which, is for nothing.
    workspace.write(
        "orchestra.toml",
        "[memory]\nmodel_url = \"http://example.org\"\n",
    );
    let said = model(&workspace, &["show"]);
    assert!(
        said.err.contains("are ignored without memory.model"),
        "{said:?}"
    );
    workspace.write("orchestra.toml", "[memory]\nmax_items = 1000000\n");
    assert_eq!(model(&workspace, &["show"]).err, "");
    // At a limit, memories are removed.
    workspace.write("orchestra.toml", "[memory]\nmax_items = 1\n");
    let said = model(&workspace, &["show"]);
    let part = "memory.max_items = 1 is below the limit of 100000, which is used";
    assert!(said.err.contains(part), "{said:?}");
}

#[test]
fn a_workspaces_model_is_chosen_in_a_workspace_alone() {
    let workspace = Workspace::new();
    let refused = model(&workspace, &["use", "none", "--scope", "workspace"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("`orchestra init`"), "{refused:?}");
    assert!(!workspace.join("orchestra.toml").exists());
}

#[test]
fn a_model_that_is_damaged_is_told_and_words_go_on() {
    let workspace = Workspace::board();
    let tiny = make(&workspace.home().join("tiny"), 0.0);
    done(&workspace, &["install", tiny.to_str().unwrap()]);
    done(&workspace, &["use", "tiny"]);
    let there = workspace.home().join(".local/share/orchestra/models/tiny");
    fs::write(there.join("model.safetensors"), b"x").unwrap();
    let mut session = session(&workspace);
    session.ok("create_project", &json!({"name": "Demo"}));
    let save = json!({"project": "demo", "content": "the mutex", "summary": ""});
    session.ok("save_memory", &save);
    let said = until(|| {
        let said = talk(&workspace);
        said.contains("the model tiny cannot be used")
            .then_some(said)
    });
    assert!(said.contains("memory model use"), "{said}");
    assert_eq!(contents(&mut session, "mutex"), ["the mutex"]);
    // Mended, it is taken up by itself.
    fs::copy(
        tiny.join("model.safetensors"),
        there.join("model.safetensors"),
    )
    .unwrap();
    by_meaning(&mut session);
}

#[test]
fn a_model_that_is_slow_to_be_found_damaged_is_told_in_short_sessions_and_by_the_shell() {
    let workspace = Workspace::board();
    let tiny = make(&workspace.home().join("tiny"), 0.0);
    // What is read before it takes longer than the engine takes to be found.
    let mut words: BTreeMap<String, usize> = (0..60_000).map(|n| (format!("w{n}"), n)).collect();
    words.insert("[UNK]".to_owned(), 60_000);
    let text = fs::read_to_string(tiny.join("tokenizer.json")).unwrap();
    let mut tokenizer: Value = serde_json::from_str(&text).unwrap();
    tokenizer["model"]["vocab"] = json!(words);
    fs::write(tiny.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    fs::write(tiny.join("model.safetensors"), b"garbage").unwrap();
    workspace.write(
        "orchestra.toml",
        &format!("[memory]\nmodel = {:?}\n", tiny.to_str().unwrap()),
    );
    let mut session = session(&workspace);
    session.ok("create_project", &json!({"name": "Demo"}));
    engine(&workspace, |engine| engine["phase"] == "failing");
    until(|| talk(&workspace).contains("cannot be used").then_some(()));
    let mut command = workspace.command(["memory", "search", "lock"]);
    command.env("ORCHESTRA_ENGINE", "auto");
    let found = said(command, "");
    assert_eq!(
        found.err.matches("it is tried again").count(),
        1,
        "{found:?}"
    );
}

#[test]
fn a_key_that_is_not_there_is_told_by_every_command_that_searches() {
    let workspace = Workspace::board();
    workspace.call("create_project", &json!({"name": "Demo"}));
    let own = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&own).unwrap();
    fs::write(
        own.join("orchestra.toml"),
        "[memory]\nmodel = \"openai:x\"\nmodel_key_env = \"NO_SUCH_KEY\"\n",
    )
    .unwrap();
    let mut command = workspace.command(["memory", "search", "lock"]);
    command.env("ORCHESTRA_ENGINE", "auto");
    let found = said(command, "");
    assert_eq!(found.code, Some(0), "{found:?}");
    assert_eq!(
        found.err,
        "memory: memory.model_key_env: the environment variable NO_SUCH_KEY is not set here; \
         set it where the program is started; until then memories are found by their words\n"
    );
}

/// A hub that has these files, by their paths; one that begins with `cut` ends too early.
fn hub(files: Vec<(String, Vec<u8>)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut line).unwrap();
            let mut rest = String::new();
            while reader.read_line(&mut rest).unwrap() > 2 {
                rest.clear();
            }
            let path = line.split(' ').nth(1).unwrap();
            let found = files.iter().find(|(name, _)| name == path);
            let head = match found {
                // Large files lie elsewhere.
                Some((_, to)) if to.starts_with(b"/") => format!(
                    "302 Found\r\nlocation: {}\r\ncontent-length: 0",
                    str::from_utf8(to).unwrap()
                ),
                Some((name, content)) => {
                    let more = usize::from(name.contains("cut"));
                    format!("200 OK\r\ncontent-length: {}", content.len() + more)
                }
                None => "404 Not Found\r\ncontent-length: 0".to_owned(),
            };
            let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n");
            let content = found.filter(|(_, content)| !content.starts_with(b"/"));
            let content = content.map_or(&[][..], |(_, content)| content);
            // Who has read enough may have gone.
            let _ = stream.write_all(&[head.as_bytes(), content].concat());
        }
    });
    address
}

#[test]
fn a_model_is_fetched_from_a_hub() {
    let workspace = Workspace::new();
    let tiny = make(&workspace.home().join("tiny"), 0.0);
    let read = |name: &str| fs::read(tiny.join(name)).unwrap();
    let at = |model: &str, name: &str| format!("/me/{model}/resolve/main/{name}");
    let address = hub(vec![
        (at("tiny", "tokenizer.json"), read("tokenizer.json")),
        (
            at("tiny", "config.json"),
            br#"{"model_type": "model2vec"}"#.to_vec(),
        ),
        (at("tiny", "model.safetensors"), b"/lies/here".to_vec()),
        ("/lies/here".to_owned(), read("model.safetensors")),
        // Only tables are looked for where it says that it is one.
        (at("tiny", "onnx/model.onnx"), b"no network".to_vec()),
        (at("cut", "tokenizer.json"), read("tokenizer.json")),
        (at("bare", "config.json"), b"{}".to_vec()),
        (at("away", "config.json"), b"/x".to_vec()),
        ("/x".to_owned(), b"/x".to_vec()),
    ]);
    let fetch = |name: &str, address: &str| {
        let mut command = workspace.command(["memory", "model", "install", name]);
        command.env("HF_ENDPOINT", address);
        said(command, "")
    };
    let done = fetch("me/tiny", &address);
    assert!(
        done.out.starts_with("tiny is installed: static"),
        "{done:?}"
    );
    assert_eq!(
        answer(&workspace, &["list"])["items"][0]["source"],
        "me/tiny"
    );
    for (name, address, why) in [
        ("me/cut", address.as_str(), "resolve/main/tokenizer.json"),
        ("me/bare", &address, "has no tokenizer.json"),
        ("me/away", &address, "the redirect leads"),
        ("me/gone", &address, "has no tokenizer.json"),
        ("me/gone", "http://example.org", "not an https URL"),
        ("me/gone", "http://127.0.0.1:1", "cannot be fetched"),
    ] {
        let refused = fetch(name, address);
        assert!(
            refused.code != Some(0) && refused.err.contains(why),
            "{name}: {refused:?}"
        );
    }
    assert_eq!(answer(&workspace, &["list"])["total"], 1);
}
