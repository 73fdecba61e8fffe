//! What the tests of jobs share: a directory for an attempt, orders, and looks at processes.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_process::{Launcher, Sandbox};
use orchestra_runner::{
    logs::{Query, read},
    supervise::{
        Ending, Found, JOB_COMMAND, JobLimits, LogBounds, Order, Program, RunId, Shell, Supervised,
    },
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

/// Longer than anything here takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The example `job` of this crate, which is built with the tests.
pub(super) fn program() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/job")
}

/// A directory for an attempt.
pub(super) struct Rig {
    home: TempDir,
}

impl Rig {
    pub(super) fn new() -> Self {
        let home = TempDir::new().unwrap();
        std::fs::create_dir(home.path().join("attempts")).unwrap();
        Self { home }
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(super) fn attempt(&self) -> PathBuf {
        self.home.path().join("attempts/1")
    }

    pub(super) fn id(&self, run: u32) -> RunId {
        // Jobs have ids of their own; those of tests that run at once differ by their directories.
        let name = self.home.path().file_name().unwrap().to_str().unwrap();
        RunId::new(
            &format!("job-{}", name.trim_start_matches('.')),
            1,
            "work",
            run,
        )
        .unwrap()
    }

    /// A command line for the shell; the first run.
    pub(super) fn shell(&self, line: &str) -> Order {
        self.order(Program::Shell {
            shell: Shell::Sh,
            line: line.to_owned(),
            error_action: None,
        })
    }

    /// The example, told to do something.
    pub(super) fn example(&self, words: &[&str]) -> Order {
        self.order(Program::Process {
            executable: program().into(),
            arguments: words.iter().map(OsString::from).collect(),
        })
    }

    pub(super) fn order(&self, program_of_it: Program) -> Order {
        let path = std::env::var_os("PATH").unwrap();
        Order {
            attempt: self.attempt(),
            id: self.id(1),
            program: program_of_it,
            directory: self.home.path().to_owned(),
            environment: BTreeMap::from([("PATH".into(), path)]),
            limits: JobLimits {
                timeout: Some(PATIENCE * 2),
                ..JobLimits::default()
            },
            sandbox: Sandbox::None,
            board: None,
            input: None,
            secrets: Vec::new(),
            slot: None,
            logs: LogBounds::default(),
            launcher: Some(Launcher::new(program(), [JOB_COMMAND])),
        }
    }

    /// All texts that the command has said.
    pub(super) fn texts(&self) -> Vec<String> {
        let page = read(&self.attempt(), &Query::default()).unwrap();
        page.lines.into_iter().map(|line| line.text).collect()
    }

    /// The text that it says first.
    pub(super) async fn first_text(&self) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(text) = self.texts().into_iter().next() {
                return text;
            }
            assert!(Instant::now() < end, "it says nothing");
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) async fn find(&self, run: u32) -> Found {
        timeout(PATIENCE, Supervised::find(&self.attempt(), &self.id(run)))
            .await
            .unwrap()
            .unwrap()
    }
}

pub(super) async fn start(order: &Order) -> Supervised {
    timeout(PATIENCE, Supervised::start(order))
        .await
        .unwrap()
        .unwrap()
}

pub(super) async fn wait(run: &Supervised) -> Ending {
    timeout(PATIENCE, run.wait()).await.unwrap().unwrap()
}

pub(super) async fn run(order: &Order) -> Ending {
    wait(&start(order).await).await
}

/// The ids that the example tells.
pub(super) fn ids(text: &str) -> Vec<Pid> {
    let ids = text.strip_prefix("ids ").expect(text).split(' ');
    ids.map(|id| pid(id.parse().unwrap())).collect()
}

pub(super) fn pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed()).unwrap()
}

pub(super) fn kill(process: Pid, signal: Signal) {
    // Whoever is gone already is gone.
    let _ = kill_process(process, signal);
}

/// Whether a process is there, and not only its end is left to be told to somebody else.
pub(super) fn lives(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid()));
    let is_dead = stat.is_ok_and(|stat| stat.contains(") Z "));
    test_kill_process(process).is_ok() && !is_dead
}

pub(super) async fn gone(process: Pid) {
    let end = Instant::now() + PATIENCE;
    while lives(process) {
        assert!(Instant::now() < end, "{process:?} is left");
        sleep(Duration::from_millis(1)).await;
    }
}

/// The parent of a process.
pub(super) fn parent(process: Pid) -> Pid {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    pid(line.unwrap().trim().parse().unwrap())
}

/// All that lies in a directory and below, as bytes.
pub(super) fn all_bytes(directory: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => bytes.extend(all_bytes(&path)),
            false => bytes.extend(std::fs::read(path).unwrap_or_default()),
        }
    }
    bytes
}
