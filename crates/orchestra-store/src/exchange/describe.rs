//! Differences between the files of two boards, in words.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use orchestra_board::{Change, Edit, Event, IssueId, Title};

use super::BoardFiles;
use crate::files::place::{Part, Place};
use crate::merge::CONFLICT;
use crate::toon::{Document, IssuePlace, history};

/// Describes the changes from one board to another, one line each.
#[must_use]
pub fn changes_between(before: &BoardFiles, after: &BoardFiles) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = BTreeSet::new();
    // Issues with a line of their own, and those whose other files differ.
    let (mut described, mut touched) = (HashSet::new(), HashMap::new());
    let changed = after.since(before);
    let known = known_events(before, &changed);
    for (path, content) in &changed {
        let Some(place) = Place::parse(path) else {
            continue;
        };
        let is_gone = content.is_none();
        match place {
            Place::Issue(place, Part::History) => {
                let key = (place.project.clone(), place.id.clone());
                let text = String::from_utf8_lossy(content.as_deref().unwrap_or_default());
                let event = |line: &str| history::read_line(line, &place.project, &place.id).ok();
                let is_new = |line: &&str| !known.contains_key(*line);
                let events: Vec<Event> = text.lines().filter(is_new).filter_map(event).collect();
                let earlier = text.lines().find_map(|line| known.get(line));
                let renumbered = earlier.filter(|earlier| **earlier != place.id);
                if let Some(earlier) = renumbered {
                    let named = text.lines().rev().filter_map(event).find_map(title);
                    let named = named.map_or_else(String::new, |title| format!(": {title}"));
                    lines.push(format!("{earlier} is now {}{named}", place.id));
                }
                if renumbered.is_some() || !events.is_empty() {
                    described.insert(key);
                }
                lines.extend(events.iter().filter_map(|event| {
                    let is_lost = has_lost_title(event, &events);
                    let current = is_lost.then(|| title_in(after, &place)).flatten();
                    line(&place.id, event, current)
                }));
            }
            Place::Issue(place, Part::Fields | Part::Description) => {
                let key = (place.project.clone(), place.id.clone());
                let is_moved = touched
                    .get(&key)
                    .is_some_and(|was_gone| *was_gone != is_gone);
                touched.insert(key, is_gone && !is_moved);
                let had_conflict = before
                    .files()
                    .get(path)
                    .is_some_and(|file| has_conflict(file));
                if !had_conflict && content.as_deref().is_some_and(has_conflict) {
                    lines.push(format!(
                        "{} has a conflict: both sides changed it, and a comment has the other value",
                        place.id
                    ));
                }
            }
            place => drop(rest.insert(other(&place, before.files().contains_key(path), is_gone))),
        }
    }
    let undescribed = touched
        .into_iter()
        .filter(|(key, _)| !described.contains(key));
    let undescribed: BTreeSet<String> = undescribed
        .map(|((_, id), is_gone)| match is_gone {
            true => format!("{id} deleted"),
            false => format!("{id} changed"),
        })
        .collect();
    lines.extend(undescribed);
    lines.extend(rest.into_iter().flatten());
    lines
}

/// Lines of the earlier histories of changed issues, each with the id of its issue: an issue can get another id.
fn known_events(
    before: &BoardFiles,
    changed: &BTreeMap<String, Option<Vec<u8>>>,
) -> HashMap<String, IssueId> {
    let histories = changed.keys().filter_map(|path| match Place::parse(path)? {
        Place::Issue(place, Part::History) => Some((place.id, before.files().get(path)?)),
        _ => None,
    });
    let mut known = HashMap::new();
    for (id, bytes) in histories {
        let text = String::from_utf8_lossy(bytes);
        known.extend(text.lines().map(|line| (line.to_owned(), id.clone())));
    }
    known
}

/// Returns whether the file with the fields of an issue has the label [`CONFLICT`].
fn has_conflict(file: &[u8]) -> bool {
    let text = String::from_utf8_lossy(file);
    let labels = text.lines().find_map(|line| line.strip_prefix("labels["));
    let values = labels.and_then(|line| line.split_once(':'));
    values.is_some_and(|(_, values)| values.split(',').any(|label| label.trim() == CONFLICT))
}

