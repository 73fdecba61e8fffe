//! What a search over memory chooses from: the remembered texts and sessions with the rarest words
//! of a query, and what stands around them.
//!
//! Which of them fit best is decided elsewhere, by their texts. Here it only matters that few rows
//! are touched however many there are: a word that very many texts have is looked for among those
//! that rarer words found, and alone only where there are no rarer ones. What is superseded, over or
//! filtered out takes nobody's place: where it crowds the newest, rows are looked at one by one.

mod filter;
mod sift;

use std::collections::HashMap;

use orchestra_board::Slug;
use rusqlite::{OptionalExtension, params};

pub use self::filter::MemoryFilter;
use super::{Reader, first_row, last_row};
use crate::rows::Read;
use crate::words;

/// The most rows of the index that all words of a query touch together.
const BUDGET: usize = 2_000;
/// The fewest rows that one word may touch, in however long a query.
const MIN_BUDGET: usize = 120;
/// The most common words that decide between what rare ones found; the rarest of them.
const MAX_DECIDING: usize = 3;
/// The most common words that a text is asked to have all of; the rarest of them.
const MAX_TOGETHER: usize = 4;
/// Where a filter lets no more texts through, all of them are chosen from.
const FEW: usize = 200;
/// The most words with one beginning that are looked through.
const MAX_ALIKE: usize = 4_000;

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedWord {
    /// The forms that count as the word, as words are indexed; blanks within one mean words that
    /// stand next to each other.
    pub forms: Vec<String>,
    /// Whether it tells texts apart; those that do not are looked for only where no other is.
    pub tells: bool,
}

/// What a search chooses from.
#[derive(Debug, Clone, Copy)]
pub struct Recall<'a> {
    /// The words of the query.
    pub words: &'a [WantedWord],
    /// Among which texts.
    pub filter: &'a MemoryFilter,
    /// Whether sessions are wanted as well; none is where something is filtered.
    pub sessions: bool,
    /// How many rows at most; somewhat more where a filter lets few through.
    pub most: usize,
}

/// The rows that a search chooses from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recalled {
    /// Rows of texts and sessions, those with the rarest words first.
    pub rows: Vec<i64>,
    /// In how many texts each word is, roughly where that is many.
    pub frequencies: Vec<f64>,
    /// Of how many texts, roughly.
    pub texts: f64,
}

/// What the full-text engine is asked for a word; `None` when it has no form.
fn expression(word: &WantedWord) -> Option<String> {
    let forms: Vec<String> = word
        .forms
        .iter()
        .filter(|form| !form.is_empty() && !form.contains('"'))
        .map(|form| format!("\"{form}\""))
        .collect();
    (!forms.is_empty()).then(|| format!("({})", forms.join(" OR ")))
}

const ROWS: &str = "SELECT rowid FROM memory_text WHERE memory_text MATCH ?1 AND rowid BETWEEN ?2 AND ?3 \
     ORDER BY rowid DESC LIMIT ?4";

/// Rows by how much the words that they have tell.
#[derive(Default)]
struct Weighed {
    weights: HashMap<i64, f64>,
    frequencies: Vec<f64>,
    /// Whether there may be more rows than were looked at.
    cut: bool,
}

impl Weighed {
    /// The rows, those with the rarest words first, of equal ones the newest.
    fn ranked(&self) -> Vec<i64> {
        let mut rows: Vec<(i64, f64)> = self.weights.iter().map(|(&row, &w)| (row, w)).collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        rows.into_iter().map(|(row, _)| row).collect()
    }
}

/// One look through the rows of a project.
struct Look<'a> {
    project: i64,
    newest: i64,
    texts: f64,
    recall: &'a Recall<'a>,
    /// Whether rows are looked at one by one, so that only those are counted that can be found.
    one_by_one: bool,
}

