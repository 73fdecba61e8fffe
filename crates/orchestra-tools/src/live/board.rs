//! The issues of a project, and what changes of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use orchestra_board::{Gate, IssueId, Refusal, Slug, State};
use orchestra_store::{
    ChangeNotice, Cursor, IssueFilter, PageRequest, ProjectRecord, ReadError, Reader, Store, What,
};
use serde::Serialize;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::card::Card;
use super::{Live, LiveError, Tell, blocking, json};
use crate::wire::{ProjectRow, Word};

/// The least time between two tellings: what changes meanwhile is told together.
const BREATH: Duration = Duration::from_millis(20);
/// Where more issues of a project changed at once, it is quicker to ask for all of it.
const MANY: usize = 500;
/// How many projects are shown.
const MAX_PROJECTS: usize = 5_000;

#[derive(Serialize)]
struct Projects {
    projects: Vec<ProjectRow>,
}

/// A project with all that its board shows.
#[derive(Serialize)]
struct Board {
    project: ProjectRow,
    states: Vec<Column>,
    cards: Vec<Card>,
    /// Whether there are more than are shown.
    more: bool,
}

/// A state, and where an issue may go from it.
#[derive(Serialize)]
struct Column {
    state: Word<State>,
    exits: Vec<Exit>,
}

#[derive(Serialize)]
struct Exit {
    to: Word<State>,
    /// What has to be shown on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<&'static str>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    asks: Option<&'static str>,
}

#[derive(Serialize)]
struct Cards<'a> {
    project: &'a str,
    cards: Vec<Card>,
}

#[derive(Serialize)]
struct Gone<'a> {
    project: &'a str,
    ids: Vec<String>,
}

#[derive(Serialize)]
struct Changed<'a> {
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<&'a str>,
}

#[derive(Serialize)]
struct OfProject<'a> {
    project: &'a str,
}

pub(super) fn projects(store: &Store) -> Result<String, LiveError> {
    let rows = store.read(|reader| {
        let mut rows = Vec::new();
        let mut page = PageRequest::first(PageRequest::MAX_LIMIT);
        loop {
            let found = reader.projects(&page)?;
            rows.extend(found.items.iter().map(ProjectRow::new));
            match next(found.next_cursor) {
                Some(cursor) if rows.len() < MAX_PROJECTS => page.cursor = Some(cursor),
                _ => return Ok(rows),
            }
        }
    })?;
    Ok(json(&Projects { projects: rows }))
}

pub(super) fn board(store: &Store, slug: &Slug) -> Result<String, LiveError> {
    let now = store.now();
    let board = store.read(|reader| {
        let record = required(reader, slug)?;
        let mut cards = Vec::new();
        let mut page = PageRequest::first(PageRequest::MAX_LIMIT);
        let more = loop {
            let found = reader.issues(slug, &IssueFilter::default(), &page)?;
            cards.extend(found.items.iter().map(|issue| Card::new(issue, now)));
            match next(found.next_cursor) {
                Some(_) if cards.len() >= Live::MAX_CARDS => break true,
                Some(cursor) => page.cursor = Some(cursor),
                None => break false,
            }
        };
        Ok(Board {
            project: ProjectRow::new(&record),
            states: State::ALL.into_iter().map(Column::new).collect(),
            cards,
            more,
        })
    })?;
    Ok(json(&board))
}

fn required(reader: &Reader<'_>, slug: &Slug) -> Result<ProjectRecord, ReadError> {
    let none = || Refusal::NoProject {
        project: slug.clone(),
    };
    Ok(reader.project(slug)?.ok_or_else(none)?)
}

/// Where a list goes on; it gave the text itself.
fn next(cursor: Option<String>) -> Option<Cursor> {
    cursor.and_then(|cursor| Cursor::parse(&cursor).ok())
}

impl Column {
    fn new(state: State) -> Self {
        let exits = state.exits().iter().map(|&to| Exit {
            to: Word(to),
            gate: state.gate(to).map(Gate::as_str),
            asks: state.gate(to).map(Gate::asks_for),
        });
        Self {
            state: Word(state),
            exits: exits.collect(),
        }
    }
}

/// What changed, put together until it is told.
#[derive(Default)]
struct Pending {
    /// The issues, by project; `None` where all of it is to be asked for.
    issues: HashMap<Slug, Option<BTreeSet<IssueId>>>,
    projects: bool,
    everything: bool,
    other: HashSet<(Option<Slug>, What)>,
}

