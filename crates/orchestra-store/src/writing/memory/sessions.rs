//! Sessions: summaries of what was done, with their times.

use orchestra_board::{AgentName, SessionId, Slug, Source, Timestamp};
use rusqlite::params;

use super::{invalid, too_long};
use crate::files::owner::Owner;
use crate::reader::events_text;
use crate::writing::{Write, Writing};
use crate::{ActionError, Made, NewSession, NewSessionEvent, Receipt, SessionEvent, SessionRecord};

/// How many sessions made of hook events go at once when a project is full.
const SURPLUS_AT_ONCE: u64 = 64;

impl Writing<'_> {
    pub(in crate::writing) fn save_session(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        new: &NewSession,
    ) -> Write<Receipt> {
        self.reader().project_id(&new.project)?;
        too_long("summary", &new.summary, NewSession::MAX_SUMMARY_BYTES)?;
        if new.events.len() > NewSession::MAX_EVENTS {
            return invalid(format!("at most {} events", NewSession::MAX_EVENTS));
        }
        for event in &new.events {
            too_long(
                "the summary of an event",
                &event.summary,
                NewSession::MAX_EVENT_BYTES,
            )?;
        }
        let before = self.reader().session(&new.project, &new.id)?;
        let (started_at, ended_at) = times(new, before.as_ref(), self.now)?;
        let known = before.map(|before| before.events).unwrap_or_default();
        let session = SessionRecord {
            project: new.project.clone(),
            id: new.id.clone(),
            summary: new.summary.clone(),
            events: events(&new.events, known, self.now),
            started_at,
            ended_at,
            from_hooks: new.from_hooks,
        };
        self.keep_session(agent, source, &session)?;
        Ok(Receipt {
            made: Made::Session(session),
            ..Receipt::default()
        })
    }

    /// Writes a session, if there is room, and tells of it.
    pub(super) fn keep_session(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        session: &SessionRecord,
    ) -> Write<()> {
        self.make_room_for(session)?;
        self.put_session(session)?;
        let (project, id) = (&session.project, session.id.as_str());
        self.log_side("session", agent, source, project, id)
    }

    /// Sees to it that there is room for a session: those made of hook events go first, the oldest
    /// first.
    fn make_room_for(&mut self, session: &SessionRecord) -> Write<()> {
        let project = self.reader().project_id(&session.project)?;
        let mut statement = self.connection.prepare_cached(
            "SELECT octet_length(summary) + octet_length(events) FROM session WHERE project = ?1 AND name = ?2",
        )?;
        let mut rows = statement.query(params![project, session.id.as_str()])?;
        let before: Option<u64> = rows.next()?.map(|row| row.get(0)).transpose()?;
        drop(rows);
        let bytes = session.summary.as_str().len() + events_text(&session.events).len();
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let more = u64::from(before.is_none());
        let bytes = bytes.saturating_sub(before.unwrap_or(0));
        if self.has_session_room(project, more, bytes)? {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT name FROM session INDEXED BY session_from_hooks WHERE project = ?1 AND from_hooks = 1 \
             AND name <> ?2 AND ?4 ORDER BY ended_at LIMIT ?3",
        )?;
        let surplus: Vec<String> = statement
            .query_map(
                params![
                    project,
                    session.id.as_str(),
                    SURPLUS_AT_ONCE,
                    self.limits.makes_room
                ],
                |row| row.get(0),
            )?
            .collect::<Result<_, _>>()?;
        for name in surplus {
            let id = SessionId::parse(&name).map_err(|_| crate::rows::unknown("session id"))?;
            self.remove_session(&session.project, &id)?;
            self.log_side("session", None, Source::Tool, &session.project, id.as_str())?;
            if self.has_session_room(project, more, bytes)? {
                return Ok(());
            }
        }
        let size = self.reader().stored_size(project)?;
        let (sessions, limit) = (self.limits.chunks, self.limits.memory_bytes);
        invalid(format!(
            "the project has {} sessions with {} bytes, and the limit is {sessions} with {limit} bytes; forget some with forget_session, or raise the limits of [memory] in orchestra.toml",
            size.sessions, size.session_bytes
        ))
    }

    fn has_session_room(&self, project: i64, more: u64, bytes: u64) -> Write<bool> {
        let size = self.reader().stored_size(project)?;
        Ok((more == 0 || size.sessions < self.limits.chunks)
            && (bytes == 0 || size.session_bytes.saturating_add(bytes) <= self.limits.memory_bytes))
    }

    /// Writes a session, in the place of what has its id.
    pub(in crate::writing) fn put_session(&mut self, session: &SessionRecord) -> Write<()> {
        let project = self.reader().project_id(&session.project)?;
        let known = self.find_number(
            "SELECT id FROM session WHERE project = ?1 AND name = ?2",
            params![project, session.id.as_str()],
        )?;
        let row = match known {
            Some(row) => row,
            None => self.new_row(project)?,
        };
        self.execute(
            "INSERT INTO session (id, project, name, started_at, ended_at, summary, events, from_hooks) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) \
             ON CONFLICT (id) DO UPDATE SET started_at = excluded.started_at, ended_at = excluded.ended_at, \
             summary = excluded.summary, events = excluded.events, from_hooks = excluded.from_hooks",
            params![
                row,
                project,
                session.id.as_str(),
                session.started_at.unix_seconds(),
                session.ended_at.unix_seconds(),
                session.summary.as_str(),
                events_text(&session.events),
                session.from_hooks,
            ],
        )?;
        let events: Vec<&str> = session
            .events
            .iter()
            .map(|event| event.summary.as_str())
            .collect();
        self.index_memory(row, session.summary.as_str(), &events.join("\n"), "")?;
        self.dirty(&Owner::Session(session.project.clone(), session.id.clone()))
    }

    pub(in crate::writing) fn forget_session(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        project: &Slug,
        id: &SessionId,
    ) -> Write<Receipt> {
        self.reader().project_id(project)?;
        if !self.remove_session(project, id)? {
            return invalid(format!(
                "session `{id}` not found in project `{project}`; list_sessions shows them"
            ));
        }
        self.log_side("session", agent, source, project, id.as_str())?;
        Ok(Receipt {
            made: Made::SessionForgotten(id.clone()),
            ..Receipt::default()
        })
    }

    /// Removes a session; says whether it was there.
    pub(in crate::writing) fn remove_session(
        &mut self,
        project: &Slug,
        id: &SessionId,
    ) -> Write<bool> {
        let row = self.reader().project_id(project)?;
        let found = self.find_number(
            "DELETE FROM session WHERE project = ?1 AND name = ?2 RETURNING id",
            params![row, id.as_str()],
        )?;
        let Some(found) = found else {
            return Ok(false);
        };
        self.unindex_memory(found)?;
        self.dirty(&Owner::Session(project.clone(), id.clone()))?;
        Ok(true)
    }
}

