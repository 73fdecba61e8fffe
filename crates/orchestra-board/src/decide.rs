//! The one place where commands become events or a refusal.

mod issues;
mod next;
mod prd;
mod projects;
mod tasks;
mod work;

use crate::{
    Change, Command, Context, DecideError, Event, IssueId, IssueRef, Slug, UsageEntry, View,
};
use work::Work;

pub use next::{NextTask, next_task};
pub use prd::MAX_PHASES;

/// How long a claim holds without a change by its holder: 30 minutes.
pub const CLAIM_LEASE_SECONDS: i64 = 30 * 60;

/// What a command comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What happens, in order. Empty when the command changes nothing.
    pub events: Vec<Event>,
    /// The issues the command is about, for the answer: made or changed first, then what came of it.
    pub subjects: Vec<(Slug, IssueId)>,
    /// The project the command is about, where it is about one as a whole.
    pub project: Option<Slug>,
    /// What [`Command::ClaimNext`] found.
    pub next: Option<NextTask>,
}

/// Decides one command against what is stored.
///
/// # Errors
/// [`DecideError::Refused`] says why the command is not allowed and what is; nothing has happened.
/// [`DecideError::View`] when what is stored could not be read.
pub fn decide(view: &dyn View, cx: &Context, command: &Command) -> Result<Decision, DecideError> {
    let mut work = Work::new(view, cx);
    match command {
        Command::CreateProject(project) => projects::create(&mut work, project)?,
        Command::RenameProject { project, name } => projects::rename(&mut work, project, name)?,
        Command::DeleteProject { project } => projects::delete(&mut work, project)?,
        Command::WritePrd { project, content } => projects::write_prd(&mut work, project, content)?,
        Command::LogRequest { project, request } => {
            projects::log_request(&mut work, project, request)?
        }
        Command::Prd { project, step } => prd::step(&mut work, project, step)?,
        Command::CreateIssue { project, issue } => issues::create(&mut work, project, issue)?,
        Command::ReportBug { project, issue } => issues::report_bug(&mut work, project, issue)?,
        Command::UpdateIssue {
            target,
            patch,
            evidence,
            version,
        } => {
            issues::update(&mut work, target, patch, evidence.as_ref(), *version)?;
        }
        Command::MoveIssue { target, to } => issues::move_to(&mut work, target, to)?,
        Command::DeleteIssue { target, expected } => issues::delete(&mut work, target, *expected)?,
        Command::AddDependency { target, on } => issues::add_dependency(&mut work, target, on)?,
        Command::RemoveDependency { target, on } => {
            issues::remove_dependency(&mut work, target, on)?
        }
        Command::Comment { target, text } => issues::comment(&mut work, target, text)?,
        Command::PutIssue(issue) => issues::put(&mut work, issue)?,
        Command::StartTask { target } => tasks::start(&mut work, target)?,
        Command::CompleteTask { target, evidence } => {
            tasks::complete(&mut work, target, evidence.as_ref())?
        }
        Command::AdvanceTask { target, evidence } => {
            tasks::advance(&mut work, target, evidence.as_ref())?
        }
        Command::RejectTask { target, reason } => {
            tasks::reject(&mut work, target, reason.as_ref())?
        }
        Command::Claim { target, agent } => tasks::claim(&mut work, target, agent)?,
        Command::Release { target, agent } => tasks::release(&mut work, target, agent.as_ref())?,
        Command::ClaimNext { project, agent } => tasks::claim_next(&mut work, project, agent)?,
        Command::RecordUsage(entry) => record_usage(&mut work, entry)?,
        Command::EndUsageSession => {
            if view.usage_session_open()? {
                work.emit_workspace(Change::UsageSessionEnded);
            }
        }
    }
    Ok(work.finish())
}

/// Usage counts for a project and an issue that are there, the issue by the id that it has now.
fn record_usage(work: &mut Work<'_>, entry: &UsageEntry) -> work::Result<()> {
    let mut entry = entry.clone();
    if let Some(of) = &mut entry.of {
        work.project(&of.project)?;
        if let Some(id) = of.issue.take() {
            of.issue = Some(work.target(&IssueRef::new(of.project.clone(), id))?.id);
        }
    }
    work.emit_usage(entry);
    Ok(())
}
