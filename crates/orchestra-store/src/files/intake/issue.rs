//! Takes in the files of an epic, story or task.

use std::collections::HashSet;

use orchestra_board::{Command, Issue, IssueRef, Timestamp};

use super::course::{Goal, News, is_changed_since, last_event, unwritten};
use super::{Aftermath, Candidate, Found, Trouble};
use crate::IssueRecord;
use crate::files::conflict::{self, Ours, Question};
use crate::files::fields::{Base, DESCRIPTION, Fields, content_hash, of_issue};
use crate::files::ledger::{self, Entry, Next};
use crate::files::merge::{self, Merged, merge};
use crate::files::place::{Part, Place};
use crate::files::{Owner, Work, render};
use crate::reader::Reader;
use crate::toon::{self, FileError, FileFault, IssuePlace};

pub(super) fn take_in(
    work: &mut dyn Work,
    candidate: &Candidate,
    place: &IssuePlace,
    now: i64,
    aftermath: &mut Aftermath,
) -> Result<(), Trouble> {
    let owner = Owner::Issue(place.project.clone(), place.id.clone());
    let reader = Reader::new(work.connection());
    let [first, beside, history] = candidate.files.as_slice() else {
        unreachable!("an issue has three files");
    };
    let record = render::issue(&reader, &place.project, &place.id)?;
    let Some(text) = first.text()? else {
        return removed(work, candidate, (place, &owner), record, now, aftermath);
    };
    let half_written = is_half_written(work, beside)?;
    let description = match half_written {
        true => None,
        false => beside.text()?.map(|text| (beside.path.as_str(), text)),
    };
    let mut file = toon::issue::read(&first.path, text, place, description)?;
    if reader.find_project(&place.project)?.is_none() {
        let what = format!(
            "project {} has no project-status.toon that can be read",
            place.project
        );
        return Err(FileError::whole(&first.path, FileFault::Place(what)).into());
    }
    check_parent(&reader, &first.path, place)?;
    let known = ledger::at(work.connection(), &first.path)?;
    let Some(record) = record else {
        work.command(&Command::PutIssue(Box::new(file.clone())))?;
        work.load_issue(&file)?;
        take_in_history(work, history, place, None)?;
        let news = match history.content {
            Some(_) => whole(work, place, file.updated_at)?,
            None => News::ByHand(place.clone()),
        };
        aftermath.news.push(news);
        return finish(work, candidate, &owner, &of_issue(&file));
    };
    // A file that we moved and a person changed meanwhile is no second issue.
    let moved = known
        .as_ref()
        .is_some_and(|entry| entry.seen.is_some() && entry.owner == owner.key());
    let base = base_of(work, known, &owner)?;
    let other = base.seen.is_none() && file.created_at != record.issue.created_at;
    if candidate.elsewhere && !moved {
        return Err(twin(first, place, "stands in two places").into());
    }
    if other && place.story.is_some() {
        let error = twin(first, place, "is another issue on the board");
        for found in &candidate.files {
            // What we have of ours must not come to stand beside theirs.
            ledger::complain(work.connection(), &found.path, &error, now)?;
        }
        return Err(error.into());
    }
    if half_written && file.description.is_empty() {
        file.description = record.issue.description.clone();
    }
    let merged = merge(&base, &record.issue, &file, &candidate.choice(work)?);
    let unwritten = changed_history(work, history, &record.issue, aftermath.since)?;
    if merged.issue != record.issue {
        work.command(&Command::PutIssue(Box::new(merged.issue.clone())))?;
    }
    match unwritten {
        Some(unwritten) => {
            put_whole(work, place, &file, &merged)?;
            replace_history(work, history, place, &unwritten)?;
            let news = whole(work, place, merged.issue.updated_at)?;
            aftermath.news.push(news);
        }
        None => {
            if !merged.rest.is_empty() {
                put_rest(work, place, &file, &merged.rest)?;
            }
            take_in_history(work, history, place, Some(&record.issue))?;
            if merged.issue != record.issue {
                aftermath.news.push(News::ByHand(place.clone()));
            }
        }
    }
    let before = Before {
        fields: ledger::shown(work.connection(), &first.path)?,
        description: ledger::shown(work.connection(), &beside.path)?,
    };
    finish(work, candidate, &owner, &merged.base)?;
    if merged.both.is_empty() {
        let before = [
            (&first.path, before.fields),
            (&beside.path, before.description),
        ];
        for (path, shown) in before {
            let shown = shown.map(|shown| (path.clone(), shown.hash));
            aftermath.settled.extend(shown);
        }
        return Ok(());
    }
    let ours = render::issue(&Reader::new(work.connection()), &place.project, &place.id)?;
    let ours = ours.unwrap_or(record);
    let asked = ask(work, candidate, &ours, &merged.both, before, now)?;
    aftermath.ours.extend(asked);
    Ok(())
}

