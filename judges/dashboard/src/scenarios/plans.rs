//! Plans.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{Stage, program::Program, tab::Tab};

pub(super) async fn a_plan_is_watched_and_steered(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    program.write("README.md", "Hello\n")?;
    let job = |id: &str, work: &str, after: &[&str]| json!({"producerId": id, "task": id, "work": work, "dependencies": after});
    let jobs = json!([
        job("words", "echo first line && echo hello > words.txt", &[]),
        job("shout", "tr a-z A-Z < words.txt > shout.txt", &["words"]),
        job("count", "wc -l < words.txt > count.txt", &["words"]),
        job("broken", "echo it breaks >&2; false", &["shout", "count"]),
    ]);
    let plan = json!({"name": "Diamond", "startPaused": true, "jobs": jobs});
    let made = program.call("create_copilot_plan", &plan)?;
    let plan = made["planId"].as_str().context("a plan has an id")?;
    let tab = stage.tab(&program, "/plans").await?;
    tab.sees(".plan-row a.title", Some("Diamond")).await?;
    stage.accessible(&tab, "the plans").await?;
    stage.picture(&tab, "plans").await?;
    tab.click(".plan-row a.title", Some("Diamond")).await?;
    tab.sees("button", Some("Start")).await?;
    tab.sees("svg", None).await?;
    tab.click("button", Some("Start")).await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.until("document.querySelector('main').innerText.toLowerCase().includes('failed')")
        .await?;
    stage.accessible(&tab, "the graph").await?;
    stage.picture(&tab, "plan").await?;
    for view in ["Table", "Timeline"] {
        tab.click("[role=tab]", Some(view)).await?;
        tab.sees("[role=tabpanel]", Some("words")).await?;
        stage.accessible(&tab, view).await?;
    }
    let words = job_of(&program, plan, "words")?;
    let log = stage
        .tab(&program, &format!("/plans/{plan}/jobs/{words}"))
        .await?;
    log.sees("main", Some("first line")).await?;
    stage.accessible(&log, "a job").await?;
    log.close().await?;
    tab.close().await
}

pub(super) async fn a_job_is_followed_phase_by_phase_and_mended(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    program.write("README.md", "Hello\n")?;
    let work = "echo on the way && echo hello > words.txt && echo bye > other.txt";
    let jobs = json!([
        {"producerId": "words", "task": "words", "work": work, "prechecks": "echo looks first", "dependencies": []},
        {"producerId": "mended", "task": "mended", "work": "echo it breaks >&2; false", "dependencies": ["words"]},
    ]);
    let plan = json!({"name": "Mended", "startPaused": false, "jobs": jobs});
    let made = program.call("create_copilot_plan", &plan)?;
    let plan = made["planId"].as_str().context("a plan has an id")?;
    let words = job_of(&program, plan, "words")?;
    let tab = stage
        .tab(&program, &format!("/plans/{plan}/jobs/{words}"))
        .await?;
    // The log of each phase by itself, and of all.
    tab.sees(".job-head .badge", Some("succeeded")).await?;
    tab.click(".phases [role=tab]", Some("prechecks")).await?;
    log_is(&tab, "looks first", "on the way").await?;
    tab.click(".phases [role=tab]", Some("work")).await?;
    log_is(&tab, "on the way", "looks first").await?;
    tab.until("location.search.includes('phase=work')").await?;
    tab.click(".phases [role=tab]", Some("Full log")).await?;
    for line in ["looks first", "on the way"] {
        tab.sees(".log-line", Some(line)).await?;
    }
    stage.accessible(&tab, "the log of a job").await?;
    stage.picture(&tab, "log").await?;
    // What it changed, in one column and in two.
    tab.click("[role=tab]", Some("Changes")).await?;
    tab.sees(".diff-bar", Some("2 files")).await?;
    tab.sees(".diff tr.is-added", Some("hello")).await?;
    tab.click("button", Some("Side by side")).await?;
    tab.sees(".split-diff td.is-added", Some("hello")).await?;
    stage.accessible(&tab, "the changes of a job").await?;
    stage.picture(&tab, "diff").await?;
    tab.click("button", Some("Fold all")).await?;
    tab.sees_no(".split-diff").await?;
    tab.close().await?;

    // One that fails is tried again with other work, and both attempts stay.
    let mended = job_of(&program, plan, "mended")?;
    let tab = stage
        .tab(&program, &format!("/plans/{plan}/jobs/{mended}"))
        .await?;
    tab.sees(".job-head .badge", Some("failed")).await?;
    tab.click("[role=tab]", Some("Attempts")).await?;
    tab.sees(".log-end", Some("it breaks")).await?;
    stage.accessible(&tab, "an attempt that has failed").await?;
    tab.click("[data-action=retry]", None).await?;
    tab.click("dialog summary", Some("New work")).await?;
    tab.fill("dialog textarea[name=work]", "echo mended > mended.txt")
        .await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.sees(".job-head .badge", Some("succeeded")).await?;
    tab.sees("details.attempt", Some("Attempt 2")).await?;
    // What was open stays so.
    tab.click("details.attempt[data-number='1'] button", Some("Show log"))
        .await?;
    tab.sees(".log-line", Some("it breaks")).await?;
    tab.until("location.search.includes('attempt=1')").await?;
    tab.close().await
}

