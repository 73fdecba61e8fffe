//! A whole board in memory: the reference the store is tested against, and a [`View`] for tests.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::{
    Change, Command, Context, DecideError, Decision, Event, Issue, IssueId, Key, PrdSession,
    Project, Request, Slug, Tally, UsageEntry, View, ViewError, decide, rank,
};

/// A board in memory.
#[derive(Debug, Clone, Default)]
pub struct Model {
    projects: BTreeMap<Slug, Project>,
    issues: BTreeMap<(Slug, IssueId), Issue>,
    prds: BTreeMap<Slug, String>,
    prd_sessions: BTreeMap<Slug, PrdSession>,
    requests: Vec<(Slug, Request)>,
    usage: Vec<UsageEntry>,
    usage_open: bool,
    events: Vec<Event>,
}

impl Model {
    /// Decides a command and applies what comes of it.
    ///
    /// # Errors
    /// As [`decide`]; nothing has changed then.
    pub fn run(&mut self, cx: &Context, command: &Command) -> Result<Decision, DecideError> {
        let decision = decide(self, cx, command)?;
        for event in &decision.events {
            self.apply(event);
        }
        Ok(decision)
    }

    /// Applies one event.
    pub fn apply(&mut self, event: &Event) {
        self.events.push(event.clone());
        match (&event.change, &event.project) {
            (Change::UsageRecorded(entry), _) => {
                self.usage.push(entry.clone());
                self.usage_open = true;
            }
            (Change::UsageSessionEnded, _) => self.usage_open = false,
            (_, Some(slug)) => self.apply_in_project(&slug.clone(), event),
            (_, None) => {}
        }
    }

    fn apply_in_project(&mut self, slug: &Slug, event: &Event) {
        match &event.change {
            Change::ProjectCreated(project) => {
                self.projects.insert(slug.clone(), (**project).clone());
            }
            Change::ProjectDeleted => {
                self.projects.remove(slug);
                self.issues.retain(|(project, _), _| project != slug);
                self.prd_sessions.remove(slug);
                self.prds.remove(slug);
                self.requests.retain(|(project, _)| project != slug);
                return;
            }
            Change::IssueCreated(issue) => {
                self.issues
                    .insert((slug.clone(), issue.id.clone()), (**issue).clone());
            }
            Change::IssueDeleted => {
                if let Some(id) = &event.issue {
                    self.delete(slug, id);
                }
            }
            Change::PrdWritten { content, .. } => {
                self.prds.insert(slug.clone(), content.clone());
            }
            Change::PrdSession(Some(session)) => {
                self.prd_sessions.insert(slug.clone(), (**session).clone());
            }
            Change::PrdSession(None) => {
                self.prd_sessions.remove(slug);
            }
            Change::RequestLogged(request) => {
                self.requests.push((slug.clone(), (**request).clone()))
            }
            change => {
                let address = event.issue.clone().map(|id| (slug.clone(), id));
                if let Some(issue) = address.and_then(|address| self.issues.get_mut(&address)) {
                    issue.apply(change, event.at);
                }
            }
        }
        if let Some(project) = self.projects.get_mut(slug) {
            project.apply(&event.change, event.at);
        }
    }

    fn delete(&mut self, slug: &Slug, id: &IssueId) {
        let below: Vec<IssueId> = self
            .children_of(slug, id)
            .map(|issue| issue.id.clone())
            .collect();
        for child in below {
            self.delete(slug, &child);
        }
        self.issues.remove(&(slug.clone(), id.clone()));
        for ((project, _), issue) in &mut self.issues {
            if project == slug {
                issue.depends_on.retain(|on| on != id);
            }
        }
    }

    fn children_of<'a>(
        &'a self,
        slug: &'a Slug,
        parent: &'a IssueId,
    ) -> impl Iterator<Item = &'a Issue> {
        self.issues
            .values()
            .filter(move |issue| issue.project == *slug && issue.parent.as_ref() == Some(parent))
    }

    /// All projects, by slug.
    pub fn projects(&self) -> impl Iterator<Item = &Project> {
        self.projects.values()
    }

    /// All issues, by project and id.
    pub fn issues(&self) -> impl Iterator<Item = &Issue> {
        self.issues.values()
    }

    /// The text of a project's `prd.md`.
    #[must_use]
    pub fn prd(&self, slug: &Slug) -> Option<&str> {
        self.prds.get(slug).map(String::as_str)
    }

    /// All logged requests.
    #[must_use]
    pub fn requests(&self) -> &[(Slug, Request)] {
        &self.requests
    }

    /// Everything that happened.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

impl View for Model {
    fn project(&self, slug: &Slug) -> Result<Option<Project>, ViewError> {
        Ok(self.projects.get(slug).cloned())
    }

    fn key_taken(&self, key: &Key) -> Result<bool, ViewError> {
        Ok(self.projects.values().any(|project| project.key == *key))
    }

    fn issue(&self, project: &Slug, id: &IssueId) -> Result<Option<Issue>, ViewError> {
        Ok(self.issues.get(&(project.clone(), id.clone())).cloned())
    }

    fn tally(&self, project: &Slug, parent: &IssueId) -> Result<Tally, ViewError> {
        let mut tally = Tally::default();
        self.children_of(project, parent)
            .for_each(|child| tally.add(child.state));
        Ok(tally)
    }

    fn children(&self, project: &Slug, parent: &IssueId) -> Result<Vec<IssueId>, ViewError> {
        Ok(self
            .children_of(project, parent)
            .map(|child| child.id.clone())
            .collect())
    }

    fn ranked(
        &self,
        project: &Slug,
        visit: &mut dyn FnMut(Issue) -> Result<ControlFlow<()>, ViewError>,
    ) -> Result<(), ViewError> {
        let mut ranked: Vec<(u16, &Issue)> = self
            .issues
            .values()
            .filter(|issue| issue.project == *project)
            .filter_map(|issue| Some((rank(issue.kind, issue.priority, issue.state)?, issue)))
            .collect();
        orchestra_sort::sort_by(&mut ranked, |(a, left), (b, right)| {
            a.cmp(b).then_with(|| left.id.cmp(&right.id))
        });
        for (_, issue) in ranked {
            if visit(issue.clone())?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn prd_session(&self, project: &Slug) -> Result<Option<PrdSession>, ViewError> {
        Ok(self.prd_sessions.get(project).cloned())
    }

    fn usage_session_open(&self) -> Result<bool, ViewError> {
        Ok(self.usage_open)
    }
}
