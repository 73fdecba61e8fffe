//! Words of a query that no text has: begun and not ended, or misspelt.

use orchestra_store::{ReadError, Reader};

use super::query::Query;

/// The most words of a query that are mended.
const MAX_MENDED: usize = 4;
/// The most words that one is mended to.
const MAX_CHOICES: usize = 6;
/// The most letters of a word that is compared with others.
const MAX_LETTERS: usize = 24;

/// Looks for words that are there in the place of the ones at `missing`; says whether there are any.
pub(super) fn mend(
    reader: &Reader<'_>,
    query: &mut Query,
    missing: &[usize],
) -> Result<bool, ReadError> {
    let mut mended = false;
    let last = query.words.len().saturating_sub(1);
    for &at in missing.iter().take(MAX_MENDED) {
        let Some(word) = query.words.get_mut(at) else {
            continue;
        };
        let letters = word.text.chars().count();
        if !word.tells || !(2..=MAX_LETTERS).contains(&letters) || word.text.contains(' ') {
            continue;
        }
        if at == last {
            let mut longer = reader.words_beginning(&word.text)?;
            orchestra_sort::sort_by_key(&mut longer, String::len);
            longer.truncate(MAX_CHOICES);
            word.mended = longer;
        }
        if word.mended.is_empty() {
            let beginning: String = word.text.chars().take(2).collect();
            word.mended = alike(&word.text, &reader.words_beginning(&beginning)?);
        }
        mended |= !word.mended.is_empty();
    }
    Ok(mended)
}

/// The words that differ least from one: by one letter, or by two where it is long.
fn alike(word: &str, others: &[String]) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    let most = match letters.len() {
        0..=3 => return Vec::new(),
        4..=7 => 1,
        _ => 2,
    };
    let mut found: Vec<(usize, &String)> = others
        .iter()
        .filter(|other| other.len() <= 4 * MAX_LETTERS)
        .filter_map(|other| {
            let distance = distance(&letters, &other.chars().collect::<Vec<_>>(), most)?;
            Some((distance, other))
        })
        .collect();
    found.sort();
    let best = found.first().map_or(0, |(distance, _)| *distance);
    found
        .into_iter()
        .take_while(|(distance, _)| *distance == best)
        .take(MAX_CHOICES)
        .map(|(_, other)| other.clone())
        .collect()
}

/// How many letters are to be added, removed, replaced or swapped with the next one, if no more than
/// `most`.
fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &letter) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &other) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(letter != other);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && letter == b[j - 1] && a[i - 1] == other {
                least = least.min(before_last[j - 1] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::{alike, distance};

    fn letters(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    #[test]
    fn letters_are_counted() {
        let check = |a: &str, b: &str, expected| {
            assert_eq!(distance(&letters(a), &letters(b), 2), expected, "{a} {b}");
        };
        check("postgress", "postgres", Some(1));
        check("recieve", "receive", Some(1));
        check("cat", "cat", Some(0));
        check("", "", Some(0));
        check("cat", "dogs", None);
    }

    #[test]
    fn the_nearest_words_are_chosen() {
        let others = ["deadlock", "deadline", "deadlocks"].map(str::to_owned);
        assert_eq!(alike("deadlok", &others), ["deadlock"]);
        assert!(
            alike("cat", &["car".to_owned()]).is_empty(),
            "too short to guess"
        );
    }
}
