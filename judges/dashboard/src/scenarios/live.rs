//! What others do is seen as it happens.

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::card_in;
use crate::Stage;

pub(super) async fn two_viewers_see_what_each_does(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    let ids = program.board(2)?;
    let [one, two] = ids.as_slice() else {
        bail!("two tasks are made: {ids:?}");
    };
    let here = stage.tab(&program, "/board/app").await?;
    let there = stage.tab(&program, "/board/app").await?;
    for tab in [&here, &there] {
        tab.sees(&card_in("backlog", one), None).await?;
    }
    here.drag(&card_in("backlog", one), ".column[data-state='todo']")
        .await?;
    there.sees(&card_in("todo", one), None).await?;
    there
        .drag(&card_in("backlog", two), ".column[data-state='todo']")
        .await?;
    here.sees(&card_in("todo", two), None).await?;
    // The list moves on under the hand: what is dragged is what was pressed.
    let grabbed = here.grab(&card_in("todo", two)).await?;
    let change = json!({"project": "app", "task_id": one, "status": "backlog"});
    program.call("update_task", &change)?;
    here.sees(&card_in("backlog", one), None).await?;
    let at = here
        .carry(grabbed, ".column[data-state='in-progress']")
        .await?;
    here.until(&format!(
        "(({{ left, right, top, bottom }}) => left <= {x} && {x} <= right && top <= {y} && {y} <= bottom)\
         (document.querySelector('.ghost').getBoundingClientRect())",
        x = at.x,
        y = at.y
    ))
    .await?;
    // What an agent does with it is told while it is dragged.
    let may_go_on = ".column[data-state='blocked'].may";
    here.sees_no(may_go_on).await?;
    let change = json!({"project": "app", "task_id": two, "status": "in-progress"});
    program.call("update_task", &change)?;
    here.sees(may_go_on, None).await?;
    let change = json!({"project": "app", "task_id": two, "status": "todo"});
    program.call("update_task", &change)?;
    here.sees_no(may_go_on).await?;
    here.release(at).await?;
    there.sees(&card_in("in-progress", two), None).await?;
    here.close().await?;
    there.close().await
}

pub(super) async fn the_focus_goes_along_with_a_card_that_an_agent_moves(
    stage: &Stage<'_>,
) -> Result<()> {
    let program = stage.program()?;
    let ids = program.board(40)?;
    let tab = stage.tab(&program, "/board/app").await?;
    tab.sees(".column[data-state=backlog] .card", None).await?;
    // Nothing has the focus: an arrow finds the first card.
    tab.press("ArrowDown").await?;
    for _ in 0..2 {
        tab.press("ArrowDown").await?;
    }
    let at = "document.activeElement";
    let id: String = tab.ask(&format!("{at}.dataset.id")).await?;
    anyhow::ensure!(ids.contains(&id), "the focus is on {id}");
    let change = json!({"project": "app", "task_id": id, "status": "todo"});
    program.call("update_task", &change)?;
    tab.sees(&card_in("todo", &id), None).await?;
    tab.until(&format!("{at}.dataset.id === {}", json!(id)))
        .await?;
    // And it stays on one that is drawn anew.
    for key in ["ArrowLeft", "ArrowDown", "ArrowDown"] {
        tab.press(key).await?;
    }
    let id: String = tab.ask(&format!("{at}.dataset.id")).await?;
    let change = json!({"project": "app", "task_id": id, "title": "Changed under the focus"});
    program.call("update_task", &change)?;
    tab.sees(".card", Some("Changed under the focus")).await?;
    tab.until(&format!("{at}.dataset.id === {}", json!(id)))
        .await?;
    tab.close().await
}

pub(super) async fn what_an_agent_does_is_seen_as_it_happens(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    let tab = stage.tab(&program, "/board").await?;
    tab.sees("h1", Some("No project yet")).await?;
    let ids = program.board(1)?;
    let id = ids.first().context("a task")?;
    tab.sees(&card_in("backlog", id), None).await?;
    for state in ["todo", "in-progress"] {
        let change = json!({"project": "app", "task_id": id, "status": state});
        program.call("update_task", &change)?;
        tab.sees(&card_in(state, id), None).await?;
    }
    tab.close().await
}

pub(super) async fn a_page_goes_on_when_the_program_is_started_anew_under_it(
    stage: &Stage<'_>,
) -> Result<()> {
    let mut program = stage.program()?;
    let ids = program.board(2)?;
    let id = ids.first().context("a task")?;
    let tab = stage.tab(&program, "/board/app").await?;
    tab.sees(&card_in("backlog", id), None).await?;
    tab.sees("#state[data-state=live]", None).await?;
    program.restart()?;
    program.call(
        "update_task",
        &json!({"project": "app", "task_id": id, "status": "todo"}),
    )?;
    tab.sees(&card_in("todo", id), None).await?;
    tab.sees("#state[data-state=live]", None).await?;
    // And it is no picture: what is done in it counts.
    tab.drag(&card_in("todo", id), ".column[data-state='in-progress']")
        .await?;
    tab.sees(&card_in("in-progress", id), None).await?;
    tab.sees_no(".card.pending").await?;
    tab.close().await
}
