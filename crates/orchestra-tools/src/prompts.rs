//! The three prompts.

use std::collections::BTreeMap;

use orchestra_board::{IssueId, IssueRef, Kind, Slug, State, Title};
use orchestra_hub::{PromptArgument, PromptDescriptor, PromptResult, ProviderError};
use orchestra_store::{IssueFilter, PageRequest};
use orchestra_wire::RawJson;
use serde_json::json;

use crate::args::FromText;
use crate::failure::Failure;
use crate::services::{Services, Sort, find, project};

/// The most tasks that `plan_sprint` lists.
const SPRINT_TASKS: u32 = 100;

/// Arguments of a prompt, by name.
pub(crate) type Arguments = BTreeMap<String, String>;

struct Prompt {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    arguments: &'static [(&'static str, &'static str, Need)],
    write: fn(&Services, &Arguments) -> Result<String, PromptError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

enum PromptError {
    Argument(String),
    Failed(Failure),
}

impl From<Failure> for PromptError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

const PROMPTS: [Prompt; 3] = [
    Prompt {
        name: "create_prd",
        title: "Create PRD",
        description: "Write a product requirements document",
        arguments: &[
            ("project_name", "Name of the project", Need::Required),
            ("description", "Summary of the product", Need::Optional),
        ],
        write: create_prd,
    },
    Prompt {
        name: "review_task",
        title: "Review Task",
        description: "Review the work on a task",
        arguments: &[
            ("project", "Slug of the project", Need::Required),
            ("epic_id", "The epic it belongs to", Need::Required),
            ("story_id", "The story it belongs to", Need::Required),
            ("task_id", "The task", Need::Required),
        ],
        write: review_task,
    },
    Prompt {
        name: "plan_sprint",
        title: "Plan Sprint",
        description: "Choose and order work for a sprint",
        arguments: &[("project", "Slug of the project", Need::Required)],
        write: plan_sprint,
    },
];

/// What is offered.
pub(crate) fn descriptors() -> Vec<PromptDescriptor> {
    let argument = |(name, description, need): &(&str, &str, Need)| PromptArgument {
        name: (*name).to_owned(),
        description: Some((*description).to_owned()),
        required: *need == Need::Required,
    };
    let descriptor = |prompt: &Prompt| PromptDescriptor {
        name: prompt.name.to_owned(),
        title: Some(prompt.title.to_owned()),
        description: Some(prompt.description.to_owned()),
        arguments: prompt.arguments.iter().map(argument).collect(),
        definition: None,
    };
    PROMPTS.iter().map(descriptor).collect()
}

/// Writes one prompt.
///
/// # Errors
/// `InvalidParams` when an argument is missing, unknown, malformed or names what is not there.
pub(crate) fn get(
    services: &Services,
    name: &str,
    arguments: &Arguments,
) -> Result<PromptResult, ProviderError> {
    let Some(prompt) = PROMPTS.iter().find(|prompt| prompt.name == name) else {
        return Err(ProviderError::Unknown {
            kind: "prompt",
            name: name.chars().take(200).collect(),
        });
    };
    let known = |name: &str| prompt.arguments.iter().any(|(known, ..)| *known == name);
    if let Some(unknown) = arguments.keys().find(|name| !known(name)) {
        let shown: String = unknown
            .chars()
            .take(40)
            .flat_map(char::escape_debug)
            .collect();
        return Err(ProviderError::InvalidParams(format!(
            "unknown argument `{shown}`"
        )));
    }
    for (name, _, need) in prompt.arguments {
        if *need == Need::Required
            && arguments
                .get(*name)
                .is_none_or(|value| value.trim().is_empty())
        {
            return Err(ProviderError::InvalidParams(format!(
                "missing argument `{name}`"
            )));
        }
    }
    let text = (prompt.write)(services, arguments).map_err(|error| match error {
        PromptError::Argument(text) => ProviderError::InvalidParams(text),
        PromptError::Failed(failure) if failure.is_refusal() => {
            ProviderError::InvalidParams(failure.to_string())
        }
        PromptError::Failed(failure) => ProviderError::Unreachable(failure.to_string()),
    })?;
    let messages = json!([{"role": "user", "content": {"type": "text", "text": text}}]);
    let messages =
        RawJson::of(&messages).map_err(|error| ProviderError::Unreachable(error.to_string()))?;
    Ok(PromptResult {
        description: Some(prompt.description.to_owned()),
        messages,
    })
}

fn argument<T: FromText>(arguments: &Arguments, name: &str) -> Result<T, PromptError> {
    let text = arguments.get(name).map_or("", String::as_str);
    T::from_text(text).map_err(|error| PromptError::Argument(format!("argument `{name}`: {error}")))
}

fn create_prd(_: &Services, arguments: &Arguments) -> Result<String, PromptError> {
    let name: Title = argument(arguments, "project_name")?;
    let about = match arguments
        .get("description")
        .map(|text| text.trim())
        .filter(|text| !text.is_empty())
    {
        Some(description) => format!("\n\nDescription so far:\n{}", cut(description)),
        None => String::new(),
    };
    Ok(format!(
        "Write a product requirements document for the project \"{name}\".{about}\n\n\
         Cover, each in a section of its own: the problem, the users, the features, how success is measured, \
         the constraints, and the timeline. Ask about what you cannot know, then save the document with write_prd."
    ))
}

/// Free text in a prompt, bounded.
fn cut(text: &str) -> &str {
    const MAX_BYTES: usize = 64 * 1024;
    &text[..text.floor_char_boundary(MAX_BYTES)]
}

fn review_task(services: &Services, arguments: &Arguments) -> Result<String, PromptError> {
    let target = IssueRef {
        project: argument::<Slug>(arguments, "project")?,
        epic: Some(argument::<IssueId>(arguments, "epic_id")?),
        story: Some(argument::<IssueId>(arguments, "story_id")?),
        id: argument::<IssueId>(arguments, "task_id")?,
    };
    let issue = services
        .read(|reader| find(reader, &target, Sort::Task))?
        .issue;
    let description = if issue.description.is_empty() {
        "(no description)"
    } else {
        issue.description.as_str()
    };
    Ok(format!(
        "Review the work on {} {}: {}\nStatus: {}\n\n{description}\n\n\
         Check code quality, error handling, tests, security, and that it follows the patterns of the code around it. \
         When it holds, approve it with advance_task and evidence of what you checked; otherwise use reject_task \
         with the reason.",
        issue.kind, issue.id, issue.title, issue.state
    ))
}

fn plan_sprint(services: &Services, arguments: &Arguments) -> Result<String, PromptError> {
    let slug: Slug = argument(arguments, "project")?;
    let filter = IssueFilter {
        kinds: vec![Kind::Task, Kind::Bug, Kind::Hotfix],
        states: vec![State::Backlog, State::Todo],
        ..IssueFilter::default()
    };
    let (name, open) = services.read(|reader| {
        let name = project(reader, &slug)?.project.name;
        Ok((
            name,
            reader.issues(&slug, &filter, &PageRequest::first(SPRINT_TASKS))?,
        ))
    })?;
    let mut text = format!("Plan a sprint for the project \"{name}\" ({slug}). Open tasks:\n");
    for record in &open.items {
        let issue = &record.issue;
        let priority = issue
            .priority
            .map_or(String::new(), |priority| format!(", {priority}"));
        text.push_str(&format!(
            "- {} [{}, {}{priority}] {}\n",
            issue.id, issue.kind, issue.state, issue.title
        ));
    }
    if open.items.is_empty() {
        text.push_str("(none)\n");
    }
    let shown = open.items.len() as u64;
    if open.total > shown {
        text.push_str(&format!(
            "… and {} more; list_tasks shows them\n",
            open.total - shown
        ));
    }
    text.push_str(
        "\nChoose what fits into the sprint and order it by value, risk and dependencies. \
         Give your reasons, then move the chosen tasks to todo with update_task.",
    );
    Ok(text)
}
