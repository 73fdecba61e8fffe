//! Tells an edit from an earlier state of the board that came back, in mode `repository`: git, an archive and a copy put
//! old files in place of those that the mirror shows.

use orchestra_board::{Change, Edit, Event, Issue};

use super::{Given, history};
use crate::files::fields::{Base, Fields, of_issue};
use crate::files::intake::Trouble;
use crate::files::merge::FOLLOWING;
use crate::files::{Work, ledger, render};
use crate::reader::Reader;
use crate::toon;
use crate::toon::history::{Lines, shortened};

/// Fields that only the board changes.
const OF_THE_BOARD: [&str; 2] = ["claim", "updated_at"];

/// The history of an issue, and the events that a file of an earlier state does not have yet.
pub(super) struct Past {
    events: Vec<Event>,
    later: Vec<Event>,
}

impl Past {
    /// The past of an issue whose file is not based on what the mirror showed last; `None` where it is. An edit by hand
    /// leaves the history and the time of the last change as they are.
    pub(super) fn of(
        work: &dyn Work,
        given: &Given<'_>,
        (file, board): (&Issue, &Issue),
        base: &Base,
    ) -> Result<Option<Self>, Trouble> {
        let connection = work.connection();
        let now = given.history.seen(Fields::default()).map(|now| now.hash);
        let entry = ledger::at(connection, &given.history.path)?;
        let shown = |hash| entry.as_ref().is_some_and(|entry| entry.is(hash));
        let is_history_shown = now.as_ref().is_none_or(shown);
        let said = of_issue(file);
        let is_based = |shown: &Fields| shown.agrees("updated_at", &said);
        let mut known = [&base.seen, &base.announced].into_iter().flatten();
        if is_history_shown && known.any(is_based) {
            return Ok(None);
        }
        let text = render::history_text(&Reader::new(connection), board)?;
        let place = given.place;
        let events = toon::history::read(&given.history.path, &text, &place.project, &place.id)?;
        let mut later = events.clone();
        match history::read(given.history, place)? {
            Some(lines) if !is_history_shown => {
                // A file has only the newest events of a long history.
                let first = lines.first().map(|event| event.at);
                let lines = Lines::of(&lines);
                let is_later = |event: &Event| first.is_none_or(|first| event.at >= first);
                later.retain(|event| is_later(event) && !lines.has(event));
            }
            // Times are in seconds: what happened in the same one may be later.
            _ => later.retain(|event| event.at >= file.updated_at.unwrap_or(file.created_at)),
        }
        Ok(Some(Self { events, later }))
    }

    /// Whether the issue was moved since.
    pub(super) fn is_moved(&self) -> bool {
        self.later
            .iter()
            .any(|event| field(event) == Some("parent"))
    }

    /// What both sides last agreed on: a field that the board changed since and whose value it had before is the
    /// board's, one that it did not change since is the file's, and any other is a conflict.
    fn base(&self, file: &Issue, board: &Issue) -> Fields {
        let (said, ours) = (of_issue(file), of_issue(board));
        let mut base = ours.clone();
        for event in &self.later {
            match field(event) {
                Some(name) if self.had(name, file) => base.take(name, &said),
                Some(name) => base.disagree(name),
                None => {}
            }
        }
        for name in FOLLOWING {
            base.take(name, &said);
        }
        base
    }

    /// Whether an issue had the value that a file has for a field, as far as its history tells.
    fn had(&self, name: &str, file: &Issue) -> bool {
        let is_value = |event: &Event| match &event.change {
            Change::IssueCreated(issue) => name == "title" && issue.title == file.title,
            Change::StateChanged { from, to, .. } => {
                name == "status" && [*from, *to].contains(&file.state)
            }
            Change::Edited(edit) => edit.field() == name && is_of(edit, file),
            _ => false,
        };
        let before = self.events.len() - self.later.len();
        let mut told = self.events.iter().take(before);
        let is_untold =
            !matches!(name, "title" | "status") && !told.any(|event| field(event) == Some(name));
        is_untold || self.events.iter().any(is_value)
    }
}

/// What both sides last agreed on, in mode `repository`.
pub(super) fn base(past: Option<&Past>, file: &Issue, board: &Issue, shown: Base) -> Base {
    let mut seen = match past {
        Some(past) => past.base(file, board),
        None => shown.seen.unwrap_or_default(),
    };
    let said = of_issue(file);
    for name in OF_THE_BOARD {
        seen.take(name, &said);
    }
    Base {
        seen: Some(seen),
        announced: shown.announced,
    }
}

/// The field of an issue that an event changed.
fn field(event: &Event) -> Option<&'static str> {
    match &event.change {
        Change::Edited(edit) => Some(edit.field()),
        Change::StateChanged { .. } => Some("status"),
        Change::Moved { .. } => Some("parent"),
        Change::DependencyAdded { .. } | Change::DependencyRemoved { .. } => Some("depends_on"),
        _ => None,
    }
}

/// Whether an issue has the value of an edit. Histories repeat only the beginning of a description.
fn is_of(edit: &Edit, issue: &Issue) -> bool {
    match edit {
        Edit::Title(title) => issue.title == *title,
        Edit::Description(body) => shortened(issue.description.as_str()) == body.as_str(),
        Edit::Priority(priority) => issue.priority == *priority,
        Edit::Assignees(assignees) => issue.assignees == *assignees,
        Edit::Labels(labels) => issue.labels == *labels,
    }
}
