//! How quick memory is among very many texts.
//!
//! Words are drawn as a language draws them: few are very common, most are rare. Queries are words
//! of a text that is there, so that they touch as much as those of people do. What a model finds is
//! measured where there is one.

mod figures;
mod meaning;
mod million;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use orchestra_board::{Body, Command, Label, NewProject, Slug, Title};
use orchestra_memory::search::{Asked, Near, Search, gather, search};
use orchestra_store::{Action, MemoryFilter, NewChunk, Options, Store};

use self::figures::{Bars, Want};
use crate::table::say;

/// How many texts there are.
const TEXTS: usize = 100_000;
/// How many bytes each has, about.
const BYTES: usize = 512;
/// How many different words there are.
const WORDS: u64 = 30_000;
/// How many saves wait for the disk at once while the texts are made.
const WRITERS: usize = 64;
/// How many queries are timed.
const QUERIES: usize = 3_000;

/// A small generator of numbers, the same every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap_or(usize::MAX) % end
    }

    /// A word; the first thousand make up most of a text.
    fn word(&mut self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = (self.next() % 1_000_000) as f64 / 1_000_000.0;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of a word"
        )]
        let mut rank = (WORDS as f64).powf(share) as u64;
        let mut word = String::new();
        rank += 17;
        while rank > 0 {
            let syllable = usize::try_from(rank % 40).unwrap_or(0);
            word.push(char::from(b"bcdfghklmnprstvz"[syllable % 16]));
            word.push(char::from(b"aeiou"[syllable % 5]));
            rank /= 40;
        }
        word.push('n');
        word
    }

    fn text(&mut self) -> String {
        let mut text = String::new();
        while text.len() < BYTES {
            text.push_str(&self.word());
            text.push(' ');
        }
        text
    }
}

fn project() -> Result<Slug> {
    Slug::parse("bench").map_err(|error| anyhow!("{error}"))
}

fn save(store: &Store, number: usize, text: &str) -> Result<()> {
    let chunk = NewChunk {
        project: project()?,
        content: Body::parse(text)?,
        summary: Body::parse(&format!("text number {number}"))?,
        source: Some(Label::parse("task")?),
        source_id: Some(Label::parse(&format!("T-{}", number / 20))?),
        tags: Vec::new(),
        created_at: None,
        expires_at: None,
        supersedes: Vec::new(),
    };
    store.submit_blocking(None, Action::SaveMemory(chunk))?;
    Ok(())
}

fn find(store: &Store, query: &str) -> Result<usize> {
    find_with(store, query, &[], 0.0)
}

fn find_with(store: &Store, query: &str, near: &[Near], weight: f64) -> Result<usize> {
    let (project, filter) = (project()?, MemoryFilter::default());
    let ask = Search {
        project: &project,
        query,
        filter: &filter,
        limit: 10,
        sessions: false,
        now: store.now(),
        near,
        weight,
    };
    Ok(store.read(|reader| search(reader, &ask))?.len())
}

/// Runs everything and prints what it took, and whether that is what is wanted. What needs a model is
/// left out where there is none.
pub(crate) fn run(models: Option<&Path>) -> Result<()> {
    let mut bars = Bars::default();
    {
        let directory = tempfile::tempdir()?;
        let options = Options {
            watch: false,
            sweep: false,
            flush: false,
            max_chunks: 1_000_000,
            max_memory_bytes: 1 << 32,
            ..Options::default()
        };
        let store = Store::open(directory.path(), options)?;
        let new = NewProject {
            name: Title::parse("bench")?,
            description: Body::default(),
        };
        store.submit_blocking(None, Action::Board(Command::CreateProject(new)))?;
        fill(&store)?;
        searches(&store, &mut bars)?;
        saves(&store, directory.path(), &mut bars)?;
        steady(&store, &mut bars)?;
        rebuild(&store, &mut bars)?;
        if let Some(models) = models {
            meaning::run(&store, &directory.path().join("vectors"), models, &mut bars)?;
        }
        let resident = figures::resident_mib()?;
        let what = format!("resident with {TEXTS} texts");
        bars.hold(what, Want::Below(500.0), "MiB", resident);
    }
    match models {
        Some(models) => million::run(models, &mut bars)?,
        None => say("no embedding models: what is found by meaning is not measured"),
    }
    bars.print();
    Ok(())
}

