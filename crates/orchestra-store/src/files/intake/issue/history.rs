//! Takes in the history of an issue.

use orchestra_board::{Event, Issue};

use crate::files::fields::Fields;
use crate::files::intake::course::unwritten;
use crate::files::intake::{Found, Trouble};
use crate::files::{Work, ledger, render};
use crate::reader::Reader;
use crate::toon::history::Lines;
use crate::toon::{self, FileError, IssuePlace};

/// Where somebody changed the file of a history: what the board has and its file did not have yet.
/// `None` where nobody did, or where that cannot be told.
pub(super) fn changed(
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

/// The history in a file, if there is one.
pub(super) fn read(found: &Found, place: &IssuePlace) -> Result<Option<Vec<Event>>, FileError> {
    let text = match found.is_damaged {
        true => None,
        false => found.text()?,
    };
    text.map(|text| toon::history::read(&found.path, text, &place.project, &place.id))
        .transpose()
}

/// Takes a history as its file has it, and keeps what the file could not have.
pub(super) fn replace(
    work: &mut dyn Work,
    found: &Found,
    place: &IssuePlace,
    unwritten: &[String],
) -> Result<(), Trouble> {
    let text = found.text()?.unwrap_or_default();
    let mut events = toon::history::read(&found.path, text, &place.project, &place.id)?;
    let known = Lines::of(&events);
    let kept: String = unwritten.iter().map(|line| format!("{line}\n")).collect();
    let mut kept = toon::history::read(&found.path, &kept, &place.project, &place.id)?;
    kept.retain(|event| !known.has(event));
    events.append(&mut kept);
    Ok(work.load_history(&place.project, &place.id, &events)?)
}

/// Adds the lines of a history that the board does not have.
pub(super) fn take_in(
    work: &mut dyn Work,
    found: &Found,
    place: &IssuePlace,
    issue: &Issue,
) -> Result<(), Trouble> {
    let Some(text) = found.text()? else {
        return Ok(());
    };
    let entry = ledger::at(work.connection(), &found.path)?;
    let seen = entry.and_then(|entry| entry.seen);
    let now = found.seen(Fields::default());
    let is_known = seen.is_some_and(|seen| now.is_some_and(|now| now.hash == seen.hash));
    if is_known {
        return Ok(());
    }
    let events = toon::history::read(&found.path, text, &place.project, &place.id)?;
    let ours = render::history_text(&Reader::new(work.connection()), issue)?;
    let mut all = toon::history::read(&found.path, &ours, &place.project, &place.id)?;
    let known = Lines::of(&all);
    let mut news = events;
    news.retain(|event| !known.has(event));
    if news.is_empty() {
        return Ok(());
    }
    all.append(&mut news);
    orchestra_sort::sort_by_key(&mut all, |event| event.at);
    Ok(work.load_history(&place.project, &place.id, &all)?)
}
