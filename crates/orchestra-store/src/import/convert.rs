//! From the earlier program's files to the board's own things.

use std::collections::{BTreeMap, HashSet};
use std::io;

use orchestra_board::{
    Answer, Body, Change, Cost, Event, Issue, IssueId, Key, Kind, OwnState, PlanId, PrdOrigin, PrdSession, PrdStatus,
    Priority, Project, QUESTIONS, Request, RequestKind, RequestStatus, SessionId, Slug, Source, State, Tally,
    Timestamp, Title, UsageSession, UsageTotals, parent_state,
};

use super::Tree;
use super::yaml::{self, Fields};
use crate::io::EntryKind;
use crate::{
    Chunk, ChunkId, HookEventRecord, PlanRecord, SessionEvent, SessionRecord, UsageRecord, UsageRequest,
    UsageSessionRecord,
};

/// What the earlier program left in a workspace.
#[derive(Default)]
pub(super) struct OldWorkspace {
    pub(super) projects: Vec<OldProject>,
    pub(super) usage: Option<UsageRecord>,
    pub(super) hook_events: Vec<HookEventRecord>,
    /// Old files that were understood, and so may go.
    pub(super) files: Vec<String>,
    pub(super) remarks: Vec<String>,
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
    }
}

impl OldWorkspace {
    pub(super) fn read(tree: &Tree, now: Timestamp) -> io::Result<Self> {
        let mut old = Self::default();
        for name in tree.names("", EntryKind::Directory)? {
            let Ok(slug) = Slug::parse(&name) else { continue };
            old.read_project(tree, &slug, now)?;
        }
        if let Some(fields) = old.parse(tree, "usage.toon", "sessions")? {
            old.usage = Some(usage(&fields));
        }
        if let Some(fields) = old.parse(tree, ".events/hook-events.toon", "events")? {
            old.hook_events = hook_events(&fields, now);
            if !old.hook_events.is_empty() {
                old.remarks.push("hook events were taken over without their data, which was never masked".to_owned());
            }
        }
        Ok(old)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.projects.is_empty() && self.files.is_empty()
    }

    /// What to set aside before anything is touched.
    pub(super) fn places(&self) -> Vec<String> {
        let projects = self.projects.iter().map(|project| project.project.slug.to_string());
        let rest = self.files.iter().filter(|path| path.as_str() == "usage.toon" || path.starts_with('.'));
        projects.chain(rest.cloned()).collect()
    }

    /// Parses an old file that has a certain field, and remembers that it may go.
    fn parse(&mut self, tree: &Tree, path: &str, key: &str) -> io::Result<Option<Fields>> {
        let Some(text) = tree.text(path)? else { return Ok(None) };
        match Fields::parse(&text).filter(|fields| fields.has(key)) {
            Some(fields) => {
                self.files.push(path.to_owned());
                Ok(Some(fields))
            }
            None => {
                if !text.trim_start().starts_with("schema:") {
                    self.remarks.push(format!("{path} could not be read and was left as it is"));
                }
                Ok(None)
            }
        }
    }

    fn read_project(&mut self, tree: &Tree, slug: &Slug, now: Timestamp) -> io::Result<()> {
        let status = format!("{slug}/project-status.toon");
        let Some(text) = tree.text(&status)? else { return Ok(()) };
        let Some(fields) = Fields::parse(&text) else { return Ok(()) };
        let before = self.files.len();
        self.files.push(status);
        let name = fields.title("project").or_else(|| Title::cut(slug.as_str())).expect("a slug is a title");
        let created_at = fields.time("created_at").unwrap_or(now);
        let issues = self.read_issues(tree, slug, created_at)?;
        let mut project = Project::new(slug.clone(), key_of(&issues, &name), name, fields.body("description"), created_at);
        project.updated_at = fields.time("updated_at");
        let prd = tree.text(&format!("{slug}/prd.md"))?;
        project.prd_origin = if prd.is_some() { PrdOrigin::Written } else { PrdOrigin::Stub };
        let prd_session = self.read_prd_session(tree, &mut project)?;
        let requests = self.read_requests(tree, slug, created_at)?;
        project.next_request = requests.iter().map(|request| request.number + 1).max().unwrap_or(1);
        let chunks = self.read_chunks(tree, slug, created_at)?;
        let sessions = self.read_sessions(tree, slug, created_at)?;
        let plans = self.read_plans(tree, slug, created_at)?;
        let prd = prd.unwrap_or_else(|| project.stub_prd());
        let files = self.files[before..].to_vec();
        let mut old =
            OldProject { project, prd, prd_session, issues, requests, chunks, sessions, plans, files };
        old.project.next_issue = old.next_issue();
        old.project.next_bug = old.next_number(IssueId::BUG);
        self.projects.push(old);
        Ok(())
    }

