//! Merge of a few published changes into a board that has changed little since its last exchange. Files of issues that
//! either side has changed are parsed. All other issues are the same on both sides, and are those of the board.
//!
//! Everything out of the ordinary (removed, moved or renumbered issues, other records than issues, and all that a parser
//! or the board refuses) is left to the merge of whole boards.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orchestra_board::{Issue, IssueId, Project, Slug, Uid};

use super::{
    BoardChanges, BoardFiles, ExchangeError, LastExchange, cycles, merged, portable, read, since,
};
use crate::ActionError;
use crate::files::Board;
use crate::files::identity::holder;
use crate::files::needs::Job;
use crate::files::owner::Owner;
use crate::files::place::{Part, Place};
use crate::merge::{BoardContents, IssueContents, ProjectContents};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::toon::IssuePlace;
use crate::toon::project::Retired;

/// Paths of the files that are needed to parse changed ones, with their own; `None` where whole boards have to be merged.
#[must_use]
pub fn files_to_parse(changed: &[String]) -> Option<BTreeSet<String>> {
    let mut paths = BTreeSet::new();
    for path in changed {
        let slug = match Place::parse(path)? {
            Place::Project(slug) => slug,
            Place::Issue(place, _) => {
                for part in [Part::Fields, Part::Description, Part::History] {
                    paths.insert(Place::Issue(place.clone(), part).path());
                }
                for above in above(&place) {
                    paths.insert(Place::Issue(above, Part::Fields).path());
                }
                place.project
            }
            _ => return None,
        };
        paths.insert(Place::Prd(slug.clone()).path());
        paths.insert(Place::Project(slug).path());
    }
    Some(paths)
}

/// Places of the epic and the story that an issue is in.
fn above(place: &IssuePlace) -> Vec<IssuePlace> {
    let project = &place.project;
    let epic = place.epic.as_ref().map(|epic| IssuePlace {
        project: project.clone(),
        id: epic.clone(),
        epic: None,
        story: None,
    });
    let story = place.story.as_ref().map(|story| IssuePlace {
        project: project.clone(),
        id: story.clone(),
        epic: place.epic.clone(),
        story: None,
    });
    epic.into_iter().chain(story).collect()
}

/// Merges published changes. `published`, and `base` with the state of the last exchange, have the files of
/// [`files_to_parse`] for the paths in `changed`, which either side has changed. Returns whether it did: otherwise the
/// board is as it was, and whole boards have to be merged.
pub(crate) fn exchange_changes(
    shared: &Shared,
    changed: &[String],
    (published, base): (&BoardFiles, &BoardFiles),
    last: &LastExchange,
    origin: &str,
) -> Result<bool, ExchangeError> {
    let now = shared.options.clock.now();
    let parsed = |files| read::contents(files, now);
    let (published, base) = match (parsed(published), parsed(base)) {
        (Ok(published), Ok(base)) => (published, base),
        (Err(ExchangeError::Fault(fault)), _) | (_, Err(ExchangeError::Fault(fault))) => {
            return Err(fault.into());
        }
        (Err(_), _) | (_, Err(_)) => return Ok(false),
    };
    let ids = issues_of(changed);
    let is_done = Arc::new(AtomicBool::new(false));
    let (done, last, origin) = (Arc::clone(&is_done), last.clone(), origin.to_owned());
    let written = Board::write(
        shared,
        Job::synced(move |work| {
            let changes = since(&Reader::new(work.connection()), &last)?;
            // Another program can have changed an issue meanwhile.
            let is_known =
                |changes: BoardChanges| changes.owners().all(|owner| is_known(&ids, owner));
            if !changes.is_some_and(is_known) {
                return Ok(());
            }
            let reader = Reader::new(work.connection());
            let Some(before) = reader.contents_of(&ids)? else {
                return Ok(());
            };
            let states = (
                patched(&before, &published, &ids),
                patched(&before, &base, &ids),
            );
            let (Some(published), Some(base)) = states else {
                return Ok(());
            };
            if !are_free(&reader, &before, &published)? || are_circular(&reader, &published)? {
                return Ok(());
            }
            let local = without_retired(&before);
            let mut merged = merged(&published, &local, Some(&base), &origin, now);
            if !are_kept(&before, &merged) {
                return Ok(());
            }
            for (slug, project) in &mut merged.projects {
                if let Some(before) = before.projects.get(slug) {
                    project.retired.clone_from(&before.retired);
                }
            }
            work.adopt(&before, &merged)?;
            done.store(true, Ordering::Relaxed);
            Ok(())
        }),
    );
    match written {
        Ok(()) => Ok(is_done.load(Ordering::Relaxed)),
        Err(ActionError::Fault(fault)) => Err(fault.into()),
        Err(_) => Ok(false),
    }
}

type Ids = BTreeMap<Slug, BTreeSet<IssueId>>;

/// Issues of changed files, by their projects.
fn issues_of(changed: &[String]) -> Ids {
    let mut ids = Ids::new();
    for path in changed {
        match Place::parse(path) {
            Some(Place::Project(slug)) => drop(ids.entry(slug).or_default()),
            Some(Place::Issue(place, _)) => {
                ids.entry(place.project).or_default().insert(place.id);
            }
            _ => {}
        }
    }
    ids
}

