//! Writes a merged board over the board that it was merged from. Only the differences are written.

use std::collections::HashSet;

use orchestra_board::{Kind, Project, Uid};

use super::{Write, Writing};
use crate::files::needs::Work;
use crate::merge::{BoardContents, IssueContents, ProjectContents};
use crate::toon::project::Retired;
use crate::{ActionError, HookEventRecord};

impl Writing<'_> {
    /// Brings a board from one content to another.
    pub(crate) fn absorb(&mut self, before: &BoardContents, after: &BoardContents) -> Write<()> {
        for (slug, project) in &after.projects {
            self.absorb_project(before.projects.get(slug), project)?;
        }
        for (key, (path, body)) in &after.documents {
            if before.documents.contains_key(key) {
                continue;
            }
            match self.load_document(path, body, None) {
                Err(ActionError::Document(refusal)) => {
                    tracing::warn!(%refusal, path = path.as_str(), "skipped a document of another board");
                }
                other => other?,
            }
        }
        if before.usage != after.usage {
            self.load_usage(&after.usage)?;
        }
        if before.hook_events != after.hook_events {
            let events = after.hook_events.iter().map(|event| event.0.clone());
            self.load_hook_events(&events.collect::<Vec<HookEventRecord>>())?;
        }
        self.recount()
    }

    fn absorb_project(
        &mut self,
        before: Option<&ProjectContents>,
        after: &ProjectContents,
    ) -> Write<()> {
        if before == Some(after) {
            return Ok(());
        }
        let slug = &after.project.slug;
        let none = Retired::default();
        // Aliases need the issues that they lead to.
        let retired = before.map_or(&none, |before| &before.retired);
        self.load_project(&after.project, retired)?;
        let id = self.reader().project_id(slug)?;
        self.absorb_issues(id, before, after)?;
        self.load_project(&after.project, &after.retired)?;
        for stone in &after.retired.deleted {
            if !retired.deleted.contains(stone) {
                self.put_gone(id, stone.uid)?;
            }
        }
        self.absorb_texts(before, after)?;
        let chunks = before.map_or(&[][..], |before| before.chunks.as_slice());
        for chunk in &after.chunks {
            if !chunks.contains(chunk) {
                self.absorb_chunk(id, chunk)?;
            }
        }
        self.execute(
            "UPDATE project SET next_chunk = max(next_chunk, ?2) WHERE id = ?1",
            rusqlite::params![id, after.next_chunk],
        )?;
        for (name, session) in &after.sessions {
            let known = before.and_then(|before| before.sessions.get(name));
            if known != Some(session) {
                self.load_session(session)?;
            }
        }
        Ok(())
    }

    fn absorb_issues(
        &mut self,
        project: i64,
        before: Option<&ProjectContents>,
        after: &ProjectContents,
    ) -> Write<()> {
        let mut changed: Vec<&IssueContents> = after
            .issues
            .iter()
            .filter(|(id, contents)| {
                before.and_then(|before| before.issues.get(*id)) != Some(*contents)
            })
            .map(|(_, contents)| contents)
            .collect();
        // Parents first.
        orchestra_sort::sort_by_key(&mut changed, |contents| match contents.issue.kind {
            Kind::Epic => 0,
            Kind::Story => 1,
            Kind::Task | Kind::Bug | Kind::Hotfix => 2,
        });
        for IssueContents { issue, events } in changed {
            self.load_issue(issue)?;
            self.load_history(&issue.project, &issue.id, events)?;
        }
        let remaining: HashSet<Uid> = after.issues.values().map(IssueContents::uid).collect();
        for (id, contents) in before.into_iter().flat_map(|before| &before.issues) {
            if !remaining.contains(&contents.uid()) {
                self.delete_issue(project, &after.project.slug, id, None)?;
            }
        }
        Ok(())
    }

    fn absorb_texts(
        &mut self,
        before: Option<&ProjectContents>,
        after: &ProjectContents,
    ) -> Write<()> {
        let Project {
            slug, prd_origin, ..
        } = &after.project;
        if before.is_none_or(|before| before.prd != after.prd) {
            self.load_prd(slug, &after.prd, *prd_origin)?;
        }
        if before.is_none_or(|before| before.questionnaire != after.questionnaire) {
            self.load_prd_session(slug, after.questionnaire.as_ref())?;
        }
        if before.is_none_or(|before| before.readme != after.readme) {
            self.load_readme(slug, after.readme.as_deref())?;
        }
        if before.is_none_or(|before| before.requests != after.requests) {
            self.load_requests(slug, &after.requests)?;
        }
        let plans = before.map_or(&[][..], |before| before.plans.as_slice());
        for plan in &after.plans {
            if !plans.contains(plan) {
                self.load_plan(&plan.0, Some(&plan.1))?;
            }
        }
        Ok(())
    }
}
