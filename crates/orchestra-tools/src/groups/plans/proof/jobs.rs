//! The jobs of the plan that proves an installation, as they would be written in a file.

use std::collections::BTreeMap;

use orchestra_plan::spec::{JobSpec, PlanSpec};
use orchestra_plan::status::JobStatus;
use orchestra_plan::work::Action;
use serde_json::{Value, json};

use super::ProofOf;
use crate::failure::Failure;

/// What the plan is called unless said.
const NAME: &str = "Integration test";
/// How an agent is told what to do that follows a script: a marked block of its instructions.
const BLOCK: &str = "orchestra-script";

/// Each job: what it is called, what it shows, and how it has to end.
const JOBS: [(&str, &str, JobStatus); 11] = [
    (
        "root-setup",
        "A shell writes the first file; everything else starts from its commit.",
        JobStatus::Succeeded,
    ),
    (
        "parallel-agent",
        "An agent writes a file while other jobs run.",
        JobStatus::Succeeded,
    ),
    (
        "parallel-shell",
        "A shell writes a file while other jobs run.",
        JobStatus::Succeeded,
    ),
    (
        "pressure-agent",
        "An agent reports high token usage, which is counted and shown as context pressure.",
        JobStatus::Succeeded,
    ),
    (
        "auto-heal-job",
        "Its check fails; an agent heals it, and the check passes.",
        JobStatus::Succeeded,
    ),
    (
        "always-fails",
        "It fails after every healing, and ends failed when no healing is left.",
        JobStatus::Failed,
    ),
    (
        "blocked-downstream",
        "It depends on always-fails: it never starts and ends blocked.",
        JobStatus::Blocked,
    ),
    (
        "postchecks-fail",
        "Its work succeeds and the check after it fails: it ends failed.",
        JobStatus::Failed,
    ),
    (
        "no-changes",
        "It changes nothing, as expected.",
        JobStatus::Succeeded,
    ),
    (
        "process-job",
        "A program is started without a shell.",
        JobStatus::Succeeded,
    ),
    (
        "final-merge",
        "It starts from the merged commits of six jobs and finds all their files.",
        JobStatus::Succeeded,
    ),
];

/// What each job shows, by its name.
pub(super) fn descriptions() -> BTreeMap<String, &'static str> {
    JOBS.into_iter()
        .map(|(name, shows, _)| (name.to_owned(), shows))
        .collect()
}

/// How a job has to end; the one that validates the plan waits for those that fail.
pub(super) fn end_of(name: &str) -> JobStatus {
    let job = JOBS.into_iter().find(|(job, ..)| *job == name);
    job.map_or(JobStatus::Blocked, |(_, _, end)| end)
}

/// How many jobs do what a script says.
pub(super) fn scripts(spec: &PlanSpec) -> usize {
    let has_script = |job: &&JobSpec| {
        let by_agent = matches!(job.work.action, Action::Agent(_));
        by_agent
            || job
                .instructions
                .as_ref()
                .is_some_and(|text| text.as_str().contains(BLOCK))
    };
    spec.jobs.iter().filter(has_script).count()
}

/// The plan.
pub(super) fn plan(of: ProofOf) -> Result<PlanSpec, Failure> {
    let name = of
        .name
        .map_or_else(|| NAME.to_owned(), |name| name.to_string());
    let mut plan = json!({
        "name": name,
        "maxParallel": of.max_parallel.map_or(4, |most| most.get()),
        "startPaused": of.start_paused.unwrap_or(true),
        "jobs": JOBS.map(|(name, shows, _)| job(name, shows)),
    });
    let given = [
        (
            "baseBranch",
            of.base_branch.map(|branch| branch.to_string()),
        ),
        (
            "targetBranch",
            of.target_branch.map(|branch| branch.to_string()),
        ),
        (
            "idempotencyKey",
            of.idempotency_key.map(|key| key.to_string()),
        ),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            plan[name] = Value::from(value);
        }
    }
    serde_json::from_value(plan)
        .map_err(|error| Failure::coded("internal", format!("the plan is not one: {error}")))
}

fn job(name: &str, shows: &str) -> Value {
    let mut job = parts(name);
    job["producerId"] = json!(name);
    job["task"] = json!(shows);
    job
}

