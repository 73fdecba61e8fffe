//! Plans.

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::Stage;

pub(super) async fn a_plan_is_watched_and_steered(stage: &Stage) -> Result<()> {
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
    let status = program.call("get_copilot_plan_status", &json!({"planId": plan}))?;
    let jobs = status["nodes"].as_array().context("a plan has jobs")?;
    let words = jobs.iter().find(|job| job["producerId"] == "words");
    let words = words
        .and_then(|job| job["id"].as_str())
        .context("it has the job")?;
    let log = stage
        .tab(&program, &format!("/plans/{plan}/jobs/{words}"))
        .await?;
    log.sees("main", Some("first line")).await?;
    stage.accessible(&log, "a job").await?;
    log.close().await?;
    tab.close().await
}
