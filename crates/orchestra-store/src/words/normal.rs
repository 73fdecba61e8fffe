//! Texts in Unicode's form NFKC, with the way back to the text that they were made of.

use std::borrow::Cow;
use std::iter;

use unicode_normalization::char::{canonical_combining_class, decompose_compatible};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick, is_nfkc_quick};

/// The beginning of a text in form NFKC.
#[derive(Debug)]
pub(super) struct Normal<'a> {
    original: &'a str,
    text: Cow<'a, str>,
    /// Where something begins that is as long here as in the original, up to the next place: its byte
    /// here and there.
    places: Vec<(usize, usize)>,
}

impl<'a> Normal<'a> {
    /// Normalizes a text up to so many bytes of the result.
    pub(super) fn of(original: &'a str, most: usize) -> Self {
        let beginning = &original[..original.floor_char_boundary(most)];
        if beginning.is_ascii() || is_nfkc_quick(beginning.chars()) == IsNormalized::Yes {
            return Self {
                original,
                text: Cow::Borrowed(beginning),
                places: Vec::new(),
            };
        }
        let mut text = String::with_capacity(most.min(original.len()));
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (at, unit) in units(original) {
            let is_shifted = |(here, there): &(usize, usize)| text.len() - here != at - there;
            if places.last().is_none_or(is_shifted) {
                places.push((text.len(), at));
            }
            if unit.is_ascii() || is_nfkc_quick(unit.chars()) == IsNormalized::Yes {
                text.push_str(unit);
            } else {
                text.extend(unit.nfkc());
            }
            if text.len() >= most {
                text.truncate(text.floor_char_boundary(most));
                break;
            }
        }
        Self {
            original,
            text: Cow::Owned(text),
            places,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The byte of the original text at or shortly before a character.
    pub(super) fn original(&self, at: usize) -> usize {
        let next = self.places.partition_point(|(here, _)| *here <= at);
        let Some((here, there)) = next.checked_sub(1).map(|last| self.places[last]) else {
            return at;
        };
        let end = self
            .places
            .get(next)
            .map_or(self.original.len(), |next| next.1);
        self.original
            .floor_char_boundary((there + at - here).min(end))
    }
}

/// The parts of a text that are normalized each by itself, and where they begin: a character or a
/// row of ASCII characters, with the marks behind it.
fn units(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    iter::from_fn(move || {
        let rest = &text[at..];
        let mut before = rest.chars().next()?;
        let end = rest.char_indices().skip(1).find_map(|(end, c)| {
            let begins = !(c.is_ascii() && before.is_ascii()) && begins_unit(c);
            before = c;
            begins.then_some(end)
        });
        let unit = &rest[..end.unwrap_or(rest.len())];
        at += unit.len();
        Some((at - unit.len(), unit))
    })
}

/// Whether nothing from this character on is ever combined with what is before it.
fn begins_unit(c: char) -> bool {
    if c.is_ascii() {
        return true;
    }
    let mut first = None;
    decompose_compatible(c, |part| {
        first.get_or_insert(part);
    });
    let first = first.unwrap_or(c);
    canonical_combining_class(first) == 0 && is_nfc_quick(iter::once(first)) == IsNormalized::Yes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};
    use unicode_normalization::UnicodeNormalization as _;

    use super::Normal;

    proptest! {
        #[test]
        fn parts_are_normalized_as_the_whole(
            text in "(\\PC|[a-c]|[\u{300}-\u{315}\u{3099}\u{ff9e}]|[\u{1100}-\u{11c2}]|[\u{ac00}-\u{ac20}]){0,20}",
        ) {
            let whole: String = text.nfkc().collect();
            let normal = Normal::of(&text, usize::MAX);
            prop_assert_eq!(normal.text(), whole);
        }
    }

    #[test]
    fn words_are_found_where_they_are_in_the_original() {
        let text = "re\u{301}sume\u{301} … plain \u{ff8a}\u{ff9e} end";
        let normal = Normal::of(text, usize::MAX);
        assert_eq!(normal.text(), "r\u{e9}sum\u{e9} ... plain \u{30d0} end");
        for word in ["plain", "end"] {
            let here = normal.text().find(word).expect("it is there");
            assert_eq!(normal.original(here), text.find(word).expect("it is there"));
        }
        assert_eq!(Normal::of("caf\u{e9}", 4).text(), "caf");
    }
}
