//! Completion of the arguments of prompts and resource templates.

use std::collections::BTreeMap;

use orchestra_board::{IssueId, IssueRef, Kind, Slug};
use orchestra_hub::{Completion, CompletionRef, ProviderError};
use orchestra_store::{IssueFilter, IssueRecord, PageRequest, Reader};

use crate::failure::Failure;
use crate::prompts;
use crate::services::{Services, Sort, find};
use crate::uri::{PRD_TEMPLATE, STATUS_TEMPLATE, TASK_TEMPLATE};

/// The most values in an answer (MCP, completion).
const MAX_VALUES: usize = 100;
/// The most candidates that are looked at, so that an answer stays quick.
const MAX_CANDIDATES: u32 = 200;

/// What an argument stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Project,
    Epic,
    Story,
    Task,
    /// Free text, which nothing completes.
    Text,
}

/// Completes `value` as far as it is typed.
///
/// # Errors
/// `InvalidParams` when the prompt, template or argument is not one of ours; `Unreachable` when
/// the store fails.
pub(crate) fn complete(
    services: &Services,
    reference: &CompletionRef,
    argument: &str,
    value: &str,
    context: &BTreeMap<String, String>,
) -> Result<Completion, ProviderError> {
    let meaning = match reference {
        CompletionRef::Prompt(name) => of_prompt(name, argument)?,
        CompletionRef::Resource(template) => of_template(template, argument)?,
    };
    let known = Known::of(context);
    let found = services.read(|reader| match (meaning, &known.project) {
        (Meaning::Text, _) => Ok(Vec::new()),
        (Meaning::Project, _) => projects(reader, value),
        (_, None) => Ok(Vec::new()),
        (Meaning::Epic, Some(project)) => issues(reader, project, &known, &[Kind::Epic], value),
        (Meaning::Story, Some(project)) => issues(reader, project, &known, &[Kind::Story], value),
        (Meaning::Task, Some(project)) => issues(
            reader,
            project,
            &known,
            &[Kind::Task, Kind::Bug, Kind::Hotfix],
            value,
        ),
    });
    let mut values = match found {
        Ok(values) => values,
        // What the context names is not there: nothing fits.
        Err(failure) if failure.is_refusal() => Vec::new(),
        Err(failure) => return Err(ProviderError::Unreachable(failure.to_string())),
    };
    let has_more = values.len() > MAX_VALUES;
    values.truncate(MAX_VALUES);
    let total = (!has_more).then_some(values.len() as u64);
    Ok(Completion {
        values,
        total,
        has_more,
    })
}

fn of_prompt(name: &str, argument: &str) -> Result<Meaning, ProviderError> {
    let prompt = prompts::descriptors()
        .into_iter()
        .find(|prompt| prompt.name == name);
    let known =
        prompt.is_some_and(|prompt| prompt.arguments.iter().any(|known| known.name == argument));
    match (known, argument) {
        (true, "project") => Ok(Meaning::Project),
        (true, "epic_id") => Ok(Meaning::Epic),
        (true, "story_id") => Ok(Meaning::Story),
        (true, "task_id") => Ok(Meaning::Task),
        (true, _) => Ok(Meaning::Text),
        (false, _) => Err(ProviderError::InvalidParams(
            "no such prompt or argument".to_owned(),
        )),
    }
}

fn of_template(template: &str, argument: &str) -> Result<Meaning, ProviderError> {
    match (template, argument) {
        (PRD_TEMPLATE | STATUS_TEMPLATE | TASK_TEMPLATE, "slug") => Ok(Meaning::Project),
        (TASK_TEMPLATE, "epicId") => Ok(Meaning::Epic),
        (TASK_TEMPLATE, "storyId") => Ok(Meaning::Story),
        (TASK_TEMPLATE, "taskId") => Ok(Meaning::Task),
        _ => Err(ProviderError::InvalidParams(
            "no such resource template or argument".to_owned(),
        )),
    }
}

/// The arguments that are known already, as far as they are ids.
struct Known {
    project: Option<Slug>,
    epic: Option<IssueId>,
    story: Option<IssueId>,
}

impl Known {
    fn of(context: &BTreeMap<String, String>) -> Self {
        let either = |names: [&str; 2]| names.iter().find_map(|name| context.get(*name));
        Self {
            project: either(["project", "slug"]).and_then(|text| Slug::parse(text).ok()),
            epic: either(["epic_id", "epicId"]).and_then(|text| IssueId::parse(text).ok()),
            story: either(["story_id", "storyId"]).and_then(|text| IssueId::parse(text).ok()),
        }
    }
}

fn projects(reader: &Reader<'_>, typed: &str) -> Result<Vec<String>, Failure> {
    let found = reader.projects(&PageRequest::first(MAX_CANDIDATES))?;
    let slugs = found
        .items
        .into_iter()
        .map(|record| record.project.slug.to_string());
    Ok(slugs
        .filter(|slug| slug.starts_with(&typed.to_ascii_lowercase()))
        .collect())
}

fn issues(
    reader: &Reader<'_>,
    project: &Slug,
    known: &Known,
    kinds: &[Kind],
    typed: &str,
) -> Result<Vec<String>, Failure> {
    let typed = typed.to_ascii_uppercase();
    let (mut parent, mut epic) = (None, None);
    if !kinds.contains(&Kind::Epic) {
        epic.clone_from(&known.epic);
    }
    if kinds.contains(&Kind::Task)
        && let Some(story) = &known.story
    {
        let target = IssueRef {
            project: project.clone(),
            id: story.clone(),
            epic: epic.take(),
            story: None,
        };
        parent = Some(find(reader, &target, Sort::Story)?.issue.id);
    }
    let filter = IssueFilter {
        kinds: kinds.to_vec(),
        parent,
        epic,
        ..IssueFilter::default()
    };
    let found = reader.issues(project, &filter, &PageRequest::first(MAX_CANDIDATES))?;
    let mut ids: Vec<String> = found
        .items
        .iter()
        .map(|record| record.issue.id.to_string())
        .filter(|id| id.starts_with(&typed))
        .collect();
    // What is typed further may lie beyond the candidates: it is completed digit by digit.
    if found.total > found.items.len() as u64 {
        let longer = (0..10).map(|digit| format!("{typed}{digit}"));
        for text in std::iter::once(typed.clone()).chain(longer) {
            let Ok(id) = IssueId::parse(&text) else {
                continue;
            };
            let Some(record) = reader.issue(project, &id)? else {
                continue;
            };
            if kinds.contains(&record.issue.kind)
                && is_below(&record, &filter)
                && !ids.contains(&text)
            {
                ids.push(record.issue.id.to_string());
            }
        }
    }
    Ok(ids)
}

fn is_below(record: &IssueRecord, filter: &IssueFilter) -> bool {
    filter
        .parent
        .as_ref()
        .is_none_or(|parent| record.issue.parent.as_ref() == Some(parent))
        && filter
            .epic
            .as_ref()
            .is_none_or(|epic| record.epic.as_ref() == Some(epic))
}
