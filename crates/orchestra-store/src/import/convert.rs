//! From the earlier program's files to the board's own things.

mod issues;
mod lost;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use orchestra_board::{
    Body, Change, Event, Issue, IssueId, Key, PrdOrigin, PrdSession, Project, Request, Slug,
    Source, Timestamp, Title,
};

use super::Tree;
use super::yaml::Fields;
use crate::io::EntryKind;
use crate::{Chunk, HookEventRecord, PlanRecord, SessionRecord, UsageRecord};
use lost::{HOOK_EVENT, HOOK_EVENTS, Lost, PROJECT, ROW, USAGE, USAGE_REQUEST, USAGE_SESSION};
use records::{hook_events, usage};

/// What the earlier program left in a workspace.
#[derive(Default)]
pub(super) struct OldWorkspace {
    pub(super) projects: Vec<OldProject>,
    pub(super) memories: Vec<OldMemory>,
    pub(super) usage: Option<UsageRecord>,
    pub(super) hook_events: Vec<HookEventRecord>,
    /// Old files that were understood, and so may go.
    pub(super) files: Vec<String>,
    pub(super) remarks: Vec<String>,
    /// What has no place on the board, apart from projects and memories.
    pub(super) lost: Lost,
    /// What was left as it is, and why.
    pub(super) left: Vec<String>,
}

/// What it left of one project.
pub(super) struct OldProject {
    pub(super) project: Project,
    pub(super) prd: String,
    pub(super) prd_session: Option<PrdSession>,
    pub(super) issues: Vec<Issue>,
    pub(super) requests: Vec<Request>,
    pub(super) chunks: Vec<Chunk>,
    pub(super) sessions: Vec<SessionRecord>,
    pub(super) plans: Vec<(PlanRecord, Body)>,
    pub(super) files: Vec<String>,
    pub(super) lost: Lost,
}

/// What it remembered of a project whose other files are not its own.
pub(super) struct OldMemory {
    pub(super) slug: Slug,
    pub(super) chunks: Vec<Chunk>,
    pub(super) sessions: Vec<SessionRecord>,
    pub(super) files: Vec<String>,
    pub(super) lost: Lost,
}

/// The event that an imported issue begins with.
pub(super) fn made(issue: &Issue) -> Event {
    Event {
        at: issue.created_at,
        project: Some(issue.project.clone()),
        issue: Some(issue.id.clone()),
        agent: None,
        source: Source::Import,
        change: Change::IssueCreated(Box::new(issue.clone())),
        uid: None,
    }
}

/// Why a project that the board has already is left.
pub(super) fn is_there(slug: &Slug) -> String {
    format!(
        "{slug}: a project of this name is on the board already, so its old files stay; delete that project or rename this directory"
    )
}

impl OldWorkspace {
    pub(super) fn read(tree: &Tree, now: Timestamp) -> io::Result<Self> {
        let mut old = Self::default();
        for name in tree.names("", EntryKind::Directory)? {
            let Ok(slug) = Slug::parse(&name) else {
                continue;
            };
            let projects = old.projects.len();
            let all = std::mem::take(&mut old.lost);
            old.read_project(tree, &slug, now)?;
            if old.projects.len() == projects {
                old.lost = Lost::default();
                old.read_memory(tree, &slug, now)?;
            }
            old.lost = all;
        }
        if let Some(fields) = old.parse(tree, "usage.toon", "sessions")? {
            old.usage = Some(usage(&fields));
            old.lost.look("usage.toon", &USAGE, &fields);
            for session in fields.rows("sessions") {
                old.lost.look("usage.toon", &USAGE_SESSION, &session);
                let requests = session.rows("requests");
                old.lost
                    .look_at_rows("usage.toon", &USAGE_REQUEST, &requests);
            }
        }
        let path = ".events/hook-events.toon";
        if let Some(fields) = old.parse(tree, path, "events")? {
            old.hook_events = hook_events(&fields, now);
            old.lost.look(path, &HOOK_EVENTS, &fields);
            let rows = fields.rows("events");
            old.lost.look_at_rows(path, &HOOK_EVENT, &rows);
            if rows.len() > old.hook_events.len() {
                let what = "all without `event_type`".to_owned();
                old.lost.note(path, &HOOK_EVENT, what);
            }
            if !old.hook_events.is_empty() {
                old.remarks.push(
                    "hook events were taken over without their data, which was never masked"
                        .to_owned(),
                );
            }
        }
        Ok(old)
    }

