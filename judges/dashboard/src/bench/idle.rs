//! What a page and the program cost while nothing happens.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chromiumoxide::{Browser, cdp::browser_protocol::system_info::GetProcessInfoParams};

use super::{Bench, TASKS, bar, figure};

/// How long is looked.
const LONG: Duration = Duration::from_secs(20);
/// The most that is near to nothing, in percent of one processor.
const MOST_PERCENT: f64 = 1.0;

pub(super) async fn measure(bench: &Bench<'_>) -> Result<()> {
    let program = bench.program()?;
    program.board(TASKS)?;
    let alone = over(bench.browser, program.id()).await?;
    let tab = bench.board(&program).await?;
    let shown = over(bench.browser, program.id()).await?;
    figure("the browser without a page", alone.browser, "%");
    figure("the program without a viewer", alone.program, "%");
    bar(
        "the browser with the board, nothing happens",
        shown.browser,
        MOST_PERCENT,
        "%",
    );
    bar(
        "the program with a viewer, nothing happens",
        shown.program,
        MOST_PERCENT,
        "%",
    );
    tab.close().await
}

/// In percent of one processor.
struct Cost {
    browser: f64,
    program: f64,
}

async fn over(browser: &Browser, program: u32) -> Result<Cost> {
    // What was begun may end first.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let at = Instant::now();
    let before = (of_browser(browser).await?, of_program(program)?);
    tokio::time::sleep(LONG).await;
    let after = (of_browser(browser).await?, of_program(program)?);
    let percent = 100.0 / at.elapsed().as_secs_f64();
    Ok(Cost {
        browser: (after.0 - before.0) * percent,
        program: (after.1 - before.1) * percent,
    })
}

/// Seconds of processors that all processes of the browser have used.
async fn of_browser(browser: &Browser) -> Result<f64> {
    let info = browser.execute(GetProcessInfoParams::default()).await;
    let info = info.context("asking for the processes of the browser")?;
    Ok(info
        .process_info
        .iter()
        .map(|process| process.cpu_time)
        .sum())
}

/// Seconds of processors that the threads of the program have used.
fn of_program(id: u32) -> Result<f64> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).context("looking for threads")?;
    let used = tasks.flatten().filter_map(|task| {
        // A thread may end meanwhile.
        let line = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        line.split(' ').next()?.parse::<f64>().ok()
    });
    Ok(used.sum::<f64>() / 1e9)
}
