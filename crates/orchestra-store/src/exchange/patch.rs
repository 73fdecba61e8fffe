//! Merge of a few published changes into a board that has not changed since its last exchange. Their files are parsed, and
//! the rest of what is published is the content of the board.
//!
//! Everything out of the ordinary (removed, moved or renumbered issues, other records than issues, and all that a parser
//! or the board refuses) is left to the merge of whole boards.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orchestra_board::{IssueId, Project, Slug, Uid};

use super::{BoardFiles, ExchangeError, LastExchange, cycles, merged, portable, read, since};
use crate::ActionError;
use crate::files::Board;
use crate::files::place::{Part, Place};
use crate::merge::{BoardContents, IssueContents, ProjectContents};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::toon::IssuePlace;

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

/// Merges published changes. `published` has the files of [`files_to_parse`]. Returns whether it did: otherwise the board
/// is as it was, and whole boards have to be merged.
pub(crate) fn exchange_changes(
    shared: &Shared,
    changed: &[String],
    published: &BoardFiles,
    last: &LastExchange,
    origin: &str,
) -> Result<bool, ExchangeError> {
    let now = shared.options.clock.now();
    let published = match read::contents(published, now) {
        Ok(published) => published,
        Err(ExchangeError::Fault(fault)) => return Err(fault.into()),
        Err(_) => return Ok(false),
    };
    let ids = issues_of(changed);
    let is_done = Arc::new(AtomicBool::new(false));
    let (done, last, origin) = (Arc::clone(&is_done), last.clone(), origin.to_owned());
    let written = Board::write(
        shared,
        Box::new(move |work| {
            let changes = since(&Reader::new(work.connection()), &last)?;
            if !changes.is_some_and(|changes| changes.is_empty()) {
                return Ok(());
            }
            let before = Reader::new(work.connection()).contents()?;
            let Some(published) = patched(&before, &published, &ids) else {
                return Ok(());
            };
            let base = portable(&before);
            let merged = merged(&published, &before, Some(&base), &origin, now);
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

/// The published board: what clones exchange of this one, with the changed issues.
fn patched(before: &BoardContents, published: &BoardContents, ids: &Ids) -> Option<BoardContents> {
    let mut board = portable(before);
    for (slug, ids) in ids {
        let (project, new) = (board.projects.get_mut(slug)?, published.projects.get(slug)?);
        if !is_same(&project.project, &new.project) || project.retired != new.retired {
            return None;
        }
        for id in ids {
            let contents = new.issues.get(id)?;
            if !is_ordinary(project, id, contents) {
                return None;
            }
            project.issues.insert(id.clone(), contents.clone());
        }
        project.project.clone_from(&new.project);
        project.project = project.counted();
        if cycles::closing(project).is_some() {
            return None;
        }
    }
    let mut uids: HashSet<Uid> = HashSet::new();
    let issues = board
        .projects
        .values()
        .flat_map(|project| project.issues.values());
    let are_unique = issues.map(IssueContents::uid).all(|uid| uids.insert(uid));
    are_unique.then_some(board)
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

/// Returns whether an issue is the same one in the same place, or is new and has an id that no issue had.
fn is_ordinary(project: &ProjectContents, id: &IssueId, contents: &IssueContents) -> bool {
    let uid = contents.uid();
    match project.issues.get(id) {
        Some(known) => {
            known.uid() == uid
                && known.issue.kind == contents.issue.kind
                && known.issue.parent == contents.issue.parent
        }
        None => {
            let (aliases, stones) = (&project.retired.aliases, &project.retired.deleted);
            aliases.iter().all(|(old, _)| old != id)
                && stones
                    .iter()
                    .all(|stone| stone.id != *id && stone.uid != uid)
        }
    }
}
