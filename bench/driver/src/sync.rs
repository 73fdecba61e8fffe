//! Exchange of a board with other clones, beside git's own push and fetch of the same commits.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::{
    Bench,
    bars::Want,
    numbers::{Samples, millis},
    seed::{self, Board},
    server::program,
    table::{Table, say},
};

const TASKS: usize = 10_000;

/// Changes before a later exchange, and number of these exchanges.
const CHANGES: usize = 10;
const ROUNDS: usize = 7;

const REFERENCE: &str = "refs/orchestra/board";

/// Times of an operation and of git alone.
#[derive(Default)]
struct Times {
    ours: Samples,
    git: Samples,
}

impl Times {
    fn push(&mut self, ours: Duration, git: Duration) {
        self.ours.push(ours);
        self.git.push(git);
    }

    /// Milliseconds of the median above git's.
    fn above_git(&self) -> f64 {
        millis(self.ours.p50()) - millis(self.git.p50())
    }
}

/// Measures first exchanges, those of a few changes, and the size of the repository.
///
/// # Errors
/// When a board cannot be made or exchanged.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let board = bench.boards.with_tasks(TASKS)?;
    let directory = seed::directory()?;
    let place = |name: &str| directory.path().join(name);
    let (remote, copy, other) = (place("remote.git"), place("copy.git"), place("other"));
    let one = board.path();
    set_up(directory.path(), [&remote, &copy], [one, &other])?;

    let before = size(one)?;
    let (mut first_sent, mut first_received) = (Times::default(), Times::default());
    let sent = sync(one)?;
    let growth = size(one)?.saturating_sub(before);
    first_sent.push(sent, push(one, &copy)?);
    let received = sync(&other)?;
    let plain = place("plain.git");
    git(
        directory.path(),
        &["init", "--quiet", "--bare", text(&plain)?],
    )?;
    let fetched = git(&plain, &["fetch", "--quiet", text(&remote)?, &both()])?;
    first_received.push(received, fetched);
    git(&plain, &["repack", "-a", "-d", "-q"])?;
    let needed = size(&plain)?;

    let (mut later_sent, mut later_received) = (Times::default(), Times::default());
    for round in 0..ROUNDS {
        change(board, round)?;
        // Git asks the remote as well, and then pushes.
        let sent = sync(one)?;
        let asked = git(one, &["fetch", "--quiet", "origin", REFERENCE])?;
        later_sent.push(sent, asked + push(one, &copy)?);
        let received = sync(&other)?;
        let fetched = git(&plain, &["fetch", "--quiet", text(&remote)?, &both()])?;
        later_received.push(received, fetched);
    }
    git(&plain, &["repack", "-a", "-d", "-q"])?;
    let (growth_later, needed_later) = (size(one)?.saturating_sub(before), size(&plain)?);

    print(&[
        ("first, sent", &first_sent),
        ("first, received", &first_received),
        ("10 changes, sent", &later_sent),
        ("10 changes, received", &later_received),
    ]);
    say(&format!(
        "\nThe repository grew by {growth} KiB with the first exchange, and by {growth_later} KiB with all; git needs \
         {needed} KiB and {needed_later} KiB for the same commits in one pack."
    ));
    let bars = &mut bench.bars;
    for (what, times) in [("sent", &first_sent), ("received", &first_received)] {
        let what = format!("first exchange of {TASKS} tasks, {what}");
        let measured = times.ours.p50().as_secs_f64();
        bars.hold(what, Want::AtMost(5.0), "s", measured);
    }
    for (what, times) in [("sent", &later_sent), ("received", &later_received)] {
        let what = format!("exchange of {CHANGES} changes, {what}, above git's own");
        bars.hold(what, Want::AtMost(300.0), "ms", times.above_git());
    }
    let ratio = growth as f64 / needed.max(1) as f64;
    let what = "growth of the repository, against a pack of git";
    bars.hold(what, Want::AtMost(2.0), "×", ratio);
    Ok(())
}

/// Creates bare repositories, and clones that have the first of them as `origin`. The first clone exists.
fn set_up(directory: &Path, bare: [&Path; 2], clones: [&Path; 2]) -> Result<()> {
    let ([remote, _], [_, other]) = (bare, clones);
    for bare in bare {
        git(directory, &["init", "--quiet", "--bare", text(bare)?])?;
    }
    git(directory, &["init", "--quiet", text(other)?])?;
    for clone in clones {
        git(clone, &["config", "user.name", "Bench"])?;
        git(clone, &["config", "user.email", "bench@example.org"])?;
        git(clone, &["remote", "add", "origin", text(remote)?])?;
    }
    Ok(())
}

/// Prints the times of each kind of exchange.
fn print(rows: &[(&str, &Times)]) {
    let mut table = Table::new(&["exchange", "p50 ms", "git's own p50 ms", "samples"]);
    for (name, times) in rows {
        table.row(&[
            (*name).to_owned(),
            format!("{:.0}", millis(times.ours.p50())),
            format!("{:.0}", millis(times.git.p50())),
            times.ours.count().to_string(),
        ]);
    }
    table.print();
}

fn both() -> String {
    format!("+{REFERENCE}:{REFERENCE}")
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}

/// Changes the titles of a few tasks.
fn change(board: &Board, round: usize) -> Result<()> {
    let mut server = board.open()?;
    for number in 0..CHANGES {
        let address = &board.tasks[(round * CHANGES + number) * 97 % board.tasks.len()];
        let mut arguments = board.task(address);
        arguments["title"] = json!(format!("Changed in round {round}"));
        server.call_json("update_task", &arguments)?;
    }
    server.close()
}

/// Time of `orchestra sync` in a clone.
fn sync(clone: &Path) -> Result<Duration> {
    let mut command = Command::new(program("orchestra")?);
    command.arg("sync").arg("--workspace").arg(clone);
    // As the program that serves the board.
    command.env("XDG_STATE_HOME", clone.join(".state"));
    timed(&mut command)
}

/// Time of git's own push of the board to another bare repository.
fn push(clone: &Path, to: &Path) -> Result<Duration> {
    git(clone, &["push", "--quiet", text(to)?, REFERENCE])
}

fn git(directory: &Path, words: &[&str]) -> Result<Duration> {
    timed(Command::new("git").args(words).current_dir(directory))
}

fn timed(command: &mut Command) -> Result<Duration> {
    let started = Instant::now();
    let output = command.output();
    let output = output.with_context(|| format!("starting {command:?}"))?;
    let took = started.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(took)
}

/// Size of the objects of a repository in KiB.
fn size(repository: &Path) -> Result<u64> {
    let mut command = Command::new("git");
    command
        .args(["count-objects", "-v"])
        .current_dir(repository);
    let output = command.output().context("starting git")?;
    let said = String::from_utf8(output.stdout)?;
    let of = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse::<u64>().ok())
            .with_context(|| format!("no {name} in the answer of git"))
    };
    Ok(of("size:")? + of("size-pack:")?)
}
