//! Runners, supervisors and guards that are killed, alone and together.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
};

use orchestra_runner::{
    holder::Slots,
    supervise::{Found, How},
};
use rustix::process::{Pid, Signal};
use tokio::time::timeout;

use super::rig::{PATIENCE, Rig, gone, ids, kill, lives, parent, pid, program, start, wait};

/// A runner in a process of its own, which has started a job.
pub(super) struct Runner {
    process: Child,
    pub(super) supervisor: Pid,
    _said: BufReader<ChildStdout>,
}

impl Runner {
    pub(super) fn start(rig: &Rig, line: &str) -> Self {
        let mut process = Command::new(program())
            .arg("runner")
            .arg(rig.attempt())
            .args([rig.id(1).job(), line])
            .current_dir(rig.home())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut text = String::new();
        said.read_line(&mut text).unwrap();
        let supervisor = text.trim().strip_prefix("supervisor ").expect(&text);
        Self {
            process,
            supervisor: pid(supervisor.parse().unwrap()),
            _said: said,
        }
    }

    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Whoever is gone already is gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
        kill(self.supervisor, Signal::TERM);
    }
}

/// What a runner counts is given back when it is killed, but for what its jobs still use.
#[tokio::test]
async fn a_job_keeps_its_slot_of_the_machine_when_its_runner_is_gone() {
    let rig = Rig::new();
    let slots = Slots::new(rig.home(), "jobs", 1).unwrap();
    let slot = slots.try_acquire().unwrap().unwrap();
    let mut order = rig.shell("until [ -e go ]; do sleep 0.02; done");
    order.slot = Some(Arc::new(slot.file().try_clone().unwrap()));
    let run = start(&order).await;
    drop((slot, order));
    assert!(slots.try_acquire().unwrap().is_none());
    std::fs::write(rig.home().join("go"), "").unwrap();
    assert!(wait(&run).await.is_success());
    assert!(timeout(PATIENCE, slots.acquire()).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_job_outlives_its_runner_and_the_next_one_finds_it() {
    let rig = Rig::new();
    let go = rig.home().join("go");
    let line = format!(
        "echo begun; until [ -e {} ]; do sleep 0.02; done; echo done; exit 7",
        go.display()
    );
    let mut runner = Runner::start(&rig, &line);
    assert_eq!(rig.first_text().await, "begun");
    runner.kill();
    let Found::Running(run) = rig.find(1).await else {
        panic!("it does not go on");
    };
    assert_eq!(pid(run.supervisor().id()), runner.supervisor);
    assert_eq!(run.progress().await.unwrap().bytes, 6);
    std::fs::write(go, "").unwrap();
    let ending = wait(&run).await;
    assert_eq!((ending.how, ending.code), (How::Exited, Some(7)));
    assert_eq!(rig.texts(), ["begun", "done"]);
    assert!(matches!(rig.find(1).await, Found::Ended(found) if found == ending));
}

#[tokio::test]
async fn the_next_runner_ends_a_job_with_all_that_descends_from_it() {
    let rig = Rig::new();
    let line = format!("exec {} fork stay", program().display());
    let mut runner = Runner::start(&rig, &line);
    let family = ids(&rig.first_text().await);
    runner.kill();
    let Found::Running(run) = rig.find(1).await else {
        panic!("it does not go on");
    };
    let ending = timeout(PATIENCE, run.end(PATIENCE)).await.unwrap().unwrap();
    assert_eq!((ending.how, ending.signal), (How::Stopped, Some(15)));
    for process in family {
        assert!(!lives(process), "{process:?} is left");
    }
}

#[tokio::test]
async fn a_killed_supervisor_takes_all_along_and_the_run_is_lost() {
    let rig = Rig::new();
    let run = start(&rig.example(&["fork", "stay"])).await;
    let family = ids(&rig.first_text().await);
    kill(pid(run.supervisor().id()), Signal::KILL);
    assert_eq!(wait(&run).await.how, How::Lost);
    for process in family {
        assert!(!lives(process), "{process:?} is left");
    }
    assert!(matches!(rig.find(1).await, Found::Lost));
}

/// Nobody has to come for that.
#[tokio::test]
async fn a_killed_supervisor_takes_all_along_when_nobody_looks() {
    let rig = Rig::new();
    let line = format!("exec {} fork stay", program().display());
    let mut runner = Runner::start(&rig, &line);
    let family = ids(&rig.first_text().await);
    runner.kill();
    kill(runner.supervisor, Signal::KILL);
    for process in family.into_iter().chain([runner.supervisor]) {
        gone(process).await;
    }
    assert!(matches!(rig.find(1).await, Found::Lost));
}

#[tokio::test]
async fn a_killed_guard_takes_all_along_and_that_is_written_down() {
    let rig = Rig::new();
    let run = start(&rig.example(&["fork", "stay"])).await;
    let family = ids(&rig.first_text().await);
    kill(parent(family[0]), Signal::KILL);
    let ending = wait(&run).await;
    assert_eq!(
        (ending.how, ending.code, ending.signal),
        (How::Signaled, None, None)
    );
    for process in family {
        assert!(!lives(process), "{process:?} is left");
    }
}

#[tokio::test]
async fn when_all_are_killed_at_once_whoever_comes_next_leaves_nothing() {
    let rig = Rig::new();
    let line = format!("exec {} fork stay", program().display());
    let mut runner = Runner::start(&rig, &line);
    let family = ids(&rig.first_text().await);
    let guard = parent(family[0]);
    assert_eq!(parent(guard), runner.supervisor);
    // Who is stopped does nothing about the end of another.
    for process in [guard, runner.supervisor] {
        kill(process, Signal::STOP);
    }
    runner.kill();
    for process in [guard, runner.supervisor] {
        kill(process, Signal::KILL);
    }
    for process in [runner.supervisor, guard] {
        gone(process).await;
    }
    assert!(lives(family[1]) && lives(family[2]));
    assert!(matches!(rig.find(1).await, Found::Lost));
    assert!(!family[..3].iter().any(|process| lives(*process)));
    // It has left everything by which it could be known.
    kill(family[3], Signal::KILL);
}

/// What a killed guard leaves is killed by the program above; what was started to outlive others is not.
#[tokio::test]
async fn a_supervisor_whose_runner_was_killed_is_no_orphan_of_another_program() {
    let rig = Rig::new();
    let go = rig.home().join("go");
    let line = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    let mut adopter = Command::new(program())
        .arg("adopter")
        .arg(rig.attempt())
        .args([rig.id(1).job(), &line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(adopter.stdout.take().unwrap()).lines();
    let [runner, supervisor, guard] = ids(&said.next().unwrap().unwrap())[..] else {
        panic!("three are told");
    };
    kill(runner, Signal::KILL);
    timeout(PATIENCE, async {
        while parent(supervisor) != pid(adopter.id()) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
    kill(guard, Signal::KILL);
    assert_eq!(said.next().unwrap().unwrap(), "ended");
    assert!(lives(supervisor));
    let Found::Running(run) = rig.find(1).await else {
        panic!("it does not go on");
    };
    std::fs::write(go, "").unwrap();
    assert!(wait(&run).await.is_success());
    adopter.wait().unwrap();
}

/// A supervisor that is stopped does not hear that it is to end its command.
#[tokio::test]
async fn a_supervisor_that_is_stuck_is_killed_with_its_command() {
    let rig = Rig::new();
    let run = start(&rig.example(&["fork", "stay"])).await;
    let family = ids(&rig.first_text().await);
    kill(pid(run.supervisor().id()), Signal::STOP);
    let ended = run.end(std::time::Duration::from_millis(50));
    assert_eq!(
        timeout(PATIENCE, ended).await.unwrap().unwrap().how,
        How::Lost
    );
    for process in family {
        assert!(!lives(process), "{process:?} is left");
    }
}

/// Whether a supervisor of this run is there, also one that has not yet begun.
fn is_supervised(rig: &Rig) -> bool {
    let title = format!("orchestra: supervisor of {}/", rig.id(1).job());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.map(|process| std::fs::read(process.path().join("cmdline")));
    lines.any(|line| line.is_ok_and(|line| line.starts_with(title.as_bytes())))
}

/// It begins once, or is found never to have begun and does not begin later.
#[tokio::test]
async fn whenever_a_runner_is_killed_a_run_begins_once_or_never() {
    let (rounds, mut never) = match std::env::var_os("ORCHESTRA_SOAK") {
        Some(_) => (2_000, 0),
        None => (40, 0),
    };
    for round in 0..rounds {
        let rig = Rig::new();
        let ran = rig.home().join("ran");
        let mut runner = Command::new(program())
            .arg("runner")
            .arg(rig.attempt())
            .args([rig.id(1).job(), &format!("echo ran >> {}", ran.display())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Before, while and after it starts a supervisor; on a busy machine some are surely after.
        let begun = rig.attempt().join("work.1.run");
        let is_begun = timeout(PATIENCE, async {
            while round % 8 == 7 && !begun.exists() {
                tokio::time::sleep(std::time::Duration::from_micros(500)).await;
            }
        });
        is_begun.await.unwrap();
        tokio::time::sleep(std::time::Duration::from_micros(round * 1_117 % 23_000)).await;
        runner.kill().unwrap();
        runner.wait().unwrap();
        let times = match rig.find(1).await {
            Found::Running(run) => {
                assert!(wait(&run).await.is_success());
                1
            }
            Found::Ended(ending) => {
                assert!(ending.is_success(), "{ending}");
                1
            }
            Found::NeverBegan => {
                never += 1;
                0
            }
            Found::Lost => panic!("nobody has killed the supervisor"),
        };
        timeout(PATIENCE, async {
            while is_supervised(&rig) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        })
        .await
        .unwrap();
        let ran = std::fs::read_to_string(ran).unwrap_or_default();
        assert_eq!(ran, "ran\n".repeat(times), "round {round}");
    }
    assert!(
        never > 0 && never < rounds,
        "{never} of {rounds} never began"
    );
}
