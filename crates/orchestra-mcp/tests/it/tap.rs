//! Recordings of what goes over connections, and what is said again from them.

use std::{
    fs,
    io::{self, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{
    Agreed, Answer, ClientError, Connected, Connector, Incoming, Link, Outgoing, ServerMessage,
    TransportType,
    tap::{
        Direction, Recording, RecordingError, ReplayConfig, Step, Tap, TapConfig, TapConnector,
        TapFile, TapStream, TapWatch, replay,
    },
};
use orchestra_secret::Masker;
use orchestra_wire::{ErrorCode, RawJson, RequestId, Revision, RpcError};
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Handler = fn(&str, Option<Value>) -> Result<Value, RpcError>;

/// A server that answers by a function, and asks for roots when it is told to.
struct Server(Handler);

struct ServerLink {
    handler: Handler,
    incoming: mpsc::Sender<Incoming>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Connector for Server {
    fn transport(&self) -> TransportType {
        TransportType::Stdio
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let (sender, incoming) = mpsc::channel(16);
        let link = ServerLink {
            handler: self.0,
            incoming: sender,
            said: Arc::default(),
        };
        Box::pin(std::future::ready(Ok(Connected {
            link: Arc::new(link),
            incoming,
        })))
    }
}

impl Link for ServerLink {
    fn request(&self, request: Outgoing) -> BoxFuture<Result<Answer, ClientError>> {
        let params = request.params.map(|params| params.parse().unwrap());
        let answer = (self.handler)(&request.method, params);
        let answer = answer.map(|value| RawJson::of(&value).unwrap());
        let (incoming, said) = (self.incoming.clone(), Arc::clone(&self.said));
        Box::pin(async move {
            if request.method == "ask" {
                let message = ServerMessage::Request {
                    id: RequestId::from_number(77),
                    method: "roots/list".to_owned(),
                    params: None,
                };
                let related = None;
                incoming.send(Incoming { message, related }).await.unwrap();
                while said.lock().unwrap().is_empty() {
                    tokio::task::yield_now().await;
                }
                let told = said.lock().unwrap().join(" ");
                return Ok(Ok(RawJson::of(&told).unwrap()));
            }
            Ok(answer)
        })
    }

    fn notify(&self, _: &str, _: Option<RawJson>) -> BoxFuture<Result<(), ClientError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn respond(&self, _: RequestId, answer: Answer) -> BoxFuture<Result<(), ClientError>> {
        self.said.lock().unwrap().push(match answer {
            Ok(result) => result.as_str().to_owned(),
            Err(error) => error.message.into_owned(),
        });
        Box::pin(std::future::ready(Ok(())))
    }

    fn agreed(&self, agreed: Agreed) -> BoxFuture<()> {
        assert_eq!(agreed.revision, Revision::V2025_11_25);
        Box::pin(std::future::ready(()))
    }

    fn ended(&self) -> BoxFuture<ClientError> {
        Box::pin(std::future::pending())
    }

    fn close(&self) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

fn answer(method: &str, params: Option<Value>) -> Result<Value, RpcError> {
    match method {
        "initialize" => Ok(json!({"protocolVersion": "2025-11-25", "capabilities": {}})),
        "tools/call" => Ok(json!({"content": [{"type": "text", "text": params.unwrap()["name"]}]})),
        _ => Err(RpcError::new(
            ErrorCode::METHOD_NOT_FOUND,
            "method not found",
        )),
    }
}

fn answer_otherwise(method: &str, params: Option<Value>) -> Result<Value, RpcError> {
    match method {
        "tools/call" => Ok(json!({"content": [], "isError": true})),
        _ => answer(method, params),
    }
}

fn to_file(path: &Path, masker: Masker) -> Tap {
    Tap::open(TapConfig {
        file: Some(TapFile::at(path.to_owned())),
        trace: None,
        masker,
        ..TapConfig::default()
    })
    .unwrap()
}

fn recording(path: &Path) -> Result<Recording, RecordingError> {
    Recording::read(BufReader::new(fs::File::open(path).unwrap()), None)
}

async fn say(link: &dyn Link, id: u64, method: &str, params: Value) -> Answer {
    let outgoing = Outgoing {
        along: Default::default(),
        departure: None,
        id: RequestId::from_number(id),
        method: method.to_owned(),
        params: Some(RawJson::of(&params).unwrap()),
        name: None,
        headers: vec![("authorization".to_owned(), "planted-in-header".to_owned())],
    };
    link.request(outgoing).await.unwrap()
}

/// A session with a server, recorded.
async fn record(path: &Path, masker: Masker) {
    let tap = to_file(path, masker);
    let connector = TapConnector::new(Arc::new(Server(answer)), tap.clone(), "one");
    let Connected { link, mut incoming } = connector.connect().await.unwrap();
    say(&*link, 1, "initialize", json!({})).await.unwrap();
    link.notify("notifications/initialized", None)
        .await
        .unwrap();
    say(&*link, 2, "tools/call", json!({"name": "echo"}))
        .await
        .unwrap();
    say(&*link, 3, "nothing", json!({})).await.unwrap_err();
    let secret = json!({"name": "echo", "arguments": {"pin": "planted-argument"}});
    say(&*link, 4, "tools/call", secret).await.unwrap();
    let asked = async {
        let said = incoming.recv().await.unwrap();
        assert!(matches!(said.message, ServerMessage::Request { .. }));
        link.observe(&said.message);
        let roots = RawJson::of(&json!({"roots": [{"uri": "file:///a"}]})).unwrap();
        link.respond(RequestId::from_number(77), Ok(roots))
            .await
            .unwrap();
    };
    let (told, ()) = tokio::join!(say(&*link, 5, "ask", json!({})), asked);
    assert!(told.unwrap().as_str().contains("file:///a"));
    assert_eq!(tap.finish().dropped, 0);
}

#[tokio::test]
async fn a_recording_said_again_gives_the_same_replies() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tap.jsonl");
    record(&path, Masker::default().member("pin")).await;
    let read = recording(&path).unwrap();
    assert_eq!((read.steps.len(), read.left_out, read.dropped), (5, 1, 0));
    let connected = Server(answer).connect().await.unwrap();
    let report = replay(read, connected, &ReplayConfig::default()).await;
    assert_eq!((report.requests, report.same, report.unknown), (4, 4, 0));
    assert!(report.differences.is_empty(), "{report:?}");

    let connected = Server(answer_otherwise).connect().await.unwrap();
    let report = replay(
        recording(&path).unwrap(),
        connected,
        &ReplayConfig::default(),
    )
    .await;
    assert_eq!((report.requests, report.same), (4, 3));
    let [difference] = &report.differences[..] else {
        panic!("{report:?}");
    };
    assert_eq!(difference.method, "tools/call");
    let places: Vec<&str> = difference
        .changes
        .iter()
        .map(|change| change.at.as_str())
        .collect();
    assert_eq!(places, ["/result/content/0", "/result/isError"]);
}

#[tokio::test]
async fn planted_secrets_are_in_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tap.jsonl");
    let masker = Masker::default()
        .member("pin")
        .value("planted-value")
        .environment([("MY_TOKEN".to_owned(), "planted-token".to_owned())]);
    record(&path, masker.clone()).await;
    let tap = to_file(&path, masker);
    let mut stream = TapStream::new(tap.clone(), "one", Direction::Received);
    for line in [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"env\":\"A=planted-value\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"planted-value\",\"params\":{\"planted-token\":1}}\n",
        "a log line with planted-token and Authorization: Basic planted-basic\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":1,\"message\":\"planted\\u002dvalue\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"authorization\":[\"planted-list\"]}}\n",
        "[{\"password\":\"planted-batch\"}]\n",
    ] {
        stream.passed(line.as_bytes());
    }
    assert_eq!(tap.finish().recorded, 6);
    let mut files = 0;
    for entry in fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("planted"), "{text}");
        assert!(!text.contains("\\u002d"), "{text}");
        assert!(text.contains("***"));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        files += 1;
    }
    assert_eq!(files, 1);
}

