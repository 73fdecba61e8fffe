//! The part of a text that fits a query.

use orchestra_store::{ContextItem, words_of};

use super::score::{COUNTED, Counter};

/// How many bytes a snippet has, about.
const LENGTH: usize = 180;
/// Within how many bytes words stand that are shown whole together.
const TOGETHER: usize = LENGTH * 2 / 3;
/// The most occurrences of words that are looked at.
const LOOKED_AT: usize = 4_096;

/// All that an item says, without its summary where it has more to say.
fn said(item: &ContextItem) -> String {
    match item {
        ContextItem::Chunk(chunk) => chunk.content.to_string(),
        ContextItem::Session(session) => {
            let mut text = session.summary.to_string();
            for event in &session.events {
                text.push('\n');
                text.push_str(event.summary.as_str());
                if text.len() > COUNTED {
                    break;
                }
            }
            text
        }
    }
}

/// The beginning of what is said.
pub(super) fn beginning(item: &ContextItem) -> String {
    cut(&said(item), 0)
}

/// The part where the most words of the query stand together, else the beginning.
pub(super) fn around(counter: &Counter<'_>, item: &ContextItem) -> String {
    part(counter, &said(item))
}

/// The part of a text where the most words of the query stand together, else the beginning.
pub(super) fn part(counter: &Counter<'_>, text: &str) -> String {
    let query = counter.query;
    let text = &text[..text.floor_char_boundary(COUNTED)];
    let mut hits: Vec<(usize, usize, usize)> = Vec::new();
    words_of(text, |at, word| {
        let hit = counter
            .find(word)
            .map(|(which, _)| (at, at + word.len(), which));
        hits.extend(hit.filter(|(.., which)| query.words[*which].tells));
    });
    let worth = |from: usize| -> f64 {
        let within = hits[from..]
            .iter()
            .take_while(|(_, end, _)| *end < hits[from].0 + TOGETHER);
        let mut seen = Vec::new();
        for (.., which) in within {
            if !seen.contains(which) {
                seen.push(*which);
            }
        }
        seen.iter().map(|&which| query.words[which].rarity).sum()
    };
    let mut best = (0.0, 0);
    for (from, (at, ..)) in hits.iter().enumerate().take(LOOKED_AT) {
        let here = worth(from);
        if here > best.0 {
            best = (here, *at);
        }
    }
    cut(text, best.1)
}

/// About [`LENGTH`] bytes around a place, between blanks where there are any, on one line.
fn cut(text: &str, place: usize) -> String {
    if text.len() <= LENGTH {
        return one_line(text);
    }
    let mut start = text.floor_char_boundary(place.saturating_sub(LENGTH / 4));
    if text.len() - start < LENGTH {
        start = text.floor_char_boundary(text.len() - LENGTH);
    }
    if start > 0
        && let Some(blank) = text[start..place.max(start)].find(char::is_whitespace)
    {
        start += blank;
    }
    let mut end = text.floor_char_boundary((start + LENGTH).min(text.len()));
    if end < text.len()
        && let Some(blank) = text[start..end].rfind(char::is_whitespace)
        && blank > LENGTH / 2
    {
        end = start + blank;
    }
    let [before, after] = [start > 0, end < text.len()].map(|more| if more { "…" } else { "" });
    format!("{before}{}{after}", one_line(&text[start..end]))
}

fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
