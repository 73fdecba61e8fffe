//! What a search over memory chooses from: the remembered texts and sessions with the rarest words
//! of a query, and what stands around them.
//!
//! Which of them fit best is decided elsewhere, by their texts. Here it only matters that few rows
//! are touched however many there are: a word that very many texts have is looked for among those
//! that rarer words found, and alone only where there are no rarer ones.

use std::collections::HashMap;

use orchestra_board::{Label, Slug, Timestamp};
use rusqlite::{OptionalExtension, named_params, params};

use super::memory::{CHUNK, HOLDS, SESSION, chunk_row, session_row};
use super::{Reader, first_row, last_row};
use crate::rows::{Read, list_text};
use crate::{Chunk, ContextItem, words};

/// The most rows of the index that all words of a query touch together.
const BUDGET: usize = 2_000;
/// The fewest rows that one word may touch, in however long a query.
const MIN_BUDGET: usize = 120;
/// The most common words that decide between what rare ones found; the rarest of them.
const MAX_DECIDING: usize = 3;
/// The most rows of one word that a filter is tried on.
const MAX_SIFTED: usize = 20_000;
/// The most words with one beginning that are looked through.
const MAX_ALIKE: usize = 4_000;

/// Which remembered texts a search is for; what is left empty does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFilter {
    /// From there.
    pub source: Option<Label>,
    /// Of that one.
    pub source_id: Option<Label>,
    /// With all of these tags.
    pub tags: Vec<Label>,
    /// Remembered then or later.
    pub since: Option<Timestamp>,
    /// Remembered then or earlier.
    pub until: Option<Timestamp>,
}

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedWord {
    /// The forms that count as the word, as words are indexed; blanks within one mean words that
    /// stand next to each other.
    pub forms: Vec<String>,
    /// Whether it tells texts apart; those that do not are looked for only where no other is.
    pub tells: bool,
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

impl MemoryFilter {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a text is let through.
    #[must_use]
    pub fn admits(&self, chunk: &Chunk) -> bool {
        let same = |wanted: &Option<Label>, has: &Option<Label>| wanted.is_none() || wanted == has;
        same(&self.source, &chunk.source)
            && same(&self.source_id, &chunk.source_id)
            && self.tags.iter().all(|tag| chunk.tags.contains(tag))
            && self.since.is_none_or(|since| since <= chunk.created_at)
            && self.until.is_none_or(|until| chunk.created_at <= until)
    }
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
const SIFTED: &str = "SELECT c.id FROM (SELECT rowid FROM memory_text WHERE memory_text MATCH ?1 \
     AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid DESC LIMIT ?10) t CROSS JOIN chunk c ON c.id = t.rowid \
     WHERE (?5 IS NULL OR c.source = ?5) AND (?6 IS NULL OR c.source_id = ?6) \
     AND c.created_at BETWEEN ?7 AND ?8 AND NOT EXISTS (SELECT 1 FROM json_each(?9) w \
     WHERE NOT EXISTS (SELECT 1 FROM json_each(c.tags) h WHERE h.value = w.value)) LIMIT ?4";

impl Reader<'_> {
    /// The rows that have words of a query, at most `most`; only of texts that the filter lets
    /// through, and then none of sessions.
    ///
    /// # Errors
    /// When there is no such project, or the database cannot be read.
    pub fn recall(
        &self,
        project: &Slug,
        words: &[WantedWord],
        filter: &MemoryFilter,
        most: usize,
    ) -> Read<Recalled> {
        let id = self.project_id(project)?;
        let newest = self.newest_row(id)?;
        #[expect(clippy::cast_precision_loss, reason = "it is rough anyway")]
        let texts = (newest - first_row(id)).max(1) as f64;
        let telling = words.iter().filter(|word| word.tells).count();
        let cap = (BUDGET / telling.max(1)).max(MIN_BUDGET);
        let mut frequencies = vec![0.0; words.len()];
        let mut weights: HashMap<i64, f64> = HashMap::new();
        let mut common = Vec::new();
        for (at, word) in words.iter().enumerate() {
            if !word.tells && telling > 0 {
                frequencies[at] = texts;
                continue;
            }
            let Some(expression) = expression(word) else {
                continue;
            };
            let rows = self.rows_with(id, &expression, filter, cap + 1)?;
            frequencies[at] = frequency(&rows, cap, newest, texts);
            if rows.len() > cap {
                common.push((at, expression));
                continue;
            }
            let weight = rarity(texts, frequencies[at]);
            for row in rows {
                *weights.entry(row).or_default() += weight;
            }
        }
        let all: Vec<&str> = common.iter().map(|(_, text)| text.as_str()).collect();
        if weights.is_empty() && !all.is_empty() {
            // Texts that have all the common words; where that is too much to ask, any of them.
            for expression in [all.join(" AND "), all.join(" OR ")] {
                if weights.len() < most {
                    for row in self.rows_with(id, &expression, filter, most)? {
                        weights.entry(row).or_insert(1.0);
                    }
                }
            }
        } else if weights.len() > most {
            common.sort_by(|a, b| frequencies[a.0].total_cmp(&frequencies[b.0]));
            self.weigh_common(id, words, filter, &common, &frequencies, &mut weights, cap)?;
        }
        let mut rows: Vec<(i64, f64)> = weights.into_iter().collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        rows.truncate(most);
        Ok(Recalled {
            rows: rows.into_iter().map(|(row, _)| row).collect(),
            frequencies,
            texts,
        })
    }

    /// Where rare words find more than can be read, common words decide between them.
    #[expect(clippy::too_many_arguments, reason = "the state of one search")]
    fn weigh_common(
        &self,
        project: i64,
        words: &[WantedWord],
        filter: &MemoryFilter,
        common: &[(usize, String)],
        frequencies: &[f64],
        weights: &mut HashMap<i64, f64>,
        cap: usize,
    ) -> Read<()> {
        let rare: Vec<String> = words
            .iter()
            .enumerate()
            .filter(|(at, word)| word.tells && common.iter().all(|(other, _)| other != at))
            .filter_map(|(_, word)| expression(word))
            .collect();
        if rare.is_empty() {
            return Ok(());
        }
        let rare = rare.join(" OR ");
        let texts = frequencies.iter().fold(1.0_f64, |most, f| most.max(*f));
        for (at, expression) in common.iter().take(MAX_DECIDING) {
            let both = format!("({rare}) AND {expression}");
            for row in self.rows_with(project, &both, filter, cap)? {
                if let Some(weight) = weights.get_mut(&row) {
                    *weight += rarity(texts, frequencies[*at]);
                }
            }
        }
        Ok(())
    }

    fn rows_with(
        &self,
        project: i64,
        expression: &str,
        filter: &MemoryFilter,
        most: usize,
    ) -> Read<Vec<i64>> {
        let (first, last) = (first_row(project), last_row(project));
        let mut found = Vec::new();
        if filter.is_empty() {
            let mut statement = self.connection.prepare_cached(ROWS)?;
            let mut rows = statement.query(params![expression, first, last, most])?;
            while let Some(row) = rows.next()? {
                found.push(row.get(0)?);
            }
        } else {
            let tags = list_text(filter.tags.iter().map(Label::as_str));
            let mut statement = self.connection.prepare_cached(SIFTED)?;
            let mut rows = statement.query(params![
                expression,
                first,
                last,
                most,
                filter.source.as_ref().map(Label::as_str),
                filter.source_id.as_ref().map(Label::as_str),
                filter.since.map_or(i64::MIN, Timestamp::unix_seconds),
                filter.until.map_or(i64::MAX, Timestamp::unix_seconds),
                tags.unwrap_or_else(|| "[]".to_owned()),
                MAX_SIFTED,
            ])?;
            while let Some(row) = rows.next()? {
                found.push(row.get(0)?);
            }
        }
        Ok(found)
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

    /// The rows of what was remembered last, at most `most`, the newest first; only of texts that
    /// the filter lets through, and then none of sessions.
    ///
    /// # Errors
    /// As [`Reader::recall`].
    pub fn newest_remembered(
        &self,
        project: &Slug,
        filter: &MemoryFilter,
        most: usize,
    ) -> Read<Vec<i64>> {
        let id = self.project_id(project)?;
        let looked_at = if filter.is_empty() { most } else { MAX_SIFTED };
        let mut statement = self.connection.prepare_cached(
            "SELECT rowid FROM memory_text WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid DESC LIMIT ?3",
        )?;
        let mut rows = statement.query(params![first_row(id), last_row(id), looked_at])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let row: i64 = row.get(0)?;
            if found.len() == most {
                break;
            }
            if filter.is_empty() || self.row_admitted(project, row, filter)? {
                found.push(row);
            }
        }
        Ok(found)
    }

    fn row_admitted(&self, project: &Slug, row: i64, filter: &MemoryFilter) -> Read<bool> {
        let found = self.remembered_at(project, row)?;
        Ok(matches!(found, Some(ContextItem::Chunk(chunk)) if filter.admits(&chunk)))
    }

    /// What is remembered in a row, unless it has expired or is superseded.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn remembered_at(&self, project: &Slug, row: i64) -> Read<Option<ContextItem>> {
        let mut statement = self
            .connection
            .prepare_cached(&format!("{CHUNK} WHERE id = :row AND {HOLDS}"))?;
        let key = named_params! { ":row": row, ":now": self.now, ":superseded": self.superseded };
        let mut rows = statement.query(key)?;
        if let Some(found) = rows.next()? {
            return Ok(Some(ContextItem::Chunk(chunk_row(project, found)?)));
        }
        let mut statement = self
            .connection
            .prepare_cached(&format!("{SESSION} WHERE id = ?1"))?;
        let mut rows = statement.query([row])?;
        let found = rows.next()?.map(|row| session_row(project, row));
        Ok(found.transpose()?.map(ContextItem::Session))
    }

    /// The texts of the same source that were remembered shortly before and after one, with it, in
    /// order; nothing when it does not say where it is from.
    ///
    /// # Errors
    /// As [`Reader::recall`].
    pub fn remembered_around(&self, chunk: &Chunk, reach: u64) -> Read<Vec<Chunk>> {
        let Some(source) = &chunk.source_id else {
            return Ok(Vec::new());
        };
        let number = chunk.id.number();
        let sql = format!(
            "{CHUNK} WHERE project = :project AND number BETWEEN :first AND :last \
             AND source_id = :source AND {HOLDS} ORDER BY number"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! {
            ":project": self.project_id(&chunk.project)?,
            ":first": number.saturating_sub(reach),
            ":last": number.saturating_add(reach),
            ":source": source.as_str(),
            ":now": self.now,
            ":superseded": self.superseded,
        })?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(chunk_row(&chunk.project, row)?);
        }
        Ok(found)
    }

    /// The row of a remembered text.
    ///
    /// # Errors
    /// As [`Reader::recall`].
    pub fn row_of(&self, chunk: &Chunk) -> Read<Option<i64>> {
        let project = self.project_id(&chunk.project)?;
        let sql = "SELECT id FROM chunk WHERE project = ?1 AND number = ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let row = statement.query_row((project, chunk.id.number()), |row| row.get(0));
        Ok(row.optional()?)
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
