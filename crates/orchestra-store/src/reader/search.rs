//! Full-text search.
//!
//! Ranking by BM25 walks through every text that has one of the words, so a word that very many
//! texts have would cost as much as all of them and tell nothing. Such words are left out when
//! there are rarer ones; where there are none, only the newest texts are looked at, unranked.

use std::cmp::Ordering;

use orchestra_board::{IssueId, Kind, Slug};
use rusqlite::{OptionalExtension, params};

use super::{Reader, first_row, last_row};
use crate::page::Filling;
use crate::rows::{Read, id_of, kind_of};
use crate::{Cursor, IssueFilter, IssueRecord, Page, PageRequest, Reindex, words};

/// A word that more texts have than this is common.
const COMMON: i64 = 2_000;
/// How many of the newest texts are looked at for common words.
const NEWEST: i64 = 2_000;
/// How many ways the last word of a query is completed at most.
const COMPLETIONS: usize = 16;
/// The most bytes of a query that are read; the rest is left out.
const MAX_QUERY_BYTES: usize = 4_096;

/// One of the two full-text indexes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Index {
    /// Issues: title, then description.
    Issues,
    /// Remembered texts and sessions: summary, content, tags.
    Memory,
}

/// What to look for, as the full-text engine takes it; every word is quoted, so that nothing of a
/// query is taken for an operator.
#[derive(Debug)]
pub(super) struct Plan {
    /// The words to look for.
    pub(super) words: Vec<String>,
    /// Whether all of them are common.
    pub(super) common: bool,
}

impl Plan {
    pub(super) fn all(&self) -> String {
        self.words.join(" AND ")
    }

    pub(super) fn any(&self) -> String {
        self.words.join(" OR ")
    }
}

impl Index {
    const fn probe(self) -> &'static str {
        match self {
            Self::Issues => "SELECT 1 FROM issue_text WHERE issue_text MATCH ?1 LIMIT 1 OFFSET ?2",
            Self::Memory => {
                "SELECT 1 FROM memory_text WHERE memory_text MATCH ?1 LIMIT 1 OFFSET ?2"
            }
        }
    }
}

/// An issue that was found.
#[derive(Debug)]
struct Found {
    row: i64,
    score: f64,
    id: IssueId,
}