    fn read_issues(&mut self, tree: &Tree, slug: &Slug, at: Timestamp) -> io::Result<Vec<Issue>> {
        let mut read = Issues { slug: slug.clone(), at, taken: HashSet::new(), renamed: Vec::new() };
        let mut all = Vec::new();
        let epics = format!("{slug}/epics");
        for epic in tree.names(&epics, EntryKind::Directory)? {
            let path = format!("{epics}/{epic}");
            let Some(mut parent) = self.read_issue(tree, &format!("{path}/epic.toon"), &mut read, Kind::Epic, None)? else { continue };
            let (mut stories, mut below) = (Vec::new(), Vec::new());
            for story in tree.names(&format!("{path}/stories"), EntryKind::Directory)? {
                let path = format!("{path}/stories/{story}");
                let above = Some(&parent.id);
                let Some(mut story) = self.read_issue(tree, &format!("{path}/story.toon"), &mut read, Kind::Story, above)? else { continue };
                let mut tasks = Vec::new();
                for task in tree.names(&format!("{path}/tasks"), EntryKind::File)? {
                    if task.ends_with(".toon") {
                        let path = format!("{path}/tasks/{task}");
                        tasks.extend(self.read_issue(tree, &path, &mut read, Kind::Task, Some(&story.id))?);
                    }
                }
                follow(&mut story, &tasks);
                below.append(&mut tasks);
                stories.push(story);
            }
            follow(&mut parent, &stories);
            all.push(parent);
            all.append(&mut stories);
            all.append(&mut below);
        }
        self.remarks.append(&mut read.renamed);
        Ok(all)
    }

    fn read_issue(
        &mut self,
        tree: &Tree,
        path: &str,
        read: &mut Issues,
        place: Kind,
        parent: Option<&IssueId>,
    ) -> io::Result<Option<Issue>> {
        let Some(fields) = self.parse(tree, path, "id")? else { return Ok(None) };
        let Some(id) = fields.text("id").and_then(|id| IssueId::parse(&id).ok()) else {
            self.files.pop();
            self.remarks.push(format!("{path} has no id that can be kept, and was left as it is"));
            return Ok(None);
        };
        Ok(Some(read.issue(path, &fields, id, place, parent.cloned())))
    }

    fn read_prd_session(&mut self, tree: &Tree, project: &mut Project) -> io::Result<Option<PrdSession>> {
        let path = format!("{}/prd-session.toon", project.slug);
        let Some(fields) = self.parse(tree, &path, "status")? else { return Ok(None) };
        let status = fields.text("status").and_then(|text| PrdStatus::parse(&text)).unwrap_or(PrdStatus::InProgress);
        let mut session = PrdSession::new(project.slug.clone(), project.name.clone(), status);
        session.current = usize::try_from(fields.number("current_index")).unwrap_or_default().min(QUESTIONS.len());
        // Of two answers to one question the later holds.
        let mut answers = BTreeMap::new();
        for row in fields.rows("answers") {
            let key = row.text("question").unwrap_or_default();
            if let Some(question) = QUESTIONS.iter().position(|question| question.key == key) {
                answers.insert(question, Answer { question, text: row.body("answer") });
            }
        }
        session.answers = answers.into_values().collect();
        session.phases = fields.texts("phases").iter().filter_map(|slug| Slug::parse(slug).ok()).collect();
        let parent = fields.text("parent_slug").and_then(|slug| Slug::parse(&slug).ok());
        project.phase_of = parent.zip(u32::try_from(fields.number("phase")).ok().filter(|phase| *phase > 0));
        Ok(Some(session))
    }

    fn read_requests(&mut self, tree: &Tree, slug: &Slug, at: Timestamp) -> io::Result<Vec<Request>> {
        let Some(fields) = self.parse(tree, &format!("{slug}/requests.toon"), "requests")? else { return Ok(Vec::new()) };
        let request = |(number, row): (u64, Fields)| Request {
            number,
            kind: row.text("type").and_then(|text| RequestKind::parse(&text)).unwrap_or(RequestKind::Feature),
            description: row.body("description"),
            status: RequestStatus::New,
            at: row.time("date").unwrap_or(at),
        };
        Ok((1..).zip(fields.rows("requests")).map(request).collect())
    }

