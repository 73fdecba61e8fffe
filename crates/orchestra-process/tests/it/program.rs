//! The program that tests start, and what they see of it.

use std::{path::PathBuf, time::Duration};

use orchestra_process::{CHILD_COMMAND, Child, Command, Exit, Launcher};
use rustix::process::{Pid, test_kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    time::{Instant, sleep, timeout},
};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The example `child` of this crate.
pub(crate) fn path() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/child")
}

/// It, told to do something, guarded by itself.
pub(crate) fn command(words: &[&str]) -> Command {
    Command::new(path())
        .args(words)
        .launcher(Launcher::new(path(), [CHILD_COMMAND]))
}

pub(crate) async fn start(words: &[&str]) -> Child {
    command(words).spawn().await.unwrap()
}

/// All that it says, and how it ends.
pub(crate) async fn run(command: &Command) -> (String, String, Exit) {
    let child = command.spawn().await.unwrap();
    let Child {
        stdin,
        mut stdout,
        mut stderr,
        handle,
    } = child;
    drop(stdin);
    let (mut said, mut told) = (String::new(), String::new());
    let all = async {
        let (first, second) = tokio::join!(
            stdout.read_to_string(&mut said),
            stderr.read_to_string(&mut told)
        );
        first.unwrap();
        second.unwrap();
        handle.exited().await
    };
    let exit = timeout(PATIENCE, all).await.expect("it ends");
    (said, told, exit)
}

/// Its next line.
pub(crate) async fn line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut reader = BufReader::with_capacity(1, &mut child.stdout);
    timeout(PATIENCE, reader.read_line(&mut line))
        .await
        .expect("it says something")
        .unwrap();
    line.trim_end().to_owned()
}

/// The ids that it tells.
pub(crate) fn ids(line: &str) -> Vec<Pid> {
    let ids = line.strip_prefix("ids ").expect(line).split(' ');
    ids.map(|id| Pid::from_raw(id.parse().unwrap()).unwrap())
        .collect()
}

pub(crate) fn pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed()).unwrap()
}

/// Waits until a process is no more.
pub(crate) async fn gone(process: Pid) {
    let end = Instant::now() + PATIENCE;
    while test_kill_process(process).is_ok() && !is_dead(process) {
        assert!(Instant::now() < end, "{process:?} is left");
        sleep(Duration::from_millis(1)).await;
    }
}

/// Whether only its end is left to be told, to a parent that is none of ours.
fn is_dead(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid()));
    stat.is_ok_and(|stat| stat.contains(") Z "))
}

/// The parent of a process.
#[cfg(target_os = "linux")]
pub(crate) fn parent(process: Pid) -> Pid {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    Pid::from_raw(line.unwrap().trim().parse().unwrap()).unwrap()
}
