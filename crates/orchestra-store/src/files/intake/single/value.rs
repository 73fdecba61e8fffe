//! What a file says that is one value.

use orchestra_board::{Command, Slug};

use crate::ActionError;
use crate::files::Work;
use crate::files::place::Place;
use crate::reader::Reader;
use crate::toon::{self, FileError, records};

/// The value of a file that is one value.
pub(in crate::files) enum Value {
    Prd(Slug, String),
    Readme(Slug, String),
    PrdSession(orchestra_board::PrdSession),
    Requests(Slug, Vec<orchestra_board::Request>),
    Plan(crate::PlanRecord, orchestra_board::Body),
    Session(crate::SessionRecord),
    HookEvents(Vec<crate::HookEventRecord>),
    Usage(crate::UsageRecord),
    /// A file that follows from others and says nothing of its own.
    Following(String),
}

impl Value {
    pub(in crate::files) fn read(path: &str, text: &str, place: &Place) -> Result<Self, FileError> {
        Ok(match place {
            Place::Prd(slug) => {
                toon::check_merge_marks(path, text)?;
                Self::Prd(slug.clone(), text.to_owned())
            }
            Place::Readme(slug) => {
                toon::check_merge_marks(path, text)?;
                Self::Readme(slug.clone(), text.to_owned())
            }
            Place::PrdSession(slug) => {
                Self::PrdSession(records::read_prd_session(path, text, slug)?)
            }
            Place::Requests(slug) => {
                Self::Requests(slug.clone(), records::read_requests(path, text, slug)?)
            }
            Place::Plan(slug, plan) => {
                let (plan, content) = toon::plan::read(path, text, slug, plan)?;
                Self::Plan(plan, content)
            }
            Place::Session(slug, id) => Self::Session(records::read_session(path, text, slug, id)?),
            Place::HookEvents => Self::HookEvents(records::read_hook_events(path, text)?),
            Place::Usage => Self::Usage(records::read_usage(path, text)?),
            Place::SessionIndex(_)
            | Place::Project(_)
            | Place::Chunks(..)
            | Place::Issue(..)
            | Place::Document(_) => Self::Following(text.to_owned()),
        })
    }

    /// The value as we would write it.
    pub(in crate::files) fn canonical(&self) -> String {
        match self {
            Self::Prd(_, text) | Self::Readme(_, text) | Self::Following(text) => text.clone(),
            Self::PrdSession(session) => records::write_prd_session(session),
            Self::Requests(slug, requests) => records::write_requests(slug, requests),
            Self::Plan(plan, content) => toon::plan::write(plan, content.as_str()),
            Self::Session(session) => records::write_session(session),
            Self::HookEvents(events) => records::write_hook_events(events),
            Self::Usage(usage) => records::write_usage(usage),
        }
    }

    /// Puts the value there as a person's change.
    pub(super) fn put(self, work: &mut dyn Work) -> Result<(), ActionError> {
        match self {
            Self::Prd(project, content) => {
                drop(work.command(&Command::WritePrd { project, content })?)
            }
            other => other.load(work)?,
        }
        Ok(())
    }

    /// Puts the value there as it is.
    pub(in crate::files) fn load(&self, work: &mut dyn Work) -> Result<(), ActionError> {
        match self {
            Self::Prd(slug, text) => {
                let project = Reader::new(work.connection()).find_project(slug)?;
                let origin = project
                    .map(|(_, project)| project.prd_origin)
                    .unwrap_or_default();
                work.load_prd(slug, text, origin)?;
            }
            Self::Readme(slug, text) => work.load_readme(slug, Some(text))?,
            Self::PrdSession(session) => work.load_prd_session(&session.slug, Some(session))?,
            Self::Requests(slug, requests) => work.load_requests(slug, requests)?,
            Self::Plan(plan, content) => work.load_plan(plan, Some(content.as_str()))?,
            Self::Session(session) => work.load_session(session)?,
            Self::HookEvents(events) => work.load_hook_events(events)?,
            Self::Usage(usage) => work.load_usage(usage)?,
            Self::Following(_) => {}
        }
        Ok(())
    }
}