/// Returns whether the files of an owner were parsed, as far as boards exchange them.
fn is_known(ids: &Ids, owner: &Owner) -> bool {
    match owner {
        Owner::Issue(slug, id) => ids.get(slug).is_some_and(|known| known.contains(id)),
        Owner::Project(slug) => ids.contains_key(slug),
        _ => true,
    }
}

/// The changed issues of a board as parsed files have them.
fn patched(before: &BoardContents, parsed: &BoardContents, ids: &Ids) -> Option<BoardContents> {
    let mut board = portable(before);
    for (slug, ids) in ids {
        let (project, new) = (board.projects.get_mut(slug)?, parsed.projects.get(slug)?);
        if !is_same(&project.project, &new.project) || project.retired != new.retired {
            return None;
        }
        let mut issues = project.issues.values().chain(new.issues.values());
        if issues.any(|contents| names_retired(&project.retired, &contents.issue)) {
            return None;
        }
        for id in ids {
            let Some(contents) = new.issues.get(id) else {
                project.issues.remove(id);
                continue;
            };
            if !is_ordinary(project, id, contents) {
                return None;
            }
            let mut contents = contents.clone();
            if !contents.issue.kind.is_leaf() {
                // It follows from its children, of which a parser of a few files knows a part.
                let known = project.issues.get(id).map(|known| known.issue.state);
                contents.issue.state = known.unwrap_or(contents.issue.state);
            }
            project.issues.insert(id.clone(), contents);
        }
        project.project.clone_from(&new.project);
        project.project = project.counted();
    }
    Some(without_retired(&board))
}

/// The content without ids of deleted and renumbered issues. Both sides have the same ones. No changed issue has or names
/// one of these.
fn without_retired(contents: &BoardContents) -> BoardContents {
    let mut contents = contents.clone();
    for project in contents.projects.values_mut() {
        project.retired = Retired::default();
    }
    contents
}

/// Returns whether new issues have uids that no other issue of the board has.
fn are_free(
    reader: &Reader<'_>,
    before: &BoardContents,
    published: &BoardContents,
) -> Result<bool, ActionError> {
    let mut uids: HashSet<Uid> = HashSet::new();
    for (slug, project) in &published.projects {
        for (id, contents) in &project.issues {
            let uid = contents.uid();
            let known = before.projects.get(slug);
            let is_new = known.is_none_or(|known| !known.issues.contains_key(id));
            if !uids.insert(uid) || is_new && holder(reader.connection(), uid)?.is_some() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns whether dependencies of a project are circular with those of changed issues. All dependencies of the result are
/// among these.
fn are_circular(reader: &Reader<'_>, changed: &BoardContents) -> Result<bool, ActionError> {
    for (slug, project) in &changed.projects {
        let mut all = reader.dependencies(slug)?;
        for (id, on) in cycles::of(project) {
            all.entry(id).or_default().extend(on);
        }
        if cycles::closing(&all).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether each issue is still there with its id and type. Otherwise more than the changed issues changes.
fn are_kept(before: &BoardContents, merged: &BoardContents) -> bool {
    before.projects.iter().all(|(slug, project)| {
        let merged = merged.projects.get(slug);
        project.issues.iter().all(|(id, old)| {
            let new = merged.and_then(|merged| merged.issues.get(id));
            new.is_some_and(|new| new.uid() == old.uid() && new.issue.kind == old.issue.kind)
        })
    })
}

/// Returns whether two versions of a project differ at most in what follows from its issues.
fn is_same(one: &Project, other: &Project) -> bool {
    let counted = Project {
        next_issue: other.next_issue,
        next_bug: other.next_bug,
        next_request: other.next_request,
        updated_at: other.updated_at,
        ..one.clone()
    };
    counted == *other
}

/// Returns whether a field of an issue names a deleted or renumbered issue.
fn names_retired(retired: &Retired, issue: &Issue) -> bool {
    let deleted = retired.deleted.iter().map(|stone| &stone.id);
    let mut ids = deleted.chain(retired.aliases.iter().map(|(old, _)| old));
    ids.any(|id| {
        let other = [&issue.parent, &issue.fixes, &issue.cancelled_with];
        issue.depends_on.contains(id) || other.contains(&&Some(id.clone()))
    })
}

/// Returns whether an issue is the same one in the same place, or is new and has an id that no issue had.
fn is_ordinary(project: &ProjectContents, id: &IssueId, contents: &IssueContents) -> bool {
    let uid = contents.uid();
    let (aliases, stones) = (&project.retired.aliases, &project.retired.deleted);
    match project.issues.get(id) {
        Some(known) => {
            known.uid() == uid
                && known.issue.kind == contents.issue.kind
                && known.issue.parent == contents.issue.parent
        }
        None => {
            aliases.iter().all(|(old, _)| old != id)
                && stones
                    .iter()
                    .all(|stone| stone.id != *id && stone.uid != uid)
        }
    }
}
