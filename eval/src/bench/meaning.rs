//! How quick a search is that also finds by meaning: the query's vector, what is near it, and both
//! joined, in one process as the engine and a program do it in two.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use orchestra_engine::index::{Index, Phase};
use orchestra_engine::model;
use orchestra_engine::vectors::Within;
use orchestra_memory::search::{Near, weight};
use orchestra_store::Store;

use super::figures::{Bars, Want, line};
use super::{Dice, QUERIES, TEXTS, find_with, project, query, save};
use crate::table::say;

/// How many hits by meaning there are beside those by words, as the tools ask for.
const NEAR: usize = 100;
/// How long anything may take.
const LONG: Duration = Duration::from_secs(300);
/// How many saves are waited for.
const SAVES: u32 = 400;
/// Vectors that are nearer are of the same text.
const SAME: f32 = 0.999;

/// Keeps the vectors of everything in `directory`, and searches.
pub(super) fn run(store: &Store, directory: &Path, models: &Path, bars: &mut Bars) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    let model = model::open(&models.join("wordllama")).context("opening the model")?;
    let weight = weight(model.kind());
    let start = Instant::now();
    let index = Index::start(store.clone(), directory, model)?;
    let progress = index.wait(LONG, |progress| progress.phase == Phase::Ready);
    if progress.phase != Phase::Ready {
        bail!("not all texts have vectors: {progress:?}");
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = progress.vectors as f64 / start.elapsed().as_secs_f64();
    say(&format!(
        "vectors made                     {rate:>10.0} a second"
    ));

    let project = project()?;
    let rows = store.read(|reader| reader.remembered_range(&project))?;
    let within = Within::rows(rows);
    for words in [2, 5, 12] {
        let mut dice = Dice(43);
        let mut times = Vec::new();
        for at in 0..QUERIES {
            let query = query(&mut dice, words);
            let start = Instant::now();
            let near = index.near(&query, NEAR, &within)?;
            let hit = |near: &orchestra_engine::vectors::Near| Near {
                row: near.row,
                similarity: f64::from(near.similarity),
            };
            let near: Vec<Near> = near.iter().map(hit).collect();
            find_with(store, &query, &near, weight)?;
            if at >= QUERIES / 10 {
                times.push(start.elapsed());
            }
        }
        let name = format!("hybrid search, {words} words");
        let p99 = line(&name, &mut times);
        bars.hold(format!("{name}, p99"), Want::Below(25.0), "ms", p99);
    }
    followed(store, &index, &within, bars)
}

/// Two hundred saves a second, until each is found by meaning.
fn followed(store: &Store, index: &Index, within: &Within<'_>, bars: &mut Bars) -> Result<()> {
    let (told, saved) = mpsc::channel::<(String, Instant)>();
    let mut times = thread::scope(|scope| -> Result<Vec<Duration>> {
        let waiting = scope.spawn(move || -> Result<Vec<Duration>> {
            let mut times = Vec::new();
            for (text, at) in saved {
                loop {
                    let near = index.near(&text, 1, within)?;
                    if near.first().is_some_and(|near| near.similarity > SAME) {
                        break;
                    }
                    if at.elapsed() > LONG {
                        bail!("a text is not found by its meaning");
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                times.push(at.elapsed());
            }
            Ok(times)
        });
        let mut dice = Dice(17);
        let begin = Instant::now();
        for number in 0..SAVES {
            let due = begin + Duration::from_millis(5) * number;
            if let Some(wait) = due.checked_duration_since(Instant::now()) {
                thread::sleep(wait);
            }
            let text = dice.text();
            let number = 2 * TEXTS + number as usize;
            save(store, number, &text)?;
            // As it is embedded: the summary first.
            let text = format!("text number {number}\n{text}");
            told.send((text, Instant::now()))?;
        }
        drop(told);
        waiting.join().map_err(|_| anyhow!("a thread died"))?
    })?;
    let p99 = line("200 a second, until near", &mut times);
    let what = "200 saves a second, found by meaning, p99";
    bars.hold(what, Want::Below(100.0), "ms", p99);
    Ok(())
}
