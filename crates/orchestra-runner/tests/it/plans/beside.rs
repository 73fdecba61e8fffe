//! The user works on while plans run: what they left is what they find, and nothing of theirs is overwritten.

use std::{fs, time::Duration};

use orchestra_plan::{
    command::{Command, Retry},
    event::FailureKind,
    ids::{Branch, PlanId},
    plan::Plan,
    spec::{JobSpec, MaxParallel},
    status::PlanStatus,
    work::WorkSpec,
};
use orchestra_runner::plans::{Caller, Plans};

use super::{
    graphs::Numbers,
    rig::{Rig, at_last, create, ended, gated, job, settings, succeeded, told},
    witness::{nothing_is_kept, nothing_runs, picture},
};

/// A plan that takes a while: chains side by side, and one job that brings them together.
fn long() -> Vec<JobSpec> {
    let mut jobs = Vec::new();
    for chain in 0..4 {
        for step in 0..3 {
            let name = format!("job-{chain}-{step}");
            let before = format!("job-{chain}-{}", step - 1);
            let after: Vec<&str> = (step > 0).then_some(before.as_str()).into_iter().collect();
            let line = format!("sleep 0.1; echo {name} >> chain-{chain}.txt");
            jobs.push(job(&name, &after, &line));
        }
    }
    let all = ["job-0-2", "job-1-2", "job-2-2", "job-3-2"];
    jobs.push(job("last", &all, "cat chain-*.txt > all.txt"));
    jobs
}

/// What the user does next; every part of it must succeed.
fn work(rig: &Rig, numbers: &mut Numbers, at: u64) {
    let write = |name: &str| {
        let path = rig.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{name} at {at}\n")).unwrap();
    };
    let branch = format!("mine-{at}");
    match numbers.below(8) {
        0 => write("README"),
        1 => {
            write(&format!("staged/{at}.txt"));
            rig.git(&["add", "staged"]);
        }
        2 => {
            write(&format!("mine/{at}.txt"));
            rig.git(&["add", "mine"]);
            rig.git(&["commit", "-q", "-m", "mine"]);
        }
        3 => {
            rig.git(&["switch", "-q", "-c", &branch]);
        }
        4 => {
            rig.git(&["stash", "-q", "--include-untracked"]);
            rig.git(&["switch", "-q", "main"]);
        }
        5 => {
            // Two commits are made one, and stand on another base.
            rig.git(&["stash", "-q", "--include-untracked"]);
            rig.git(&["switch", "-q", "-c", &branch, "first"]);
            for part in ["a", "b"] {
                write(&format!("{part}/{at}.txt"));
                rig.git(&["add", "-A"]);
                rig.git(&["commit", "-q", "-m", part]);
            }
            rig.git(&["rebase", "-q", "main"]);
        }
        6 => {
            rig.git(&["branch", "-f", "gone", "HEAD"]);
            rig.git(&["branch", "-q", "-D", "gone"]);
        }
        _ => {
            write("untracked é 🎈.txt");
            rig.git(&["reset", "-q", "--hard"]);
        }
    }
}

