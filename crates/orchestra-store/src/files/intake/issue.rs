//! Takes in the files of an epic, story or task.

use std::collections::HashSet;

use orchestra_board::{Command, Issue, IssueRef};

use super::{Aftermath, Candidate, Found, Ours, Trouble};
use crate::IssueRecord;
use crate::files::fields::{Fields, of_issue};
use crate::files::ledger::{self, Entry, Next};
use crate::files::merge::{self, merge};
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
        return removed(work, candidate, place, record, &owner);
    };
    let description = match is_half_written(work, beside)? {
        true => None,
        false => beside.text()?.map(|text| (beside.path.as_str(), text)),
    };
    let file = toon::issue::read(&first.path, text, place, description)?;
    if reader.find_project(&place.project)?.is_none() {
        let what = format!(
            "project {} has no project-status.toon that can be read",
            place.project
        );
        return Err(FileError::whole(&first.path, FileFault::Place(what)).into());
    }
    let known = ledger::at(work.connection(), &first.path)?;
    let Some(record) = record else {
        work.command(&Command::PutIssue(Box::new(file.clone())))?;
        work.load_issue(&file)?;
        take_in_history(work, history, place, None)?;
        return finish(work, candidate, &owner, &of_issue(&file));
    };
    if candidate.elsewhere {
        let what = format!(
            "{} stands in two places; `orchestra doctor --fix` gives the younger another id",
            place.id
        );
        return Err(FileError::whole(&first.path, FileFault::Place(what)).into());
    }
    let mut base = base_of(work, known, &owner)?;
    if let Some(base) = &mut base {
        own_writes(work, first, beside, &file, base)?;
    }
    let merged = merge(base.as_ref(), &record.issue, &file, candidate.choice(work)?);
    if merged.issue != record.issue {
        work.command(&Command::PutIssue(Box::new(merged.issue.clone())))?;
    }
    if !merged.rest.is_empty() {
        put_rest(work, place, &file, &merged.rest)?;
    }
    take_in_history(work, history, place, Some(&record.issue))?;
    finish(work, candidate, &owner, &merged.base)?;
    if !merged.both.is_empty() {
        let what = format!(
            "both sides changed {}; the board's version is in {}.conflict: put what you want into the file and remove the other",
            merged.both.join(", "),
            first.path,
        );
        let ours = render::issue(&Reader::new(work.connection()), &place.project, &place.id)?
            .unwrap_or(record);
        let (text, description, _) = render::issue_text(&ours);
        conflict(work, first, &what, text, now, aftermath)?;
        if merged.both.iter().any(|name| name == "description") {
            // Either may hold the description, on either side; both are left alone.
            conflict(
                work,
                beside,
                &what,
                description.unwrap_or_default(),
                now,
                aftermath,
            )?;
        }
    }
    Ok(())
}

/// Whether a description was being written, or being removed, when a run was cut off: the fields
/// that go with it are not there yet, or there already.
fn is_half_written(work: &dyn Work, found: &Found) -> Result<bool, Trouble> {
    let Some(now) = found.seen(Fields::default()) else {
        return Ok(false);
    };
    let entry = ledger::at(work.connection(), &found.path)?;
    Ok(entry.is_some_and(|entry| match entry.next {
        Some(Next::Content(hash)) => entry.seen.is_none() && hash == now.hash,
        Some(Next::Removed) => entry.seen.is_some_and(|seen| seen.hash == now.hash),
        None => false,
    }))
}

fn conflict(
    work: &mut dyn Work,
    found: &Found,
    what: &str,
    text: String,
    now: i64,
    aftermath: &mut Aftermath,
) -> Result<(), Trouble> {
    tracing::warn!(file = %found.path, "{what}");
    ledger::conflict(
        work.connection(),
        &found.path,
        ledger::NEW_CONFLICT_FIELD,
        what,
        now,
    )?;
    aftermath.ours.push(Ours {
        path: found.path.clone(),
        text,
    });
    Ok(())
}

/// What both sides last agreed on: as the file at this place was, or where it was moved from.
fn base_of(
    work: &dyn Work,
    known: Option<Entry>,
    owner: &Owner,
) -> Result<Option<Fields>, Trouble> {
    if let Some(seen) = known.and_then(|entry| entry.seen) {
        return Ok(Some(seen.fields));
    }
    let files = ledger::of_owner(work.connection(), owner)?;
    let fields = files.into_iter().find(|entry| {
        matches!(
            Place::parse(&entry.path),
            Some(Place::Issue(_, Part::Fields))
        )
    });
    Ok(fields.and_then(|entry| entry.seen).map(|seen| seen.fields))
}

/// Counts what a run that was disturbed had written already as agreed on, so that it is not taken
/// for somebody's change.
fn own_writes(
    work: &dyn Work,
    first: &Found,
    beside: &Found,
    file: &Issue,
    base: &mut Fields,
) -> Result<(), Trouble> {
    let is_next = |found: &Found| -> Result<bool, Trouble> {
        let Some(now) = found.seen(Fields::default()) else {
            return Ok(false);
        };
        let entry = ledger::at(work.connection(), &found.path)?;
        Ok(entry.is_some_and(|entry| entry.next == Some(Next::Content(now.hash))))
    };
    let fields = of_issue(file);
    if is_next(first)? {
        let names = Fields::names([base, &fields, &fields]);
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        for name in names.iter().filter(|name| *name != "description") {
            base.take(name, &fields);
        }
    }
    if is_next(beside)? {
        base.take("description", &fields);
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

/// Adds the lines of a history that the board does not have. A history is only ever added to.
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
    if seen.is_some_and(|seen| {
        found
            .seen(Fields::default())
            .is_some_and(|now| now.hash == seen.hash)
    }) {
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
    place: &IssuePlace,
    record: Option<IssueRecord>,
    owner: &Owner,
) -> Result<(), Trouble> {
    let known = ledger::at(work.connection(), &candidate.first().path)?;
    if let Some(record) = record.filter(|record| render::place_of(record) == *place) {
        let unchanged = known
            .and_then(|entry| entry.seen)
            .is_some_and(|seen| seen.fields == of_issue(&record.issue));
        if unchanged && !candidate.below {
            let target = IssueRef::new(place.project.clone(), place.id.clone());
            work.command(&Command::DeleteIssue {
                target,
                expected: record.issue.kind,
            })?;
        }
    }
    for found in &candidate.files {
        if found.content.is_none() {
            ledger::forget(work.connection(), &found.path)?;
        }
        ledger::approve(work.connection(), &found.path)?;
    }
    Ok(ledger::make_due(work.connection(), owner)?)
}
