//! A screen as small as that of a phone.

use anyhow::{Context as _, Result};

use super::card_in;
use crate::Stage;

/// Its size in pixels.
const SMALL: (u32, u32) = (380, 760);

pub(super) async fn a_small_screen_shows_a_stage_at_a_time(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    let ids = program.board(2)?;
    let id = ids.first().context("a task")?;
    let tab = stage.tab(&program, "/board/app").await?;
    tab.size(SMALL).await?;
    tab.sees("[role=tab][aria-selected=true]", Some("Plan"))
        .await?;
    tab.sees(&card_in("backlog", id), None).await?;
    tab.sees_no(".column[data-state='in-progress']").await?;
    stage
        .accessible(&tab, "the board on a small screen")
        .await?;
    stage.picture(&tab, "small").await?;
    // Another stage begins with its first state, however far this one is scrolled.
    let scrolled = "document.querySelector('.board-region').scrollLeft";
    let _: i32 = tab.ask(&format!("({scrolled} = 200, 0)")).await?;
    tab.until(&format!("{scrolled} > 0")).await?;
    tab.click("[role=tab]", Some("Build")).await?;
    tab.sees(".column[data-state='in-progress']", None).await?;
    tab.until(&format!("{scrolled} === 0")).await?;
    tab.sees_no(".column[data-state='backlog']").await?;
    // No page is wider than the screen.
    for path in ["/board/app", "/plans", "/memory", "/servers", "/usage"] {
        tab.go(&format!("{}{path}", program.site())).await?;
        tab.sees("main h1, main .column", None).await?;
        tab.until("document.documentElement.scrollWidth <= innerWidth")
            .await?;
        stage.accessible(&tab, path).await?;
    }
    tab.close().await
}
