//! Very many cards.

use anyhow::{Context as _, Result, ensure};

use super::card_in;
use crate::Stage;

/// How many cards there are.
const CARDS: usize = 10_000;
/// How many stand in the page at most: those in sight, and some around them.
const MOST_SHOWN: u64 = 400;

pub(super) async fn ten_thousand_cards_are_shown_in_few_elements(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    let ids = program.board(CARDS)?;
    let tab = stage.tab(&program, "/board/app").await?;
    tab.until("document.querySelectorAll('.card').length > 3")
        .await?;
    tab.sees(".column[data-state=backlog] [data-count]", Some("10"))
        .await?;
    let shown: u64 = tab.ask("document.querySelectorAll('.card').length").await?;
    ensure!(shown < MOST_SHOWN, "{shown} cards stand in the page");
    // Each is found, wherever it is.
    let last = ids.last().context("there are tasks")?;
    tab.fill("input.search", last).await?;
    tab.sees(&card_in("backlog", last), None).await?;
    tab.fill("input.search", "").await?;
    tab.until("document.querySelectorAll('.card').length > 3")
        .await?;
    let end = "(() => { const list = document.querySelector('.column[data-state=backlog] .cards'); list.scrollTop = list.scrollHeight; return 0; })()";
    let _: u64 = tab.ask(end).await?;
    tab.until("document.querySelector('.column[data-state=backlog] .cards').scrollTop > 100000")
        .await?;
    tab.until("document.querySelectorAll('.column[data-state=backlog] .card').length > 3")
        .await?;
    let shown: u64 = tab.ask("document.querySelectorAll('.card').length").await?;
    ensure!(shown < MOST_SHOWN, "{shown} cards stand in the page");
    tab.close().await
}