/// The parts of a job that are its own.
fn parts(name: &str) -> Value {
    let root = ["root-setup"];
    match name {
        "root-setup" => json!({
            "work": "mkdir -p integration-test && printf 'root\\n' > integration-test/root.txt",
            "postchecks": "test -f integration-test/root.txt",
        }),
        "parallel-agent" => json!({
            "dependencies": root,
            "group": "parallel",
            "work": agent(&json!([
                {"print": "writing a file"},
                {"write": {"path": "integration-test/agent.txt", "text": "agent\n"}},
                "complete"
            ])),
            "postchecks": "test -f integration-test/agent.txt",
        }),
        "parallel-shell" => json!({
            "dependencies": root,
            "group": "parallel",
            "work": writes("shell"),
            "postchecks": "test -f integration-test/shell.txt",
        }),
        "pressure-agent" => json!({
            "dependencies": root,
            "group": "parallel",
            "work": agent(&json!([
                {"usage": {"input": 150_000, "output": 2_000, "cost_usd": 0.01}},
                {"write": {"path": "integration-test/pressure.txt", "text": "pressure\n"}},
                "last",
                "complete"
            ])),
            "postchecks": "test -f integration-test/pressure.txt",
        }),
        "auto-heal-job" => json!({
            "dependencies": root,
            "group": "healing",
            "autoHeal": true,
            "work": healed(),
            "postchecks": "grep -q healed integration-test/healed.txt",
        }),
        "always-fails" => json!({
            "dependencies": root,
            "group": "failing",
            "work": agent(&json!([
                {"print_error": "this job fails, as it has to"},
                {"exit": 3}
            ])),
            "expectsNoChanges": true,
            "postchecks": "true",
        }),
        "blocked-downstream" => json!({
            "dependencies": ["always-fails"],
            "group": "failing",
            "work": "echo 'this is never printed'",
            "expectsNoChanges": true,
            "postchecks": "true",
        }),
        "postchecks-fail" => json!({
            "dependencies": root,
            "group": "failing",
            "autoHeal": false,
            "work": writes("postchecks"),
            "postchecks": "echo 'this check fails, as it has to' >&2; exit 4",
        }),
        "no-changes" => json!({
            "dependencies": root,
            "expectsNoChanges": true,
            "work": "test -f integration-test/root.txt",
            "postchecks": "git diff --quiet HEAD",
        }),
        "process-job" => json!({
            "dependencies": root,
            "work": {
                "type": "process",
                "executable": "cp",
                "args": ["integration-test/root.txt", "integration-test/process.txt"],
            },
            "postchecks": {"type": "process", "executable": "test",
                "args": ["-f", "integration-test/process.txt"]},
        }),
        _ => json!({
            "dependencies": ["parallel-agent", "parallel-shell", "pressure-agent", "auto-heal-job",
                "no-changes", "process-job"],
            "work": "cat integration-test/*.txt > integration-test/merged.txt",
            "postchecks": "for part in root agent shell pressure healed process; do \
                test -f integration-test/$part.txt || exit 1; done",
        }),
    }
}

fn writes(name: &str) -> String {
    format!("printf '{name}\\n' > integration-test/{name}.txt")
}

/// Work for the scripted agent.
fn agent(actions: &Value) -> Value {
    script(&json!({"steps": [{"do": actions}]}))
}

/// Work that leaves something wrong at first. The second run in its worktree is the agent that heals: the
/// same one, since what a script does is mended by its script.
fn healed() -> Value {
    let write =
        |text: &str| json!({"write": {"path": "integration-test/healed.txt", "text": text}});
    script(&json!({"steps": [
        {"when": {"run": 1}, "do": [write("broken\n"), "complete"]},
        {"do": [write("healed\n"), "complete"]}
    ]}))
}

fn script(script: &Value) -> Value {
    json!({
        "type": "agent",
        "agent": "scripted",
        "instructions": format!("Follow the script.\n\n```{BLOCK}\n{script}\n```\n"),
        "timeoutMs": 60_000,
    })
}

#[cfg(test)]
mod tests {
    use orchestra_plan::definition::{Draft, SnapshotValidation};
    use orchestra_plan::ids::JobId;

    use super::{ProofOf, plan, scripts};

    #[test]
    fn the_jobs_are_a_plan_without_warnings() {
        let of: ProofOf = serde_json::from_str("{}").unwrap();
        let spec = plan(of).unwrap();
        assert_eq!((spec.jobs.len(), scripts(&spec)), (11, 4));
        let mut draft = Draft::new();
        let ids = (0_u128..).map(|number| JobId::of_random(number.to_be_bytes()));
        draft.add_all(ids.zip(spec.jobs.into_vec())).unwrap();
        let id = JobId::of_random([9; 16]);
        let definition = draft
            .finish(SnapshotValidation { id, verify: None })
            .unwrap();
        assert_eq!(definition.warnings(), []);
    }
}
