//! From a client of MCP over its pipes through the bridge and the orchestrator to a plugin.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    ROUNDS,
    orchestrator::{Home, PATIENCE},
};
use crate::{
    awake::Awake,
    bars::{Bars, Want},
    load::{self, Calls},
    numbers::{micros, spread},
    process::{self, Place},
    server::{Era, Server},
    table::{Table, say},
};

const TEXT: usize = 100;
const WINDOW: usize = 64;
const WARM_UP: Duration = Duration::from_millis(300);
const SEQUENTIAL: Duration = Duration::from_millis(800);
const THROUGHPUT: Duration = Duration::from_millis(600);

struct Run {
    p50: f64,
    p99: f64,
    calls_per_second: f64,
}

pub(super) fn run(bars: &mut Bars) -> Result<()> {
    let home = Home::of(1)?;
    let awake = Awake::keep()?;
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        runs.push(round(&home)?);
    }
    let figures = |figure: fn(&Run) -> f64| spread(&runs.iter().map(figure).collect::<Vec<_>>());
    let (low, high) = figures(|run| run.p50);
    let (low_tail, high_tail) = figures(|run| run.p99);
    let (slow, fast) = figures(|run| run.calls_per_second);
    say(&format!(
        "\nThe same plugin behind `orchestra up`, called over the pipes of `orchestra stdio \
         --orchestrator-addr`: three programs of ours and two hops over QUIC; {TEXT} bytes, one by \
         one and {WINDOW} in flight; best of {ROUNDS} rounds, the spread in brackets; {}.\n",
        awake.describe()
    ));
    let mut table = Table::new(&["way", "p50 µs", "p99 µs", "calls/s on 64"]);
    table.row(&[
        "bridge".to_owned(),
        format!("{low:.1} ({low:.1}–{high:.1})"),
        format!("{low_tail:.1} ({low_tail:.1}–{high_tail:.1})"),
        format!("{fast:.0} ({slow:.0}–{fast:.0})"),
    ]);
    table.print();
    let what = "bridge to a plugin, p50 on 1";
    bars.hold(what, Want::AtMost(350.0), "µs", low);
    Ok(())
}

fn round(home: &Home) -> Result<Run> {
    let up = home.up()?;
    let mut bridge = Server::open(&mut home.bridge(&up)?)?;
    process::put(bridge.pid(), Place::Anywhere);
    // The plugin may still start.
    let started = Instant::now();
    while let Err(error) = bridge.call("echo", &json!({"text": "hello"})) {
        ensure!(started.elapsed() < PATIENCE, "it does not start: {error:#}");
        thread::sleep(Duration::from_millis(10));
    }
    let mut calls = Calls::echo(TEXT, Era::Session);
    load::sequential(&mut bridge, &mut calls, WARM_UP)?;
    let one_by_one = load::sequential(&mut bridge, &mut calls, SEQUENTIAL)?;
    let throughput = load::pipelined(&mut bridge, &mut calls, WINDOW, THROUGHPUT)?;
    bridge.close()?;
    Ok(Run {
        p50: micros(one_by_one.p50()),
        p99: micros(one_by_one.p99()),
        calls_per_second: throughput.calls_per_second,
    })
}
