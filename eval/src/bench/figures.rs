//! Times, and the figures that are wanted beside those that were measured.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::table::say;

/// Figures that were held against what is wanted.
#[derive(Default)]
pub(super) struct Bars(Vec<String>);

/// On which side of a bar a figure must lie.
pub(super) enum Want {
    AtLeast(f64),
    Below(f64),
}

impl Bars {
    pub(super) fn hold(&mut self, what: impl Into<String>, want: Want, unit: &str, found: f64) {
        let (sign, bar, reached) = match want {
            Want::AtLeast(bar) => ("≥", bar, found >= bar),
            Want::Below(bar) => ("<", bar, found < bar),
        };
        let verdict = if reached { "reached" } else { "NOT REACHED" };
        let figure = |value: f64| match value.abs() {
            100.0.. => format!("{value:.0} {unit}"),
            1.0.. => format!("{value:.1} {unit}"),
            _ => format!("{value:.3} {unit}"),
        };
        self.0.push(format!(
            "{:<46}{sign} {:<14}{:<14}{verdict}",
            what.into(),
            figure(bar),
            figure(found)
        ));
    }

    pub(super) fn print(&self) {
        say(&format!("{:<46}{:<16}{:<14}", "bar", "wanted", "measured"));
        self.0.iter().for_each(|line| say(line));
    }
}

/// Prints times, and returns the one that a hundredth exceeds, in milliseconds.
pub(super) fn line(name: &str, times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1_000.0;
    say(&format!(
        "{name:<34} p50 {:>8.2} ms   p99 {:>8.2} ms   most {:>8.2} ms",
        at(50),
        at(99),
        at(100)
    ));
    at(99)
}

/// What the disk takes for a page that is appended and synced, in milliseconds; a hundredth exceeds it.
pub(super) fn disk(directory: &Path) -> Result<f64> {
    let mut file = tempfile::tempfile_in(directory)?;
    let mut times = Vec::new();
    for _ in 0..300 {
        let start = Instant::now();
        file.write_all(&[7; 4_096])?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    Ok(line("the disk's sync", &mut times))
}

/// How much memory this process holds.
pub(super) fn resident_mib() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/statm").context("reading /proc/self/statm")?;
    let pages: u32 = text.split(' ').nth(1).context("statm is short")?.parse()?;
    Ok(f64::from(pages) * 4_096.0 / 1_048_576.0)
}
