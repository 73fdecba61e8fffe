//! Takes in that an issue's file was removed.

use orchestra_board::{Command, IssueRef};

use super::Given;
use crate::IssueRecord;
use crate::files::fields::{content_hash, of_issue};
use crate::files::identity::UID_FIELD;
use crate::files::intake::course::{News, is_changed_since};
use crate::files::intake::{Aftermath, Trouble};
use crate::files::place::{Part, Place};
use crate::files::{Work, ledger, render};
use crate::toon::{FileError, FileFault, IssuePlace};

/// The issue's file was removed: so is the issue, unless the board changed it meanwhile, it has
/// moved, or files still stand below it.
pub(super) fn take_in(
    work: &mut dyn Work,
    given: &Given<'_>,
    record: Option<IssueRecord>,
    aftermath: &mut Aftermath,
) -> Result<(), Trouble> {
    let (candidate, place) = (given.candidate, given.place);
    let known = ledger::at(work.connection(), &candidate.first().path)?;
    let is_awaited = match &record {
        Some(record) => is_unseen(work, record, place)?,
        None => false,
    };
    // The file of another issue tells nothing of the board's.
    let problem = ledger::problem(work.connection(), &candidate.first().path)?;
    let is_another = problem.is_some_and(|(field, _)| field == UID_FIELD);
    let record = record.filter(|record| render::place_of(record) == *place && !is_another);
    if let Some(record) = record {
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
            // What both sides agreed on is needed when that can be taken in.
            if !(is_awaited && found.path == candidate.first().path) {
                ledger::forget(work.connection(), &found.path)?;
            }
            continue;
        };
        if !entry.is_some_and(|entry| entry.is(&content_hash(&content.bytes))) {
            // A person has written it, and there is nothing it could be taken in for.
            let what = format!(
                "belongs to {}, which is missing; restore that file, or remove this one",
                candidate.first().path
            );
            let error = FileError::whole(&found.path, FileFault::Place(what));
            ledger::complain(work.connection(), &found.path, &error, given.now)?;
        }
    }
    Ok(ledger::make_due(work.connection(), &given.owner)?)
}

/// Whether the board has an issue elsewhere, where nothing was seen yet.
fn is_unseen(work: &dyn Work, record: &IssueRecord, here: &IssuePlace) -> Result<bool, Trouble> {
    let there = render::place_of(record);
    if there == *here {
        return Ok(false);
    }
    let path = Place::Issue(there, Part::Fields).path();
    let entry = ledger::at(work.connection(), &path)?;
    Ok(entry.is_none_or(|entry| entry.seen.is_none()))
}
