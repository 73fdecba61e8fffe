//! Texts of a project and documents of plugins. Where both sides have another text, ours stays and the other one is
//! added beside it under a free name.

use std::collections::BTreeMap;

use orchestra_board::{PlanId, PrdOrigin, Request, Slug, Title};

use super::identity::Identities;
use super::{Context, ProjectContents};
use crate::document::DocumentBody;
use crate::readme::is_generated;
use crate::toon::project::MAX_NUMBER;
use crate::toon::records::write_prd_session;
use crate::{DocumentPath, PlanRecord};

/// Merges the texts, requests and saved plans of a project.
pub(super) fn merge(
    merged: &mut ProjectContents,
    base: Option<&ProjectContents>,
    theirs: &ProjectContents,
    identities: &Identities,
    cx: &Context<'_>,
) {
    let mut aside = Vec::new();
    merge_description(merged, base, theirs, &mut aside);
    merge_prd(merged, base, theirs, &mut aside);
    match (&merged.questionnaire, &theirs.questionnaire) {
        (None, theirs) => merged.questionnaire.clone_from(theirs),
        (Some(ours), Some(theirs)) if ours != theirs => {
            aside.push(("PRD questionnaire", write_prd_session(theirs)));
        }
        (Some(_), _) => {}
    }
    match (&merged.readme, &theirs.readme) {
        (None, theirs) => merged.readme.clone_from(theirs),
        (Some(ours), Some(theirs)) if ours != theirs && !is_generated(theirs) => {
            aside.push(("README.md", theirs.clone()));
        }
        (Some(_), _) => {}
    }
    merge_requests(merged, &theirs.requests);
    for (plan, text) in &theirs.plans {
        let mut plan = plan.clone();
        plan.project.clone_from(&merged.project.slug);
        let issue = plan.issue.as_ref();
        plan.issue = issue.and_then(|id| identities.id_for(id));
        add_plan(&mut merged.plans, plan, text);
    }
    for (name, text) in aside {
        let title = format!("{name} of {} on {}", merged.project.name, cx.origin);
        let Some(title) = Title::cut(&title) else {
            continue;
        };
        let plan = PlanRecord {
            project: merged.project.slug.clone(),
            id: PlanId::of_title(title.as_str()).unwrap_or_else(|| PlanId::numbered(1)),
            title,
            issue: None,
            created_at: cx.now,
            updated_at: None,
        };
        add_plan(&mut merged.plans, plan, &text);
    }
    orchestra_sort::sort_by(&mut merged.plans, |(a, _), (b, _)| a.id.cmp(&b.id));
}

