//! The program is killed again and again while the plan that proves an installation runs: it comes to what
//! it comes to undisturbed, once, and nothing is left behind.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    plans::git,
    support::{Session, Workspace, until},
};

/// When it is killed after it has been asked for the plan, in milliseconds.
const MOMENTS: [u64; 10] = [0, 5, 60, 20, 120, 40, 250, 90, 15, 180];

/// How many plans are made and killed: one, or with `ORCHESTRA_SOAK` many, each at moments of its own.
fn plans() -> u64 {
    match std::env::var_os("ORCHESTRA_SOAK").is_some() {
        true => 25,
        false => 1,
    }
}

/// A repository with a commit, in which the plan runs.
struct Proof {
    workspace: Workspace,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl Proof {
    fn new() -> Self {
        let workspace = Workspace::git();
        workspace.write("README", "here\n");
        git(&workspace, &["add", "README"]);
        let named = ["-c", "user.name=U", "-c", "user.email=u@example.org"];
        git(
            &workspace,
            &[&named[..], &["commit", "-qm", "first"]].concat(),
        );
        workspace.write("README", "the user writes here\n");
        let before = users(&workspace);
        Self { workspace, before }
    }

    fn session(&self) -> Session {
        Session::start(self.workspace.command(["stdio"]))
    }

    /// The plan is asked for, and the program killed so much later.
    fn killed_after(&self, moment: Duration) {
        let mut session = self.session();
        session.send(&json!({
            "jsonrpc": "2.0", "id": "asked", "method": "tools/call",
            "params": {"name": "run_copilot_integration_test", "arguments": asked()},
        }));
        sleep(moment);
        session.process.kill();
    }

    /// Runs the plan to its end: how each job ended, with the tree that it came to.
    fn ended(&self) -> BTreeMap<String, (String, String)> {
        let mut session = self.session();
        let proof = until(|| {
            let proof = session.ok("run_copilot_integration_test", &asked());
            (proof["verdict"] != "not-ended").then_some(proof)
        });
        assert_eq!(proof["verdict"], "proved", "{proof:#}");
        let all = session.ok("list_copilot_plans", &json!({}));
        assert_eq!(all["count"], 1, "{all}");
        let plan = json!({"planId": proof["planId"]});
        let status = session.ok("get_copilot_plan_status", &plan);
        let ends = status["nodes"].as_array().unwrap().iter().map(|node| {
            let tree = node["completedCommit"].as_str().map(|commit| {
                let tree = format!("{commit}^{{tree}}");
                git(&self.workspace, &["rev-parse", &tree])
            });
            let name = node["producerId"].as_str().unwrap().to_owned();
            let how = node["status"].as_str().unwrap().to_owned();
            (name, (how, tree.unwrap_or_default()))
        });
        let ends = ends.collect();
        self.all_is_told(&mut session, &proof);
        session.ok("delete_copilot_plan", &plan);
        assert_eq!(session.process.end().code(), Some(0));
        self.nothing_is_left();
        ends
    }

    /// No event is missing: they count from one on to the version that is shown, each attempt that began
    /// has ended, and none began before the one before it had.
    fn all_is_told(&self, session: &mut Session, proof: &Value) {
        let id = proof["planId"].as_str().unwrap();
        for name in proof["jobs"].as_object().unwrap().keys() {
            let of = json!({"planId": id, "jobId": name});
            let told = session.ok("get_copilot_job_attempts", &of);
            let attempts = told["attempts"].as_array().unwrap();
            let mut since = 0;
            for (at, attempt) in attempts.iter().enumerate() {
                assert_eq!(attempt["attemptNumber"], at + 1, "{name}: {told}");
                let (begin, end) = (attempt["startedAt"].as_u64(), attempt["endedAt"].as_u64());
                assert!(begin.is_some_and(|begin| begin >= since), "{name}: {told}");
                since = end.unwrap_or_else(|| panic!("{name}: {told}"));
            }
        }
        let file = self.workspace.plans().join(id).join("events.jsonl");
        // It follows the database some moments later.
        until(|| {
            let lines = fs::read_to_string(&file).ok()?;
            let events = lines.lines().skip(1).map(serde_json::from_str::<Value>);
            let events: Vec<Value> = events.collect::<Result<_, _>>().ok()?;
            for (at, event) in events.iter().enumerate() {
                assert_eq!(event["number"], at + 1, "{event}");
            }
            let status = session.ok("get_copilot_plan_status", &json!({"planId": id}));
            (status["stateVersion"] == events.len()).then_some(())
        });
    }

    /// No process, no worktree, no branch, and the user's files are as they were.
    fn nothing_is_left(&self) {
        let place = self.workspace.path();
        until(|| {
            let entries = fs::read_dir("/proc").unwrap().flatten();
            let mut places =
                entries.filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok());
            let worktrees = fs::read_dir(self.workspace.join(".worktrees"));
            let is_clear = !places.any(|at| at.starts_with(&place))
                && worktrees.map_or(0, Iterator::count) == 0;
            is_clear.then_some(())
        });
        let refs = git(&self.workspace, &["for-each-ref", "--format=%(refname)"]);
        assert_eq!(refs.lines().count(), 1, "{refs}");
        let worktrees = git(&self.workspace, &["worktree", "list"]);
        assert_eq!(worktrees.lines().count(), 1, "{worktrees}");
        assert_eq!(users(&self.workspace), self.before);
    }
}

fn asked() -> Value {
    json!({"startPaused": false, "idempotencyKey": "proof"})
}

/// What is the user's.
fn users(workspace: &Workspace) -> BTreeMap<PathBuf, Vec<u8>> {
    let names = [".git/HEAD", ".git/index", ".git/config", "README"];
    let names = names.map(PathBuf::from).into_iter();
    names
        .map(|name| (name.clone(), fs::read(workspace.join(name)).unwrap()))
        .collect()
}

#[test]
fn the_integration_test_comes_to_the_same_whenever_the_program_is_killed() {
    let expected = Proof::new().ended();
    assert_eq!(expected["final-merge"].0, "succeeded", "{expected:?}");
    let mut kills = 0;
    let since = Instant::now();
    for plan in 0..plans() {
        let proof = Proof::new();
        for (at, moment) in MOMENTS.into_iter().enumerate() {
            // Primes, so that no two plans are killed at the same moments.
            let later = plan * (7 + 4 * at as u64) % 97;
            proof.killed_after(Duration::from_millis(moment + later));
            kills += 1;
        }
        assert_eq!(proof.ended(), expected, "plan {plan}");
    }
    // Nobody may be there to read it.
    let _ = writeln!(
        std::io::stdout().lock(),
        "\ncounted: {} integration tests, {kills} programs killed in {:.1} s, each came to the same",
        plans(),
        since.elapsed().as_secs_f64(),
    );
}
