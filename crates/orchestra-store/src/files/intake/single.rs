//! Takes in everything that is one file: projects, documents, memory, and the rest.

use std::collections::BTreeMap;

use orchestra_board::{Command, PrdOrigin, Project, Slug};

use super::course::News;
use super::{Aftermath, Candidate, Trouble};
use crate::files::conflict::{self, Question};
use crate::files::fields::{Base, Choice, Fields, Side, Sides, of_chunks, of_project};
use crate::files::ledger::{self, Entry};
use crate::files::place::Place;
use crate::files::{Owner, Work, render};
use crate::reader::Reader;
use crate::toon::{self, FileError, FileFault, project::Alias, records};
use crate::{ActionError, Chunk, ChunkId};

/// The owner of a file that is not of an issue.
pub(crate) fn owner_of(place: &Place) -> Owner {
    match place {
        Place::Project(slug) => Owner::Project(slug.clone()),
        Place::Prd(slug) => Owner::Prd(slug.clone()),
        Place::PrdSession(slug) => Owner::PrdSession(slug.clone()),
        Place::Requests(slug) => Owner::Requests(slug.clone()),
        Place::Readme(slug) => Owner::Readme(slug.clone()),
        Place::Plan(slug, plan) => Owner::Plan(slug.clone(), plan.clone()),
        Place::Issue(place, _) => Owner::Issue(place.project.clone(), place.id.clone()),
        Place::Chunks(slug, segment) => Owner::Chunks(slug.clone(), *segment),
        Place::SessionIndex(slug) => Owner::Sessions(slug.clone()),
        Place::Session(slug, id) => Owner::Session(slug.clone(), id.clone()),
        Place::HookEvents => Owner::HookEvents,
        Place::Usage => Owner::Usage,
    }
}

pub(super) fn take_in(
    work: &mut dyn Work,
    candidate: &Candidate,
    place: &Place,
    now: i64,
    aftermath: &mut Aftermath,
) -> Result<(), Trouble> {
    let found = candidate.first();
    let owner = owner_of(place);
    let known = ledger::at(work.connection(), &found.path)?;
    let Some(text) = found.text()? else {
        return removed(work, candidate, place, known.as_ref(), &owner);
    };
    let known = Known {
        base: known.map(Entry::base).unwrap_or_default(),
        choice: candidate.choice(work)?,
    };
    let taken = match place {
        Place::Project(slug) => {
            let (file, aliases) = toon::project::read(&found.path, text, slug)?;
            let taken = take_in_project(work, &found.path, (&file, &aliases), &known)?;
            if taken.both.is_empty() {
                aftermath.news.push(News::Project(Box::new(file), aliases));
            }
            taken
        }
        Place::Chunks(slug, segment) => {
            take_in_chunks(work, &found.path, text, (slug, *segment), &known)?
        }
        place => {
            if let Some(slug) = place.project() {
                aftermath.news.push(News::Document(slug.clone()));
            }
            take_in_whole(work, &found.path, text, place, &known)?
        }
    };
    let before = ledger::shown(work.connection(), &found.path)?;
    if let Some(seen) = found.seen(taken.base) {
        ledger::record(work.connection(), &found.path, &owner, &seen)?;
    }
    ledger::approve(work.connection(), &found.path)?;
    ledger::make_due(work.connection(), &owner)?;
    if taken.both.is_empty() {
        let shown = before.map(|shown| (found.path.clone(), shown.hash));
        aftermath.settled.extend(shown);
    } else {
        let rendered = render::render(&Reader::new(work.connection()), &owner)?;
        let (text, fields) = rendered
            .into_iter()
            .next()
            .map(|file| (file.text, file.fields))
            .unwrap_or_default();
        let what = conflict::told(&taken.both, &found.path);
        let question = Question::new(&found.path, text, fields);
        aftermath.ours.push(conflict::ask(
            work.connection(),
            question,
            before,
            &what,
            now,
        )?);
    }
    Ok(())
}

/// What is known of a file beside what it says.
struct Known {
    base: Base,
    choice: Choice,
}

/// What a file came to.
struct Taken {
    /// The fields as both sides agree on them now.
    base: Fields,
    /// What both sides changed.
    both: Vec<String>,
}

