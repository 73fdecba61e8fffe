//! A decision in the making: what is stored, seen through the events decided so far. Keeps parents
//! in step with their children, whatever the event.

use std::collections::HashMap;

use super::Decision;
use crate::{
    Cause, Change, Context, DecideError, Event, Issue, IssueId, IssueRef, NextTask, OwnState,
    Project, Refusal, Slug, State, Tally, UsageEntry, View, parent_state,
};

pub(super) type Result<T> = std::result::Result<T, DecideError>;

type Address = (Slug, IssueId);

pub(super) struct Work<'a> {
    pub(super) view: &'a dyn View,
    pub(super) cx: &'a Context,
    projects: HashMap<Slug, Option<Project>>,
    issues: HashMap<Address, Option<Issue>>,
    tallies: HashMap<Address, Tally>,
    decision: Decision,
    /// The parent whose state the command itself sets, whatever it does so by.
    asked: Option<Address>,
}

impl<'a> Work<'a> {
    pub(super) fn new(view: &'a dyn View, cx: &'a Context) -> Self {
        let decision = Decision {
            events: Vec::new(),
            subjects: Vec::new(),
            project: None,
            next: None,
        };
        Self {
            view,
            cx,
            projects: HashMap::new(),
            issues: HashMap::new(),
            tallies: HashMap::new(),
            decision,
            asked: None,
        }
    }

    pub(super) fn finish(self) -> Decision {
        self.decision
    }

    pub(super) fn subject(&mut self, issue: &Issue) {
        self.decision
            .subjects
            .push((issue.project.clone(), issue.id.clone()));
    }

    /// Has the history say that the parent's state was asked for, though it follows from what
    /// happens below it.
    pub(super) fn asked_for(&mut self, parent: &Issue) {
        self.asked = Some((parent.project.clone(), parent.id.clone()));
    }

    pub(super) fn about_project(&mut self, slug: &Slug) {
        self.decision.project = Some(slug.clone());
    }

    pub(super) fn found(&mut self, next: NextTask) {
        self.decision.next = Some(next);
    }

    /// The project, or the refusal that there is none.
    pub(super) fn project(&mut self, slug: &Slug) -> Result<Project> {
        let found = match self.projects.get(slug) {
            Some(known) => known.clone(),
            None => {
                let loaded = self.view.project(slug)?;
                self.projects.insert(slug.clone(), loaded.clone());
                loaded
            }
        };
        found.ok_or_else(|| {
            Refusal::NoProject {
                project: slug.clone(),
            }
            .into()
        })
    }

    /// The issue, if there is one.
    pub(super) fn find(&mut self, project: &Slug, id: &IssueId) -> Result<Option<Issue>> {
        if let Some(known) = self.issues.get(&(project.clone(), id.clone())) {
            return Ok(known.clone());
        }
        let loaded = self.view.issue(project, id)?;
        if let Some(issue) = &loaded {
            // An alias leads to the issue under its present id, which may be known already.
            let address = (project.clone(), issue.id.clone());
            return Ok(self.issues.entry(address).or_insert(loaded).clone());
        }
        self.issues.insert((project.clone(), id.clone()), None);
        Ok(None)
    }

    /// The issue, which the board itself says is there.
    fn known(&mut self, project: &Slug, id: &IssueId) -> Result<Issue> {
        self.find(project, id)?
            .ok_or_else(|| Refusal::no_issue("issue", project, id).into())
    }

    /// The issue that a caller names, after its ancestors were checked.
    pub(super) fn target(&mut self, target: &IssueRef) -> Result<Issue> {
        self.project(&target.project)?;
        let Some(issue) = self.find(&target.project, &target.id)? else {
            return Err(Refusal::no_issue("issue", &target.project, &target.id).into());
        };
        let (story, epic) = self.ancestors(&issue)?;
        self.check_ancestor(&issue, "story", target.story.as_ref(), story.as_ref())?;
        self.check_ancestor(&issue, "epic", target.epic.as_ref(), epic.as_ref())?;
        Ok(issue)
    }

    /// The task that a caller names.
    pub(super) fn target_task(&mut self, target: &IssueRef) -> Result<Issue> {
        let issue = self.target(target)?;
        if issue.kind.is_leaf() {
            Ok(issue)
        } else {
            Err(Refusal::wrong_kind(&issue, "task").into())
        }
    }

    fn ancestors(&mut self, issue: &Issue) -> Result<(Option<IssueId>, Option<IssueId>)> {
        let Some(parent) = &issue.parent else {
            return Ok((None, None));
        };
        if issue.kind.is_leaf() {
            let epic = self.known(&issue.project, parent)?.parent;
            return Ok((Some(parent.clone()), epic));
        }
        Ok((None, Some(parent.clone())))
    }

    pub(super) fn check_ancestor(
        &mut self,
        issue: &Issue,
        what: &'static str,
        given: Option<&IssueId>,
        actual: Option<&IssueId>,
    ) -> Result<()> {
        let Some(given) = given else { return Ok(()) };
        let Some(actual) = actual else { return Ok(()) };
        if given == actual
            || self
                .find(&issue.project, given)?
                .is_some_and(|found| found.id == *actual)
        {
            return Ok(());
        }
        let (id, given, actual) = (issue.id.clone(), given.clone(), actual.clone());
        Err(Refusal::WrongParent {
            id,
            what,
            given,
            actual,
        }
        .into())
    }