fn fill(store: &Store) -> Result<()> {
    let start = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let write = |_| {
        let (store, next) = (store.clone(), Arc::clone(&next));
        thread::spawn(move || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= TEXTS {
                    return Ok(());
                }
                let mut dice = Dice(
                    0x9E37_79B9_7F4A_7C15 ^ (number as u64 + 1).wrapping_mul(0xD1B5_4A32_D192_ED03),
                );
                save(&store, number, &dice.text())?;
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(write).collect();
    for writer in writers {
        writer.join().map_err(|_| anyhow!("a writer died"))??;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = TEXTS as f64 / start.elapsed().as_secs_f64();
    say(&format!(
        "texts saved by {WRITERS} writers         {rate:>10.0} a second"
    ));
    Ok(())
}

fn query(dice: &mut Dice, words: usize) -> String {
    let words: Vec<String> = (0..words).map(|_| dice.word()).collect();
    words.join(" ")
}

fn searches(store: &Store, bars: &mut Bars) -> Result<()> {
    for (name, words, context) in [
        ("search, 2 words", 2, false),
        ("search, 5 words", 5, false),
        ("search, 12 words", 12, false),
        ("context, 5 words", 5, true),
    ] {
        let mut dice = Dice(42);
        let mut times = Vec::new();
        for at in 0..QUERIES {
            let query = query(&mut dice, words);
            let start = Instant::now();
            if context {
                let project = project()?;
                let asked = Asked {
                    project: &project,
                    query: &query,
                    limit: 8,
                    budget: 2_000,
                    now: store.now(),
                    near: &[],
                    weight: 0.0,
                };
                store.read(|reader| gather(reader, &asked))?;
            } else {
                find(store, &query)?;
            }
            if at >= QUERIES / 10 {
                times.push(start.elapsed());
            }
        }
        let p99 = figures::line(name, &mut times);
        if !context {
            bars.hold(format!("{name}, p99"), Want::Below(5.0), "ms", p99);
        }
    }
    Ok(())
}

fn saves(store: &Store, directory: &Path, bars: &mut Bars) -> Result<()> {
    let mut dice = Dice(7);
    let mut times = Vec::new();
    for number in 0..300 {
        let text = dice.text();
        let start = Instant::now();
        save(store, TEXTS + number, &text)?;
        times.push(start.elapsed());
    }
    let p99 = figures::line("save, durable", &mut times);
    let sync = figures::disk(directory)?;
    let what = "save, p99 (10 ms and the disk's sync)";
    bars.hold(what, Want::Below(10.0 + sync), "ms", p99);
    Ok(())
}

/// Two hundred saves a second, each searched for as soon as it is acknowledged.
fn steady(store: &Store, bars: &mut Bars) -> Result<()> {
    let mut dice = Dice(11);
    let mut times = Vec::new();
    let begin = Instant::now();
    let mut missed = 0;
    for number in 0..600_u32 {
        let due = begin + Duration::from_millis(5) * number;
        if let Some(wait) = due.checked_duration_since(Instant::now()) {
            thread::sleep(wait);
        }
        let mark = format!("zq{number}x");
        save(store, number as usize, &format!("{mark} {}", dice.text()))?;
        missed += usize::from(find(store, &mark)? == 0);
        times.push(due.elapsed());
    }
    let p99 = figures::line("200 a second, until found", &mut times);
    let what = "200 saves a second, each found after, p99";
    bars.hold(what, Want::Below(100.0), "ms", p99);
    if missed > 0 {
        bail!("{missed} texts were not found right after they were saved");
    }
    Ok(())
}

/// The full-text index, made anew while nobody else asks for anything.
fn rebuild(store: &Store, bars: &mut Bars) -> Result<()> {
    let start = Instant::now();
    let done = store.reindex_memory(|_| {})?;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = done.rows as f64 / start.elapsed().as_secs_f64();
    say(&format!(
        "indexed anew                     {rate:>10.0} a second"
    ));
    let what = "texts indexed anew in a second";
    bars.hold(what, Want::AtLeast(20_000.0), "", rate);
    Ok(())
}