    fn read_chunks(&mut self, tree: &Tree, slug: &Slug, at: Timestamp) -> io::Result<Vec<Chunk>> {
        let Some(fields) = self.parse(tree, &format!("{slug}/.memory/chunks.toon"), "chunks")? else { return Ok(Vec::new()) };
        let mut seen = HashSet::new();
        let rows = fields.rows("chunks").into_iter().filter(|row| seen.insert(row.body("content")));
        let chunk = |(number, row): (u64, Fields)| Chunk {
            id: ChunkId::new(number),
            project: slug.clone(),
            content: row.body("content"),
            summary: row.body("summary"),
            source: row.label("source"),
            source_id: row.label("source_id"),
            tags: row.texts("tags").iter().filter_map(|tag| yaml::label(tag)).take(32).collect(),
            created_at: row.time("created_at").unwrap_or(at),
        };
        Ok((1..).zip(rows).map(chunk).collect())
    }

    fn read_sessions(&mut self, tree: &Tree, slug: &Slug, at: Timestamp) -> io::Result<Vec<SessionRecord>> {
        let directory = format!("{slug}/.memory/sessions");
        let mut sessions = Vec::new();
        for name in tree.names(&directory, EntryKind::File)? {
            let path = format!("{directory}/{name}");
            if name == "index.toon" {
                self.parse(tree, &path, "sessions")?;
                continue;
            }
            let Some(id) = name.strip_suffix(".toon").and_then(|name| SessionId::parse(name).ok()) else { continue };
            let Some(fields) = self.parse(tree, &path, "session_id")? else { continue };
            let started_at = fields.time("started_at").unwrap_or(at);
            let event = |row: Fields| SessionEvent {
                kind: row.label("type").or_else(|| yaml::label("note")).expect("`note` is a label"),
                summary: row.body("summary"),
                at: row.time("timestamp").unwrap_or(started_at),
            };
            sessions.push(SessionRecord {
                project: slug.clone(),
                id,
                summary: fields.body("summary"),
                events: fields.rows("events").into_iter().map(event).take(1_000).collect(),
                started_at,
                ended_at: fields.time("ended_at").unwrap_or(started_at),
            });
        }
        Ok(sessions)
    }

    fn read_plans(&mut self, tree: &Tree, slug: &Slug, at: Timestamp) -> io::Result<Vec<(PlanRecord, Body)>> {
        let mut plans: Vec<(PlanRecord, Body)> = Vec::new();
        for name in tree.names(&format!("{slug}/plans"), EntryKind::File)? {
            let path = format!("{slug}/plans/{name}");
            let Some(text) = tree.text(&path)?.filter(|_| name.ends_with(".md")) else { continue };
            let (front, content) = text
                .strip_prefix("---\n")
                .and_then(|rest| rest.split_once("\n---\n"))
                .unwrap_or(("", text.as_str()));
            let field = |key: &str| front.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            let stem = name.trim_end_matches(".md");
            let title = Title::cut(field("title").unwrap_or(stem)).or_else(|| Title::cut("Plan")).expect("`Plan` is a title");
            let number = u64::try_from(plans.len()).unwrap_or_default() + 1;
            let id = PlanId::parse(stem).ok().or_else(|| PlanId::of_title(title.as_str()));
            let record = PlanRecord {
                project: slug.clone(),
                id: id.unwrap_or_else(|| PlanId::numbered(number)),
                title,
                issue: field("issue_id").and_then(|id| IssueId::parse(id).ok()),
                created_at: field("created").and_then(|time| Timestamp::parse(time).ok()).unwrap_or(at),
                updated_at: None,
            };
            if plans.iter().all(|(known, _)| known.id != record.id) {
                plans.push((record, yaml::body(content.trim_start_matches('\n'))));
                self.files.push(path);
            }
        }
        Ok(plans)
    }
}

impl OldProject {
    /// The number of the next issue under the project's key.
    pub(super) fn next_issue(&self) -> u64 {
        self.next_number(self.project.key.as_str())
    }

    fn next_number(&self, prefix: &str) -> u64 {
        let same = self.issues.iter().filter(|issue| issue.id.prefix() == prefix);
        same.map(|issue| issue.id.number() + 1).max().unwrap_or(1)
    }
}

/// The issues of one project, as they are read.
struct Issues {
    slug: Slug,
    at: Timestamp,
    taken: HashSet<IssueId>,
    renamed: Vec<String>,
}

