//! What follows from the issues: tallies, the states of parents and the indexes that a load of
//! everything leaves to the end.

use orchestra_board::{OwnState, Slug, Tally, parent_state};
use rusqlite::{Connection, params};

use crate::Fault;
use crate::files::owner::Owner;
use crate::rows::{id_of, state_of, state_place, unknown};
use crate::writing::{Write, Writing};

/// Indexes that nothing needs while all is loaded, and that are made faster at the end.
const LATE_INDEXES: [&str; 7] = [
    "issue_by_uid",
    "issue_by_kind",
    "issue_by_parent",
    "issue_by_rank",
    "dependency_on",
    "event_of_issue",
    "file_by_owner",
];

/// An epic or story, as far as its state hangs on what is below.
struct Parent {
    row: i64,
    state: usize,
    own: usize,
    slug: String,
    prefix: String,
    number: u64,
}

impl Writing<'_> {
    /// Leaves tallies, the states of parents and some indexes alone until [`Writing::recount`], and
    /// tells the readable files nothing: for when all is read from them, into a new database.
    pub(crate) fn begin_loading(&mut self) -> Write<()> {
        self.loading = true;
        for name in LATE_INDEXES {
            let sql = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?1";
            let made: String = self.connection.query_row(sql, [name], |row| row.get(0))?;
            self.connection
                .execute_batch(&format!("DROP INDEX {name}"))?;
            self.late_indexes.push(made);
        }
        Ok(())
    }

    /// Counts everything anew, and lets parents follow their children. Parents and counters that
    /// the files have wrong are told to them.
    pub(crate) fn recount(&mut self) -> Write<()> {
        self.loading = false;
        for sql in std::mem::take(&mut self.late_indexes) {
            self.connection.execute_batch(&sql)?;
        }
        for (project, next) in std::mem::take(&mut self.next_rows) {
            self.execute(
                "UPDATE project SET next_row = ?2 WHERE id = ?1",
                [project, next],
            )?;
        }
        for (project, old, new) in std::mem::take(&mut self.aliases) {
            self.put_alias(project, &old, &new)?;
        }
        self.execute("DELETE FROM tally", [])?;
        self.execute(
            "INSERT INTO tally (parent, kind, state, n) SELECT parent, kind, state, count(*) FROM issue \
             WHERE parent IS NOT NULL AND kind >= 2 GROUP BY parent, kind, state",
            [],
        )?;
        // Stories follow their tasks first, then epics their stories.
        self.follow(1)?;
        self.execute(
            "INSERT INTO tally (parent, kind, state, n) SELECT parent, kind, state, count(*) FROM issue \
             WHERE parent IS NOT NULL AND kind < 2 GROUP BY parent, kind, state",
            [],
        )?;
        self.follow(0)?;
        self.execute(
            "INSERT INTO tally (parent, kind, state, n) SELECT -project, kind, state, count(*) FROM issue \
             GROUP BY project, kind, state",
            [],
        )?;
        self.raise_all_counters()
    }

    fn follow(&mut self, kind: i64) -> Write<()> {
        let parents: Vec<Parent> = {
            let mut statement = self.connection.prepare_cached(
                "SELECT i.id, i.state, i.own, p.slug, i.prefix, i.number FROM issue i \
                 JOIN project p ON p.id = i.project WHERE i.kind = ?1",
            )?;
            let rows = statement.query_map([kind], |row| {
                Ok(Parent {
                    row: row.get(0)?,
                    state: row.get(1)?,
                    own: row.get(2)?,
                    slug: row.get(3)?,
                    prefix: row.get(4)?,
                    number: row.get(5)?,
                })
            })?;
            rows.collect::<Result<_, _>>()?
        };
        for parent in parents {
            let (row, state, own) = (parent.row, parent.state, parent.own);
            let own = OwnState::of_state(state_of(own)?).ok_or_else(|| unknown("own state"))?;
            let mut tally = Tally::default();
            let mut statement = self
                .connection
                .prepare_cached("SELECT state, n FROM tally WHERE parent = ?1")?;
            let mut rows = statement.query([row])?;
            while let Some(row) = rows.next()? {
                tally.add_many(state_of(row.get(0)?)?, row.get(1)?);
            }
            let follows = parent_state(&tally, own);
            if follows != state_of(state)? {
                self.execute(
                    "UPDATE issue SET state = ?2 WHERE id = ?1",
                    params![row, state_place(follows)],
                )?;
                let id = id_of(Some(&parent.prefix), Some(parent.number))?;
                if let (Ok(slug), Some(id)) = (Slug::parse(&parent.slug), id) {
                    self.dirty(&Owner::Issue(slug.clone(), id))?;
                    self.dirty(&Owner::Project(slug))?;
                }
            }
        }
        Ok(())
    }

    /// Compares what follows from the issues with what is kept of it; answers how much differs.
    pub(crate) fn wrong_tallies(connection: &Connection) -> Result<u64, Fault> {
        let sql = "SELECT count(*) FROM (\
             SELECT parent, kind, state, sum(n) AS n FROM (\
               SELECT parent, kind, state, n FROM tally \
               UNION ALL SELECT parent, kind, state, -1 FROM issue WHERE parent IS NOT NULL \
               UNION ALL SELECT -project, kind, state, -1 FROM issue) \
             GROUP BY parent, kind, state HAVING sum(n) <> 0)";
        Ok(connection.query_row(sql, [], |row| row.get(0))?)
    }
}
