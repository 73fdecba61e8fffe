//! Rows of issues, and what follows from them: tallies, marks, dependencies, the full-text index.

use orchestra_board::{AgentName, Issue, IssueId, Label, rank};
use rusqlite::params;

use super::apply::Held;
use super::{Write, Writing};
use crate::ActionError;
use crate::files::owner::Owner;
use crate::rows::{kind_place, list_text, priority_place, state_place, unknown};
use crate::uid;

/// The largest number that an id can have: 15 digits.
const LAST_NUMBER: u64 = 999_999_999_999_999;

/// Whether a tally goes up or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Up,
    Down,
}

impl Writing<'_> {
    /// Makes the row of a new issue; answers its rowid.
    pub(super) fn insert_issue(&mut self, project: i64, issue: &Issue) -> Write<i64> {
        if issue.id.number() > LAST_NUMBER {
            return Err(ActionError::Invalid(
                "the ids of the project are used up; begin another project".to_owned(),
            ));
        }
        let row = self.new_row(project)?;
        let parent = match &issue.parent {
            Some(parent) => Some(self.row_of(project, parent)?),
            None => None,
        };
        self.insert_issue_at(project, row, parent, issue)?;
        self.remove_alias(project, &issue.id)?;
        if let Some(uid) = issue.uid {
            // A file may list it as deleted, which this board never saw.
            self.remove_tombstone(project, uid)?;
        }
        Ok(row)
    }

    pub(super) fn insert_issue_at(
        &mut self,
        project: i64,
        row: i64,
        parent: Option<i64>,
        issue: &Issue,
    ) -> Write<()> {
        let uid = match issue.uid {
            Some(uid) => uid,
            None => uid::random()?,
        };
        self.execute(
            "INSERT INTO issue (id, project, prefix, number, kind, parent, state, own, priority, rank, waits, \
             cancelled_with, fixes, assignees, labels, claim_agent, claim_until, created_at, updated_at, title, \
             description, uid) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, \
             ?19, ?20, ?21, ?22)",
            params![
                row,
                project,
                issue.id.prefix(),
                issue.id.number(),
                kind_place(issue.kind),
                parent,
                state_place(issue.state),
                state_place(issue.own.as_state()),
                issue.priority.map(priority_place),
                rank(issue.kind, issue.priority, issue.state),
                issue.depends_on.len(),
                issue.cancelled_with.as_ref().map(IssueId::to_string),
                issue.fixes.as_ref().map(IssueId::to_string),
                list_text(issue.assignees.iter().map(AgentName::as_str)),
                list_text(issue.labels.iter().map(Label::as_str)),
                issue.claim.as_ref().map(|claim| claim.agent.as_str()),
                issue.claim.as_ref().map(|claim| claim.until.unix_seconds()),
                issue.created_at.unix_seconds(),
                issue.updated_at.map(orchestra_board::Timestamp::unix_seconds),
                issue.title.as_str(),
                issue.description.as_str(),
                uid.to_bytes(),
            ],
        )?;
        self.count(project, parent, issue, Step::Up)?;
        self.put_marks(project, row, issue)?;
        self.put_dependencies(project, row, issue)?;
        self.index_issue(row, issue)
    }

    /// Writes what has changed of an issue.
    pub(super) fn update_issue(&mut self, project: i64, held: &Held) -> Write<()> {
        let (before, now) = (&held.before, &held.now);
        let moved = before.parent != now.parent;
        let parent = match &now.parent {
            Some(parent) if moved => Some(self.row_of(project, parent)?),
            _ => held.parent_row,
        };
        self.execute(
            "UPDATE issue SET parent = ?2, state = ?3, own = ?4, priority = ?5, rank = ?6, waits = ?7, \
             cancelled_with = ?8, assignees = ?9, labels = ?10, claim_agent = ?11, claim_until = ?12, \
             updated_at = ?13, fixes = ?14 WHERE id = ?1",
            params![
                held.row,
                parent,
                state_place(now.state),
                state_place(now.own.as_state()),
                now.priority.map(priority_place),
                rank(now.kind, now.priority, now.state),
                now.depends_on.len(),
                now.cancelled_with.as_ref().map(IssueId::to_string),
                list_text(now.assignees.iter().map(AgentName::as_str)),
                list_text(now.labels.iter().map(Label::as_str)),
                now.claim.as_ref().map(|claim| claim.agent.as_str()),
                now.claim.as_ref().map(|claim| claim.until.unix_seconds()),
                now.updated_at.map(orchestra_board::Timestamp::unix_seconds),
                now.fixes.as_ref().map(IssueId::to_string),
            ],
        )?;
        if moved || before.state != now.state {
            self.count(project, held.parent_row, before, Step::Down)?;
            self.count(project, parent, now, Step::Up)?;
        }
        if before.assignees != now.assignees || before.labels != now.labels {
            self.remove_marks(project, held.row, before)?;
            self.put_marks(project, held.row, now)?;
        }
        if before.depends_on != now.depends_on {
            self.execute("DELETE FROM dependency WHERE issue = ?1", [held.row])?;
            self.put_dependencies(project, held.row, now)?;
        }
        if before.title != now.title || before.description != now.description {
            self.execute(
                "UPDATE issue SET title = ?2, description = ?3 WHERE id = ?1",
                params![held.row, now.title.as_str(), now.description.as_str()],
            )?;
            self.unindex_issue(held.row)?;
            self.index_issue(held.row, now)?;
        }
        if moved && !now.kind.is_leaf() {
            // The files of everything below stand in another directory now.
            for child in self.reader().child_ids(&now.project, &now.id)? {
                self.dirty(&Owner::Issue(now.project.clone(), child))?;
            }
        }
        Ok(())
    }

    /// The rowid of an issue that must be there.
    pub(super) fn row_of(&self, project: i64, id: &IssueId) -> Write<i64> {
        let found = self.find_number(
            "SELECT id FROM issue WHERE project = ?1 AND prefix = ?2 AND number = ?3",
            params![project, id.prefix(), id.number()],
        )?;
        Ok(found.ok_or_else(|| unknown("parent of an issue"))?)
    }

    /// Counts an issue in or out, of its parent and of its project.
    pub(super) fn count(
        &self,
        project: i64,
        parent: Option<i64>,
        issue: &Issue,
        step: Step,
    ) -> Write<()> {
        if self.loading {
            return Ok(());
        }
        let by = match step {
            Step::Up => 1,
            Step::Down => -1,
        };
        for of in [Some(-project), parent].into_iter().flatten() {
            self.execute(
                "INSERT INTO tally (parent, kind, state, n) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (parent, kind, state) DO UPDATE SET n = n + excluded.n",
                params![of, kind_place(issue.kind), state_place(issue.state), by],
            )?;
        }
        Ok(())
    }

    fn put_marks(&self, project: i64, row: i64, issue: &Issue) -> Write<()> {
        for (what, text) in marks(issue) {
            self.execute(
                "INSERT OR IGNORE INTO mark VALUES (?1, ?2, ?3, ?4)",
                params![project, what, text, row],
            )?;
        }
        Ok(())
    }

    pub(super) fn remove_marks(&self, project: i64, row: i64, issue: &Issue) -> Write<()> {
        for (what, text) in marks(issue) {
            self.execute(
                "DELETE FROM mark WHERE project = ?1 AND what = ?2 AND text = ?3 AND issue = ?4",
                params![project, what, text, row],
            )?;
        }
        Ok(())
    }

    fn put_dependencies(&self, project: i64, row: i64, issue: &Issue) -> Write<()> {
        for on in &issue.depends_on {
            self.execute(
                "INSERT OR IGNORE INTO dependency (issue, prefix, number, project) VALUES (?1, ?2, ?3, ?4)",
                params![row, on.prefix(), on.number(), project],
            )?;
        }
        Ok(())
    }
}

fn marks(issue: &Issue) -> impl Iterator<Item = (i64, &str)> {
    let assignees = issue.assignees.iter().map(|agent| (0, agent.as_str()));
    assignees.chain(issue.labels.iter().map(|label| (1, label.as_str())))
}
