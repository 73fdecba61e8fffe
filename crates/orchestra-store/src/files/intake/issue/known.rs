//! Takes in the files of an issue that the board has: both sides are merged.

use orchestra_board::{Command, Issue};

use super::past::{self, Past};
use super::{Given, finish, history, refusal, whole};
use crate::IssueRecord;
use crate::files::conflict::{self, Ours, Question};
use crate::files::fields::{Base, DESCRIPTION, Sides, of_issue};
use crate::files::intake::course::News;
use crate::files::intake::{Aftermath, Trouble};
use crate::files::ledger::{self, Entry};
use crate::files::merge::{self, Merged, merge};
use crate::files::place::{Part, Place};
use crate::files::{Owner, Work, render};
use crate::reader::Reader;
use crate::toon::IssuePlace;

pub(super) fn take_in(
    work: &mut dyn Work,
    given: &Given<'_>,
    file: &Issue,
    record: IssueRecord,
    aftermath: &mut Aftermath,
) -> Result<(), Trouble> {
    let base = base_to_merge(work, given, file, &record.issue)?;
    let choice = given.candidate.choice(work)?;
    if base.seen.is_some() {
        let (board, said) = (of_issue(&record.issue), of_issue(file));
        let sides = Sides {
            base: &base,
            board: &board,
            file: &said,
            choice: &choice,
        };
        refusal::check_state(work, given, sides.of("status"), (file, &record.issue))?;
    }
    let merged = merge(&base, &record.issue, file, &choice);
    put(work, given, file, (&record.issue, &merged), aftermath)?;
    let before = Before {
        fields: ledger::shown(work.connection(), &given.fields.path)?,
        description: ledger::shown(work.connection(), &given.description.path)?,
    };
    finish(work, given, &merged.base)?;
    if merged.both.is_empty() {
        let before = [
            (given.fields, before.fields),
            (given.description, before.description),
        ];
        for (found, shown) in before {
            let shown = shown.map(|shown| (found.path.clone(), shown.hash));
            aftermath.settled.extend(shown);
        }
        return Ok(());
    }
    let place = given.place;
    let ours = render::issue(&Reader::new(work.connection()), &place.project, &place.id)?;
    let ours = ours.unwrap_or(record);
    let asked = ask(work, given, &ours, &merged.both, before)?;
    aftermath.ours.extend(asked);
    Ok(())
}

/// What both sides last agreed on. Refuses the file of another issue than the board's.
fn base_to_merge(
    work: &dyn Work,
    given: &Given<'_>,
    file: &Issue,
    board: &Issue,
) -> Result<Base, Trouble> {
    let place = given.place;
    let known = ledger::at(work.connection(), &given.fields.path)?;
    // A file that we moved and a person changed meanwhile is no second issue.
    let moved = known
        .as_ref()
        .is_some_and(|entry| entry.seen.is_some() && entry.owner == given.owner.key());
    let base = base_of(work, known, &given.owner)?;
    let other = base.seen.is_none() && file.uid.is_none() && file.created_at != board.created_at;
    let past = match given.candidate.follows {
        true => None,
        false => Past::of(work, given, (file, board), &base)?,
    };
    let moved = moved || past.as_ref().is_some_and(Past::is_moved);
    if given.candidate.elsewhere && !moved {
        return Err(refusal::twin(given.fields, place, "has files in two places").into());
    }
    if other && place.story.is_some() {
        let error = refusal::twin(given.fields, place, "is another issue on the board");
        for found in &given.candidate.files {
            // What we have of ours must not come to stand beside theirs.
            ledger::complain(work.connection(), &found.path, &error, given.now)?;
        }
        return Err(error.into());
    }
    Ok(match given.candidate.follows {
        true => base,
        false => past::base(past.as_ref(), file, board, base),
    })
}

/// What both sides last agreed on: as the file at this place was, or where it was moved from.
fn base_of(work: &dyn Work, known: Option<Entry>, owner: &Owner) -> Result<Base, Trouble> {
    let base = known.map(Entry::base).unwrap_or_default();
    if base.seen.is_some() {
        return Ok(base);
    }
    let files = ledger::of_owner(work.connection(), owner)?;
    let moved = files.into_iter().find(|entry| {
        let place = Place::parse(&entry.path);
        entry.seen.is_some() && matches!(place, Some(Place::Issue(_, Part::Fields)))
    });
    Ok(Base {
        seen: moved.and_then(|entry| entry.seen).map(|seen| seen.fields),
        ..base
    })
}

/// Puts there what the merging came to, and the history with it.
fn put(
    work: &mut dyn Work,
    given: &Given<'_>,
    file: &Issue,
    (board, merged): (&Issue, &Merged),
    aftermath: &mut Aftermath,
) -> Result<(), Trouble> {
    let place = given.place;
    let follows = given.candidate.follows;
    let unwritten = match follows {
        true => history::changed(work, given.history, board, aftermath.since)?,
        false => None,
    };
    if merged.issue != *board {
        work.command(&Command::PutIssue(Box::new(merged.issue.clone())))?;
    }
    match unwritten {
        Some(unwritten) => {
            put_whole(work, place, file, merged)?;
            history::replace(work, given.history, place, &unwritten)?;
            let news = whole(work, place, merged.issue.updated_at)?;
            aftermath.news.push(news);
        }
        None => {
            if !merged.rest.is_empty() {
                put_rest(work, place, file, &merged.rest)?;
            }
            if follows {
                history::take_in(work, given.history, place, board)?;
            }
            if merged.issue != *board {
                aftermath.news.push(News::ByHand(place.clone()));
            }
        }
    }
    Ok(())
}

/// Sets fields that no command sets, as the file has them.
fn put_rest(
    work: &mut dyn Work,
    place: &IssuePlace,
    file: &Issue,
    names: &[String],
) -> Result<(), Trouble> {
    let Some(record) = render::issue(&Reader::new(work.connection()), &place.project, &place.id)?
    else {
        return Ok(());
    };
    let mut issue = record.issue;
    for name in names {
        merge::take(&mut issue, name, file);
    }
    Ok(work.load_issue(&issue)?)
}

/// Sets fields that no command sets, as a file has them that tells also when it was changed.
fn put_whole(
    work: &mut dyn Work,
    place: &IssuePlace,
    file: &Issue,
    merged: &Merged,
) -> Result<(), Trouble> {
    let mut rest = merged.rest.clone();
    if merged.issue.updated_at == file.updated_at {
        rest.push("updated_at".to_owned());
    }
    put_rest(work, place, file, &rest)
}

/// What was shown of our side of conflicts until now.
struct Before {
    fields: Option<ledger::Shown>,
    description: Option<ledger::Shown>,
}

/// Leaves fields that both sides changed to a person.
fn ask(
    work: &dyn Work,
    given: &Given<'_>,
    ours: &IssueRecord,
    both: &[String],
    before: Before,
) -> Result<Vec<Ours>, Trouble> {
    let (connection, now) = (work.connection(), given.now);
    let (first, beside) = (&given.fields.path, &given.description.path);
    let what = conflict::told(both, first);
    let (text, description, fields) = render::issue_text(ours);
    let question = Question::new(first, text, fields.clone());
    let mut asked = vec![conflict::ask(
        connection,
        question,
        before.fields,
        &what,
        now,
    )?];
    if both.iter().any(|name| name == DESCRIPTION) {
        // Either may hold the description, on either side; both are left alone.
        let question = Question::new(beside, description.unwrap_or_default(), fields);
        asked.push(conflict::ask(
            connection,
            question,
            before.description,
            &what,
            now,
        )?);
    }
    Ok(asked)
}
