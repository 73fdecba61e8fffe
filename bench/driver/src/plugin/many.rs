//! Many plugins at one orchestrator: how soon they are ready, and how soon their tools are listed.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    ROUNDS,
    orchestrator::{Home, PATIENCE, Up},
};
use crate::{
    bars::{Bars, Want},
    numbers::{Samples, millis, spread},
    process,
    server::Server,
    table::say,
};

/// How many are started at once, to see how soon.
const FEW: usize = 20;

/// How many are connected at once.
const MANY: usize = 256;

const LISTS: usize = 200;

/// How often is looked whether all are there, while they start.
const LOOK: Duration = Duration::from_millis(2);

pub(super) fn run(bars: &mut Bars) -> Result<()> {
    let home = Home::of(FEW)?;
    // The first start makes the certificates, which the others find.
    let (_, first) = start(&home, FEW)?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(millis(start(&home, FEW)?.1));
    }
    let (low, high) = spread(&times);
    say(&format!(
        "\n{FEW} plugins: from the start of `orchestra up` until all tools are listed through the \
         bridge {low:.0} ms (best of {ROUNDS}, {low:.0}–{high:.0}); {:.0} ms the first time, when \
         the certificates are made.",
        millis(first)
    ));
    let what = format!("start to ready with {FEW} plugins");
    bars.hold(what, Want::AtMost(500.0), "ms", low);
    listed(bars)
}

fn listed(bars: &mut Bars) -> Result<()> {
    let home = Home::of(MANY)?;
    let (started, all) = start(&home, MANY)?;
    let Started { up, mut bridge } = started;
    let mut times = Samples::default();
    for _ in 0..LISTS {
        let asked = Instant::now();
        tools(&mut bridge)?;
        times.push(asked.elapsed());
    }
    let listed = tools(&mut bridge)?;
    let resident = process::resident(up.pid()).unwrap_or(f64::NAN);
    bridge.close()?;
    say(&format!(
        "\n{MANY} plugins, each a process with certificates of its own: all ready after {:.1} s, \
         certificates made; {listed} tools are listed through the bridge in {:.2} ms (p50; p99 \
         {:.2} ms); the orchestrator holds {resident:.0} MiB.\n",
        all.as_secs_f64(),
        millis(times.p50()),
        millis(times.p99()),
    ));
    let what = format!("tools listed of {MANY} plugins");
    bars.hold(what, Want::AtLeast(MANY as f64), "", listed as f64);
    let what = format!("tools/list of {MANY} plugins, p50");
    bars.hold(what, Want::AtMost(2.0), "ms", millis(times.p50()));
    Ok(())
}

/// An orchestrator whose plugins are ready, and a client of it.
struct Started {
    up: Up,
    bridge: Server,
}

/// Starts it, and waits until so many tools are listed; the time that it took.
fn start(home: &Home, plugins: usize) -> Result<(Started, Duration)> {
    let begun = Instant::now();
    let up = home.up()?;
    let mut bridge = loop {
        match Server::open(&mut home.bridge(&up)?) {
            Ok(bridge) => break bridge,
            // While hundreds of certificates are made, it may not get at its own in time.
            Err(error) => ensure!(begun.elapsed() < PATIENCE, "no bridge: {error:#}"),
        }
    };
    while tools(&mut bridge).unwrap_or(0) < plugins {
        ensure!(begun.elapsed() < PATIENCE, "the plugins do not start");
        thread::sleep(LOOK);
    }
    let time = begun.elapsed();
    Ok((Started { up, bridge }, time))
}

fn tools(server: &mut Server) -> Result<usize> {
    let listed = server.request("tools/list", &json!({}))?;
    Ok(listed["tools"].as_array().map_or(0, Vec::len))
}
