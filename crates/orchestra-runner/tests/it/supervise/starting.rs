//! How runs begin: once, with what they were given.

use orchestra_runner::supervise::{Found, How, Program, StartError, Supervised};
use tokio::time::timeout;

use super::rig::{PATIENCE, Rig, all_bytes, run, start, wait};

#[tokio::test]
async fn a_command_gets_its_environment_directory_and_input_and_nothing_else() {
    let rig = Rig::new();
    let mut order = rig.shell("env | grep -v GIVEN | sort; pwd; cat");
    let given = [("GIVEN", "to-be-on-no-disk"), ("PATH", "/usr/bin:/bin")];
    for (name, value) in given {
        order.environment.insert(name.into(), value.into());
    }
    order.input = Some("said on input\n".to_owned());
    assert!(run(&order).await.is_success());
    let home = rig.home().canonicalize().unwrap();
    let name = format!("{}/1/work/1", rig.id(1).job());
    assert_eq!(
        rig.texts(),
        [
            format!("ORCHESTRA_RUN={name}"),
            "PATH=/usr/bin:/bin".to_owned(),
            format!("PWD={}", home.display()),
            home.display().to_string(),
            "said on input".to_owned()
        ]
    );
    let all = all_bytes(rig.home());
    assert!(memchr::memmem::find(&all, b"to-be-on-no-disk").is_none());
}

#[tokio::test]
async fn a_run_begins_once_whoever_starts_it_how_often() {
    let rig = Rig::new();
    let order = rig.shell("echo ran >> ran; until [ -e go ]; do sleep 0.02; done");
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let order = order.clone();
        starts.spawn(async move { timeout(PATIENCE, Supervised::start(&order)).await.unwrap() });
    }
    let mut begun = Vec::new();
    while let Some(started) = starts.join_next().await {
        match started.unwrap() {
            Ok(run) => begun.push(run),
            Err(error) => assert!(
                matches!(error, StartError::AlreadyStarted { .. }),
                "{error}"
            ),
        }
    }
    assert_eq!(begun.len(), 1);
    std::fs::write(rig.home().join("go"), "").unwrap();
    assert!(wait(&begun[0]).await.is_success());
    assert_eq!(
        std::fs::read_to_string(rig.home().join("ran")).unwrap(),
        "ran\n"
    );
    let again = Supervised::start(&order).await;
    assert!(matches!(again, Err(StartError::AlreadyStarted { .. })));
}

#[tokio::test]
async fn what_was_found_never_to_begin_does_not() {
    let rig = Rig::new();
    assert!(matches!(rig.find(1).await, Found::NeverBegan));
    std::fs::create_dir_all(rig.attempt()).unwrap();
    assert!(matches!(rig.find(1).await, Found::NeverBegan));
    let order = rig.shell("echo ran > ran");
    let late = Supervised::start(&order).await;
    assert!(matches!(late, Err(StartError::AlreadyStarted { .. })));
    assert!(!rig.home().join("ran").exists());
    assert!(matches!(rig.find(1).await, Found::NeverBegan));
    // The next one does.
    let mut next = order.clone();
    next.id = rig.id(2);
    assert!(run(&next).await.is_success());
}

#[tokio::test]
async fn what_cannot_be_started_says_why_now_and_later() {
    let rig = Rig::new();
    let order = rig.order(Program::Process {
        executable: "surely-no-program".into(),
        arguments: Vec::new(),
    });
    let Err(StartError::NotStarted { reason }) = Supervised::start(&order).await else {
        panic!("it starts");
    };
    assert!(reason.contains("surely-no-program"), "{reason}");
    let mut end = timeout(PATIENCE, rig.find(1)).await.unwrap();
    // The supervisor answers a moment before it ends.
    while matches!(end, Found::Running(_)) {
        end = rig.find(1).await;
    }
    let Found::Ended(ending) = end else {
        panic!("{end:?}");
    };
    assert_eq!((ending.how, ending.detail), (How::NotStarted, Some(reason)));
    assert!(rig.texts()[0].contains("surely-no-program"));
}

#[tokio::test]
async fn phases_of_an_attempt_follow_each_other_at_once() {
    let rig = Rig::new();
    for number in 1..=5 {
        let mut order = rig.shell("echo $ORCHESTRA_RUN");
        order.id = rig.id(number);
        let run = start(&order).await;
        assert!(wait(&run).await.is_success());
    }
    assert_eq!(rig.texts().len(), 5);
}

/// Files of another run in the place of this one's are not taken for its own.
#[tokio::test]
async fn the_files_of_another_run_are_not_taken_for_this_ones() {
    let rig = Rig::new();
    assert!(run(&rig.shell("true")).await.is_success());
    let attempt = rig.attempt();
    for name in ["run", "exit.json"] {
        let (from, to) = (format!("work.1.{name}"), format!("work.2.{name}"));
        std::fs::copy(attempt.join(from), attempt.join(to)).unwrap();
    }
    assert!(matches!(rig.find(1).await, Found::Ended(_)));
    assert!(matches!(rig.find(2).await, Found::Lost));
}

/// Whoever was slow to begin, and was taken for gone meanwhile, does not begin any more.
#[tokio::test]
async fn what_was_declared_lost_does_not_start() {
    let rig = Rig::new();
    let order = rig.shell("echo ran >> ran");
    assert!(run(&order).await.is_success());
    std::fs::remove_file(rig.attempt().join("work.1.run")).unwrap();
    let late = Supervised::start(&order).await;
    assert!(
        matches!(late, Err(StartError::AlreadyStarted { .. })),
        "{late:?}"
    );
    let ran = std::fs::read_to_string(rig.home().join("ran")).unwrap();
    assert_eq!(ran, "ran\n");
}

#[tokio::test]
async fn two_hundred_at_once() {
    let rig = Rig::new();
    let mut jobs = tokio::task::JoinSet::new();
    for number in 0..200 {
        let mut order = rig.shell("true");
        order.attempt = rig.home().join(format!("many-{number}"));
        order.id = orchestra_runner::supervise::RunId::new(
            &format!("{}-{number}", rig.id(1).job()),
            1,
            "work",
            1,
        )
        .unwrap();
        jobs.spawn(async move {
            let started = timeout(PATIENCE * 3, Supervised::start(&order))
                .await
                .unwrap();
            timeout(PATIENCE * 3, started.unwrap().wait())
                .await
                .unwrap()
                .unwrap()
        });
    }
    while let Some(ended) = jobs.join_next().await {
        let ended = ended.unwrap();
        assert!(ended.is_success(), "{ended}");
    }
}
