//! What is remembered while things are wrong: with the disk, with the index, with the program's files,
//! and with what callers send.

use std::{fs, io::Write as _, path::Path, process::Command, time::Instant};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    engine::{engine_but, is_there, of, signal, talk},
    skip::skip,
    support::{PATIENCE, Session, Workspace, until},
};

const ENGINE: &str = "orchestra-engine";

fn demo(session: &mut Session) {
    session.ok("create_project", &json!({"name": "Demo"}));
    save(session, "the queue is drained at night");
}

fn chunk(content: &str) -> Value {
    json!({"project": "demo", "content": content, "summary": "a fact"})
}

fn save(session: &mut Session, content: &str) {
    session.ok("save_memory", &chunk(content));
}

fn ask(query: &str) -> Value {
    json!({"project": "demo", "query": query})
}

fn count(session: &mut Session, query: &str) -> usize {
    let found = session.ok("search_memory", &ask(query));
    found["items"].as_array().unwrap().len()
}

#[test]
fn texts_of_ten_megabytes_and_a_hundred_thousand_tags_are_refused() {
    let workspace = Workspace::board();
    let mut session = Session::start(workspace.command(["stdio"]));
    demo(&mut session);
    let long = "x".repeat(10_000_000);
    let said = session.refused("save_memory", &chunk(&long));
    assert!(
        said.contains("content") && said.contains("at most"),
        "{said}"
    );
    assert!(said.len() < 1_000, "{}", said.len());
    // More than a line may have.
    session.send(
        &json!({"jsonrpc": "2.0", "id": 1_000_000, "method": "tools/call",
        "params": {"name": "save_memory", "arguments": chunk(&"y".repeat(11_000_000))}}),
    );
    // Changes of the board are notified at any time.
    let refused = loop {
        let message = session.process.json();
        if message.get("method").is_none() {
            break message;
        }
    };
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&Value::Null, &json!(-32600))
    );
    let tags: Vec<String> = (0..100_000).map(|number| format!("t{number}")).collect();
    let mut tagged = chunk("with many tags");
    tagged["tags"] = json!(tags);
    let said = session.refused("save_memory", &tagged);
    assert!(
        said.contains("`tags`") && said.contains("at most 32"),
        "{said}"
    );
    // What is behind the first words of a query is left out.
    session.ok("search_memory", &ask(&long));
    assert_eq!(count(&mut session, "queue"), 1);
    assert!(session.process.end().success());
}

#[test]
fn queries_of_every_script_and_of_control_characters_are_answered() {
    let workspace = Workspace::board();
    let mut session = Session::start(workspace.command(["stdio"]));
    demo(&mut session);
    let texts = [
        "数据库迁移需要锁",
        "データベースの移行",
        "базы данных в Москве",
        "قاعدة البيانات",
        "מסד נתונים",
        "ฐานข้อมูล",
        "डेटाबेस का प्रवासन",
        "βάση δεδομένων",
        "데이터베이스 이전",
        "ტესტი მონაცემთა",
        "տվյալների բազա",
        "𒀀𒁀 𓀀 𝒳𝓎",
    ];
    for text in texts {
        save(&mut session, text);
        assert!(count(&mut session, text) >= 1, "{text}");
    }
    let controls: String = (0..0x20)
        .chain(0x7f..0xa0)
        .filter_map(char::from_u32)
        .collect();
    for query in [
        controls.as_str(),
        "\u{0}",
        "queue\u{0}drained",
        "\u{1b}[2J\u{7}",
        "\u{202e}\u{200f}\u{2066}x",
        "\u{feff}\u{fffe}\u{ffff}\u{10ffff}",
        "\"* OR NEAR(AND ^ : {summary} -- ; DROP TABLE chunk",
        "%_\\'`$(reboot)",
        "👩‍👩‍👧‍👦🇬🇪",
        &"wide ".repeat(5_000),
    ] {
        // A refusal says what is wrong with it; anything else is an answer.
        let answer = session.tool("search_memory", &ask(query));
        if answer["isError"] == true {
            let said = answer["content"][0]["text"].as_str().unwrap();
            assert!(said.contains("query"), "{query:?}: {said}");
        }
        let answer = session.tool("get_context", &ask(query));
        assert!(answer["content"].is_array(), "{query:?}: {answer}");
    }
    // Half a pair is no text.
    let line = r#"{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"search_memory","arguments":{"project":"demo","query":"\ud800"}}}"#;
    let stdin = session.process.stdin.as_mut().unwrap();
    writeln!(stdin, "{line}").unwrap();
    let mut answer = session.process.json();
    while answer.get("method").is_some() {
        answer = session.process.json();
    }
    assert!(
        answer["error"].is_object() || answer["result"]["isError"] == true,
        "{answer}"
    );
    assert_eq!(count(&mut session, "queue"), 1);
    assert!(session.process.end().success());
}

