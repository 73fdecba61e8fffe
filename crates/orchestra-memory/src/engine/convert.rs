//! Between the messages on the wire and what the store keeps.

use orchestra_board::{Body, Label, SessionId, Slug, Timestamp};
use orchestra_store::{
    Chunk, ChunkId, ContextItem, NewChunk, NewSession, NewSessionEvent, SessionRecord,
};
use tonic::Status;

use super::{
    generated::{MemoryChunk, SessionEvent, SessionLog, StoreChunkRequest, StoreSessionRequest},
    status::argument,
};
use crate::search::{Piece, PieceKind};

/// What sort of thing happened where nobody says: on the wire, what is left out is empty.
const EVENT: &str = "event";

/// Where a session is from that stands among remembered texts.
const SESSION: &str = "session";

pub(crate) fn project(text: &str) -> Result<Slug, Status> {
    Slug::parse(text).map_err(|error| argument("project", &error))
}

pub(crate) fn session_id(text: &str) -> Result<SessionId, Status> {
    SessionId::parse(text).map_err(|error| argument("session_id", &error))
}

pub(crate) fn chunk_id(text: &str) -> Result<ChunkId, Status> {
    ChunkId::parse(text).map_err(|error| argument("id", &error))
}

/// How many are wanted: `usual` where nobody says.
pub(crate) fn limit(given: i32, usual: u32, most: u32) -> u32 {
    match u32::try_from(given) {
        Ok(0) | Err(_) => usual,
        Ok(given) => given.min(most),
    }
}

fn body(name: &str, text: &str) -> Result<Body, Status> {
    Body::parse(text).map_err(|error| argument(name, &error))
}

fn label(name: &str, text: &str) -> Result<Label, Status> {
    Label::parse(text).map_err(|error| argument(name, &error))
}

fn optional(name: &str, text: &str) -> Result<Option<Label>, Status> {
    (!text.is_empty()).then(|| label(name, text)).transpose()
}

/// A text to be remembered.
pub(crate) fn new_chunk(request: &StoreChunkRequest) -> Result<NewChunk, Status> {
    // Before each is looked at: a hundred thousand of them are not told one by one.
    let tags = &request.tags;
    if tags.len() > NewChunk::MAX_TAGS {
        let text = format!("tags: at most {}, not {}", NewChunk::MAX_TAGS, tags.len());
        return Err(Status::invalid_argument(text));
    }
    let tags = tags.iter().enumerate();
    let tags = tags.map(|(place, tag)| label(&format!("tags[{place}]"), tag));
    let content = body("content", &request.content)?;
    Ok(NewChunk {
        summary: body("summary", &request.summary)?,
        source: optional("source", &request.source)?,
        source_id: optional("source_id", &request.source_id)?,
        tags: tags.collect::<Result<_, _>>()?,
        ..NewChunk::of(project(&request.project)?, content)
    })
}

/// A session to be kept.
pub(crate) fn new_session(request: &StoreSessionRequest) -> Result<NewSession, Status> {
    let events = &request.events;
    if events.len() > NewSession::MAX_EVENTS {
        let (most, found) = (NewSession::MAX_EVENTS, events.len());
        return Err(Status::invalid_argument(format!(
            "events: at most {most}, not {found}"
        )));
    }
    let events = events.iter().enumerate();
    let events = events.map(|(place, event)| new_event(&format!("events[{place}]"), event));
    Ok(NewSession {
        project: project(&request.project)?,
        id: session_id(&request.session_id)?,
        summary: body("summary", &request.summary)?,
        events: events.collect::<Result<_, _>>()?,
        started_at: None,
        ended_at: None,
        from_hooks: false,
    })
}

fn new_event(name: &str, event: &SessionEvent) -> Result<NewSessionEvent, Status> {
    let at = match event.timestamp.as_str() {
        "" => None,
        text => Some(
            Timestamp::parse(text)
                .map_err(|error| argument(&format!("{name}.timestamp"), &error))?,
        ),
    };
    let kind = match event.r#type.as_str() {
        "" => EVENT,
        kind => kind,
    };
    Ok(NewSessionEvent {
        kind: label(&format!("{name}.type"), kind)?,
        summary: body(&format!("{name}.summary"), &event.summary)?,
        at,
    })
}

/// A remembered text, and how well it fits.
pub(crate) fn chunk(chunk: &Chunk, score: f64) -> MemoryChunk {
    let text = |label: &Option<Label>| label.as_ref().map(Label::to_string).unwrap_or_default();
    MemoryChunk {
        id: chunk.id.to_string(),
        project: chunk.project.to_string(),
        source: text(&chunk.source),
        source_id: text(&chunk.source_id),
        summary: chunk.summary.to_string(),
        content: chunk.content.to_string(),
        tags: chunk.tags.iter().map(Label::to_string).collect(),
        created_at: chunk.created_at.to_string(),
        score: single(score),
    }
}

