//! The log of what happened.

use orchestra_board::{AgentName, Change, Event, IssueId, Slug, Source};
use rusqlite::params;
use serde_json::{Value, json};

use super::{Write, Writing};
use crate::notice::What;
use crate::{toon, uid};

/// What sort of change an event is, as the log names it.
const fn change_kind(change: &Change) -> &'static str {
    match change {
        Change::ProjectCreated(_) => "project-created",
        Change::ProjectRenamed { .. } => "project-renamed",
        Change::ProjectDeleted => "project-deleted",
        Change::IssueCreated(_) => "issue-created",
        Change::Edited(_) => "issue-edited",
        Change::Moved { .. } => "issue-moved",
        Change::StateChanged { .. } => "issue-state",
        Change::OwnStateChanged { .. } => "issue-own-state",
        Change::Claimed { .. } => "issue-claimed",
        Change::Released { .. } => "issue-released",
        Change::DependencyAdded { .. } => "dependency-added",
        Change::DependencyRemoved { .. } => "dependency-removed",
        Change::Commented { .. } => "issue-commented",
        Change::IssueDeleted => "issue-deleted",
        Change::PrdWritten { .. } => "prd-written",
        Change::PrdSession(_) => "prd-session",
        Change::RequestLogged(_) => "request-logged",
        Change::UsageRecorded(_) => "usage-recorded",
        Change::UsageSessionEnded => "usage-ended",
    }
}

/// What sort of notice an event of the log is.
pub(crate) fn notice_kind(kind: &str) -> What {
    match kind {
        "project-created" | "project-renamed" | "project-deleted" => What::Projects,
        "issue-created" => What::IssueCreated,
        "issue-deleted" => What::IssueDeleted,
        "prd-written" => What::Prd,
        "prd-session" => What::PrdSession,
        "request-logged" => What::Requests,
        "usage-recorded" | "usage-ended" => What::Usage,
        "memory" => What::Memory,
        "session" => What::Sessions,
        "plan" => What::Plans,
        "readme" => What::Readme,
        _ => What::IssueChanged,
    }
}

impl Writing<'_> {
    /// Writes an event of the board into the log; `issue` is the rowid of its issue.
    pub(super) fn log(&self, event: &Event, issue: Option<i64>) -> Write<()> {
        let body = match toon::history::line(event) {
            Some(line) if event.uid.is_none() => toon::history::with_uid(line, uid::random()?),
            Some(line) => line,
            None => workspace_line(event),
        };
        self.execute(
            "INSERT INTO event (at, kind, issue, slug, id, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                event.at.unix_seconds(),
                change_kind(&event.change),
                issue,
                event.project.as_ref().map(Slug::as_str),
                event.issue.as_ref().map(IssueId::to_string),
                body
            ],
        )?;
        Ok(())
    }

    /// Writes something into the log that is no event of the board.
    pub(super) fn log_side(
        &self,
        kind: &'static str,
        agent: Option<&AgentName>,
        source: Source,
        project: &Slug,
        what: &str,
    ) -> Write<()> {
        let body = line(agent, source, json!({ "what": what }));
        self.execute(
            "INSERT INTO event (at, kind, slug, body) VALUES (?1, ?2, ?3, ?4)",
            params![self.now.unix_seconds(), kind, project.as_str(), body],
        )?;
        Ok(())
    }
}

fn workspace_line(event: &Event) -> String {
    let what = match &event.change {
        Change::ProjectCreated(project) => {
            json!({ "name": project.name.as_str(), "key": project.key.as_str() })
        }
        Change::ProjectRenamed { name } => json!({ "name": name.as_str() }),
        Change::PrdWritten { content, origin } => {
            json!({ "bytes": content.len(), "origin": origin.as_str() })
        }
        Change::PrdSession(session) => {
            json!({ "status": session.as_ref().map(|session| session.status.as_str()) })
        }
        Change::RequestLogged(request) => json!({ "number": request.number }),
        Change::UsageRecorded(entry) => {
            json!({ "input": entry.input_tokens, "output": entry.output_tokens, "cost": entry.cost.billionths() })
        }
        _ => json!({}),
    };
    line(event.agent.as_ref(), event.source, what)
}

fn line(agent: Option<&AgentName>, source: Source, mut what: Value) -> String {
    if let Some(agent) = agent {
        what["agent"] = agent.as_str().into();
    }
    match source {
        Source::Tool => {}
        Source::File => what["source"] = "file".into(),
        Source::Import => what["source"] = "import".into(),
    }
    what.to_string()
}