impl Issues {
    fn issue(&mut self, path: &str, fields: &Fields, id: IssueId, place: Kind, parent: Option<IssueId>) -> Issue {
        let id = self.free_id(path, id);
        let kind = fields.text("type").and_then(|text| Kind::parse(&text)).unwrap_or(place);
        let kind = if kind == place || (kind.is_leaf() && place == Kind::Task) { kind } else { place };
        let state = fields.text("status").and_then(|text| State::parse(&text)).unwrap_or(State::Backlog);
        let own = OwnState::of_state(state).filter(|_| !kind.is_leaf()).unwrap_or_default();
        Issue {
            project: self.slug.clone(),
            title: fields.title("title").or_else(|| Title::cut(&id.to_string())).expect("an id is a title"),
            id,
            kind,
            parent,
            description: fields.body("description"),
            priority: fields.text("priority").and_then(|text| Priority::parse(&text)),
            state,
            own,
            cancelled_with: None,
            fixes: None,
            assignees: Vec::new(),
            labels: Vec::new(),
            depends_on: Vec::new(),
            claim: None,
            created_at: fields.time("created_at").unwrap_or(self.at),
            updated_at: fields.time("updated_at"),
        }
    }

    /// The id, or another one where the earlier program gave it twice.
    fn free_id(&mut self, path: &str, id: IssueId) -> IssueId {
        let mut free = id.clone();
        let mut number = 900_000;
        while !self.taken.insert(free.clone()) {
            number += 1;
            free = IssueId::parse(&format!("{}-{number}", id.prefix())).expect("six digits make an id");
        }
        if free != id {
            self.renamed.push(format!("{path}: another issue has the id {id}; this one is {free} now"));
        }
        free
    }
}

/// Sets a parent's state as its children say.
fn follow(parent: &mut Issue, children: &[Issue]) {
    let mut tally = Tally::default();
    children.iter().for_each(|child| tally.add(child.state));
    parent.state = parent_state(&tally, parent.own);
}

/// The key that most of the ids have, or else the best for the name.
fn key_of(issues: &[Issue], name: &Title) -> Key {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for issue in issues {
        *counts.entry(issue.id.prefix()).or_default() += 1;
    }
    let most = counts.into_iter().filter_map(|(prefix, count)| Some((count, Key::parse(prefix).ok()?)));
    let most = most.max_by_key(|(count, _)| *count).map(|(_, key)| key);
    most.or_else(|| Key::candidates(name.as_str()).next()).expect("there are keys without end for every name")
}

fn usage(fields: &Fields) -> UsageRecord {
    let cost = |row: &Fields, key: &str| Cost::from_units(row.amount(key)).unwrap_or_default();
    let session = |row: Fields| {
        let started_at = row.time("started_at").unwrap_or(Timestamp::from_unix_seconds(0));
        let request = |row: Fields| UsageRequest {
            at: row.time("timestamp").unwrap_or(started_at),
            input_tokens: row.number("input_tokens"),
            output_tokens: row.number("output_tokens"),
            cost: cost(&row, "cost"),
        };
        let totals = UsageTotals {
            input: row.number("total_input"),
            output: row.number("total_output"),
            cost: cost(&row, "total_cost"),
        };
        UsageSessionRecord {
            session: UsageSession {
                provider: row.text("provider").unwrap_or_default(),
                model: row.text("model").unwrap_or_default(),
                started_at,
                ended_at: row.time("ended_at"),
                totals,
            },
            requests: row.rows("requests").into_iter().map(request).collect(),
        }
    };
    let mut sessions: Vec<UsageSessionRecord> = fields.rows("sessions").into_iter().map(session).collect();
    let mut totals = UsageTotals::default();
    for record in &sessions {
        totals.input = totals.input.saturating_add(record.session.totals.input);
        totals.output = totals.output.saturating_add(record.session.totals.output);
        let cost = totals.cost.billionths().saturating_add(record.session.totals.cost.billionths());
        totals.cost = Cost::from_billionths(cost);
    }
    sessions.reverse();
    UsageRecord { totals, sessions }
}

fn hook_events(fields: &Fields, now: Timestamp) -> Vec<HookEventRecord> {
    let rows = fields.rows("events").into_iter().filter_map(|row| {
        Some(HookEventRecord {
            number: 0,
            event_type: row.label("event_type")?,
            session_id: row.label("session_id"),
            tool_name: row.label("tool_name"),
            agent_type: row.label("agent_type"),
            data: None,
            at: row.time("timestamp").unwrap_or(now),
        })
    });
    (1..).zip(rows).map(|(number, event)| HookEventRecord { number, ..event }).collect()
}