/// Works as a user until the plan has ended, and looks each time whether all is as it was left.
async fn until_it_ends(
    rig: &Rig,
    plans: &orchestra_runner::plans::Plans,
    plan: &Plan,
    seed: u64,
) -> u64 {
    let numbers = &mut Numbers::new(seed);
    let (mut at, mut before) = (0, None);
    while !plans.plan(*plan.id()).await.unwrap().status().is_ended() {
        if let Some(before) = before {
            assert_eq!(picture(&rig.root), before, "before step {at}");
        }
        work(rig, numbers, at);
        let left = picture(&rig.root);
        let head = rig.git(&["rev-parse", "--symbolic-full-name", "HEAD", "@"]);
        tokio::time::sleep(Duration::from_millis(numbers.below(60))).await;
        assert_eq!(picture(&rig.root), left, "after step {at}");
        assert_eq!(
            rig.git(&["rev-parse", "--symbolic-full-name", "HEAD", "@"]),
            head
        );
        before = Some(left);
        at += 1;
    }
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_user_does_during_a_run_stays_as_they_left_it() {
    let rounds = match std::env::var_os("ORCHESTRA_SOAK") {
        Some(_) => 40,
        None => 2,
    };
    let mut steps = 0;
    for seed in 1..=rounds {
        let rig = Rig::new();
        rig.git(&["tag", "first"]);
        let first = rig.git(&["rev-parse", "main"]);
        let plans = rig.plans();
        let made = create(&plans, settings("Beside"), long()).await;
        let plan = plans.plan(made.plan).await.unwrap();
        steps += until_it_ends(&rig, &plans, &plan, seed).await;
        let left = picture(&rig.root);
        let plan = succeeded(&plans, made.plan).await;
        assert_eq!(plan.branches().unwrap().base_commit.as_str(), first.trim());
        assert_eq!(rig.file("result", "all.txt").lines().count(), 12);
        let refs = rig.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        let own: Vec<&str> = refs
            .lines()
            .filter(|name| !name.starts_with("orchestrator/"))
            .collect();
        nothing_is_kept(&rig, &own, "beside").await;
        plans.close(Duration::from_secs(20)).await.unwrap();
        nothing_runs(&rig, "beside").await;
        assert_eq!(picture(&rig.root), left);
    }
    assert!(steps > 0, "the user did nothing meanwhile");
    eprintln!("a user at work beside {rounds} plans: {steps} steps, all as they were left");
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_on_the_target_during_a_run_are_kept_however_often_they_come() {
    let rig = Rig::new();
    rig.git(&["branch", "result"]);
    let plans = rig.plans();
    let made = create(&plans, settings("Moves"), long()).await;
    let mut theirs = Vec::new();
    while !plans.plan(made.plan).await.unwrap().status().is_ended() {
        // As a colleague would push to it: no checkout of it is anywhere.
        let old = rig.git(&["rev-parse", "result"]);
        let tree = rig.git(&["rev-parse", "result^{tree}"]);
        let words = ["commit-tree", "-p", old.trim(), "-m", "theirs", tree.trim()];
        let new = rig.git(&words);
        let moved = rig.try_git(&["update-ref", "refs/heads/result", new.trim(), old.trim()]);
        if moved.status.success() {
            theirs.push(new.trim().to_owned());
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    let plan = succeeded(&plans, made.plan).await;
    assert!(!theirs.is_empty());
    for commit in &theirs {
        let is_there = rig.try_git(&["merge-base", "--is-ancestor", commit, "result"]);
        assert!(
            is_there.status.success(),
            "{commit} was overwritten: {}",
            told(&plan)
        );
    }
    assert_eq!(rig.file("result", "all.txt").lines().count(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_rewritten_during_a_run_is_not_turned_back() {
    let rig = Rig::new();
    rig.git(&["switch", "-q", "-c", "result"]);
    fs::write(rig.root.join("secret.txt"), "oops\n").unwrap();
    rig.git(&["add", "-A"]);
    rig.git(&["commit", "-q", "-m", "a mistake"]);
    rig.git(&["switch", "-q", "main"]);
    let plans = rig.plans();
    let mut settings = settings("Rewritten");
    settings.base_branch = Some(Branch::parse("main").unwrap());
    let (began, gate) = (rig.home().join("began"), rig.home().join("gate"));
    let line = gated(&began, &gate, "echo 1 > one.txt");
    let made = create(&plans, settings, vec![job("one", &[], &line)]).await;
    at_last("the job", || began.exists()).await;
    rig.git(&["branch", "-f", "result", "main"]);
    fs::write(rig.root.join("README"), "rewritten\n").unwrap();
    rig.git(&["commit", "-q", "-am", "in its place"]);
    rig.git(&["branch", "-f", "result", "main"]);
    fs::write(&gate, "").unwrap();
    let plan = ended(&plans, made.plan).await;
    let words = refused(&plan, FailureKind::TargetRewritten);
    assert!(words.contains("`result` was rewritten"), "{words}");
    assert_eq!(
        rig.git(&["rev-parse", "result"]),
        rig.git(&["rev-parse", "main"])
    );

    // Who has read that, and asks for it all the same, gets it.
    retry(&plans, made.plan).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "one.txt"), "1\n");
    assert_eq!(rig.file("result", "README"), "rewritten\n");
    assert_eq!(rig.file("result", "secret.txt"), "oops\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_set_back_while_the_result_is_checked_is_not_turned_back() {
    let rig = Rig::new();
    rig.git(&["branch", "result"]);
    let plans = rig.plans();
    // While it is checked a mistake gets onto the target, and when that is merged and checked, out of it.
    let marks = rig.home().join("mark").display().to_string();
    let line = format!(
        "cd '{}'; if test ! -e '{marks}-1'; then touch '{marks}-1'; \
         B=$(echo oops | git hash-object -w --stdin); \
         T=$(printf '100644 blob %s\\tsecret.txt\\n' $B | git mktree); \
         C=$(git commit-tree -p result -m mistake $T); git update-ref refs/heads/result $C; \
         elif test ! -e '{marks}-2'; then touch '{marks}-2'; git update-ref refs/heads/result main; fi",
        rig.root.display()
    );
    let mut settings = settings("Set back");
    settings.verify_ri = Some(WorkSpec::parse(&line).unwrap());
    settings.env = serde_json::from_str(
        r#"{"GIT_AUTHOR_NAME": "o", "GIT_AUTHOR_EMAIL": "o@o", "GIT_COMMITTER_NAME": "o", "GIT_COMMITTER_EMAIL": "o@o"}"#,
    )
    .unwrap();
    let made = create(&plans, settings, vec![job("one", &[], "echo 1 > one.txt")]).await;
    let plan = ended(&plans, made.plan).await;
    refused(&plan, FailureKind::TargetRewritten);
    assert_eq!(
        plan.validation().unwrap().attempts().len(),
        2,
        "{}",
        told(&plan)
    );
    assert_eq!(
        rig.git(&["rev-parse", "result"]),
        rig.git(&["rev-parse", "main"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_gets_the_made_up_name_meanwhile_is_not_moved() {
    let rig = Rig::new();
    let plans = rig.plans();
    let mut settings = settings("Hello");
    settings.target_branch = None;
    let (began, gate) = (rig.home().join("began"), rig.home().join("gate"));
    let line = gated(&began, &gate, "echo 1 > one.txt");
    let made = create(&plans, settings, vec![job("one", &[], &line)]).await;
    at_last("the job", || began.exists()).await;
    let target = plans
        .plan(made.plan)
        .await
        .unwrap()
        .branches()
        .unwrap()
        .target
        .to_string();
    assert_eq!(target, "orchestra/hello");
    rig.git(&["branch", "orchestra/hello"]);
    fs::write(gate, "").unwrap();
    let plan = ended(&plans, made.plan).await;
    let words = refused(&plan, FailureKind::TargetTaken);
    assert!(words.contains("git branch -m orchestra/hello"), "{words}");
    let main = rig.git(&["rev-parse", "main"]);
    assert_eq!(rig.git(&["rev-parse", "orchestra/hello"]), main);
    // It is not theirs by asking again.
    retry(&plans, made.plan).await;
    refused(&*ended(&plans, made.plan).await, FailureKind::TargetTaken);
    rig.git(&["branch", "-m", "orchestra/hello", "mine"]);
    retry(&plans, made.plan).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("orchestra/hello", "one.txt"), "1\n");
    assert_eq!(rig.git(&["rev-parse", "mine"]), main);
}

/// A person asks for the failed jobs of a plan again.
async fn retry(plans: &Plans, plan: PlanId) {
    let command = Command::RetryPlan {
        jobs: None,
        retry: Retry::default(),
    };
    plans
        .command(plan, command, &Caller::default())
        .await
        .unwrap();
}

/// The words with which the result of a plan was not merged.
fn refused(plan: &Plan, kind: FailureKind) -> String {
    assert_eq!(plan.status(), PlanStatus::Failed, "{}", told(plan));
    let attempt = plan.validation().unwrap().attempt().unwrap();
    let (_, failure) = attempt.failure.as_ref().unwrap();
    assert_eq!(failure.kind, kind, "{}", told(plan));
    failure.message.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_that_are_deleted_during_a_run_stop_nothing() {
    let rig = Rig::new();
    let plans = rig.plans();
    rig.git(&["switch", "-q", "-c", "base"]);
    let mut settings = settings("Deleted");
    settings.base_branch = Some(Branch::parse("base").unwrap());
    settings.max_parallel = MaxParallel::new(1).unwrap();
    let (began, gate) = (rig.home().join("began"), rig.home().join("gate"));
    let jobs = vec![
        job("one", &[], &gated(&began, &gate, "echo 1 > one.txt")),
        job("two", &["one"], "echo 2 > two.txt"),
    ];
    let made = create(&plans, settings, jobs).await;
    at_last("the first job", || began.exists()).await;
    rig.git(&["switch", "-q", "main"]);
    rig.git(&["branch", "-q", "-D", "base"]);
    // The user takes the branch of the result away, if it is there already, and what we keep besides.
    for name in ["result", &format!("orchestrator/snapshot/{}", made.plan)] {
        rig.try_git(&["branch", "-q", "-D", name]);
    }
    let left = picture(&rig.root);
    fs::write(&gate, "").unwrap();
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "one.txt"), "1\n");
    assert_eq!(rig.file("result", "two.txt"), "2\n");
    assert_eq!(picture(&rig.root), left);
    assert!(
        !rig.try_git(&["rev-parse", "-q", "--verify", "base"])
            .status
            .success()
    );
}
