//! How children end, and that nothing is left of them.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use rustix::process::{Signal, kill_process};
use tokio::time::timeout;

use crate::program::{PATIENCE, command, gone, ids, line, path, pid, run, start};

#[tokio::test]
async fn codes_and_signals_are_told() {
    for code in [0, 1, 77, 255] {
        let (.., exit) = run(&command(&["exit", &code.to_string()])).await;
        assert_eq!(
            (exit.code, exit.signal, exit.limit),
            (Some(code), None, None)
        );
    }
    for signal in [6, 9, 15] {
        let (.., exit) = run(&command(&["signal", &signal.to_string()])).await;
        assert_eq!(
            (exit.code, exit.signal, exit.limit),
            (None, Some(signal), None)
        );
    }
}

#[tokio::test]
async fn a_child_is_asked_to_end_and_killed_when_it_does_not() {
    let mut child = start(&["sleep"]).await;
    line(&mut child).await;
    child.handle.terminate();
    let exit = child.handle.exited().await;
    assert_eq!(exit.signal, Some(15));
    let mut child = start(&["stubborn"]).await;
    assert_eq!(line(&mut child).await, "ready");
    child.handle.terminate();
    assert_eq!(line(&mut child).await, "no");
    assert_eq!(child.handle.exit(), None);
    child.handle.kill();
    let exit = timeout(PATIENCE, child.handle.exited()).await.unwrap();
    assert_eq!(exit.signal, Some(9));
    gone(pid(child.handle.id())).await;
}

#[tokio::test]
async fn whoever_drops_a_child_kills_all_of_it() {
    let mut child = start(&["family", "stay"]).await;
    let family = ids(&line(&mut child).await);
    let handle = child.handle.clone();
    drop(child);
    assert_eq!(handle.exit(), None, "a handle keeps it");
    let exited = handle.exited();
    drop(handle);
    assert_eq!(exited.await.signal, Some(9));
    for process in family {
        gone(process).await;
    }
}

/// A program that has started a child, with those that the child has started.
#[cfg(target_os = "linux")]
struct Family {
    parent: std::process::Child,
    said: std::io::Lines<BufReader<std::process::ChildStdout>>,
    family: Vec<rustix::process::Pid>,
    guard: rustix::process::Pid,
}

#[cfg(target_os = "linux")]
fn family_of(program: &str) -> Family {
    let mut parent = std::process::Command::new(path())
        .args([program, "family", "stay"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(parent.stdout.take().unwrap()).lines();
    let family = ids(&said.next().unwrap().unwrap());
    Family {
        guard: crate::program::parent(family[0]),
        parent,
        said,
        family,
    }
}

/// Also what has left its group and session.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_a_child_leaves_behind_ends_with_it() {
    let mut child = start(&["family", "end"]).await;
    let family = ids(&line(&mut child).await);
    let exit = timeout(PATIENCE, child.handle.exited()).await.unwrap();
    assert!(exit.is_success());
    for process in family {
        // Nothing is left when the end is told.
        assert!(rustix::process::test_kill_process(process).is_err());
    }
}

/// Whether or not there is a stage, but for what a stage is needed for.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_without_a_stage_ends_as_any_other() {
    let (said, _, exit) = run(&command(&["directory"]).directory("/").without_stage()).await;
    assert_eq!((said.as_str(), exit.code), ("/\n", Some(0)));
    let (.., exit) = run(&command(&["signal", "6"]).without_stage()).await;
    assert_eq!(exit.signal, Some(6));
    let nowhere = command(&["exit", "0"])
        .directory("/no/where")
        .without_stage();
    let error = nowhere.spawn().await.unwrap_err();
    assert!(
        matches!(error, orchestra_process::SpawnError::Directory { .. }),
        "{error}"
    );

    let mut child = command(&["family", "end"])
        .without_stage()
        .spawn()
        .await
        .unwrap();
    let family = ids(&line(&mut child).await);
    let exit = timeout(PATIENCE, child.handle.exited()).await.unwrap();
    assert!(exit.is_success());
    for process in family {
        assert!(rustix::process::test_kill_process(process).is_err());
    }

    let limits = orchestra_process::Limits {
        open_files: Some(20),
        ..Default::default()
    };
    let (_, told, _) = run(&command(&["files"]).limits(limits).without_stage()).await;
    assert!(told.contains("Too many open files"), "{told}");
}

/// Whoever comes when all who watched it are gone ends what is left, but for what has left everything
/// by which it could be known.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_nobody_watches_any_more_is_known_by_its_environment_and_its_session() {
    let mark = format!("ORCHESTRA_TEST_OF={}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let marked = command(&["family", "stay"]).variables([(name, value)]);
    let mut child = marked.without_stage().spawn().await.unwrap();
    let family = ids(&line(&mut child).await);
    let (guard, process) = (child.handle.guard(), child.handle.process());
    kill_process(crate::program::parent(family[0]), Signal::KILL).unwrap();
    orchestra_process::kill_left(&mark, guard, Some(process)).await;
    for process in family {
        gone(process).await;
    }
}

