//! Servers that are our children, through the client: what the transport contract asks for, and
//! the bounds within which they run.

use std::{collections::HashSet, sync::Arc, time::Duration};

use orchestra_hub::{Answers, Cx, ListKind};
use orchestra_mcp::client::{
    ChildConfig, ChildConnector, ChildLimits, Client, ClientConfig, ClientError, ClientEvent,
    Launcher, ProtocolChoice, Reply, Sandbox, ServerCall, TransportType,
};
use orchestra_secret::Masker;
use orchestra_wire::{Era, RawJson};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    sync::Barrier,
    task::JoinSet,
    time::{Instant, interval, timeout},
};

use crate::faulty::{self, Server, example, gone, text_of};

fn client(config: ChildConfig) -> Client {
    let name = config.name.clone();
    let connector = Arc::new(ChildConnector::new(config));
    let config = ClientConfig {
        name,
        protocol: ProtocolChoice::Era(Era::Session),
        ..ClientConfig::default()
    };
    Client::new(connector, config)
}

async fn invoke(client: &Client, method: &str, params: Value) -> Result<Value, ClientError> {
    let deadline = Instant::now() + faulty::PATIENCE;
    let params = RawJson::of(&params).unwrap();
    let cx = Cx {
        deadline: Some(deadline.into_std()),
        ..Cx::default()
    };
    match client
        .call(ServerCall::new(method.to_owned(), Some(params), cx))
        .await?
    {
        Reply::Result(result) => Ok(result.parse().unwrap()),
        Reply::InputRequired(_) => panic!("the server asks something"),
    }
}

async fn call(client: &Client, tool: &str, arguments: Value) -> Result<Value, ClientError> {
    let params = json!({"name": tool, "arguments": arguments});
    invoke(client, "tools/call", params).await
}

fn only_id(client: &Client) -> u32 {
    let ids = client.process_ids();
    assert_eq!(ids.len(), 1);
    ids[0]
}

/// `TestStdioTransport`: spawn a process, send a request, verify the response.
#[tokio::test]
async fn test_stdio_transport() {
    let client = client(faulty::config(&[]));
    let result = call(&client, "echo", json!({"text": "hello"}))
        .await
        .unwrap();
    assert_eq!(result["content"][0]["text"], "hello");
    let process = only_id(&client);
    call(&client, "echo", json!({})).await.unwrap();
    assert_eq!(only_id(&client), process, "one process serves all calls");
    let metadata = client.metadata();
    assert_eq!(metadata.transport, TransportType::Stdio);
    client.health_check().await.unwrap();
    client.close().await;
    gone(process).await;
    let error = call(&client, "echo", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "transport: connection closed");
}

/// `TestStdioProcessCrash`: error handling and restart.
#[tokio::test]
async fn test_stdio_process_crash() {
    let client = client(faulty::config(&[]));
    call(&client, "echo", json!({})).await.unwrap();
    let first = only_id(&client);
    let crash = json!({"code": 5, "words": "out of paper"});
    let error = call(&client, "crash", crash).await.unwrap_err();
    assert_eq!(error.to_string(), "transport: stdio process crashed");
    let told = error.explain();
    assert!(
        told.contains("exit code 5") && told.contains("out of paper"),
        "{told}"
    );
    // The next call finds it running again.
    call(&client, "echo", json!({})).await.unwrap();
    let second = only_id(&client);
    assert_ne!(first, second);
    client.close().await;
    gone(first).await;
    gone(second).await;
}

/// Repeats a variable of its environment in the answer to `$1`, as an error or as a revision.
const REPEATS: &str = r#"while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *"\"method\":\"$1\""*)
      case "$2" in
        error) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no: %s","data":{"was":"%s"}}}\n' "$id" "$SHOP_PASSWORD" "$SHOP_PASSWORD" ;;
        revision) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"no: %s","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" "$SHOP_PASSWORD" ;;
      esac ;;
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

#[tokio::test]
async fn secrets_that_a_server_repeats_in_errors_are_masked() {
    const SECRET: &str = "pwvalue5544332211";
    for (method, how) in [
        ("initialize", "error"),
        ("initialize", "revision"),
        ("tools/list", "error"),
        ("tools/call", "error"),
    ] {
        let client = client(ChildConfig {
            command: "sh".into(),
            args: ["-c", REPEATS, "sh", method, how].map(Into::into).to_vec(),
            variables: vec![("SHOP_PASSWORD".into(), SECRET.into())],
            ..faulty::config(&[])
        });
        let method = match method {
            "tools/list" => method,
            _ => "tools/call",
        };
        let error = invoke(&client, method, json!({"name": "x"})).await;
        let error = error.unwrap_err();
        let told = format!("{error} {error:?} {} {}", error.explain(), error.in_short());
        let is_masked = told.contains("no: ***") && !told.contains(SECRET);
        assert!(is_masked, "{method} {how}: {told}");
        let status = format!("{:?} {:?}", *client.status().borrow(), client.stats());
        assert!(!status.contains(SECRET), "{method} {how}: {status}");
        client.close().await;
    }
}

