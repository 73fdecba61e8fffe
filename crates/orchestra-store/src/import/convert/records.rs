//! What else the earlier program kept.

use std::collections::{BTreeMap, HashSet};
use std::io;

use orchestra_board::{
    Answer, Body, Cost, IssueId, PlanId, PrdSession, PrdStatus, Project, QUESTIONS, Request,
    RequestKind, RequestStatus, SessionId, Slug, Timestamp, Title, UsageSession, UsageTotals,
};

use super::OldWorkspace;
use super::lost::{
    ANSWER, CHUNK, CHUNKS, PLAN, PRD_SESSION, REQUEST, REQUESTS, SESSION, SESSION_EVENT, short,
};
use crate::import::Tree;
use crate::import::yaml::{self, Fields};
use crate::io::EntryKind;
use crate::{
    Chunk, ChunkId, HookEventRecord, PlanRecord, SessionEvent, SessionRecord, UsageRecord,
    UsageRequest, UsageSessionRecord,
};

/// Maximum number of tags of a remembered text.
const MAX_TAGS: usize = 32;
/// Maximum number of events of a session.
const MAX_EVENTS: usize = 1_000;

impl OldWorkspace {
    pub(super) fn read_prd_session(
        &mut self,
        tree: &Tree,
        project: &mut Project,
    ) -> io::Result<Option<PrdSession>> {
        let path = format!("{}/prd-session.toon", project.slug);
        let Some(fields) = self.parse(tree, &path, "status")? else {
            return Ok(None);
        };
        self.lost.look(&path, &PRD_SESSION, &fields);
        let is_known = |text: &str| PrdStatus::parse(text).is_some();
        self.lost
            .value(&path, &PRD_SESSION, &fields, "status", is_known);
        let status = fields
            .text("status")
            .and_then(|text| PrdStatus::parse(&text))
            .unwrap_or(PrdStatus::InProgress);
        let mut session = PrdSession::new(project.slug.clone(), project.name.clone(), status);
        session.current = usize::try_from(fields.number("current_index"))
            .unwrap_or_default()
            .min(QUESTIONS.len());
        // Of two answers to one question the later holds.
        let mut answers = BTreeMap::new();
        for row in fields.rows("answers") {
            self.lost.look(&path, &ANSWER, &row);
            let key = row.text("question").unwrap_or_default();
            if let Some(question) = QUESTIONS.iter().position(|question| question.key == key) {
                answers.insert(
                    question,
                    Answer {
                        question,
                        text: row.body("answer"),
                    },
                );
            } else {
                self.lost.value(&path, &ANSWER, &row, "question", |_| false);
            }
        }
        session.answers = answers.into_values().collect();
        session.phases = fields
            .texts("phases")
            .iter()
            .filter_map(|slug| Slug::parse(slug).ok())
            .collect();
        let parent = fields
            .text("parent_slug")
            .and_then(|slug| Slug::parse(&slug).ok());
        project.phase_of = parent.zip(
            u32::try_from(fields.number("phase"))
                .ok()
                .filter(|phase| *phase > 0),
        );
        Ok(Some(session))
    }

    pub(super) fn read_requests(
        &mut self,
        tree: &Tree,
        slug: &Slug,
        at: Timestamp,
    ) -> io::Result<Vec<Request>> {
        let path = format!("{slug}/requests.toon");
        let Some(fields) = self.parse(tree, &path, "requests")? else {
            return Ok(Vec::new());
        };
        self.lost.look(&path, &REQUESTS, &fields);
        for row in fields.rows("requests") {
            self.lost.look(&path, &REQUEST, &row);
            let is_known = |text: &str| RequestKind::parse(text).is_some();
            self.lost.value(&path, &REQUEST, &row, "type", is_known);
            let is_known = |text: &str| RequestStatus::parse(text).is_some();
            self.lost.value(&path, &REQUEST, &row, "status", is_known);
        }
        let request = |(number, row): (u64, Fields)| Request {
            number,
            kind: row
                .text("type")
                .and_then(|text| RequestKind::parse(&text))
                .unwrap_or(RequestKind::Feature),
            description: row.body("description"),
            status: RequestStatus::New,
            at: row.time("date").unwrap_or(at),
        };
        Ok((1..).zip(fields.rows("requests")).map(request).collect())
    }

