//! Between rows and the board's types. What is read goes through the same parsers as what callers
//! give; a value that does not pass them is reported as damage and never papered over.

use orchestra_board::{
    AgentName, Answer, Body, Claim, Issue, IssueId, Key, Kind, Label, OwnState, PrdOrigin,
    PrdSession, PrdStatus, Priority, Project, QUESTIONS, Slug, State, Timestamp, Title, Uid,
};
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};

use crate::{Fault, IssueRecord, ReadError};

pub(crate) type Read<T> = Result<T, ReadError>;

/// The columns that [`issue_row`] reads, with the parent and the parent's parent.
pub(crate) const ISSUE: &str = "SELECT i.id, i.prefix, i.number, i.kind, i.parent, i.state, i.own, i.priority, \
     i.waits, i.cancelled_with, i.fixes, i.assignees, i.labels, i.claim_agent, i.claim_until, i.created_at, \
     i.updated_at, p.prefix, p.number, g.prefix, g.number, i.title, i.description, i.uid \
     FROM issue i LEFT JOIN issue p ON p.id = i.parent LEFT JOIN issue g ON g.id = p.parent ";

/// The columns that [`project_row`] reads.
pub(crate) const PROJECT: &str = "SELECT id, slug, key, name, description, next_issue, next_bug, next_request, \
     phase_of, phase, prd_origin, created_at, updated_at FROM project ";

/// Reports a value that the board does not know.
pub(crate) fn unknown(what: &'static str) -> ReadError {
    ReadError::Fault(Fault::Unknown { what })
}

/// An issue as its row says, before what it waits for and its children are known.
#[derive(Debug)]
pub(crate) struct IssueRow {
    /// Its rowid.
    pub(crate) row: i64,
    /// Its parent's rowid.
    pub(crate) parent_row: Option<i64>,
    /// How many issues it waits for.
    pub(crate) waits: i64,
    /// The issue, without what it waits for.
    pub(crate) record: IssueRecord,
}

pub(crate) fn issue_row(slug: &Slug, row: &Row<'_>) -> Read<IssueRow> {
    let kind = kind_of(row.get(3)?)?;
    let parent = id_of(
        row.get_ref(17)?.as_str_or_null().map_err(damaged)?,
        row.get(18)?,
    )?;
    let above = id_of(
        row.get_ref(19)?.as_str_or_null().map_err(damaged)?,
        row.get(20)?,
    )?;
    let (epic, story) = match kind {
        Kind::Epic => (None, None),
        Kind::Story => (parent.clone(), None),
        Kind::Task | Kind::Bug | Kind::Hotfix => (above, parent.clone()),
    };
    let updated_at: Option<i64> = row.get(16)?;
    let issue = Issue {
        project: slug.clone(),
        id: id_of(
            Some(row.get_ref(1)?.as_str().map_err(damaged)?),
            row.get(2)?,
        )?
        .ok_or_else(|| unknown("issue id"))?,
        uid: uid_of(row.get_ref(23)?)?,
        kind,
        parent,
        title: Title::parse(row.get_ref(21)?.as_str().map_err(damaged)?)
            .map_err(|_| unknown("title"))?,
        description: body(row.get_ref(22)?.as_str().map_err(damaged)?)?,
        priority: row
            .get::<_, Option<usize>>(7)?
            .map(priority_of)
            .transpose()?,
        state: state_of(row.get(5)?)?,
        own: own_of(row.get(6)?)?,
        cancelled_with: optional_id(row.get_ref(9)?.as_str_or_null().map_err(damaged)?)?,
        fixes: optional_id(row.get_ref(10)?.as_str_or_null().map_err(damaged)?)?,
        assignees: list(
            row.get_ref(11)?.as_str_or_null().map_err(damaged)?,
            |text| AgentName::parse(text).ok(),
        )?,
        labels: list(
            row.get_ref(12)?.as_str_or_null().map_err(damaged)?,
            |text| Label::parse(text).ok(),
        )?,
        depends_on: Vec::new(),
        claim: claim(row)?,
        created_at: Timestamp::from_unix_seconds(row.get(15)?),
        updated_at: updated_at.map(Timestamp::from_unix_seconds),
    };
    Ok(IssueRow {
        row: row.get(0)?,
        parent_row: row.get(4)?,
        waits: row.get(8)?,
        record: IssueRecord {
            issue,
            epic,
            story,
            children: 0,
        },
    })
}

