//! Judges what memory search finds: recall and mean reciprocal rank of every ranker, kind by kind.
//!
//! Started by `cargo xtask eval memory`, which builds it optimised. The texts are saved into a real
//! store, each at its own time, and asked for as the tools ask. Nothing here decides whether a
//! figure is good. `bench` measures how quick the same is among very many texts.

mod bench;
mod models;
mod rankers;
mod set;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{rankers::Ranker, set::Set};

/// What is judged, and against what it is told apart.
#[derive(Debug, Default)]
struct Asked {
    /// The directory of the set.
    set: Option<String>,
    /// The directory of the models.
    models: Option<PathBuf>,
    /// The ranker whose misses are told.
    missed: Option<String>,
}

fn main() -> Result<()> {
    let asked = Asked::parse(std::env::args().skip(1))?;
    let models = asked.models.as_deref();
    let Some(directory) = asked.set else {
        return bench::run(models);
    };
    let set = Set::read(Path::new(&directory)).context("reading the set")?;
    let memory = set::Memory::save(&set).context("saving the texts")?;
    let models = models::all(&memory.store, models)?;
    let rankers: Vec<Box<dyn Ranker>> = rankers::all(&set, &memory, &models);
    for ranker in &rankers {
        let judged = table::judge(&set, ranker.as_ref())?;
        if asked.missed.as_deref() == Some(ranker.name()) {
            table::missed(&set, &judged);
        }
        table::print(&set, ranker.name(), &judged);
    }
    Ok(())
}

impl Asked {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        const USAGE: &str = "usage: orchestra-eval bench | DIRECTORY [--models DIRECTORY] [RANKER]; \
                             with a ranker, what it missed";
        let mut asked = Self::default();
        match arguments.next().as_deref() {
            None => bail!(USAGE),
            Some("bench") => {}
            Some(directory) => asked.set = Some(directory.to_owned()),
        }
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--models" => asked.models = Some(arguments.next().context(USAGE)?.into()),
                _ if asked.set.is_some() && asked.missed.is_none() => asked.missed = Some(argument),
                _ => bail!(USAGE),
            }
        }
        Ok(asked)
    }
}
