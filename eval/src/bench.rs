//! How quick memory is among very many texts.
//!
//! Words are drawn as a language draws them: few are very common, most are rare. Queries are words
//! of a text that is there, so that they touch as much as those of people do.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use orchestra_board::{Body, Command, Label, NewProject, Slug, Title};
use orchestra_memory::search::{Asked, Search, gather, search};
use orchestra_store::{Action, MemoryFilter, NewChunk, Options, Store};

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
    let (project, filter) = (project()?, MemoryFilter::default());
    let ask = Search {
        project: &project,
        query,
        filter: &filter,
        limit: 10,
        sessions: false,
        now: store.now(),
        near: &[],
        weight: 0.0,
    };
    Ok(store.read(|reader| search(reader, &ask))?.len())
}

/// Runs everything and prints what it took.
pub(crate) fn run() -> Result<()> {
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
    searches(&store)?;
    saves(&store)?;
    steady(&store)?;
    say(&format!(
        "resident                         {:>10} MiB",
        resident()? >> 20
    ));
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

fn searches(store: &Store) -> Result<()> {
    for (name, words, context) in [
        ("search, 2 words", 2, false),
        ("search, 5 words", 5, false),
        ("search, 12 words", 12, false),
        ("context, 5 words", 5, true),
    ] {
        let mut dice = Dice(42);
        let mut times = Vec::new();
        for at in 0..QUERIES {
            let query: Vec<String> = (0..words).map(|_| dice.word()).collect();
            let query = query.join(" ");
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
        line(name, &mut times);
    }
    Ok(())
}

fn saves(store: &Store) -> Result<()> {
    let mut dice = Dice(7);
    let mut times = Vec::new();
    for number in 0..300 {
        let text = dice.text();
        let start = Instant::now();
        save(store, TEXTS + number, &text)?;
        times.push(start.elapsed());
    }
    line("save, durable", &mut times);
    Ok(())
}

/// Two hundred saves a second, each searched for as soon as it is acknowledged.
fn steady(store: &Store) -> Result<()> {
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
    line("200 a second, until found", &mut times);
    say(&format!("  not found                      {missed:>10}"));
    Ok(())
}

fn line(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1_000.0;
    say(&format!(
        "{name:<28} p50 {:>8.2} ms   p99 {:>8.2} ms   most {:>8.2} ms",
        at(50),
        at(99),
        at(100)
    ));
}

fn resident() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/statm").context("reading /proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).context("statm is short")?.parse()?;
    Ok(pages * 4_096)
}
