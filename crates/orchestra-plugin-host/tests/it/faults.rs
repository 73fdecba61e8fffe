//! What earlier plugin systems fail by, and plugins that misbehave, one by one and behind a gateway.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use orchestra_hub::HubNotice;
use orchestra_mcp::client::{ClientError, Connector, Incoming, Sent, ServerMessage};
use orchestra_plugin::certs::CertDir;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    gated::{Gated, config, told},
    rig::{PATIENCE, Rig, ask, call, is_soak, outgoing, program, text, until},
};

/// One that is told to end does not take its time.
fn quick(mode: &str) -> Rig {
    let mut rig = Rig::new(mode);
    rig.spec.grace_shutdown = Duration::from_millis(200);
    rig.spec.process.grace_term = Duration::from_millis(200);
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_writes_during_a_call_holds_it_up_in_nothing() {
    let rig = Rig::new("ok");
    let connected = rig.connector().connect().await.unwrap();
    for id in 1..5 {
        let request = outgoing(id, "tools/call", json!({"name": "shout", "arguments": {}}));
        let answer = timeout(PATIENCE, connected.link.request(request)).await;
        let answer = answer.expect("it is read").unwrap().unwrap();
        assert_eq!(text(&answer.parse::<Value>().unwrap()), "said");
    }
    assert!(connected.link.stderr_tail().len() <= 64 * 1024);
    connected.link.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_answers_the_first_counts() {
    let rig = Rig::new("twice");
    let client = rig.client();
    for number in 0..300 {
        let echoed = call(&client, "echo", json!({"n": number})).await.unwrap();
        assert_eq!(text(&echoed), json!({"n": number}).to_string());
    }
    client.close().await;
    assert_eq!(rig.processes().len(), 1);
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_message_is_told() {
    let rig = Rig::new("nonsense");
    let client = rig.client();
    let error = call(&client, "echo", json!({})).await.unwrap_err();
    let said = error.explain();
    assert!(
        said.contains("fake.plugin") && said.contains("tool_call"),
        "{said}"
    );
    assert_eq!(error.sent(), Sent::Maybe);
    let listed = ask(&client, "tools/list", json!({})).await.unwrap();
    assert_eq!(listed["tools"][0]["name"], "count");
    client.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_ends_without_an_answer_is_reported_with_the_likely_size() {
    let rig = Rig::new("huge");
    let client = rig.client();
    let error = call(&client, "echo", json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.sent()), ("no_answer", Sent::Maybe));
    let said = error.explain();
    for expected in ["fake.plugin", "tool_call", "without an answer", "16 MiB"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!said.contains("JSON-RPC"), "{said}");
    // The connection remains usable.
    call(&client, "whole", json!({})).await.unwrap();
    client.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_shows_the_certificate_of_another_is_not_believed() {
    let mut rig = Rig::new("ok");
    // The last of two flags counts.
    rig.spec.process.args.push("--id=other.plugin".into());
    let error = rig.connector().connect().await.err().unwrap();
    let said = error.explain();
    let wanted = "not valid for name \"fake.plugin\"";
    assert!(
        said.contains(wanted) && said.contains("other.plugin"),
        "{said}"
    );
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_of_another_authority_is_not_believed() {
    let mut rig = Rig::new("ok");
    let elsewhere = tempfile::tempdir().unwrap();
    let other = CertDir::open(elsewhere.path().join("certs")).unwrap();
    other.ensure_ca(std::time::SystemTime::now()).unwrap();
    rig.spec.plugin_certs = Some(other.path().to_owned());
    let error = rig.connector().connect().await.err().unwrap();
    let said = error.explain();
    assert!(
        said.contains("dial failed") && said.contains("certificate"),
        "{said}"
    );
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_and_fifty_calls_run_at_once() {
    let rig = Rig::new("ok");
    let connected = rig.connector().connect().await.unwrap();
    let mut calls = JoinSet::new();
    for id in 0..150 {
        let params = json!({"name": "meet", "arguments": {"of": 150}});
        calls.spawn(connected.link.request(outgoing(id, "tools/call", params)));
    }
    let met = timeout(PATIENCE, calls.join_all()).await;
    for answer in met.expect("all of them meet") {
        assert!(answer.unwrap().is_ok());
    }
    connected.link.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_large_calls_go_over_one_connection() {
    let (count, at_once) = (if is_soak() { 5_000 } else { 500 }, 16);
    let rig = Rig::new("ok");
    let connected = rig.connector().connect().await.unwrap();
    let mut calls = JoinSet::new();
    for id in 0..count {
        let long = "x".repeat(20_000);
        let arguments = json!({"n": id, "text": long});
        let params = json!({"name": "echo", "arguments": arguments});
        let asked = connected.link.request(outgoing(id, "tools/call", params));
        calls.spawn(async move {
            let answer = asked.await.unwrap().unwrap();
            let answer: Value = answer.parse().unwrap();
            let echoed: Value = serde_json::from_str(text(&answer)).unwrap();
            assert_eq!(echoed, arguments);
        });
        if calls.len() >= at_once {
            timeout(PATIENCE, calls.join_next()).await.unwrap();
        }
    }
    timeout(PATIENCE, calls.join_all()).await.unwrap();
    assert_eq!(rig.processes().len(), 1);
    connected.link.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fits_into_a_frame_passes_and_what_does_not_is_told_before_it_is_sent() {
    const FRAME: usize = 16 * 1024 * 1024;
    let rig = Rig::new("ok");
    let client = rig.client();
    // Half, since what comes back is JSON inside of JSON.
    let large = "x".repeat(FRAME / 2);
    let echoed = call(&client, "whole", json!({"a": large})).await.unwrap();
    assert_eq!(text(&echoed).len(), FRAME / 2 + r#"{"a":""}"#.len());
    // One that fits no longer with what belongs to it, and one that does not fit by itself.
    for length in [FRAME - 16, FRAME] {
        let larger = "x".repeat(length);
        let error = call(&client, "whole", json!({"a": larger})).await;
        let error = error.unwrap_err();
        let said = error.explain();
        assert!(said.contains("the limit of 16777216"), "{said}");
        // Or refused as arguments, which are none of what the plugin takes: an answer of ours.
        let is_refused = matches!(&error, ClientError::Rpc(refused) if refused.code.0 == -32602);
        assert!(is_refused || error.sent() == Sent::No, "{error:?}");
    }
    call(&client, "echo", json!({})).await.unwrap();
    client.close().await;
    rig.all_gone().await;
}

/// The next report of progress.
async fn progress(incoming: &mut tokio::sync::mpsc::Receiver<Incoming>) -> Value {
    let told = timeout(PATIENCE, incoming.recv()).await.unwrap().unwrap();
    let ServerMessage::Notification { method, params } = told.message else {
        panic!("it asks");
    };
    assert_eq!(method, "notifications/progress");
    params.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_given_up_half_way_is_stopped() {
    let rig = Rig::new("ok");
    let mut connected = rig.connector().connect().await.unwrap();
    let request = outgoing(3, "tools/call", json!({"name": "pour", "arguments": {}}));
    let asked = tokio::spawn(connected.link.request(request));
    for count in 1..4 {
        assert_eq!(progress(&mut connected.incoming).await["progress"], count);
    }
    asked.abort();
    // By its stream, and by a message for those who listen to that.
    rig.notes("stopped").await;
    rig.notes("cancel of a stream").await;
    let request = outgoing(4, "tools/call", json!({"name": "echo", "arguments": {}}));
    assert!(connected.link.request(request).await.unwrap().is_ok());
    connected.link.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_half_way_is_an_error() {
    let rig = Rig::new("ok");
    let mut connected = rig.connector().connect().await.unwrap();
    let request = outgoing(3, "tools/call", json!({"name": "spill", "arguments": {}}));
    let answer = connected.link.request(request).await.unwrap().unwrap();
    let answer: Value = answer.parse().unwrap();
    assert_eq!(answer["isError"], true);
    assert_eq!(text(&answer), "it broke half way");
    assert_eq!(
        progress(&mut connected.incoming).await["message"],
        "half of it"
    );
    // One that says that there was more than came is not believed either.
    let request = outgoing(4, "tools/call", json!({"name": "lie", "arguments": {}}));
    let error = connected.link.request(request).await.unwrap().unwrap_err();
    assert!(error.message.contains("1 of 2 chunks came"), "{error:?}");
    connected.link.close().await;
    rig.all_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_at_its_deadline_and_nobody_else_waits() {
    let mut hanging = config("hanging");
    // Longer than a busy machine takes for what is called beside it.
    hanging.timeout = Duration::from_secs(4);
    let gated = Gated::with(vec![
        (hanging, quick("ok")),
        (config("well"), Rig::new("ok")),
    ])
    .await;
    let caller = orchestra_hub::Caller {
        face: "test",
        client: None,
    };
    let other = gated.hub.attach(caller, orchestra_hub::Toolset::All);
    let hangs =
        tokio::spawn(
            async move { told(&other, "hanging__hang", json!({}), Default::default()).await },
        );
    gated.plugins[0].notes("hangs").await;
    let mut beside = 0;
    while !hangs.is_finished() {
        gated.is_well("well").await;
        gated.is_well("hanging").await;
        assert!(gated.tools().contains(&"hanging__echo".to_owned()));
        beside += 1;
    }
    assert!(beside > 2, "{beside}");
    let told = hangs.await.unwrap();
    assert_eq!(told.error["code"], "timeout", "{told:?}");
    assert!(told.may_have_run());
    // The handler is told that nobody waits any more.
    gated.plugins[0].notes("cancelled").await;
    gated.close().await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_stands_still_is_replaced_while_others_work() {
    let mut still = config("still");
    // Longer than a busy machine takes to answer.
    still.timeout = Duration::from_secs(2);
    still.health.timeout = Duration::from_secs(2);
    still.health.max_timeouts = 2;
    let gated = Gated::with(vec![(still, quick("ok")), (config("well"), Rig::new("ok"))]).await;
    gated.is_well("still").await;
    gated.plugins[0].signal_last(Signal::STOP);
    let process = *gated.plugins[0].processes().last().unwrap();
    until("it stands still", || {
        stat(process, 0).is_some_and(|state| state == "T")
    })
    .await;
    let began = Instant::now();
    let mut failed = 0;
    loop {
        let told = gated.call("still__echo", json!({})).await;
        gated.is_well("well").await;
        assert!(gated.tools().contains(&"well__echo".to_owned()));
        if !told.is_error {
            break;
        }
        failed += 1;
        assert!(began.elapsed() < PATIENCE, "{told:?}");
    }
    assert!(failed > 0, "it stood still");
    assert_eq!(gated.plugins[0].processes().len(), 2);
    gated.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_plugin_that_is_killed_fail_at_once() {
    let gated = Gated::with(vec![(config("killed"), quick("ok"))]).await;
    let gated = Arc::new(gated);
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let gated = Arc::clone(&gated);
        calls.spawn(async move { gated.call("killed__hang", json!({})).await });
    }
    let hangs = || {
        let noted = gated.plugins[0].noted();
        noted.iter().filter(|line| *line == "hangs").count() == 20
    };
    until("all hang", hangs).await;
    gated.plugins[0].kill_last();
    for told in calls.join_all().await {
        assert!(told.is_error && told.may_have_run(), "{told:?}");
        assert_ne!(told.error["code"], "timeout", "{told:?}");
    }
    gated.recovers("killed").await;
    let gated = Arc::into_inner(gated).unwrap();
    gated.close().await;
}

#[tokio::test]
async fn of_two_plugins_with_one_tool_one_keeps_it_and_that_is_told() {
    let lines = crate::log::Lines::default();
    let _guard = lines.listen();
    let [mut first, mut second] = ["first", "second"].map(config);
    first.prefix = false;
    second.prefix = false;
    let gated = Gated::with(vec![(first, Rig::new("ok")), (second, Rig::new("many"))]).await;
    until("all are offered", || gated.tools().len() == 10_010).await;
    let of = |name: &str| gated.tools().iter().filter(|tool| *tool == name).count();
    assert_eq!((of("count"), of("tool-00000")), (1, 1));
    // Whoever is shown is the one that is called.
    for number in 0..3 {
        let told = gated.call("count", json!({"key": number})).await;
        assert!(!told.is_error, "{told:?}");
    }
    let ran = |rig: &Rig| {
        let noted = rig.noted();
        noted
            .iter()
            .filter(|line| line.starts_with("count"))
            .count()
    };
    let mut ran: Vec<usize> = gated.plugins.iter().map(ran).collect();
    let other = if ran[0] == 3 { "second" } else { "first" };
    ran.sort_unstable();
    assert_eq!(ran, [0, 3]);
    let told = lines.take();
    let hidden: Vec<_> = told
        .iter()
        .filter(|line| line.contains("names are already taken"))
        .collect();
    assert_eq!(hidden.len(), 1, "{told:?}");
    let owner = format!("provider={other} count=10");
    assert!(hidden[0].contains(&owner), "{hidden:?}");
    // The order stays.
    assert_eq!(gated.tools(), gated.tools());
    gated.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_change_with_each_start_are_those_of_now() {
    let gated = Gated::with(vec![(config("changing"), quick("changing"))]).await;
    let mut notices = gated.attachment.take_notices().unwrap();
    let generation = || {
        let tools = gated.tools();
        let found = tools.iter().filter(|tool| tool.contains("generation-"));
        let found: Vec<String> = found.cloned().collect();
        assert!(found.len() <= 1, "{found:?}");
        found.first().cloned()
    };
    let mut seen = generation().expect("its first");
    for _ in 0..3 {
        gated.plugins[0].kill_last();
        gated.recovers("changing").await;
        until("its next", || generation().is_some_and(|now| now != seen)).await;
        seen = generation().unwrap();
        let pid = *gated.plugins[0].processes().last().unwrap();
        let pid = format!("-{}-", pid.as_raw_nonzero());
        assert!(seen.contains(&pid), "{seen} of {pid}");
        let told = async {
            while !matches!(notices.next().await, Some(HubNotice::CatalogChanged { .. })) {}
        };
        timeout(PATIENCE, told).await.expect("it is told");
    }
    gated.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_that_change_all_the_time_are_followed_and_hold_nobody_up() {
    let gated = Gated::with(vec![
        (config("changing"), quick("changing")),
        (config("well"), Rig::new("ok")),
    ])
    .await;
    let id = "fake.plugin".parse().unwrap();
    let shows = |generation: usize| {
        let end = format!("-{generation}");
        let tools = gated.tools();
        let mut tools = tools.iter().filter(|tool| tool.contains("generation-"));
        tools.next().is_some_and(|tool| tool.ends_with(&end))
    };
    let mut generation = 0;
    // One by one, and then faster than anybody can ask.
    for burst in [1, 1, 1, 1, 1, 300] {
        for _ in 0..burst {
            let told = gated.call("changing__renew", json!({})).await;
            generation = told.text.parse().unwrap();
            assert!(gated.links[0].changed(&id));
        }
        gated.is_well("well").await;
        until("the last is shown", || shows(generation)).await;
    }
    assert_eq!(generation, 305);
    gated.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_with_ten_thousand_tools_is_listed_and_called() {
    let gated = Gated::with(vec![(config("many"), Rig::new("many"))]).await;
    let tools = gated.tools();
    assert_eq!(tools.len(), 10_010);
    gated.is_well("many").await;
    gated.close().await;
}

/// A field of what the system says of a process: 0 is its state, 1 its parent.
#[cfg(target_os = "linux")]
fn stat(process: Pid, field: usize) -> Option<String> {
    let stat = format!("/proc/{}/stat", process.as_raw_nonzero());
    let stat = std::fs::read_to_string(stat).ok()?;
    let rest = stat.get(stat.rfind(')')? + 2..)?;
    rest.split(' ').nth(field).map(str::to_owned)
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_ends_with_its_orchestrator_however_that_ends() {
    for signal in [Signal::KILL, Signal::TERM, Signal::ABORT] {
        let home = tempfile::tempdir().unwrap();
        let mut host = Command::new(program())
            .arg(format!("--host={}", home.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let noted = || {
            let text = std::fs::read_to_string(home.path().join("tally"));
            let text = text.unwrap_or_default();
            let id = text.lines().find_map(|line| line.strip_prefix("pid "));
            id.and_then(|id| Pid::from_raw(id.parse().ok()?))
        };
        until("its plugin runs", || noted().is_some()).await;
        let plugin = noted().unwrap();
        let guard = stat(plugin, 1).unwrap();
        let guard = Pid::from_raw(guard.parse().unwrap()).unwrap();
        assert_ne!(guard, Pid::from_child(&host), "it has a guard");
        kill_process(Pid::from_child(&host), signal).unwrap();
        host.wait().unwrap();
        // It ignores whoever asks it to end.
        // Who reaps them, when their orchestrator is gone, is for the system to say.
        let is_over = |id: Pid| {
            let state = stat(id, 0);
            test_kill_process(id).is_err() || state.is_none_or(|state| state == "Z")
        };
        until("nothing is left", || {
            [plugin, guard].into_iter().all(is_over)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_hangs_in_its_boot_is_given_up() {
    let mut rig = quick("never-boots");
    rig.spec.start_timeout = Duration::from_secs(2);
    let error = rig.connector().connect().await.err().unwrap();
    assert!(matches!(error, ClientError::SlowStart { .. }), "{error:?}");
    rig.all_gone().await;
}
