//! How runs end, and that nothing is left of them.

use std::time::Duration;

use orchestra_runner::supervise::{Found, How, Supervised};
use tokio::time::{Instant, timeout};

use super::rig::{PATIENCE, Rig, ids, lives, run, start, wait};

#[tokio::test]
async fn codes_and_signals_are_told_and_found() {
    for (line, how, code, signal) in [
        ("exit 0", How::Exited, Some(0), None),
        ("exit 77", How::Exited, Some(77), None),
        ("kill -6 $$", How::Signaled, None, Some(6)),
        // It goes on when its output is closed.
        (
            "exec >&- 2>&-; sleep 0.1; exit 3",
            How::Exited,
            Some(3),
            None,
        ),
    ] {
        let rig = Rig::new();
        let ending = run(&rig.shell(line)).await;
        assert_eq!(
            (ending.how, ending.code, ending.signal),
            (how, code, signal)
        );
        assert!(ending.began > 0 && ending.ended >= ending.began);
        let Found::Ended(found) = rig.find(1).await else {
            panic!("it is not found");
        };
        assert_eq!(found, ending);
    }
}

#[tokio::test]
async fn what_forks_and_leaves_its_session_leaves_nothing() {
    let rig = Rig::new();
    assert!(run(&rig.example(&["fork", "end"])).await.is_success());
    for process in ids(&rig.texts()[0]) {
        assert!(!lives(process), "{process:?} is left");
    }
}

#[tokio::test]
async fn a_run_is_asked_to_end_and_killed_when_it_does_not() {
    let rig = Rig::new();
    let polite =
        rig.shell("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done");
    let polite_run = start(&polite).await;
    assert_eq!(rig.first_text().await, "ready");
    let ending = timeout(PATIENCE, polite_run.end(PATIENCE))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((ending.how, ending.code), (How::Stopped, Some(5)));
    assert!(rig.texts().contains(&"bye".to_owned()));

    let rig = Rig::new();
    let rude = rig.shell("trap '' TERM; echo ready; while :; do sleep 0.02; done");
    let rude_run = start(&rude).await;
    rig.first_text().await;
    let begin = Instant::now();
    let grace = Duration::from_millis(200);
    let ending = timeout(PATIENCE, rude_run.end(grace))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((ending.how, ending.signal), (How::Stopped, Some(9)));
    assert!(begin.elapsed() >= grace);
    // Its end is known to whoever asks again.
    assert_eq!(wait(&rude_run).await, ending);
}

#[tokio::test]
async fn progress_tells_of_a_run_that_goes_on() {
    let rig = Rig::new();
    let order = rig.shell("echo first; echo last; until [ -e go ]; do sleep 0.02; done");
    let going = start(&order).await;
    let end = Instant::now() + PATIENCE;
    let progress = loop {
        let progress = going.progress().await.unwrap();
        if progress
            .last_line
            .as_ref()
            .is_some_and(|line| line.text == "last")
        {
            break progress;
        }
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(progress.bytes, 11);
    assert!(
        progress.usage.processes >= 1 && progress.usage.memory > 0,
        "{progress:?}"
    );
    std::fs::write(rig.home().join("go"), "").unwrap();
    let ending = wait(&going).await;
    assert_eq!((ending.out_bytes, ending.err_bytes), (11, 0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_run_says_what_all_of_it_has_computed() {
    let rig = Rig::new();
    let line = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let ending = run(&rig.shell(&format!("sh -c '{line}' & wait"))).await;
    assert!(ending.is_success());
    assert!(ending.cpu_ms >= 20, "{ending:?}");
}

/// A program that was replaced while a job ran does not take it for lost.
#[tokio::test]
async fn a_run_of_another_version_is_left_to_it() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.attempt()).unwrap();
    std::fs::write(
        rig.attempt().join("work.1.run"),
        "{\"v\":2,\"later\":true}\n",
    )
    .unwrap();
    let (attempt, id) = (rig.attempt(), rig.id(1));
    let found = Supervised::find(&attempt, &id);
    let error = timeout(PATIENCE, found).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("another version"), "{error}");
}
