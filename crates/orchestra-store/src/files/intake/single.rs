//! Takes in everything that is one file: projects, documents, memory, and the rest.

mod chunks;
mod document;
mod project;
mod value;

pub(crate) use document::read as read_document;
pub(in crate::files) use document::side_version;
pub(in crate::files) use value::Value;

use orchestra_board::{Command, PrdOrigin, Slug};

use super::course::News;
use super::trouble::check_project;
use super::{Aftermath, Candidate, Trouble};
use crate::files::conflict::{self, Ours, Question};
use crate::files::fields::{Base, Choice, Fields, Side, Sides};
use crate::files::ledger::{self, Entry, Shown};
use crate::files::place::Place;
use crate::files::{Owner, Work, render};
use crate::reader::Reader;
use crate::toon::{self, records};

pub(super) fn take_in(
    work: &mut dyn Work,
    candidate: &Candidate,
    place: &Place,
    now: i64,
    aftermath: &mut Aftermath,
) -> Result<(), Trouble> {
    let found = candidate.first();
    let owner = Owner::of(place);
    let known = ledger::at(work.connection(), &found.path)?;
    let Some(bytes) = found.bytes() else {
        return removed(work, candidate, place, known.as_ref(), &owner);
    };
    if found.is_damaged {
        candidate.give_up_damaged(work)?;
        ledger::approve(work.connection(), &found.path)?;
        return Ok(ledger::make_due(work.connection(), &owner)?);
    }
    let mut known = Known {
        base: known.map(Entry::base).unwrap_or_default(),
        choice: candidate.choice(work)?,
        follows: candidate.follows,
        is_restored: false,
        is_of_new_project: owner
            .project()
            .is_some_and(|slug| aftermath.new.contains(slug)),
    };
    // An earlier text that a person chooses in a conflict is a choice.
    if !known.follows
        && known.choice == Choice::Open
        && let Some(now) = found.seen(Fields::default())
    {
        known.is_restored = ledger::is_earlier(work.connection(), &found.path, &now.hash)?;
    }
    let text = || found.text().map(Option::unwrap_or_default);
    let taken = match place {
        Place::Document(path) => document::take_in(work, candidate, bytes, (path, &owner), &known)?,
        Place::Project(slug) => {
            let (file, retired) = toon::project::read(&found.path, text()?, slug)?;
            let taken = project::take_in(work, &found.path, (&file, &retired), &known)?;
            if taken.both.is_empty() && known.follows {
                aftermath.news.push(News::Project(Box::new(file), retired));
            }
            taken
        }
        Place::Chunks(slug, segment) => {
            chunks::take_in(work, &found.path, text()?, (slug, *segment), &known)?
        }
        place => {
            if let Some(slug) = owner.project() {
                aftermath.news.push(News::Document(slug.clone()));
            }
            take_in_whole(work, &found.path, text()?, (place, &owner), &known)?
        }
    };
    if known.is_restored {
        let rendered = render::render(&Reader::new(work.connection()), &owner)?;
        if rendered
            .first()
            .is_some_and(|file| file.text.as_slice() != bytes)
        {
            aftermath.restored.push(found.path.clone());
        }
    }
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
        let asked = ask(work, (&found.path, &owner), &taken.both, before, now)?;
        aftermath.ours.push(asked);
    }
    Ok(())
}

/// Leaves what both sides changed to a person.
fn ask(
    work: &dyn Work,
    (path, owner): (&str, &Owner),
    both: &[String],
    before: Option<Shown>,
    now: i64,
) -> Result<Ours, Trouble> {
    let rendered = render::render(&Reader::new(work.connection()), owner)?;
    let (text, fields) = rendered
        .into_iter()
        .next()
        .map(|file| (file.text, file.fields))
        .unwrap_or_default();
    let what = conflict::told(both, path);
    let question = Question::new(path, text, fields);
    Ok(conflict::ask(
        work.connection(),
        question,
        before,
        &what,
        now,
    )?)
}

/// What is known of a file beside what it says.
struct Known {
    base: Base,
    choice: Choice,
    /// Whether the board follows files that come back to an earlier state.
    follows: bool,
    /// Whether the file has a content that it had before, which nobody chose: git or an archive put it there.
    is_restored: bool,
    /// Whether the file has come together with its project.
    is_of_new_project: bool,
}

/// What a file came to.
struct Taken {
    /// The fields as both sides agree on them now.
    base: Fields,
    /// What both sides changed.
    both: Vec<String>,
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

/// Takes in a file that is one value: it is taken as a whole or not at all.
fn take_in_whole(
    work: &mut dyn Work,
    path: &str,
    text: &str,
    (place, owner): (&Place, &Owner),
    known: &Known,
) -> Result<Taken, Trouble> {
    let reader = Reader::new(work.connection());
    let file = Value::read(path, text, place)?;
    if let Some(slug) = owner.project() {
        check_project(&reader, path, slug)?;
    }
    let file_fields = Fields::whole(file.canonical());
    let rendered = render::render(&reader, owner)?;
    let board_exists = !rendered.is_empty();
    let board_fields = match rendered.into_iter().next() {
        Some(board) if known.base != Base::default() => board.fields,
        // Sides that never met: what nobody has written loses nothing.
        Some(board) if !is_nobodys(&reader, place, &board.text)? => board.fields,
        _ => Fields::default(),
    };
    let sides = known.sides(&board_fields, &file_fields);
    match (sides.of("text"), &file) {
        (Side::Both, Value::Following(_)) | (Side::Board, _) => {}
        _ if known.is_restored && board_exists => {}
        _ if !known.follows && is_earlier(&reader, &file)? => {}
        (Side::File, Value::Prd(slug, _)) if known.is_of_new_project => {
            put_first_prd(work, &slug.clone(), file)?;
        }
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

/// Puts there the PRD that has come together with its project. It is not an edit: the project's file has its origin.
fn put_first_prd(work: &mut dyn Work, slug: &Slug, file: Value) -> Result<(), Trouble> {
    let reader = Reader::new(work.connection());
    let (project, retired) = (reader.find_project(slug)?, reader.retired(slug)?);
    file.put(work)?;
    if let Some((_, project)) = project {
        work.load_project(&project, &retired)?;
    }
    Ok(())
}

/// Whether a file is taken for an earlier state of the board: it has another time of its last change, or is one that only
/// programs add to.
fn is_earlier(reader: &Reader<'_>, file: &Value) -> Result<bool, Trouble> {
    Ok(match file {
        Value::Plan(plan, _) => reader
            .plan(&plan.project, &plan.id)?
            .is_some_and(|(board, _)| board.updated_at != plan.updated_at),
        Value::Requests(..) | Value::HookEvents(_) | Value::Usage(_) => true,
        _ => false,
    })
}

/// Whether what the board says of a place was put there by no one.
fn is_nobodys(reader: &Reader<'_>, place: &Place, text: &[u8]) -> Result<bool, Trouble> {
    Ok(match place {
        Place::Prd(slug) => reader
            .find_project(slug)?
            .is_some_and(|(_, project)| project.prd_origin == PrdOrigin::Stub),
        Place::HookEvents => text == records::write_hook_events(&[]).as_bytes(),
        Place::Usage => text == records::write_usage(&crate::UsageRecord::default()).as_bytes(),
        _ => false,
    })
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
        Place::Document(path) if unchanged => work.remove_document(path)?,
        Place::Readme(slug) if unchanged => work.load_readme(slug, None)?,
        Place::Chunks(slug, segment) if unchanged => work.load_chunks(slug, *segment, &[])?,
        Place::Session(slug, id) if unchanged => work.remove_session(slug, id)?,
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
