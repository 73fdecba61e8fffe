//! From events to rows.

use std::collections::BTreeMap;

use orchestra_board::{Change, Event, Issue, IssueId, Project, Slug, Source};

use super::{Write, Writing};
use crate::files::owner::Owner;
use crate::rows::unknown;

/// What the events of one decision touch, read once and written once.
#[derive(Debug, Default)]
pub(super) struct Touched {
    projects: BTreeMap<Slug, HeldProject>,
    issues: BTreeMap<(Slug, IssueId), Held>,
}

/// A project that is being changed.
#[derive(Debug)]
struct HeldProject {
    row: i64,
    before: Project,
    now: Project,
}

/// An issue that is being changed.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) row: i64,
    pub(super) parent_row: Option<i64>,
    pub(super) before: Issue,
    pub(super) now: Issue,
}

impl Touched {
    fn hold(&mut self, slug: &Slug, row: i64, project: Project) {
        let held = HeldProject {
            row,
            before: project.clone(),
            now: project,
        };
        self.projects.insert(slug.clone(), held);
    }
}

impl Writing<'_> {
    /// Writes what was decided.
    pub(super) fn apply(&mut self, events: &[Event]) -> Write<()> {
        let mut touched = Touched::default();
        for event in events {
            match (&event.change, &event.project) {
                (Change::UsageRecorded(entry), _) => {
                    self.log(event, None)?;
                    self.record_usage(entry)?;
                }
                (Change::UsageSessionEnded, _) => {
                    self.log(event, None)?;
                    self.end_usage()?;
                }
                (_, Some(slug)) => self.apply_in_project(&mut touched, slug, event)?,
                (_, None) => {}
            }
        }
        self.flush(&mut touched)
    }

    fn apply_in_project(&mut self, touched: &mut Touched, slug: &Slug, event: &Event) -> Write<()> {
        if let Change::ProjectCreated(project) = &event.change {
            let id = self.insert_project(project)?;
            // Its counters may have been raised.
            let (_, project) = self
                .reader()
                .find_project(slug)?
                .ok_or_else(|| unknown("project of an event"))?;
            touched.hold(slug, id, project);
            self.log(event, None)?;
            return self.dirty(&Owner::Project(slug.clone()));
        }
        let id = self.touch_project(touched, slug)?;
        match &event.change {
            Change::ProjectDeleted => {
                self.log(event, None)?;
                touched.projects.remove(slug);
                touched.issues.retain(|(project, _), _| project != slug);
                self.delete_project(id, slug)?;
                return self.dirty(&Owner::Project(slug.clone()));
            }
            Change::IssueCreated(issue) => {
                // What the issue's place depends on must be in the rows.
                self.flush_issues(touched)?;
                let row = self.insert_issue(id, issue)?;
                self.log(event, Some(row))?;
                self.dirty(&Owner::Issue(slug.clone(), issue.id.clone()))?;
            }
            Change::IssueDeleted => {
                self.flush_issues(touched)?;
                // A file that was removed may come back, with git for one; what was deleted by
                // command does not.
                let at = (event.source != Source::File).then_some(event.at);
                if let Some(issue) = &event.issue {
                    self.delete_issue(id, slug, issue, at)?;
                }
                self.log(event, None)?;
            }
            Change::PrdWritten { content, .. } => {
                self.put_document(id, crate::reader::PRD, Some(content))?;
                self.log(event, None)?;
                self.dirty(&Owner::Prd(slug.clone()))?;
            }
            Change::PrdSession(session) => {
                self.put_questionnaire(id, session.as_deref())?;
                self.log(event, None)?;
                self.dirty(&Owner::PrdSession(slug.clone()))?;
            }
            Change::RequestLogged(request) => {
                self.check_requests(id, request)?;
                self.insert_request(id, request)?;
                self.log(event, None)?;
                self.dirty(&Owner::Requests(slug.clone()))?;
            }
            change => match &event.issue {
                Some(issue) => {
                    let held = self.touch_issue(touched, slug, issue)?;
                    held.now.apply(change, event.at);
                    let row = held.row;
                    self.log(event, Some(row))?;
                    self.dirty(&Owner::Issue(slug.clone(), issue.clone()))?;
                }
                None => self.log(event, None)?,
            },
        }
        if let Some(held) = touched.projects.get_mut(slug) {
            held.now.apply(&event.change, event.at);
        }
        Ok(())
    }

    fn touch_project(&self, touched: &mut Touched, slug: &Slug) -> Write<i64> {
        if let Some(held) = touched.projects.get(slug) {
            return Ok(held.row);
        }
        let (id, project) = self
            .reader()
            .find_project(slug)?
            .ok_or_else(|| unknown("project of an event"))?;
        touched.hold(slug, id, project);
        Ok(id)
    }

    fn touch_issue<'t>(
        &self,
        touched: &'t mut Touched,
        slug: &Slug,
        id: &IssueId,
    ) -> Write<&'t mut Held> {
        let address = (slug.clone(), id.clone());
        if !touched.issues.contains_key(&address) {
            let found = self
                .reader()
                .find_issue(slug, id)?
                .ok_or_else(|| unknown("issue of an event"))?;
            let issue = found.record.issue;
            let held = Held {
                row: found.row,
                parent_row: found.parent_row,
                before: issue.clone(),
                now: issue,
            };
            touched.issues.insert(address.clone(), held);
        }
        Ok(touched.issues.get_mut(&address).expect("inserted above"))
    }

    fn flush_issues(&mut self, touched: &mut Touched) -> Write<()> {
        for ((slug, _), held) in std::mem::take(&mut touched.issues) {
            if held.before != held.now {
                let project = self.touch_project(touched, &slug)?;
                self.update_issue(project, &held)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, touched: &mut Touched) -> Write<()> {
        self.flush_issues(touched)?;
        for (slug, held) in &touched.projects {
            if held.before != held.now {
                self.update_project(held.row, &held.now)?;
            }
            self.dirty(&Owner::Project(slug.clone()))?;
        }
        Ok(())
    }
}