/// When a session began and ended: what its caller says, else what its events and what is known of
/// it say, else now.
fn times(
    new: &NewSession,
    before: Option<&SessionRecord>,
    now: Timestamp,
) -> Result<(Timestamp, Timestamp), ActionError> {
    let told = || new.events.iter().filter_map(|event| event.at);
    let began = before.map(|before| before.started_at);
    let started_at = match new.started_at {
        Some(given) => given,
        None => told().chain(began).min().unwrap_or_else(|| {
            // Who says when it ended alone does not say that it began after that.
            new.ended_at.map_or(now, |ended| ended.min(now))
        }),
    };
    let ended_at = match (new.ended_at, told().max()) {
        (Some(given), _) => given,
        (None, Some(last)) => before.map_or(last, |before| before.ended_at.max(last)),
        (None, None) => now,
    };
    if new.ended_at.is_some() && ended_at < started_at {
        return invalid(format!(
            "ended_at, {ended_at}, is before the session began, {started_at}; give started_at as well"
        ));
    }
    Ok((started_at, ended_at.max(started_at)))
}

/// The events of a session: those given, else those known. One that is known already keeps its time.
fn events(
    new: &[NewSessionEvent],
    mut known: Vec<SessionEvent>,
    now: Timestamp,
) -> Vec<SessionEvent> {
    if new.is_empty() {
        return known;
    }
    let mut event = |event: &NewSessionEvent| {
        let same =
            |known: &SessionEvent| known.kind == event.kind && known.summary == event.summary;
        let place = known.iter().position(same);
        let known_at = place.map(|place| known.remove(place).at);
        SessionEvent {
            kind: event.kind.clone(),
            summary: event.summary.clone(),
            at: event.at.or(known_at).unwrap_or(now),
        }
    };
    new.iter().map(&mut event).collect()
}