/// The end of a process is seen also when somebody else holds its pipes: here one that has left its
/// session, after the guard that would have killed it was killed itself.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_is_gone_ends_its_link_whoever_holds_its_pipes() {
    let faulty = faulty::config(&[]);
    let script = "\"$0\" alone & echo $! > \"$1\"; exec \"$0\"";
    let directory = tempfile::tempdir().unwrap();
    let noted = directory.path().join("alone");
    let client = client(ChildConfig {
        command: "sh".into(),
        args: vec![
            "-c".into(),
            script.into(),
            faulty.command.clone(),
            noted.clone().into(),
        ],
        ..faulty
    });
    call(&client, "echo", json!({})).await.unwrap();
    let process = only_id(&client);
    let alone = std::fs::read_to_string(noted).unwrap();
    let alone = Pid::from_raw(alone.trim().parse().unwrap()).unwrap();
    // It leaves its session at once, but when is its own affair.
    let left = async {
        while rustix::process::getsid(Some(alone)).unwrap() != alone {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(faulty::PATIENCE, left).await.unwrap();
    let mut status = client.status();
    status.borrow_and_update();
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let guard = fields.skip(1).map(|id| id.parse().unwrap()).next();
    kill_process(Pid::from_raw(guard.unwrap()).unwrap(), Signal::KILL).unwrap();
    // It is noticed without a call, and the next one finds it running again.
    timeout(faulty::PATIENCE, status.changed())
        .await
        .expect("the end is noticed")
        .unwrap();
    call(&client, "echo", json!({})).await.unwrap();
    assert_ne!(only_id(&client), process);
    rustix::process::test_kill_process(alone).expect("it holds the pipes");
    let _ = kill_process(alone, Signal::KILL);
    client.close().await;
}

/// `TestStdioHandshake`: a real server, greeted in the era that it speaks.
#[tokio::test]
async fn test_stdio_handshake() {
    for protocol in [ProtocolChoice::Auto, ProtocolChoice::Era(Era::Session)] {
        let config = ChildConfig {
            launcher: Some(Launcher::new(example("faulty"), ["__child"])),
            ..ChildConfig::new("echo", example("echo"))
        };
        let connector = Arc::new(ChildConnector::new(config));
        let config = ClientConfig {
            protocol,
            ..ClientConfig::default()
        };
        let client = Client::new(connector, config);
        let result = call(&client, "echo", json!({"text": "hello"}))
            .await
            .unwrap();
        assert_eq!(result["content"][0]["text"], "hello");
        let facts = client.server().unwrap();
        let info: Value = facts.info.as_ref().unwrap().parse().unwrap();
        assert_eq!(info["name"], "echo");
        let expected = match protocol {
            ProtocolChoice::Auto => Era::Stateless,
            _ => Era::Session,
        };
        assert_eq!(facts.revision.era(), expected);
        client.close().await;
    }
}

/// An unresponsive process: a timeout, and it is killed (seed 002, acceptance of stdio).
#[tokio::test]
async fn a_server_that_does_not_answer_any_more_is_a_timeout_and_is_killed() {
    let mut config = faulty::config(&["--silent", "--ignore-end", "--ignore-term"]);
    (config.grace_stdin, config.grace_term) = (Duration::ZERO, Duration::ZERO);
    let connector = Arc::new(ChildConnector::new(config));
    let config = ClientConfig {
        protocol: ProtocolChoice::Era(Era::Session),
        call_timeout: Duration::from_millis(300),
        health_timeout: Duration::from_millis(300),
        ..ClientConfig::default()
    };
    let client = Client::new(connector, config);
    let error = call(&client, "echo", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "transport: invocation timeout");
    // It is asked whether it is well, and does not answer that either.
    for process in client.process_ids() {
        gone(process).await;
    }
    timeout(faulty::PATIENCE, client.close()).await.unwrap();
}

/// A server that changes its tools all the time: each change is told until the list was fetched.
#[tokio::test]
async fn tools_that_change_are_told() {
    let client = client(faulty::config(&["--change-every", "20"]));
    let mut events = client.take_events().unwrap();
    client.start();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let event = timeout(faulty::PATIENCE, events.recv()).await.unwrap();
        if !matches!(event, Some(ClientEvent::ListChanged(ListKind::Tools))) {
            continue;
        }
        let tools = client.list(ListKind::Tools).await.unwrap();
        let generation = tools.iter().find_map(|tool| {
            let tool: Value = tool.parse().unwrap();
            let number = tool["name"].as_str()?.strip_prefix("generation_")?;
            number.parse::<u64>().ok()
        });
        seen.push(generation.unwrap());
    }
    assert!(seen.is_sorted() && seen[0] < seen[2], "{seen:?}");
    client.close().await;
}

