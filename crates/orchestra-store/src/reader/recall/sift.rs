//! Looking at rows one by one: whether they hold, and whether a filter lets them through.

use orchestra_board::{Label, Slug, Timestamp};
use rusqlite::{named_params, params};

use super::{Look, ROWS, Recall};
use crate::reader::memory::HOLDS;
use crate::reader::{Reader, first_row, last_row};
use crate::rows::Read;

/// The most rows that are looked at one by one for all words of a query together.
const MAX_SIFTED: usize = 20_000;
/// The fewest for one word, in however long a query.
const MIN_SIFTED: usize = 2_000;

/// What a text must have to be let through by a filter.
const ADMITTED: &str = "(:source IS NULL OR source = :source) AND (:source_id IS NULL OR source_id = :source_id) \
     AND created_at BETWEEN :since AND :until AND NOT EXISTS (SELECT 1 FROM json_each(:tags) w \
     WHERE NOT EXISTS (SELECT 1 FROM json_each(chunk.tags) h WHERE h.value = w.value))";

impl Look<'_> {
    /// The most rows of one word that are looked at one by one.
    pub(super) fn sifted(&self) -> usize {
        (MAX_SIFTED / self.recall.words.len().max(1)).max(MIN_SIFTED)
    }
}

impl Reader<'_> {
    /// The rows of what was remembered last, the newest first: of what holds and what the filter lets
    /// through.
    ///
    /// # Errors
    /// As [`Reader::recall`].
    pub fn newest_remembered(&self, project: &Slug, recall: &Recall<'_>) -> Read<Vec<i64>> {
        let id = self.project_id(project)?;
        if !recall.filter.is_empty() {
            let look = Look {
                project: id,
                newest: last_row(id),
                texts: 0.0,
                recall,
                one_by_one: true,
            };
            return Ok(self.admitted(&look, recall.most)?.0);
        }
        let sql = format!(
            "SELECT id FROM chunk WHERE id BETWEEN :first AND :last AND {HOLDS} UNION ALL \
             SELECT id FROM session WHERE :sessions AND id BETWEEN :first AND :last \
             ORDER BY id DESC LIMIT :most"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let rows = statement.query_map(
            named_params! {
                ":first": first_row(id),
                ":last": last_row(id),
                ":now": self.now,
                ":superseded": self.superseded,
                ":sessions": recall.sessions,
                ":most": recall.most,
            },
            |row| row.get(0),
        )?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Those of some rows that a search finds, in their order: of the project, holding, and let through
    /// by the filter.
    ///
    /// # Errors
    /// As [`Reader::recall`].
    pub fn recallable(&self, project: &Slug, rows: &[i64], recall: &Recall<'_>) -> Read<Vec<i64>> {
        let id = self.project_id(project)?;
        let of_project = first_row(id)..=last_row(id);
        let mut found = Vec::new();
        for &row in rows.iter().filter(|row| of_project.contains(row)) {
            if found.len() == recall.most {
                break;
            }
            if self.is_wanted(row, recall)? {
                found.push(row);
            }
        }
        Ok(found)
    }

    /// Whether a row can be found: it holds, and the filter lets it through.
    pub(super) fn is_wanted(&self, row: i64, recall: &Recall<'_>) -> Read<bool> {
        let filter = recall.filter;
        if filter.is_empty() {
            const PLAIN: &str = "SELECT 1 FROM chunk WHERE id = :row AND ";
            const SESSIONS: &str =
                " UNION ALL SELECT 1 FROM session WHERE :sessions AND id = :row LIMIT 1";
            let mut statement = self
                .connection
                .prepare_cached(&[PLAIN, HOLDS, SESSIONS].concat())?;
            let found = statement.exists(named_params! {
                ":row": row,
                ":now": self.now,
                ":superseded": self.superseded,
                ":sessions": recall.sessions,
            });
            return Ok(found?);
        }
        const ONE: &str = "SELECT 1 FROM chunk WHERE id = :row AND ";
        let mut statement = self
            .connection
            .prepare_cached(&[ONE, HOLDS, " AND ", ADMITTED].concat())?;
        Ok(statement.exists(named_params! {
            ":row": row,
            ":now": self.now,
            ":superseded": self.superseded,
            ":source": filter.source.as_ref().map(Label::as_str),
            ":source_id": filter.source_id.as_ref().map(Label::as_str),
            ":since": filter.since.map_or(i64::MIN, Timestamp::unix_seconds),
            ":until": filter.until.map_or(i64::MAX, Timestamp::unix_seconds),
            ":tags": filter.tags_text(),
        })?)
    }

    /// The newest rows that a filter lets through, and whether not all could be looked at.
    pub(super) fn admitted(&self, look: &Look<'_>, most: usize) -> Read<(Vec<i64>, bool)> {
        let filter = look.recall.filter;
        if let Some(marks) = filter.marks() {
            // Tags and ids are words of the index.
            return self.sift(look, &marks, most, MAX_SIFTED);
        }
        let sql = format!(
            "SELECT id FROM chunk WHERE project = :project AND {ADMITTED} AND {HOLDS} \
             ORDER BY created_at DESC, id DESC LIMIT :most"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let rows = statement.query_map(
            named_params! {
                ":project": look.project,
                ":now": self.now,
                ":superseded": self.superseded,
                ":source": filter.source.as_ref().map(Label::as_str),
                ":source_id": filter.source_id.as_ref().map(Label::as_str),
                ":since": filter.since.map_or(i64::MIN, Timestamp::unix_seconds),
                ":until": filter.until.map_or(i64::MAX, Timestamp::unix_seconds),
                ":tags": filter.tags_text(),
                ":most": most,
            },
            |row| row.get(0),
        )?;
        Ok((rows.collect::<Result<_, _>>()?, false))
    }

    /// The newest rows with words that can be found, of so many that are looked at; and whether there
    /// are others.
    pub(super) fn sift(
        &self,
        look: &Look<'_>,
        expression: &str,
        most: usize,
        looked_at: usize,
    ) -> Read<(Vec<i64>, bool)> {
        let (first, last) = (first_row(look.project), last_row(look.project));
        let mut statement = self.connection.prepare_cached(ROWS)?;
        let mut rows = statement.query(params![expression, first, last, looked_at])?;
        let (mut found, mut seen) = (Vec::new(), 0);
        while found.len() < most
            && let Some(row) = rows.next()?
        {
            let row = row.get(0)?;
            seen += 1;
            if self.is_wanted(row, look.recall)? {
                found.push(row);
            }
        }
        Ok((found, seen == looked_at))
    }
}
