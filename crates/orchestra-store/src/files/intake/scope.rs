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
    /// Returns whether all files of an issue, or the file of a project, have only just vanished. Git removes them while it
    /// changes other files, and what it changes belongs together. So everything waits until the removal is certain.
    pub(super) fn is_vanishing(
        &mut self,
        units: &BTreeMap<String, Unit>,
    ) -> Result<bool, FilesError> {
        let mut vanishing = false;
        for unit in units.values() {
            // An editor that replaces one file of an issue delays nothing else.
            let least = match unit {
                Unit::Issue(_) => 2,
                Unit::File(Place::Project(_)) => 1,
                Unit::File(_) => continue,
            };
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
            vanishing |= gone && known >= least && !sure;
        }
        Ok(vanishing)
    }

    /// Returns the parents and projects of these whose files were changed or removed as well. Git changes them together,
    /// and they are not always reported together. An issue that is deleted before its project would change the project,
    /// which would then stay.
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
                let is_changed = match stat {
                    Some(stat) => seen.is_none_or(|seen| !seen.fits(&stat)),
                    None => self.removes && file == path && seen.is_some(),
                };
                if is_changed {
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
