//! A million vectors: how quick the nearest are found, and how many of the exact nearest are among
//! them.
//!
//! Texts are made and not random: each is about one of some hundred subjects, in common words and
//! names as programs have them, so that vectors lie in clusters as those of real texts do.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use orchestra_engine::model::{self, Embedder, Purpose};
use orchestra_engine::vectors::{NewVector, TextHash, Vectors, Within};

use super::Dice;
use super::figures::{Bars, Want, line};
use crate::table::say;

const COUNT: usize = 1_000_000;
const WANTED: usize = 10;
const QUERIES: usize = 200;
/// How many queries are compared with the exact nearest.
const EXACT: usize = 60;
const BATCH: usize = 1_000;

/// Words that texts are made of.
const WORDS: &str = "lock writer reader cache index query memory session token parser buffer socket \
    thread channel queue worker project issue epic story task branch commit merge review release \
    deploy server client request response header cookie password login user account invoice price \
    order basket payment currency customer address shipping refund email template button colour \
    layout font image upload download file directory path permission owner group secret key \
    certificate signature hash random number counter clock time zone date calendar week holiday \
    budget report chart table column row database schema migration backup restore snapshot replica \
    shard partition leader follower election quorum network latency throughput bandwidth packet \
    proxy gateway router firewall container image registry volume cluster node pod service metric \
    trace log alert incident outage recovery retry timeout limit quota rate burst window histogram \
    compiler linker macro trait generic lifetime borrow pointer allocator stack heap garbage leak \
    panic error warning lint format style comment document example tutorial guide question answer \
    meeting decision plan estimate deadline risk dependency library package version licence patch \
    test fixture mock snapshot property fuzz coverage benchmark profile flame graph memory page \
    vector model embedding search ranking recall score weight corpus language sentence word letter \
    music garden kitchen recipe bread butter coffee tea apple orange river mountain forest winter \
    summer train station ticket journey hotel museum painting history castle bridge tower village";
const JOINTS: &str = "the a of in for with when because after before we they it must should cannot \
    is was has fails works breaks returns needs uses keeps drops reads writes and or but not";

/// Makes the vectors, and searches them.
pub(super) fn run(models: &Path, bars: &mut Bars) -> Result<()> {
    let model = model::open(&models.join("wordllama")).context("opening the model")?;
    let model = model.as_ref();
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let vectors = Vectors::in_memory(model.id(), model.dimensions());
    let exact = fill(model, &vectors, &mut dice)?;
    let queries: Vec<String> = (0..QUERIES).map(|_| text(&mut dice, 8)).collect();
    let mut times = Vec::new();
    let (mut right, mut asked) = (0.0, 0.0);
    for round in 0..5 {
        for (number, query) in queries.iter().enumerate() {
            let begin = Instant::now();
            let query = model.embed(&[query], Purpose::Query)?.swap_remove(0);
            let found = vectors.near(&query, WANTED, &Within::default());
            times.push(begin.elapsed());
            if round == 0 && number < EXACT {
                for row in nearest(&exact, &query) {
                    asked += 1.0;
                    right += f64::from(u8::from(found.iter().any(|near| near.row == row)));
                }
            }
        }
    }
    let p99 = line("near, among a million", &mut times);
    bars.hold("near, among a million, p99", Want::Below(50.0), "ms", p99);
    let what = "recall@10 of the exact nearest";
    bars.hold(what, Want::AtLeast(0.98), "", right / asked);
    Ok(())
}

/// Makes all vectors; returns them as they were made.
fn fill(model: &dyn Embedder, vectors: &Vectors, dice: &mut Dice) -> Result<Vec<f32>> {
    let mut exact = Vec::with_capacity(COUNT * model.dimensions());
    let start = Instant::now();
    let mut row = 0;
    while vectors.len() < COUNT {
        let texts: Vec<String> = (0..BATCH).map(|_| text(dice, 70)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let made = model.embed(&texts, Purpose::Text)?;
        let mut new = Vec::with_capacity(BATCH);
        for (numbers, text) in made.iter().zip(&texts) {
            let hash = TextHash::of(text);
            new.push(NewVector { row, hash, numbers });
            row += 1;
        }
        vectors.put(&new);
        exact.extend(made.into_iter().flatten());
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = COUNT as f64 / start.elapsed().as_secs_f64();
    say(&format!(
        "vectors made and kept            {rate:>10.0} a second"
    ));
    Ok(exact)
}

/// A text of so many words about one subject.
fn text(dice: &mut Dice, words: usize) -> String {
    let all: Vec<&str> = WORDS.split_whitespace().collect();
    let joints: Vec<&str> = JOINTS.split_whitespace().collect();
    // A subject is a dozen words, which it shares with its neighbours.
    let subject = dice.below(300) * 7;
    let mut text = String::new();
    for _ in 0..words.max(1) / 2 + dice.below(words) {
        match dice.below(10) {
            0..4 => text.push_str(joints[dice.below(joints.len())]),
            4..8 => text.push_str(all[(subject + dice.below(12)) % all.len()]),
            8 => text.push_str(all[dice.below(all.len())]),
            _ => {
                text.push_str(all[(subject + dice.below(12)) % all.len()]);
                text.push('_');
                text.push_str(all[dice.below(all.len())]);
            }
        }
        text.push(' ');
    }
    text
}

/// The exact nearest rows.
fn nearest(exact: &[f32], query: &[f32]) -> Vec<i64> {
    let mut all: Vec<(f32, i64)> = exact
        .chunks_exact(query.len())
        .map(|vector| vector.iter().zip(query).map(|(x, y)| x * y).sum())
        .zip(0..)
        .collect();
    let place = WANTED.min(all.len());
    all.select_nth_unstable_by(place - 1, |one, other| other.0.total_cmp(&one.0));
    all.truncate(place);
    all.into_iter().map(|(_, row)| row).collect()
}