impl Reader<'_> {
    /// The rows that have words of a query; only of what holds and what the filter lets through.
    ///
    /// # Errors
    /// When there is no such project, or the database cannot be read.
    pub fn recall(&self, project: &Slug, recall: &Recall<'_>) -> Read<Recalled> {
        let id = self.project_id(project)?;
        let newest = self.newest_row(id)?;
        #[expect(clippy::cast_precision_loss, reason = "it is rough anyway")]
        let texts = (newest - first_row(id)).max(1) as f64;
        let mut look = Look {
            project: id,
            newest,
            texts,
            recall,
            one_by_one: false,
        };
        let (rows, frequencies) = if recall.filter.is_empty() {
            let found = self.weigh(&look)?;
            let (rows, passed_over) = self.wanted_of(&look, found.ranked())?;
            if passed_over && found.cut && rows.len() < recall.most {
                look.one_by_one = true;
                let found = self.weigh(&look)?;
                (self.wanted_of(&look, found.ranked())?.0, found.frequencies)
            } else {
                (rows, found.frequencies)
            }
        } else {
            self.recall_filtered(&mut look)?
        };
        Ok(Recalled {
            rows,
            frequencies,
            texts,
        })
    }

    /// Where a filter lets few texts through, those are it, whatever words they have; else those with
    /// words.
    fn recall_filtered(&self, look: &mut Look<'_>) -> Read<(Vec<i64>, Vec<f64>)> {
        let (few, cut) = self.admitted(look, FEW + 1)?;
        if few.len() <= FEW && !cut {
            let found = self.weigh(look)?;
            let mut rows = few;
            let weight = |row: &i64| found.weights.get(row).copied().unwrap_or(0.0);
            rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(b.cmp(a)));
            return Ok((rows, found.frequencies));
        }
        look.one_by_one = true;
        let found = self.weigh(look)?;
        let (mut rows, _) = self.wanted_of(look, found.ranked())?;
        if found.cut && rows.len() < look.recall.most {
            // Better the newest of them than none.
            rows.extend(few);
            let mut seen = std::collections::HashSet::new();
            rows.retain(|row| seen.insert(*row));
        }
        Ok((rows, found.frequencies))
    }

    /// The first rows that can be found, as many as are wanted, and whether others were passed over.
    fn wanted_of(&self, look: &Look<'_>, ranked: Vec<i64>) -> Read<(Vec<i64>, bool)> {
        let mut rows = Vec::with_capacity(ranked.len().min(look.recall.most));
        let mut passed_over = false;
        for row in ranked {
            if rows.len() == look.recall.most {
                break;
            }
            // What was looked at before is not looked at again.
            if look.one_by_one || self.is_wanted(row, look.recall)? {
                rows.push(row);
            } else {
                passed_over = true;
            }
        }
        Ok((rows, passed_over))
    }

    /// Rows by the words that they have.
    fn weigh(&self, look: &Look<'_>) -> Read<Weighed> {
        let (words, most, texts) = (look.recall.words, look.recall.most, look.texts);
        let telling = words.iter().filter(|word| word.tells).count();
        let cap = (BUDGET / telling.max(1)).max(MIN_BUDGET);
        let mut found = Weighed {
            frequencies: vec![0.0; words.len()],
            ..Weighed::default()
        };
        let mut common = Vec::new();
        for (at, word) in words.iter().enumerate() {
            if !word.tells && telling > 0 {
                found.frequencies[at] = texts;
                continue;
            }
            let Some(expression) = expression(word) else {
                continue;
            };
            let rows = self.rows_with(look, &expression, cap + 1, &mut found.cut)?;
            found.frequencies[at] = frequency(&rows, cap, look.newest, texts);
            if rows.len() > cap {
                common.push((at, expression));
                continue;
            }
            let weight = rarity(texts, found.frequencies[at]);
            for row in rows {
                *found.weights.entry(row).or_default() += weight;
            }
        }
        found.cut |= !common.is_empty();
        common.sort_by(|a, b| found.frequencies[a.0].total_cmp(&found.frequencies[b.0]));
        if found.weights.is_empty() && !common.is_empty() {
            let all: Vec<&str> = common.iter().map(|(_, text)| text.as_str()).collect();
            let rarest = |most: usize| all[..all.len().min(most)].join(" AND ");
            // Texts that have the rarest of the common words; where that is too much to ask, any.
            for expression in [rarest(MAX_TOGETHER), rarest(2), all.join(" OR ")] {
                if found.weights.len() < most {
                    for row in self.rows_with(look, &expression, most, &mut found.cut)? {
                        found.weights.entry(row).or_insert(1.0);
                    }
                }
            }
        } else if found.weights.len() > most {
            self.weigh_common(look, &common, cap, &mut found)?;
        }
        Ok(found)
    }

    /// Where rare words find more than can be read, common words decide between them.
    fn weigh_common(
        &self,
        look: &Look<'_>,
        common: &[(usize, String)],
        cap: usize,
        found: &mut Weighed,
    ) -> Read<()> {
        let words = look.recall.words.iter().enumerate();
        let rare: Vec<String> = words
            .filter(|(at, word)| word.tells && common.iter().all(|(other, _)| other != at))
            .filter_map(|(_, word)| expression(word))
            .collect();
        if rare.is_empty() {
            return Ok(());
        }
        let rare = rare.join(" OR ");
        let texts = found
            .frequencies
            .iter()
            .fold(1.0_f64, |most, f| most.max(*f));
        for (at, expression) in common.iter().take(MAX_DECIDING) {
            let both = format!("({rare}) AND {expression}");
            for row in self.rows_with(look, &both, cap, &mut found.cut)? {
                if let Some(weight) = found.weights.get_mut(&row) {
                    *weight += rarity(texts, found.frequencies[*at]);
                }
            }
        }
        Ok(())
    }

    /// The newest rows with words.
    fn rows_with(
        &self,
        look: &Look<'_>,
        expression: &str,
        most: usize,
        cut: &mut bool,
    ) -> Read<Vec<i64>> {
        if look.one_by_one {
            let (rows, more) = self.sift(look, expression, most, look.sifted())?;
            *cut |= more;
            return Ok(rows);
        }
        let (first, last) = (first_row(look.project), last_row(look.project));
        let mut statement = self.connection.prepare_cached(ROWS)?;
        let rows = statement.query_map(params![expression, first, last, most], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn newest_row(&self, project: i64) -> Read<i64> {
        let (first, last) = (first_row(project), last_row(project));
        let newest = self
            .connection
            .prepare_cached("SELECT rowid FROM memory_text WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid DESC LIMIT 1")?
            .query_row([first, last], |row| row.get(0))
            .optional()?;
        Ok(newest.unwrap_or(first))
    }

    /// The words that were ever indexed and begin like this, a few thousand at most.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn words_beginning(&self, beginning: &str) -> Read<Vec<String>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT word FROM word WHERE word >= ?1 AND word < ?2 ORDER BY word LIMIT ?3",
        )?;
        let end = format!("{beginning}\u{10FFFF}");
        let words = statement.query_map(params![beginning, end, MAX_ALIKE], |row| row.get(0))?;
        Ok(words.collect::<Result<_, _>>()?)
    }
}

/// In how many texts a word is, by those found: where there are more than were looked for, as many
/// as if all texts were like the newest.
#[expect(clippy::cast_precision_loss, reason = "it is rough anyway")]
fn frequency(rows: &[i64], cap: usize, newest: i64, texts: f64) -> f64 {
    match rows.last() {
        Some(oldest) if rows.len() > cap => {
            let looked_through = (newest - oldest + 1).max(1) as f64;
            (texts * rows.len() as f64 / looked_through).clamp(rows.len() as f64, texts.max(1.0))
        }
        _ => rows.len() as f64,
    }
}

/// How much a word tells that so many of all texts have.
#[must_use]
pub fn rarity(texts: f64, frequency: f64) -> f64 {
    (1.0 + (texts - frequency + 0.5).max(0.5) / (frequency + 0.5)).ln()
}

/// The forms in which a word is looked for: itself and its stem.
#[must_use]
pub fn forms_of(word: &str) -> Vec<String> {
    let stem = words::stem(word);
    if stem == word {
        vec![word.to_owned()]
    } else {
        vec![word.to_owned(), stem.into_owned()]
    }
}
