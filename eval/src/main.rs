//! Judges what memory search finds: recall and mean reciprocal rank of every ranker, kind by kind.
//!
//! Started by `cargo xtask eval memory`, which builds it optimised. The texts are saved into a real
//! store, each at its own time, and asked for as the tools ask. Nothing here decides whether a
//! figure is good. `bench` measures how quick the same is among very many texts.

mod bench;
mod rankers;
mod set;
mod table;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::{rankers::Ranker, set::Set};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["bench"] {
        return bench::run();
    }
    let (directory, missed) = match arguments.as_slice() {
        [directory] => (directory, None),
        [directory, ranker] => (directory, Some(ranker)),
        _ => {
            bail!("usage: orchestra-eval bench | DIRECTORY [RANKER]; with a ranker, what it missed")
        }
    };
    let set = Set::read(Path::new(directory)).context("reading the set")?;
    let memory = set::Memory::save(&set).context("saving the texts")?;
    let rankers: Vec<Box<dyn Ranker>> = rankers::all(&set, &memory);
    for ranker in &rankers {
        let judged = table::judge(&set, ranker.as_ref())?;
        if missed.is_some_and(|name| name.as_str() == ranker.name()) {
            table::missed(&set, &judged);
        }
        table::print(&set, ranker.name(), &judged);
    }
    Ok(())
}