fn claim(row: &Row<'_>) -> Read<Option<Claim>> {
    let until: Option<i64> = row.get(14)?;
    let agent = row.get_ref(13)?.as_str_or_null().map_err(damaged)?;
    let Some((agent, until)) = agent.zip(until) else {
        return Ok(None);
    };
    let agent = AgentName::parse(agent).map_err(|_| unknown("claim"))?;
    Ok(Some(Claim {
        agent,
        until: Timestamp::from_unix_seconds(until),
    }))
}

/// A project and its rowid.
pub(crate) fn project_row(row: &Row<'_>) -> Read<(i64, Project)> {
    let phase_of: Option<String> = row.get(8)?;
    let phase: Option<u32> = row.get(9)?;
    let phase_of = match (phase_of, phase) {
        (Some(parent), Some(phase)) => Some((slug(&parent)?, phase)),
        _ => None,
    };
    let updated_at: Option<i64> = row.get(12)?;
    let project = Project {
        slug: slug(row.get_ref(1)?.as_str().map_err(damaged)?)?,
        key: Key::parse(row.get_ref(2)?.as_str().map_err(damaged)?)
            .map_err(|_| unknown("project key"))?,
        name: Title::parse(row.get_ref(3)?.as_str().map_err(damaged)?)
            .map_err(|_| unknown("project name"))?,
        description: body(row.get_ref(4)?.as_str().map_err(damaged)?)?,
        next_issue: row.get(5)?,
        next_bug: row.get(6)?,
        next_request: row.get(7)?,
        phase_of,
        prd_origin: PrdOrigin::parse(row.get_ref(10)?.as_str().map_err(damaged)?)
            .ok_or_else(|| unknown("PRD origin"))?,
        created_at: Timestamp::from_unix_seconds(row.get(11)?),
        updated_at: updated_at.map(Timestamp::from_unix_seconds),
    };
    Ok((row.get(0)?, project))
}

pub(crate) fn damaged(_: rusqlite::types::FromSqlError) -> ReadError {
    unknown("value of another type")
}

pub(crate) fn slug(text: &str) -> Read<Slug> {
    Slug::parse(text).map_err(|_| unknown("project slug"))
}

pub(crate) fn body(text: &str) -> Read<Body> {
    Body::parse(text).map_err(|_| unknown("text"))
}

pub(crate) fn kind_of(place: usize) -> Read<Kind> {
    Kind::ALL
        .get(place)
        .copied()
        .ok_or_else(|| unknown("kind of issue"))
}

pub(crate) fn state_of(place: usize) -> Read<State> {
    State::ALL
        .get(place)
        .copied()
        .ok_or_else(|| unknown("state"))
}

fn priority_of(place: usize) -> Read<Priority> {
    Priority::ALL
        .get(place)
        .copied()
        .ok_or_else(|| unknown("priority"))
}

fn own_of(place: usize) -> Read<OwnState> {
    OwnState::of_state(state_of(place)?).ok_or_else(|| unknown("own state"))
}

/// The place of a kind in a row.
pub(crate) const fn kind_place(kind: Kind) -> i64 {
    kind as i64
}

/// The place of a state in a row.
pub(crate) const fn state_place(state: State) -> i64 {
    state as i64
}

/// The place of a priority in a row.
pub(crate) const fn priority_place(priority: Priority) -> i64 {
    priority as i64
}

/// An issue id from its two columns.
pub(crate) fn id_of(prefix: Option<&str>, number: Option<u64>) -> Read<Option<IssueId>> {
    let (Some(prefix), Some(number)) = (prefix, number) else {
        return Ok(None);
    };
    IssueId::parse(&format!("{prefix}-{number}"))
        .map(Some)
        .map_err(|_| unknown("issue id"))
}

/// A uid from its column.
pub(crate) fn uid_of(value: ValueRef<'_>) -> Read<Option<Uid>> {
    let Some(bytes) = value.as_blob_or_null().map_err(damaged)? else {
        return Ok(None);
    };
    let bytes = bytes.try_into().map_err(|_| unknown("uid"))?;
    Ok(Some(Uid::from_bytes(bytes)))
}

