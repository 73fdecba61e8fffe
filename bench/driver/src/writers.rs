//! Many processes that write to one board.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use serde_json::json;

use crate::{
    Bench,
    bars::Want,
    disk,
    numbers::{Samples, millis},
    seed::{self, Board},
    server::Server,
    table::say,
};

const PROCESSES: usize = 32;
const TASKS: usize = 1000;
const TIME: Duration = Duration::from_secs(8);
const DISK_TIME: Duration = Duration::from_secs(2);

/// More than this is asked of no disk.
const ENOUGH: f64 = 2000.0;

/// The share of the disk's own syncs that must come through.
const SHARE: f64 = 0.3;

/// Measures 32 processes on a board of 1 000 tasks.
///
/// # Errors
/// When one of them is refused a change.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let board = bench.boards.with_tasks(TASKS)?;
    let directory = seed::directory()?;
    let mut syncs = disk::syncs(directory.path(), DISK_TIME)?;
    let mut servers = Vec::new();
    for _ in 0..PROCESSES {
        servers.push(board.open()?);
    }
    let barrier = Barrier::new(PROCESSES);
    let writers = thread::scope(|scope| {
        let spawn = |(number, server)| {
            let barrier = &barrier;
            scope.spawn(move || write(server, board, number, barrier))
        };
        let threads: Vec<_> = servers.into_iter().enumerate().map(spawn).collect();
        let ended = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.map_err(|_| anyhow!("a writer's thread panicked"))?
        });
        ended.collect::<Result<Vec<Samples>>>()
    })?;
    let mut samples = Samples::default();
    writers.into_iter().for_each(|one| samples.extend(one));
    syncs.extend(disk::syncs(directory.path(), DISK_TIME)?);

    let rate = samples.count() as f64 / TIME.as_secs_f64();
    let sync_rate = disk::rate(&syncs);
    say(&format!(
        "{PROCESSES} processes on {TASKS} tasks: {rate:.0} acknowledged durable writes/s together, \
         p50 {:.1} ms, p99 {:.1} ms; the disk alone: {sync_rate:.0} syncs/s of 4 KiB, p50 {:.2} ms, \
         p99 {:.2} ms.",
        millis(samples.p50()),
        millis(samples.p99()),
        millis(syncs.p50()),
        millis(syncs.p99()),
    ));
    let wanted = ENOUGH.min(SHARE * sync_rate);
    let what = "32 processes, acknowledged writes together";
    bench.bars.hold(what, Want::AtLeast(wanted), "/s", rate);
    let p99 = millis(samples.p99());
    let what = "32 processes, p99 of a write";
    bench.bars.hold(what, Want::AtMost(60.0), "ms", p99);
    Ok(())
}

fn write(mut server: Server, board: &Board, writer: usize, barrier: &Barrier) -> Result<Samples> {
    let mut samples = Samples::default();
    barrier.wait();
    let begun = Instant::now();
    for number in 0.. {
        let (tool, arguments) = if number % 2 == 0 {
            ("create_task", board.new_task(TASKS + number))
        } else {
            let task = &board.tasks[(writer + number * PROCESSES) % TASKS];
            let mut arguments = board.task(task);
            arguments["title"] = json!(format!("Written by {writer} as its {number}th"));
            ("update_task", arguments)
        };
        let started = Instant::now();
        server.call(tool, &arguments)?;
        if begun.elapsed() > TIME {
            break;
        }
        samples.push(started.elapsed());
    }
    server.close()?;
    Ok(samples)
}
