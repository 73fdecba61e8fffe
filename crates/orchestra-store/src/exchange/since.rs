//! Files of a board that changed since its last exchange, without those that did not.
//!
//! The table `changed` has a row for each owner of files that changed, with the number of the change. Triggers fill it from
//! the table of the readable files that are out of date, see `files/needs.rs`.

use std::collections::{BTreeMap, HashSet};

use orchestra_board::{IssueId, Slug};
use rusqlite::params;

use super::{BoardFiles, BoardVersion, LastExchange, render, version};
use crate::ReadError;
use crate::files::owner::Owner;
use crate::files::place::Place;
use crate::files::render::all;
use crate::merge::counted;
use crate::reader::Reader;
use crate::rows::{Read, id_of};
use crate::toon::project::MAX_NUMBER;

/// Owner of a row for a change of any number of files.
pub(crate) const EVERYTHING: &str = "*";

/// Changes of a board since an exchange.
#[derive(Debug, Clone)]
pub struct BoardChanges {
    owners: HashSet<Owner>,
    files: BoardFiles,
    version: BoardVersion,
}

impl BoardChanges {
    /// Returns whether the file with a path can differ from that of the last exchange.
    #[must_use]
    pub fn concerns(&self, path: &str) -> bool {
        !self.owners.is_empty()
            && Place::parse(path).is_some_and(|place| self.owners.contains(&Owner::of(&place)))
    }

    /// Owners of the files that can differ.
    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.owners.iter()
    }

    /// Returns whether no file differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.files().is_empty()
    }

    /// The files that can differ, as they are now.
    #[must_use]
    pub const fn files(&self) -> &BoardFiles {
        &self.files
    }

    /// The version that they are of.
    #[must_use]
    pub const fn version(&self) -> BoardVersion {
        self.version
    }
}

/// Renders the files that can differ from those of an exchange; `None` where all of the board has to be compared.
pub(crate) fn since(
    reader: &Reader<'_>,
    last: &LastExchange,
) -> Result<Option<BoardChanges>, ReadError> {
    let Some(owners) = owners(reader, last.version)? else {
        return Ok(None);
    };
    let mut files = BTreeMap::new();
    for owner in &owners {
        let is_rendered = match owner {
            Owner::Project(slug) => add_project(reader, &mut files, slug)?,
            Owner::Issue(slug, id) => add_issue(reader, &mut files, slug, id)?,
            // No file of an exchange contains them.
            Owner::Usage | Owner::HookEvents | Owner::Sessions(_) => true,
            _ => false,
        };
        if !is_rendered {
            return Ok(None);
        }
    }
    Ok(Some(BoardChanges {
        owners,
        files: BoardFiles::new(files),
        version: version(reader)?,
    }))
}

/// Owners of files that changed after a version; `None` if not all of them are known.
fn owners(reader: &Reader<'_>, after: BoardVersion) -> Read<Option<HashSet<Owner>>> {
    let sql = "SELECT owner FROM changed WHERE seq > ?1";
    let mut statement = reader.connection().prepare_cached(sql)?;
    let keys = statement.query_map([after.0], |row| row.get::<_, String>(0))?;
    let keys: Vec<String> = keys.collect::<Result<_, _>>()?;
    Ok(keys.iter().map(|key| Owner::parse(key)).collect())
}

/// Adds the file of a project. Returns whether the project is there.
fn add_project(
    reader: &Reader<'_>,
    files: &mut BTreeMap<String, Vec<u8>>,
    slug: &Slug,
) -> Read<bool> {
    let Some((id, project)) = reader.find_project(slug)? else {
        return Ok(false);
    };
    let retired = reader.retired(slug)?;
    let requests = all(|page| reader.requests(slug, page))?;
    let highest = highest_ids(reader, id)?;
    let project = counted(&project, highest.iter(), &retired, &requests);
    render::add_project_file(files, &project, &retired);
    Ok(true)
}

/// The issue with the highest number of each prefix, as far as numbers count.
fn highest_ids(reader: &Reader<'_>, project: i64) -> Read<Vec<IssueId>> {
    let sql =
        "SELECT prefix, max(number) FROM issue WHERE project = ?1 AND number <= ?2 GROUP BY prefix";
    let mut statement = reader.connection().prepare_cached(sql)?;
    let mut rows = statement.query(params![project, MAX_NUMBER])?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        let prefix: String = row.get(0)?;
        ids.extend(id_of(Some(&prefix), row.get(1)?)?);
    }
    Ok(ids)
}

/// Adds the files of an issue. Returns whether the issue is there: with a deleted one, others may be gone.
fn add_issue(
    reader: &Reader<'_>,
    files: &mut BTreeMap<String, Vec<u8>>,
    slug: &Slug,
    id: &IssueId,
) -> Read<bool> {
    let Some(row) = reader.find_row(slug, id)? else {
        return Ok(false);
    };
    let contents = reader.issue_with_history(slug, row)?;
    if contents.issue.id != *id {
        return Ok(false);
    }
    let story = contents.issue.parent.clone();
    let above = match &story {
        Some(parent) => reader.find_issue(slug, parent)?,
        None => None,
    };
    let epic = above.and_then(|found| found.record.issue.parent);
    render::add_issue(files, &contents, |_| epic.clone());
    Ok(true)
}
