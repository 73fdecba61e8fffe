//! A project, its counters, and how an event changes it.

use crate::{Body, Change, Key, Slug, Timestamp, Title};

/// Where the text of `prd.md` came from, so that a person's text is not overwritten unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PrdOrigin {
    /// The stub that `create_project` wrote.
    #[default]
    Stub,
    /// The questionnaire.
    Questionnaire,
    /// A person or an agent.
    Written,
}

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its slug, fixed for life.
    pub slug: Slug,
    /// The front of its issue ids, fixed for life, unique in the workspace.
    pub key: Key,
    /// Its name.
    pub name: Title,
    /// What it is about.
    pub description: Body,
    /// The number of the next issue.
    pub next_issue: u64,
    /// The number of the next reported bug.
    pub next_bug: u64,
    /// The number of the next logged request.
    pub next_request: u64,
    /// The project this one is a phase of, and which phase.
    pub phase_of: Option<(Slug, u32)>,
    /// Where the text of `prd.md` came from.
    pub prd_origin: PrdOrigin,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it or anything in it last changed.
    pub updated_at: Option<Timestamp>,
}

impl PrdOrigin {
    /// The origin's name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stub => "stub",
            Self::Questionnaire => "questionnaire",
            Self::Written => "written",
        }
    }

    /// Parses an origin's name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Stub, Self::Questionnaire, Self::Written]
            .into_iter()
            .find(|origin| origin.as_str() == text)
    }
}

impl Project {
    /// A fresh project.
    #[must_use]
    pub fn new(slug: Slug, key: Key, name: Title, description: Body, now: Timestamp) -> Self {
        Self {
            slug,
            key,
            name,
            description,
            next_issue: 1,
            next_bug: 1,
            next_request: 1,
            phase_of: None,
            prd_origin: PrdOrigin::Stub,
            created_at: now,
            updated_at: None,
        }
    }

    /// The text of `prd.md` before anybody wrote one.
    #[must_use]
    pub fn stub_prd(&self) -> String {
        if self.description.is_empty() {
            format!("# {}\n", self.name)
        } else {
            format!("# {}\n\n{}\n", self.name, self.description)
        }
    }

    /// Applies what happened in this project at `at`.
    pub fn apply(&mut self, change: &Change, at: Timestamp) {
        match change {
            Change::ProjectRenamed { name } => self.name = name.clone(),
            Change::IssueCreated(issue) if issue.id.is_reported_bug() => {
                self.next_bug = self.next_bug.max(issue.id.number() + 1);
            }
            Change::IssueCreated(issue) if issue.id.prefix() == self.key.as_str() => {
                self.next_issue = self.next_issue.max(issue.id.number() + 1);
            }
            Change::RequestLogged(request) => {
                self.next_request = self.next_request.max(request.number + 1);
            }
            Change::PrdWritten { origin, .. } => self.prd_origin = *origin,
            Change::ProjectCreated(_) => return,
            _ => {}
        }
        self.updated_at = Some(at);
    }
}