    pub(super) fn read_chunks(
        &mut self,
        tree: &Tree,
        slug: &Slug,
        at: Timestamp,
    ) -> io::Result<Vec<Chunk>> {
        let path = format!("{slug}/.memory/chunks.toon");
        let Some(fields) = self.parse(tree, &path, "chunks")? else {
            return Ok(Vec::new());
        };
        self.lost.look(&path, &CHUNKS, &fields);
        for row in fields.rows("chunks") {
            self.lost.look(&path, &CHUNK, &row);
            let tags = row.texts("tags");
            if tags.len() > MAX_TAGS || tags.iter().any(|tag| yaml::label(tag).is_none()) {
                self.lost.note(&path, &CHUNK, "part of `tags`".to_owned());
            }
        }
        let mut seen = HashSet::new();
        let rows = fields
            .rows("chunks")
            .into_iter()
            .filter(|row| seen.insert(row.body("content")));
        let chunk = |(number, row): (u64, Fields)| Chunk {
            id: ChunkId::new(number),
            project: slug.clone(),
            content: row.body("content"),
            summary: row.body("summary"),
            source: row.label("source"),
            source_id: row.label("source_id"),
            tags: row
                .texts("tags")
                .iter()
                .filter_map(|tag| yaml::label(tag))
                .take(MAX_TAGS)
                .collect(),
            created_at: row.time("created_at").unwrap_or(at),
            updated_at: None,
            expires_at: None,
            superseded_by: None,
        };
        Ok((1..).zip(rows).map(chunk).collect())
    }

    pub(super) fn read_sessions(
        &mut self,
        tree: &Tree,
        slug: &Slug,
        at: Timestamp,
    ) -> io::Result<Vec<SessionRecord>> {
        let directory = format!("{slug}/.memory/sessions");
        let mut sessions = Vec::new();
        let names = tree.names(&directory, EntryKind::File)?;
        for name in &names {
            let path = format!("{directory}/{name}");
            if name == "index.toon" {
                self.parse(tree, &path, "sessions")?;
                continue;
            }
            let Some(stem) = name.strip_suffix(".toon") else {
                continue;
            };
            let Some(fields) = self.parse(tree, &path, "session_id")? else {
                continue;
            };
            let Some(id) = session_id(stem, &names) else {
                self.files.pop();
                self.leave(&path, "has a name that no session can have");
                continue;
            };
            if id.as_str() != stem {
                self.remarks
                    .push(format!("{path}: the session is {id} now"));
            }
            self.lost.look(&path, &SESSION, &fields);
            let rows = fields.rows("events");
            self.lost.look_at_rows(&path, &SESSION_EVENT, &rows);
            if rows.len() > MAX_EVENTS {
                self.lost
                    .note(&path, &SESSION, "part of `events`".to_owned());
            }
            let started_at = fields.time("started_at").unwrap_or(at);
            let event = |row: Fields| SessionEvent {
                kind: row
                    .label("type")
                    .or_else(|| yaml::label("note"))
                    .expect("`note` is a label"),
                summary: row.body("summary"),
                at: row.time("timestamp").unwrap_or(started_at),
            };
            sessions.push(SessionRecord {
                project: slug.clone(),
                id,
                summary: fields.body("summary"),
                events: rows.into_iter().map(event).take(MAX_EVENTS).collect(),
                started_at,
                ended_at: fields.time("ended_at").unwrap_or(started_at),
                from_hooks: false,
            });
        }
        Ok(sessions)
    }

