//! What a plan has made is kept until it is put away for good, whatever is collected meanwhile.

use orchestra_plan::{command::Command, ids::PlanId, plan::Plan, status::JobStatus};
use orchestra_runner::plans::{Caller, Plans};

use super::rig::{PATIENCE, Rig, create, job, settings, status, succeeded, told};

async fn ask(plans: &Plans, plan: PlanId, command: Command) {
    let caller = Caller::default();
    plans.command(plan, command, &caller).await.unwrap();
}

async fn until(plans: &Plans, plan: PlanId, is: impl Fn(&Plan) -> bool) {
    let wait = async {
        let mut last = 0;
        while !is(&plans.plan(plan).await.unwrap()) {
            last = plans.changes(last, PATIENCE).await.unwrap();
        }
    };
    if tokio::time::timeout(PATIENCE, wait).await.is_err() {
        panic!("{}", told(&plans.plan(plan).await.unwrap()));
    }
}

/// Waits until something is so that no event tells of.
async fn at_last(rig: &Rig, what: &str, is: impl Fn() -> bool) {
    let wait = async {
        while !is() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.unwrap_or_else(|_| panic!("{what}: {:?} {:?}", rig.worktrees(), references(rig)));
}

fn references(rig: &Rig) -> Vec<String> {
    let listed = rig.git(&["for-each-ref", "--format=%(refname)"]);
    listed.lines().map(str::to_owned).collect()
}

/// The user has git throw away all that nothing refers to.
fn collect(rig: &Rig) {
    rig.git(&["reflog", "expire", "--expire=now", "--all"]);
    rig.git(&["gc", "--quiet", "--prune=now"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_plan_is_recovered_after_everything_was_collected() {
    // The repository has no commit of the user's, so that nothing else keeps what the plan starts from.
    let rig = Rig::empty();
    let plans = rig.plans();
    let gate = rig.home().join("gate");
    let line = format!(
        "test -e '{}' || sleep 1000; cat a.txt b.txt > c.txt",
        gate.display()
    );
    let mut looks = job("looks", &["one", "two"], "cat a.txt b.txt");
    looks.expects_no_changes = true;
    let jobs = vec![
        job("one", &[], "echo a > a.txt"),
        job("two", &[], "echo b > b.txt"),
        looks,
        job("last", &["looks"], &line),
    ];
    let made = create(&plans, settings("Kept"), jobs).await.plan;
    until(&plans, made, |plan| {
        status(plan, "last") == JobStatus::Running
    })
    .await;
    ask(&plans, made, Command::Cancel { reason: None }).await;
    let below = format!("refs/orchestra/{made}/");
    at_last(&rig, "all but what is kept goes", || {
        let all = references(&rig);
        rig.worktrees().is_empty() && all.iter().all(|name| name.starts_with(&below))
    })
    .await;
    // The base, what the two made, and what brings them together.
    assert_eq!(references(&rig).len(), 4);
    collect(&rig);

    std::fs::write(gate, "open").unwrap();
    ask(&plans, made, Command::Recover).await;
    ask(&plans, made, Command::Resume).await;
    let plan = succeeded(&plans, made).await;
    for name in ["one", "two", "looks"] {
        assert_eq!(plan.find(name).unwrap().attempts().len(), 1, "{name}");
    }
    let tree = rig.git(&["ls-tree", "-r", "--name-only", "result"]);
    assert_eq!(tree, "a.txt\nb.txt\nc.txt\n");
    assert_eq!(rig.file("result", "c.txt"), "a\nb\n");
    let base = &plan.branches().unwrap().base;
    assert_eq!(base.as_str(), "main", "what is checked out");

    // Put away for good it keeps nothing.
    ask(&plans, made, Command::Archive { force: false }).await;
    at_last(&rig, "nothing is kept", || {
        references(&rig) == ["refs/heads/result"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_plan_that_is_deleted_keeps_nothing() {
    let rig = Rig::new();
    let plans = rig.plans();
    let jobs = vec![
        job("one", &[], "echo a > a.txt"),
        job("two", &["one"], "sleep 1000"),
    ];
    let made = create(&plans, settings("Gone"), jobs).await.plan;
    until(&plans, made, |plan| {
        status(plan, "two") == JobStatus::Running
    })
    .await;
    ask(&plans, made, Command::Cancel { reason: None }).await;
    at_last(&rig, "what is kept", || {
        rig.worktrees().is_empty() && references(&rig).len() == 3
    })
    .await;
    ask(&plans, made, Command::Delete).await;
    at_last(&rig, "nothing is kept", || {
        references(&rig) == ["refs/heads/main"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_branch_without_a_commit_is_named_as_it_is_called() {
    let rig = Rig::empty();
    rig.git(&["symbolic-ref", "HEAD", "refs/heads/master"]);
    let plans = rig.plans();
    let made = create(
        &plans,
        settings("Unborn"),
        vec![job("one", &[], "echo > a")],
    )
    .await;
    let plan = succeeded(&plans, made.plan).await;
    assert_eq!(plan.branches().unwrap().base.as_str(), "master");
}