/// What one caller has seen.
#[derive(Default)]
struct Seen {
    calls: u32,
    broken: u32,
}

/// Calls by turns what may run twice and what may not, until told to stop.
async fn call_on(client: Client, caller: u32, until: Instant) -> Seen {
    let mut seen = Seen::default();
    while Instant::now() < until {
        let safe = seen.calls % 2 == 0;
        let text = format!(
            "{}-{caller}-{}",
            if safe { "safe" } else { "once" },
            seen.calls
        );
        let params = json!({"name": "echo", "arguments": {"text": text}});
        let cx = Cx {
            deadline: Some((Instant::now() + faulty::PATIENCE).into_std()),
            ..Cx::default()
        };
        let params = Some(RawJson::of(&params).unwrap());
        let mut call = ServerCall::new("tools/call", params, cx);
        call.safe = safe;
        seen.calls += 1;
        match timeout(2 * faulty::PATIENCE, client.call(call)).await {
            Ok(Ok(Reply::Result(result))) => assert!(result.as_str().contains(&text)),
            Ok(Err(ClientError::Crashed(_) | ClientError::Closed)) if !safe => seen.broken += 1,
            other => panic!("{text}: {other:?}"),
        }
    }
    seen
}

/// A server that is killed again and again: what may run twice is answered all the same, nothing
/// else runs twice, whoever uses another server sees nothing of it, and no process is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_again_and_again_is_invisible_to_safe_calls() {
    let directory = tempfile::tempdir().unwrap();
    let journal = directory.path().join("journal");
    let victim = client(faulty::config(&["--journal", journal.to_str().unwrap()]));
    let other = client(faulty::config(&[]));
    call(&victim, "echo", json!({})).await.unwrap();
    call(&other, "echo", json!({})).await.unwrap();
    let (neighbour, until) = (only_id(&other), Instant::now() + Duration::from_secs(3));
    let mut callers = JoinSet::new();
    for caller in 0..20 {
        callers.spawn(call_on(victim.clone(), caller, until));
    }
    let undisturbed = tokio::spawn(call_on(other.clone(), 0, until));
    let (mut killed, mut back) = (Vec::new(), Vec::new());
    let mut status = victim.status();
    // Others are answered by each process as well.
    let mut pace = interval(Duration::from_millis(200));
    while Instant::now() < until {
        status.borrow_and_update();
        for id in victim.process_ids() {
            let process = Pid::from_raw(id.cast_signed()).unwrap();
            // It may be gone by itself.
            let _ = kill_process(process, Signal::KILL);
            killed.push(id);
        }
        let moment = Instant::now();
        let last = killed.last().copied();
        while victim.process_ids().is_empty() || victim.process_ids().last().copied() == last {
            timeout(faulty::PATIENCE, status.changed())
                .await
                .expect("it comes back")
                .unwrap();
        }
        assert_eq!(victim.process_ids().len(), 1, "one process at most");
        back.push(moment.elapsed());
        // One that ends before it has answered anything is not started again at once.
        let text = json!({"text": "well"});
        let well = json!({"name": "echo", "arguments": text});
        let mut call = ServerCall::new("tools/call", RawJson::of(&well).ok(), Cx::default());
        call.safe = true;
        victim.call(call).await.unwrap();
        pace.reset();
        pace.tick().await;
    }
    let seen = callers.join_all().await;
    assert_eq!(undisturbed.await.unwrap().broken, 0);
    assert_eq!(only_id(&other), neighbour);
    killed.extend(victim.process_ids());
    victim.close().await;
    other.close().await;
    for id in killed.iter().copied().chain([neighbour]) {
        gone(id).await;
    }
    let journal = std::fs::read_to_string(journal).unwrap();
    let mut ran = HashSet::new();
    for line in journal.lines().filter(|line| line.contains("once-")) {
        let (_, call) = line.split_once(' ').unwrap();
        assert!(ran.insert(call), "{call} ran twice");
    }
    let calls: u32 = seen.iter().map(|seen| seen.calls).sum();
    let broken: u32 = seen.iter().map(|seen| seen.broken).sum();
    back.sort();
    let (kills, median, worst) = (back.len(), back[back.len() / 2], back[back.len() - 1]);
    println!("{kills} kills, {calls} calls, {broken} told; back after {median:?}, {worst:?}");
}