    pub(super) fn tally(&mut self, project: &Slug, parent: &IssueId) -> Result<&mut Tally> {
        let address = (project.clone(), parent.clone());
        if !self.tallies.contains_key(&address) {
            let loaded = self.view.tally(project, parent)?;
            self.tallies.insert(address.clone(), loaded);
        }
        Ok(self.tallies.get_mut(&address).expect("inserted above"))
    }

    pub(super) fn emit_workspace(&mut self, change: Change) {
        self.push(None, None, change);
    }

    /// A request to a model was recorded. Neither its project nor its issue changes by it.
    pub(super) fn emit_usage(&mut self, entry: UsageEntry) {
        let of = entry.of.clone();
        let (project, issue) = of.map_or((None, None), |of| (Some(of.project), of.issue));
        self.push(project, issue, Change::UsageRecorded(entry));
    }

    /// Something happened to a project as a whole.
    pub(super) fn emit_project(&mut self, slug: &Slug, change: Change) {
        if let Change::ProjectCreated(project) = &change {
            self.projects
                .insert(slug.clone(), Some((**project).clone()));
        }
        let at = self.cx.now;
        match self.projects.get_mut(slug) {
            Some(known) if matches!(change, Change::ProjectDeleted) => *known = None,
            Some(Some(project)) => project.apply(&change, at),
            _ => {}
        }
        self.push(Some(slug.clone()), None, change);
    }

    /// Something happened to an issue; its ancestors follow.
    pub(super) fn emit(&mut self, issue: &Issue, change: Change) -> Result<()> {
        let project = issue.project.clone();
        let at = self.cx.now;
        let before = match &change {
            Change::IssueCreated(_) => None,
            _ => Some(self.known(&project, &issue.id)?),
        };
        let after = match (&change, &before) {
            (Change::IssueCreated(created), _) => Some((**created).clone()),
            (Change::IssueDeleted, _) => None,
            (_, Some(before)) => {
                let mut after = before.clone();
                after.apply(&change, at);
                Some(after)
            }
            (_, None) => None,
        };
        if matches!(change, Change::IssueCreated(_))
            && let Some(Some(known)) = self.projects.get_mut(&project)
        {
            known.apply(&change, at);
        }
        let own_changed = matches!(change, Change::OwnStateChanged { .. });
        self.count(before.as_ref(), after.as_ref())?;
        self.issues
            .insert((project.clone(), issue.id.clone()), after);
        self.push(Some(project.clone()), Some(issue.id.clone()), change);

        let parents = [
            before.and_then(|issue| issue.parent),
            self.find(&project, &issue.id)?.and_then(|i| i.parent),
        ];
        for parent in parents.iter().flatten() {
            self.refresh(&project, parent, Cause::Children)?;
        }
        if own_changed {
            self.refresh(&project, &issue.id, Cause::Command)?;
        }
        Ok(())
    }

    /// Sets the state of an issue without evidence or a reason in words.
    pub(super) fn set_state(&mut self, issue: &Issue, to: State, cause: Cause) -> Result<()> {
        let change = Change::StateChanged {
            from: issue.state,
            to,
            cause,
            evidence: None,
            reason: None,
        };
        self.emit(issue, change)
    }

    /// Sets the own state of a parent without children, with the reason why its state follows.
    pub(super) fn set_own(&mut self, issue: &Issue, own: OwnState, cause: Cause) -> Result<()> {
        let mut after = self.known(&issue.project, &issue.id)?;
        let change = Change::OwnStateChanged { own };
        after.apply(&change, self.cx.now);
        self.issues
            .insert((issue.project.clone(), issue.id.clone()), Some(after));
        self.push(Some(issue.project.clone()), Some(issue.id.clone()), change);
        self.refresh(&issue.project, &issue.id, cause)
    }

    fn count(&mut self, before: Option<&Issue>, after: Option<&Issue>) -> Result<()> {
        let place = |issue: Option<&Issue>| issue.map(|issue| (issue.parent.clone(), issue.state));
        if place(before) == place(after) {
            return Ok(());
        }
        if let Some((issue, parent)) = before.and_then(|issue| Some((issue, issue.parent.clone()?)))
        {
            self.tally(&issue.project, &parent)?.remove(issue.state);
        }
        if let Some((issue, parent)) = after.and_then(|issue| Some((issue, issue.parent.clone()?)))
        {
            self.tally(&issue.project, &parent)?.add(issue.state);
        }
        Ok(())
    }

    fn refresh(&mut self, project: &Slug, id: &IssueId, cause: Cause) -> Result<()> {
        let Some(parent) = self.find(project, id)? else {
            return Ok(());
        };
        if parent.kind.is_leaf() {
            return Ok(());
        }
        let to = parent_state(self.tally(project, id)?, parent.own);
        if to == parent.state {
            return Ok(());
        }
        let asked = self
            .asked
            .as_ref()
            .is_some_and(|(slug, asked)| slug == project && *asked == parent.id);
        let cause = if asked { Cause::Command } else { cause };
        self.set_state(&parent, to, cause)
    }

    fn push(&mut self, project: Option<Slug>, issue: Option<IssueId>, change: Change) {
        let Context {
            now: at,
            agent,
            source,
        } = self.cx.clone();
        self.decision.events.push(Event {
            at,
            project,
            issue,
            agent,
            source,
            change,
            uid: None,
        });
    }
}
