//! What is remembered.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::Stage;

pub(super) async fn what_is_remembered_is_found_edited_and_forgotten(
    stage: &Stage<'_>,
) -> Result<()> {
    let program = stage.program()?;
    program.board(1)?;
    for (summary, content) in [
        (
            "SQLite in WAL mode",
            "We chose SQLite in WAL mode because many agents write at once.",
        ),
        (
            "Retry limit is 5",
            "The retry limit is 5, raised from 3 after the outage.",
        ),
    ] {
        let memory =
            json!({"project": "app", "summary": summary, "content": content, "source": "decision"});
        program.call("save_memory", &memory)?;
    }
    let session = json!({"project": "app", "session_id": "monday", "summary": "Chose a database"});
    program.call("save_session", &session)?;
    let tab = stage.tab(&program, "/memory").await?;
    tab.until("document.querySelectorAll('.memory-row').length === 2")
        .await?;
    tab.fill("input.find", "why sqlite").await?;
    tab.sees(".memory-row .memory-why", Some("sqlite")).await?;
    stage.accessible(&tab, "the memories").await?;
    stage.picture(&tab, "memory").await?;
    tab.click(".memory-row a.title", Some("SQLite")).await?;
    tab.sees(".memory-entry pre", Some("many agents")).await?;
    tab.click("button", Some("Edit")).await?;
    tab.fill("dialog textarea[name=content]", "SQLite: <i>one</i> file")
        .await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.sees(".memory-entry pre", Some("SQLite: <i>one</i> file"))
        .await?;
    stage.accessible(&tab, "a memory").await?;
    tab.click("button.danger", Some("Forget")).await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.until("document.querySelectorAll('.memory-row').length === 1")
        .await?;
    let left = program.call("list_memory", &json!({"project": "app"}))?;
    ensure!(left["total"] == 1, "{left}");
    tab.click(".memory-tabs a", Some("Sessions")).await?;
    tab.click(".memory-row a.title", Some("monday")).await?;
    tab.sees(".memory-entry pre", Some("Chose a database"))
        .await?;
    stage.accessible(&tab, "a session").await?;
    tab.close().await
}