#[test]
fn a_full_disk_is_told_and_memory_works_again_with_room() {
    let workspace = Workspace::board().with_board_in_checkout();
    let place = workspace.join(".projects");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=6m,mode=755", "tmpfs"])
        .arg(&place)
        .output();
    if !mounted.as_ref().is_ok_and(|output| output.status.success()) {
        return skip(&format!("no file system can be mounted: {mounted:?}"));
    }
    let mut session = Session::start(workspace.command(["stdio"]));
    demo(&mut session);
    let mut saved = 0;
    let said = loop {
        let text = chunk(&format!("fact f{saved}x {}", "and so on ".repeat(4_000)));
        let answer = session.tool("save_memory", &text);
        if answer["isError"] == true {
            break answer["content"][0]["text"].as_str().unwrap().to_owned();
        }
        saved += 1;
        assert!(saved < 1_000, "6 MiB are never full");
    };
    assert!(said.contains("free some space"), "{said}");
    assert_eq!(count(&mut session, "queue"), 1);
    let grown = Command::new("mount")
        .args(["-o", "remount,size=64m"])
        .arg(&place)
        .status();
    assert!(grown.unwrap().success());
    save(&mut session, "there is room again");
    for number in 0..saved {
        assert_eq!(count(&mut session, &format!("f{number}x")), 1, "{number}");
    }
    assert_eq!(count(&mut session, "room"), 1);
    assert!(session.process.end().success());
    let _ = Command::new("umount").arg("-l").arg(&place).status();
}

#[test]
fn an_index_that_is_damaged_under_a_running_program_is_mended_by_it() {
    let workspace = Workspace::board();
    let mut session = Session::start(workspace.command(["stdio"]));
    demo(&mut session);
    let damage = |how: &str| {
        let raw = Connection::open(workspace.database()).unwrap();
        raw.busy_timeout(PATIENCE).unwrap();
        raw.execute_batch(how).unwrap();
    };
    let mut saved = 0;
    for how in [
        "DELETE FROM memory_text_data",
        "UPDATE memory_text_data SET block = x'0102' WHERE id > 10",
        "DROP TABLE memory_text_data",
        "DROP TABLE memory_text",
    ] {
        damage(how);
        let begin = Instant::now();
        let found = loop {
            let answer = session.tool("search_memory", &ask("queue"));
            if answer["isError"] != true {
                break answer["structuredContent"]["items"].clone();
            }
            let said = answer["content"][0]["text"].as_str().unwrap();
            assert!(said.contains("being rebuilt"), "{how}: {said}");
            assert!(begin.elapsed() < PATIENCE, "{how}");
        };
        assert_eq!(found.as_array().unwrap().len(), 1, "{how}");
        // And what is saved while it is damaged is kept.
        damage(how);
        save(&mut session, &format!("kept k{saved}x"));
        saved += 1;
    }
    assert!(session.process.end().success());
    // By hand, and by another program.
    let said = workspace.run(["memory", "reindex"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let mut session = Session::start(workspace.command(["stdio"]));
    for number in 0..saved {
        assert_eq!(count(&mut session, &format!("k{number}x")), 1, "{number}");
    }
    assert_eq!(count(&mut session, "queue"), 1);
}

#[test]
fn an_engine_whose_program_is_deleted_is_done_without_until_it_is_back() {
    let workspace = Workspace::board();
    let directory = workspace.home().join("bin");
    fs::create_dir(&directory).unwrap();
    let ours = Path::new(env!("CARGO_BIN_EXE_orchestra"));
    let (program, engine_program) = (directory.join("orchestra"), directory.join(ENGINE));
    fs::copy(ours, &program).unwrap();
    let bring = || fs::copy(ours.with_file_name(ENGINE), &engine_program).unwrap();
    bring();
    let mut command = of(&program, &workspace, &["stdio"]);
    // So that it is the only one.
    command.env("PATH", "/none");
    let mut session = Session::start(command);
    demo(&mut session);
    let engine = engine_but(&workspace, None);
    fs::remove_file(&engine_program).unwrap();
    signal(engine, Signal::KILL);
    until(|| {
        talk(&workspace)
            .contains("memories are found by their words alone")
            .then_some(())
    });
    for _ in 0..50 {
        assert_eq!(count(&mut session, "queue"), 1);
    }
    save(&mut session, "saved without an engine");
    assert!(
        talk(&workspace).lines().count() <= 4,
        "{}",
        talk(&workspace)
    );
    bring();
    let next = engine_but(&workspace, Some(engine));
    until(|| {
        talk(&workspace)
            .contains("the engine answers again")
            .then_some(())
    });
    assert_eq!(count(&mut session, "saved"), 1);
    assert!(session.process.end().success());
    until(|| (!is_there(next)).then_some(()));
}
