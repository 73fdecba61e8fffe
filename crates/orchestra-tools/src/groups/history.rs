//! What happened to an issue, as it is answered.

use orchestra_board::{
    AgentName, Cause, Change, Edit, Event, IssueId, IssueRef, Label, Slug, Source,
};
use orchestra_store::Cursor;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Arg, Limit};
use crate::failure::Failure;
use crate::services::{Services, Sort, find, page};
use crate::tool::Step;
use crate::wire::{List, time};

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct GetHistory {
    project: Arg<Slug>,
    issue_id: Arg<IssueId>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

/// One thing that happened.
#[derive(Serialize, Default)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(super) struct Entry {
    at: String,
    /// `created`, `status`, `edited`, …
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// `file` or `import`, when it did not come from a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// Why a status followed from another issue.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

pub(super) fn history(services: &Services, args: GetHistory) -> Result<Step<List<Entry>>, Failure> {
    let request = page(args.limit, args.cursor);
    let target = IssueRef::new(args.project.0, args.issue_id.0);
    services.read(|reader| {
        let issue = find(reader, &target, Sort::Any)?.issue;
        let found = reader.history(&issue.project, &issue.id, &request)?;
        Ok(Step::Done(List::of(found, |event| entry(&event))))
    })
}

fn entry(event: &Event) -> Entry {
    let source = match event.source {
        Source::Tool => None,
        Source::File => Some("file"),
        Source::Import => Some("import"),
    };
    let agent = event.agent.as_ref().map(AgentName::to_string);
    Entry {
        at: time(event.at),
        agent,
        source,
        ..what(&event.change)
    }
}

fn what(change: &Change) -> Entry {
    let named = |event| Entry {
        event,
        ..Entry::default()
    };
    match change {
        Change::IssueCreated(issue) => {
            let cause = issue.fixes.as_ref().map(|id| format!("fixes {id}"));
            Entry {
                to: Some(issue.state.to_string()),
                cause,
                ..named("created")
            }
        }
        Change::Edited(edit) => Entry {
            field: Some(edit.field()),
            text: Some(new_value(edit)),
            ..named("edited")
        },
        Change::Moved { to } => Entry {
            to: Some(to.to_string()),
            ..named("moved")
        },
        Change::StateChanged {
            from,
            to,
            cause,
            evidence,
            reason,
        } => Entry {
            from: Some(from.as_str()),
            to: Some(to.to_string()),
            cause: because(cause),
            evidence: evidence.as_ref().map(ToString::to_string),
            reason: reason.as_ref().map(ToString::to_string),
            ..named("status")
        },
        Change::OwnStateChanged { own } => Entry {
            to: Some(own.as_state().to_string()),
            ..named("planned")
        },
        Change::Claimed { agent, until } => Entry {
            to: Some(agent.to_string()),
            until: Some(time(*until)),
            ..named("claimed")
        },
        Change::Released { agent } => Entry {
            to: Some(agent.to_string()),
            ..named("released")
        },
        Change::DependencyAdded { on } => Entry {
            to: Some(on.to_string()),
            ..named("dependency_added")
        },
        Change::DependencyRemoved { on } => Entry {
            to: Some(on.to_string()),
            ..named("dependency_removed")
        },
        Change::Commented { text } => Entry {
            text: Some(text.to_string()),
            ..named("commented")
        },
        Change::IssueDeleted => named("deleted"),
        // Of the project as a whole; none of an issue's own history.
        _ => named("changed"),
    }
}

fn because(cause: &Cause) -> Option<String> {
    match cause {
        Cause::Command => None,
        Cause::Children => Some("follows what is below".to_owned()),
        Cause::CancelledWith(ancestor) => Some(format!("cancelled with {ancestor}")),
        Cause::Restored => Some("restored with its parent".to_owned()),
    }
}

fn new_value(edit: &Edit) -> String {
    match edit {
        Edit::Title(title) => title.to_string(),
        Edit::Description(text) => text.to_string(),
        Edit::Priority(priority) => priority
            .map_or("none", orchestra_board::Priority::as_str)
            .to_owned(),
        Edit::Assignees(list) => list
            .iter()
            .map(AgentName::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        Edit::Labels(list) => list
            .iter()
            .map(Label::as_str)
            .collect::<Vec<_>>()
            .join(", "),
    }
}
