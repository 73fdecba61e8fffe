//! Plans, kept as markdown.

use orchestra_board::{Body, IssueId, PlanId, Slug, Title};
use orchestra_store::{Action, Cursor, Made, PlanRecord};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Arg, Limit};
use crate::failure::Failure;
use crate::services::{Services, page, project};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{List, time};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "save_plan",
            "Save plan",
            Effect::Remove,
            "Save a plan (Markdown); `replace` overwrites a plan with the same title.",
            save,
        ),
        Tool::new(
            "list_plans",
            "List plans",
            Effect::Read,
            "List saved plans.",
            list,
        ),
        Tool::new(
            "read_plan",
            "Read plan",
            Effect::Read,
            "Return a saved plan with its text.",
            read,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct SavePlan {
    project: Arg<Slug>,
    title: Arg<Title>,
    content: Arg<Body>,
    issue_id: Option<Arg<IssueId>>,
    replace: Option<bool>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Saved {
    file: String,
    path: String,
}

fn save(_: &Services, args: SavePlan) -> Result<Step<Saved>, Failure> {
    let action = Action::SavePlan {
        project: args.project.0,
        title: args.title.0,
        content: args.content.0,
        issue: args.issue_id.map(|id| id.0),
        replace: args.replace.unwrap_or_default(),
    };
    Ok(Step::submit(None, action, |_, receipt| {
        match receipt.made {
            Made::Plan(plan) => {
                let file = file(&plan.id);
                let path = format!(".projects/{}/.plans/{file}", plan.project);
                Ok(Saved { file, path })
            }
            _ => Err(Failure::text(
                "the plan was saved, but its name is unknown; list_plans shows it",
            )),
        }
    }))
}

fn file(id: &PlanId) -> String {
    format!("{id}.md")
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ListPlans {
    project: Arg<Slug>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Plan {
    file: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    issue_id: Option<String>,
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

fn plan(record: &PlanRecord, content: Option<String>) -> Plan {
    Plan {
        file: file(&record.id),
        title: record.title.to_string(),
        issue_id: record.issue.as_ref().map(IssueId::to_string),
        created: time(record.created_at),
        updated: record.updated_at.map(time),
        content,
    }
}

fn list(services: &Services, args: ListPlans) -> Result<Step<List<Plan>>, Failure> {
    let request = page(args.limit, args.cursor);
    let found = services.read(|reader| Ok(reader.plans(&args.project.0, &request)?))?;
    Ok(Step::Done(List::of(found, |record| plan(&record, None))))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ReadPlan {
    project: Arg<Slug>,
    file: Arg<PlanId>,
}

fn read(services: &Services, args: ReadPlan) -> Result<Step<Plan>, Failure> {
    let (slug, id) = (args.project.0, args.file.0);
    services.read(|reader| match reader.plan(&slug, &id)? {
        Some((record, content)) => Ok(Step::Done(plan(&record, Some(content)))),
        None => {
            project(reader, &slug)?;
            Err(Failure::text(format!(
                "plan `{id}` not found in project `{slug}`; list_plans shows them"
            )))
        }
    })
}
