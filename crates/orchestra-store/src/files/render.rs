//! From the database to the text of files: everything that one owner has to show.

use orchestra_board::{Issue, IssueId, Kind, Slug, State};

use super::Owner;
use super::fields::{Fields, content_hash, of_chunks, of_issue};
use super::ledger;
use super::place::{Part, Place};
use crate::document::front;
use crate::reader::Reader;
use crate::rows::{Read, damaged, id_of, kind_place, state_of};
use crate::toon::project::{Row, Shown};
use crate::toon::{self, IssuePlace};
use crate::{IssueRecord, PageRequest};

/// The most usage sessions that are kept, and so shown.
pub(crate) const USAGE_SESSIONS: u32 = 200;

/// The most bytes of an issue's history that stand in its file: thousands of changes.
pub(crate) const MAX_HISTORY_BYTES: usize = 2 * 1024 * 1024;
/// The most bytes of a list that is shown for people and not read back. What is longer is cut: such
/// a file helps nobody, and its costs would grow with the board.
const MAX_SHOWN_BYTES: usize = 8 * 1024 * 1024;
/// What a row of such a list has beside its texts.
const ROW_BYTES: usize = 64;

/// What a file is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) place: Place,
    pub(crate) text: Vec<u8>,
    pub(crate) fields: Fields,
}

impl Rendered {
    fn whole(place: Place, text: impl Into<Vec<u8>>) -> Self {
        let text = text.into();
        let fields = Fields::whole(&text);
        Self {
            place,
            text,
            fields,
        }
    }
}

/// Where an issue's files stand.
pub(crate) fn place_of(record: &IssueRecord) -> IssuePlace {
    IssuePlace {
        project: record.issue.project.clone(),
        id: record.issue.id.clone(),
        epic: record.epic.clone(),
        story: record.story.clone(),
    }
}

/// An issue under exactly this id, no alias.
pub(crate) fn issue(
    reader: &Reader<'_>,
    project: &Slug,
    id: &IssueId,
) -> Read<Option<IssueRecord>> {
    Ok(reader
        .issue(project, id)?
        .filter(|record| record.issue.id == *id))
}

/// Returns whether the board has another text for a file than it wrote there last. A text that an issue or a project
/// shares with other files does not count.
pub(crate) fn is_unwritten(reader: &Reader<'_>, path: &str) -> Read<bool> {
    let owner = match Place::parse(path) {
        None | Some(Place::Issue(..) | Place::Project(_)) => return Ok(false),
        Some(place) => Owner::of(&place),
    };
    let rendered = render(reader, &owner)?;
    let Some(file) = rendered.iter().find(|file| file.place.path() == path) else {
        return Ok(false);
    };
    let seen = ledger::at(reader.connection(), path)?.and_then(|entry| entry.seen);
    Ok(seen.is_none_or(|seen| seen.hash != content_hash(&file.text)))
}

/// All files of an owner; none when it is not there any more.
pub(crate) fn render(reader: &Reader<'_>, owner: &Owner) -> Read<Vec<Rendered>> {
    let project = match owner {
        Owner::HookEvents => return hook_events(reader),
        Owner::Usage => {
            let text = toon::records::write_usage(&reader.usage_whole(USAGE_SESSIONS)?);
            return Ok(vec![Rendered::whole(Place::Usage, text)]);
        }
        // Other programs would use the file.
        Owner::Document(path) if !path.may_be_created() => return Ok(Vec::new()),
        Owner::Document(path) => {
            let body = reader.document_body(path)?;
            let place = Place::Document(path.clone());
            let rendered = body.map(|body| Rendered::whole(place, front::write(&body)));
            return Ok(rendered.into_iter().collect());
        }
        Owner::Project(slug)
        | Owner::Issue(slug, _)
        | Owner::Prd(slug)
        | Owner::PrdSession(slug)
        | Owner::Requests(slug)
        | Owner::Readme(slug)
        | Owner::Plan(slug, _)
        | Owner::Chunks(slug, _)
        | Owner::Session(slug, _)
        | Owner::Sessions(slug) => slug.clone(),
    };
    if reader.find_project(&project)?.is_none() {
        return Ok(Vec::new());
    }
    let file = match owner {
        Owner::Project(_) => Some(project_status(reader, &project)?),
        Owner::Issue(_, id) => {
            let record = issue(reader, &project, id)?;
            return record.map_or_else(|| Ok(Vec::new()), |record| issue_files(reader, &record));
        }
        Owner::Prd(_) => Some(Rendered::whole(
            Place::Prd(project.clone()),
            reader.prd_text(&project)?,
        )),
        Owner::PrdSession(_) => reader.prd_session(&project)?.map(|session| {
            Rendered::whole(
                Place::PrdSession(project),
                toon::records::write_prd_session(&session),
            )
        }),
        Owner::Requests(_) => requests(reader, project)?,
        Owner::Readme(_) => reader
            .readme(&project)?
            .map(|text| Rendered::whole(Place::Readme(project), text)),
        Owner::Plan(_, plan) => reader.plan(&project, plan)?.map(|(record, content)| {
            Rendered::whole(
                Place::Plan(project, plan.clone()),
                toon::plan::write(&record, &content),
            )
        }),
        Owner::Chunks(_, segment) => chunks(reader, project, *segment)?,
        Owner::Session(_, id) => reader.session(&project, id)?.map(|session| {
            Rendered::whole(
                Place::Session(project, id.clone()),
                toon::records::write_session(&session),
            )
        }),
        Owner::Sessions(_) => sessions(reader, project)?,
        Owner::HookEvents | Owner::Usage | Owner::Document(_) => None,
    };
    Ok(file.into_iter().collect())
}