/// What fits the work, and how well.
pub(crate) fn item(item: &ContextItem, score: f64) -> MemoryChunk {
    match item {
        ContextItem::Chunk(found) => chunk(found, score),
        ContextItem::Session(session) => MemoryChunk {
            id: session.id.to_string(),
            project: session.project.to_string(),
            source: SESSION.to_owned(),
            source_id: session.id.to_string(),
            summary: session.summary.to_string(),
            created_at: session.started_at.to_string(),
            score: single(score),
            ..MemoryChunk::default()
        },
    }
}

/// A piece of context; how well it fits is multiplied with `scored`.
pub(crate) fn piece(project: &Slug, piece: &Piece, scored: f64) -> MemoryChunk {
    let score = scored * piece.score;
    let mut shown = match &piece.kind {
        PieceKind::Remembered(found) => item(found, score),
        PieceKind::Other {
            kind,
            id,
            title,
            text,
            created_at,
        } => MemoryChunk {
            id: id.clone(),
            project: project.to_string(),
            source: (*kind).to_owned(),
            source_id: id.clone(),
            summary: title.clone(),
            content: text.clone(),
            created_at: created_at.to_string(),
            score: single(score),
            ..MemoryChunk::default()
        },
    };
    if piece.cut {
        shown.content.clone_from(&piece.snippet);
    }
    shown
}

/// A session.
pub(crate) fn session(session: &SessionRecord) -> SessionLog {
    let events = session.events.iter().map(|event| SessionEvent {
        r#type: event.kind.to_string(),
        summary: event.summary.to_string(),
        timestamp: event.at.to_string(),
    });
    SessionLog {
        session_id: session.id.to_string(),
        project: session.project.to_string(),
        summary: session.summary.to_string(),
        events: events.collect(),
        started_at: session.started_at.to_string(),
        ended_at: session.ended_at.to_string(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "scores lie between 0 and 1"
)]
const fn single(score: f64) -> f32 {
    score as f32
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn what_cannot_be_understood_is_named() {
        let good = StoreChunkRequest {
            project: "p".to_owned(),
            content: "text".to_owned(),
            tags: vec!["one".to_owned()],
            ..StoreChunkRequest::default()
        };
        assert!(new_chunk(&good).is_ok());
        let wrong = |change: fn(&mut StoreChunkRequest)| {
            let mut request = good.clone();
            change(&mut request);
            let status = new_chunk(&request).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            status.message().to_owned()
        };
        for (said, expected) in [
            (wrong(|r| r.project = "../x".to_owned()), "project: "),
            (
                wrong(|r| r.content = "\0".to_owned()),
                "content: contains the control character",
            ),
            (
                wrong(|r| r.content = "x".repeat(300_000)),
                "content: is too long",
            ),
            (wrong(|r| r.tags.push("a\nb".to_owned())), "tags[1]: "),
            (
                wrong(|r| r.tags = vec!["t".to_owned(); 100_000]),
                "tags: at most 32, not 100000",
            ),
            (wrong(|r| r.source = "\u{7}".to_owned()), "source: "),
            (wrong(|r| r.source_id = "x".repeat(51)), "source_id: "),
            (wrong(|r| r.tags.push("x".repeat(51))), "tags[1]: "),
            (wrong(|r| r.project = String::new()), "project: "),
        ] {
            assert!(said.starts_with(expected), "{said}");
        }
    }

    /// Whoever leaves a member out sends it empty.
    #[test]
    fn what_is_left_out_of_an_event_has_a_default() {
        let event = SessionEvent {
            summary: "began".to_owned(),
            ..SessionEvent::default()
        };
        let request = StoreSessionRequest {
            project: "p".to_owned(),
            session_id: "s".to_owned(),
            events: vec![event],
            ..StoreSessionRequest::default()
        };
        let session = new_session(&request).unwrap();
        let event = &session.events[0];
        assert_eq!((event.kind.as_str(), event.at), (EVENT, None));
        let mut wrong = request;
        wrong.events[0].r#type = "x".repeat(51);
        let said = new_session(&wrong).unwrap_err().message().to_owned();
        assert!(said.starts_with("events[0].type: "), "{said}");
    }

    #[test]
    fn limits_are_what_the_first_engine_took_them_for() {
        for (given, expected) in [(0, 10), (-5, 10), (3, 3), (1_000, 100)] {
            assert_eq!(limit(given, 10, 100), expected, "{given}");
        }
    }
}
