//! Comparing a query with every vector: first by the signs of their numbers, then the best of them by
//! the numbers.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use pulp::{Arch, Simd, WithSimd};

use super::table::{Block, Table, largest, signs_of};
use super::{Near, Within};

/// So many are compared by their numbers at least.
const LEAST: usize = 8_192;
/// And one in so many of all: of generated texts, where a hundredth had 999 of a thousand of the
/// nearest, a fiftieth had all.
const SHARE: usize = 50;

/// A query as it is compared.
#[derive(Debug)]
pub(super) struct Query {
    numbers: Vec<i16>,
    signs: Vec<u64>,
    scale: f32,
}

impl Query {
    /// `None` for one without length or of another number of dimensions.
    pub(super) fn new(query: &[f32], table: &Table) -> Option<Self> {
        let length = query.iter().map(|x| x * x).sum::<f32>().sqrt();
        let highest = query.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let fits = query.len() == table.dimensions();
        if !fits || !length.is_finite() || highest <= f32::MIN_POSITIVE {
            return None;
        }
        let to_whole = f32::from(largest(table.stride())) / highest;
        let mut numbers: Vec<i16> = query
            .iter()
            .map(|number| (number * to_whole).round() as i16)
            .collect();
        numbers.resize(table.stride(), 0);
        Some(Self {
            signs: signs_of(&numbers).collect(),
            numbers,
            scale: (to_whole * length).recip(),
        })
    }
}

/// The nearest rows of a table.
pub(super) fn nearest(
    table: &Table,
    query: &Query,
    wanted: usize,
    within: &Within<'_>,
) -> Vec<Near> {
    let arch = Arch::new();
    let mut distances = Distances::new(table);
    for block in table.blocks() {
        arch.dispatch(SignScan {
            block,
            query,
            words: table.words(),
            within,
            distances: &mut distances,
        });
    }
    let mut best = Best::new(wanted);
    let mut next = 0;
    let mut share = (distances.found / SHARE).max(LEAST).max(wanted);
    // Where the filter lets too few through, more are looked at.
    while next <= distances.farthest() && best.found.len() < wanted {
        let end = distances.end_of(next, share);
        let mut start = 0;
        for block in table.blocks() {
            arch.dispatch(NumberScan {
                block,
                distances: distances.of.get(start..).unwrap_or_default(),
                near: next..end,
                query,
                stride: table.stride(),
                within,
                best: &mut best,
            });
            start += block.rows.len();
        }
        next = end;
        share = share.saturating_mul(8);
    }
    let mut found = best.found.into_vec();
    found.sort_unstable();
    found.into_iter().map(|candidate| candidate.0).collect()
}

/// In how many signs each vector differs from the query.
struct Distances {
    /// By the vectors' places; [`Distances::NOT`] for those that are not searched.
    of: Vec<u16>,
    /// How many there are of each.
    counts: Vec<usize>,
    /// How many are searched.
    found: usize,
}

impl Distances {
    const NOT: u16 = u16::MAX;

    fn new(table: &Table) -> Self {
        Self {
            of: Vec::with_capacity(table.len()),
            counts: vec![0; table.words() * 64 + 1],
            found: 0,
        }
    }

    fn farthest(&self) -> u16 {
        u16::try_from(self.counts.len() - 1).unwrap_or(Self::NOT - 1)
    }

    /// The distance below which there are so many from `start` on.
    fn end_of(&self, start: u16, wanted: usize) -> u16 {
        let mut seen = 0;
        for (distance, count) in self.counts.iter().enumerate().skip(start.into()) {
            seen += count;
            if seen >= wanted {
                return u16::try_from(distance + 1).unwrap_or(Self::NOT);
            }
        }
        self.farthest() + 1
    }
}

/// Comparing the signs of one block.
struct SignScan<'a> {
    block: &'a Block,
    query: &'a Query,
    words: usize,
    within: &'a Within<'a>,
    distances: &'a mut Distances,
}

impl WithSimd for SignScan<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let signs = self.block.signs.chunks_exact(self.words);
        for (row, signs) in self.block.rows.iter().zip(signs) {
            if !self.within.rows.contains(row) {
                self.distances.of.push(Distances::NOT);
                continue;
            }
            let pairs = signs.iter().zip(&self.query.signs);
            let distance: u32 = pairs.map(|(one, other)| (one ^ other).count_ones()).sum();
            if let Some(count) = self.distances.counts.get_mut(distance as usize) {
                *count += 1;
            }
            self.distances.of.push(distance as u16);
            self.distances.found += 1;
        }
    }
}