    pub(super) fn read_plans(
        &mut self,
        tree: &Tree,
        slug: &Slug,
        at: Timestamp,
    ) -> io::Result<Vec<(PlanRecord, Body)>> {
        let mut plans: Vec<(PlanRecord, Body)> = Vec::new();
        for name in tree.names(&format!("{slug}/plans"), EntryKind::File)? {
            let path = format!("{slug}/plans/{name}");
            let Some(text) = tree.text(&path)?.filter(|_| name.ends_with(".md")) else {
                continue;
            };
            let (front, content) = text
                .strip_prefix("---\n")
                .and_then(|rest| rest.split_once("\n---\n"))
                .unwrap_or(("", text.as_str()));
            let field = |key: &str| {
                front
                    .lines()
                    .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
            };
            let stem = name.trim_end_matches(".md");
            let title = Title::cut(field("title").unwrap_or(stem))
                .or_else(|| Title::cut("Plan"))
                .expect("`Plan` is a title");
            self.look_at_front(&path, front);
            let mut number = u64::try_from(plans.len()).unwrap_or_default() + 1;
            let mut id = PlanId::parse(stem)
                .ok()
                .or_else(|| PlanId::of_title(title.as_str()))
                .unwrap_or_else(|| PlanId::numbered(number));
            while plans.iter().any(|(known, _)| known.id == id) {
                number += 1;
                id = PlanId::numbered(number);
            }
            if id.as_str() != stem {
                self.remarks.push(format!("{path}: the plan is {id} now"));
            }
            let record = PlanRecord {
                project: slug.clone(),
                id,
                title,
                issue: field("issue_id").and_then(|id| IssueId::parse(id).ok()),
                created_at: field("created")
                    .and_then(|time| Timestamp::parse(time).ok())
                    .unwrap_or(at),
                updated_at: None,
            };
            plans.push((record, yaml::body(content.trim_start_matches('\n'))));
            self.files.push(path);
        }
        Ok(plans)
    }

    /// Notes the lines of a plan's front matter that have no place on the board.
    fn look_at_front(&mut self, path: &str, front: &str) {
        for line in front.lines().filter(|line| !line.trim().is_empty()) {
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            let is_lost = match key {
                "title" | "created" => false,
                "issue_id" => IssueId::parse(value.trim()).is_err(),
                _ => true,
            };
            if is_lost {
                let what = format!("`{}`", short(line));
                self.lost.note(path, &PLAN, what);
            }
        }
    }
}

/// The id of a session whose file has a name, with other characters where none may be; `None` where no id
/// is free.
fn session_id(stem: &str, names: &[String]) -> Option<SessionId> {
    if let Ok(id) = SessionId::parse(stem) {
        return Some(id);
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let text: String = stem
        .chars()
        .map(|c| if legal(c) { c } else { '-' })
        .take(120)
        .collect();
    let id = SessionId::parse(text.trim_start_matches('.')).ok()?;
    let is_free = !names.contains(&format!("{id}.toon"));
    is_free.then_some(id)
}

pub(super) fn usage(fields: &Fields) -> UsageRecord {
    let cost = |row: &Fields, key: &str| Cost::from_units(row.amount(key)).unwrap_or_default();
    let session = |row: Fields| {
        let started_at = row
            .time("started_at")
            .unwrap_or(Timestamp::from_unix_seconds(0));
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
    let mut sessions: Vec<UsageSessionRecord> =
        fields.rows("sessions").into_iter().map(session).collect();
    let mut totals = UsageTotals::default();
    for record in &sessions {
        totals.add(&record.session.totals);
    }
    sessions.reverse();
    UsageRecord {
        totals,
        sessions,
        of: Vec::new(),
        days: Vec::new(),
    }
}

pub(super) fn hook_events(fields: &Fields, now: Timestamp) -> Vec<HookEventRecord> {
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
    (1..)
        .zip(rows)
        .map(|(number, event)| HookEventRecord { number, ..event })
        .collect()
}
