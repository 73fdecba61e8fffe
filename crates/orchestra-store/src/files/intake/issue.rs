//! Takes in the files of an epic, story or task.

mod history;
mod known;
mod past;
mod refusal;
mod removed;

pub(in crate::files) use refusal::{apart, below_another};

use orchestra_board::{CLAIM_LEASE_SECONDS, Command, Issue, Timestamp};

use super::course::{Goal, News, last_event};
use super::trouble::check_project;
use super::{Aftermath, Candidate, Found, Trouble};
use crate::files::fields::{Fields, of_issue};
use crate::files::identity::{Settled, deleted, settle};
use crate::files::ledger::{self, Next};
use crate::files::{Owner, Work, render};
use crate::reader::Reader;
use crate::toon::{self, IssuePlace};

/// An issue's files, as they are to be taken in.
struct Given<'c> {
    candidate: &'c Candidate,
    place: &'c IssuePlace,
    owner: Owner,
    fields: &'c Found,
    description: &'c Found,
    history: &'c Found,
    now: i64,
}

impl<'c> Given<'c> {
    fn of(candidate: &'c Candidate, place: &'c IssuePlace, now: i64) -> Self {
        let [fields, description, history] = candidate.files.as_slice() else {
            unreachable!("an issue has three files");
        };
        Self {
            candidate,
            place,
            owner: Owner::of_issue(place),
            fields,
            description,
            history,
            now,
        }
    }
}

/// Shortens a claim of a file or another board to what it could be if it began now; returns whether it was longer.
pub(crate) fn shorten_claim(issue: &mut Issue, now: i64) -> bool {
    let longest = Timestamp::from_unix_seconds(now).plus_seconds(CLAIM_LEASE_SECONDS);
    match &mut issue.claim {
        Some(claim) if claim.until > longest => {
            claim.until = longest;
            true
        }
        _ => false,
    }
}

pub(super) fn take_in(
    work: &mut dyn Work,
    candidate: &Candidate,
    place: &IssuePlace,
    now: i64,
    aftermath: &mut Aftermath,
) -> Result<(), Trouble> {
    let given = Given::of(candidate, place, now);
    let reader = Reader::new(work.connection());
    let record = render::issue(&reader, &place.project, &place.id)?;
    let of_board = record.as_ref().filter(|_| given.fields.is_damaged);
    let of_board = of_board.map(|record| render::issue_text(record).0);
    let text = match &of_board {
        Some(text) => Some(text.as_str()),
        None => given.fields.text()?,
    };
    let Some(text) = text else {
        return removed::take_in(work, &given, record, aftermath);
    };
    let path = &given.fields.path;
    let is_absent =
        given.description.is_damaged || (!candidate.removes && given.description.content.is_none());
    let half_written = is_absent || is_half_written(work, given.description)?;
    let description = match half_written {
        true => None,
        false => given
            .description
            .text()?
            .map(|text| (given.description.path.as_str(), text)),
    };
    let mut file = toon::issue::read(path, text, place, description)?;
    shorten_claim(&mut file, given.now);
    check_project(&reader, path, &place.project)?;
    refusal::check_parent(&reader, path, place)?;
    let Some(record) = record else {
        refusal::check_twins_above(&reader, path, place)?;
        return take_in_new(work, &given, file, aftermath);
    };
    if refusal::is_another(&file, &record.issue) {
        return Err(refusal::another(work, &given, text, &record.issue)?.into());
    }
    refusal::check_said_parent(work, &given, text)?;
    if half_written && file.description.is_empty() {
        file.description = record.issue.description.clone();
    }
    known::take_in(work, &given, &file, record, aftermath)
}

/// Takes in an issue that the board does not have.
fn take_in_new(
    work: &mut dyn Work,
    given: &Given<'_>,
    mut file: Issue,
    aftermath: &mut Aftermath,
) -> Result<(), Trouble> {
    let place = given.place;
    // An issue whose history cannot be read is there all the same.
    let (mut events, unreadable) = match history::read(given.history, place) {
        Ok(events) => (events, None),
        Err(error) => (None, Some(error)),
    };
    let lines = events.as_deref_mut().unwrap_or_default();
    if !given.candidate.follows {
        file.claim = None;
    }
    if let Settled::Deleted(at) = settle(work.connection(), &mut file, lines)? {
        return Err(deleted(&given.fields.path, at).into());
    }
    work.command(&Command::PutIssue(Box::new(file.clone())))?;
    work.load_issue(&file)?;
    if let Some(error) = unreadable {
        return Err(error.into());
    }
    if let Some(events) = &events {
        work.load_history(&place.project, &place.id, events)?;
    }
    let news = match given.history.content {
        Some(_) => whole(work, place, file.updated_at)?,
        None => News::ByHand(place.clone()),
    };
    aftermath.news.push(news);
    finish(work, given, &of_issue(&file))
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

/// Says that an issue was changed together with its history.
fn whole(
    work: &dyn Work,
    place: &IssuePlace,
    updated_at: Option<Timestamp>,
) -> Result<News, Trouble> {
    let after = last_event(work.connection())?;
    Ok(News::Whole(place.clone(), Goal { after, updated_at }))
}

/// Notes what was seen, and that nothing is wrong; the board's side is then compared again.
fn finish(work: &mut dyn Work, given: &Given<'_>, base: &Fields) -> Result<(), Trouble> {
    let connection = work.connection();
    for (index, found) in given.candidate.files.iter().enumerate() {
        let fields = if index == 0 {
            base.clone()
        } else {
            Fields::default()
        };
        match found.seen(fields) {
            Some(seen) => ledger::record(connection, &found.path, &given.owner, &seen)?,
            None => ledger::forget(connection, &found.path)?,
        }
        ledger::approve(connection, &found.path)?;
    }
    Ok(ledger::make_due(connection, &given.owner)?)
}