impl Reader<'_> {
    /// The issues that a text is found in, best first, of these kinds (of all, when none are
    /// named). An id finds its issue, the last word is completed, an empty text finds all issues.
    /// Where every word is one that very many issues have, only the newest issues are looked at,
    /// and the total counts those.
    ///
    /// # Errors
    /// As [`Reader::issues`].
    pub fn search(
        &self,
        project: &Slug,
        query: &str,
        kinds: &[Kind],
        page: &PageRequest,
    ) -> Read<Page<IssueRecord>> {
        let query = &query[..query.floor_char_boundary(MAX_QUERY_BYTES)];
        if query.trim().is_empty() {
            let filter = IssueFilter {
                kinds: kinds.to_vec(),
                ..IssueFilter::default()
            };
            return self.issues(project, &filter, page);
        }
        let id = self.project_id(project)?;
        let mut found = self.by_id(project, query, kinds)?;
        let named = found.len();
        for other in self.by_text(id, query, kinds)? {
            if !found[..named].iter().any(|known| known.row == other.row) {
                found.push(other);
            }
        }
        let total = u64::try_from(found.len()).unwrap_or(u64::MAX);
        let start = match page.after(Cursor::numbered_name)? {
            None => 0,
            Some((place, last)) => {
                let last = IssueId::parse(last).map_err(|_| crate::CursorError)?;
                let after = found
                    .iter()
                    .position(|found| found.id == last)
                    .map(|at| at + 1);
                after.unwrap_or(usize::try_from(place).map_err(|_| crate::CursorError)?)
            }
        };
        let mut filling = Filling::new(page);
        let mut statement = self.statement_by_row()?;
        for (at, found) in (start..).zip(found.iter().skip(start)) {
            let item = (at + 1, self.issue_of(&mut statement, project, found.row)?);
            let bytes = item.1.issue.description.as_str().len();
            if filling.push(item, bytes).is_break() {
                break;
            }
        }
        let key = |(place, record): &(usize, IssueRecord)| {
            let place = i64::try_from(*place).unwrap_or(i64::MAX);
            Cursor::of_numbered_name(place, &record.issue.id.to_string())
        };
        Ok(filling.finish(total, key).map(|(_, record)| record))
    }

    fn by_id(&self, project: &Slug, query: &str, kinds: &[Kind]) -> Read<Vec<Found>> {
        let mut found: Vec<Found> = Vec::new();
        for word in query.split_whitespace().take(words::MAX_QUERY_WORDS) {
            let word = word
                .trim_matches(|c: char| !c.is_ascii_alphanumeric())
                .to_ascii_uppercase();
            let Ok(id) = IssueId::parse(&word) else {
                continue;
            };
            if let Some(issue) = self.find_issue(project, &id)?
                && (kinds.is_empty() || kinds.contains(&issue.record.issue.kind))
                && found.iter().all(|known| known.row != issue.row)
            {
                found.push(Found {
                    row: issue.row,
                    score: f64::INFINITY,
                    id: issue.record.issue.id,
                });
            }
        }
        Ok(found)
    }

    fn by_text(&self, project: i64, query: &str, kinds: &[Kind]) -> Read<Vec<Found>> {
        let Some(plan) = self.words_of(Index::Issues, query)? else {
            return Ok(Vec::new());
        };
        let mut found = self.matching(project, &plan, &plan.all(), kinds)?;
        if found.is_empty() && plan.words.len() > 1 {
            found = self.matching(project, &plan, &plan.any(), kinds)?;
        }
        if plan.common {
            found.sort_by(|a, b| {
                b.id.number()
                    .cmp(&a.id.number())
                    .then_with(|| a.id.cmp(&b.id))
            });
        } else {
            let order =
                |a: &Found, b: &Found| b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
            found.sort_by(|a, b| order(a, b).then_with(|| a.id.cmp(&b.id)));
        }
        Ok(found)
    }

    fn matching(
        &self,
        project: i64,
        plan: &Plan,
        expression: &str,
        kinds: &[Kind],
    ) -> Read<Vec<Found>> {
        let (first, last) = (first_row(project), last_row(project));
        let (sql, first) = if plan.common {
            let sql = "SELECT id FROM issue WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1";
            let newest = self
                .connection
                .prepare_cached(sql)?
                .query_row([first, last], |row| row.get(0))
                .optional()?;
            (
                "SELECT i.id, 0.0, i.kind, i.prefix, i.number FROM issue_text CROSS JOIN issue i \
                 ON i.id = issue_text.rowid WHERE issue_text MATCH ?1 AND issue_text.rowid BETWEEN ?2 AND ?3",
                first.max(newest.unwrap_or(first) - NEWEST),
            )
        } else {
            (
                "SELECT i.id, -bm25(issue_text, 4.0, 1.0), i.kind, i.prefix, i.number FROM issue_text CROSS JOIN \
                 issue i ON i.id = issue_text.rowid WHERE issue_text MATCH ?1 AND issue_text.rowid BETWEEN ?2 AND ?3",
                first,
            )
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![expression, first, last])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            if !kinds.is_empty() && !kinds.contains(&kind_of(row.get(2)?)?) {
                continue;
            }
            let prefix: String = row.get(3)?;
            let id = id_of(Some(&prefix), row.get(4)?)?;
            let (row, score) = (row.get(0)?, row.get(1)?);
            found.extend(id.map(|id| Found { row, score, id }));
        }
        Ok(found)
    }

    /// Lets the full-text engine see this snapshot. It does so by itself for queries, but not for
    /// `integrity_check`, which would take what an earlier snapshot had for damage.
    pub(crate) fn refresh_indexes(&self) -> Read<()> {
        for sql in [
            "SELECT rowid FROM issue_text LIMIT 1",
            "SELECT rowid FROM memory_text LIMIT 1",
        ] {
            self.connection.prepare_cached(sql)?.exists([])?;
        }
        Ok(())
    }

    /// How many times the full-text index of what is remembered was begun anew.
    pub(crate) fn reindex_run(&self) -> Read<u64> {
        let run = self
            .connection
            .prepare_cached("SELECT value FROM counter WHERE name = 'reindex_run'")?
            .query_row([], |row| row.get(0))
            .optional()?;
        Ok(run.unwrap_or(0))
    }

    /// What is to be done when the full-text index of what is remembered cannot be searched: it is
    /// being made anew, perhaps.
    pub(crate) fn mending(&self) -> Read<(u64, Reindex)> {
        let run = self.reindex_run()?;
        let is_going = self
            .connection
            .prepare_cached("SELECT 1 FROM counter WHERE name = 'reindex_damaged'")?
            .exists([])?;
        Ok(match is_going {
            true => (run, Reindex::Continue(run)),
            false => (run, Reindex::Damaged(run)),
        })
    }

    /// What to look for; `None` when the query has no word.
    pub(super) fn words_of(&self, index: Index, query: &str) -> Read<Option<Plan>> {
        let query = words::query(&query[..query.floor_char_boundary(MAX_QUERY_BYTES)]);
        let Some(last) = query.len().checked_sub(1) else {
            return Ok(None);
        };
        let mut probe = self.connection.prepare_cached(index.probe())?;
        let mut rare = Vec::new();
        let mut common = Vec::new();
        for (at, piece) in query.iter().enumerate() {
            let quoted = match piece.as_slice() {
                [word] if at == last => self.completed(word)?,
                words => quoted(&words.join(" ")),
            };
            let is_common = probe.exists(params![quoted, COMMON])?;
            if is_common { &mut common } else { &mut rare }.push(quoted);
        }
        let (words, common) = if rare.is_empty() {
            (common, true)
        } else {
            (rare, false)
        };
        Ok(Some(Plan { words, common }))
    }

    /// A word with the words that begin with it.
    fn completed(&self, word: &str) -> Read<String> {
        if word.chars().nth(1).is_none() {
            return Ok(quoted(word));
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT word FROM word WHERE word > ?1 AND word < ?2 ORDER BY word LIMIT ?3",
        )?;
        let end = format!("{word}\u{10FFFF}");
        let rows = statement.query_map(params![word, end, COMPLETIONS], |row| {
            row.get::<_, String>(0)
        })?;
        let mut choices = vec![quoted(word)];
        for completion in rows {
            choices.push(quoted(&completion?));
        }
        Ok(if choices.len() == 1 {
            quoted(word)
        } else {
            format!("({})", choices.join(" OR "))
        })
    }
}

/// Words as a string of the full-text engine's language, to be found next to each other; words
/// have no quotes in them.
fn quoted(words: &str) -> String {
    format!("\"{words}\"")
}
