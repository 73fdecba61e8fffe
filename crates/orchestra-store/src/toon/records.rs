//! The other TOON files: questionnaire, requests, memory, sessions, hook events, usage.

use std::collections::HashSet;

use orchestra_board::{
    Answer, Body, Cost, IssueId, Label, PrdSession, PrdStatus, QUESTIONS, Request, RequestKind,
    RequestStatus, SessionId, Slug, Timestamp, Title, UsageOf, UsageSession, UsageTotals,
};
use serde_json::{Map, Value, json};

use super::document::SCHEMA;
use super::{Document, FileError, FileFault};
use crate::{
    Chunk, ChunkId, HookEventRecord, SessionEvent, SessionRecord, UsageDay, UsageOfRecord,
    UsageRecord, UsageRequest, UsageSessionRecord, UsageSums,
};

/// The text of a file with these fields; fields that are null are left out.
fn file(fields: Value) -> String {
    let Value::Object(fields) = fields else {
        unreachable!("made by json! below")
    };
    let mut all = Map::new();
    all.insert("schema".to_owned(), SCHEMA.into());
    all.extend(fields);
    all.insert("end".to_owned(), true.into());
    let mut text = toon_format::encode_default(&without_nulls(Value::Object(all)))
        .expect("the values are a few levels deep, which is the only limit");
    text.push('\n');
    text
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(values) => values.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

fn shown<T: ToString>(value: Option<&T>) -> Option<String> {
    value.map(T::to_string)
}

fn texts<T: ToString>(values: &[T]) -> Option<Vec<String>> {
    (!values.is_empty()).then(|| values.iter().map(T::to_string).collect())
}

pub(crate) fn write_prd_session(session: &PrdSession) -> String {
    let key = |answer: &Answer| {
        QUESTIONS
            .get(answer.question)
            .map_or("", |question| question.key)
    };
    let answers: Vec<Value> = session
        .answers
        .iter()
        .map(|answer| json!({"question": key(answer), "answer": answer.text.as_str()}))
        .collect();
    file(json!({
        "project_name": session.project_name.as_str(),
        "slug": session.slug.as_str(),
        "status": session.status.as_str(),
        "current_index": session.current,
        "answers": (!answers.is_empty()).then_some(answers),
        "phases": texts(&session.phases),
    }))
}

pub(crate) fn read_prd_session(
    name: &str,
    text: &str,
    slug: &Slug,
) -> Result<PrdSession, FileError> {
    let mut fields = Document::parse(name, text)?;
    let project_name = fields.parsed("project_name", Title::parse)?;
    if fields.parsed("slug", Slug::parse)? != *slug {
        return Err(fields.error("slug", format!("must be {slug}, as the directory is")));
    }
    let status = fields.named("status", PrdStatus::parse)?;
    let current = usize::try_from(fields.number("current_index")?).unwrap_or(usize::MAX);
    if current > QUESTIONS.len() {
        return Err(fields.error("current_index", format!("must be 0 to {}", QUESTIONS.len())));
    }
    let mut answers: Vec<Answer> = Vec::new();
    for mut row in fields.rows("answers")? {
        let position = |key: &str| QUESTIONS.iter().position(|question| question.key == key);
        let question = row.named("question", position)?;
        if answers.iter().any(|answer| answer.question == question) {
            return Err(row.error("question", "is answered twice"));
        }
        answers.push(Answer {
            question,
            text: row.parsed("answer", Body::parse)?,
        });
        row.finish()?;
    }
    orchestra_sort::sort_by_key(&mut answers, |answer| answer.question);
    let phases = fields.list("phases", Slug::parse)?;
    fields.finish()?;
    Ok(PrdSession {
        slug: slug.clone(),
        project_name,
        status,
        current,
        answers,
        phases,
    })
}

pub(crate) fn write_requests(project: &Slug, requests: &[Request]) -> String {
    let row = |request: &Request| {
        json!({
            "id": format!("REQ-{}", request.number), "type": request.kind.as_str(),
            "date": request.at.to_string(), "description": request.description.as_str(),
            "status": request.status.as_str(),
        })
    };
    let rows: Vec<Value> = requests.iter().map(row).collect();
    file(json!({"project": project.as_str(), "requests": rows}))
}

pub(crate) fn read_requests(
    name: &str,
    text: &str,
    project: &Slug,
) -> Result<Vec<Request>, FileError> {
    let mut fields = Document::parse(name, text)?;
    check_project(&mut fields, project)?;
    let mut requests: Vec<Request> = Vec::new();
    for mut row in fields.rows("requests")? {
        let number = |text: &str| {
            let digits = text.strip_prefix("REQ-")?;
            let number: u64 = digits
                .parse()
                .ok()
                .filter(|number| (1..1_000_000_000_000_000).contains(number))?;
            (number.to_string() == digits).then_some(number)
        };
        let request = Request {
            number: row.named("id", number)?,
            kind: row.choice("type", &RequestKind::ALL, RequestKind::as_str)?,
            at: row.parsed("date", Timestamp::parse)?,
            description: row.parsed("description", Body::parse)?,
            status: row.named("status", RequestStatus::parse)?,
        };
        if requests.iter().any(|other| other.number == request.number) {
            return Err(row.error("id", "appears twice"));
        }
        requests.push(request);
        row.finish()?;
    }
    orchestra_sort::sort_by_key(&mut requests, |request| request.number);
    fields.finish()?;
    Ok(requests)
}

fn check_project(fields: &mut Document<'_>, project: &Slug) -> Result<(), FileError> {
    let named = fields.parsed("project", Slug::parse)?;
    if named == *project {
        Ok(())
    } else {
        Err(fields.error("project", format!("must be {project}, as the directory is")))
    }
}

/// One segment of the remembered texts.
pub(crate) fn write_chunks(project: &Slug, chunks: &[Chunk]) -> String {
    let row = |chunk: &Chunk| {
        json!({
            "id": chunk.id.to_string(),
            "source": shown(chunk.source.as_ref()), "source_id": shown(chunk.source_id.as_ref()),
            "summary": chunk.summary.as_str(), "content": chunk.content.as_str(),
            "tags": texts(&chunk.tags), "created_at": chunk.created_at.to_string(),
            "updated_at": shown(chunk.updated_at.as_ref()), "expires_at": shown(chunk.expires_at.as_ref()),
            "superseded_by": shown(chunk.superseded_by.as_ref()),
        })
    };
    let rows: Vec<Value> = chunks.iter().map(row).collect();
    file(json!({"project": project.as_str(), "chunks": rows}))
}

pub(crate) fn read_chunks(name: &str, text: &str, project: &Slug) -> Result<Vec<Chunk>, FileError> {
    let mut fields = Document::parse(name, text)?;
    check_project(&mut fields, project)?;
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut seen = HashSet::new();
    for mut row in fields.rows("chunks")? {
        let chunk = Chunk {
            id: row.parsed("id", ChunkId::parse)?,
            project: project.clone(),
            source: row.optional_parsed("source", Label::parse)?,
            source_id: row.optional_parsed("source_id", Label::parse)?,
            summary: row.parsed("summary", Body::parse)?,
            content: row.parsed("content", Body::parse)?,
            tags: row.list("tags", Label::parse)?,
            created_at: row.parsed("created_at", Timestamp::parse)?,
            // Files of earlier programs have none of these.
            updated_at: row.optional_parsed("updated_at", Timestamp::parse)?,
            expires_at: row.optional_parsed("expires_at", Timestamp::parse)?,
            superseded_by: row.optional_parsed("superseded_by", ChunkId::parse)?,
        };
        if !seen.insert(chunk.id) {
            return Err(row.error("id", "appears twice"));
        }
        chunks.push(chunk);
        row.finish()?;
    }
    fields.finish()?;
    Ok(chunks)
}

pub(crate) fn write_session(session: &SessionRecord) -> String {
    let event = |event: &SessionEvent| json!({"type": event.kind.as_str(), "summary": event.summary.as_str(), "timestamp": event.at.to_string()});
    let events: Vec<Value> = session.events.iter().map(event).collect();
    file(json!({
        "session_id": session.id.as_str(), "project": session.project.as_str(),
        "summary": session.summary.as_str(), "events": (!events.is_empty()).then_some(events),
        "started_at": session.started_at.to_string(), "ended_at": session.ended_at.to_string(),
        "made_of": session.from_hooks.then_some(MADE_OF_HOOKS),
    }))
}

/// What a session says of itself whose summary was made of hook events.
const MADE_OF_HOOKS: &str = "hooks";

pub(crate) fn read_session(
    name: &str,
    text: &str,
    project: &Slug,
    id: &SessionId,
) -> Result<SessionRecord, FileError> {
    let mut fields = Document::parse(name, text)?;
    check_project(&mut fields, project)?;
    if fields.parsed("session_id", SessionId::parse)? != *id {
        return Err(fields.error("session_id", format!("must be {id}, as the file is named")));
    }
    let summary = fields.parsed("summary", Body::parse)?;
    let mut events = Vec::new();
    for mut row in fields.rows("events")? {
        events.push(SessionEvent {
            kind: row.parsed("type", Label::parse)?,
            summary: row.parsed("summary", Body::parse)?,
            at: row.parsed("timestamp", Timestamp::parse)?,
        });
        row.finish()?;
    }
    let started_at = fields.parsed("started_at", Timestamp::parse)?;
    let ended_at = fields.parsed("ended_at", Timestamp::parse)?;
    let made_of = |text: &str| match text {
        MADE_OF_HOOKS => Ok(()),
        _ => Err(format!("must be {MADE_OF_HOOKS} or not be there")),
    };
    let from_hooks = fields.optional_parsed("made_of", made_of)?.is_some();
    fields.finish()?;
    Ok(SessionRecord {
        project: project.clone(),
        id: id.clone(),
        summary,
        events,
        started_at,
        ended_at,
        from_hooks,
    })
}

/// The list of sessions, which follows from the sessions' own files and is not read back.
pub(crate) fn write_session_index(project: &Slug, sessions: &[SessionRecord]) -> String {
    let row = |session: &SessionRecord| {
        json!({
            "session_id": session.id.as_str(), "summary": session.summary.as_str(),
            "started_at": session.started_at.to_string(), "ended_at": session.ended_at.to_string(),
        })
    };
    let rows: Vec<Value> = sessions.iter().map(row).collect();
    file(json!({"project": project.as_str(), "sessions": rows}))
}

/// The largest number of a hook event, far from where counting further would fail.
const LAST_EVENT: u64 = 999_999_999_999_999;

/// The kept hook events, oldest first.
pub(crate) fn write_hook_events(events: &[HookEventRecord]) -> String {
    let row = |event: &HookEventRecord| {
        json!({
            "number": event.number, "event_type": event.event_type.as_str(),
            "session_id": shown(event.session_id.as_ref()), "tool_name": shown(event.tool_name.as_ref()),
            "agent_type": shown(event.agent_type.as_ref()),
            // As JSON text: it comes back exactly, however deep and whatever its numbers.
            "data": event.data.as_ref().map(Value::to_string),
            "timestamp": event.at.to_string(),
        })
    };
    let rows: Vec<Value> = events.iter().map(row).collect();
    file(json!({"events": rows}))
}

pub(crate) fn read_hook_events(name: &str, text: &str) -> Result<Vec<HookEventRecord>, FileError> {
    let mut fields = Document::parse(name, text)?;
    let (mut events, mut numbers) = (Vec::new(), HashSet::new());
    for mut row in fields.rows("events")? {
        let number = row.number_up_to("number", LAST_EVENT)?;
        if number == 0 {
            return Err(row.error("number", "must be at least 1"));
        }
        if !numbers.insert(number) {
            return Err(row.error("number", "appears twice"));
        }
        events.push(HookEventRecord {
            number,
            event_type: row.parsed("event_type", Label::parse)?,
            session_id: row.optional_parsed("session_id", Label::parse)?,
            tool_name: row.optional_parsed("tool_name", Label::parse)?,
            agent_type: row.optional_parsed("agent_type", Label::parse)?,
            data: row.optional_parsed("data", |text| serde_json::from_str::<Value>(text))?,
            at: row.parsed("timestamp", Timestamp::parse)?,
        });
        row.finish()?;
    }
    fields.finish()?;
    orchestra_sort::sort_by_key(&mut events, |event| event.number);
    Ok(events)
}

/// Usage; costs are decimal text, so that they stay exact.
pub(crate) fn write_usage(usage: &UsageRecord) -> String {
    let request = |request: &UsageRequest| {
        json!({
            "timestamp": request.at.to_string(), "input_tokens": request.input_tokens,
            "output_tokens": request.output_tokens, "cost": decimal(request.cost),
        })
    };
    let session = |record: &UsageSessionRecord| {
        let UsageSession {
            provider,
            model,
            started_at,
            ended_at,
            totals,
        } = &record.session;
        let requests: Vec<Value> = record.requests.iter().map(request).collect();
        json!({
            "provider": provider, "model": model, "started_at": started_at.to_string(),
            "ended_at": shown(ended_at.as_ref()),
            "total_input": totals.input, "total_output": totals.output, "total_cost": decimal(totals.cost),
            "requests": (!requests.is_empty()).then_some(requests),
        })
    };
    let sessions: Vec<Value> = usage.sessions.iter().map(session).collect();
    // Those of projects stand apart, for rows with the same fields are a table.
    let sums = |of_issues: bool| {
        let row = |record: &UsageOfRecord| {
            let UsageSums { requests, totals } = record.sums;
            json!({
                "project": record.of.project.as_str(), "issue": shown(record.of.issue.as_ref()), "requests": requests,
                "total_input": totals.input, "total_output": totals.output, "total_cost": decimal(totals.cost),
            })
        };
        let records = usage
            .of
            .iter()
            .filter(|record| record.of.issue.is_some() == of_issues);
        let rows: Vec<Value> = records.map(row).collect();
        (!rows.is_empty()).then_some(rows)
    };
    // An empty project instead of none, for the same reason.
    let day = |day: &UsageDay| {
        let UsageSums { requests, totals } = day.sums;
        json!({
            "day": day.day, "provider": day.provider, "model": day.model,
            "project": day.project.as_ref().map_or("", |project| project.as_str()), "requests": requests,
            "total_input": totals.input, "total_output": totals.output, "total_cost": decimal(totals.cost),
        })
    };
    let days: Vec<Value> = usage.days.iter().map(day).collect();
    let totals = &usage.totals;
    file(json!({
        "total_input": totals.input, "total_output": totals.output, "total_cost": decimal(totals.cost),
        "projects": sums(false), "issues": sums(true), "days": (!days.is_empty()).then_some(days),
        "sessions": sessions,
    }))
}

/// A cost as decimal text, all nine digits behind the point that it may have.
fn decimal(cost: Cost) -> String {
    const PER_UNIT: u64 = 1_000_000_000;
    let (whole, rest) = (cost.billionths() / PER_UNIT, cost.billionths() % PER_UNIT);
    let text = format!("{whole}.{rest:09}");
    let text = text.trim_end_matches('0');
    text.strip_suffix('.').unwrap_or(text).to_owned()
}

fn parse_decimal(text: &str) -> Option<Cost> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(rest) || rest.len() > 9 {
        return None;
    }
    let rest: u64 = format!("{rest:0<9}").parse().ok()?;
    let whole: u64 = whole.parse().ok()?;
    let billionths = whole.checked_mul(1_000_000_000)?.checked_add(rest)?;
    (billionths <= LARGEST_SUM).then(|| Cost::from_billionths(billionths))
}