#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_cut_anywhere_is_recorded_alike() {
    let directory = tempfile::tempdir().unwrap();
    let sent = concat!(
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\r\n\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n",
    );
    let mut received = b"no JSON \xff\xfe\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}".to_vec();
    let mut told = Vec::new();
    for size in [1, 7, 1_000] {
        let path = directory.path().join(format!("{size}.jsonl"));
        let shown = Shown::default();
        let tap = Tap::open(TapConfig {
            file: Some(TapFile::at(path.clone())),
            trace: Some(Box::new(shown.clone())),
            ..TapConfig::default()
        })
        .unwrap();
        for (direction, bytes) in [
            (Direction::Sent, sent.as_bytes()),
            (Direction::Received, &received[..]),
        ] {
            let mut stream = TapStream::new(tap.clone(), "s", direction);
            bytes.chunks(size).for_each(|chunk| stream.passed(chunk));
            stream.ended();
        }
        assert_eq!(tap.finish().recorded, 4);
        let lines = fs::read_to_string(&path).unwrap();
        let lines = lines.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            assert!(line["time"].as_u64().unwrap() > 1_700_000_000_000);
            line["time"] = 0.into();
            if line["ms"].is_number() {
                line["ms"] = 0.into();
            }
            line
        });
        told.push(lines.collect::<Vec<_>>());
        let shown = String::from_utf8(shown.0.lock().unwrap().clone()).unwrap();
        let words = |line: &str| {
            line.split(' ')
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let shown: Vec<Vec<String>> = shown.lines().map(words).collect();
        assert_eq!(shown[0], [">", "s", "1", "tools/list", "46", "B"]);
        assert_eq!(shown[2], ["<", "s", "-", "-", "10", "B"]);
        assert_eq!(shown[3][..6], ["<", "s", "1", "tools/list", "36", "B"]);
        assert_eq!(shown[3][7], "ms");
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0], told[2]);
    assert_eq!(told[0][2]["message"], "no JSON \u{fffd}\u{fffd}");
    assert_eq!(told[0][3]["method"], "tools/list");
    received.clear();
}

