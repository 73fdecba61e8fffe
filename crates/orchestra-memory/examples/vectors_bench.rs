//! Measures searching: `vectors_bench MODEL [COUNT]` makes texts, embeds them with the model in a
//! directory, and compares what is found near queries with the exact nearest.
//!
//! Texts are made and not random: each is about one of some hundred subjects, in common words and
//! names as programs have them, so that vectors lie in clusters as those of real texts do.

#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use orchestra_memory::model::{self, Embedder, Purpose};
use orchestra_memory::vectors::{NewVector, TextHash, Vectors, Within};

const WANTED: usize = 10;
const QUERIES: usize = 200;
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

/// A generator of numbers that are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("which directory holds the model?")?;
    let count: usize = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let model = model::open(Path::new(&directory))?;
    let place = std::env::temp_dir().join(format!("vectors-bench-{}", std::process::id()));
    std::fs::create_dir_all(&place)?;
    let measured = measure(model.as_ref(), &place, count);
    std::fs::remove_dir_all(&place)?;
    measured
}

fn measure(model: &dyn Embedder, place: &Path, count: usize) -> Result<(), Box<dyn Error>> {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let vectors = Vectors::open(place, model.id(), model.dimensions());
    let mut exact = Vec::with_capacity(count * model.dimensions());
    let (mut embedding, mut keeping) = (Duration::ZERO, Duration::ZERO);
    let mut row = 0_i64;
    while exact.len() < count * model.dimensions() {
        let texts: Vec<String> = (0..BATCH).map(|_| text(&mut dice, 70)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let begin = Instant::now();
        let made = model.embed(&texts, Purpose::Text)?;
        embedding += begin.elapsed();
        let new: Vec<NewVector<'_>> = made
            .iter()
            .zip(&texts)
            .zip(row..)
            .map(|((numbers, text), row)| NewVector {
                row,
                hash: TextHash::of(text),
                numbers,
            })
            .collect();
        let begin = Instant::now();
        vectors.put(&new);
        keeping += begin.elapsed();
        row += BATCH as i64;
        exact.extend(made.into_iter().flatten());
    }
    println!(
        "vectors            {} of {}",
        vectors.len(),
        model.dimensions()
    );
    println!("embedded           {:.0}/s", rate(count, embedding));
    println!("kept               {:.0}/s", rate(count, keeping));
    drop(vectors);
    let begin = Instant::now();
    let vectors = Vectors::open(place, model.id(), model.dimensions());
    println!("read again         {:.2} s", begin.elapsed().as_secs_f64());

    let queries: Vec<String> = (0..QUERIES).map(|_| text(&mut dice, 8)).collect();
    let mut times = Vec::new();
    let (mut right, mut asked) = (0, 0);
    for round in 0..5 {
        for (number, query) in queries.iter().enumerate() {
            let begin = Instant::now();
            let query = model.embed(&[query], Purpose::Query)?.swap_remove(0);
            let found = vectors.near(&query, WANTED, &Within::default());
            times.push(begin.elapsed());
            if round == 0 && number < EXACT {
                let expected = nearest(&exact, &query);
                asked += expected.len();
                right += found
                    .iter()
                    .filter(|near| expected.contains(&near.row))
                    .count();
            }
        }
    }
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 1_000].as_secs_f64() * 1e3;
    println!("near, p50          {:.2} ms", at(500));
    println!("near, p99          {:.2} ms", at(990));
    println!(
        "recall@{WANTED}          {:.4}",
        right as f64 / asked as f64
    );
    drop(exact);
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let line = status.lines().find(|line| line.starts_with("VmRSS"));
        println!("resident           {}", line.unwrap_or_default());
    }
    Ok(())
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

fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
