//! What becomes of engines that refuse, are silent, are foreign or are stuck.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Mutex,
};

use orchestra_board::Slug;
use orchestra_place::Leadership;
use orchestra_process::Process;
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    sync::{mpsc::unbounded_channel, oneshot},
    task::JoinHandle,
};

use running::{run_directory, run_engine};

use super::*;
use crate::engine::{
    Engines, Meaning, MeaningError, NearHit, Outcome, Place, Settings, Standing, endpoint::Token,
};

#[path = "../../../tests/it/running.rs"]
mod running;

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(60);

/// A workspace in which this process leads, and a process that is told to be its engine.
struct Stand {
    directory: TempDir,
    place: Place,
    leadership: Leadership,
    started: Started,
}

impl Stand {
    /// The process runs a script, with `$1` the workspace.
    fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::new(run_directory(directory.path()));
        let leadership = place.lead().unwrap().unwrap();
        let path = directory.path().join("engine");
        fs::write(&path, format!("#!/bin/sh\nshift 2\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let started = Started::start(&path, directory.path(), &place).unwrap();
        Self {
            directory,
            place,
            leadership,
            started,
        }
    }

    /// One that waits.
    fn waiting() -> Self {
        Self::new("exec sleep 600")
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn process(&self) -> Process {
        self.started.process
    }

    fn endpoint(&self, address: std::net::SocketAddr) -> Endpoint {
        Endpoint {
            pid: self.process().id(),
            began: self.process().began(),
            ..Endpoint::new(self.path(), address, Some(Token::random().unwrap()))
        }
    }

    fn engines(&self) -> Engines {
        engines(self.path())
    }

    /// Waits until the process has ended.
    async fn ended(&self) {
        let begin = std::time::Instant::now();
        while self.process().is_there() {
            assert!(begin.elapsed() < PATIENCE);
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if let Some(id) = rustix::process::Pid::from_raw(self.process().id().cast_signed())
            && self.process().is_there()
        {
            rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        }
    }
}

fn engines(workspace: &Path) -> Engines {
    Engines::new(Settings {
        workspace: workspace.to_owned(),
        run: run_directory(workspace),
        client: "test",
        starts: false,
        always_asks: true,
        program: PathBuf::from("/none"),
        search_path: None,
        tell: Arc::new(|_| {}),
    })
}

/// An engine in this process, of a workspace of its own.
struct Served {
    directory: TempDir,
    endpoint: Endpoint,
    /// Ends it when it is dropped.
    _end: oneshot::Sender<()>,
    _running: JoinHandle<Outcome>,
}

impl Served {
    async fn start() -> Self {
        Self::with(None).await
    }

    async fn with(meaning: Option<Arc<dyn Meaning>>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().canonicalize().unwrap();
        let (endpoint, end, running) = run_engine(workspace, meaning).await;
        Self {
            directory,
            endpoint,
            _end: end,
            _running: running,
        }
    }
}

/// A model that is opened until it is said what is wrong with it.
#[derive(Debug, Default)]
struct Damaged(Mutex<Option<String>>);

impl Meaning for Damaged {
    fn model(&self) -> String {
        "tiny".to_owned()
    }

    fn near(&self, _: &Slug, _: &str, _: usize) -> Result<Vec<NearHit>, MeaningError> {
        Ok(Vec::new())
    }

    fn vectors(&self, _: &Slug) -> u64 {
        0
    }

    fn standing(&self) -> Standing {
        let trouble = lock(&self.0).clone();
        let phase = trouble.as_ref().map_or(OPENING, |_| "failing");
        Standing {
            model: self.model(),
            phase: phase.to_owned(),
            trouble,
            ..Standing::default()
        }
    }
}

/// That an engine has said nothing for long.
fn long_silence() -> Silence {
    Silence {
        since: Instant::now().checked_sub(HANGS * 100),
        unanswered: 100,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_refuses_us_is_left_to_those_who_use_it() {
    let (served, stand) = (Served::start().await, Stand::waiting());
    // Its token is another.
    let endpoint = stand.endpoint(served.endpoint.address);
    stand.leadership.publish(&endpoint).unwrap();
    let engines = stand.engines();
    let error = engines.0.reach(&endpoint).await.map(drop).unwrap_err();
    assert!(matches!(error, ConnectionError::Refused(_)), "{error:?}");
    let waiting = engines.clone();
    let waits = tokio::spawn(async move { waiting.0.wait_for(&endpoint, long_silence()).await });
    // It is asked once more at least before it is gone.
    sleep(LOOK_EVERY * 3 / 2).await;
    stand.leadership.withdraw().unwrap();
    let parted = timeout(PATIENCE, waits).await.unwrap().unwrap();
    assert!(matches!(parted, Parted::Ended));
    assert!(stand.process().is_there());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_engine_is_another_even_with_the_same_process_id() {
    let stand = Stand::waiting();
    let nobody = "127.0.0.1:1".parse().unwrap();
    let (gone, next) = (stand.endpoint(nobody), stand.endpoint(nobody));
    stand.leadership.publish(&next).unwrap();
    let engines = stand.engines();
    let waits = engines.0.wait_for(&gone, Silence::default());
    let parted = timeout(PATIENCE, waits).await.unwrap();
    assert!(matches!(parted, Parted::Ended));
    engines.0.kill(&gone).await;
    assert!(stand.process().is_there());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_says_nothing_hangs_and_is_told_to_be_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stand = Stand::waiting();
    let endpoint = stand.endpoint(silent.local_addr().unwrap());
    stand.leadership.publish(&endpoint).unwrap();
    let engines = stand.engines();
    let error = engines.0.reach(&endpoint).await.map(drop).unwrap_err();
    assert!(error.is_silence(), "{error:?}");
    assert_eq!(error.to_string(), "does not answer");
    let parted = engines.0.wait_for(&endpoint, Silence::default()).await;
    assert!(matches!(parted, Parted::Hangs));
    engines.0.kill(&endpoint).await;
    stand.ended().await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_never_says_where_it_listens_is_ended_by_whoever_waits_for_it() {
    let stand = Stand::waiting();
    // As it would have said itself.
    let (pid, began) = (stand.process().id(), stand.process().began());
    let text = serde_json::json!({"pid": pid, "began": began}).to_string();
    let lock = run_directory(stand.path()).path().join("engine.lock");
    fs::write(lock, text).unwrap();
    let engines = stand.engines();
    let begin = Instant::now();
    engines.begin();
    stand.ended().await;
    assert!(begin.elapsed() >= NEVER_TOLD, "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn program_of_another_version_is_run_once_until_its_file_changes() {
    let directory = tempfile::tempdir().unwrap();
    let [program, new, asked] =
        ["orchestra-engine", "new", "asked"].map(|name| directory.path().join(name));
    let install = |version: &str| {
        let script = format!(
            "#!/bin/sh\necho >>{}\necho orchestra-engine {version}\n",
            asked.display()
        );
        fs::write(&new, script).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &program).unwrap();
    };
    let times = || fs::metadata(&asked).map_or(0, |asked| asked.len());
    install("0.9.0");
    let (sender, mut said) = unbounded_channel();
    let settings = engines(directory.path()).0.settings.clone();
    let engines = Engines::new(Settings {
        starts: true,
        program: directory.path().join("orchestra"),
        tell: Arc::new(move |line| drop(sender.send(line.to_owned()))),
        ..settings
    });
    engines.begin();
    let line = said.recv().await.unwrap();
    assert!(line.contains("is orchestra-engine 0.9.0, not"), "{line}");
    sleep(Duration::from_secs(600)).await;
    assert_eq!(times(), 1);
    install("0.9.0-beta");
    sleep(Duration::from_secs(600)).await;
    assert_eq!(times(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_becomes_an_engine_for_others_is_ended_and_said_to_be() {
    let script = "umask 077; cd \"$1\"/state/workspaces/*/run
printf '{\"workspace\":\"%s\",\"version\":\"0.9.0\",\"address\":\"127.0.0.1:1\",\"pid\":%d}' \
    \"$1\" $$ >new && mv new engine.json
exec sleep 600";
    let stand = Stand::new(script);
    let told = stand.started.until_told(&stand.place, stand.path()).await;
    assert!(matches!(told, Err(StartError::Foreign(_))), "{told:?}");
    stand.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_end_an_engine_that_answers_others_is_left_to_them() {
    let (served, stand) = (Served::start().await, Stand::waiting());
    let endpoint = stand.endpoint(served.endpoint.address);
    stand.leadership.publish(&endpoint).unwrap();
    let engines = stand.engines();
    // It was not reached yet, or did not answer a moment ago.
    *lock(&engines.0.started) = Some(stand.started.clone());
    engines.end(Instant::now() + PATIENCE).await;
    assert!(stand.process().is_there());

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = stand.endpoint(silent.local_addr().unwrap());
    stand.leadership.publish(&endpoint).unwrap();
    *lock(&engines.0.started) = Some(stand.started.clone());
    engines.end(Instant::now() + PATIENCE).await;
    stand.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_end_an_engine_that_nobody_else_uses_ends_as_well() {
    // The process stands for the engine that answers.
    let (served, stand) = (Served::start().await, Stand::waiting());
    let workspace = served.directory.path().canonicalize().unwrap();
    let (first, other) = (engines(&workspace), engines(&workspace));
    other.begin();
    assert!(other.answers(PATIENCE).await);
    *lock(&first.0.started) = Some(stand.started.clone());
    first.end(Instant::now() + PATIENCE).await;
    assert!(stand.process().is_there());

    *lock(&other.0.started) = Some(stand.started.clone());
    other.end(Instant::now() + PATIENCE).await;
    stand.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_late_says_nothing_of_the_engine_that_answers_now() {
    let served = Served::start().await;
    let engines = engines(&served.directory.path().canonicalize().unwrap());
    let (ready, _stream) = engines.0.reach(&served.endpoint).await.unwrap();
    let spell = || match &*engines.0.mode.borrow() {
        Mode::Answers(ready) => Some(ready.spell),
        Mode::Looking | Mode::Away => None,
    };
    engines.0.answers(ready.clone());
    let first = spell().unwrap();
    engines.0.away("has ended");
    engines.0.answers(ready.clone());
    engines.0.unanswered(first, "search_memory", "late");
    let second = spell().unwrap();
    assert_eq!(engines.0.strikes.load(Ordering::Relaxed), 0);
    engines.0.still_answers(&ready);
    assert_eq!(spell(), Some(second));
    engines.0.unanswered(second, "search_memory", "in time");
    assert_eq!(spell(), None);
    // What was known a moment ago is not said again.
    engines.0.still_answers(&ready);
    assert_eq!(spell(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_be_opened_is_told_as_soon_as_that_is_known() {
    let damaged = Arc::new(Damaged::default());
    let served = Served::with(Some(damaged.clone())).await;
    let (sender, mut said) = unbounded_channel();
    let engines = Engines::new(Settings {
        tell: Arc::new(move |line| drop(sender.send(line.to_owned()))),
        ..engines(&served.directory.path().canonicalize().unwrap())
            .0
            .settings
            .clone()
    });
    // What was said before is not taken back by an engine that does not know yet.
    engines.tell_trouble("no key");
    engines.begin();
    assert!(engines.answers(PATIENCE).await);
    *lock(&damaged.0) = Some("the model tiny cannot be used".to_owned());
    let until = "until then memories are found by their words";
    for why in ["no key", "the model tiny cannot be used"] {
        let line = timeout(ASKED_EVERY / 2, said.recv()).await.unwrap();
        assert_eq!(line, Some(format!("memory: {why}; {until}")));
    }
}

#[test]
fn an_engine_hangs_after_several_questions_and_some_time_without_an_answer() {
    let begin = Instant::now();
    let mut silence = Silence::default();
    // We were held up ourselves.
    assert!(!silence.lasts(begin, begin + HANGS * 10));
    silence.ends();
    let mut now = begin;
    for _ in 0..5 {
        assert!(!silence.lasts(now, now + ANSWER));
        now += ANSWER;
    }
    assert!(silence.lasts(now, now + ANSWER));
}

#[test]
fn starts_that_do_not_help_are_spaced() {
    let (mut starts, mut now) = (Starts::default(), Instant::now());
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let pause = starts.pause(now);
        pauses.push(pause.as_millis());
        now += pause + Duration::from_millis(10);
    }
    let expected = [
        0, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000,
    ];
    assert_eq!(pauses[..10], expected);
    assert_eq!(starts.pause(now + GOOD), Duration::ZERO);
}