    /// Whether there is nothing that can be taken over.
    pub(super) fn is_empty(&self) -> bool {
        self.projects.is_empty() && self.memories.is_empty() && self.files.is_empty()
    }

    /// Leaves what was remembered of projects that the board does not have.
    pub(super) fn leave_memories(&mut self, there: &[Slug]) {
        let (taken, left) = std::mem::take(&mut self.memories)
            .into_iter()
            .partition(|memory| there.contains(&memory.slug));
        self.memories = taken;
        for OldMemory { slug, files, .. } in left {
            let of_it = |why: &String| {
                why.strip_prefix(slug.as_str())
                    .is_some_and(|rest| rest.starts_with('/'))
            };
            // A project that is left has a reason already.
            if !self.left.iter().any(of_it) {
                let path = files.first().map_or(slug.as_str(), String::as_str);
                let why =
                    format!("is of no project on the board; create `{slug}`, then import again");
                self.left.push(format!("{path} {why}"));
            }
        }
    }

    /// Leaves projects that the board has already, with all of their files.
    pub(super) fn leave_projects(&mut self, there: &[Slug]) {
        let is_left = |old: &OldProject| there.contains(&old.project.slug);
        let (left, taken) = std::mem::take(&mut self.projects)
            .into_iter()
            .partition(is_left);
        self.projects = taken;
        for OldProject { project, files, .. } in left {
            let files: BTreeSet<String> = files.into_iter().collect();
            self.files.retain(|path| !files.contains(path));
            self.left.push(is_there(&project.slug));
        }
    }

    /// Notes an old file that is left as it is; `why` follows its path in the sentence.
    fn leave(&mut self, path: &str, why: &str) {
        self.left.push(format!("{path} {why}"));
    }

    /// What to set aside before anything is touched.
    pub(super) fn places(&self) -> Vec<String> {
        let projects = self
            .projects
            .iter()
            .map(|project| project.project.slug.to_string());
        let rest = self
            .files
            .iter()
            .filter(|path| path.as_str() == "usage.toon" || path.starts_with('.'));
        let memories = self.memories.iter().flat_map(|memory| &memory.files);
        projects.chain(rest.chain(memories).cloned()).collect()
    }

    /// Parses an old file that has a certain field, and remembers that it may go.
    fn parse(&mut self, tree: &Tree, path: &str, key: &str) -> io::Result<Option<Fields>> {
        self.parse_if(tree, path, |fields| fields.has(key))
    }

    fn parse_if(
        &mut self,
        tree: &Tree,
        path: &str,
        is_ours: impl Fn(&Fields) -> bool,
    ) -> io::Result<Option<Fields>> {
        let Some(text) = tree.text(path)? else {
            return Ok(None);
        };
        match Fields::parse(&text).filter(is_ours) {
            Some(fields) => {
                self.files.push(path.to_owned());
                Ok(Some(fields))
            }
            None => {
                if !text.trim_start().starts_with("schema:") {
                    self.leave(path, "is no YAML of orchestra-mcp");
                }
                Ok(None)
            }
        }
    }