impl Pending {
    fn add(&mut self, notice: ChangeNotice) {
        let ChangeNotice {
            project,
            issue,
            what,
        } = notice;
        match (what, project, issue) {
            (What::Everything, None, _) => self.everything = true,
            (What::Projects, ..) => self.projects = true,
            (
                What::IssueCreated | What::IssueChanged | What::IssueDeleted,
                Some(project),
                Some(issue),
            ) => {
                let issues = self
                    .issues
                    .entry(project)
                    .or_insert_with(|| Some(BTreeSet::new()));
                if let Some(known) = issues {
                    known.insert(issue);
                    if known.len() > MANY {
                        *issues = None;
                    }
                }
            }
            (
                What::Everything | What::IssueCreated | What::IssueChanged | What::IssueDeleted,
                Some(project),
                _,
            ) => {
                self.issues.insert(project, None);
            }
            (what, project, _) => {
                self.other.insert((project, what));
            }
        }
    }
}

/// Tells what changes of the board from this call on.
pub(super) fn follow(
    store: Store,
    tell: Tell,
) -> impl Future<Output = ()> + Send + 'static + use<> {
    let mut changes = store.changes();
    let watch = store.watch_closely();
    async move {
        let _watch = watch;
        loop {
            let mut pending = Pending::default();
            match changes.recv().await {
                Ok(notice) => pending.add(notice),
                Err(RecvError::Lagged(_)) => pending.everything = true,
                Err(RecvError::Closed) => return,
            }
            loop {
                match changes.try_recv() {
                    Ok(notice) => pending.add(notice),
                    Err(TryRecvError::Lagged(_)) => pending.everything = true,
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            let (reading, telling) = (store.clone(), Tell::clone(&tell));
            let told = blocking(move || {
                told(&reading, pending, &*telling);
                Ok(())
            });
            // It cannot fail.
            let _ = told.await;
            tokio::time::sleep(BREATH).await;
        }
    }
}

fn told(store: &Store, pending: Pending, tell: &(dyn Fn(&'static str, String) + Send + Sync)) {
    if pending.everything {
        return tell("anew", "{}".to_owned());
    }
    if pending.projects
        && let Ok(projects) = projects(store)
    {
        tell("projects", projects);
    }
    for (slug, issues) in pending.issues {
        let project = slug.as_str();
        let read = issues.map(|issues| store.read(|reader| found(reader, &slug, issues, store)));
        match read {
            Some(Ok((cards, ids))) => {
                if !cards.is_empty() {
                    tell("cards", json(&Cards { project, cards }));
                }
                if !ids.is_empty() {
                    tell("gone", json(&Gone { project, ids }));
                }
            }
            // Whoever asks for it is told what is wrong.
            None | Some(Err(_)) => tell("project", json(&OfProject { project })),
        }
    }
    for (project, what) in pending.other {
        let project = project.as_ref().map(Slug::as_str);
        let what = word(what);
        tell("changed", json(&Changed { what, project }));
    }
}

/// The issues as they are now, with those above them, whose state follows from theirs; and which are
/// not there any more.
fn found(
    reader: &Reader<'_>,
    slug: &Slug,
    issues: BTreeSet<IssueId>,
    store: &Store,
) -> Result<(Vec<Card>, Vec<String>), ReadError> {
    let now = store.now();
    let (mut cards, mut gone, mut above) = (Vec::new(), Vec::new(), BTreeSet::new());
    for id in &issues {
        match reader.issue(slug, id)? {
            Some(record) => {
                above.extend(record.epic.iter().chain(&record.story).cloned());
                cards.push(Card::new(&record, now));
            }
            None => gone.push(id.to_string()),
        }
    }
    for id in above.difference(&issues) {
        if let Some(record) = reader.issue(slug, id)? {
            cards.push(Card::new(&record, now));
        }
    }
    Ok((cards, gone))
}

const fn word(what: What) -> &'static str {
    match what {
        What::Prd | What::PrdSession => "prd",
        What::Requests => "requests",
        What::Memory => "memory",
        What::Sessions => "sessions",
        What::Plans => "documents",
        What::Readme => "readme",
        What::Usage => "usage",
        What::HookEvents => "hooks",
        What::Projects
        | What::IssueCreated
        | What::IssueChanged
        | What::IssueDeleted
        | What::Everything => "board",
    }
}
