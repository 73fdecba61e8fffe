//! Stable sorting whose machine code all types of items share.
//!
//! The sort of the standard library is compiled again for each type of item and each comparison: 5 KB of machine code
//! each time. The functions of this crate sort the indices of the items with one copy of that code, and then swap the
//! items into that order. They need up to two words of memory per item, and call the comparison through a pointer: use the
//! standard library where that matters.

use std::cmp::Ordering;
use std::mem;

/// Sorts items by a comparison. Equal items keep their order. Takes O(n log n) comparisons.
///
/// If `compare` is not a total order, the order of the items is unspecified, or the function panics, as for
/// [`slice::sort_by`].
///
/// ```
/// let mut names = ["bb", "a", "cc"];
/// orchestra_sort::sort_by(&mut names, |one, other| other.len().cmp(&one.len()));
/// assert_eq!(names, ["bb", "cc", "a"]);
/// ```
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut compare_at = |one: usize, other: usize| match (items.get(one), items.get(other)) {
        (Some(one), Some(other)) => compare(one, other),
        _ => Ordering::Equal,
    };
    let order = sorted_indices(items.len(), &mut compare_at);
    put_in_order(order, &mut |one, other| items.swap(one, other));
}

/// Sorts items by a key, as [`sort_by`]. `key` is called twice for each comparison.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// Returns the indices of `count` items in the order of these items.
fn sorted_indices(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| compare(*one, *other));
    order
}

/// Moves each item to the place of its index in `order`. Each cycle of the permutation of n items takes n - 1 swaps.
fn put_in_order(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for start in 0..order.len() {
        let mut at = start;
        while let Some(from) = order.get_mut(at).map(|from| mem::replace(from, at)) {
            if from == start || from == at {
                break;
            }
            swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_are_sorted_as_by_the_standard_library(keys in vec(0u8..20, 0..200)) {
            // The index tells equal items apart: the order of these must stay.
            let items: Vec<(u8, usize)> = keys.into_iter().zip(0..).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);

            let mut by_key = items.clone();
            sort_by_key(&mut by_key, |item| item.0);
            prop_assert_eq!(&by_key, &expected);

            let mut compared = items;
            sort_by(&mut compared, |one, other| one.0.cmp(&other.0));
            prop_assert_eq!(&compared, &expected);
        }
    }
}
