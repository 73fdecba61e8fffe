//! The board by mouse.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::card_in;
use crate::Stage;

pub(super) async fn cards_are_moved_by_mouse_and_refused_where_they_may_not_go(
    stage: &Stage<'_>,
) -> Result<()> {
    let program = stage.program()?;
    let ids = program.board(6)?;
    let id = ids.first().context("there are tasks")?;
    let tab = stage.tab(&program, "/").await?;
    tab.sees(&card_in("backlog", id), None).await?;
    let status = || {
        let task = program.call("get_task", &json!({"project": "app", "task_id": id}))?;
        anyhow::Ok(task["status"].as_str().unwrap_or_default().to_owned())
    };
    // Where it may not go, it stays, and why is said.
    tab.drag(&card_in("backlog", id), ".column[data-state='in-progress']")
        .await?;
    tab.sees(".toast", Some(&format!("{id} stays in backlog")))
        .await?;
    tab.sees(&card_in("backlog", id), None).await?;
    ensure!(status()? == "backlog", "it is {}", status()?);
    for state in ["todo", "in-progress"] {
        let from = format!(".card[data-id='{id}']");
        tab.drag(&from, &format!(".column[data-state='{state}']"))
            .await?;
        tab.sees(&card_in(state, id), None).await?;
        tab.sees_no(".card.pending").await?;
        ensure!(status()? == state, "it is {}", status()?);
    }
    // Its epic and its story have come along, and the column is as it stays.
    tab.until("document.querySelectorAll('.column[data-state=in-progress] .card').length === 3")
        .await?;
    // A gate asks for evidence, and takes no word for it.
    let from = format!(".card[data-id='{id}']");
    tab.drag(&from, ".column[data-state='ready-for-testing']")
        .await?;
    tab.sees("dialog textarea", None).await?;
    stage.accessible(&tab, "the gate").await?;
    tab.write("short").await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.sees("dialog textarea", None).await?;
    ensure!(status()? == "in-progress", "it is {}", status()?);
    tab.fill("dialog textarea", "ran the greeting tests: 3 passed")
        .await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.sees(&card_in("ready-for-testing", id), None).await?;
    tab.sees_no(".card.pending").await?;
    ensure!(status()? == "ready-for-testing", "it is {}", status()?);
    // What is searched for is left.
    tab.fill("input.search", "hello 2").await?;
    tab.until("document.querySelectorAll('.card').length === 1")
        .await?;
    tab.fill("input.search", "").await?;
    tab.until("document.querySelectorAll('.card').length > 5")
        .await?;
    stage.accessible(&tab, "the board").await?;
    tab.close().await
}

pub(super) async fn an_issue_is_opened_by_its_address_and_edited(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    let ids = program.board(3)?;
    let id = ids.first().context("there are tasks")?;
    let tab = stage.tab(&program, &format!("/board/app/{id}")).await?;
    tab.sees("[data-testid=panel]", Some("Say hello 1")).await?;
    tab.click("[data-testid=edit]", None).await?;
    tab.fill("[data-testid=edit-title]", "Say <b>hello</b>")
        .await?;
    tab.click("[data-testid=save]", None).await?;
    // Text is text, never markup.
    tab.sees("[data-testid=panel]", Some("Say <b>hello</b>"))
        .await?;
    tab.sees(&card_in("backlog", id), Some("Say <b>hello</b>"))
        .await?;
    let task = program.call("get_task", &json!({"project": "app", "task_id": id}))?;
    ensure!(task["title"] == "Say <b>hello</b>", "{task}");
    // What an agent spends on it is told as it is recorded.
    tab.sees("[data-testid=spent]", Some("None recorded"))
        .await?;
    let used = json!({"project": "app", "issue_id": id, "input_tokens": 42_000, "output_tokens": 900, "cost": 0.25});
    program.call("record_usage", &used)?;
    tab.sees("[data-testid=spent]", Some("42.9 k in 1 request"))
        .await?;
    stage.accessible(&tab, "the panel").await?;
    stage.picture(&tab, "panel").await?;
    tab.close().await
}
