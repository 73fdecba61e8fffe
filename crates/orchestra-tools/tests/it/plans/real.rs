//! The tools over the runner itself: git, worktrees and processes, in a directory of their own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use orchestra_plan::outcome::Policy;
use orchestra_plan::pressure::Splits;
use orchestra_plan::schedule::Limits;
use orchestra_plan::work::ProfileName;
use orchestra_process::{CHILD_COMMAND, Launcher};
use orchestra_runner::{
    agents::{Agents, Named, Prober, ready},
    git::GitSettings,
    plans::{Options, Plans as Runner, Trust},
    supervise::JOB_COMMAND,
};
use orchestra_store::Store;
use orchestra_tools::{Live, LiveError, LogFrom};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{job, plan, with};
use crate::bench::Bench;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// The example `plan_parts` of this crate, which is built with the tests.
fn program() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/plan_parts")
}

/// A user with a repository, and the tools over its plans.
struct Real {
    bench: Bench,
    runner: Runner,
    home: TempDir,
}

fn git_environment(home: &TempDir) -> Vec<(OsString, OsString)> {
    [
        ("HOME", home.path().as_os_str().to_owned()),
        (
            "XDG_CONFIG_HOME",
            home.path().join("config").into_os_string(),
        ),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
    ]
    .map(|(name, value)| (name.into(), value))
    .to_vec()
}

impl Real {
    /// A repository with one commit on `main`.
    fn new() -> Self {
        Self::looking(Splits::default())
    }

    /// The same, where contexts of agents are looked at in this way.
    fn looking(splits: Splits) -> Self {
        let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = std::env::var_os("PATH").unwrap();
        let prober = Prober::new(path.clone(), program());
        let prober = prober.launcher(Launcher::new(program(), [CHILD_COMMAND]));
        let agents = Agents::new(BTreeMap::new(), prober);
        let scripted = ProfileName::parse(ready::SCRIPTED).unwrap();
        let mut environment = BTreeMap::from([("PATH".into(), path)]);
        environment.extend(git_environment(&home));
        let storage = root.path().join(".orchestrator/plans");
        let options = Options {
            agents: Arc::new(agents),
            named: Named::of_user(Some(scripted), None),
            supervisor: Some(Launcher::new(program(), [JOB_COMMAND])),
            git: GitSettings {
                environment: git_environment(&home),
                ..GitSettings::default()
            },
            // As many at once as any machine has.
            limits: Limits {
                total: 0,
                ..Limits::default()
            },
            policy: Policy {
                transient_waits: vec![Duration::from_millis(50); 3],
                splits,
                ..Policy::default()
            },
            environment,
            trust: Trust::Any,
            ..Options::new(root.path(), &storage)
        };
        let runner = Runner::new(options);
        let options = orchestra_tools::Options {
            plans: Some(Arc::new(runner.clone())),
            ..orchestra_tools::Options::default()
        };
        let bench = Bench::at(root, options);
        let real = Self {
            bench,
            runner,
            home,
        };
        real.git(&["init", "-q", "-b", "main"]);
        real.git(&["config", "user.name", "A User"]);
        real.git(&["config", "user.email", "user@example.org"]);
        std::fs::write(real.bench.directory.path().join("README"), "read me\n").unwrap();
        real.git(&["add", "README"]);
        real.git(&["commit", "-q", "-m", "first"]);
        real
    }