fn take_in_project(
    work: &mut dyn Work,
    path: &str,
    (file, file_aliases): (&Project, &[Alias]),
    known: &Known,
) -> Result<Taken, Trouble> {
    let slug = &file.slug;
    let file_fields = of_project(file, file_aliases);
    let reader = Reader::new(work.connection());
    let Some((_, board)) = reader.find_project(slug)? else {
        if orchestra_board::View::key_taken(&reader, &file.key).map_err(crate::ReadError::from)? {
            let what = format!(
                "the key {} is another project's already; give this one another key and its issues other ids",
                file.key
            );
            return Err(FileError {
                file: path.to_owned(),
                line: 0,
                field: "key".to_owned(),
                fault: FileFault::Field(what),
            }
            .into());
        }
        work.load_project(file, file_aliases)?;
        return Ok(Taken {
            base: file_fields,
            both: Vec::new(),
        });
    };
    if file.key != board.key {
        let what = format!(
            "is {} and cannot become {}: all ids of the project begin with it",
            board.key, file.key
        );
        return Err(FileError {
            file: path.to_owned(),
            line: 0,
            field: "key".to_owned(),
            fault: FileFault::Field(what),
        }
        .into());
    }
    let aliases = reader.aliases(slug)?;
    let board_fields = of_project(&board, &aliases);
    let sides = known.sides(&board_fields, &file_fields);
    let (mut both, mut taken, mut agreed) = (Vec::new(), Vec::new(), sides.agreed());
    for name in sides.names() {
        match sides.of(name) {
            // Neither side's are lost: counters only rise, and aliases are added to.
            Side::Both if matches!(name, "counters" | "aliases") => taken.push(name),
            Side::Both if matches!(name, "project" | "description") => {
                both.push(name.to_owned());
                continue;
            }
            Side::File => taken.push(name),
            Side::Board | Side::Both => {}
        }
        agreed.take(name, &file_fields);
    }
    if taken.contains(&"project") {
        work.command(&Command::RenameProject {
            project: slug.clone(),
            name: file.name.clone(),
        })?;
    }
    let rest: Vec<&str> = taken
        .into_iter()
        .filter(|name| *name != "project")
        .collect();
    if !rest.is_empty() {
        put_rest(work, slug, file, file_aliases, &rest)?;
    }
    Ok(Taken { base: agreed, both })
}

/// Sets fields of a project that no command sets. Counters only rise, so that no id comes twice;
/// where git has changed the issues as well, they are set to what the file has at the end.
fn put_rest(
    work: &mut dyn Work,
    slug: &Slug,
    file: &Project,
    file_aliases: &[Alias],
    names: &[&str],
) -> Result<(), Trouble> {
    let reader = Reader::new(work.connection());
    let Some((_, mut project)) = reader.find_project(slug)? else {
        return Ok(());
    };
    let mut aliases: BTreeMap<_, _> = reader.aliases(slug)?.into_iter().collect();
    for name in names {
        match *name {
            "description" => project.description = file.description.clone(),
            "prd" => project.prd_origin = file.prd_origin,
            "phase_of" => project.phase_of.clone_from(&file.phase_of),
            "created_at" => project.created_at = file.created_at,
            "updated_at" => project.updated_at = file.updated_at,
            "aliases" => aliases.extend(file_aliases.iter().cloned()),
            _ => {}
        }
    }
    project.next_issue = project.next_issue.max(file.next_issue);
    project.next_bug = project.next_bug.max(file.next_bug);
    project.next_request = project.next_request.max(file.next_request);
    let aliases: Vec<Alias> = aliases.into_iter().collect();
    Ok(work.load_project(&project, &aliases)?)
}

