//! What must be looked at together with what was changed, and whether it is time to.

use std::collections::{BTreeMap, HashSet};

use super::Unit;
use super::course::above;
use crate::files::engine::Engine;
use crate::files::identity::UID_FIELD;
use crate::files::ledger;
use crate::files::place::{Part, Place};
use crate::files::{FilesError, render};
use crate::toon::IssuePlace;

impl Engine {
    /// Whether all files of an issue have only just vanished. Git does that while it changes others,
    /// and what it changes belongs together; so the others wait for that to be sure.
    pub(super) fn is_vanishing(
        &mut self,
        units: &BTreeMap<String, Unit>,
    ) -> Result<bool, FilesError> {
        let mut vanishing = false;
        for unit in units.values().filter(|unit| matches!(unit, Unit::Issue(_))) {
            let (mut known, mut gone, mut sure) = (0, true, true);
            for path in unit.paths() {
                if self.stat(&path).is_ok_and(|stat| stat.is_none()) {
                    let entry = self.read(|reader| ledger::at(reader.connection(), &path))?;
                    if entry.is_some_and(|entry| entry.seen.is_some()) {
                        known += 1;
                        sure &= self.is_gone(&path);
                    }
                } else {
                    gone = false;
                    break;
                }
            }
            vanishing |= gone && known > 1 && !sure;
        }
        Ok(vanishing)
    }

    /// The files of what these stand in, where they were changed as well: git changes them
    /// together, and they are not always told of together.
    pub(super) fn changed_with(
        &mut self,
        units: &BTreeMap<String, Unit>,
    ) -> Result<BTreeMap<String, Unit>, FilesError> {
        let mut with = BTreeMap::new();
        for unit in units.values() {
            if let Unit::Issue(place) = unit {
                let parents = above(place).into_iter().map(Unit::Issue);
                with.extend(parents.map(|unit| (unit.first_path(), unit)));
            }
            let owner = unit.owner();
            let project = owner.project().cloned();
            let project = project.map(|slug| Unit::File(Place::Project(slug)));
            with.extend(project.map(|unit| (unit.first_path(), unit)));
        }
        with.retain(|path, _| !units.contains_key(path));
        let mut changed = BTreeMap::new();
        for (path, unit) in with {
            for file in unit.paths() {
                let known = self.read(|reader| ledger::at(reader.connection(), &file))?;
                let stat = self.stat(&file).unwrap_or_default();
                let seen = known.and_then(|entry| entry.seen);
                // What is gone is told of by itself.
                if stat.is_some_and(|stat| seen.is_none_or(|seen| !seen.fits(&stat))) {
                    changed.insert(path, unit);
                    break;
                }
            }
        }
        Ok(changed)
    }

    /// The files that were refused as another issue's, where the project's file was changed: it lists
    /// the issues that were deleted.
    pub(super) fn refused_with(
        &self,
        units: &BTreeMap<String, Unit>,
    ) -> Result<BTreeMap<String, Unit>, FilesError> {
        let projects = units.values().filter_map(|unit| match unit {
            Unit::File(Place::Project(_)) => Some(unit.directory()),
            _ => None,
        });
        let projects: Vec<String> = projects.collect();
        if projects.is_empty() {
            return Ok(BTreeMap::new());
        }
        let problems = self.read(|reader| ledger::problems(reader.connection()))?;
        let refused = problems.into_iter().filter(|(path, field, _)| {
            field == UID_FIELD && projects.iter().any(|project| path.starts_with(project))
        });
        let refused = refused.filter_map(|(path, ..)| Unit::of(&path));
        Ok(refused.map(|unit| (unit.first_path(), unit)).collect())
    }

    /// What must be looked at together with these: a story that has come along with its tasks, and
    /// tasks that were refused for want of their story.
    pub(super) fn around(
        &self,
        units: &BTreeMap<String, Unit>,
    ) -> Result<BTreeMap<String, Unit>, FilesError> {
        let (mut around, mut parents, mut asked) =
            (BTreeMap::new(), HashSet::new(), HashSet::new());
        self.read(|reader| {
            for unit in units.values() {
                let Unit::Issue(place) = unit else { continue };
                let (Some(epic), Some(story)) = (&place.epic, &place.story) else {
                    parents.insert(unit.directory());
                    continue;
                };
                let above = IssuePlace {
                    project: place.project.clone(),
                    id: story.clone(),
                    epic: Some(epic.clone()),
                    story: None,
                };
                let path = Place::Issue(above.clone(), Part::Fields).path();
                if units.contains_key(&path) || !asked.insert(path.clone()) {
                    continue;
                }
                let there = render::issue(reader, &place.project, story)?;
                if there.is_none_or(|there| render::place_of(&there) != above) {
                    around.insert(path, Unit::Issue(above));
                }
            }
            if parents.is_empty() {
                return Ok(());
            }
            for (path, ..) in ledger::problems(reader.connection())? {
                let ends = path.match_indices('/').map(|(at, _)| at);
                let is_below = ends.into_iter().any(|at| parents.contains(&path[..=at]));
                let refused = Unit::of(&path).filter(|_| is_below);
                around.extend(refused.map(|unit| (unit.first_path(), unit)));
            }
            Ok(())
        })?;
        Ok(around)
    }
}
