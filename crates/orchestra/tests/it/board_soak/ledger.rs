//! Acknowledged changes, and their comparison with the board.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde_json::{Value, json};

use super::caller::Caller;

/// Number of differences that are described.
const MAX_SHOWN: usize = 20;

/// Most entries of an answer.
const PAGE: u64 = 500;

/// An acknowledged change of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Created { title: String },
    Advanced { to: String },
    Claimed { agent: String },
    Commented { text: String },
}

/// Acknowledged changes of all clients.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Changes of each task.
    tasks: BTreeMap<String, Vec<Change>>,
    /// Numbers of the events that each hook has stored, in order.
    events: BTreeMap<String, Vec<u64>>,
    counts: BTreeMap<&'static str, u64>,
    /// Ids that were given to a second task.
    twice: BTreeSet<String>,
    /// Tasks that were claimed by a second agent.
    double: BTreeSet<String>,
}

/// Differences between a ledger and the board.
#[derive(Debug, Default)]
pub(super) struct Differences {
    pub(super) lost: Vec<String>,
    pub(super) double_claims: BTreeSet<String>,
    pub(super) ids_given_twice: BTreeSet<String>,
}

impl Ledger {
    /// Records a change of a task.
    pub(super) fn record(&mut self, task: &str, change: Change) {
        let known = self.tasks.entry(task.to_owned()).or_default();
        let name = match &change {
            Change::Created { .. } => "creations",
            Change::Advanced { .. } => "advances",
            Change::Claimed { .. } => "claims",
            Change::Commented { .. } => "comments",
        };
        let is_created = |known: &Change| matches!(known, Change::Created { .. });
        if is_created(&change) && known.iter().any(is_created) {
            self.twice.insert(task.to_owned());
        }
        let is_of_another = |known: &Change| match (known, &change) {
            (Change::Claimed { agent: first }, Change::Claimed { agent }) => first != agent,
            _ => false,
        };
        if known.iter().any(is_of_another) {
            self.double.insert(task.to_owned());
        }
        known.push(change);
        *self.counts.entry(name).or_default() += 1;
    }

    /// Records an event that a hook has stored.
    pub(super) fn record_event(&mut self, hook: &str, number: u64) {
        self.events.entry(hook.to_owned()).or_default().push(number);
        *self.counts.entry("events").or_default() += 1;
    }

    /// Number of changes of each kind.
    pub(super) fn summary(&self) -> String {
        let total: u64 = self.counts.values().sum();
        let mut text = format!("{total} acknowledged changes");
        for (name, count) in &self.counts {
            let _ = write!(text, ", {count} {name}");
        }
        text
    }

    /// Compares all of it with the board.
    pub(super) fn compare(&self, reader: &mut Caller<'_>) -> Differences {
        let mut found = Differences {
            lost: Vec::new(),
            double_claims: self.double.clone(),
            ids_given_twice: self.twice.clone(),
        };
        for (id, changes) in &self.tasks {
            let task = json!({"project": super::PROJECT, "task_id": id});
            let task = reader.call("get_task", &task).unwrap_or_default();
            let history = entries(reader, id);
            let has = |change: &&Change| is_there(change, &task, &history);
            let lost = changes.iter().filter(|change| !has(change));
            found
                .lost
                .extend(lost.map(|change| format!("{id}: {change:?}")));
            let claims = history.iter().filter(|entry| entry["event"] == "claimed");
            let agents: BTreeSet<&str> = claims.filter_map(|entry| entry["to"].as_str()).collect();
            if agents.len() > 1 {
                found.double_claims.insert(id.clone());
            }
        }
        let stored = stored_events(reader);
        for (hook, sent) in &self.events {
            let present: BTreeSet<u64> = stored
                .iter()
                .filter_map(|session| session.strip_prefix(hook.as_str())?.strip_prefix('-'))
                .filter_map(|number| number.parse().ok())
                .collect();
            // The board has the newest events alone.
            let oldest = present.first().or(sent.last()).copied().unwrap_or_default();
            let lost = sent
                .iter()
                .filter(|number| **number >= oldest && !present.contains(number));
            found
                .lost
                .extend(lost.map(|number| format!("{hook}: event {number}")));
        }
        found
    }
}

impl Differences {
    /// The first differences, one a line.
    pub(super) fn shown(&self) -> String {
        let lost = self.lost.iter().map(|lost| format!("lost: {lost}"));
        let double = self
            .double_claims
            .iter()
            .map(|id| format!("double claim: {id}"));
        let twice = self
            .ids_given_twice
            .iter()
            .map(|id| format!("given twice: {id}"));
        let all: Vec<String> = lost.chain(double).chain(twice).take(MAX_SHOWN).collect();
        all.join("\n")
    }
}

/// Returns whether a task or its history has a change.
fn is_there(change: &Change, task: &Value, history: &[Value]) -> bool {
    let any = |event: &str, key: &str, value: &str| {
        let mut entries = history.iter();
        entries.any(|entry| entry["event"] == event && entry[key] == value)
    };
    match change {
        Change::Created { title } => task["title"] == title.as_str(),
        Change::Advanced { to } => any("status", "to", to),
        Change::Claimed { agent } => {
            any("claimed", "to", agent) && task["claim"]["agent"] == agent.as_str()
        }
        Change::Commented { text } => any("commented", "text", text),
    }
}

/// The whole history of a task.
fn entries(reader: &mut Caller<'_>, id: &str) -> Vec<Value> {
    all(
        reader,
        "get_history",
        &json!({"project": super::PROJECT, "issue_id": id}),
    )
}

/// Sessions of the events on the board.
fn stored_events(reader: &mut Caller<'_>) -> Vec<String> {
    let events = all(reader, "get_hook_events", &json!({}));
    let sessions = events
        .iter()
        .filter_map(|event| event["session_id"].as_str());
    sessions.map(str::to_owned).collect()
}

/// Every entry of a list; none of a list that is refused.
fn all(reader: &mut Caller<'_>, tool: &str, arguments: &Value) -> Vec<Value> {
    let mut arguments = arguments.clone();
    arguments["limit"] = json!(PAGE);
    let mut found = Vec::new();
    loop {
        let page = reader.call(tool, &arguments).unwrap_or_default();
        found.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next_cursor"].as_str() {
            Some(cursor) => arguments["cursor"] = json!(cursor),
            None => return found,
        }
    }
}