pub(crate) fn optional_id(text: Option<&str>) -> Read<Option<IssueId>> {
    text.map(|text| IssueId::parse(text).map_err(|_| unknown("issue id")))
        .transpose()
}

/// A list of texts from its column.
pub(crate) fn list<T>(text: Option<&str>, parse: impl Fn(&str) -> Option<T>) -> Read<Vec<T>> {
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    let texts: Vec<String> = serde_json::from_str(text).map_err(|_| unknown("list"))?;
    texts
        .iter()
        .map(|text| parse(text).ok_or_else(|| unknown("list")))
        .collect()
}

/// A list of texts for its column; nothing for an empty one.
pub(crate) fn list_text<'a>(texts: impl ExactSizeIterator<Item = &'a str>) -> Option<String> {
    (texts.len() > 0).then(|| texts.collect::<Value>().to_string())
}

pub(crate) fn label(text: Option<String>) -> Read<Option<Label>> {
    text.map(|text| Label::parse(&text).map_err(|_| unknown("label")))
        .transpose()
}

/// The questionnaire for its column.
pub(crate) fn prd_text(session: &PrdSession) -> String {
    let answers: Vec<Value> = session
        .answers
        .iter()
        .map(|answer| json!([QUESTIONS[answer.question].key, answer.text.as_str()]))
        .collect();
    json!({
        "name": session.project_name.as_str(),
        "status": session.status.as_str(),
        "current": session.current,
        "answers": answers,
        "phases": session.phases.iter().map(Slug::as_str).collect::<Vec<_>>(),
    })
    .to_string()
}

/// The questionnaire from its column.
pub(crate) fn prd_of(slug: &Slug, text: &str) -> Read<PrdSession> {
    parse_prd(slug, text).ok_or_else(|| unknown("PRD questionnaire"))
}

fn parse_prd(slug: &Slug, text: &str) -> Option<PrdSession> {
    let value: Value = serde_json::from_str(text).ok()?;
    let answer = |answer: &Value| {
        let key = answer[0].as_str()?;
        let question = QUESTIONS.iter().position(|question| question.key == key)?;
        Some(Answer {
            question,
            text: Body::parse(answer[1].as_str()?).ok()?,
        })
    };
    Some(PrdSession {
        slug: slug.clone(),
        project_name: Title::parse(value["name"].as_str()?).ok()?,
        status: PrdStatus::parse(value["status"].as_str()?)?,
        current: usize::try_from(value["current"].as_u64()?)
            .ok()
            .filter(|at| *at <= QUESTIONS.len())?,
        answers: value["answers"]
            .as_array()?
            .iter()
            .map(answer)
            .collect::<Option<_>>()?,
        phases: value["phases"]
            .as_array()?
            .iter()
            .map(|slug| Slug::parse(slug.as_str()?).ok())
            .collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use orchestra_board::{Kind, OwnState, Priority, State};

    use super::{kind_place, priority_place, state_place};

    /// Rows hold places; these must stay what they are, or old databases change their meaning.
    #[test]
    fn places_of_enums_are_pinned() {
        let kinds = ["epic", "story", "task", "bug", "hotfix"];
        let priorities = ["low", "medium", "high", "critical"];
        let states = "backlog todo in-progress blocked ready-for-testing in-testing ready-for-docs in-docs \
                      documented in-review done rejected cancelled";
        assert_eq!(Kind::ALL.map(Kind::as_str), kinds);
        assert_eq!(Priority::ALL.map(Priority::as_str), priorities);
        assert!(
            State::ALL
                .map(State::as_str)
                .into_iter()
                .eq(states.split_whitespace())
        );
        assert!(
            Kind::ALL
                .into_iter()
                .enumerate()
                .all(|(at, kind)| kind_place(kind) == at as i64)
        );
        assert!(
            State::ALL
                .into_iter()
                .enumerate()
                .all(|(at, state)| state_place(state) == at as i64)
        );
        assert!(
            Priority::ALL
                .into_iter()
                .enumerate()
                .all(|(at, priority)| priority_place(priority) == at as i64)
        );
        for own in [OwnState::Backlog, OwnState::Todo, OwnState::Cancelled] {
            assert_eq!(OwnState::of_state(own.as_state()), Some(own));
        }
    }
}
