//! Two rankings made one.
//!
//! Both are fused by how good each hit is among its own kind, and not by its place alone: a text that
//! has all words of a query stays first whatever a model says, and a hit of a model counts by how far
//! it stands out from the other things that the model finds near. So a model that finds everything
//! alike near, or nothing, changes little.

use std::collections::{HashMap, HashSet};

use crate::model::ModelKind;

/// A hit by meaning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// The row of the text in the store.
    pub row: i64,
    /// How alike it is to the query, at most 1.
    pub similarity: f64,
}

/// Hits by words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByWords<'a> {
    /// Rows and their scores, best first.
    pub hits: &'a [(i64, f64)],
    /// The score of a text that has every word of the query once.
    pub whole: f64,
}

/// So many standard deviations above the mean, and a hit by meaning stands out as far as one can.
const FAR: f64 = 4.0;
/// Where there are fewer hits by meaning, the missing ones count as not alike at all: one or two say
/// nothing about what is usual.
const FEWEST: usize = 10;

/// Similarities that differ less than this hardly differ.
const LEAST_DEVIATION: f64 = 0.01;
/// Less than this part of [`FAR`] is not far.
const LEAST_FAR: f64 = 0.001;

/// What words do not find is found when it is so alike at least. Models make something of everything:
/// what has nothing to do with a query is mostly less alike than this to it, and what answers one, more.
const LEAST_ALIKE: f64 = 0.2;
/// And when it stands so many standard deviations above the mean, where there are enough hits to say
/// what is usual: some models find everything alike to everything.
const LEAST_ABOVE: f64 = 1.5;
/// So many are enough.
const ENOUGH: usize = 30;

/// How much the hits of a model count beside those by words, as [`fuse`] takes it.
///
/// A table adds up the words of a text and is blind to their order: it gets half of what a network
/// gets. Chosen on the queries of `eval/memory` that are not held out, from the middle of a wide range
/// in which the figures hardly change.
#[must_use]
pub const fn weight(kind: ModelKind) -> f64 {
    match kind {
        ModelKind::Static => 0.15,
        ModelKind::Network | ModelKind::Remote => 0.3,
    }
}