/// What was shown of our side of conflicts until now.
struct Before {
    fields: Option<ledger::Shown>,
    description: Option<ledger::Shown>,
}

/// Leaves fields that both sides changed to a person.
fn ask(
    work: &dyn Work,
    candidate: &Candidate,
    ours: &IssueRecord,
    both: &[String],
    before: Before,
    now: i64,
) -> Result<Vec<Ours>, Trouble> {
    let [first, beside, _] = candidate.files.as_slice() else {
        unreachable!("an issue has three files");
    };
    let connection = work.connection();
    let what = conflict::told(both, &first.path);
    let (text, description, fields) = render::issue_text(ours);
    let question = Question::new(&first.path, text, fields.clone());
    let mut asked = vec![conflict::ask(
        connection,
        question,
        before.fields,
        &what,
        now,
    )?];
    if both.iter().any(|name| name == DESCRIPTION) {
        // Either may hold the description, on either side; both are left alone.
        let question = Question::new(&beside.path, description.unwrap_or_default(), fields);
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

fn twin(found: &Found, place: &IssuePlace, what: &str) -> FileError {
    let what = format!(
        "{} {what}; `orchestra doctor --fix` gives the younger another id",
        place.id
    );
    FileError::whole(&found.path, FileFault::Place(what))
}

/// What is told of a file below a parent that the board has elsewhere, `there`.
pub(crate) fn below_another(there: &IssuePlace) -> String {
    format!(
        "stands below another {} than the board has, which is in {}; `orchestra doctor --fix` tells two of one id apart",
        there.id,
        Place::Issue(there.clone(), Part::Fields).path()
    )
}

/// Refuses what stands below a parent that the board has elsewhere: the directory may be that of
/// another issue with the same id.
fn check_parent(reader: &Reader<'_>, path: &str, place: &IssuePlace) -> Result<(), Trouble> {
    let Some(parent) = place.parent() else {
        return Ok(());
    };
    let known = render::issue(reader, &place.project, parent)?;
    let Some(there) = known.map(|record| render::place_of(&record)) else {
        return Ok(());
    };
    if place.story.is_none() || there.epic == place.epic {
        return Ok(());
    }
    let what = below_another(&there);
    Err(FileError::whole(path, FileFault::Place(what)).into())
}

/// Whether a description was being written, or being removed, when a run was cut off: the fields
/// that go with it are not there yet, or there already, or it is not there itself.
fn is_half_written(work: &dyn Work, found: &Found) -> Result<bool, Trouble> {
    let now = found.seen(Fields::default()).map(|now| now.hash);
    let entry = ledger::at(work.connection(), &found.path)?;
    Ok(entry.is_some_and(|entry| match (entry.next, now) {
        (Some(Next::Content(hash)), Some(now)) => entry.seen.is_none() && hash == now,
        (Some(Next::Removed), Some(now)) => entry.seen.is_some_and(|seen| seen.hash == now),
        (Some(_), None) => true,
        (None, _) => false,
    }))
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

/// Says that an issue was changed together with its history.
fn whole(
    work: &dyn Work,
    place: &IssuePlace,
    updated_at: Option<Timestamp>,
) -> Result<News, Trouble> {
    let after = last_event(work.connection())?;
    Ok(News::Whole(place.clone(), Goal { after, updated_at }))
}

/// Where somebody changed the file of a history: what the board has and its file did not have yet.
/// `None` where nobody did, or where that cannot be told.
fn changed_history(
    work: &dyn Work,
    found: &Found,
    issue: &Issue,
    since: i64,
) -> Result<Option<Vec<String>>, Trouble> {
    let entry = ledger::at(work.connection(), &found.path)?;
    let (Some(now), Some(entry)) = (found.seen(Fields::default()), entry) else {
        return Ok(None);
    };
    match &entry.seen {
        Some(seen) if !entry.is(&now.hash) => unwritten(work, issue, &seen.hash, since),
        _ => Ok(None),
    }
}

/// Takes a history as its file has it, and keeps what the file could not have.
fn replace_history(
    work: &mut dyn Work,
    found: &Found,
    place: &IssuePlace,
    unwritten: &[String],
) -> Result<(), Trouble> {
    let text = found.text()?.unwrap_or_default();
    let mut events = toon::history::read(&found.path, text, &place.project, &place.id)?;
    let lines: HashSet<&str> = text.lines().collect();
    let kept = unwritten
        .iter()
        .filter(|line| !lines.contains(line.as_str()));
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    let mut kept = toon::history::read(&found.path, &kept, &place.project, &place.id)?;
    events.append(&mut kept);
    Ok(work.load_history(&place.project, &place.id, &events)?)
}

/// Adds the lines of a history that the board does not have.
fn take_in_history(
    work: &mut dyn Work,
    found: &Found,
    place: &IssuePlace,
    known: Option<&Issue>,
) -> Result<(), Trouble> {
    let Some(text) = found.text()? else {
        return Ok(());
    };
    let entry = ledger::at(work.connection(), &found.path)?;
    let seen = entry.and_then(|entry| entry.seen);
    let now = found.seen(Fields::default());
    let is_known = seen.is_some_and(|seen| now.is_some_and(|now| now.hash == seen.hash));
    if is_known && known.is_some() {
        return Ok(());
    }
    let events = toon::history::read(&found.path, text, &place.project, &place.id)?;
    let Some(issue) = known else {
        return Ok(work.load_history(&place.project, &place.id, &events)?);
    };
    let ours = render::history_text(&Reader::new(work.connection()), issue)?;
    let lines: HashSet<&str> = ours.lines().collect();
    let news = events.into_iter().filter(|event| {
        toon::history::line(event).is_none_or(|line| !lines.contains(line.as_str()))
    });
    let mut news: Vec<_> = news.collect();
    if news.is_empty() {
        return Ok(());
    }
    let mut all = toon::history::read(&found.path, &ours, &place.project, &place.id)?;
    all.append(&mut news);
    all.sort_by_key(|event| event.at);
    Ok(work.load_history(&place.project, &place.id, &all)?)
}

/// Notes what was seen, and that nothing is wrong; the board's side is then compared again.
fn finish(
    work: &mut dyn Work,
    candidate: &Candidate,
    owner: &Owner,
    base: &Fields,
) -> Result<(), Trouble> {
    let connection = work.connection();
    for (index, found) in candidate.files.iter().enumerate() {
        let fields = if index == 0 {
            base.clone()
        } else {
            Fields::default()
        };
        match found.seen(fields) {
            Some(seen) => ledger::record(connection, &found.path, owner, &seen)?,
            None => ledger::forget(connection, &found.path)?,
        }
        ledger::approve(connection, &found.path)?;
    }
    Ok(ledger::make_due(connection, owner)?)
}

/// The issue's file was removed: so is the issue, unless the board changed it meanwhile, it has
/// moved, or files still stand below it.
fn removed(
    work: &mut dyn Work,
    candidate: &Candidate,
    (place, owner): (&IssuePlace, &Owner),
    record: Option<IssueRecord>,
    now: i64,
    aftermath: &mut Aftermath,
) -> Result<(), Trouble> {
    let known = ledger::at(work.connection(), &candidate.first().path)?;
    if let Some(record) = record.filter(|record| render::place_of(record) == *place) {
        let unchanged = known
            .and_then(|entry| entry.seen)
            .is_some_and(|seen| seen.fields == of_issue(&record.issue));
        // What goes with it may have changed it already.
        let unchanged = unchanged
            || (aftermath.intact.contains(&candidate.first().path)
                && !is_changed_since(work.connection(), &record.issue, aftermath.since)?);
        if unchanged && !candidate.below {
            let target = IssueRef::new(place.project.clone(), place.id.clone());
            work.command(&Command::DeleteIssue {
                target,
                expected: record.issue.kind,
            })?;
            let all = candidate.files.iter().all(|found| found.content.is_none());
            aftermath.news.push(match all {
                true => News::Removed(place.clone()),
                false => News::ByHand(place.clone()),
            });
        }
    }
    for found in &candidate.files {
        let entry = ledger::at(work.connection(), &found.path)?;
        ledger::approve(work.connection(), &found.path)?;
        let Some(content) = &found.content else {
            ledger::forget(work.connection(), &found.path)?;
            continue;
        };
        if !entry.is_some_and(|entry| entry.is(&content_hash(&content.bytes))) {
            // A person has written it, and there is nothing it could be taken in for.
            let what = format!(
                "stands without {}; put that back, or remove this",
                candidate.first().path
            );
            let error = FileError::whole(&found.path, FileFault::Place(what));
            ledger::complain(work.connection(), &found.path, &error, now)?;
        }
    }
    Ok(ledger::make_due(work.connection(), owner)?)
}
