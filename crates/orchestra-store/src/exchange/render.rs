//! Readable files of the content of a board.

use std::collections::BTreeMap;

use orchestra_board::{IssueId, Kind, Project};

use super::{ATTRIBUTES, BoardFiles};
use crate::document::front;
use crate::files::place::{Part, Place};
use crate::files::render::MAX_HISTORY_BYTES;
use crate::merge::{BoardContents, IssueContents, ProjectContents};
use crate::toon::project::{Retired, Shown};
use crate::toon::{self, IssuePlace, history, records};
use crate::{Chunk, uid};

/// Number of ids of remembered texts in one file. Such a file is smaller than the largest one that is read.
const IDS_IN_A_SEGMENT: u64 = 64;

/// Renders all files of a board, without claims.
pub(super) fn files(contents: &BoardContents) -> BoardFiles {
    let mut files = BTreeMap::new();
    for project in contents.projects.values() {
        add_project(&mut files, project);
        let parent_of = |id: &IssueId| project.issues.get(id)?.issue.parent.clone();
        for contents in project.issues.values() {
            add_issue(&mut files, contents, parent_of);
        }
        add_memory(&mut files, project);
    }
    for (path, body) in contents.documents.values() {
        files.insert(path.to_string(), front::write(body));
    }
    let (path, text) = ATTRIBUTES;
    files.insert(path.to_owned(), text.to_vec());
    BoardFiles::new(files)
}

type Files = BTreeMap<String, Vec<u8>>;

fn add(files: &mut Files, place: &Place, text: impl Into<Vec<u8>>) {
    files.insert(place.path(), text.into());
}

fn add_project(files: &mut Files, contents: &ProjectContents) {
    let slug = &contents.project.slug;
    add_project_file(files, &contents.counted(), &contents.retired);
    add(files, &Place::Prd(slug.clone()), contents.prd.as_str());
    if let Some(session) = &contents.questionnaire {
        let text = records::write_prd_session(session);
        add(files, &Place::PrdSession(slug.clone()), text);
    }
    if let Some(text) = &contents.readme {
        add(files, &Place::Readme(slug.clone()), text.as_str());
    }
    if !contents.requests.is_empty() {
        let text = records::write_requests(slug, &contents.requests);
        add(files, &Place::Requests(slug.clone()), text);
    }
    for (plan, text) in &contents.plans {
        let place = Place::Plan(slug.clone(), plan.id.clone());
        add(files, &place, toon::plan::write(plan, text));
    }
}

/// Renders the file of a project, whose counters follow from its ids.
pub(super) fn add_project_file(files: &mut Files, project: &Project, retired: &Retired) {
    // The tables for people follow from the issues, and would differ with each change of one.
    let text = toon::project::write(project, retired, &Shown::default());
    add(files, &Place::Project(project.slug.clone()), text);
}

/// Renders the files of an issue. `parent_of` returns the parent of an issue of the same project.
pub(super) fn add_issue(
    files: &mut Files,
    contents: &IssueContents,
    parent_of: impl Fn(&IssueId) -> Option<IssueId>,
) {
    let mut issue = contents.issue.clone();
    issue.claim = None;
    issue.uid = Some(contents.uid());
    let place = place_of(contents, parent_of);
    let epic = place.epic.as_ref().filter(|_| issue.kind.is_leaf());
    let text = toon::issue::write(&issue, epic);
    add(files, &Place::Issue(place.clone(), Part::Fields), text);
    if let Some(text) = toon::issue::write_description(&issue) {
        add(files, &Place::Issue(place.clone(), Part::Description), text);
    }
    let text = history_of(contents);
    if !text.is_empty() {
        add(files, &Place::Issue(place, Part::History), text);
    }
}

fn place_of(
    contents: &IssueContents,
    parent_of: impl Fn(&IssueId) -> Option<IssueId>,
) -> IssuePlace {
    let issue = &contents.issue;
    let (epic, story) = match issue.kind {
        Kind::Epic => (None, None),
        Kind::Story => (issue.parent.clone(), None),
        Kind::Task | Kind::Bug | Kind::Hotfix => (
            issue.parent.as_ref().and_then(parent_of),
            issue.parent.clone(),
        ),
    };
    IssuePlace {
        project: issue.project.clone(),
        id: issue.id.clone(),
        epic,
        story,
    }
}

/// The newest lines of a history by time, each with its uid, as many as a file may have.
fn history_of(contents: &IssueContents) -> String {
    let mut uids = uid::OfLines::new(contents.uid());
    let mut lines = Vec::with_capacity(contents.events.len());
    let mut events: Vec<_> = contents.events.iter().collect();
    orchestra_sort::sort_by_key(&mut events, |event| event.at);
    for event in events {
        let Some(line) = history::line(event) else {
            continue;
        };
        let derived = uids.next(&line);
        lines.push(match event.uid {
            Some(_) => line,
            None => history::with_uid(line, derived),
        });
    }
    let mut bytes = 0;
    let newest = lines.iter().rev().take_while(|line| {
        bytes += line.len() + 1;
        bytes <= MAX_HISTORY_BYTES
    });
    let first = lines.len() - newest.count();
    let mut text = String::with_capacity(bytes);
    for line in &lines[first..] {
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn add_memory(files: &mut Files, project: &ProjectContents) {
    let slug = &project.project.slug;
    let mut segments: BTreeMap<u64, Vec<Chunk>> = BTreeMap::new();
    for chunk in &project.chunks {
        let segment = chunk.id.number().saturating_sub(1) / IDS_IN_A_SEGMENT + 1;
        segments.entry(segment).or_default().push(chunk.clone());
    }
    for (segment, mut chunks) in segments {
        orchestra_sort::sort_by_key(&mut chunks, |chunk| chunk.id.number());
        let place = Place::Chunks(slug.clone(), segment);
        add(files, &place, records::write_chunks(slug, &chunks));
    }
    for session in project.sessions.values() {
        let place = Place::Session(slug.clone(), session.id.clone());
        add(files, &place, records::write_session(session));
    }
}