/// A writer that waits until it is let go.
struct Stuck(mpsc::UnboundedReceiver<()>);

impl io::Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.blocking_recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_cannot_be_kept_up_with_is_left_out_and_counted_and_nobody_waits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tap.jsonl");
    let (go, stuck) = mpsc::unbounded_channel();
    let tap = Tap::open(TapConfig {
        file: Some(TapFile::at(path.clone())),
        trace: Some(Box::new(Stuck(stuck))),
        ..TapConfig::default()
    })
    .unwrap();
    let mut stream = TapStream::new(tap.clone(), "s", Direction::Sent);
    let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n";
    for _ in 0..10_000 {
        stream.passed(line);
    }
    drop(go);
    let totals = tap.finish();
    assert_eq!(totals.recorded + totals.dropped, 10_000);
    assert!(totals.dropped > 5_000, "{totals:?}");
    let lines = fs::read_to_string(path).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: u64 = lines.filter_map(|line| line["dropped"].as_u64()).sum();
    assert_eq!(told, totals.dropped);
}

#[test]
fn files_are_put_aside_when_they_are_long() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tap.jsonl");
    let tap = Tap::open(TapConfig {
        file: Some(TapFile {
            path: path.clone(),
            max_bytes: 1_000,
            keep: 2,
        }),
        ..TapConfig::default()
    })
    .unwrap();
    let mut stream = TapStream::new(tap.clone(), "s", Direction::Sent);
    for number in 0..100 {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"x\"}}\n");
        stream.passed(line.as_bytes());
    }
    assert_eq!(tap.finish().recorded, 100);
    let files = fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = files.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["tap.jsonl", "tap.jsonl.1", "tap.jsonl.2"]);
    for name in names {
        assert!(fs::metadata(directory.path().join(name)).unwrap().len() <= 1_000);
    }
    assert!(fs::read_to_string(path).unwrap().contains("\"id\":99,"));
}

