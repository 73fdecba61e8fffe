//! Measures Orchestra's programs against peers and the floor, and prints tables.
//!
//! Started by `cargo xtask bench`, which builds everything first. Runs of all peers are
//! interleaved, the best of each counts, and the spread is printed. A bar that is not reached is
//! printed as it is; the program fails only when something could not be measured.

mod awake;
mod bars;
mod board;
mod day;
mod disk;
mod earlier;
mod echo;
mod gateway;
mod http;
mod load;
mod numbers;
mod plugin;
mod process;
mod seed;
mod server;
mod start;
mod sync;
mod table;
mod tokens;
mod writers;

use anyhow::{Context as _, Result, bail};

use crate::{bars::Bars, seed::Boards};

/// What the benchmarks share.
#[derive(Default)]
struct Bench {
    bars: Bars,
    boards: Boards,
}

type Benchmark = fn(&mut Bench) -> Result<()>;

const BENCHMARKS: &[(&str, Benchmark)] = &[
    ("echo", echo::run),
    ("http", http::run),
    ("gateway", gateway::run),
    ("plugin", plugin::run),
    ("board", board::run),
    ("start", start::run),
    ("writers", writers::run),
    ("sync", sync::run),
    ("tokens", tokens::run),
    ("day", day::run),
];

fn main() -> Result<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if names.first().is_some_and(|name| name == awake::SPIN) {
        awake::spin();
    }
    if let Some(unknown) = names
        .iter()
        .find(|name| BENCHMARKS.iter().all(|(known, _)| known != name))
    {
        let known: Vec<_> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        bail!("no benchmark {unknown}: there are {}", known.join(", "));
    }
    let mut bench = Bench::default();
    for (name, benchmark) in BENCHMARKS {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            table::heading(name);
            benchmark(&mut bench).with_context(|| format!("benchmark {name}"))?;
        }
    }
    bench.bars.print();
    Ok(())
}
