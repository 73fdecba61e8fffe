//! The board without a mouse.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::card_in;
use crate::{Stage, tab::Tab};

/// Far more presses of Tab than there are things before the cards.
const MOST_TABS: usize = 60;

pub(super) async fn everything_is_done_without_a_mouse(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    let ids = program.board(2)?;
    let id = ids.first().context("there are tasks")?;
    let tab = stage.tab(&program, "/board/app").await?;
    tab.sees(&card_in("backlog", id), None).await?;
    tabbed(&tab, "document.activeElement.matches('.card')").await?;
    tab.press("Home").await?;
    while !on_card(&tab, id).await? {
        tab.press("ArrowDown").await?;
    }
    // One step towards done, and the focus goes along.
    tab.press("a").await?;
    tab.sees(&card_in("todo", id), None).await?;
    tab.until(&format!("document.activeElement.dataset.id === '{id}'"))
        .await?;
    tab.sees_no(".card.pending").await?;
    tab.press("a").await?;
    tab.sees(&card_in("in-progress", id), None).await?;
    tab.sees_no(".card.pending").await?;
    tab.until(&format!("document.activeElement.dataset.id === '{id}'"))
        .await?;
    tab.press("a").await?;
    tab.sees("dialog textarea", None).await?;
    tab.until("document.activeElement.matches('textarea')")
        .await?;
    tab.write("ran the greeting tests: 3 passed").await?;
    tabbed(
        &tab,
        "document.activeElement.matches('button[type=submit]')",
    )
    .await?;
    tab.press("Enter").await?;
    tab.sees(&card_in("ready-for-testing", id), None).await?;
    tab.sees_no(".card.pending").await?;
    let task = program.call("get_task", &json!({"project": "app", "task_id": id}))?;
    ensure!(task["status"] == "ready-for-testing", "{task}");
    // It is opened, and closed again.
    tab.until(&format!("document.activeElement.dataset.id === '{id}'"))
        .await?;
    tab.press("Enter").await?;
    tab.sees("[data-testid=panel]", Some("Say hello 1")).await?;
    tab.press("Escape").await?;
    tab.sees_no("[data-testid=panel]").await?;
    // The other pages, and the list of keys.
    for (key, page) in [
        ("2", "plans"),
        ("3", "memory"),
        ("4", "servers"),
        ("5", "usage"),
        ("1", "board"),
    ] {
        tab.press(key).await?;
        tab.until(&format!("location.pathname.startsWith('/{page}')"))
            .await?;
        tab.sees("main h1, main .chooser", None).await?;
    }
    tab.press("?").await?;
    tab.sees("dialog table.keys", None).await?;
    tab.press("Escape").await?;
    tab.sees_no("dialog").await?;
    tab.close().await
}

/// Presses Tab until the focus is where it is meant to be.
async fn tabbed(tab: &Tab, is_there: &str) -> Result<()> {
    for _ in 0..MOST_TABS {
        tab.press("Tab").await?;
        if tab.ask(is_there).await? {
            return Ok(());
        }
    }
    anyhow::bail!("Tab does not come to {is_there}")
}

async fn on_card(tab: &Tab, id: &str) -> Result<bool> {
    tab.ask(&format!("document.activeElement.dataset.id === '{id}'"))
        .await
}
