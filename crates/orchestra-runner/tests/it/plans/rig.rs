//! A user with a repository, and the plans of its workspace.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use orchestra_plan::{
    ids::{Branch, PlanId, ProducerId},
    outcome::Policy,
    plan::Plan,
    spec::{Dependencies, JobSpec, Name, PlanSettings, Task},
    status::{JobStatus, PlanStatus},
    work::{ProfileName, WorkSpec},
};
use orchestra_process::{CHILD_COMMAND, Launcher};
use orchestra_runner::{
    agents::{Agents, Named, Prober, ready},
    git::GitSettings,
    plans::{Answer, Background, Caller, Options, Plans, Trust},
    supervise::JOB_COMMAND,
};
use tempfile::TempDir;

use crate::git::kit;

/// Longer than anything here takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The example `plans` of this crate, which is built with the tests.
pub(super) fn program() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/plans")
}

/// A user with a repository.
pub(super) struct Rig {
    home: TempDir,
    pub(super) root: PathBuf,
}

impl Rig {
    /// A repository with one commit on `main`.
    pub(super) fn new() -> Self {
        let rig = Self::empty();
        fs::write(rig.root.join("README"), "read me\n").unwrap();
        rig.git(&["add", "-A"]);
        rig.git(&["commit", "-q", "-m", "first"]);
        rig
    }

    /// A repository without commits.
    pub(super) fn empty() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("work here 🎉");
        fs::create_dir(&root).unwrap();
        let rig = Self { home, root };
        rig.git(&["init", "-q", "-b", "main"]);
        rig.git(&["config", "user.name", "A User"]);
        rig.git(&["config", "user.email", "user@example.org"]);
        rig
    }

    fn git_environment(&self) -> Vec<(OsString, OsString)> {
        let home = self.home.path();
        [
            ("HOME", home.as_os_str().to_owned()),
            ("XDG_CONFIG_HOME", home.join("config").into_os_string()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ]
        .map(|(name, value)| (name.into(), value))
        .to_vec()
    }

    pub(super) fn storage(&self) -> PathBuf {
        self.root.join(".orchestrator/plans")
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(super) fn options(&self) -> Options {
        let path = std::env::var_os("PATH").unwrap();
        let prober = Prober::new(path.clone(), program());
        let prober = prober.launcher(Launcher::new(program(), [CHILD_COMMAND]));
        let agents = Agents::new(BTreeMap::new(), prober);
        let scripted = ProfileName::parse(ready::SCRIPTED).unwrap();
        let storage = self.storage();
        let words: [OsString; 3] = [
            "__runner".into(),
            self.root.clone().into(),
            storage.clone().into(),
        ];
        let mut environment = BTreeMap::from([("PATH".into(), path)]);
        environment.extend(self.git_environment());
        Options {
            agents: Arc::new(agents),
            named: Named::of_user(Some(scripted.clone()), Some(scripted)),
            supervisor: Some(Launcher::new(program(), [JOB_COMMAND])),
            background: Some(Background {
                program: program(),
                arguments: words.to_vec(),
            }),
            git: GitSettings {
                environment: self.git_environment(),
                ..GitSettings::default()
            },
            policy: Policy {
                // Plans of these tests fail more often than the default limit allows.
                heals_max: 4,
                plan_heals_max: u32::MAX,
                heal_cost_max: u64::MAX,
                losses_max: 1_000,
                transient_waits: vec![Duration::from_millis(50); 3],
                ..Policy::default()
            },
            environment,
            quiet: Duration::from_millis(300),
            trust: Trust::Any,
            ..Options::new(&self.root, &storage)
        }
    }

    pub(super) fn plans(&self) -> Plans {
        Plans::new(self.options())
    }

    /// Output of the user's git, which must succeed.
    pub(super) fn git(&self, words: &[&str]) -> String {
        kit::succeeding(words, || self.try_git(words))
    }

    pub(super) fn try_git(&self, words: &[&str]) -> Output {
        Command::new("git")
            .args(words)
            .current_dir(&self.root)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .envs(self.git_environment())
            .output()
            .unwrap()
    }

    /// The content of a file on a branch.
    pub(super) fn file(&self, branch: &str, path: &str) -> String {
        self.git(&["show", &format!("{branch}:{path}")])
    }

    /// Another process of the workspace.
    pub(super) fn process(&self, words: &[&str]) -> Child {
        self.process_with(words, &[])
    }

    /// Another process of the workspace, with variables of its own.
    pub(super) fn process_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Child {
        Command::new(program())
            .envs(variables.iter().copied())
            .arg(words[0])
            .arg(&self.root)
            .arg(self.storage())
            .args(&words[1..])
            .envs(self.git_environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The worktrees of jobs that are there.
    pub(super) fn worktrees(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(".worktrees")) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

/// A job that runs a line in a shell.
pub(super) fn job(name: &str, after: &[&str], line: &str) -> JobSpec {
    let producer = |name: &str| ProducerId::parse(name).unwrap();
    let dependencies = after.iter().map(|name| producer(name)).collect();
    JobSpec {
        dependencies: Dependencies::new(dependencies).unwrap(),
        ..JobSpec::of(
            producer(name),
            Task::parse(&format!("Do {name}")).unwrap(),
            WorkSpec::parse(line).unwrap(),
        )
    }
}

/// A command line that creates one file when it begins, then waits for another one.
pub(super) fn gated(began: &Path, gate: &Path, line: &str) -> String {
    format!(
        "touch '{}'; until test -e '{}'; do sleep 0.01; done; {line}",
        began.display(),
        gate.display()
    )
}

/// A plan that starts at once and ends on `result`.
pub(super) fn settings(name: &str) -> PlanSettings {
    PlanSettings {
        start_paused: false,
        target_branch: Some(Branch::parse("result").unwrap()),
        ..PlanSettings::of(Name::parse(name).unwrap())
    }
}

/// Makes a plan.
pub(super) async fn create(plans: &Plans, settings: PlanSettings, jobs: Vec<JobSpec>) -> Answer {
    let caller = Caller::named("a test");
    plans.create(settings, jobs, false, &caller).await.unwrap()
}

/// Waits until a condition holds.
pub(super) async fn at_last(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for the end of a plan, and says what its jobs came to where that is not success.
pub(super) async fn succeeded(plans: &Plans, plan: PlanId) -> Arc<Plan> {
    let ended = ended(plans, plan).await;
    assert_eq!(ended.status(), PlanStatus::Succeeded, "{}", told(&ended));
    ended
}

/// Waits for the end of a plan.
pub(super) async fn ended(plans: &Plans, plan: PlanId) -> Arc<Plan> {
    match tokio::time::timeout(PATIENCE, plans.wait(plan)).await {
        Ok(ended) => ended.unwrap(),
        Err(_) => panic!("no end: {}", told(&plans.plan(plan).await.unwrap())),
    }
}

/// What the jobs of a plan came to.
pub(super) fn told(plan: &Plan) -> String {
    let mut text = format!("plan {} {:?}\n", plan.status(), plan.paused());
    for job in plan.jobs() {
        text.push_str(&format!(
            "{} {} {:?}\n",
            job.producer(),
            job.status(),
            job.error()
        ));
        for attempt in job.attempts() {
            text.push_str(&format!(
                "  {} {:?} {:?} {:?} {:?}\n",
                attempt.number, attempt.trigger, attempt.status, attempt.acts, attempt.failure
            ));
        }
    }
    text
}

/// How a job stands.
pub(super) fn status(plan: &Plan, job: &str) -> JobStatus {
    plan.find(job).unwrap().status()
}
