//! Settings of plans that change while a program runs plans: the next job has them.

use std::{fs, path::PathBuf};

use rustix::process::Signal;
use serde_json::json;

use crate::{
    plans::{git, ok, plan, waits_for},
    support::{Running, Session, Workspace, until},
};

#[cfg(target_os = "linux")]
const SANDBOX: &str = "[plans]\nsandbox = \"workspace\"\n";

/// A repository with a plan at work in the background, or in `up`.
struct AtWork {
    workspace: Workspace,
    serving: Option<Running>,
    /// File that ends the job of the plan.
    end: PathBuf,
}

impl AtWork {
    fn new(is_served: bool) -> Self {
        let workspace = Workspace::git();
        let begin = ["commit", "-q", "--allow-empty", "-m", "begin"];
        let who = ["-c", "user.name=U", "-c", "user.email=u@example.org"];
        git(&workspace, &[&who[..], &begin].concat());
        let serving = is_served.then(|| {
            let command = workspace.command(["up", "--http", "127.0.0.1:0", "--json"]);
            let serving = Running::start(command);
            assert_eq!(serving.json()["already_running"], false);
            serving
        });
        let end = workspace.home().join("end");
        workspace.write("long.yaml", &waits_for("long", &end));
        ok(&workspace, &["create", "long.yaml", "--start"]);
        until(|| {
            let job = ok(&workspace, &["show", "long", "waits"]);
            (job["state"]["status"] == "running").then_some(())
        });
        Self {
            workspace,
            serving,
            end,
        }
    }

    /// Replaces the settings, as an editor does.
    fn set(&self, text: &str) {
        self.workspace.write("orchestra.new", text);
        let file = self.workspace.join("orchestra.toml");
        fs::rename(self.workspace.join("orchestra.new"), file).unwrap();
    }

    /// Runs a plan whose job writes outside of its worktree. Returns the exit code, and whether the job could write.
    #[cfg(target_os = "linux")]
    fn escapes(&self, name: &str) -> (Option<i32>, bool) {
        let escaped = self.workspace.home().join(format!("escaped-{name}"));
        let ran = plan(&self.workspace, &["run", &self.probe(name)]);
        (ran.code, escaped.exists())
    }

    /// The file of a plan whose job writes outside of its worktree.
    fn probe(&self, name: &str) -> String {
        let escaped = self.workspace.home().join(format!("escaped-{name}"));
        let text = format!(
            "name: {name}\ntargetBranch: {name}\njobs:\n- producerId: probe\n  task: Probe\n  autoHeal: false\n  \
             work: date > probe.txt && touch {}\n",
            escaped.display()
        );
        let file = format!("{name}.yaml");
        self.workspace.write(&file, &text);
        file
    }

    /// Ends the first plan, and the program that serves.
    fn end(self) {
        fs::write(&self.end, "").unwrap();
        let watched = plan(&self.workspace, &["watch", "long"]);
        assert_eq!(watched.code, Some(0), "{watched:?}");
        if let Some(serving) = self.serving {
            serving.signal(Signal::TERM);
            assert!(serving.end().success());
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn sandbox_that_is_switched_on_confines_the_next_job_of_a_running_program() {
    for is_served in [false, true] {
        let work = AtWork::new(is_served);
        assert_eq!(work.escapes("before"), (Some(0), true), "{is_served}");
        work.set(SANDBOX);
        assert_eq!(work.escapes("after"), (Some(6), false), "{is_served}");
        work.end();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn plan_that_was_created_under_the_sandbox_stays_in_it_and_a_clone_does_not() {
    let work = AtWork::new(false);
    work.set(SANDBOX);
    let probe = work.probe("stays");
    ok(&work.workspace, &["create", &probe]);
    work.set("");
    let escaped = work.workspace.home().join("escaped-stays");
    ok(&work.workspace, &["resume", "stays"]);
    let watched = plan(&work.workspace, &["watch", "stays"]);
    assert_eq!(
        (watched.code, escaped.exists()),
        (Some(6), false),
        "{watched:?}"
    );
    // Another runner knows it as well.
    fs::write(&work.end, "").unwrap();
    let endpoint = work.workspace.plans().join("runner.json");
    until(|| (!endpoint.exists()).then_some(()));
    ok(&work.workspace, &["retry", "stays"]);
    let watched = plan(&work.workspace, &["watch", "stays"]);
    assert_eq!(
        (watched.code, escaped.exists()),
        (Some(6), false),
        "{watched:?}"
    );
    ok(&work.workspace, &["clone", "stays", "--name", "free"]);
    ok(&work.workspace, &["finalize", "free"]);
    ok(&work.workspace, &["resume", "free"]);
    let watched = plan(&work.workspace, &["watch", "free"]);
    assert_eq!(
        (watched.code, escaped.exists()),
        (Some(0), true),
        "{watched:?}"
    );
}

#[test]
fn limits_that_change_apply_to_the_next_job_of_a_running_program() {
    let work = AtWork::new(false);
    work.set("[plans]\noutput_bytes = 1000\n");
    let text = "name: loud\ntargetBranch: loud\njobs:\n- producerId: prints\n  task: Print\n  autoHeal: false\n  \
                work: head -c 100000 /dev/zero | tr '\\0' x\n";
    work.workspace.write("loud.yaml", text);
    let ran = plan(&work.workspace, &["run", "loud.yaml"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    let state = ok(&work.workspace, &["show", "loud", "prints"])["state"].clone();
    let error = state["error"].as_str().unwrap_or_default();
    assert!(error.contains("more than 1000 bytes"), "{state}");
    work.end();
}

#[test]
fn no_job_starts_while_the_settings_cannot_be_read() {
    let work = AtWork::new(false);
    // An agent's session, since commands refuse such a file themselves.
    let mut session = Session::start(work.workspace.command(["stdio"]));
    session.ok("list_copilot_plans", &json!({}));
    let probe = work.probe("late");
    let made = ok(&work.workspace, &["create", &probe]);
    let id = made["planId"].as_str().unwrap();
    work.set("[plans]\nsandbox = \n");
    session.ok("resume_copilot_plan", &json!({"planId": id}));
    let asked = json!({"planId": id, "jobId": "probe"});
    let failed = until(|| {
        let job = session.ok("get_copilot_job", &asked);
        job.to_string().contains("cannot be read").then_some(job)
    });
    assert!(failed.to_string().contains("orchestra.toml"), "{failed}");
    assert!(!work.workspace.home().join("escaped-late").exists());
    let new = json!({"name": "new", "jobs": [{"producerId": "one", "task": "T", "work": "true"}]});
    let refused = session.refused("create_copilot_plan", &new);
    assert!(refused.contains("cannot be read"), "{refused}");
    work.set("");
    session.ok("retry_copilot_plan", &json!({"planId": id}));
    until(|| {
        work.workspace
            .home()
            .join("escaped-late")
            .exists()
            .then_some(())
    });
    assert!(session.process.end().success());
    work.end();
}
