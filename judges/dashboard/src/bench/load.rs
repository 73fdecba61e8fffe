//! The first load of a board, with nothing in the cache of the browser.

use anyhow::{Context as _, Result};

use super::{Bench, PAINTED, TASKS, bar, figure, quantile};
use crate::{program::Program, tab::Tab};

/// How many times a page is loaded.
const TIMES: usize = 15;
/// The most that may be transferred until the board stands, in KiB, as it is on the wire.
const MOST_KIB: f64 = 300.0;
/// The longest it may take until cards are seen, in ms.
const LONGEST_MS: f64 = 1_000.0;

/// What was transferred so far, in bytes, heads included.
const TRANSFERRED: &str = "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))\
    .reduce((all, one) => all + one.transferSize, 0)";

pub(super) async fn measure(bench: &Bench<'_>) -> Result<()> {
    let program = bench.program()?;
    program.board(TASKS)?;
    let plain = loads(bench, &program, "/health").await?;
    figure(
        "load of a line of text, p95",
        quantile(&plain.times, 0.95),
        "ms",
    );
    let board = loads(bench, &program, "/board/app").await?;
    let what = |rest| format!("first load of a board of {TASKS} tasks{rest}");
    bar(
        &what(", until cards are painted, p50"),
        quantile(&board.times, 0.5),
        LONGEST_MS,
        "ms",
    );
    bar(
        &what(", p95"),
        quantile(&board.times, 0.95),
        LONGEST_MS,
        "ms",
    );
    bar(
        &what(", transferred, data of the board included"),
        board.kib,
        MOST_KIB,
        "KiB",
    );
    Ok(())
}

/// Notes when the first card, or where there is none any text, was painted.
fn first() -> String {
    format!(
        "window.firstSeen = new Promise((done) => {{ const look = () => {{ if (document.querySelector('.card') || \
         (document.contentType !== 'text/html' && document.body?.innerText)) ({PAINTED})(done); \
         else requestAnimationFrame(look); }}; look(); }})"
    )
}

struct Loads {
    times: Vec<f64>,
    kib: f64,
}

async fn loads(bench: &Bench<'_>, program: &Program, path: &str) -> Result<Loads> {
    let mut loads = Loads {
        times: Vec::new(),
        kib: 0.0,
    };
    for _ in 0..TIMES {
        let tab = Tab::open(bench.browser, "about:blank").await?;
        tab.forget().await?;
        tab.before(&first()).await?;
        tab.go(&format!("{}{path}", program.site())).await?;
        let time = tab
            .ask("firstSeen")
            .await
            .with_context(|| format!("loading {path}"))?;
        loads.times.push(time);
        let bytes: f64 = tab.ask(TRANSFERRED).await?;
        loads.kib = loads.kib.max(bytes / 1024.0);
        tab.close().await?;
    }
    Ok(loads)
}