/// Comparing the numbers of those in one block that are so near by their signs.
struct NumberScan<'a> {
    block: &'a Block,
    /// Of the vectors from this block on.
    distances: &'a [u16],
    near: std::ops::Range<u16>,
    query: &'a Query,
    stride: usize,
    within: &'a Within<'a>,
    best: &'a mut Best,
}

impl WithSimd for NumberScan<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { block, query, .. } = self;
        let vectors = block.numbers.chunks_exact(self.stride);
        let kept = block.rows.iter().zip(&block.scales);
        for (((&row, &scale), vector), distance) in kept.zip(vectors).zip(self.distances) {
            if !self.near.contains(distance) {
                continue;
            }
            let similarity = dot(vector, &query.numbers) as f32 * scale * query.scale;
            // One without length is near nothing.
            if similarity >= self.best.threshold && scale > 0.0 && (self.within.keep)(row) {
                self.best.offer(Near { row, similarity });
            }
        }
    }
}

/// The sum of the products. Both have the same length, a multiple of 32.
#[inline(always)]
fn dot(vector: &[i16], query: &[i16]) -> i32 {
    let pairs = vector.iter().zip(query);
    pairs
        .map(|(&one, &other)| i32::from(one) * i32::from(other))
        .sum()
}

/// The best of what was seen.
struct Best {
    wanted: usize,
    found: BinaryHeap<Candidate>,
    /// What a row must be nearer than.
    threshold: f32,
}

impl Best {
    fn new(wanted: usize) -> Self {
        Self {
            wanted,
            found: BinaryHeap::new(),
            threshold: f32::NEG_INFINITY,
        }
    }

    fn offer(&mut self, near: Near) {
        self.found.push(Candidate(near));
        if self.found.len() > self.wanted {
            self.found.pop();
        }
        if self.found.len() == self.wanted
            && let Some(worst) = self.found.peek()
        {
            self.threshold = worst.0.similarity;
        }
    }
}

/// Ordered from the nearest, and of equally near ones from the newest.
#[derive(Debug, PartialEq)]
struct Candidate(Near);

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let nearer = other.0.similarity.total_cmp(&self.0.similarity);
        nearer.then(other.0.row.cmp(&self.0.row))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vectors::{NewVector, TextHash};

    fn table(vectors: &[Vec<f32>], dimensions: usize) -> Table {
        let mut table = Table::new(dimensions);
        for (row, numbers) in vectors.iter().enumerate() {
            let row = row as i64;
            table.put(&NewVector {
                row,
                hash: TextHash(0),
                numbers,
            });
        }
        table
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        for dimensions in [1, 33, 8_192] {
            let table = table(&[vec![1.0; dimensions], vec![-1.0; dimensions]], dimensions);
            let endless = Query::new(&vec![1e30; dimensions], &table);
            assert!(endless.is_none(), "its length is not finite");
            let query = Query::new(&vec![3.0; dimensions], &table).expect("a query");
            let found = nearest(&table, &query, 2, &Within::default());
            let similarities: Vec<f32> = found.iter().map(|near| near.similarity).collect();
            assert!((similarities[0] - 1.0).abs() < 1e-3, "{similarities:?}");
            assert!((similarities[1] + 1.0).abs() < 1e-3, "{similarities:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn it_is_as_near_as_the_exact_cosine(
            vectors in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 40), 1..60),
            query in prop::collection::vec(-1.0_f32..1.0, 40),
            wanted in 1_usize..20,
            first in 0_i64..30,
        ) {
            let table = table(&vectors, 40);
            let Some(asked) = Query::new(&query, &table) else { return Ok(()) };
            let within = Within { rows: first..=i64::MAX, keep: &|row| row % 2 == 0 };
            let found = nearest(&table, &asked, wanted, &within);
            let cosine = |vector: &[f32]| {
                let dot: f32 = vector.iter().zip(&query).map(|(x, y)| x * y).sum();
                let length = |x: &[f32]| x.iter().map(|x| x * x).sum::<f32>().sqrt();
                dot / length(vector) / length(&query)
            };
            let fits = |row: &usize| *row as i64 >= first && row.is_multiple_of(2);
            let mut exact: Vec<f32> =
                (0..vectors.len()).filter(fits).map(|row| cosine(&vectors[row])).collect();
            exact.sort_by(|x, y| y.total_cmp(x));
            prop_assert_eq!(found.len(), exact.len().min(wanted));
            for (near, exact) in found.iter().zip(&exact) {
                prop_assert!(fits(&(near.row as usize)));
                prop_assert!((near.similarity - exact).abs() < 0.002);
                prop_assert!((near.similarity - cosine(&vectors[near.row as usize])).abs() < 0.001);
            }
        }
    }
}