pub(super) async fn a_plan_that_runs_is_paused_and_ended(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    program.write("README.md", "Hello\n")?;
    let wait = "echo begun; sleep 600";
    let jobs = json!([
        {"producerId": "first", "task": "first", "work": wait, "dependencies": []},
        {"producerId": "second", "task": "second", "work": wait, "dependencies": []},
        {"producerId": "behind", "task": "behind", "work": "true", "dependencies": ["first"]},
    ]);
    let made = program.call(
        "create_copilot_plan",
        &json!({"name": "Long", "startPaused": false, "jobs": jobs}),
    )?;
    let plan = made["planId"].as_str().context("a plan has an id")?;
    let first = job_of(&program, plan, "first")?;
    let job = stage
        .tab(&program, &format!("/plans/{plan}/jobs/{first}"))
        .await?;
    // It is seen while it runs.
    job.sees(".log-line", Some("begun")).await?;
    let tab = stage.tab(&program, &format!("/plans/{plan}")).await?;
    tab.click("main button", Some("Pause")).await?;
    tab.sees("dialog", Some("first")).await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.sees("main button", Some("Resume")).await?;
    job.click("[data-action=fail]", None).await?;
    job.fill("dialog textarea[name=reason]", "it is of no use")
        .await?;
    job.click("dialog button[type=submit]", None).await?;
    job.sees(".job-head .badge", Some("failed")).await?;
    job.sees(".warning", Some("it is of no use")).await?;
    job.close().await?;
    tab.click("main button", Some("Cancel")).await?;
    tab.sees("dialog", Some("second")).await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.sees("main button", Some("Recover")).await?;
    tab.sees("main .badge", Some("canceled")).await?;
    tab.close().await
}

/// The log has one line and not the other.
async fn log_is(tab: &Tab, with: &str, without: &str) -> Result<()> {
    tab.sees(".log-line", Some(with)).await?;
    let text = "document.querySelector('.job-log').innerText";
    tab.until(&format!("!{text}.includes({})", json!(without)))
        .await
}

/// The id of a job of a plan.
fn job_of(program: &Program, plan: &str, name: &str) -> Result<String> {
    let status = program.call("get_copilot_plan_status", &json!({"planId": plan}))?;
    let jobs = status["nodes"].as_array().context("a plan has jobs")?;
    let job = jobs.iter().find(|job| job["producerId"] == name);
    let id = job.and_then(|job| job["id"].as_str());
    id.map(str::to_owned)
        .with_context(|| format!("no job {name} in {}", Value::from(jobs.clone())))
}