/// Where sums of usage stop.
const LARGEST_SUM: u64 = 9_000_000_000_000_000_000;

fn read_totals(fields: &mut Document<'_>) -> Result<UsageTotals, FileError> {
    Ok(UsageTotals {
        input: fields.number_up_to("total_input", LARGEST_SUM)?,
        output: fields.number_up_to("total_output", LARGEST_SUM)?,
        cost: fields.named("total_cost", parse_decimal)?,
    })
}

/// What was used by day; files of earlier programs have none.
fn read_usage_days(fields: &mut Document<'_>) -> Result<Vec<UsageDay>, FileError> {
    let day = |text: &str| {
        let at = Timestamp::parse(&format!("{text}T00:00:00Z")).ok()?;
        (UsageDay::of(at) == text).then(|| text.to_owned())
    };
    let mut days = Vec::new();
    for mut row in fields.rows("days")? {
        let project = |text: &str| (!text.is_empty()).then(|| Slug::parse(text)).transpose();
        days.push(UsageDay {
            day: row.named("day", day)?,
            provider: row.text("provider")?,
            model: row.text("model")?,
            project: row.parsed("project", project)?,
            sums: UsageSums {
                requests: row.number_up_to("requests", LARGEST_SUM)?,
                totals: read_totals(&mut row)?,
            },
        });
        row.finish()?;
    }
    Ok(days)
}

