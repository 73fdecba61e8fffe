//! What the dashboard costs, measured in the browser: `judge-dashboard bench PROGRAM BROWSER`.
//!
//! The program should be a release build, and the machine should do nothing else. Each figure stands beside the
//! bar it is held against and, where there is one, beside the least it could be in the same run. A bar that is
//! not reached is printed, and no error.

mod idle;
mod large;
mod live;
mod load;
mod trace;

use std::{
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use chromiumoxide::Browser;

use crate::{program::Program, tab::Tab};

/// A function of a page that calls back with the page's time, in ms since it was asked for, as soon as what
/// stands in the page now is painted: the next frame is made, and then a message comes through.
const PAINTED: &str = "(then) => requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel(); \
    port1.onmessage = () => then(performance.now()); port2.postMessage(0); })";

/// How many tasks are on the board of a usual project.
const TASKS: usize = 200;

/// What is measured with.
pub(crate) struct Bench<'a> {
    browser: &'a Browser,
    orchestra: &'a Path,
}

/// Measures everything.
pub(crate) async fn run(browser: &Browser, orchestra: &Path) -> Result<()> {
    let bench = Bench { browser, orchestra };
    say("| what | measured | wanted | |");
    say("|---|---|---|---|");
    load::measure(&bench).await.context("the first load")?;
    live::measure(&bench)
        .await
        .context("a change of an agent")?;
    large::measure(&bench).await.context("very many cards")?;
    idle::measure(&bench).await.context("nothing happens")
}

impl Bench<'_> {
    fn program(&self) -> Result<Program> {
        Program::start(self.orchestra, &[])
    }

    /// A page with the board, as soon as there are cards and it follows what happens.
    async fn board(&self, program: &Program) -> Result<Tab> {
        let tab = Tab::open(self.browser, &format!("{}/board/app", program.site())).await?;
        cards(&tab).await?;
        tab.sees("#state[data-state=live]", None).await?;
        Ok(tab)
    }
}

/// Waits until a page shows cards.
async fn cards(tab: &Tab) -> Result<()> {
    tab.until("document.querySelectorAll('.card').length > 3")
        .await
}

/// Prints a figure that is held against the most it may be.
fn bar(what: &str, measured: f64, most: f64, unit: &str) {
    let verdict = if measured <= most {
        "reached"
    } else {
        "NOT REACHED"
    };
    say(&format!(
        "| {what} | {measured:.1} {unit} | at most {most} {unit} | {verdict} |"
    ));
}

/// Prints a figure that others are compared with.
fn figure(what: &str, measured: f64, unit: &str) {
    say(&format!("| {what} | {measured:.1} {unit} | | |"));
}

/// The value that this share of all do not exceed; 0 where there are none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

fn say(line: &str) {
    // Nobody reads it where this fails.
    let _ = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), 50.0);
        assert_eq!(quantile(&values, 0.99), 99.0);
        assert_eq!(quantile(&values, 1.0), 100.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
