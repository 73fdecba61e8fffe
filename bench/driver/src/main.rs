//! Measures Orchestra's programs against peers and the floor, and prints tables.
//!
//! Started by `cargo xtask bench`, which builds everything first. Runs of all peers are
//! interleaved, the best of each counts, and the spread is printed. A bar that is not reached is
//! printed as it is; the program fails only when something could not be measured.

mod bars;
mod echo;
mod load;
mod numbers;
mod process;
mod server;
mod table;

use anyhow::{Context as _, Result, bail};

use crate::bars::Bars;

type Benchmark = fn(&mut Bars) -> Result<()>;

const BENCHMARKS: &[(&str, Benchmark)] = &[("echo", echo::run)];

fn main() -> Result<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = names
        .iter()
        .find(|name| BENCHMARKS.iter().all(|(known, _)| known != name))
    {
        let known: Vec<_> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        bail!("no benchmark {unknown}: there are {}", known.join(", "));
    }
    let mut bars = Bars::default();
    for (name, benchmark) in BENCHMARKS {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            table::heading(name);
            benchmark(&mut bars).with_context(|| format!("benchmark {name}"))?;
        }
    }
    bars.print();
    Ok(())
}