type Aside = Vec<(&'static str, String)>;

/// Merges the fields of the project itself.
fn merge_description(
    merged: &mut ProjectContents,
    base: Option<&ProjectContents>,
    theirs: &ProjectContents,
    aside: &mut Aside,
) {
    let (ours, theirs) = (&mut merged.project, &theirs.project);
    let base = base.map(|base| &base.project);
    if ours.name != theirs.name {
        match base {
            Some(base) if base.name == ours.name => ours.name.clone_from(&theirs.name),
            Some(base) if base.name == theirs.name => {}
            _ => aside.push(("Name", theirs.name.to_string())),
        }
    }
    if ours.description != theirs.description {
        match base {
            Some(base) if base.description == theirs.description => {}
            Some(base) if base.description == ours.description => {
                ours.description.clone_from(&theirs.description);
            }
            _ if ours.description.is_empty() => ours.description.clone_from(&theirs.description),
            _ if theirs.description.is_empty() => {}
            _ => aside.push(("Description", theirs.description.to_string())),
        }
    }
    if ours.phase_of.is_none() {
        ours.phase_of.clone_from(&theirs.phase_of);
    }
    ours.created_at = ours.created_at.min(theirs.created_at);
    ours.updated_at = ours.updated_at.max(theirs.updated_at);
}

fn merge_prd(
    merged: &mut ProjectContents,
    base: Option<&ProjectContents>,
    theirs: &ProjectContents,
    aside: &mut Aside,
) {
    let is_stub = |contents: &ProjectContents| contents.project.prd_origin == PrdOrigin::Stub;
    let is_base = |text: &str| base.is_some_and(|base| base.prd == text);
    if merged.prd == theirs.prd || is_base(&theirs.prd) || is_stub(theirs) {
        return;
    }
    if is_base(&merged.prd) || is_stub(merged) {
        merged.prd.clone_from(&theirs.prd);
        merged.project.prd_origin = theirs.project.prd_origin;
        return;
    }
    aside.push(("PRD", theirs.prd.clone()));
}

/// Adds requests; one whose number another has gets the next number.
fn merge_requests(merged: &mut ProjectContents, theirs: &[Request]) {
    for request in theirs {
        let is_same = |ours: &Request| {
            (ours.at, ours.kind, &ours.description)
                == (request.at, request.kind, &request.description)
        };
        if merged.requests.iter().any(is_same) {
            continue;
        }
        let mut request = request.clone();
        let is_taken = |number| merged.requests.iter().any(|other| other.number == number);
        if is_taken(request.number) || request.number > MAX_NUMBER {
            let last = merged.requests.iter().map(|other| other.number).max();
            let free = last.map_or(1, |last| last.saturating_add(1));
            request.number = free.max(merged.project.next_request);
        }
        let next = request.number.saturating_add(1);
        merged.project.next_request = merged.project.next_request.max(next);
        merged.requests.push(request);
    }
    orchestra_sort::sort_by_key(&mut merged.requests, |request| request.number);
}

/// Adds a plan under its name, or under a free one beside another plan of that name.
fn add_plan(plans: &mut Vec<(PlanRecord, String)>, mut plan: PlanRecord, text: &str) {
    let name = plan.id.clone();
    let is_same = |known: &PlanRecord, content: &str| {
        known.title == plan.title && known.issue == plan.issue && content == text
    };
    if plans.iter().any(|(known, content)| is_same(known, content)) {
        return;
    }
    for number in 2_u64.. {
        if plans.iter().all(|(known, _)| known.id != plan.id) {
            break;
        }
        let end = format!("-{number}");
        let cut = name.as_str().len().min(Slug::MAX_BYTES - end.len());
        let begin = name.as_str()[..cut].trim_end_matches('-');
        plan.id = PlanId::parse(&format!("{begin}{end}")).unwrap_or(plan.id);
    }
    plans.push((plan, text.to_owned()));
}

/// Adds documents of plugins; another one at the same path gets a number before its ending.
pub(super) fn merge_documents(
    merged: &mut BTreeMap<String, (DocumentPath, DocumentBody)>,
    theirs: &BTreeMap<String, (DocumentPath, DocumentBody)>,
) {
    for (key, (path, body)) in theirs {
        let (mut path, mut key) = (path.clone(), key.clone());
        for number in 2_u64.. {
            match merged.get(&key) {
                None => {
                    merged.insert(key, (path, body.clone()));
                    break;
                }
                Some((_, ours)) if ours == body => break,
                Some(_) => {}
            }
            let Some(next) = numbered(&path, number) else {
                // Only a path that is too long has no next one.
                tracing::warn!(path = path.as_str(), "skipped a document of another board");
                break;
            };
            key = next.key();
            path = next;
        }
    }
}

/// A path with a number before the ending of its name, in the place of an earlier one.
fn numbered(path: &DocumentPath, number: u64) -> Option<DocumentPath> {
    let (directory, name) = path
        .as_str()
        .rsplit_once('/')
        .unwrap_or(("", path.as_str()));
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let before = number.checked_sub(1).filter(|before| *before > 1);
    let end = before
        .map(|before| format!("-{before}"))
        .unwrap_or_default();
    let stem = stem.strip_suffix(&end).unwrap_or(stem);
    let mut text = String::new();
    for part in [directory, if directory.is_empty() { "" } else { "/" }, stem] {
        text.push_str(part);
    }
    text.push_str(&format!("-{number}"));
    if !ending.is_empty() {
        text.push_str(&format!(".{ending}"));
    }
    DocumentPath::parse(&text).ok()
}
