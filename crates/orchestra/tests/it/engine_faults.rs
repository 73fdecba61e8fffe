//! The memory engine is killed, hangs and is gone under calls: none waits for it longer than a moment,
//! nothing that was acknowledged is lost or there twice, and it is used again when it is back.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    engine::{engine_but, is_there, signal, talk, with_engine},
    support::{Running, Session, Workspace, post_to, until},
};

fn search(session: &mut Session, query: &str) -> Value {
    session.ok("search_memory", &json!({"project": "demo", "query": query}))
}

fn start(workspace: &Workspace) -> Session {
    let mut session = Session::start(with_engine(workspace, &["stdio"]));
    session.ok("create_project", &json!({"name": "Demo"}));
    session.ok(
        "save_memory",
        &json!({"project": "demo", "content": "the queue is drained at night", "summary": "queue"}),
    );
    session
}

fn ids(found: &Value) -> Vec<String> {
    let items = found["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn w29_hanging_engine_delays_at_most_one_call_and_is_replaced() {
    let workspace = Workspace::board();
    let mut session = start(&workspace);
    let engine = engine_but(&workspace, None);
    // Asked by a call, it is known to answer.
    let expected = search(&mut session, "queue");
    assert_eq!(ids(&expected).len(), 1);
    let before = talk(&workspace).len();
    signal(engine, Signal::STOP);
    for _ in 0..50 {
        assert_eq!(search(&mut session, "queue"), expected);
    }
    // It does not hear that it is to end.
    let next = engine_but(&workspace, Some(engine));
    // Its place is free a moment before it is gone.
    until(|| (!is_there(engine)).then_some(()));
    until(|| {
        talk(&workspace)
            .contains("the engine answers again")
            .then_some(())
    });
    assert_eq!(search(&mut session, "queue"), expected);
    let talk = talk(&workspace);
    // A call that waited for the engine is reported. Later calls did not ask it again.
    let (hung, _) = talk[before..]
        .split_once("the engine answers again")
        .unwrap();
    let waited: Vec<&str> = hung
        .lines()
        .filter(|line| line.contains("answered without it"))
        .collect();
    assert!(waited.len() <= 1, "{talk}");
    assert!(
        waited
            .iter()
            .all(|line| line.contains("no answer within 150 ms")),
        "{talk}"
    );
    assert!(
        talk.contains("memory: the engine does not answer"),
        "{talk}"
    );
    assert!(talk.lines().count() <= 5, "{talk}");
    assert!(session.process.end().success());
    until(|| (!is_there(next)).then_some(()));
}

#[test]
fn w29_an_engine_that_is_killed_again_and_again_is_back_and_costs_nothing() {
    let workspace = Workspace::board();
    let mut session = start(&workspace);
    let mut engine = engine_but(&workspace, None);
    for _ in 0..3 {
        signal(engine, Signal::KILL);
        let mut rounds = 0;
        let next = loop {
            assert_eq!(ids(&search(&mut session, "queue")).len(), 1);
            rounds += 1;
            let told = crate::engine::told(&workspace);
            let pid = told.and_then(|told| told["pid"].as_u64());
            match pid.and_then(|pid| u32::try_from(pid).ok()) {
                Some(pid) if pid != engine && is_there(pid) => break pid,
                _ => assert!(rounds < 100_000, "no engine comes back"),
            }
        };
        engine = next;
    }
    until(|| {
        talk(&workspace)
            .contains("the engine answers again")
            .then_some(())
    });
}

#[test]
fn w29_files_of_the_engine_that_are_deleted_cost_no_call() {
    let workspace = Workspace::board();
    let mut session = start(&workspace);
    let engine = engine_but(&workspace, None);
    let run = workspace.run_directory();
    fs::remove_file(run.join("engine.json")).unwrap();
    fs::remove_file(run.join("engine.lock")).unwrap();
    // It sees that nobody can find it, and another takes its place.
    let next = engine_but(&workspace, Some(engine));
    until(|| (!is_there(engine)).then_some(()));
    assert_eq!(ids(&search(&mut session, "queue")).len(), 1);
    assert!(session.process.end().success());
    until(|| (!is_there(next)).then_some(()));
}

fn call(address: &str, tool: &str, arguments: &Value) -> Value {
    let body = json!({"name": tool, "arguments": arguments}).to_string();
    let answer = post_to(address, "/api/mcp/tools/call", &[], &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    assert_ne!(answer["isError"], true, "{answer}");
    answer
}

#[test]
fn w29_nothing_is_lost_or_twice_while_engines_are_killed_under_writers_and_readers() {
    const EACH: usize = 16;
    // After how many more texts each engine is stopped: at any moment of its life.
    const KILLS: [usize; 6] = [0, 37, 3, 120, 11, 0];
    // All of them together stay within what a project may remember.
    const MOST: usize = 400;
    // An engine lives so long at most, however slowly texts are saved.
    const LIFE: Duration = Duration::from_secs(5);
    let workspace = Workspace::board();
    let words = ["up", "--json", "--http", "127.0.0.1:0", "--quic", "off"];
    let mut up = Running::start(with_engine(&workspace, &words));
    let address = up.json()["address"].as_str().unwrap().to_owned();
    call(&address, "create_project", &json!({"name": "Demo"}));
    let (is_over, saved) = (AtomicBool::new(false), Mutex::new(BTreeSet::new()));
    thread::scope(|scope| {
        for writer in 0..EACH {
            let (is_over, saved, address) = (&is_over, &saved, &address);
            scope.spawn(move || {
                for number in 0..MOST {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let text = format!("fact {writer} {number} of the matter");
                    let arguments =
                        json!({"project": "demo", "content": &text, "summary": "a fact"});
                    call(address, "save_memory", &arguments);
                    assert!(saved.lock().unwrap().insert(text));
                }
            });
        }
        for _ in 0..EACH {
            let (is_over, address) = (&is_over, &address);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    call(
                        address,
                        "search_memory",
                        &json!({"project": "demo", "query": "matter", "limit": 3}),
                    );
                }
            });
        }
        let mut engine = None;
        for (round, more) in KILLS.into_iter().enumerate() {
            let next = engine_but(&workspace, engine);
            let (begin, count) = (Instant::now(), || saved.lock().unwrap().len());
            let enough = count() + more;
            while count() < enough && begin.elapsed() < LIFE {
                thread::yield_now();
            }
            let how = if round % 2 == 0 {
                Signal::KILL
            } else {
                Signal::STOP
            };
            signal(next, how);
            engine = Some(next);
        }
        engine_but(&workspace, engine);
        is_over.store(true, Ordering::Relaxed);
    });
    let saved = saved.into_inner().unwrap();
    assert!(saved.len() > EACH, "{}", saved.len());
    up.signal(Signal::TERM);
    assert!(up.wait().success());
    // Everything that was acknowledged is there, once.
    let files = texts_below(&workspace.join(".projects/demo/.memory"));
    for text in &saved {
        assert_eq!(files.matches(text.as_str()).count(), 1, "{text}");
    }
    assert_eq!(files.matches(" of the matter").count(), saved.len());
}

/// All files of a directory, one after the other.
fn texts_below(directory: &Path) -> String {
    let mut texts = String::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => texts.push_str(&texts_below(&path)),
            false => texts.push_str(&fs::read_to_string(&path).unwrap()),
        }
    }
    texts
}