#[test]
fn what_is_no_recording_is_refused() {
    let read = |text: &str, server| Recording::read(text.as_bytes(), server);
    assert!(matches!(read("", None), Err(RecordingError::Empty)));
    assert!(matches!(
        read("{\"a\": ", None),
        Err(RecordingError::Line { line: 1, .. })
    ));
    let line = |server: &str| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let line = json!({"time": 1, "direction": "sent", "server": server, "message": message});
        format!("{line}\n")
    };
    let two = line("a") + "{\"time\":2,\"dropped\":3}\n" + &line("b");
    let Err(RecordingError::Several(names)) = read(&two, None) else {
        panic!("two servers");
    };
    assert_eq!(names, "a, b");
    let one = read(&two, Some("b")).unwrap();
    assert_eq!((one.steps.len(), one.dropped), (1, 3));
    assert!(
        matches!(&one.steps[0], Step::Request { method, answer: None, .. } if method == "ping")
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_is_a_difference() {
    struct Silent;
    impl Link for Silent {
        fn request(&self, _: Outgoing) -> BoxFuture<Result<Answer, ClientError>> {
            Box::pin(std::future::pending())
        }
        fn notify(&self, _: &str, _: Option<RawJson>) -> BoxFuture<Result<(), ClientError>> {
            Box::pin(std::future::ready(Err(ClientError::Closed)))
        }
        fn respond(&self, _: RequestId, _: Answer) -> BoxFuture<Result<(), ClientError>> {
            Box::pin(std::future::ready(Ok(())))
        }
        fn agreed(&self, _: Agreed) -> BoxFuture<()> {
            Box::pin(std::future::ready(()))
        }
        fn ended(&self) -> BoxFuture<ClientError> {
            Box::pin(std::future::pending())
        }
        fn close(&self) -> BoxFuture<()> {
            Box::pin(std::future::ready(()))
        }
    }
    let sent = json!({"time": 1, "direction": "sent", "server": "s",
        "message": {"jsonrpc": "2.0", "id": 1, "method": "ping"}});
    let received = json!({"time": 1, "direction": "received", "server": "s",
        "message": {"jsonrpc": "2.0", "id": 1, "result": {}}});
    let text = format!("{sent}\n{received}\n");
    let recording = Recording::read(text.as_bytes(), None).unwrap();
    let connected = Connected {
        link: Arc::new(Silent),
        incoming: mpsc::channel(1).1,
    };
    let config = ReplayConfig {
        timeout: Duration::from_secs(5),
        ..ReplayConfig::default()
    };
    let report = replay(recording, connected, &config).await;
    let now = report.differences[0].changes[0].now.as_deref();
    assert_eq!(now, Some("no answer within 5s"));
}

#[tokio::test]
async fn what_passes_is_told_to_those_who_look_and_to_nobody_else() {
    let watch = TapWatch::default();
    let tap = Tap::open(TapConfig {
        watch: Some(watch.clone()),
        masker: Masker::default().value("hush-hush"),
        ..TapConfig::default()
    })
    .unwrap();
    let said = |tap: &Tap, id: u64| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "read", "arguments": {"key": "hush-hush"}}});
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"isError": true,
            "content": "x".repeat(70_000)}});
        for (direction, message) in [(Direction::Sent, request), (Direction::Received, answer)] {
            let mut stream = TapStream::new(tap.clone(), "files", direction);
            stream.passed(format!("{message}\n").as_bytes());
            stream.ended();
        }
    };
    said(&tap, 1);
    let mut looking = watch.look();
    said(&tap, 2);
    assert_eq!(tap.finish().recorded, 2);
    let mut told = Vec::new();
    while let Ok(message) = looking.try_recv() {
        told.push(serde_json::from_str::<Value>(&message).unwrap());
    }
    assert_eq!(told.len(), 2, "{told:?}");
    let (asked, answered) = (&told[0], &told[1]);
    assert_eq!(
        (&asked["n"], &asked["id"], &asked["type"]),
        (&json!(1), &json!(2), &json!("request"))
    );
    assert_eq!(
        (&asked["tool"], &asked["masked"]),
        (&json!("read"), &json!(true))
    );
    assert_eq!(asked["body"]["params"]["arguments"]["key"], "***");
    assert_eq!(
        (&answered["type"], &answered["error"]),
        (&json!("response"), &json!(true))
    );
    assert_eq!(answered["method"], "tools/call");
    // The beginning of what is long.
    assert_eq!(answered["body"].as_str().unwrap().len(), 64 * 1024);
}
