//! Supervisors that nobody comes back to: each ends by itself when there is nothing left for it to do.

use std::fs;

use orchestra_runner::supervise::{Found, How};
use rustix::process::{Pid, Signal};

use super::{
    killing::Runner,
    rig::{Rig, gone, ids, kill, lives, parent, program},
};

/// A job that hangs, with processes in sessions of their own, whose runner was killed: its supervisor and all
/// that descends from that.
async fn left(rig: &Rig) -> (Runner, Vec<Pid>) {
    let mut runner = Runner::start(rig, &format!("exec {} fork stay", program().display()));
    let family = ids(&rig.first_text().await);
    runner.kill();
    assert_eq!(parent(parent(family[0])), runner.supervisor);
    (runner, family)
}

async fn all_gone(runner: &Runner, family: Vec<Pid>) {
    gone(runner.supervisor).await;
    for process in family {
        assert!(!lives(process), "{process:?} is left");
    }
}

#[tokio::test]
async fn whose_guard_is_killed_writes_how_it_ended_and_ends() {
    let rig = Rig::new();
    let (runner, family) = left(&rig).await;
    kill(parent(family[0]), Signal::KILL);
    all_gone(&runner, family).await;
    let Found::Ended(ending) = rig.find(1).await else {
        panic!("it has written nothing");
    };
    assert_eq!(ending.how, How::Signaled);
    assert!(!rig.attempt().join("supervisor.log").exists());
}

#[tokio::test]
async fn whose_attempt_is_deleted_ends_its_command_and_itself() {
    let rig = Rig::new();
    let (runner, family) = left(&rig).await;
    fs::remove_dir_all(rig.home().join("attempts")).unwrap();
    all_gone(&runner, family).await;
    assert!(!rig.attempt().exists(), "it has made its directory again");
}

#[tokio::test]
async fn whose_attempt_is_another_one_by_now_ends_its_command_and_itself() {
    let rig = Rig::new();
    let (runner, family) = left(&rig).await;
    fs::rename(rig.attempt(), rig.home().join("aside")).unwrap();
    fs::create_dir(rig.attempt()).unwrap();
    fs::write(rig.attempt().join("attempt.lock"), "").unwrap();
    all_gone(&runner, family).await;
}

#[tokio::test]
async fn whose_attempt_is_deleted_and_whose_guard_is_killed_ends() {
    let rig = Rig::new();
    let (runner, family) = left(&rig).await;
    fs::remove_dir_all(rig.home().join("attempts")).unwrap();
    kill(parent(family[0]), Signal::KILL);
    all_gone(&runner, family).await;
}

#[tokio::test]
async fn whose_command_has_ended_after_its_attempt_was_deleted_ends() {
    let rig = Rig::new();
    let (runner, family) = left(&rig).await;
    fs::remove_dir_all(rig.home().join("attempts")).unwrap();
    kill(family[0], Signal::KILL);
    all_gone(&runner, family).await;
}

/// Nobody is there who could kill a guard that does not do what it is told.
#[tokio::test]
async fn whose_guard_is_stuck_kills_it_and_ends() {
    let rig = Rig::new();
    let (runner, family) = left(&rig).await;
    kill(parent(family[0]), Signal::STOP);
    kill(runner.supervisor, Signal::INT);
    all_gone(&runner, family).await;
    assert!(matches!(rig.find(1).await, Found::Ended(ending) if ending.how == How::Stopped));
}

/// The machine has stopped: the file of the run is there, and what it said was never written.
#[tokio::test]
async fn whose_file_says_nothing_any_more_is_lost_and_does_not_begin_anew() {
    let rig = Rig::new();
    fs::create_dir_all(rig.attempt()).unwrap();
    fs::write(rig.attempt().join("work.1.run"), "").unwrap();
    assert!(matches!(rig.find(1).await, Found::Lost));
    assert!(matches!(rig.find(1).await, Found::Lost));
}
