//! Hand-over of the plans to a program in the background, and the end of that program.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use orchestra_runner::{
    holder::{Call, Role, Seat},
    journal::OnceKey,
};
use rustix::process::Pid;
use serde_json::json;
use tokio::sync::watch;

use crate::holder::{PATIENCE, Process, call, program, settings, told};

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_leaves_hands_over_to_a_program_that_ends_when_nobody_needs_it() {
    let root = tempfile::tempdir().unwrap();
    let word = root.path().to_str().unwrap();
    let mut first = Process::start(&["hand", word]);
    first.until("ready");
    let said = first.end();
    assert!(said.contains(&"handed true".to_owned()), "{said:?}");
    // Somebody comes before it has ended.
    let seq = watch::Sender::new(0);
    let follower = Seat::open(settings(root.path(), &seq)).unwrap();
    let role = follower
        .until(|role| matches!(role, Role::Follows(_) | Role::Holds(_)))
        .await;
    let Role::Follows(background) = role else {
        panic!("{role:?}")
    };
    let add = call("add", json!({"plan": "a", "who": "w", "n": 1}));
    assert_eq!(follower.call(add).await, Ok(json!(1)));
    assert_eq!(
        follower.call(call("live", json!(true))).await,
        Ok(json!(false))
    );
    follower.end().await;
    // It has something to do, and so it stays, while one that has nothing begins, waits as long, and ends.
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Process::start(&["background", elsewhere.path().to_str().unwrap(), "1000"]);
    other.end();
    let follower = Seat::open(settings(root.path(), &seq)).unwrap();
    assert_eq!(
        follower.call(call("pid", json!(null))).await,
        Ok(json!(background))
    );
    follower.call(call("live", json!(false))).await.unwrap();
    follower.end().await;
    let background = Pid::from_raw(background.cast_signed()).unwrap();
    let is_there = || told(root.path()).is_some() || root.path().join("runner.sock").exists();
    until(|| !is_there(), &format!("{background:?} stays")).await;
}

/// Waits until a condition holds.
async fn until(holds: impl Fn() -> bool, failure: &str) {
    let end = Instant::now() + PATIENCE;
    let mut looks = tokio::time::interval(Duration::from_millis(1));
    while !holds() {
        assert!(Instant::now() < end, "{failure}");
        looks.tick().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_a_background_runner_ends_is_served() {
    let root = tempfile::tempdir().unwrap();
    let mut asked = 0;
    for round in 0..6_u64 {
        let mut background = Command::new(program())
            .args(["background", root.path().to_str().unwrap(), "300"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // It removes its file first when it has been quiet for long enough, and then ends.
        until(|| told(root.path()).is_some(), "it does not start").await;
        until(|| told(root.path()).is_none(), "it does not end").await;
        let seq = watch::Sender::new(0);
        let comes = Seat::open(settings(root.path(), &seq)).unwrap();
        for _ in 0..20 {
            let call = Call {
                once: OnceKey::parse(&format!("key-{round:0>20}-{asked}")),
                ..call("echo", json!(asked))
            };
            assert_eq!(comes.call(call).await, Ok(json!(asked)));
            asked += 1;
        }
        comes.end().await;
        let _ = background.kill();
        let _ = background.wait();
    }
}

#[tokio::test]
async fn a_program_that_cannot_take_the_place_leaves_it_where_it_is() {
    for (program, why) in [
        ("/no/such/program", "cannot be started"),
        ("/bin/false", "ended"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let mut first = Process::start(&["hand", root.path().to_str().unwrap(), program]);
        first.until("ready");
        let said = first.end();
        assert!(
            said.iter()
                .any(|line| line.starts_with("error") && line.contains(why)),
            "{said:?}"
        );
        assert_eq!(said.last().unwrap(), "role Holds");
    }
}