    /// Reads what was remembered of a project, apart from its other files. What is no file of the
    /// earlier program is left to the board.
    fn read_memory(&mut self, tree: &Tree, slug: &Slug, now: Timestamp) -> io::Result<()> {
        let (before, left) = (self.files.len(), self.left.len());
        let chunks = self.read_chunks(tree, slug, now)?;
        let sessions = self.read_sessions(tree, slug, now)?;
        let files = self.files.split_off(before);
        self.left.truncate(left);
        if !chunks.is_empty() || !sessions.is_empty() {
            self.memories.push(OldMemory {
                slug: slug.clone(),
                chunks,
                sessions,
                files,
                lost: std::mem::take(&mut self.lost),
            });
        }
        Ok(())
    }

    fn read_project(&mut self, tree: &Tree, slug: &Slug, now: Timestamp) -> io::Result<()> {
        let status = format!("{slug}/project-status.toon");
        let (before, left_before, remarks_before) =
            (self.files.len(), self.left.len(), self.remarks.len());
        let Some(fields) = self.parse_if(tree, &status, |_| true)? else {
            return Ok(());
        };
        let name = fields
            .title("project")
            .or_else(|| Title::cut(slug.as_str()))
            .expect("a slug is a title");
        self.lost.look(&status, &PROJECT, &fields);
        self.lost
            .value(&status, &PROJECT, &fields, "status", |text| {
                text == "active"
            });
        for list in ["epics", "stories", "tasks"] {
            self.lost.look_at_rows(&status, &ROW, &fields.rows(list));
        }
        let created_at = fields.time("created_at").unwrap_or(now);
        let issues = self.read_issues(tree, slug, created_at)?;
        let mut project = Project::new(
            slug.clone(),
            key_of(&issues, &name),
            name,
            fields.body("description"),
            created_at,
        );
        project.updated_at = fields.time("updated_at");
        let prd = tree.text(&format!("{slug}/prd.md"))?;
        project.prd_origin = if prd.is_some() {
            PrdOrigin::Written
        } else {
            PrdOrigin::Stub
        };
        let prd_session = self.read_prd_session(tree, &mut project)?;
        let requests = self.read_requests(tree, slug, created_at)?;
        project.next_request = requests
            .iter()
            .map(|request| request.number + 1)
            .max()
            .unwrap_or(1);
        let chunks = self.read_chunks(tree, slug, created_at)?;
        let sessions = self.read_sessions(tree, slug, created_at)?;
        let plans = self.read_plans(tree, slug, created_at)?;
        let prd = prd.unwrap_or_else(|| project.stub_prd());
        if self.left.len() > left_before {
            // All of a project or nothing: what is mended can be taken over then, in its place.
            self.files.truncate(before);
            self.remarks.truncate(remarks_before);
            return Ok(());
        }
        let files = self.files[before..].to_vec();
        let mut old = OldProject {
            project,
            prd,
            prd_session,
            issues,
            requests,
            chunks,
            sessions,
            plans,
            files,
            lost: std::mem::take(&mut self.lost),
        };
        old.project.next_issue = old.next_issue();
        old.project.next_bug = old.next_number(IssueId::BUG);
        self.projects.push(old);
        Ok(())
    }
}

impl OldProject {
    /// The number of the next issue under the project's key.
    pub(super) fn next_issue(&self) -> u64 {
        self.next_number(self.project.key.as_str())
    }

    fn next_number(&self, prefix: &str) -> u64 {
        let same = self
            .issues
            .iter()
            .filter(|issue| issue.id.prefix() == prefix);
        same.map(|issue| issue.id.number() + 1).max().unwrap_or(1)
    }
}

/// The key that most of the ids have, or else the best for the name.
fn key_of(issues: &[Issue], name: &Title) -> Key {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for issue in issues {
        *counts.entry(issue.id.prefix()).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .filter_map(|(prefix, count)| Some((count, Key::parse(prefix).ok()?)));
    let most = most.max_by_key(|(count, _)| *count).map(|(_, key)| key);
    most.or_else(|| Key::candidates(name.as_str()).next())
        .expect("there are keys without end for every name")
}
