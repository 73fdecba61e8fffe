//! A board of very many cards: what its page costs while it loads, is scrolled, changes and is searched.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::time::MissedTickBehavior;

use super::{
    Bench, bar, cards, figure, quantile,
    trace::{Tracing, Work},
};
use crate::{program::Program, scenarios::card_in, tab::Tab};

/// How many cards there are.
const CARDS: usize = 10_000;
/// How many changes are made while the page is watched, and how long after one another.
const CHANGES: usize = 60;
const PAUSE: Duration = Duration::from_millis(100);
/// How long after one another letters are written: twelve a second, as the fastest people write.
const LETTER: Duration = Duration::from_millis(80);
/// How far the board is scrolled and how fast, in pixels and in pixels a second.
const SCROLLED: f64 = 30_000.0;
const SPEED: i64 = 6_000;
/// The most work of the main thread for nearly all frames, in ms of a processor.
const FRAME_MS: f64 = 8.0;
/// The longest task of the main thread, in ms.
const TASK_MS: f64 = 50.0;

pub(super) async fn measure(bench: &Bench<'_>) -> Result<()> {
    let program = bench.program()?;
    let ids = program.board(CARDS)?;
    let tracing = Tracing::start(bench.browser).await?;
    let began = Instant::now();
    let tab = bench.board(&program).await?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    let work = tracing.end().await?;
    figure(&format!("load of a board of {CARDS} cards"), took, "ms");
    longest("loaded", &work);

    let tracing = Tracing::start(bench.browser).await?;
    for way in [-SCROLLED, SCROLLED] {
        tab.scroll(".column[data-state=backlog] .cards", way, SPEED)
            .await?;
    }
    hold("scrolled", &tracing.end().await?);

    let tracing = Tracing::start(bench.browser).await?;
    change(&program, &tab, &ids).await?;
    hold("changed by an agent", &tracing.end().await?);

    let tracing = Tracing::start(bench.browser).await?;
    let last = ids.last().context("there are tasks")?;
    tab.click("input.search", None).await?;
    let mut pace = tokio::time::interval(LETTER);
    // What was waited for is not made up for.
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for words in [last, &format!("hello {CARDS}")] {
        for letter in words.chars() {
            pace.tick().await;
            tab.write(&letter.to_string()).await?;
        }
        tab.sees(&card_in("backlog", last), None).await?;
        for _ in words.chars() {
            pace.tick().await;
            tab.press("Backspace").await?;
        }
    }
    cards(&tab).await?;
    hold("searched letter by letter", &tracing.end().await?);
    tab.close().await
}

/// Tasks are moved at a steady pace, as busy agents do.
async fn change(program: &Program, tab: &Tab, ids: &[String]) -> Result<()> {
    let mut pace = tokio::time::interval(PAUSE);
    for id in ids.iter().take(CHANGES) {
        pace.tick().await;
        let change = json!({"project": "app", "task_id": id, "status": "todo"});
        program.call("update_task", &change)?;
    }
    let all = CHANGES.to_string();
    tab.sees(".column[data-state=todo] [data-count]", Some(&all))
        .await
}

fn hold(what: &str, work: &Work) {
    let frames = work.frames.len();
    let named = format!("{CARDS} cards {what}, {frames} frames, work a frame");
    figure(&format!("{named}, p50"), quantile(&work.frames, 0.5), "ms");
    bar(
        &format!("{named}, p95"),
        quantile(&work.frames, 0.95),
        FRAME_MS,
        "ms",
    );
    figure(
        &format!("{named}, by the clock, p95"),
        quantile(&work.lasted, 0.95),
        "ms",
    );
    longest(what, work);
}

fn longest(what: &str, work: &Work) {
    let longest = quantile(&work.tasks, 1.0);
    bar(
        &format!("{CARDS} cards {what}, longest task"),
        longest,
        TASK_MS,
        "ms",
    );
}
