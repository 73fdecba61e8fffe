//! Which issues a filter lets through.
//!
//! Lists that go by project or parent, kind and state are answered from an index that has all of
//! it: for each kind and state that the tallies say is there, the first few ids are taken, and
//! these runs are merged. So a page costs the same wherever its issues are, and its total is known
//! without counting. Other filters gather what fits and sort it.

use orchestra_board::{AgentName, IssueId, Kind, Label, State};
use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use super::Reader;
use crate::rows::{Read, kind_place, state_place};
use crate::{IssueFilter, Waiting};

/// Where a list by kind and state is taken from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Listing {
    /// All issues of the project with this rowid.
    Project(i64),
    /// What is directly below the issue with this rowid.
    Parent(i64),
}

impl Listing {
    /// The tallies' name for it.
    pub(super) const fn tally(self) -> i64 {
        match self {
            Self::Project(project) => -project,
            Self::Parent(issue) => issue,
        }
    }

    /// The table is named with its schema: a view has no index, and one hides the table of a board that is read as if
    /// it were of the newest schema.
    const fn sql(self) -> (&'static str, i64) {
        match self {
            Self::Project(project) => (
                "SELECT prefix, number, id FROM main.issue INDEXED BY issue_by_kind WHERE project = ?1 \
                 AND kind = ?2 AND state = ?3 AND (prefix, number) > (?4, ?5) ORDER BY prefix, number LIMIT ?6",
                project,
            ),
            Self::Parent(issue) => (
                "SELECT prefix, number, id FROM main.issue INDEXED BY issue_by_parent WHERE parent = ?1 \
                 AND kind = ?2 AND state = ?3 AND (prefix, number) > (?4, ?5) ORDER BY prefix, number LIMIT ?6",
                issue,
            ),
        }
    }
}

/// The tests of a filter as SQL, and the values that are bound in them. Only numbers of our own
/// stand in the SQL itself.
#[derive(Debug, Default)]
struct Tests {
    sql: Vec<String>,
    values: Vec<Value>,
}

impl Tests {
    fn of(project: i64, filter: &IssueFilter, parent: Option<i64>, epic: Option<i64>) -> Self {
        let mut tests = Self::default();
        tests.sql.push(format!("i.project = {project}"));
        tests.mark(project, 0, filter.assignee.as_ref().map(AgentName::as_str));
        tests.mark(project, 1, filter.label.as_ref().map(Label::as_str));
        if let Some(parent) = parent {
            tests.sql.push(format!("i.parent = {parent}"));
        }
        if let Some(epic) = epic {
            let stories = format!("SELECT id FROM issue WHERE parent = {epic}");
            tests
                .sql
                .push(format!("(i.parent = {epic} OR i.parent IN ({stories}))"));
        }
        tests.places("i.kind", filter.kinds.iter().copied().map(kind_place));
        tests.places("i.state", filter.states.iter().copied().map(state_place));
        let open = open_dependencies(project);
        match filter.waiting {
            Waiting::Any => {}
            Waiting::Waiting => tests.sql.push(format!("i.id IN ({open})")),
            Waiting::Free => tests.sql.push(format!("i.id NOT IN ({open})")),
        }
        tests
    }

    fn mark(&mut self, project: i64, what: i64, text: Option<&str>) {
        let Some(text) = text else { return };
        self.values.push(Value::Text(text.to_owned()));
        let place = self.values.len();
        self.sql.push(format!(
            "i.id IN (SELECT issue FROM mark WHERE project = {project} AND what = {what} AND text = ?{place})"
        ));
    }

    fn places(&mut self, column: &str, places: impl Iterator<Item = i64>) {
        let list = joined(places);
        if !list.is_empty() {
            self.sql.push(format!("{column} IN ({list})"));
        }
    }
}

fn joined(places: impl Iterator<Item = i64>) -> String {
    places
        .map(|place| place.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

/// The issues of a project that wait for something that is not final.
fn open_dependencies(project: i64) -> String {
    let over = joined(
        State::ALL
            .into_iter()
            .filter(|state| state.is_final())
            .map(state_place),
    );
    format!(
        "SELECT d.issue FROM dependency d JOIN issue o ON o.project = d.project AND o.prefix = d.prefix \
         AND o.number = d.number WHERE d.project = {project} AND o.state NOT IN ({over})"
    )
}

impl Reader<'_> {
    /// The rowids that a filter by kind and state lets through, behind `after`, at most `limit`;
    /// and how many there are in all.
    pub(super) fn merged(
        &self,
        listing: Listing,
        filter: &IssueFilter,
        after: Option<&IssueId>,
        limit: usize,
    ) -> Read<(Vec<i64>, u64)> {
        let census = self.census(listing)?;
        let (sql, of) = listing.sql();
        let (prefix, number) = after.map_or(("", 0), |id| (id.prefix(), id.number()));
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found: Vec<(String, u64, i64)> = Vec::new();
        let mut total = 0;
        for kind in Kind::ALL
            .into_iter()
            .filter(|kind| wanted(&filter.kinds, *kind))
        {
            for state in State::ALL
                .into_iter()
                .filter(|state| wanted(&filter.states, *state))
            {
                let count = census.count(kind, state);
                if count == 0 {
                    continue;
                }
                total += count;
                let key = params![
                    of,
                    kind_place(kind),
                    state_place(state),
                    prefix,
                    number,
                    limit
                ];
                let mut rows = statement.query(key)?;
                while let Some(row) = rows.next()? {
                    found.push((row.get(0)?, row.get(1)?, row.get(2)?));
                }
            }
        }
        found.sort_unstable();
        found.truncate(limit);
        Ok((found.into_iter().map(|(_, _, row)| row).collect(), total))
    }

    /// The same for filters that no single index answers.
    pub(super) fn gathered(
        &self,
        project: i64,
        filter: &IssueFilter,
        parent: Option<i64>,
        epic: Option<i64>,
        after: Option<&IssueId>,
        limit: usize,
    ) -> Read<(Vec<i64>, u64)> {
        let Tests { sql, mut values } = Tests::of(project, filter, parent, epic);
        let tests = sql.join(" AND ");
        let count = format!("SELECT count(*) FROM issue i WHERE {tests}");
        let total = self.count(&count, params_from_iter(values.iter()))?;
        let (prefix, number) = after.map_or(("", 0), |id| (id.prefix(), id.number()));
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        values.extend([Value::Text(prefix.to_owned()), Value::Integer(number)]);
        let (prefix, number) = (values.len() - 1, values.len());
        let sql = format!(
            "SELECT i.id FROM issue i WHERE {tests} AND (i.prefix, i.number) > (?{prefix}, ?{number}) \
             ORDER BY i.prefix, i.number LIMIT {limit}"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let rows = statement.query_map(params_from_iter(values.iter()), |row| row.get(0))?;
        Ok((rows.collect::<Result<_, _>>()?, total))
    }
}

fn wanted<T: PartialEq>(list: &[T], one: T) -> bool {
    list.is_empty() || list.contains(&one)
}
