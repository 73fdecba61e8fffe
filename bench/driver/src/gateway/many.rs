//! A hundred servers, of which nobody uses ninety-five.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Home, PATIENCE, SERVER};
use crate::{
    bars::{Bars, Want},
    numbers::{Samples, millis},
    server::{Server, program},
    table::say,
};

const SERVERS: usize = 100;
const USED: usize = 5;
const LISTS: usize = 200;

pub(super) fn run(bars: &mut Bars) -> Result<()> {
    let home = Home::new()?;
    // Once all of them run, so that it is known what they offer.
    home.configure(&servers(0)?)?;
    let started = Instant::now();
    let mut server = Server::open(&mut home.orchestra("stdio")?)?;
    while tools(&mut server)? < SERVERS {
        ensure!(started.elapsed() < PATIENCE, "the servers do not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let all = started.elapsed();
    server.close()?;

    home.configure(&servers(SERVERS - USED)?)?;
    let mut server = Server::open(&mut home.orchestra("stdio")?)?;
    for number in 0..USED {
        let tool = format!("s{number}__echo");
        server.call(&tool, &json!({"text": "hello"}))?;
    }
    let listed = tools(&mut server)?;
    let mut times = Samples::default();
    for _ in 0..LISTS {
        let asked = Instant::now();
        tools(&mut server)?;
        times.push(asked.elapsed());
    }
    let processes = running_below(server.pid());
    server.close()?;
    say(&format!(
        "\n{SERVERS} servers: all ready after {:.0} ms; with {} of them lazy {processes} processes \
         run, {listed} tools are listed in {:.2} ms (p50; p99 {:.2} ms).\n",
        millis(all),
        SERVERS - USED,
        millis(times.p50()),
        millis(times.p99()),
    ));
    let what = format!("processes of {SERVERS} servers, {USED} of them used");
    bars.hold(what, Want::AtMost(USED as f64), "", processes as f64);
    let what = format!("tools listed of {SERVERS} servers");
    bars.hold(what, Want::AtLeast(SERVERS as f64), "", listed as f64);
    let what = format!("tools/list of {SERVERS} servers, p99");
    bars.hold(what, Want::AtMost(5.0), "ms", millis(times.p99()));
    Ok(())
}

/// The configuration, with the last so many of them lazy.
fn servers(lazy: usize) -> Result<Value> {
    let program = program(SERVER)?;
    let server = |number| {
        let lazy = number >= SERVERS - lazy;
        let server = json!({"command": program, "lazy": lazy});
        (format!("s{number}"), server)
    };
    let servers: serde_json::Map<String, Value> = (0..SERVERS).map(server).collect();
    Ok(json!({"mcpServers": servers}))
}

fn tools(server: &mut Server) -> Result<usize> {
    let listed = server.request("tools/list", &json!({}))?;
    Ok(listed["tools"].as_array().map_or(0, Vec::len))
}

/// How many processes of the server run below a process. Linux only; elsewhere none is seen.
fn running_below(pid: u32) -> usize {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue; // It has just ended.
        };
        // The name before it may hold anything but stands in brackets.
        let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        let parent = after.split(' ').nth(1).and_then(|text| text.parse().ok());
        let program = fs::read_link(entry.path().join("exe")).unwrap_or_default();
        parents.extend(parent.map(|parent: u32| (id, parent, program.ends_with(SERVER))));
    }
    let (mut below, mut open) = (0, vec![pid]);
    while let Some(parent) = open.pop() {
        for (id, _, is_server) in parents.iter().filter(|(_, of, _)| *of == parent) {
            below += usize::from(*is_server);
            open.push(*id);
        }
    }
    below
}