/// Every page of a list.
pub(crate) fn all<T>(mut page: impl FnMut(&PageRequest) -> Read<crate::Page<T>>) -> Read<Vec<T>> {
    let mut request = PageRequest::first(PageRequest::MAX_LIMIT);
    let mut items = Vec::new();
    loop {
        let found = page(&request)?;
        items.extend(found.items);
        let Some(next) = found.next_cursor else {
            return Ok(items);
        };
        request.cursor = Some(crate::Cursor::parse(&next)?);
    }
}

/// The fields and the description of an issue, without its history.
pub(crate) fn issue_text(record: &IssueRecord) -> (String, Option<String>, Fields) {
    let epic = if record.issue.kind.is_leaf() {
        record.epic.as_ref()
    } else {
        None
    };
    let text = toon::issue::write(&record.issue, epic);
    (
        text,
        toon::issue::write_description(&record.issue),
        of_issue(&record.issue),
    )
}

fn issue_files(reader: &Reader<'_>, record: &IssueRecord) -> Read<Vec<Rendered>> {
    let place = place_of(record);
    let (text, description, fields) = issue_text(record);
    let mut files = vec![Rendered {
        place: Place::Issue(place.clone(), Part::Fields),
        text: text.into_bytes(),
        fields,
    }];
    if let Some(text) = description {
        files.push(Rendered::whole(
            Place::Issue(place.clone(), Part::Description),
            text,
        ));
    }
    let text = newest_history(reader, &record.issue)?;
    if !text.is_empty() {
        files.push(Rendered::whole(Place::Issue(place, Part::History), text));
    }
    Ok(files)
}

