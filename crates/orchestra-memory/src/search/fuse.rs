//! Two rankings made one.

use std::collections::HashMap;

/// A hit by meaning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// The row of the text in the store.
    pub row: i64,
    /// How alike it is to the query, at most 1.
    pub similarity: f64,
}

/// How slowly a rank loses weight from one place to the next: small, so that a first place stands
/// out and a weak second opinion does not outvote it.
const SLOWNESS: f64 = 10.0;

/// Fuses hits by words, best first, with hits by meaning, best first, by reciprocal rank. Of two
/// texts with the same sum the one that words rank higher comes first.
///
/// `weight` is how much the meaning counts: 0 leaves the words alone, 1 makes both equal. A model
/// that is weak on its own gets little, so that it fills in where words find nothing, and decides
/// between what they rank alike.
#[must_use]
pub fn fuse(lexical: &[i64], near: &[Near], weight: f64) -> Vec<(i64, f64)> {
    let weight = if weight.is_finite() {
        weight.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let mut sums: HashMap<i64, (f64, usize)> = HashMap::new();
    for (place, row) in lexical.iter().enumerate() {
        sums.entry(*row).or_insert((reciprocal(place), place));
    }
    if weight > 0.0 {
        let mut seen = HashMap::new();
        for (place, hit) in near.iter().enumerate() {
            if seen.insert(hit.row, ()).is_none() {
                let sum = sums.entry(hit.row).or_insert((0.0, lexical.len() + place));
                sum.0 += weight * reciprocal(place);
            }
        }
    }
    let mut fused: Vec<(i64, (f64, usize))> = sums.into_iter().collect();
    fused.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then(a.1.1.cmp(&b.1.1)));
    fused
        .into_iter()
        .map(|(row, (sum, _))| (row, sum))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "places are few")]
fn reciprocal(place: usize) -> f64 {
    1.0 / (SLOWNESS + 1.0 + place as f64)
}

#[cfg(test)]
mod tests {
    use super::{Near, fuse};

    fn near(rows: &[i64]) -> Vec<Near> {
        let hit = |row: &i64| Near {
            row: *row,
            similarity: 0.5,
        };
        rows.iter().map(hit).collect()
    }

    fn rows(lexical: &[i64], by_meaning: &[i64], weight: f64) -> Vec<i64> {
        let fused = fuse(lexical, &near(by_meaning), weight);
        fused.into_iter().map(|(row, _)| row).collect()
    }

    #[test]
    fn what_both_find_comes_first() {
        assert_eq!(rows(&[1, 2, 3], &[3, 4, 5], 1.0), [3, 1, 2, 4, 5]);
    }

    #[test]
    fn a_weak_model_fills_in_and_does_not_outvote() {
        assert_eq!(rows(&[1, 2], &[9, 8], 0.2), [1, 2, 9, 8]);
        assert_eq!(rows(&[], &[9, 8], 0.2), [9, 8]);
        assert_eq!(rows(&[1, 2], &[9, 8], 0.0), [1, 2]);
        assert_eq!(rows(&[1, 2], &[9, 8], f64::NAN), [1, 2]);
    }

    #[test]
    fn a_row_that_is_named_twice_counts_once() {
        assert_eq!(rows(&[1, 1, 2], &[2, 2], 1.0), [2, 1]);
    }
}