#[tokio::test]
async fn what_cannot_be_started_says_what_to_do() {
    let config = ChildConfig::new("none", "no-such-server");
    let error = ChildConnector::new(config).start().await.err().unwrap();
    let told = error.to_string();
    assert!(
        told.contains("`no-such-server` is not on PATH; install it"),
        "{told}"
    );
    assert_eq!(error.code(), "unreachable");
}

/// What a server says on standard error is kept, logged and told to the model: its secrets are not.
#[tokio::test]
async fn no_secret_of_a_server_leaves_by_its_standard_error() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("server.log");
    let mut config = faulty::config(&[]);
    config.command = "sh".into();
    // In two pieces, the second without the end of its line.
    let script = "printf 'the key is planted' >&2; printf -- '-one, and %s\nlast: %s' \"$MORE\" \"$API_KEY\" >&2; exit 3";
    config.args = vec!["-c".into(), script.into()];
    config.variables = vec![
        ("API_KEY".into(), "planted-one".into()),
        ("MORE".into(), "planted-two".into()),
    ];
    config.secrets = Masker::default().value("planted-two");
    config.log = Some(log.clone());
    let server = Server::of(config).await;
    let error = server.call(1, "echo", json!({})).await.unwrap_err();
    let ClientError::Crashed(crash) = &error else {
        panic!("{error:?}")
    };
    let kept = std::fs::read_to_string(log).unwrap();
    for told in [&crash.stderr_tail, &kept, &error.explain()] {
        assert!(told.contains("the key is ***, and ***"), "{told}");
        assert!(told.contains("last: ***"), "{told}");
        assert!(!told.contains("planted"), "{told}");
    }
}

#[tokio::test]
async fn secret_in_a_long_line_is_masked_wherever_the_line_is_divided() {
    const SECRET: &str = "Zt-9f8e7d6c5b4a39281706f5e4d3c2b1a0";
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("server.log");
    let mut config = faulty::config(&[]);
    config.command = "sh".into();
    // The secret crosses the ends of what is read at once, and of what is kept of a line of standard output.
    let script = r#"for length in 4086 8182 16374; do
            line=$(head -c $length /dev/zero | tr '\0' a)$API_KEY
            printf '%s\n' "$line"
            printf '%s\n' "$line" >&2
        done
        exit 3"#;
    config.args = vec!["-c".into(), script.into()];
    config.variables = vec![("API_KEY".into(), SECRET.into())];
    config.log = Some(log.clone());
    let server = Server::of(config).await;
    let error = server.call(1, "echo", json!({})).await.unwrap_err();
    let ClientError::Crashed(crash) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(crash.stderr_tail.matches("a***\n").count(), 3);
    let kept = std::fs::read_to_string(log).unwrap();
    assert!(kept.matches("a***\n").count() >= 3, "{}", kept.len());
    for told in [&crash.stderr_tail, &kept, &error.explain()] {
        assert!(!told.contains("Zt-9"));
    }
}

