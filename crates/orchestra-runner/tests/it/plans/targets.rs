//! The user works on while a plan runs: what is theirs stays, and a moved target is integrated anew.

use std::{collections::BTreeMap, fs, path::Path};

use orchestra_plan::{
    event::{FailureKind, Trigger},
    ids::Branch,
    status::PlanStatus,
};

use super::rig::{Rig, create, ended, job, settings, succeeded, told};

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_moves_is_integrated_anew() {
    let rig = Rig::new();
    rig.git(&["branch", "result"]);
    let plans = rig.plans();
    // The check of the whole moves the target the first two times, as another person could.
    let moved = rig.home().join("moved");
    let line = format!(
        "git rev-parse HEAD > '{0}.seen'; test -e '{0}2' && exit 0; test -e '{0}' && touch '{0}2'; touch '{0}'; T=$(git -C '{1}' rev-parse result^{{tree}}); \
         C=$(git -C '{1}' commit-tree -p result -m other $T); git -C '{1}' update-ref refs/heads/result $C",
        moved.display(),
        rig.root.display()
    );
    let mut settings = settings("Moved");
    settings.verify_ri = Some(orchestra_plan::work::WorkSpec::parse(&line).unwrap());
    settings.env = serde_json::from_str(
        r#"{"GIT_AUTHOR_NAME": "o", "GIT_AUTHOR_EMAIL": "o@o", "GIT_COMMITTER_NAME": "o", "GIT_COMMITTER_EMAIL": "o@o"}"#,
    )
    .unwrap();
    let made = create(&plans, settings, vec![job("one", &[], "echo 1 > one.txt")]).await;
    let plan = succeeded(&plans, made.plan).await;
    let validation = plan.validation().unwrap();
    assert_eq!(validation.attempts().len(), 3, "{}", told(&plan));
    for attempt in &validation.attempts()[1..] {
        assert_eq!(attempt.trigger, Trigger::PostchecksRevalidation);
    }
    // Nothing that was not checked gets there.
    let tip = rig.git(&["rev-parse", "result"]);
    let checked = std::fs::read_to_string(moved.with_extension("seen")).unwrap();
    assert_eq!(tip, checked);
    let log = rig.git(&["log", "--format=%s", "result"]);
    assert!(
        log.contains("other") && log.contains("[Plan] Do one"),
        "{log}"
    );
    assert_eq!(rig.file("result", "one.txt"), "1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_of_the_target_with_changes_is_left_alone() {
    let rig = Rig::new();
    let plans = rig.plans();
    std::fs::write(rig.root.join("README"), "my own words\n").unwrap();
    let mut settings = settings("Mine");
    settings.target_branch = Some(orchestra_plan::ids::Branch::parse("main").unwrap());
    let made = create(&plans, settings, vec![job("one", &[], "echo 1 > one.txt")]).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Failed);
    let words = plan.validation().unwrap().error().unwrap().to_owned();
    assert!(words.contains("commit or stash them and retry"), "{words}");
    assert_eq!(rig.git(&["status", "--porcelain"]), " M README\n");
    // Once the user has put that right, a retry merges.
    rig.git(&["commit", "-q", "-am", "mine"]);
    let retry = orchestra_plan::command::Command::RetryPlan {
        jobs: None,
        retry: orchestra_plan::command::Retry::default(),
    };
    let caller = orchestra_runner::plans::Caller::default();
    plans.command(made.plan, retry, &caller).await.unwrap();
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.git(&["status", "--porcelain"]), "");
    assert_eq!(
        std::fs::read_to_string(rig.root.join("one.txt")).unwrap(),
        "1\n"
    );
    assert_eq!(
        std::fs::read_to_string(rig.root.join("README")).unwrap(),
        "my own words\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_lost_many_files_is_merged_when_somebody_asks_for_it_again() {
    let rig = Rig::new();
    fs::create_dir(rig.root.join("old")).unwrap();
    for at in 0..30 {
        fs::write(rig.root.join(format!("old/{at}")), "old\n").unwrap();
    }
    rig.git(&["add", "-A"]);
    rig.git(&["commit", "-q", "-m", "old"]);
    rig.git(&["branch", "result"]);
    let plans = rig.plans();
    let mut settings = settings("Tidy up");
    // The target moves once more when the result was asked for again.
    let (asked, moved) = (rig.home().join("asked"), rig.home().join("moved"));
    let line = format!(
        "test -e '{0}' || exit 0; test -e '{1}' && exit 0; touch '{1}'; cd '{2}'; \
         C=$(git commit-tree -p result -m other result^{{tree}}); git update-ref refs/heads/result $C",
        asked.display(),
        moved.display(),
        rig.root.display()
    );
    settings.verify_ri = Some(orchestra_plan::work::WorkSpec::parse(&line).unwrap());
    settings.env = serde_json::from_str(
        r#"{"GIT_AUTHOR_NAME": "o", "GIT_AUTHOR_EMAIL": "o@o", "GIT_COMMITTER_NAME": "o", "GIT_COMMITTER_EMAIL": "o@o"}"#,
    )
    .unwrap();
    let made = create(&plans, settings, vec![job("tidy", &[], "git rm -q -r old")]).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Failed, "{}", told(&plan));
    let validation = plan.validation().unwrap();
    let (_, failure) = validation.attempt().unwrap().failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::TreeDestroyed, "{}", told(&plan));
    let words = &failure.message;
    assert!(
        words.contains("1 file where 31 were") && words.contains("retry"),
        "{words}"
    );
    assert_eq!(rig.file("result", "old/7"), "old\n");

    fs::write(asked, "").unwrap();
    let retry = orchestra_plan::command::Command::RetryPlan {
        jobs: None,
        retry: orchestra_plan::command::Retry::default(),
    };
    let caller = orchestra_runner::plans::Caller::default();
    plans.command(made.plan, retry, &caller).await.unwrap();
    let plan = succeeded(&plans, made.plan).await;
    assert!(moved.exists(), "{}", told(&plan));
    let files = rig.git(&["ls-tree", "-r", "--name-only", "result"]);
    assert_eq!(files, "README\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_that_end_on_one_checkout_at_once_all_get_there() {
    const AT_ONCE: usize = 4;
    let rig = Rig::new();
    let plans = rig.plans();
    let main = orchestra_plan::ids::Branch::parse("main").unwrap();
    let gate = rig.home().join("gate");
    for round in 0..4 {
        let mut made = Vec::new();
        for at in 0..AT_ONCE {
            let mut settings = settings(&format!("Plan {round} {at}"));
            settings.target_branch = Some(main.clone());
            let wait = format!(
                "until test -e '{}-{round}'; do sleep 0.01; done; echo {at} > {round}-{at}.txt",
                gate.display()
            );
            made.push(create(&plans, settings, vec![job("one", &[], &wait)]).await);
        }
        fs::write(format!("{}-{round}", gate.display()), "").unwrap();
        for made in made {
            let plan = succeeded(&plans, made.plan).await;
            let validation = plan.validation().unwrap();
            let wrong = validation.attempts().iter().find(|attempt| {
                let failure = attempt.failure.as_ref();
                failure.is_some_and(|(_, failure)| failure.kind != FailureKind::TargetMoved)
            });
            assert!(wrong.is_none(), "{}", told(&plan));
        }
        for at in 0..AT_ONCE {
            let file = rig.root.join(format!("{round}-{at}.txt"));
            assert_eq!(fs::read_to_string(file).unwrap(), format!("{at}\n"));
        }
        assert_eq!(rig.git(&["status", "--porcelain"]), "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_are_solved_by_an_agent_and_the_rest_goes_on() {
    let rig = Rig::new();
    let script = rig.home().join("script.json");
    let text = r#"{"steps": [
        {"when": {"prompt": "Resolve a merge"}, "do": [
            {"write": {"path": "same.txt", "text": "left\nright\n"}}, "complete"]}
    ]}"#;
    std::fs::write(&script, text).unwrap();
    let mut options = rig.options();
    options
        .environment
        .insert("ORCHESTRA_AGENT_SCRIPT".into(), script.into());
    let plans = orchestra_runner::plans::Plans::new(options);
    let jobs = vec![
        job("left", &[], "echo left > same.txt"),
        job("right", &[], "echo right > same.txt"),
        job("both", &["left", "right"], "cp same.txt both.txt"),
    ];
    let made = create(&plans, settings("Conflict"), jobs).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "both.txt"), "left\nright\n");
}

