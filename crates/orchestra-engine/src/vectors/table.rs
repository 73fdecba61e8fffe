//! Vectors in memory, in blocks, so that growing moves nothing: two bytes for a number and a scale for
//! each vector, and apart from them one bit for each number, which says whether it is above zero.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::{NewVector, TextHash};

/// How many vectors a block has: two megabytes of 256 numbers each.
const BLOCK: usize = 4_096;
/// Vectors are filled up to a multiple of this with zeros, so that the inner loop has no rest.
const LANES: usize = 32;

/// The vectors.
#[derive(Debug)]
pub(super) struct Table {
    dimensions: usize,
    /// How many numbers a vector takes.
    stride: usize,
    blocks: Vec<Block>,
    places: HashMap<i64, u32>,
}

/// Some of the vectors, by their place in it.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) rows: Vec<i64>,
    pub(super) hashes: Vec<TextHash>,
    /// What the bytes of each are to be multiplied by.
    pub(super) scales: Vec<f32>,
    pub(super) numbers: Vec<i16>,
    /// Whether each number is above zero, 64 in a word.
    pub(super) signs: Vec<u64>,
}

/// A vector as it is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept<'a> {
    pub(super) hash: TextHash,
    pub(super) scale: f32,
    pub(super) numbers: &'a [i16],
}

impl Table {
    pub(super) fn new(dimensions: usize) -> Self {
        Self {
            dimensions,
            stride: dimensions.next_multiple_of(LANES),
            blocks: Vec::new(),
            places: HashMap::new(),
        }
    }

    pub(super) const fn dimensions(&self) -> usize {
        self.dimensions
    }

    pub(super) const fn stride(&self) -> usize {
        self.stride
    }

    /// How many words the signs of a vector take.
    pub(super) const fn words(&self) -> usize {
        self.stride.div_ceil(64)
    }

    /// The largest number that is kept: the products of two vectors of such can be added up without
    /// an overflow.
    pub(super) fn largest(&self) -> i16 {
        largest(self.stride)
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn hash(&self, row: i64) -> Option<TextHash> {
        Some(self.kept(row)?.hash)
    }

    pub(super) fn rows(&self, within: &RangeInclusive<i64>) -> Vec<i64> {
        let rows = self.places.keys().copied();
        rows.filter(|row| within.contains(row)).collect()
    }

    /// All rows, in no order.
    pub(super) fn all_rows(&self) -> Vec<i64> {
        self.places.keys().copied().collect()
    }

    /// A vector as it is kept; its numbers are as many as its dimensions.
    pub(super) fn kept(&self, row: i64) -> Option<Kept<'_>> {
        let place = *self.places.get(&row)? as usize;
        let block = self.blocks.get(place / BLOCK)?;
        let place = place % BLOCK;
        let start = place * self.stride;
        Some(Kept {
            hash: *block.hashes.get(place)?,
            scale: *block.scales.get(place)?,
            numbers: block.numbers.get(start..start + self.dimensions)?,
        })
    }

    /// Puts a vector in the place of what its row had.
    pub(super) fn put(&mut self, new: &NewVector<'_>) {
        if new.numbers.len() != self.dimensions {
            return;
        }
        let length = new.numbers.iter().map(|x| x * x).sum::<f32>().sqrt();
        let largest = new
            .numbers
            .iter()
            .fold(0.0_f32, |most, x| most.max(x.abs()));
        // One without length is near nothing, and is kept so that it is not made again.
        let usable = length.is_finite() && largest > f32::MIN_POSITIVE && length > 0.0;
        let to_whole = if usable {
            f32::from(self.largest()) / largest
        } else {
            0.0
        };
        let whole: Vec<i16> = new
            .numbers
            .iter()
            .map(|number| (number * to_whole).round() as i16)
            .collect();
        // What rounding did to its length is taken back.
        let rounded = whole
            .iter()
            .map(|&x| f32::from(x) * f32::from(x))
            .sum::<f32>();
        let scale = if rounded > 0.0 {
            rounded.sqrt().recip()
        } else {
            0.0
        };
        self.put_kept(
            new.row,
            Kept {
                hash: new.hash,
                scale,
                numbers: &whole,
            },
        );
    }

    /// Puts a vector as it was kept.
    pub(super) fn put_kept(&mut self, row: i64, kept: Kept<'_>) {
        let place = match self.places.get(&row) {
            Some(place) => *place as usize,
            None => match self.grow(row) {
                Some(place) => place,
                None => return,
            },
        };
        let Some(block) = self.blocks.get_mut(place / BLOCK) else {
            return;
        };
        block.set(place % BLOCK, self.stride, row, kept);
    }

    /// Makes room for one more; `None` where there are more than anybody can search.
    fn grow(&mut self, row: i64) -> Option<usize> {
        let place = self.places.len();
        self.places.insert(row, u32::try_from(place).ok()?);
        if place / BLOCK == self.blocks.len() {
            self.blocks.push(Block::default());
        }
        let words = self.words();
        let block = self.blocks.last_mut()?;
        block.rows.push(row);
        block.hashes.push(TextHash(0));
        block.scales.push(0.0);
        block.numbers.resize(block.numbers.len() + self.stride, 0);
        block.signs.resize(block.signs.len() + words, 0);
        Some(place)
    }

