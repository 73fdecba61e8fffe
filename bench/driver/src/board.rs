//! One process on a small and on a large board: reads, changes, edits of its files, memory.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    Bench,
    bars::Want,
    disk,
    numbers::{Samples, micros, millis},
    process,
    seed::{self, Address, Board, COMMON},
    server::Server,
    table::{Table, say},
};

const SMALL: usize = 100;
const LARGE: usize = 100_000;
const DISK_TIME: Duration = Duration::from_secs(2);

/// A step that visits tasks of a board in no order a cache would like.
const STRIDE: usize = 7919;

/// Measures both boards and holds the large one against the bars.
///
/// # Errors
/// When a board cannot be made or a call is refused.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    bench.boards.with_tasks(SMALL)?;
    let directory = seed::directory()?;
    let mut syncs = disk::syncs(directory.path(), DISK_TIME)?;
    let mut table = Table::new(&["tasks", "call", "p50 ms", "p99 ms", "samples"]);
    let mut changes = Vec::new();
    for size in [SMALL, LARGE] {
        let board = bench.boards.with_tasks(size)?;
        let mut server = board.open()?;
        let measured = measure(&mut server, board)?;
        let resident = process::resident(server.pid()).unwrap_or(f64::NAN);
        let peak = process::peak_resident(server.pid()).unwrap_or(f64::NAN);
        server.close()?;
        for (name, _, samples) in &measured {
            table.row(&[
                size.to_string(),
                (*name).to_owned(),
                format!("{:.3}", millis(samples.p50())),
                format!("{:.3}", millis(samples.p99())),
                samples.count().to_string(),
            ]);
        }
        table.row(&[
            size.to_string(),
            format!("resident {resident:.1} MiB, peak {peak:.1} MiB"),
            String::new(),
            String::new(),
            String::new(),
        ]);
        if size == LARGE {
            syncs.extend(disk::syncs(directory.path(), DISK_TIME)?);
            hold(bench, &measured, &syncs);
            let what = "resident with 100 000 tasks, at its peak";
            bench.bars.hold(what, Want::AtMost(60.0), "MiB", peak);
        }
        changes.push(measured);
    }
    table.print();
    say(&format!(
        "\nThe disk's own sync of 4 KiB: p50 {:.3} ms, p99 {:.3} ms.",
        millis(syncs.p50()),
        millis(syncs.p99())
    ));
    flatness(bench)?;
    hand_edits(bench)
}

/// What a call may take, in ms at p99.
#[derive(Debug, Clone, Copy)]
enum Limit {
    Read(f64),
    /// Beside the disk's own sync.
    Durable(f64),
}

type Measured = Vec<(&'static str, Limit, Samples)>;

fn hold(bench: &mut Bench, measured: &Measured, syncs: &Samples) {
    for (name, limit, samples) in measured {
        let limit = match limit {
            Limit::Read(limit) => *limit,
            Limit::Durable(limit) => limit + millis(syncs.p99()),
        };
        let what = format!("{name}, p99 with 100 000 tasks");
        let p99 = millis(samples.p99());
        bench.bars.hold(what, Want::AtMost(limit), "ms", p99);
    }
}

fn measure(server: &mut Server, board: &Board) -> Result<Measured> {
    let tasks = board.tasks.len();
    let get = |number: usize| board.task(&board.tasks[number * STRIDE % tasks]);
    let list = |number: usize| {
        let mut arguments = board.story(number * STRIDE);
        arguments["limit"] = json!(50);
        arguments
    };
    let search = |query: &'static str| {
        move |number: usize| {
            let query = query.replace('#', &(number * STRIDE % tasks.max(100) / 100).to_string());
            json!({"project": board.project, "query": query})
        }
    };
    let next = |_| json!({"project": board.project});
    let create = |number: usize| board.new_task(tasks + number);
    let advance = |number: usize| {
        let mut arguments = board.task(&board.tasks[number / STEPS]);
        arguments["evidence"] = json!("all 42 tests pass, reviewed by two people");
        arguments
    };
    let mut timed = |name, limit, tool, count, arguments: &dyn Fn(usize) -> Value| {
        let samples = time(server, tool, count, arguments)?;
        Ok((name, limit, samples))
    };
    let found = Limit::Read(10.0);
    let measured: Result<Measured> = [
        timed("get_task", Limit::Read(0.5), "get_task", 5000, &get),
        timed(
            "list_tasks of 50",
            Limit::Read(2.0),
            "list_tasks",
            1000,
            &list,
        ),
        timed("search, a rare word", found, "search", 300, &search("z#")),
        timed(
            "search, a word of some",
            found,
            "search",
            300,
            &search("parser"),
        ),
        timed(
            "search, a word of all",
            found,
            "search",
            300,
            &search(COMMON),
        ),
        timed(
            "search, all and some",
            found,
            "search",
            300,
            &search("module parser z#"),
        ),
        timed(
            "get_next_task",
            Limit::Read(2.0),
            "get_next_task",
            1000,
            &next,
        ),
        timed(
            "create_task",
            Limit::Durable(3.0),
            "create_task",
            500,
            &create,
        ),
        timed(
            "advance_task",
            Limit::Durable(3.0),
            "advance_task",
            ADVANCED * STEPS,
            &advance,
        ),
    ]
    .into_iter()
    .collect();
    measured
}