fn read_usage_sums(fields: &mut Document<'_>, list: &str) -> Result<Vec<UsageOfRecord>, FileError> {
    let mut records = Vec::new();
    let mut seen = HashSet::new();
    for mut row in fields.rows(list)? {
        let issue = match list {
            "issues" => Some(row.parsed("issue", IssueId::parse)?),
            _ => None,
        };
        let project = row.parsed("project", Slug::parse)?;
        if !seen.insert((project.clone(), issue.clone())) {
            return Err(row.error("project", "appears twice"));
        }
        records.push(UsageOfRecord {
            of: UsageOf { project, issue },
            sums: UsageSums {
                requests: row.number_up_to("requests", LARGEST_SUM)?,
                totals: read_totals(&mut row)?,
            },
        });
        row.finish()?;
    }
    Ok(records)
}

pub(crate) fn read_usage(name: &str, text: &str) -> Result<UsageRecord, FileError> {
    let mut fields = Document::parse(name, text)?;
    let totals = read_totals(&mut fields)?;
    let mut of = read_usage_sums(&mut fields, "projects")?;
    of.extend(read_usage_sums(&mut fields, "issues")?);
    of.sort_by_cached_key(|record| {
        (
            record.of.project.to_string(),
            shown(record.of.issue.as_ref()),
        )
    });
    let days = read_usage_days(&mut fields)?;
    let mut sessions = Vec::new();
    for mut row in fields.rows("sessions")? {
        let session = UsageSession {
            provider: row.text("provider")?,
            model: row.text("model")?,
            started_at: row.parsed("started_at", Timestamp::parse)?,
            ended_at: row.optional_parsed("ended_at", Timestamp::parse)?,
            totals: read_totals(&mut row)?,
        };
        let mut requests = Vec::new();
        for mut request in row.rows("requests")? {
            requests.push(UsageRequest {
                at: request.parsed("timestamp", Timestamp::parse)?,
                input_tokens: request.number_up_to("input_tokens", LARGEST_SUM)?,
                output_tokens: request.number_up_to("output_tokens", LARGEST_SUM)?,
                cost: request.named("cost", parse_decimal)?,
            });
            request.finish()?;
        }
        row.finish()?;
        sessions.push(UsageSessionRecord { session, requests });
    }
    fields.finish()?;
    Ok(UsageRecord {
        totals,
        sessions,
        of,
        days,
    })
}

/// The most bytes that any readable file may have.
pub(crate) const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// A file's text without the byte-order mark that some editors put first, if it is text.
pub(crate) fn utf8<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, FileError> {
    let bytes = bytes.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        FileError {
            file: name.to_owned(),
            line: super::document::line_number(lines + 1),
            field: String::new(),
            fault: FileFault::NotText,
        }
    })
}