/// Fuses hits by words with hits by meaning, both best first. Of two texts with the same sum the one
/// that words rank higher comes first. What a model finds no nearer than the usual is left out where
/// words do not find it.
///
/// `weight` is how much the meaning counts, see [`weight`]: 0 leaves the words alone; with 1, the
/// nearest text counts as much as one that has all the words. What words do not find has `weight`
/// times how far it stands out.
#[must_use]
pub fn fuse(by_words: ByWords<'_>, near: &[Near], weight: f64) -> Vec<(i64, f64)> {
    let weight = if weight.is_finite() {
        weight.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let mut sums: HashMap<i64, (f64, usize)> = HashMap::new();
    let best = by_words.hits.first().map_or(0.0, |(_, score)| *score);
    let whole = best.max(by_words.whole).max(f64::MIN_POSITIVE);
    for (place, (row, score)) in by_words.hits.iter().enumerate() {
        // The root, so that the second and third best are not far behind the best: what tells them
        // apart by words is little beside what a model knows.
        let value = (score / whole).clamp(0.0, 1.0).sqrt();
        sums.entry(*row).or_insert((value, place));
    }
    if weight > 0.0 {
        let usual = Usual::of(near);
        let mut seen = HashSet::new();
        for (place, hit) in near.iter().enumerate() {
            let value = usual.how_far(hit);
            let place = by_words.hits.len() + place;
            let is_found = sums.contains_key(&hit.row) || usual.is_found_alone(hit);
            if value > 0.0 && is_found && seen.insert(hit.row) {
                sums.entry(hit.row).or_insert((0.0, place)).0 += weight * value;
            }
        }
    }
    let mut fused: Vec<(i64, (f64, usize))> = sums.into_iter().collect();
    orchestra_sort::sort_by(&mut fused, |a, b| {
        b.1.0.total_cmp(&a.1.0).then(a.1.1.cmp(&b.1.1))
    });
    fused
        .into_iter()
        .map(|(row, (sum, _))| (row, sum))
        .collect()
}

/// How alike what a model finds is to a query, on the average.
struct Usual {
    mean: f64,
    deviation: f64,
    is_known: bool,
}

impl Usual {
    #[expect(clippy::cast_precision_loss, reason = "hits are few")]
    fn of(near: &[Near]) -> Self {
        let count = near.len().max(FEWEST) as f64;
        let similarities = || near.iter().map(|hit| hit.similarity);
        let mean = similarities().sum::<f64>() / count;
        let missing = FEWEST.saturating_sub(near.len()) as f64 * mean * mean;
        let squares: f64 = similarities().map(|x| (x - mean) * (x - mean)).sum();
        Self {
            mean,
            deviation: ((squares + missing) / count).sqrt().max(LEAST_DEVIATION),
            is_known: near.len() >= ENOUGH,
        }
    }

    /// Whether a hit is near enough to be found where no word finds it.
    fn is_found_alone(&self, hit: &Near) -> bool {
        let above = (hit.similarity - self.mean) / self.deviation;
        hit.similarity >= LEAST_ALIKE && (!self.is_known || above >= LEAST_ABOVE)
    }

    /// How far a hit stands out, from 0 to 1; squared, so that few do.
    fn how_far(&self, hit: &Near) -> f64 {
        let far = (hit.similarity - self.mean) / (FAR * self.deviation);
        // What is no number is not far.
        if far > LEAST_FAR {
            far.min(1.0).powi(2)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ByWords, Near, fuse, weight};
    use crate::model::ModelKind;

    fn near(hits: &[(i64, f64)]) -> Vec<Near> {
        let hit = |&(row, similarity): &(i64, f64)| Near { row, similarity };
        hits.iter().map(hit).collect()
    }

    fn rows(hits: &[(i64, f64)], by_meaning: &[(i64, f64)], weight: f64) -> Vec<i64> {
        let by_words = ByWords { hits, whole: 1.0 };
        let fused = fuse(by_words, &near(by_meaning), weight);
        fused.into_iter().map(|(row, _)| row).collect()
    }

    #[test]
    fn what_both_find_comes_first() {
        let by_words = [(1, 0.5), (2, 0.45), (3, 0.4)];
        let by_meaning = [(3, 0.9), (4, 0.8), (5, 0.1)];
        assert_eq!(rows(&by_words, &by_meaning, 1.0)[0], 3);
    }

    #[test]
    fn a_text_with_all_the_words_is_not_outvoted() {
        let by_words = [(1, 1.0), (2, 0.9)];
        for kind in [ModelKind::Static, ModelKind::Network, ModelKind::Remote] {
            assert_eq!(rows(&by_words, &[(9, 0.9)], weight(kind)), [1, 2, 9]);
        }
    }

    #[test]
    fn where_words_find_little_meaning_comes_first() {
        let weak = [(1, 0.02)];
        assert_eq!(rows(&weak, &[(9, 0.9)], 0.3), [9, 1]);
        assert_eq!(rows(&[], &[(9, 0.9), (8, 0.8)], 0.2), [9, 8]);
    }

    #[test]
    fn a_model_that_finds_all_alike_changes_nothing() {
        let by_words = [(1, 0.5), (2, 0.5), (3, 0.4)];
        let alike: Vec<(i64, f64)> = (0..50).map(|row| (row, 0.7)).collect();
        assert_eq!(rows(&by_words, &alike, 1.0), [1, 2, 3]);
        let odd = [(3, f64::NAN), (2, f64::INFINITY)];
        assert_eq!(rows(&by_words, &odd, 1.0), [1, 2, 3]);
    }

    #[test]
    fn what_is_hardly_alike_is_not_found_by_meaning_alone() {
        // As real models put a query that says nothing beside texts of which none answers it.
        let noise: Vec<(i64, f64)> = (0..8).map(|row| (row, 0.19 - row as f64 / 100.0)).collect();
        assert!(rows(&[], &noise, 0.3).is_empty());
        // Words that find it are enough, and then its meaning counts.
        assert_eq!(rows(&[(5, 0.1), (0, 0.1)], &noise, 0.3), [0, 5]);
        // Where everything is much alike, only what stands out is found.
        let mut many: Vec<(i64, f64)> = (0..60)
            .map(|row| (row, 0.7 + (row % 5) as f64 / 100.0))
            .collect();
        many.insert(0, (99, 0.85));
        assert_eq!(rows(&[], &many, 0.3), [99]);
    }

    #[test]
    fn without_weight_words_are_alone() {
        for weight in [0.0, -1.0, f64::NAN] {
            assert_eq!(rows(&[(1, 0.5), (2, 0.4)], &[(9, 0.9)], weight), [1, 2]);
        }
    }

    #[test]
    fn a_row_that_is_named_twice_counts_once() {
        assert_eq!(rows(&[(1, 0.5), (1, 0.5), (2, 0.4)], &[], 1.0), [1, 2]);
        let twice = [(2, 0.5), (2, 0.5), (1, 0.45)];
        assert_eq!(rows(&[(1, 0.3), (2, 0.3)], &twice, 1.0), [2, 1]);
        let fused = fuse(
            ByWords {
                hits: &[],
                whole: 1.0,
            },
            &near(&twice),
            1.0,
        );
        assert!(fused.iter().all(|(_, score)| *score <= 1.0), "{fused:?}");
    }
}
