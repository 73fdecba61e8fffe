//! Writes a merged board of which ids, removals and values can come from another clone over the board that is there.
//! `absorb` adds and changes. What is in its way is renumbered or removed before.

use std::collections::{BTreeMap, HashSet};

use orchestra_board::{IssueId, Uid};
use rusqlite::params;

use super::{Write, Writing};
use crate::files::needs::Work as _;
use crate::merge::{BoardContents, IssueContents, ProjectContents};
use crate::reader::Reader;

/// Largest number of an id. Issues that exchange their ids are renumbered downwards from there for a moment.
const LAST_NUMBER: u64 = 999_999_999_999_999;

impl Writing<'_> {
    /// Brings the board from its present content to another one, which has the same issues by uid.
    pub(super) fn adopt_contents(
        &mut self,
        before: &BoardContents,
        after: &BoardContents,
    ) -> Write<()> {
        let is_cleared = self.clear_way(before, after)?;
        let cleared = match is_cleared {
            true => Some(Reader::new(self.connection).contents()?),
            false => None,
        };
        let mut before = cleared.unwrap_or_else(|| before.clone());
        for (slug, project) in &mut before.projects {
            // An id that an issue has is no alias while issues are written.
            if let Some(after) = after.projects.get(slug) {
                let aliases = &mut project.retired.aliases;
                aliases.retain(|(old, _)| !after.issues.contains_key(old));
            }
        }
        let after = BoardContents {
            usage: before.usage.clone(),
            hook_events: before.hook_events.clone(),
            ..after.clone()
        };
        self.absorb(&before, &after)
    }

    /// Removes what is gone and frees ids that other issues get. Returns whether it changed anything.
    fn clear_way(&mut self, before: &BoardContents, after: &BoardContents) -> Write<bool> {
        let mut is_changed = false;
        for (key, (path, body)) in &before.documents {
            if after.documents.get(key).is_none_or(|(_, new)| new != body) {
                self.remove_document(path)?;
                is_changed = true;
            }
        }
        for (slug, project) in &before.projects {
            let id = self.reader().project_id(slug)?;
            let Some(after) = after.projects.get(slug) else {
                self.delete_project(id, slug)?;
                is_changed = true;
                continue;
            };
            is_changed |= self.remove_records(id, project, after)?;
            is_changed |= self.remove_issues(id, project, after)?;
            is_changed |= self.exchange_ids(id, project, after)?;
        }
        is_changed |= self.exchange_keys(before, after)?;
        Ok(is_changed)
    }

    /// Removes plans, sessions and remembered texts that are gone, and texts that another one takes the place of.
    fn remove_records(
        &mut self,
        id: i64,
        before: &ProjectContents,
        after: &ProjectContents,
    ) -> Write<bool> {
        let slug = &before.project.slug;
        let mut is_changed = false;
        for (plan, _) in &before.plans {
            if after.plans.iter().all(|(other, _)| other.id != plan.id) {
                self.put_plan(id, plan, None)?;
                is_changed = true;
            }
        }
        for (name, session) in &before.sessions {
            if !after.sessions.contains_key(name) {
                self.remove_session(slug, &session.id)?;
                is_changed = true;
            }
        }
        let texts: BTreeMap<u64, &str> = after
            .chunks
            .iter()
            .map(|chunk| (chunk.id.number(), chunk.content.as_str()))
            .collect();
        for chunk in &before.chunks {
            if texts.get(&chunk.id.number()) != Some(&chunk.content.as_str()) {
                self.remove(id, slug, chunk.id)?;
                is_changed = true;
            }
        }
        Ok(is_changed)
    }

    /// Removes issues that are gone, or whose type changed, which is fixed in their rows.
    fn remove_issues(
        &mut self,
        id: i64,
        before: &ProjectContents,
        after: &ProjectContents,
    ) -> Write<bool> {
        let kinds: BTreeMap<Uid, _> = after
            .issues
            .values()
            .map(|contents| (contents.uid(), contents.issue.kind))
            .collect();
        let is_gone =
            |contents: &&IssueContents| kinds.get(&contents.uid()) != Some(&contents.issue.kind);
        let mut is_changed = false;
        for contents in before.issues.values().filter(is_gone) {
            let issue = &contents.issue.id;
            if self.has_issue(id, issue)? {
                self.delete_issue(id, &before.project.slug, issue, None)?;
            }
            is_changed = true;
        }
        Ok(is_changed)
    }

    /// Renumbers issues that have another id in the result. None of them is in the way of another one.
    fn exchange_ids(
        &mut self,
        id: i64,
        before: &ProjectContents,
        after: &ProjectContents,
    ) -> Write<bool> {
        let new: BTreeMap<Uid, &IssueId> = after
            .issues
            .values()
            .map(|contents| (contents.uid(), &contents.issue.id))
            .collect();
        let slug = &before.project.slug;
        let mut moves: Vec<(&IssueId, &IssueId)> = Vec::new();
        for contents in before.issues.values() {
            let old = &contents.issue.id;
            if let Some(new) = new.get(&contents.uid())
                && *new != old
                && self.has_issue(id, old)?
            {
                moves.push((old, new));
            }
        }
        let used: HashSet<&IssueId> = before.issues.keys().chain(after.issues.keys()).collect();
        let key = &after.project.key;
        let mut free = (1..=LAST_NUMBER)
            .rev()
            .map(|number| IssueId::of_project(key, number))
            .filter(|id| !used.contains(id));
        let mut waiting = Vec::new();
        for (old, new) in &moves {
            let Some(between) = free.next() else {
                break;
            };
            self.renumber(slug, old, &between)?;
            waiting.push((between, *new));
        }
        for (between, new) in waiting {
            self.renumber(slug, &between, new)?;
            self.remove_alias(id, &between)?;
        }
        Ok(!moves.is_empty())
    }

    /// Gives projects the keys of the result, which can be those of other projects until then.
    fn exchange_keys(&self, before: &BoardContents, after: &BoardContents) -> Write<bool> {
        let moves: Vec<_> = before
            .projects
            .iter()
            .filter_map(|(slug, project)| {
                let new = &after.projects.get(slug)?.project.key;
                (*new != project.project.key).then_some((slug, new))
            })
            .collect();
        for (slug, _) in &moves {
            self.execute(
                "UPDATE project SET key = ':' || id WHERE slug = ?1",
                [slug.as_str()],
            )?;
        }
        for (slug, key) in &moves {
            self.execute(
                "UPDATE project SET key = ?2 WHERE slug = ?1",
                [slug.as_str(), key.as_str()],
            )?;
        }
        Ok(!moves.is_empty())
    }

    /// Returns whether an issue has this id itself, and not as an alias.
    fn has_issue(&self, project: i64, id: &IssueId) -> Write<bool> {
        let found = self.find_number(
            "SELECT id FROM issue WHERE project = ?1 AND prefix = ?2 AND number = ?3",
            params![project, id.prefix(), id.number()],
        )?;
        Ok(found.is_some())
    }
}