/// Steps from in progress to done.
const STEPS: usize = 7;

/// Tasks of a board that are brought from in progress to done.
const ADVANCED: usize = 50;

fn time(
    server: &mut Server,
    tool: &str,
    count: usize,
    arguments: &dyn Fn(usize) -> Value,
) -> Result<Samples> {
    let mut samples = Samples::default();
    for number in 0..count {
        let arguments = arguments(number);
        let started = Instant::now();
        server.call(tool, &arguments)?;
        samples.push(started.elapsed());
    }
    Ok(samples)
}

/// The cost of a change on both boards, call by call in turn, so that the disk's moods cancel out.
fn flatness(bench: &mut Bench) -> Result<()> {
    const PAIRS: usize = 400;
    let mut servers = Vec::new();
    for size in [SMALL, LARGE] {
        servers.push(bench.boards.with_tasks(size)?.open()?);
    }
    let mut samples = [Samples::default(), Samples::default()];
    for number in 0..PAIRS {
        for (index, size) in [SMALL, LARGE].into_iter().enumerate() {
            let board = bench.boards.with_tasks(size)?;
            let mut arguments = board.task(&board.tasks[number * STRIDE % size]);
            arguments["title"] = json!(format!("Make {COMMON} {number} faster still"));
            let started = Instant::now();
            servers[index].call("update_task", &arguments)?;
            samples[index].push(started.elapsed());
        }
    }
    for server in servers {
        server.close()?;
    }
    let [small, large] = samples.map(|samples| micros(samples.p50()));
    say(&format!(
        "A change takes {small:.0} µs with {SMALL} tasks and {large:.0} µs with {LARGE} (p50)."
    ));
    let what = "cost of a change with 100 000 tasks against 100";
    bench.bars.hold(what, Want::AtMost(1.5), "×", large / small);
    Ok(())
}

/// Number of edits of readable files on each board.
const EDITS: usize = 100;

/// Time for the server to write the files of a board, or to read an edited one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures the time from the write of a readable file until the server answers with the edit.
fn hand_edits(bench: &mut Bench) -> Result<()> {
    let mut table = Table::new(&[
        "tasks",
        "a hand edit is visible after",
        "right after the start",
        "samples",
    ]);
    for size in [SMALL, LARGE] {
        let board = bench.boards.with_tasks(size)?;
        let mut server = board.open()?;
        // A server that starts compares all files with the board before it reads an edit.
        let first = hand_edit(&mut server, board, &board.tasks[0], EDITS)?;
        let mut samples = Samples::default();
        for number in 0..EDITS {
            let task = &board.tasks[number * STRIDE % size];
            samples.push(hand_edit(&mut server, board, task, number)?);
        }
        server.close()?;
        let [p50, p99] = [samples.p50(), samples.p99()].map(millis);
        table.row(&[
            size.to_string(),
            format!("p50 {p50:.1} ms, p99 {p99:.1} ms"),
            format!("{:.1} ms", millis(first)),
            samples.count().to_string(),
        ]);
        let what = format!("hand edit visible, p99 with {size} tasks");
        bench.bars.hold(what, Want::AtMost(200.0), "ms", p99);
    }
    table.print();
    Ok(())
}

/// Renames a task by an edit of its file, as an editor that replaces files does.
fn hand_edit(
    server: &mut Server,
    board: &Board,
    task: &Address,
    number: usize,
) -> Result<Duration> {
    let title = format!("Edited by hand {number}");
    let file = board.file(task);
    let edited: String = current(server, board, task, &file)?
        .lines()
        .map(|line| match line.starts_with("title: ") {
            true => format!("title: {title}\n"),
            false => format!("{line}\n"),
        })
        .collect();
    let beside = file.with_extension("edited");
    fs::write(&beside, edited).context("writing the edited file")?;
    let started = Instant::now();
    fs::rename(&beside, &file).context("replacing the file")?;
    loop {
        if server.call("get_task", &board.task(task))?.contains(&title) {
            return Ok(started.elapsed());
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "{} is not read",
            file.display()
        );
        thread::sleep(Duration::from_millis(1));
    }
}

/// Content of a readable file, once the server has written it as the task is now.
fn current(server: &mut Server, board: &Board, task: &Address, file: &Path) -> Result<String> {
    let started = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        let title = text.lines().find_map(|line| line.strip_prefix("title: "));
        if let Some(title) = title
            && text.trim_end().ends_with("end: true")
            && server.call("get_task", &board.task(task))?.contains(title)
        {
            return Ok(text);
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "{} is not written",
            file.display()
        );
        thread::sleep(Duration::from_millis(10));
    }
}