fn take_in_chunks(
    work: &mut dyn Work,
    path: &str,
    text: &str,
    (slug, segment): (&Slug, u64),
    known: &Known,
) -> Result<Taken, Trouble> {
    let file = records::read_chunks(path, text, slug)?;
    let reader = Reader::new(work.connection());
    check_project(&reader, path, slug)?;
    let board = reader.segment(slug, segment)?;
    let (file_fields, board_fields) = (of_chunks(&file), of_chunks(&board));
    let sides = known.sides(&board_fields, &file_fields);
    let mut merged: BTreeMap<ChunkId, Chunk> = board
        .iter()
        .map(|chunk| (chunk.id, chunk.clone()))
        .collect();
    let mut files: BTreeMap<String, Chunk> = file
        .into_iter()
        .map(|chunk| (chunk.id.to_string(), chunk))
        .collect();
    let (mut both, mut agreed) = (Vec::new(), sides.agreed());
    for name in sides.names() {
        match sides.of(name) {
            Side::Board => {}
            Side::File => {
                if let Ok(id) = ChunkId::parse(name) {
                    merged.remove(&id);
                }
                merged.extend(files.remove(name).map(|chunk| (chunk.id, chunk)));
            }
            Side::Both => {
                both.push(name.to_owned());
                continue;
            }
        }
        agreed.take(name, &file_fields);
    }
    let merged: Vec<Chunk> = merged.into_values().collect();
    if merged != board {
        work.load_chunks(slug, segment, &merged)?;
    }
    Ok(Taken { base: agreed, both })
}

fn check_project(reader: &Reader<'_>, path: &str, slug: &Slug) -> Result<(), Trouble> {
    if reader.find_project(slug)?.is_some() {
        return Ok(());
    }
    let what = format!("project {slug} has no project-status.toon that can be read");
    Err(FileError::whole(path, FileFault::Place(what)).into())
}

/// Takes in a file that is one value: it is taken as a whole or not at all.
fn take_in_whole(
    work: &mut dyn Work,
    path: &str,
    text: &str,
    place: &Place,
    known: &Known,
) -> Result<Taken, Trouble> {
    let reader = Reader::new(work.connection());
    let file = Value::read(path, text, place)?;
    if let Some(slug) = place.project() {
        check_project(&reader, path, slug)?;
    }
    let file_fields = Fields::whole(&file.canonical());
    let rendered = render::render(&reader, &owner_of(place))?;
    let board_fields = match rendered.into_iter().next() {
        Some(board) if known.base != Base::default() => board.fields,
        // Sides that never met: what nobody has written loses nothing.
        Some(board) if !is_nobodys(&reader, place, &board.text)? => board.fields,
        _ => Fields::default(),
    };
    let sides = known.sides(&board_fields, &file_fields);
    match (sides.of("text"), &file) {
        (Side::Both, Value::Following(_)) | (Side::Board, _) => {}
        (Side::File, _) => file.put(work)?,
        (Side::Both, _) => {
            return Ok(Taken {
                base: sides.agreed(),
                both: vec!["this".to_owned()],
            });
        }
    }
    Ok(Taken {
        base: file_fields,
        both: Vec::new(),
    })
}

/// Whether what the board says of a place was put there by no one.
fn is_nobodys(reader: &Reader<'_>, place: &Place, text: &str) -> Result<bool, Trouble> {
    Ok(match place {
        Place::Prd(slug) => reader
            .find_project(slug)?
            .is_some_and(|(_, project)| project.prd_origin == PrdOrigin::Stub),
        Place::HookEvents => text == records::write_hook_events(&[]),
        Place::Usage => text == records::write_usage(&crate::UsageRecord::default()),
        _ => false,
    })
}

impl Known {
    const fn sides<'a>(&'a self, board: &'a Fields, file: &'a Fields) -> Sides<'a> {
        Sides {
            base: &self.base,
            board,
            file,
            choice: &self.choice,
        }
    }
}

/// The value of a file that is one value.
pub(crate) enum Value {
    Prd(Slug, String),
    Readme(Slug, String),
    PrdSession(orchestra_board::PrdSession),
    Requests(Slug, Vec<orchestra_board::Request>),
    Plan(crate::PlanRecord, orchestra_board::Body),
    Session(crate::SessionRecord),
    HookEvents(Vec<crate::HookEventRecord>),
    Usage(crate::UsageRecord),
    /// A file that follows from others and says nothing of its own.
    Following(String),
}