    /// The user runs git, which must succeed.
    fn git(&self, words: &[&str]) -> String {
        let output = Command::new("git")
            .args(words)
            .current_dir(self.bench.directory.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .envs(git_environment(&self.home))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    async fn ok(&self, name: &str, arguments: Value) -> Value {
        let value = self.bench.ok(name, arguments).await;
        assert_eq!(value["success"], true, "{value}");
        value
    }

    /// How a plan stands at its end.
    async fn ended(&self, id: &Value) -> Value {
        let plan = id.as_str().unwrap().parse().unwrap();
        let waited = tokio::time::timeout(PATIENCE, self.runner.wait(plan)).await;
        let status = self
            .ok("get_copilot_plan_status", json!({"planId": id}))
            .await;
        assert!(waited.is_ok(), "no end: {status}");
        status
    }

    /// No file that is kept of plans has this in it, but the database, which its user alone can read.
    fn nothing_says(&self, secret: &str) {
        let mut rest = vec![self.runner.options().storage.clone()];
        let mut looked = 0;
        while let Some(path) = rest.pop() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_symlink() || name.starts_with("plans.db") {
                continue;
            }
            if path.is_dir() {
                rest.extend(
                    std::fs::read_dir(path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            } else if let Ok(bytes) = std::fs::read(&path) {
                looked += 1;
                let text = String::from_utf8_lossy(&bytes);
                assert!(!text.contains(secret), "{}", path.display());
            }
        }
        assert!(looked > 5, "only {looked} files");
    }

    /// Waits until what a plan keeps for itself is gone, and that is known.
    async fn until_nothing_is_left(&self, id: &Value) {
        let end = std::time::Instant::now() + PATIENCE;
        let mut last = 0;
        loop {
            let own = json!({"planId": id});
            let status = self.ok("get_copilot_plan_status", own).await;
            let mut nodes = status["nodes"].as_array().unwrap().iter();
            let branches = self.git(&["branch", "--list", "orchestrator/*"]);
            if branches.is_empty() && nodes.all(|node| node["worktreePath"].is_null()) {
                return;
            }
            assert!(std::time::Instant::now() < end, "{branches}{status}");
            let changed = self.runner.changes(last, Duration::from_millis(100));
            last = changed.await.unwrap();
        }
    }

    /// What can be watched of them.
    fn live(&self) -> Live {
        let options = orchestra_store::Options {
            watch: false,
            sweep: false,
            flush: false,
            ..orchestra_store::Options::default()
        };
        let store = Store::open(self.bench.directory.path(), options).unwrap();
        Live::new(store, Some(self.runner.clone()))
    }

    async fn close(self) {
        self.runner.close(Duration::from_secs(30)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_runs_from_its_creation_to_a_merged_branch() {
    let real = Real::new();
    let write = |name: &str| format!("echo {name} > {name}.txt");
    let jobs = [
        with(
            &job("one", &[]),
            json!({"work": write("one"), "postchecks": "test -f one.txt"}),
        ),
        with(&job("two", &["one"]), json!({"work": write("two")})),
        with(
            &job("three", &["one"]),
            json!({
                "work": format!("{}; echo the token is $API_TOKEN; echo $API_TOKEN >&2", write("three")),
                "env": {"API_TOKEN": "hush-hush-hush"},
            }),
        ),
        with(
            &job("four", &["two", "three"]),
            json!({"work": "cat *.txt > all.txt"}),
        ),
    ];
    let target = json!({"targetBranch": "result"});
    let made = real
        .ok("create_copilot_plan", with(&plan(&jobs), target))
        .await;
    let status = real.ended(&made["planId"]).await;
    assert_eq!(status["status"], "succeeded", "{status}");
    assert_eq!(real.git(&["show", "result:all.txt"]), "one\nthree\ntwo\n");
    assert_eq!(
        real.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
    let own = json!({"planId": made["planId"], "jobId": "one"});
    let logs = real.ok("get_copilot_job_logs", own.clone()).await;
    assert!(logs["lines"].as_u64().unwrap() > 0, "{logs}");
    let graph = real
        .ok("get_copilot_plan_graph", json!({"planId": made["planId"]}))
        .await;
    assert_eq!(graph["nodeCount"], 5);
    let shown = real
        .ok(
            "get_copilot_job",
            json!({"planId": made["planId"], "jobId": "three"}),
        )
        .await;
    assert!(!shown.to_string().contains("hush"), "{shown}");
    let own = json!({"planId": made["planId"], "jobId": "three"});
    let logs = real.ok("get_copilot_job_logs", own).await;
    let logs = logs["logs"].as_str().unwrap();
    assert!(
        logs.contains("the token is ***\n") && !logs.contains("hush"),
        "{logs}"
    );
    real.nothing_says("hush-hush-hush");
    // What went when the plan succeeded is not told of again.
    real.until_nothing_is_left(&made["planId"]).await;
    let away = real
        .ok("archive_copilot_plan", json!({"planId": made["planId"]}))
        .await;
    assert_eq!(away["branches"], json!([]), "{away}");
    real.ok("delete_copilot_plan", json!({"planId": made["planId"]}))
        .await;
    assert_eq!(real.ok("list_copilot_plans", json!({})).await["total"], 0);
    real.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_of_a_plan_that_is_put_away_is_told_with_how_it_goes() {
    let real = Real::new();
    let failing = with(
        &job("one", &[]),
        json!({"work": "exit 1", "autoHeal": false}),
    );
    for tool in ["archive_copilot_plan", "delete_copilot_plan"] {
        let made = with(&plan(std::slice::from_ref(&failing)), json!({"name": tool}));
        let made = real.ok("create_copilot_plan", made).await;
        let status = real.ended(&made["planId"]).await;
        let worktree = status["nodes"][0]["worktreePath"].as_str().unwrap();
        // Until it is noted what the job has left, all that is there is the job's.
        let name = Path::new(worktree).file_name().unwrap();
        let root = real.bench.directory.path().join(".git/worktrees");
        let mark = root.join(name).join("orchestra.json");
        let is_noted = || {
            let mark = std::fs::read(&mark).unwrap();
            serde_json::from_slice::<Value>(&mark).is_ok_and(|mark| mark["seal"].is_object())
        };
        let end = tokio::time::Instant::now() + PATIENCE;
        while !is_noted() {
            assert!(tokio::time::Instant::now() < end, "nothing is noted");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        std::fs::write(Path::new(worktree).join("mine"), "mine").unwrap();
        let told = real.ok(tool, json!({"planId": made["planId"]})).await;
        let message = told["message"].as_str().unwrap();
        for part in [worktree, "mine", "git worktree remove"] {
            assert!(message.contains(part), "{part}: {told}");
        }
        assert!(Path::new(worktree).join("mine").exists());
    }
    real.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_away_is_told_once() {
    let real = Real::new();
    let failing = with(
        &job("one", &[]),
        json!({"work": "exit 1", "autoHeal": false}),
    );
    let made = real.ok("create_copilot_plan", plan(&[failing])).await;
    let status = real.ended(&made["planId"]).await;
    assert_eq!(status["status"], "failed", "{status}");
    let before = real.git(&[
        "branch",
        "--list",
        "--format=%(refname:short)",
        "orchestrator/*",
    ]);
    let own = json!({"planId": made["planId"]});
    let away = real.ok("archive_copilot_plan", own.clone()).await;
    assert_eq!(away["branches"], json!([before.trim()]), "{away}");
    assert_eq!(away["cleanedWorktrees"], 1, "{away}");
    real.until_nothing_is_left(&made["planId"]).await;
    let again = real.ok("archive_copilot_plan", own).await;
    assert_eq!(
        (&again["cleanedBranches"], &again["cleanedWorktrees"]),
        (&json!(0), &json!(0)),
        "{again}"
    );
    real.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_integration_test_proves_an_installation() {
    let real = Real::looking(Splits {
        enabled: true,
        ..Splits::default()
    });
    let made = real
        .ok(
            "run_copilot_integration_test",
            json!({"startPaused": false, "idempotencyKey": "proof"}),
        )
        .await;
    assert_eq!(made["verdict"], "not-ended", "{made}");
    let status = real.ended(&made["planId"]).await;
    let proved = real
        .ok(
            "run_copilot_integration_test",
            json!({"idempotencyKey": "proof"}),
        )
        .await;
    assert_eq!(
        (&proved["planId"], &proved["verdict"]),
        (&made["planId"], &json!("proved")),
        "{proved}"
    );
    for node in status["nodes"].as_array().unwrap() {
        let name = node["producerId"].as_str().unwrap();
        let expected = match name {
            "always-fails" | "postchecks-fail" => "failed",
            "blocked-downstream" | "__snapshot-validation__" => "blocked",
            _ => "succeeded",
        };
        assert_eq!(node["status"], expected, "{name}: {node}");
        if name == "auto-heal-job" {
            assert!(node["attempts"].as_u64().unwrap() > 1, "{node}");
        }
    }
    assert_eq!(status["status"], "failed");
    assert!(
        status["usage"]["inputTokens"].as_u64().unwrap() >= 150_000,
        "{}",
        status["usage"]
    );
    let failed = json!({"planId": made["planId"], "jobId": "always-fails"});
    let failed = real.ok("get_copilot_job_failure_context", failed).await;
    assert_eq!(
        (&failed["failedPhase"], &failed["lastAttempt"]["exitCode"]),
        (&json!("work"), &json!(3))
    );
    let said = failed["logs"].as_array().unwrap().iter();
    assert!(
        said.clone()
            .any(|line| line["message"] == "this job fails, as it has to"),
        "{failed}"
    );
    let of = json!({"planId": made["planId"], "jobId": "always-fails", "contains": "AS IT has"});
    let found = real.ok("get_copilot_job_logs", of).await;
    assert_eq!(
        found["logs"], "[work] this job fails, as it has to\n",
        "{found}"
    );
    let own = json!({"planId": made["planId"]});
    // An agent healed one job, and tried as often as it may with another.
    let attempts = async |name: &str| {
        let asked = with(&own, json!({"jobId": name}));
        let found = real.ok("get_copilot_job_attempts", asked).await;
        found["attempts"].as_array().unwrap().clone()
    };
    let pressed = attempts("pressure-agent").await;
    assert_eq!(
        pressed[0]["contextPressureSnapshot"],
        json!({"level": "critical", "used": 150_000, "limit": 200_000})
    );
    let healed = attempts("auto-heal-job").await;
    assert_eq!(healed.len(), 2, "{healed:?}");
    assert_eq!(healed[0]["failedPhase"], "postchecks");
    assert_eq!(healed[1]["triggerType"], "auto-heal");
    let timing = healed[1]["phaseTiming"].as_array().unwrap();
    assert!(
        timing
            .iter()
            .any(|one| one["phase"] == "postchecks" && one["heal"] == true),
        "{timing:?}"
    );
    let tried = attempts("always-fails").await;
    assert_eq!(tried.len(), 1 + 2, "{tried:?}");
    assert!(
        tried[1..]
            .iter()
            .all(|one| one["triggerType"] == "auto-heal")
    );
    // The user has it repaired.
    let mended = json!({"jobIds": ["always-fails"], "newWork": "true"});
    real.ok("retry_copilot_plan", with(&own, mended)).await;
    let mended = json!({"jobId": "postchecks-fail", "newPostchecks": "true"});
    real.ok("retry_copilot_job", with(&own, mended)).await;
    let status = real.ended(&made["planId"]).await;
    assert_eq!(status["status"], "succeeded", "{status}");
    let target = status["targetBranch"].as_str().unwrap().to_owned();
    let merged = real.git(&["show", &format!("{target}:integration-test/merged.txt")]);
    assert!(merged.contains("healed\n"), "{merged}");
    real.close().await;
}

/// More jobs than a plan has at once unless it says so, none of which ends before all have begun.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_without_a_limit_of_its_own_has_all_its_jobs_at_work_at_once() {
    const JOBS: usize = 6;
    let real = Real::new();
    let begun = real.home.path().join("begun");
    std::fs::create_dir(&begun).unwrap();
    let begun = begun.display();
    let jobs: Vec<Value> = (0..JOBS)
        .map(|at| {
            let work = format!(
                "touch '{begun}/{at}'; until [ $(ls '{begun}' | wc -l) = {JOBS} ]; do sleep 0.02; done; \
                 echo {at} > {at}.txt"
            );
            let name = format!("job-{at}");
            with(&job(&name, &[]), json!({"work": work, "autoHeal": false}))
        })
        .collect();
    let unlimited = with(&plan(&jobs), json!({"maxParallel": 0}));
    let made = real.ok("create_copilot_plan", unlimited).await;
    let status = real.ended(&made["planId"]).await;
    assert_eq!(status["status"], "succeeded", "{status}");
    real.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_a_recovered_plan_go_on_with_their_sessions_unless_they_are_not_to() {
    for (told, session) in [
        (json!({}), "scripted-1"),
        (json!({"useCopilotAgent": true}), "scripted-1"),
        (json!({"useCopilotAgent": false}), "scripted-2"),
    ] {
        let real = Real::new();
        let script = json!({"steps": [
            {"when": {"run": 1}, "do": [{"exit": 3}]},
            {"do": [{"write": {"path": "one.txt", "text": "1\n"}}, "complete"]}
        ]});
        let work = json!({
            "type": "agent",
            "agent": "scripted",
            "instructions": format!("Do it.\n\n```orchestra-script\n{script}\n```\n"),
        });
        let one = with(&job("one", &[]), json!({"work": work, "autoHeal": false}));
        let made = real.ok("create_copilot_plan", plan(&[one])).await;
        let own = json!({"planId": made["planId"]});
        let status = real.ended(&made["planId"]).await;
        assert_eq!(status["status"], "failed", "{status}");
        real.ok("recover_copilot_plan", with(&own, told.clone()))
            .await;
        real.ok("resume_copilot_plan", own.clone()).await;
        let status = real.ended(&made["planId"]).await;
        assert_eq!(status["status"], "succeeded", "{status}");
        let asked = with(&own, json!({"jobId": "one"}));
        let attempts = real.ok("get_copilot_job_attempts", asked).await;
        let last = attempts["attempts"].as_array().unwrap().last().unwrap();
        assert_eq!(last["copilotSessionId"], session, "{told}: {last}");
        real.close().await;
    }
}

/// Nothing was pushed, so nothing that is pushed is the plan's to remove.
#[tokio::test(flavor = "multi_thread")]
async fn branches_of_remotes_stay_and_it_is_said_how_they_go() {
    let real = Real::new();
    let remote = real.home.path().join("remote.git");
    let remote = remote.to_str().unwrap();
    real.git(&["init", "-q", "--bare", remote]);
    real.git(&["remote", "add", "origin", remote]);
    let write = with(&job("one", &[]), json!({"work": "echo 1 > one.txt"}));
    let target = json!({"targetBranch": "result"});
    let made = real
        .ok("create_copilot_plan", with(&plan(&[write]), target))
        .await;
    let status = real.ended(&made["planId"]).await;
    assert_eq!(status["status"], "succeeded", "{status}");
    real.git(&["push", "-q", "origin", "result"]);
    let archive = json!({"planId": made["planId"], "deleteRemoteBranches": true});
    let away = real.ok("archive_copilot_plan", archive).await;
    let said = away["message"].as_str().unwrap();
    assert!(
        said.contains("Plans never push") && said.contains("git push REMOTE --delete result"),
        "{said}"
    );
    let left = real.git(&["ls-remote", "--heads", "origin"]);
    assert!(left.ends_with("refs/heads/result\n"), "{left}");
    real.close().await;
}

/// All that is told of a log.
async fn told(live: &Live, plan: &str, job: &str, from: LogFrom) -> Vec<(&'static str, Value)> {
    let log = live.log(plan, job, from).await.unwrap();
    let told = log.map(|(kind, data)| (kind, serde_json::from_str(&data).unwrap()));
    tokio::time::timeout(PATIENCE, told.collect())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_prints_is_told_as_it_comes_and_what_it_changed_afterwards() {
    let real = Real::new();
    let jobs = [
        with(
            &job("slow", &[]),
            json!({"work": "echo begun; while ! test -e go; do sleep 0.02; done; rm go; echo new > new.txt; echo ended >&2"}),
        ),
        job("after", &["slow"]),
    ];
    let made = real.ok("create_copilot_plan", plan(&jobs)).await;
    let id = made["planId"].as_str().unwrap().to_owned();
    let live = real.live();
    let log = live.log(&id, "slow", LogFrom::default()).await.unwrap();
    let mut log = std::pin::pin!(log);
    let mut begun = Value::Null;
    while begun["text"] != "begun" {
        let next = tokio::time::timeout(PATIENCE, log.next()).await.unwrap();
        let (kind, data) = next.expect("it has not ended");
        assert_eq!(kind, "line", "{data}");
        begun = serde_json::from_str(&data).unwrap();
    }
    assert_eq!(
        (&begun["phase"], &begun["stream"]),
        (&json!("work"), &json!("out"))
    );
    let status = real
        .ok("get_copilot_plan_status", json!({"planId": id}))
        .await;
    let nodes = status["nodes"].as_array().unwrap().iter();
    let mut paths = nodes.filter_map(|node| node["worktreePath"].as_str());
    let worktree = paths.next().expect("the worktree of the job that runs");
    std::fs::write(std::path::Path::new(worktree).join("go"), "").unwrap();
    let rest: Vec<_> = tokio::time::timeout(PATIENCE, log.collect()).await.unwrap();
    assert!(
        rest.iter()
            .any(|(_, line)| line.contains(r#""text":"ended""#)),
        "{rest:?}"
    );
    assert_eq!(rest.last().unwrap(), &("end", "{}".to_owned()));
    real.ended(&made["planId"]).await;
    // Once it has ended, it is told at once, from wherever one was.
    let whole = told(&live, &id, "slow", LogFrom::default()).await;
    let of_work = LogFrom {
        attempt: Some(1),
        phase: Some("work".to_owned()),
        ..LogFrom::default()
    };
    let work = told(&live, &id, "slow", of_work).await;
    let texts: Vec<_> = work
        .iter()
        .filter_map(|(_, line)| line["text"].as_str())
        .collect();
    assert!(
        work.len() < whole.len() && texts.contains(&"begun"),
        "{work:?}"
    );
    let from = LogFrom {
        after: begun["cursor"].as_u64(),
        ..LogFrom::default()
    };
    let after = told(&live, &id, "slow", from).await;
    assert!(after.len() < whole.len(), "{after:?}");
    assert!(
        after.iter().all(|(_, line)| line["text"] != "begun"),
        "{after:?}"
    );
    let diff = live.diff(&id, "slow").await.unwrap();
    assert!(
        diff.contains("+++ b/new.txt") && diff.ends_with(r#""truncated":false}"#),
        "{diff}"
    );
    for (plan, job, from) in [
        ("none", "slow", LogFrom::default()),
        (&*id, "none", LogFrom::default()),
        (
            &*id,
            "slow",
            LogFrom {
                attempt: Some(2),
                ..LogFrom::default()
            },
        ),
        (
            &*id,
            "slow",
            LogFrom {
                attempt: Some(0),
                ..LogFrom::default()
            },
        ),
    ] {
        let refused = live.log(plan, job, from).await.err();
        assert!(
            matches!(refused, Some(LiveError::Unknown(_))),
            "{refused:?}"
        );
    }
    let refused = live.diff(&id, "none").await;
    assert!(matches!(refused, Err(LiveError::Unknown(_))), "{refused:?}");
    real.close().await;
}
