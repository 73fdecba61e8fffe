//! What must be as it was: the user's files, the processes of this machine, what git keeps.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use orchestra_plan::{event::Event, ids::PlanId, plan::Plan};
use orchestra_runner::{
    logs::Query,
    plans::{Placed, Plans},
};
use rustix::process::{Pid, Signal, kill_process};

use super::rig::{PATIENCE, Rig, told};

/// How many events a page has at most.
const PAGE: u32 = 1_000;

/// What is the user's: `HEAD`, index, configuration and every file but in our directories, by content,
/// mode and time of change.
pub(super) fn picture(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut picture = BTreeMap::new();
    for name in ["HEAD", "index", "config"] {
        look(&root.join(".git").join(name), &mut picture);
    }
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if ![".git", ".worktrees", ".orchestrator"]
            .iter()
            .any(|ours| name == *ours)
        {
            look(&path, &mut picture);
        }
    }
    picture
}

fn look(path: &Path, picture: &mut BTreeMap<PathBuf, String>) {
    let Ok(data) = fs::symlink_metadata(path) else {
        return;
    };
    let content = match (data.is_symlink(), data.is_dir()) {
        (true, _) => format!("{:?}", fs::read_link(path).unwrap()),
        (_, true) => String::new(),
        _ => format!(
            "{} {:x?}",
            data.mtime_nsec() + data.mtime(),
            fs::read(path).unwrap()
        ),
    };
    picture.insert(path.to_owned(), format!("{:o} {content}", data.mode()));
    if data.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            look(&entry.unwrap().path(), picture);
        }
    }
}

/// The processes that work below a directory, or were told of it: their ids and command lines.
pub(super) fn processes(below: &Path) -> Vec<(Pid, String)> {
    let own = rustix::process::getpid();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| name.parse().ok())
            .and_then(Pid::from_raw)
        else {
            continue;
        };
        let directory = entry.path();
        // One that has ended and waits to be heard of has no command line.
        let words = fs::read(directory.join("cmdline")).unwrap_or_default();
        if pid == own || words.is_empty() {
            continue;
        }
        let place = fs::read_link(directory.join("cwd")).unwrap_or_default();
        let told = fs::read(directory.join("environ")).unwrap_or_default();
        let wanted = below.as_os_str().as_bytes();
        let holds = |text: &[u8]| text.windows(wanted.len()).any(|window| window == wanted);
        if place.as_os_str().as_bytes().starts_with(wanted) || holds(&words) || holds(&told) {
            found.push((pid, String::from_utf8_lossy(&words).replace('\0', " ")));
        }
    }
    found
}

/// Everything of a rig is killed in one moment, as far as that can be had. What was written stays, so it is less
/// than a power cut.
pub(super) fn all_killed(rig: &Rig) {
    // What is started in between is found the next time.
    loop {
        let found = processes(rig.home());
        if found.is_empty() {
            return;
        }
        for (pid, _) in found {
            // It may be gone already.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// After that the user removes the locks that gits at work have left, as git tells them to; but for
/// what is ours alone. Gives how many there were.
pub(super) fn remove_locks_of_git(rig: &Rig) -> usize {
    let git = rig.root.join(".git");
    let names = ["refs/heads/result.lock", "packed-refs.lock", "HEAD.lock"];
    let locks = names.iter().map(|name| git.join(name));
    locks.filter(|lock| fs::remove_file(lock).is_ok()).count()
}

/// Waits until nothing of a rig runs any more.
pub(super) async fn nothing_runs(rig: &Rig, of: &str) {
    let end = Instant::now() + PATIENCE / 4;
    loop {
        let processes = processes(rig.home());
        if processes.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "{of}: left are {processes:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until nothing is kept that was made on the way: no worktree, no branch but these.
pub(super) async fn nothing_is_kept(rig: &Rig, branches: &[&str], of: &str) {
    let end = Instant::now() + PATIENCE / 4;
    loop {
        let worktrees = rig.worktrees();
        let listed = rig.git(&["worktree", "list", "--porcelain"]);
        let count = listed
            .lines()
            .filter(|line| line.starts_with("worktree "))
            .count();
        let refs = rig.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        let mut refs: Vec<&str> = refs.lines().collect();
        refs.retain(|name| !branches.contains(name));
        if worktrees.is_empty() && count == 1 && refs.is_empty() {
            return;
        }
        let locks = || {
            Command::new("find")
                .arg(rig.root.join(".git"))
                .args(["-name", "*.lock"])
                .output()
        };
        assert!(
            Instant::now() < end,
            "{of}: left are {:#?}, branches {refs:?}, locks {:?}, and to git\n{listed}",
            looked_at(rig, &worktrees),
            locks().map(|found| String::from_utf8_lossy(&found.stdout).into_owned())
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What is in worktrees that should be gone, and what is known of them.
fn looked_at(rig: &Rig, names: &[String]) -> Vec<String> {
    let look = |name: &String| {
        let place = rig.root.join(".worktrees").join(name);
        let status = rig.try_git(&["-C", place.to_str().unwrap(), "status", "--porcelain"]);
        let known = [
            "-C",
            place.to_str().unwrap(),
            "log",
            "-3",
            "--format=%H %P %s",
            "HEAD",
            "^result",
        ];
        let marker = rig
            .root
            .join(".git/worktrees")
            .join(name)
            .join("orchestra.json");
        format!(
            "{name}: not merged {:?}, status {:?} {:?}, mark {:?}",
            String::from_utf8_lossy(&rig.try_git(&known).stdout),
            String::from_utf8_lossy(&status.stdout),
            String::from_utf8_lossy(&status.stderr),
            fs::read_to_string(marker)
        )
    };
    names.iter().map(look).collect()
}

/// The log of a plan, folded anew, is what is shown; each of its events has its place, and every attempt
/// has a log that can be read.
pub(super) async fn logs_tell_all(plans: &Plans, id: PlanId, of: &str) -> usize {
    let shown = plans.plan(id).await.unwrap();
    let mut events: Vec<Event> = Vec::new();
    let mut after = 0;
    loop {
        let page = plans.events(after, PAGE).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.seq;
        // What comes after it was shown, as that worktrees are gone, is not in what was shown.
        let shown = |placed: &Placed| placed.plan == id && placed.number <= shown.version();
        for placed in page.into_iter().filter(shown) {
            events.push(placed.event.unwrap());
            assert_eq!(placed.number, events.len() as u64, "{of}");
        }
    }
    assert_eq!(
        Plan::replay(&events).unwrap(),
        *shown,
        "{of}: {}",
        told(&shown)
    );
    for job in shown.jobs() {
        for attempt in job.attempts() {
            let name = job.producer().as_str();
            let log = plans.log_of(&shown, name, Some(attempt.number)).unwrap();
            if let Some(log) = log {
                plans.read_log(&log, Query::default()).await.unwrap();
            }
        }
    }
    events.len()
}