    /// Removes a vector: the last one takes its place.
    pub(super) fn remove(&mut self, row: i64) {
        let Some(place) = self.places.remove(&row) else {
            return;
        };
        let Some(last) = self.blocks.last_mut() else {
            return;
        };
        let (moved_row, moved) = last.take(self.stride);
        if last.rows.is_empty() {
            self.blocks.pop();
        }
        if moved_row != row {
            self.places.insert(moved_row, place);
            if let Some(block) = self.blocks.get_mut(place as usize / BLOCK) {
                let at = place as usize % BLOCK;
                block.set(at, self.stride, moved_row, moved.as_kept());
            }
        }
    }
}

/// A vector that was taken out.
struct Taken {
    hash: TextHash,
    scale: f32,
    numbers: Vec<i16>,
}

impl Taken {
    fn as_kept(&self) -> Kept<'_> {
        Kept {
            hash: self.hash,
            scale: self.scale,
            numbers: &self.numbers,
        }
    }
}

impl Block {
    fn set(&mut self, place: usize, stride: usize, row: i64, kept: Kept<'_>) {
        let start = place * stride;
        if let (Some(rows), Some(hash), Some(scale), Some(numbers)) = (
            self.rows.get_mut(place),
            self.hashes.get_mut(place),
            self.scales.get_mut(place),
            self.numbers.get_mut(start..start + kept.numbers.len()),
        ) {
            *rows = row;
            *hash = kept.hash;
            *scale = kept.scale;
            numbers.copy_from_slice(kept.numbers);
            let words = stride.div_ceil(64);
            let signs = self.signs.iter_mut().skip(place * words).take(words);
            for (word, sign) in signs.zip(signs_of(kept.numbers)) {
                *word = sign;
            }
        }
    }

    /// Takes the last vector out.
    fn take(&mut self, stride: usize) -> (i64, Taken) {
        let numbers = self
            .numbers
            .split_off(self.numbers.len().saturating_sub(stride));
        let words = stride.div_ceil(64);
        self.signs.truncate(self.signs.len().saturating_sub(words));
        let taken = Taken {
            hash: self.hashes.pop().unwrap_or(TextHash(0)),
            scale: self.scales.pop().unwrap_or_default(),
            numbers,
        };
        (self.rows.pop().unwrap_or_default(), taken)
    }
}

/// The largest number of vectors of so many.
pub(super) fn largest(stride: usize) -> i16 {
    let most = (i32::MAX as f64 / stride.max(1) as f64).sqrt().floor();
    most.min(f64::from(i16::MAX)) as i16
}

/// Whether each number is above zero, 64 in a word.
pub(super) fn signs_of(numbers: &[i16]) -> impl Iterator<Item = u64> {
    numbers.chunks(64).map(|chunk| {
        let bits = chunk.iter().enumerate();
        bits.fold(0, |word, (bit, number)| {
            word | u64::from(*number > 0) << bit
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn put(table: &mut Table, row: i64, numbers: &[f32]) {
        let hash = TextHash(numbers.first().map_or(0, |x| *x as i64));
        table.put(&NewVector { row, hash, numbers });
    }

    #[test]
    fn a_vector_that_has_no_length_is_kept_and_weighs_nothing() {
        let mut table = Table::new(2);
        put(&mut table, 1, &[0.0, 0.0]);
        put(&mut table, 2, &[f32::NAN, 1.0]);
        put(&mut table, 3, &[f32::INFINITY, 1.0]);
        put(&mut table, 4, &[1.0]);
        let scales = [1, 2, 3].map(|row| table.kept(row).expect("it is kept").scale);
        assert_eq!(scales, [0.0; 3]);
        assert!(table.kept(4).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        // Few rows, so that blocks fill, empty and have their last moved.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0_i64..64, any::<bool>(), 1_u8..100), 0..400)) {
            let mut table = Table::new(3);
            let mut model = BTreeMap::new();
            for (row, is_put, number) in steps {
                if is_put {
                    put(&mut table, row, &[f32::from(number), 0.0, -f32::from(number)]);
                    model.insert(row, number);
                } else {
                    table.remove(row);
                    model.remove(&row);
                }
            }
            prop_assert_eq!(table.len(), model.len());
            for row in 0..64 {
                let hash = table.hash(row).map(|hash| hash.0);
                prop_assert_eq!(hash, model.get(&row).map(|x| i64::from(*x)));
                if let Some(kept) = table.kept(row) {
                    let most = table.largest();
                    prop_assert_eq!(kept.numbers, &[most, 0, -most]);
                }
            }
            let kept: usize = table.blocks().iter().map(|block| block.rows.len()).sum();
            prop_assert_eq!(kept, model.len());
            let signs: Vec<u64> =
                table.blocks().iter().flat_map(|block| block.signs.clone()).collect();
            prop_assert_eq!(signs, vec![1; model.len()]);
        }
    }
}