impl Value {
    pub(crate) fn read(path: &str, text: &str, place: &Place) -> Result<Self, FileError> {
        Ok(match place {
            Place::Prd(slug) => {
                toon::check_merge_marks(path, text)?;
                Self::Prd(slug.clone(), text.to_owned())
            }
            Place::Readme(slug) => {
                toon::check_merge_marks(path, text)?;
                Self::Readme(slug.clone(), text.to_owned())
            }
            Place::PrdSession(slug) => {
                Self::PrdSession(records::read_prd_session(path, text, slug)?)
            }
            Place::Requests(slug) => {
                Self::Requests(slug.clone(), records::read_requests(path, text, slug)?)
            }
            Place::Plan(slug, plan) => {
                let (plan, content) = toon::plan::read(path, text, slug, plan)?;
                Self::Plan(plan, content)
            }
            Place::Session(slug, id) => Self::Session(records::read_session(path, text, slug, id)?),
            Place::HookEvents => Self::HookEvents(records::read_hook_events(path, text)?),
            Place::Usage => Self::Usage(records::read_usage(path, text)?),
            Place::SessionIndex(_) | Place::Project(_) | Place::Chunks(..) | Place::Issue(..) => {
                Self::Following(text.to_owned())
            }
        })
    }

    /// The value as we would write it.
    pub(crate) fn canonical(&self) -> String {
        match self {
            Self::Prd(_, text) | Self::Readme(_, text) | Self::Following(text) => text.clone(),
            Self::PrdSession(session) => records::write_prd_session(session),
            Self::Requests(slug, requests) => records::write_requests(slug, requests),
            Self::Plan(plan, content) => toon::plan::write(plan, content.as_str()),
            Self::Session(session) => records::write_session(session),
            Self::HookEvents(events) => records::write_hook_events(events),
            Self::Usage(usage) => records::write_usage(usage),
        }
    }

    /// Puts the value there as a person's change.
    fn put(self, work: &mut dyn Work) -> Result<(), Trouble> {
        match self {
            Self::Prd(project, content) => {
                drop(work.command(&Command::WritePrd { project, content })?)
            }
            other => other.load(work)?,
        }
        Ok(())
    }

    /// Puts the value there as it is.
    pub(crate) fn load(&self, work: &mut dyn Work) -> Result<(), ActionError> {
        match self {
            Self::Prd(slug, text) => {
                let project = Reader::new(work.connection()).find_project(slug)?;
                let origin = project
                    .map(|(_, project)| project.prd_origin)
                    .unwrap_or_default();
                work.load_prd(slug, text, origin)?;
            }
            Self::Readme(slug, text) => work.load_readme(slug, Some(text))?,
            Self::PrdSession(session) => work.load_prd_session(&session.slug, Some(session))?,
            Self::Requests(slug, requests) => work.load_requests(slug, requests)?,
            Self::Plan(plan, content) => work.load_plan(plan, Some(content.as_str()))?,
            Self::Session(session) => work.load_session(session)?,
            Self::HookEvents(events) => work.load_hook_events(events)?,
            Self::Usage(usage) => work.load_usage(usage)?,
            Self::Following(_) => {}
        }
        Ok(())
    }
}

/// A file was removed: what it alone held goes, unless the board changed it meanwhile; what is
/// part of something larger is written again.
fn removed(
    work: &mut dyn Work,
    candidate: &Candidate,
    place: &Place,
    known: Option<&Entry>,
    owner: &Owner,
) -> Result<(), Trouble> {
    let path = &candidate.first().path;
    let reader = Reader::new(work.connection());
    let board = render::render(&reader, owner)?
        .into_iter()
        .next()
        .map(|file| file.fields);
    let base = known
        .and_then(|entry| entry.seen.as_ref())
        .map(|seen| &seen.fields);
    let unchanged = board.is_some() && board.as_ref() == base && !candidate.below;
    match place {
        Place::Project(slug) if unchanged => {
            work.command(&Command::DeleteProject {
                project: slug.clone(),
            })?;
        }
        Place::PrdSession(slug) if unchanged => work.load_prd_session(slug, None)?,
        Place::Readme(slug) if unchanged => work.load_readme(slug, None)?,
        Place::Chunks(slug, segment) if unchanged => work.load_chunks(slug, *segment, &[])?,
        Place::Plan(slug, plan) if unchanged => {
            if let Some((record, _)) = reader.plan(slug, plan)? {
                work.load_plan(&record, None)?;
            }
        }
        _ => {}
    }
    ledger::forget(work.connection(), path)?;
    ledger::approve(work.connection(), path)?;
    Ok(ledger::make_due(work.connection(), owner)?)
}
