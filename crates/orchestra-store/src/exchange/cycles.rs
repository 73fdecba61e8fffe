//! Circular dependencies, which two sides can form together.

use std::collections::{BTreeMap, HashMap};

use orchestra_board::{Change, Event, IssueId, Source, Uid};

use crate::merge::ProjectContents;

/// State of an issue during the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    Open,
    Done,
}

/// Removes dependencies until none is circular. The history of the issue records each of them.
pub(super) fn remove(project: &mut ProjectContents) {
    while let Some((from, on)) = closing(&of(project)) {
        let slug = project.project.slug.clone();
        let Some(contents) = project.issues.get_mut(&from) else {
            return;
        };
        contents.issue.depends_on.retain(|other| *other != on);
        let issue = contents.uid().to_string();
        let uid = Uid::derived(["merge", &issue, "circular", &on.to_string()]);
        if contents.events.iter().any(|event| event.uid == Some(uid)) {
            continue;
        }
        let last = contents.events.last().map(|event| event.at);
        contents.events.push(Event {
            at: last.unwrap_or(contents.issue.created_at),
            project: Some(slug),
            issue: Some(from),
            agent: None,
            source: Source::Import,
            change: Change::DependencyRemoved { on },
            uid: Some(uid),
        });
    }
}

/// Issues that each issue of a project waits for.
pub(super) fn of(project: &ProjectContents) -> BTreeMap<IssueId, Vec<IssueId>> {
    project
        .issues
        .iter()
        .filter(|(_, contents)| !contents.issue.depends_on.is_empty())
        .map(|(id, contents)| (id.clone(), contents.issue.depends_on.clone()))
        .collect()
}

/// Finds a dependency that closes a circle: always the same one for the same content.
pub(super) fn closing(
    dependencies: &BTreeMap<IssueId, Vec<IssueId>>,
) -> Option<(IssueId, IssueId)> {
    let mut visits: HashMap<&IssueId, Visit> = HashMap::new();
    for start in dependencies.keys() {
        if visits.contains_key(start) {
            continue;
        }
        visits.insert(start, Visit::Open);
        let mut path: Vec<(&IssueId, std::slice::Iter<'_, IssueId>)> =
            vec![(start, dependencies[start].iter())];
        while let Some((from, rest)) = path.last_mut() {
            let from = *from;
            let Some(on) = rest.next() else {
                visits.insert(from, Visit::Done);
                path.pop();
                continue;
            };
            match visits.get(on) {
                Some(Visit::Open) => return Some((from.clone(), on.clone())),
                Some(Visit::Done) => {}
                None => {
                    if let Some(next) = dependencies.get(on) {
                        visits.insert(on, Visit::Open);
                        path.push((on, next.iter()));
                    }
                }
            }
        }
    }
    None
}
