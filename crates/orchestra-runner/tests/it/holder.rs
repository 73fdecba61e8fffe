//! Who holds, who follows, and what is lost when either is killed.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use orchestra_runner::{
    holder::{
        Call, CallError, Place, Refused, Role, Seat, Served, Service, Settings, Slots, Work,
        short_directory,
    },
    journal::{OnceKey, Reader},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::watch,
    time::timeout,
};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn program() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/holder")
}

/// A process of the example, and what it has said so far.
pub(crate) struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    said: Vec<String>,
}

impl Process {
    pub(crate) fn start(words: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self {
            child,
            lines,
            said: Vec::new(),
        }
    }

    pub(crate) fn until(&mut self, begins: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self
                .lines
                .recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|_| panic!("no {begins}: {:?}", self.said.last()));
            self.said.push(line.clone());
            if line.starts_with(begins) {
                return line;
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends its input; all that it has said.
    pub(crate) fn end(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
        self.said.extend(self.lines.iter());
        std::mem::take(&mut self.said)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn told(root: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(root.join("runner.json")).ok()?).ok()
}

/// The process that holds, once there is one.
fn holder(root: &Path) -> u32 {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(told) = told(root) {
            return u32::try_from(told["pid"].as_u64().unwrap()).unwrap();
        }
        assert!(Instant::now() < end, "nobody holds");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Reads all events as they come, and finds holes and doubles.
fn follow_events(root: &Path, ends: &Arc<Mutex<bool>>) -> thread::JoinHandle<u64> {
    let (reader, ends) = (Reader::new(root), Arc::clone(ends));
    thread::spawn(move || {
        let mut last = 0;
        loop {
            let is_end = *ends.lock().unwrap();
            let page = reader.all_events(last, 500).unwrap();
            for event in &page.events {
                assert_eq!((event.seq, event.number), (last + 1, last + 1));
                last = event.seq;
            }
            assert!(page.damage.is_none());
            if page.events.is_empty() && is_end {
                return last;
            }
            thread::sleep(Duration::from_millis(2));
        }
    })
}

#[test]
fn holders_are_killed_at_random_and_nothing_acknowledged_is_lost_or_done_twice() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("plans");
    fs::create_dir(&root).unwrap();
    let word = root.to_str().unwrap();
    let mut processes: Vec<Process> = Vec::new();
    let mut said: Vec<String> = Vec::new();
    // All at once, so that they race from the start.
    for number in 0..9 {
        processes.push(Process::start(&["load", word, &format!("p{number}")]));
    }
    let ends = Arc::new(Mutex::new(false));
    let reading = follow_events(&root, &ends);
    let (mut gap, kills) = (Duration::ZERO, 12);
    for kill in 0..kills {
        let pid = holder(&root);
        let pause = u64::from(getrandom::u32().unwrap() % 150);
        thread::sleep(Duration::from_millis(pause));
        let at = processes
            .iter()
            .position(|process| process.child.id() == pid);
        let Some(at) = at else { continue };
        let mut killed = processes.swap_remove(at);
        killed.kill();
        let begin = Instant::now();
        while told(&root).is_none_or(|told| told["pid"] == pid) {
            assert!(
                begin.elapsed() < PATIENCE,
                "nobody holds after {kill} kills"
            );
            thread::sleep(Duration::from_millis(1));
        }
        gap = gap.max(begin.elapsed());
        said.extend(killed.end());
        processes.push(Process::start(&["load", word, &format!("k{kill}")]));
    }
    // Everybody goes on.
    for process in &mut processes {
        let acked = process.said.len();
        while process.said.len() < acked + 3 {
            process.until("ack");
        }
    }
    processes
        .into_iter()
        .for_each(|process| said.extend(process.end()));
    *ends.lock().unwrap() = true;
    let count = reading.join().unwrap();
    let errors: Vec<_> = said
        .iter()
        .filter(|line| line.starts_with("error"))
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    check(&root, &said, count);
    println!("{count} events, {kills} kills, at most {gap:?} without a holder");
}

fn check(root: &Path, said: &[String], count: u64) {
    let reader = Reader::new(root);
    let mut kept: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let (mut last, mut epoch) = (0, 0);
    loop {
        let page = reader.all_events(last, 1_000).unwrap();
        for event in &page.events {
            let body: Value = serde_json::from_str(event.body.get()).unwrap();
            let of = body["epoch"].as_u64().unwrap();
            assert!(of >= epoch, "an older holder wrote after a newer one");
            (last, epoch) = (event.seq, of);
            let who = body["said"]["who"].as_str().unwrap().to_owned();
            kept.entry(who)
                .or_default()
                .push(body["said"]["n"].as_u64().unwrap());
        }
        if !page.is_more {
            break;
        }
    }
    assert_eq!(last, count);
    for numbers in kept.values() {
        assert!(
            numbers.is_sorted_by(|one, other| one < other),
            "in order, and none twice"
        );
    }
    for line in said {
        let words: Vec<_> = line.split(' ').collect();
        if words[0] == "ack" {
            let number: u64 = words[2].parse().unwrap();
            assert!(
                kept[words[1]].binary_search(&number).is_ok(),
                "{line} is lost"
            );
        }
    }
    // With keys nothing is left in doubt, and so nothing is left out.
    for (who, numbers) in kept.iter().filter(|(who, _)| who.ends_with("true")) {
        assert!(
            numbers.iter().zip(0..).all(|(one, other)| *one == other),
            "{who}: {numbers:?}"
        );
    }
    let holders = said.iter().filter_map(|line| line.strip_prefix("holds "));
    let mut epochs: Vec<u64> = holders.map(|epoch| epoch.parse().unwrap()).collect();
    epochs.sort_unstable();
    assert!(
        epochs.is_sorted_by(|one, other| one < other),
        "no two hold in one epoch"
    );
    assert!(epochs.len() >= 10, "{epochs:?}");
}

struct Echo(watch::Sender<u64>, Mutex<Option<watch::Sender<bool>>>);

impl Echo {
    fn new(seq: watch::Sender<u64>) -> Self {
        Self(seq, Mutex::new(Some(watch::Sender::new(false))))
    }
}

impl Service for Echo {
    fn call(&self, call: Call) -> Work<'_, Result<Value, Refused>> {
        Box::pin(async move {
            match call.method.as_str() {
                "hang" => {
                    // Whoever wants to know that it was asked for says so.
                    if call.params == "asked" {
                        self.0.send_modify(|asked| *asked += 1);
                    }
                    std::future::pending().await
                }
                // What it does for the plans ends, as when it panics.
                "break" => {
                    self.1.lock().unwrap().take();
                    Ok(call.params)
                }
                "refuse" => Err(Refused {
                    code: "no".to_owned(),
                    message: "not this".to_owned(),
                    data: Some(call.params),
                }),
                _ => Ok(call.params),
            }
        })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    fn is_live(&self) -> watch::Receiver<bool> {
        let live = self.1.lock().unwrap();
        live.as_ref().unwrap().subscribe()
    }

    fn end(&self) -> Work<'_, ()> {
        Box::pin(async {})
    }
}

pub(crate) fn settings(root: &Path, seq: &watch::Sender<u64>) -> Settings {
    let seq = seq.clone();
    let start = Arc::new(move || -> Work<'static, Result<Served, String>> {
        let service: Served = Arc::new(Echo::new(seq.clone()));
        Box::pin(async move { Ok(service) })
    });
    Settings::new(root, "test", start)
}