/// Calls a tool of a server that has limits, and tells which one ended it.
/// What a server prints between its messages is counted, over all its processes, and kept where its
/// standard error is.
#[tokio::test]
async fn what_is_printed_beside_the_protocol_is_counted_and_kept_without_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("server.log");
    let faulty = faulty::config(&[]);
    let script = "echo \"ready with $API_TOKEN\"; exec \"$0\"";
    let mut config = ChildConfig {
        command: "sh".into(),
        args: vec!["-c".into(), script.into(), faulty.command.clone()],
        ..faulty
    };
    config.variables = vec![("API_TOKEN".into(), "correct-horse-battery".into())];
    config.log = Some(log.clone());
    let client = client(config);
    call(&client, "echo", json!({})).await.unwrap();
    let stats = client.stats();
    assert_eq!(stats.junk_lines, 1);
    let first = stats.junk.unwrap();
    assert!(first.starts_with("ready with ***"), "{first}");
    let _ = call(&client, "crash", json!({"code": 5, "words": "out"})).await;
    call(&client, "echo", json!({})).await.unwrap();
    assert_eq!(client.stats().junk_lines, 2);
    let end = Instant::now() + faulty::PATIENCE;
    loop {
        let kept = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(!kept.contains("horse"), "{kept}");
        if kept.matches("stdout: ready with ***\n").count() == 2 {
            break;
        }
        assert!(Instant::now() < end, "{kept}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.close().await;
}

async fn limit_of(limits: ChildLimits, tool: &str) -> String {
    let mut config = faulty::config(&[]);
    config.limits = limits;
    let server = Server::of(config).await;
    match server.call(1, tool, json!({})).await {
        Err(error @ ClientError::Crashed(_)) => {
            let told = error.explain();
            let limit = told.split("ran into its limit: ").nth(1).unwrap_or(&told);
            limit
                .lines()
                .next()
                .unwrap()
                .trim_end_matches("; the end of its stderr:")
                .to_owned()
        }
        other => panic!("{tool}: {other:?}"),
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_limit_that_ended_a_server_is_named() {
    let limits = ChildLimits {
        address_space: Some(512 << 20),
        open_files: Some(64),
        processes: Some(16),
        cpu_time: Some(Duration::from_secs(1)),
    };
    for (tool, expected) in [
        ("memory", "probably address space (536870912 bytes)"),
        ("files", "probably open files (64)"),
        ("forks", "processes (16)"),
        ("cpu", "CPU time (1 s)"),
    ] {
        assert_eq!(limit_of(limits.clone(), tool).await, expected);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_sandboxed_server_reaches_its_directory_and_no_network() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("inside");
    std::fs::write(&inside, "inside").unwrap();
    let outside = tempfile::NamedTempFile::new().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = faulty::config(&[]);
    config.cwd = Some(directory.path().to_owned());
    config.sandbox = Sandbox::Workspace {
        paths: Vec::new(),
        read_only: Vec::new(),
        protected: Vec::new(),
    };
    let server = Server::of(config).await;
    let read = json!({"path": inside});
    assert_eq!(text_of(server.call(1, "read", read).await), "inside");
    let read = json!({"path": outside.path()});
    let told = text_of(server.call(2, "read", read).await);
    assert!(told.starts_with("Permission denied"), "{told}");
    let connect = json!({"address": listener.local_addr().unwrap()});
    let told = text_of(server.call(3, "connect", connect).await);
    assert!(told.starts_with("Network is unreachable"), "{told}");
}

/// A server that says of no question for which call it is, and callers who come at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_reach_their_callers_over_connections_of_their_own() {
    let config = ClientConfig {
        name: "faulty".to_owned(),
        protocol: ProtocolChoice::Era(Era::Session),
        pool: 3,
        ..ClientConfig::default()
    };
    let client = Client::new(Arc::new(ChildConnector::new(faulty::config(&[]))), config);
    let mut callers = JoinSet::new();
    let all = Arc::new(Barrier::new(3));
    for connection in 1..=3_u64 {
        let (client, all) = (client.clone(), Arc::clone(&all));
        callers.spawn(async move {
            let arguments = json!({"text": format!("who is {connection}?")});
            let params = json!({"name": "ask", "arguments": arguments});
            let mut cx = Cx {
                connection,
                deadline: Some((Instant::now() + faulty::PATIENCE).into_std()),
                ..Cx::default()
            };
            cx.features.elicitation = true;
            let params = RawJson::of(&params).unwrap();
            let mut call = ServerCall::new("tools/call", Some(params), cx);
            let Reply::InputRequired(input) = client.call(call.clone()).await.unwrap() else {
                panic!("it does not ask")
            };
            let asked: Value = input.requests.parse().unwrap();
            // None is answered before all are asked.
            all.wait().await;
            let message = format!("who is {connection}?");
            assert_eq!(asked["q1"]["params"]["message"], *message);
            let answer = json!({"q1": {"action": "accept", "content": {"n": connection}}});
            call.cx.answers = Some(Answers {
                responses: RawJson::of(&answer).unwrap(),
                state: input.state,
            });
            let Reply::Result(result) = client.call(call).await.unwrap() else {
                panic!("it asks twice")
            };
            let result: Value = result.parse().unwrap();
            let text = result["content"][0]["text"].as_str().unwrap();
            let answer: Value = serde_json::from_str(text).unwrap();
            assert_eq!(answer["result"]["content"]["n"], connection);
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
    let processes: HashSet<u32> = client.process_ids().into_iter().collect();
    assert_eq!(processes.len(), 3);
    client.close().await;
    for process in processes {
        gone(process).await;
    }
}