/// Every file of a directory with its content, but for our own.
fn bytes(directory: &Path, all: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let (name, kind) = (entry.file_name(), entry.file_type().unwrap());
        if name == ".worktrees" || name == ".orchestrator" || name == ".git" {
            continue;
        }
        if kind.is_dir() {
            bytes(&entry.path(), all);
        } else {
            let path = entry.path().display().to_string();
            all.insert(path, fs::read(entry.path()).unwrap());
        }
    }
}

/// What is the user's: their files, `HEAD`, index and configuration.
fn of_user(rig: &Rig) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    bytes(&rig.root, &mut all);
    for name in ["HEAD", "index", "config"] {
        all.insert(
            name.to_owned(),
            fs::read(rig.root.join(".git").join(name)).unwrap(),
        );
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_user_does_meanwhile_stays_as_they_left_it() {
    let rig = Rig::new();
    let plans = rig.plans();
    let jobs = (0..6).map(|at| {
        let (name, before) = (format!("job-{at}"), format!("job-{}", at - 1));
        let after: &[&str] = if at == 0 { &[] } else { &[&before] };
        job(&name, after, &format!("sleep 0.1; echo {at} > {at}.txt"))
    });
    let mut settings = settings("Beside");
    settings.target_branch = None;
    let made = create(&plans, settings, jobs.collect()).await;
    // They edit, commit, switch, rename and delete, and leave things half done.
    fs::write(rig.root.join("README"), "edited\n").unwrap();
    rig.git(&["commit", "-q", "-am", "edited"]);
    rig.git(&["checkout", "-q", "-b", "feature"]);
    fs::write(rig.root.join("new.txt"), "new\n").unwrap();
    rig.git(&["add", "new.txt"]);
    fs::write(rig.root.join("new.txt"), "newer\n").unwrap();
    fs::write(rig.root.join("untracked.txt"), "mine\n").unwrap();
    rig.git(&["branch", "-m", "main", "trunk"]);
    rig.git(&["branch", "other"]);
    rig.git(&["branch", "-D", "other"]);
    let before = of_user(&rig);
    let refs = || {
        let refs = rig.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let ours = |line: &&str| line.contains("/orchestra/") || line.contains("/orchestrator/");
        refs.lines()
            .filter(|line| !ours(line))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let branches = refs();
    let plan = succeeded(&plans, made.plan).await;
    assert_eq!(of_user(&rig), before);
    assert_eq!(refs(), branches);
    let target = plan.branches().unwrap().target.to_string();
    assert_eq!(rig.file(&target, "5.txt"), "5\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_a_job_merges_from_the_target_branch_are_accepted() {
    let rig = Rig::new();
    rig.git(&["branch", "old"]);
    // A job could not add these files.
    for (path, content) in [
        ("bare/HEAD", "ref: refs/heads/x\n"),
        ("bare/objects/x", "x\n"),
        ("bare/refs/x", "x\n"),
    ] {
        let path = rig.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    rig.git(&["add", "-A"]);
    rig.git(&["commit", "-q", "-m", "bare"]);
    let plans = rig.plans();
    let mut settings = settings("Merges");
    settings.base_branch = Some(Branch::parse("old").unwrap());
    settings.target_branch = Some(Branch::parse("main").unwrap());
    let mut one = job("one", &[], "git merge -q main && echo one > one.txt");
    one.auto_heal = false;
    let made = create(&plans, settings, vec![one]).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("main", "one.txt"), "one\n");
}