async fn pair(root: &Path) -> (Seat, Seat, watch::Sender<u64>) {
    let seq = watch::Sender::new(0);
    let first = Seat::open(settings(root, &seq)).unwrap();
    first.until(|role| matches!(role, Role::Holds(_))).await;
    let second = Seat::open(settings(root, &seq)).unwrap();
    second.until(|role| matches!(role, Role::Follows(_))).await;
    (first, second, seq)
}

pub(crate) fn call(method: &str, params: Value) -> Call {
    Call {
        method: method.to_owned(),
        params,
        once: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ask_the_holder_at_once_over_one_connection() {
    let root = tempfile::tempdir().unwrap();
    let (first, second, seq) = pair(root.path()).await;
    let second = Arc::new(second);
    let mut work = tokio::task::JoinSet::new();
    for number in 0..500 {
        let second = Arc::clone(&second);
        work.spawn(async move {
            let asked = json!({"number": number});
            assert_eq!(second.call(call("echo", asked.clone())).await, Ok(asked));
        });
    }
    work.join_all().await;
    assert_eq!(first.call(call("echo", json!(1))).await, Ok(json!(1)));
    let refused = second.call(call("refuse", json!([2]))).await.unwrap_err();
    let CallError::Refused(refused) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (refused.code.as_str(), refused.data),
        ("no", Some(json!([2])))
    );
    // Who gives up makes room: more than may be asked at once.
    for _ in 0..200 {
        let hangs = timeout(
            Duration::from_millis(1),
            second.call(call("hang", json!(null))),
        );
        assert!(hangs.await.is_err());
    }
    assert_eq!(second.call(call("echo", json!(3))).await, Ok(json!(3)));
    let hangs = (0..300).map(|_| {
        let second = Arc::clone(&second);
        tokio::spawn(async move { second.call(call("hang", json!(null))).await })
    });
    let hangs: Vec<_> = hangs.collect();
    let begin = Instant::now();
    let is_full = || {
        timeout(
            Duration::from_millis(100),
            second.call(call("echo", json!(4))),
        )
    };
    while is_full().await.is_ok() {
        assert!(begin.elapsed() < PATIENCE, "they are all worked on");
    }
    hangs.iter().for_each(tokio::task::JoinHandle::abort);
    assert_eq!(second.call(call("echo", json!(5))).await, Ok(json!(5)));
    // A long poll, here and there, of more than may ask at once.
    assert_eq!(second.changes(0, Duration::from_millis(5)).await, Ok(0));
    let many = (0..300).map(|_| {
        let second = Arc::clone(&second);
        tokio::spawn(async move { second.changes(4, PATIENCE).await })
    });
    let many: Vec<_> = many.collect();
    assert_eq!(second.call(call("echo", json!(6))).await, Ok(json!(6)));
    let here = tokio::spawn(async move { (first.changes(4, PATIENCE).await, first) });
    seq.send_replace(3);
    seq.send_replace(7);
    for waits in many {
        assert_eq!(timeout(PATIENCE, waits).await.unwrap().unwrap(), Ok(7));
    }
    assert_eq!(timeout(PATIENCE, here).await.unwrap().unwrap().0, Ok(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_of_a_holder_that_is_gone_is_asked_of_the_next_or_told_in_doubt() {
    let root = tempfile::tempdir().unwrap();
    let mut process = Process::start(&["hand", root.path().to_str().unwrap()]);
    process.until("ready");
    let seq = watch::Sender::new(0);
    let follower = Arc::new(Seat::open(settings(root.path(), &seq)).unwrap());
    follower
        .until(|role| matches!(role, Role::Follows(_)))
        .await;
    let mut asked = Vec::new();
    for once in [None, OnceKey::parse("0123456789abcdef")] {
        let call = Call {
            once,
            ..call("hang", json!("asked"))
        };
        let follower = Arc::clone(&follower);
        asked.push(tokio::spawn(async move { follower.call(call).await }));
    }
    // Both have arrived: what is asked after them is answered.
    follower.call(call("echo", json!(1))).await.unwrap();
    process.kill();
    let Role::Holds(_) = follower.until(|role| matches!(role, Role::Holds(_))).await else {
        panic!()
    };
    let without = timeout(PATIENCE, asked.remove(0)).await.unwrap().unwrap();
    assert_eq!(without, Err(CallError::MaybeDone));
    // Our own service is asked again, and hangs as well.
    let mut is_asked = seq.subscribe();
    let again = is_asked.wait_for(|asked| *asked == 1);
    timeout(PATIENCE, again).await.unwrap().unwrap();
    let with = asked.remove(0);
    assert!(!with.is_finished());
    with.abort();
    assert_eq!(follower.call(call("echo", json!(2))).await, Ok(json!(2)));
}

#[tokio::test]
async fn strangers_are_not_served() {
    let root = tempfile::tempdir().unwrap();
    let (_first, second, _) = pair(root.path()).await;
    let found = told(root.path()).unwrap();
    let socket = PathBuf::from(found["socket"].as_str().unwrap());
    for (path, mode) in [(&socket, 0o600), (&root.path().join("runner.json"), 0o600)] {
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            mode
        );
    }
    let hello = |token: &str| {
        let hello = json!({"type": "hello", "protocol": 1, "token": token, "name": "n"});
        format!(
            "{hello}\n{}\n",
            json!({"type": "call", "id": 1, "method": "echo", "params": 5})
        )
    };
    let right = found["token"].as_str().unwrap();
    let long = format!("{{\"type\":\"{}", "x".repeat(10_000));
    for said in [
        hello(&"0".repeat(64)),
        hello(""),
        "\n".to_owned(),
        "x".to_owned(),
        long,
    ] {
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        let _ = stream.write_all(said.as_bytes()).await;
        let _ = stream.shutdown().await;
        let mut heard = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut heard))
            .await
            .unwrap();
        assert_eq!(heard, b"", "{}", &said[..said.len().min(90)]);
    }
    let mut stream = UnixStream::connect(&socket).await.unwrap();
    stream.write_all(hello(right).as_bytes()).await.unwrap();
    let mut heard = vec![0; 1_000];
    let mut length = 0;
    while !String::from_utf8_lossy(&heard[..length]).contains("\"result\":5") {
        let read = timeout(PATIENCE, stream.read(&mut heard[length..]))
            .await
            .unwrap()
            .unwrap();
        assert!(read > 0);
        length += read;
    }
    // What is no request ends its own connection only.
    stream.write_all(b"{}\n").await.unwrap();
    let end = timeout(PATIENCE, stream.read_to_end(&mut Vec::new()))
        .await
        .unwrap();
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    assert_eq!(second.call(call("echo", json!(1))).await, Ok(json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_holds_up_nobody_else() {
    let root = tempfile::tempdir().unwrap();
    let (_first, second, _) = pair(root.path()).await;
    let found = told(root.path()).unwrap();
    let mut slow = UnixStream::connect(found["socket"].as_str().unwrap())
        .await
        .unwrap();
    let hello = json!({"type": "hello", "protocol": 1, "token": found["token"], "name": "slow"});
    slow.write_all(format!("{hello}\n").as_bytes())
        .await
        .unwrap();
    let large = json!({"type": "call", "id": 1, "method": "echo", "params": "x".repeat(200_000)});
    let large = format!("{large}\n");
    // As much as it can say without ever reading an answer, or until it is sent away.
    let floods = async {
        while slow.write_all(large.as_bytes()).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    assert!(timeout(Duration::from_millis(500), floods).await.is_err());
    for number in 0..50 {
        let answered = timeout(PATIENCE, second.call(call("echo", json!(number)))).await;
        assert_eq!(answered.unwrap(), Ok(json!(number)));
    }
}

#[test]
fn look_at_the_lock_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let place = Place::new(root.path(), &short_directory());
    let left_behind = root.path().join("runner.json");
    fs::write(&left_behind, "{}").unwrap();
    assert!(!place.is_led().unwrap());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    let leadership = place.lead().unwrap().unwrap();
    fs::write(&left_behind, "{}").unwrap();
    assert!(place.is_led().unwrap());
    drop(leadership);
    assert!(!place.is_led().unwrap());
    assert!(left_behind.exists());
}

#[tokio::test]
async fn what_was_left_behind_is_neither_believed_nor_fatal() {
    let root = tempfile::tempdir().unwrap();
    let socket = root.path().join("runner.sock");
    // Somebody listens there, and a file tells of them.
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let stale = json!({"protocol": 1, "version": "0", "pid": 1, "began": 1, "socket": socket, "token": "t"});
    fs::write(root.path().join("runner.json"), stale.to_string()).unwrap();
    fs::write(root.path().join(".lock"), "{}").unwrap();
    let (first, second, _) = pair(root.path()).await;
    assert_eq!(second.call(call("echo", json!(1))).await, Ok(json!(1)));
    drop(listener);
    // Its place is taken by something else while it holds: nobody is told of that by it.
    let found = told(root.path()).unwrap();
    let mut foreign = found.clone();
    foreign["pid"] = json!(1);
    fs::write(root.path().join("runner.json"), foreign.to_string()).unwrap();
    let seq = watch::Sender::new(0);
    let impatient = Settings {
        // Longer than a busy machine takes to find another holder.
        patience: Duration::from_secs(2),
        ..settings(root.path(), &seq)
    };
    let third = Seat::open(impatient).unwrap();
    let nobody = third.call(call("echo", json!(1))).await.unwrap_err();
    assert_eq!(
        nobody.to_string(),
        "nothing was done, because no process runs the plans of this workspace: another process listens on the socket of the process that runs the plans; end that process and try again"
    );
    first.end().await;
    second.until(|role| matches!(role, Role::Holds(_))).await;
    assert_eq!(third.call(call("echo", json!(4))).await, Ok(json!(4)));
}

/// A service that has ended by itself holds up nobody: not its own process, and not those that follow it.
#[tokio::test]
async fn who_holds_without_a_service_gives_its_place_up() {
    let root = tempfile::tempdir().unwrap();
    let (first, second, _) = pair(root.path()).await;
    assert_eq!(second.call(call("break", json!(1))).await, Ok(json!(1)));
    let held = second.until(|role| matches!(role, Role::Holds(_)));
    timeout(PATIENCE, held).await.unwrap();
    let follows = first.until(|role| matches!(role, Role::Follows(_)));
    timeout(PATIENCE, follows).await.unwrap();
    assert_eq!(first.call(call("echo", json!(2))).await, Ok(json!(2)));
    first.end().await;
    // Nobody else is there: it begins anew itself.
    assert_eq!(second.call(call("break", json!(3))).await, Ok(json!(3)));
    let lost = second.until(|role| !matches!(role, Role::Holds(_)));
    timeout(PATIENCE, lost).await.unwrap();
    let held = second.until(|role| matches!(role, Role::Holds(_)));
    timeout(PATIENCE, held).await.unwrap();
    assert_eq!(second.call(call("echo", json!(4))).await, Ok(json!(4)));
}

#[tokio::test]
async fn a_path_may_be_of_any_length_and_letters() {
    let root = tempfile::tempdir().unwrap();
    let mut long = root.path().join("a b \u{1f980}");
    for _ in 0..4 {
        long.push("directory-of-a-long-name");
    }
    let (_first, second, _) = pair(&long).await;
    assert_eq!(second.call(call("echo", json!(1))).await, Ok(json!(1)));
    let socket = PathBuf::from(told(&long).unwrap()["socket"].as_str().unwrap());
    assert!(socket.starts_with(short_directory()) && socket.as_os_str().len() <= 100);
    assert_eq!(
        fs::metadata(short_directory())
            .unwrap()
            .permissions()
            .mode()
            & 0o077,
        0
    );
    let short = root.path().join("a b \u{1f980}");
    let (_first, second, _) = pair(&short).await;
    assert_eq!(second.call(call("echo", json!(1))).await, Ok(json!(1)));
    assert!(
        told(&short).unwrap()["socket"]
            .as_str()
            .unwrap()
            .ends_with("\u{1f980}/runner.sock")
    );
}

#[tokio::test]
async fn sockets_of_holders_that_were_killed_are_removed_by_the_next() {
    use std::os::unix::net::UnixListener;
    let root = tempfile::tempdir().unwrap();
    let short = root.path().join("short");
    fs::create_dir(&short).unwrap();
    let names = [
        "0123456789abcdef.sock",
        "00112233445566aa.sock",
        "another.sock",
    ];
    let [dead, live, another] = names.map(|name| short.join(name));
    let listener = UnixListener::bind(&live).unwrap();
    for path in [&dead, &another] {
        drop(UnixListener::bind(path).unwrap());
    }
    for path in [&dead, &live, &another] {
        let touched = std::process::Command::new("touch")
            .args(["-d", "2020-01-01"])
            .arg(path)
            .status();
        assert!(touched.unwrap().success());
    }
    let young = short.join("99887766554433ff.sock");
    drop(UnixListener::bind(&young).unwrap());
    let seq = watch::Sender::new(0);
    let settings = Settings {
        short,
        ..settings(&root.path().join("root"), &seq)
    };
    let seat = Seat::open(settings).unwrap();
    seat.until(|role| matches!(role, Role::Holds(_))).await;
    let end = Instant::now() + PATIENCE;
    while dead.exists() {
        assert!(Instant::now() < end, "it stays");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    seat.end().await;
    assert!(live.exists() && another.exists() && young.exists());
    drop(listener);
}

#[tokio::test]
async fn who_cannot_begin_says_why_and_leaves_the_place() {
    let root = tempfile::tempdir().unwrap();
    let seq = watch::Sender::new(0);
    let broken = Settings {
        start: Arc::new(|| Box::pin(async { Err("the disk is full".to_owned()) })),
        ..settings(root.path(), &seq)
    };
    let broken = Seat::open(broken).unwrap();
    broken.until(|role| matches!(role, Role::Failed(_))).await;
    let told = broken.call(call("echo", json!(1))).await.unwrap_err();
    assert_eq!(
        told.to_string(),
        "nothing was done, because no process runs the plans of this workspace: the disk is full"
    );
    let whole = Seat::open(settings(root.path(), &seq)).unwrap();
    whole.until(|role| matches!(role, Role::Holds(_))).await;
    broken.until(|role| matches!(role, Role::Follows(_))).await;
    assert_eq!(broken.call(call("echo", json!(2))).await, Ok(json!(2)));
    // Whoever removes the lock ends the holding of it, and it is taken again: by the broken one too, which
    // leaves it at once.
    fs::remove_file(root.path().join(".lock")).unwrap();
    assert_eq!(
        timeout(PATIENCE, whole.call(call("echo", json!(3))))
            .await
            .unwrap(),
        Ok(json!(3))
    );
    let end = Instant::now() + PATIENCE;
    while !root.path().join(".lock").exists() {
        assert!(Instant::now() < end, "nobody has noticed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    whole.until(|role| matches!(role, Role::Holds(_))).await;
    assert_eq!(whole.call(call("echo", json!(4))).await, Ok(json!(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_or_makes_again_what_somebody_is_removing() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("plans");
    let (first, second, _seq) = pair(&root).await;
    // As who removes all of it does, one file after the other; what is served fails at the first that is missed.
    fs::remove_file(root.join(".lock")).unwrap();
    second.call(call("break", json!(1))).await.unwrap();
    let mut tries = 0..100;
    while let Err(error) = fs::remove_dir_all(&root) {
        assert!(tries.next().is_some(), "{error}");
    }
    for seat in [&first, &second] {
        let gone = seat.until(|role| matches!(role, Role::Gone));
        timeout(PATIENCE, gone).await.unwrap();
    }
    assert!(!root.exists());
}

#[test]
fn a_holder_whose_place_nobody_takes_is_told() {
    let root = tempfile::tempdir().unwrap();
    let word = root.path().to_str().unwrap();
    let own = program();
    let mut first = Process::start(&["hand", word, own.to_str().unwrap(), "unable"]);
    first.until("ready");
    let said = first.end();
    let log = root.path().join("runner.log").display().to_string();
    let is_told = |line: &String| line.starts_with("error ") && line.contains(&log);
    assert!(said.iter().any(is_told), "{said:?}");
}

#[test]
fn slots_are_shared_by_all_processes_and_kept_by_a_job_whose_runner_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let word = directory.path().to_str().unwrap();
    let mut first = Process::start(&["slot", word, "2", "child"]);
    first.until("slot");
    let child: i32 = first
        .until("child")
        .trim_start_matches("child ")
        .parse()
        .unwrap();
    let mut second = Process::start(&["slot", word, "2"]);
    second.until("slot");
    let slots = Slots::new(directory.path(), "shell", 2).unwrap();
    assert!(slots.try_acquire().unwrap().is_none());
    let others = Slots::new(directory.path(), "agent", 1).unwrap();
    assert!(
        others.try_acquire().unwrap().is_some(),
        "they have their own"
    );
    // What a killed process has is free at once; what its job has is not.
    first.child.kill().unwrap();
    assert!(slots.try_acquire().unwrap().is_none());
    let mut third = Process::start(&["slot", word, "2"]);
    second.kill();
    third.until("slot");
    assert!(slots.try_acquire().unwrap().is_none());
    kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    let end = Instant::now() + PATIENCE;
    while slots.try_acquire().unwrap().is_none() {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(1));
    }
    assert!(Slots::new(directory.path(), "../x", 2).is_err());
}
