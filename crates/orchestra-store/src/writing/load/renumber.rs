//! An issue's other id.

use orchestra_board::{IssueId, Slug};
use rusqlite::params;

use crate::exchange::EVERYTHING;
use crate::files::owner::Owner;
use crate::reader::{first_row, last_row};
use crate::writing::{Write, Writing};

impl Writing<'_> {
    /// Moves an issue's rows to another id, and leaves an alias.
    pub(super) fn renumber(&mut self, project: &Slug, old: &IssueId, new: &IssueId) -> Write<()> {
        let id = self.reader().project_id(project)?;
        let row = self.row_of(id, old)?;
        let (first, last) = (first_row(id), last_row(id));
        self.execute(
            "UPDATE issue SET prefix = ?2, number = ?3 WHERE id = ?1",
            params![row, new.prefix(), new.number()],
        )?;
        for column in ["cancelled_with", "fixes"] {
            self.execute(
                &format!(
                    "UPDATE issue SET {column} = ?1 WHERE id BETWEEN ?2 AND ?3 AND {column} = ?4"
                ),
                params![new.to_string(), first, last, old.to_string()],
            )?;
        }
        self.execute(
            "UPDATE dependency SET prefix = ?4, number = ?5 WHERE project = ?1 AND prefix = ?2 AND number = ?3",
            params![id, old.prefix(), old.number(), new.prefix(), new.number()],
        )?;
        self.execute(
            "INSERT OR REPLACE INTO alias (project, prefix, number, issue) VALUES (?1, ?2, ?3, ?4)",
            params![id, old.prefix(), old.number(), row],
        )?;
        self.execute(
            "UPDATE OR REPLACE usage_of SET issue = ?1 WHERE project = ?2 AND issue = ?3",
            params![new.to_string(), project.as_str(), old.to_string()],
        )?;
        for owner in [
            Owner::Usage,
            Owner::Issue(project.clone(), old.clone()),
            Owner::Issue(project.clone(), new.clone()),
            Owner::Project(project.clone()),
        ] {
            self.dirty(&owner)?;
        }
        // Issues that name it have changed as well.
        let change = self.change_number()?;
        self.execute(
            "INSERT OR REPLACE INTO changed (owner, seq) VALUES (?1, ?2)",
            params![EVERYTHING, change],
        )?;
        Ok(())
    }
}