/// The id of a child that is long gone is given to somebody who begins a session with it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_has_the_id_of_one_who_is_gone_is_left_alone() {
    // direct: it stands for a program of somebody else's.
    let mut other = std::process::Command::new("setsid")
        .args(["sh", "-c", "sleep 600 & echo $!; wait"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut output = BufReader::new(other.stdout.take().unwrap());
    output.read_line(&mut said).unwrap();
    let below = pid(said.trim().parse().unwrap());
    let began = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(19).unwrap().parse::<u64>().unwrap()
    };
    let earlier = began(other.id()) - 1;
    let known = orchestra_process::Process::known(other.id(), Some(earlier));
    orchestra_process::kill_left("ORCHESTRA_TEST_OF=nobody", known, known).await;
    assert!(other.try_wait().unwrap().is_none());
    assert!(rustix::process::test_kill_process(below).is_ok());
    // By its own time it is found, with all of its session.
    let itself = orchestra_process::Process::known(other.id(), Some(earlier + 1));
    let killed = orchestra_process::kill_left("ORCHESTRA_TEST_OF=nobody", None, itself);
    timeout(PATIENCE, killed).await.unwrap();
    other.wait().unwrap();
    gone(below).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_end_of_any_process_is_told() {
    let mut child = start(&["sleep"]).await;
    line(&mut child).await;
    let process = child.handle.process();
    assert!(process.is_there());
    let usage = child.handle.guard().unwrap().usage_below();
    assert_eq!(usage.processes, 1);
    assert!(usage.memory > 0);
    let told = tokio::spawn(process.gone());
    child.handle.kill();
    timeout(PATIENCE, told).await.unwrap().unwrap();
    assert!(!process.is_there());
    // Also of one that is gone already.
    timeout(PATIENCE, process.gone()).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_ends_with_its_guard() {
    let mut child = start(&["family", "stay"]).await;
    let family = ids(&line(&mut child).await);
    let guard = crate::program::parent(family[0]);
    kill_process(guard, Signal::KILL).unwrap();
    let exit = timeout(PATIENCE, child.handle.exited()).await.unwrap();
    assert_eq!((exit.code, exit.signal), (None, None));
    // What has left the group is nobody's any more, unless somebody adopts it; the rest is ours.
    gone(family[0]).await;
    gone(family[1]).await;
    gone(guard).await;
    let _ = kill_process(family[2], Signal::KILL);
}

/// Also what has left its group and session.
#[cfg(target_os = "linux")]
#[test]
fn nothing_outlives_a_guard_whose_parent_adopts() {
    let Family {
        mut parent,
        mut said,
        family,
        guard,
    } = family_of("adopter");
    kill_process(guard, Signal::KILL).unwrap();
    // It waits for the end of all that holds the output of the child.
    assert_eq!(said.next().unwrap().unwrap(), "ended");
    for process in family {
        assert!(rustix::process::test_kill_process(process).is_err());
    }
    assert!(parent.wait().unwrap().success());
}

/// What was started for others as well, in a session of its own, is no orphan.
#[cfg(target_os = "linux")]
#[test]
fn what_is_shared_is_not_killed_with_orphans_and_outlives_us() {
    let mut parent = std::process::Command::new(path())
        .args(["sharer", "family", "stay"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(parent.stdout.take().unwrap()).lines();
    let shared = ids(&said.next().unwrap().unwrap())[0];
    let family = ids(&said.next().unwrap().unwrap());
    // Sessions are looked at when orphans are; it has one by then.
    let has_session =
        || rustix::process::getsid(Some(shared)).is_ok_and(|session| session == shared);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let session = async {
            while !has_session() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, session).await.unwrap();
    });
    kill_process(crate::program::parent(family[0]), Signal::KILL).unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "ended");
    for process in family {
        assert!(rustix::process::test_kill_process(process).is_err());
    }
    assert!(parent.wait().unwrap().success());
    kill_process(shared, Signal::KILL).unwrap();
    runtime.block_on(gone(shared));
}

/// What it has started in the background is nobody's then.
#[cfg(target_os = "linux")]
#[test]
fn a_child_ends_when_we_and_its_guard_are_killed() {
    let Family {
        mut parent,
        family,
        guard,
        ..
    } = family_of("parent");
    // A guard that is stopped does not hear of our end.
    kill_process(guard, Signal::STOP).unwrap();
    kill_process(pid(parent.id()), Signal::KILL).unwrap();
    kill_process(guard, Signal::KILL).unwrap();
    parent.wait().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        gone(guard).await;
        gone(family[0]).await;
    });
    for process in &family[1..] {
        let _ = kill_process(*process, Signal::KILL);
    }
}

/// Whoever killed us, and however.
#[cfg(target_os = "linux")]
#[test]
fn nothing_outlives_us_when_we_are_killed() {
    for signal in [Signal::KILL, Signal::TERM, Signal::ABORT] {
        let Family {
            mut parent,
            family,
            guard,
            ..
        } = family_of("parent");
        assert_eq!(crate::program::parent(guard), pid(parent.id()));
        kill_process(pid(parent.id()), signal).unwrap();
        parent.wait().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            for process in family.into_iter().chain([guard]) {
                gone(process).await;
            }
        });
    }
}