/// The first line of a text, shortened.
fn first_line(text: &str) -> String {
    let line = text.trim().lines().next();
    history::shortened(line.unwrap_or_default())
}

/// Returns the title that an event gives to its issue.
fn title(event: Event) -> Option<Title> {
    match event.change {
        Change::IssueCreated(issue) => Some(issue.title),
        Change::Edited(Edit::Title(title)) => Some(title),
        _ => None,
    }
}

/// Returns whether an event gives its issue a title that a merge moved to a comment, which is one of these events.
fn has_lost_title(event: &Event, events: &[Event]) -> bool {
    let Change::Edited(Edit::Title(title)) = &event.change else {
        return false;
    };
    let end = format!(": {title}");
    events.iter().any(|event| match &event.change {
        Change::Commented { text } => {
            text.as_str().starts_with("title on ") && text.as_str().ends_with(&end)
        }
        _ => false,
    })
}

/// Title of an issue in the files of a board.
fn title_in(files: &BoardFiles, place: &IssuePlace) -> Option<String> {
    let path = Place::Issue(place.clone(), Part::Fields).path();
    let text = String::from_utf8_lossy(files.files().get(&path)?);
    Document::parse(&path, &text).ok()?.text("title").ok()
}

/// Describes an event of an issue. `current` is the title of the issue, where a comment has that of the event. Returns
/// `None` for claims, which do not leave their clone.
fn line(id: &IssueId, event: &Event, current: Option<String>) -> Option<String> {
    let text = match &event.change {
        Change::IssueCreated(issue) => format!("created: {}", issue.title),
        Change::Edited(Edit::Title(title)) => match current {
            Some(current) if current != title.as_str() => {
                format!("title: {current}; a comment has the other value: {title}")
            }
            _ => format!("title: {title}"),
        },
        Change::Edited(edit) => format!("{} changed", edit.field()),
        Change::Moved { to } => format!("moved to {to}"),
        Change::StateChanged { from, to, .. } => format!("{from} → {to}"),
        Change::OwnStateChanged { own } => format!("→ {}", own.as_state()),
        Change::Claimed { .. } | Change::Released { .. } => return None,
        Change::DependencyAdded { on } => format!("waits for {on}"),
        Change::DependencyRemoved { on } => format!("no longer waits for {on}"),
        Change::Commented { text } => format!("comment: {}", first_line(text.as_str())),
        _ => "changed".to_owned(),
    };
    Some(match &event.agent {
        Some(agent) => format!("{id} {text} ({agent})"),
        None => format!("{id} {text}"),
    })
}

/// Describes a change of a file that is no issue's. Counters of a project change with its issues, and are no change of
/// their own.
fn other(place: &Place, was_there: bool, is_gone: bool) -> Option<String> {
    let verb = match (was_there, is_gone) {
        (_, true) => "deleted",
        (true, false) => "changed",
        (false, false) => "created",
    };
    let what = match place {
        Place::Project(_) if verb == "changed" => return None,
        Place::Project(slug) => format!("project {slug}"),
        Place::Prd(slug) => format!("{slug}: PRD"),
        Place::PrdSession(slug) => format!("{slug}: PRD questionnaire"),
        Place::Requests(slug) => format!("{slug}: requests"),
        Place::Readme(slug) => format!("{slug}: README.md"),
        Place::Plan(slug, plan) => format!("{slug}: plan {plan}"),
        Place::Chunks(slug, _) => format!("{slug}: memory"),
        Place::Session(slug, session) => format!("{slug}: session {session}"),
        Place::Document(path) => format!("document {path}"),
        Place::Issue(..) | Place::SessionIndex(_) | Place::HookEvents | Place::Usage => {
            return None;
        }
    };
    Some(format!("{what} {verb}"))
}

#[cfg(test)]
mod tests {
    use super::first_line;

    #[test]
    fn comment_is_shown_by_its_first_line_which_is_shortened() {
        assert_eq!(first_line("\n A \n\nB"), "A ");
        let long = first_line(&format!("{} b\nc", "é".repeat(300)));
        assert_eq!(long, format!("{}…", "é".repeat(199)));
    }
}
