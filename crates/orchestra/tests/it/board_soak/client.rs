//! Clients that change the board, and record what is acknowledged.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Chance, PROJECT, Until, World,
    caller::{Caller, Failure, Kind},
    ledger::Change,
};
use crate::support::PATIENCE;

/// Epic of all stories.
const EPIC: &str = "MA-1";

const EVIDENCE: &str = "ran the tests: 42 passed, none failed";

/// Number of the newest unclaimed tasks that clients compete for.
const CONTESTED: u64 = 4;

/// Maximum pause of a client between two changes of a long run, in milliseconds. Agents think
/// between calls; without pauses, times would measure the scheduler of a busy machine.
const MAX_PAUSE: u64 = 500;

/// A client in a worktree.
pub(super) struct Client<'w> {
    world: &'w World,
    name: String,
    caller: Caller<'w>,
    chance: Chance,
    /// Number of changes that it has begun.
    number: u64,
    story: Value,
    /// Tasks that it alone advances, with their status, oldest first.
    own: Vec<(String, String)>,
}

impl<'w> Client<'w> {
    pub(super) fn new(world: &'w World, kind: Kind, worktree: usize, seed: u64) -> Self {
        Self {
            world,
            name: format!("{}-{worktree}", kind.name()),
            caller: Caller::new(world, kind, worktree),
            chance: Chance::new(seed),
            number: 0,
            story: Value::Null,
            own: Vec::new(),
        }
    }

    pub(super) const fn caller(&self) -> &Caller<'w> {
        &self.caller
    }

    /// Changes the board until the end of a phase.
    pub(super) fn work(&mut self, until: Until) {
        let mut left = match until {
            Until::Changes(changes) => changes,
            Until::Instant(_) => u64::MAX,
        };
        while left > 0 {
            if let Until::Instant(end) = until {
                if Instant::now() >= end {
                    return;
                }
                thread::sleep(Duration::from_millis(self.chance.below(MAX_PAUSE)));
            }
            self.change();
            self.world.progress.fetch_add(1, Ordering::Relaxed);
            left -= 1;
        }
    }

    fn change(&mut self) {
        self.number += 1;
        match (self.caller.kind(), self.number % 4) {
            (Kind::Hook, _) => self.send_event(),
            (_, 1) => self.create(),
            (_, 2) => self.advance(),
            (_, 3) => self.claim(),
            (_, _) => self.comment(),
        }
    }

    fn send_event(&mut self) {
        let number = self.number;
        let session = format!("{}-{number}", self.name);
        let event = json!({"hook_event_name": "PostToolUse", "session_id": session});
        let caller = &self.caller;
        self.world
            .until_acknowledged("hook", || caller.send_event(&event));
        self.world.ledger().record_event(&self.name, number);
    }

    /// Creates a task, alternately for this client alone and for the competition of all.
    fn create(&mut self) {
        if self.story.is_null() {
            let story =
                json!({"project": PROJECT, "epic_id": EPIC, "title": self.name, "user_story": "U"});
            self.story = self.caller.call_until_acknowledged("create_story", &story)["id"].clone();
        }
        let title = format!("{} {}", self.name, self.number);
        let task =
            json!({"project": PROJECT, "story_id": self.story, "title": title, "type": "task"});
        let created = self.caller.call_until_acknowledged("create_task", &task);
        let id = created["id"].as_str().expect("a task has an id").to_owned();
        self.world.ledger().record(&id, Change::Created { title });
        match self.number / 4 % 2 {
            0 => self.own.push((id, "backlog".to_owned())),
            _ => self.world.contested().push(id),
        }
    }

    /// Moves the oldest task of its own that is not done by one state.
    fn advance(&mut self) {
        let open = self.own.iter().position(|(_, status)| status != "done");
        let Some((place, (id, status))) = open.map(|place| (place, self.own[place].clone())) else {
            return self.create();
        };
        let mut arguments = json!({"project": PROJECT, "task_id": id});
        let tool = match &*status {
            "backlog" => {
                arguments["status"] = json!("todo");
                "update_task"
            }
            "todo" => "set_current_task",
            _ => {
                arguments["evidence"] = json!(EVIDENCE);
                "advance_task"
            }
        };
        match self.caller.call(tool, &arguments) {
            Ok(moved) => {
                let to = moved["to"].as_str().or(moved["status"].as_str());
                let to = to.expect("a task has a status").to_owned();
                self.own[place].1.clone_from(&to);
                self.world.ledger().record(&id, Change::Advanced { to });
            }
            Err(failure) => {
                // It may be done all the same.
                self.world.failed(&failure);
                let task = json!({"project": PROJECT, "task_id": id});
                let task = self.caller.call_until_acknowledged("get_task", &task);
                let status = task["status"].as_str().expect("a task has a status");
                status.clone_into(&mut self.own[place].1);
            }
        }
    }

    /// Tries to claim one of the newest tasks that all compete for.
    fn claim(&mut self) {
        let back = usize::try_from(self.chance.below(CONTESTED)).expect("small");
        let contested = self.world.contested();
        let task = contested.iter().rev().take(back + 1).next_back().cloned();
        drop(contested);
        let Some(task) = task else {
            return self.create();
        };
        let claim = json!({"project": PROJECT, "task_id": task, "agent": self.name});
        match self.caller.call("claim_task", &claim) {
            Ok(_) => {
                let agent = self.name.clone();
                self.world.ledger().record(&task, Change::Claimed { agent });
            }
            Err(failure) => self.world.failed(&failure),
        }
    }

    fn comment(&mut self) {
        let Some((task, _)) = self.own.last().cloned() else {
            return self.create();
        };
        let text = format!("{} {}", self.name, self.number);
        let comment = json!({"project": PROJECT, "issue_id": task, "text": text});
        self.caller.call_until_acknowledged("add_comment", &comment);
        self.world
            .ledger()
            .record(&task, Change::Commented { text });
    }
}

impl World {
    /// Repeats a call until it is acknowledged.
    pub(super) fn until_acknowledged<T>(
        &self,
        name: &str,
        mut call: impl FnMut() -> Result<T, Failure>,
    ) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            match call() {
                Ok(answer) => return answer,
                Err(failure) => {
                    self.failed(&failure);
                    assert!(Instant::now() < end, "{name}: {}", failure.text());
                    thread::yield_now();
                }
            }
        }
    }

    pub(super) fn failed(&self, failure: &Failure) {
        let count = match failure {
            Failure::Refused(_) => &self.refused,
            Failure::Unanswered(_) => &self.unanswered,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
