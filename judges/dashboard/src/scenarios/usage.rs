//! What models cost.

use anyhow::Result;
use serde_json::json;

use crate::Stage;

pub(super) async fn what_was_used_is_shown(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    program.board(1)?;
    let tab = stage.tab(&program, "/usage").await?;
    tab.sees("h1", Some("No usage in this period")).await?;
    for (model, tokens) in [("claude-opus", 42_000), ("qwen3", 17_000)] {
        let usage = json!({"input_tokens": tokens, "output_tokens": 900, "cost": 0.25, "provider": "some", "model": model, "project": "app"});
        program.call("record_usage", &usage)?;
        program.call("reset_session_usage", &json!({}))?;
    }
    tab.press("r").await?;
    tab.sees(".usage-legend", Some("claude-opus: 42.9 k"))
        .await?;
    tab.sees(".usage-table td", Some("17,000")).await?;
    tab.until("document.querySelectorAll('.usage-chart rect').length === 2")
        .await?;
    tab.sees(".usage-table a", Some("app")).await?;
    stage.accessible(&tab, "the usage").await?;
    stage.picture(&tab, "usage").await?;
    tab.close().await
}