/// The newest lines of an issue's history, as many as its file may have; so what a change costs is
/// bounded, however much has happened, and what is written can be read. Older ones are in the
/// database alone.
fn newest_history(reader: &Reader<'_>, issue: &Issue) -> Read<String> {
    let Some(row) = reader.find_row(&issue.project, &issue.id)? else {
        return Ok(String::new());
    };
    let mut statement = reader
        .connection()
        .prepare_cached("SELECT body FROM event WHERE issue = ?1 ORDER BY seq DESC")?;
    let mut rows = statement.query([row])?;
    let (mut lines, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        bytes += line.len() + 1;
        if bytes > MAX_HISTORY_BYTES && !lines.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut text = String::with_capacity(bytes);
    for line in lines.iter().rev() {
        text.push_str(line);
        text.push('\n');
    }
    Ok(text)
}

/// The lines of an issue's history, each with the number of its event.
pub(crate) fn history_lines(reader: &Reader<'_>, issue: &Issue) -> Read<Vec<(i64, String)>> {
    let Some(row) = reader.find_row(&issue.project, &issue.id)? else {
        return Ok(Vec::new());
    };
    let mut statement = reader
        .connection()
        .prepare_cached("SELECT seq, body FROM event WHERE issue = ?1 ORDER BY seq")?;
    let lines = statement.query_map([row], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(lines.collect::<Result<_, _>>()?)
}

/// The lines of an issue's history, as the database has them.
pub(crate) fn history_text(reader: &Reader<'_>, issue: &Issue) -> Read<String> {
    let Some(row) = reader.find_row(&issue.project, &issue.id)? else {
        return Ok(String::new());
    };
    let mut statement = reader
        .connection()
        .prepare_cached("SELECT body FROM event WHERE issue = ?1 ORDER BY seq")?;
    let mut rows = statement.query([row])?;
    let mut text = String::new();
    while let Some(row) = rows.next()? {
        text.push_str(row.get_ref(0)?.as_str().map_err(damaged)?);
        text.push('\n');
    }
    Ok(text)
}

fn project_status(reader: &Reader<'_>, slug: &Slug) -> Read<Rendered> {
    let record = reader
        .project(slug)?
        .ok_or_else(|| orchestra_board::Refusal::NoProject {
            project: slug.clone(),
        })?;
    let counts = State::ALL
        .into_iter()
        .map(|state| (state, record.census.leaves_in(state)));
    let shown = Shown {
        counts: counts.filter(|(_, count)| *count > 0).collect(),
        epics: rows_of(reader, slug, Kind::Epic)?,
        stories: rows_of(reader, slug, Kind::Story)?,
    };
    let retired = reader.retired(slug)?;
    let text = toon::project::write(&record.project, &retired, &shown);
    let fields = super::fields::of_project(&record.project, &retired);
    Ok(Rendered {
        place: Place::Project(slug.clone()),
        text: text.into_bytes(),
        fields,
    })
}

fn rows_of(reader: &Reader<'_>, slug: &Slug, kind: Kind) -> Read<Vec<Row>> {
    let mut statement = reader.connection().prepare_cached(
        "SELECT i.prefix, i.number, p.prefix, p.number, i.title, i.state FROM issue i \
         LEFT JOIN issue p ON p.id = i.parent WHERE i.project = ?1 AND i.kind = ?2 ORDER BY i.prefix, i.number",
    )?;
    let mut rows = statement.query((reader.project_id(slug)?, kind_place(kind)))?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()?
        && bytes < MAX_SHOWN_BYTES
    {
        let text = |column| row.get_ref(column)?.as_str_or_null().map_err(damaged);
        let id = |prefix, number| {
            Ok::<_, crate::ReadError>(
                id_of(text(prefix)?, row.get(number)?)?.map(|id| id.to_string()),
            )
        };
        let title: String = row.get(4)?;
        bytes += title.len() + ROW_BYTES;
        found.push(Row {
            id: id(0, 1)?.unwrap_or_default(),
            parent: id(2, 3)?.unwrap_or_default(),
            title,
            state: state_of(row.get(5)?)?,
        });
    }
    Ok(found)
}

fn requests(reader: &Reader<'_>, project: Slug) -> Read<Option<Rendered>> {
    let requests = all(|page| reader.requests(&project, page))?;
    let text = toon::records::write_requests(&project, &requests);
    Ok((!requests.is_empty()).then(|| Rendered::whole(Place::Requests(project), text)))
}

fn chunks(reader: &Reader<'_>, project: Slug, segment: u64) -> Read<Option<Rendered>> {
    let chunks = reader.segment(&project, segment)?;
    let text = toon::records::write_chunks(&project, &chunks);
    let fields = of_chunks(&chunks);
    Ok((!chunks.is_empty()).then_some(Rendered {
        place: Place::Chunks(project, segment),
        text: text.into_bytes(),
        fields,
    }))
}

fn sessions(reader: &Reader<'_>, project: Slug) -> Read<Option<Rendered>> {
    let mut sessions = all(|page| reader.sessions(&project, page))?;
    orchestra_sort::sort_by(&mut sessions, |a, b| {
        (a.started_at, &a.id).cmp(&(b.started_at, &b.id))
    });
    // The newest ones, as far as they fit.
    let mut bytes = 0;
    let fits = |session: &&crate::SessionRecord| {
        bytes += session.summary.as_str().len() + ROW_BYTES;
        bytes <= MAX_SHOWN_BYTES
    };
    let shown = sessions.iter().rev().take_while(fits).count();
    sessions.drain(..sessions.len() - shown);
    let text = toon::records::write_session_index(&project, &sessions);
    Ok((!sessions.is_empty()).then(|| Rendered::whole(Place::SessionIndex(project), text)))
}

fn hook_events(reader: &Reader<'_>) -> Read<Vec<Rendered>> {
    let mut events = all(|page| reader.hook_events(None, page))?;
    events.reverse();
    let text = toon::records::write_hook_events(&events);
    Ok(vec![Rendered::whole(Place::HookEvents, text)])
}
