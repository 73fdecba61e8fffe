//! Agents in clones that change their boards and exchange them at random, while programs are killed.
//!
//! Each agent records the texts of acknowledged changes. At the end, the boards of all clones are equal, and have all of
//! them. The test is short. With `ORCHESTRA_SOAK` it takes ten minutes, or `ORCHESTRA_SOAK_MINUTES`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    board_soak::{Chance, number},
    one_board::git,
    support::{Running, Session},
    sync::{Clones, REFERENCE, tip},
};

const CLONES: usize = 4;

/// Agents of each clone: one calls tools by commands, the other one over stdio.
const AGENTS: usize = 2;

/// Changes of an agent in a short run.
const CHANGES: u64 = 5;

/// Minutes with `ORCHESTRA_SOAK`.
const MINUTES: u64 = 10;

/// Longest time in milliseconds until a program is killed.
const KILLED_WITHIN: u64 = 400;

/// End of the work of an agent.
#[derive(Debug, Clone, Copy)]
enum Until {
    Changes(u64),
    Instant(Instant),
}

struct Agent<'a> {
    clones: &'a Clones,
    clone: PathBuf,
    name: String,
    chance: Chance,
    /// Texts of acknowledged changes.
    acknowledged: Vec<String>,
    /// Ids of tasks that it has created.
    tasks: Vec<String>,
    session: Option<Session>,
    kills: u64,
    exchanges: u64,
}

impl<'a> Agent<'a> {
    fn new(clones: &'a Clones, clone: &Path, name: String, seed: u64) -> Self {
        Self {
            clones,
            clone: clone.to_owned(),
            name,
            chance: Chance::new(seed),
            acknowledged: Vec::new(),
            tasks: vec!["MA-3".to_owned()],
            session: None,
            kills: 0,
            exchanges: 0,
        }
    }

    fn work(&mut self, until: Until, is_over_stdio: bool) {
        for change in 0.. {
            let is_over = match until {
                Until::Changes(changes) => change >= changes,
                Until::Instant(end) => Instant::now() >= end,
            };
            if is_over {
                break;
            }
            self.change(change, is_over_stdio);
            match self.chance.below(10) {
                0..=2 => self.exchange(),
                3 => self.kill(&["sync"]),
                4 => {
                    let task = self.new_task("killed");
                    self.kill(&["tool", "call", "create_task", "--args", &task.to_string()]);
                }
                // A session that is dropped is killed.
                5 if self.session.take().is_some() => self.kills += 1,
                _ => {}
            }
        }
        self.session = None;
    }

    fn new_task(&self, title: &str) -> Value {
        json!({"project": "my-app", "story_id": "MA-2", "title": title, "type": "task"})
    }

    /// Makes a change with a text of its own, and records the text when the change is acknowledged.
    fn change(&mut self, number: u64, is_over_stdio: bool) {
        let text = format!("soak-{}-{number}-end", self.name);
        let which = usize::try_from(self.chance.below(1_000)).expect("few");
        let task = self.tasks[which % self.tasks.len()].clone();
        let (tool, arguments) = match self.chance.below(3) {
            0 => ("create_task", self.new_task(&text)),
            1 => (
                "update_task",
                json!({"project": "my-app", "task_id": task, "title": text}),
            ),
            _ => (
                "add_comment",
                json!({"project": "my-app", "issue_id": task, "text": text}),
            ),
        };
        let answer = match is_over_stdio {
            true => self.call_over_stdio(tool, &arguments),
            false => self.call(tool, &arguments),
        };
        let Some(answer) = answer else {
            return;
        };
        self.acknowledged.push(text);
        if let ("create_task", Some(id)) = (tool, answer["id"].as_str()) {
            self.tasks.push(id.to_owned());
        }
    }

    /// The answer of a tool; `None` when it refuses.
    fn call(&self, tool: &str, arguments: &Value) -> Option<Value> {
        let words = ["tool", "call", tool, "--args", &arguments.to_string()];
        let said = self.clones.run(&self.clone, &words);
        (said.code == Some(0)).then(|| serde_json::from_str(&said.out).unwrap_or_default())
    }

    fn call_over_stdio(&mut self, tool: &str, arguments: &Value) -> Option<Value> {
        let (clones, clone) = (self.clones, &self.clone);
        let session = self
            .session
            .get_or_insert_with(|| Session::start(clones.command(clone, &["stdio"])));
        let result = session.tool(tool, arguments);
        (result["isError"] != true).then(|| result["structuredContent"].clone())
    }

    /// Exchanges the board. Other clones may be faster each time.
    fn exchange(&mut self) {
        let said = self.clones.run(&self.clone, &["sync"]);
        assert!(matches!(said.code, Some(0 | 1)), "{said:?}");
        self.exchanges += 1;
    }

    /// Starts a command, and kills it at any moment.
    fn kill(&mut self, words: &[&str]) {
        let command = self.clones.command(&self.clone, words);
        let mut running = Running::with_stderr(command, Stdio::null());
        running.kill_after(Duration::from_millis(self.chance.below(KILLED_WITHIN)));
        self.kills += 1;
    }
}

/// Texts of changes that the board of a clone has.
fn texts_of(clone: &Path) -> BTreeSet<String> {
    let pattern = "soak-[a-z0-9]*-[0-9]*-end";
    let found = git(
        clone,
        &["grep", "--only-matching", "-h", pattern, REFERENCE],
    );
    found.lines().map(str::to_owned).collect()
}

#[test]
fn boards_of_clones_are_equal_and_lose_nothing() {
    let seed: u64 = number("ORCHESTRA_SOAK_SEED").unwrap_or(1);
    let usual = std::env::var_os("ORCHESTRA_SOAK").map(|_| MINUTES);
    let minutes: Option<u64> = number("ORCHESTRA_SOAK_MINUTES").or(usual);
    let until = match minutes {
        None => Until::Changes(CHANGES),
        Some(minutes) => Until::Instant(Instant::now() + Duration::from_secs(60 * minutes)),
    };
    let clones = Clones::new();
    let mut directories = vec![clones.one()];
    directories.extend((1..CLONES).map(|number| clones.clone_as(&format!("clone-{number}"))));
    for clone in &directories {
        clones.sync(clone, &[]);
    }
    let mut agents = Vec::new();
    for (number, clone) in directories.iter().enumerate() {
        for agent in 0..AGENTS {
            let seed = seed.wrapping_mul(64) + u64::try_from(agents.len()).expect("few");
            agents.push(Agent::new(
                &clones,
                clone,
                format!("c{number}a{agent}"),
                seed,
            ));
        }
    }
    thread::scope(|scope| {
        for (number, agent) in agents.iter_mut().enumerate() {
            scope.spawn(move || agent.work(until, number % AGENTS == 1));
        }
    });
    // The first round brings all changes to the remote, the second one to all clones, and the third one changes nothing.
    for _ in 0..2 {
        for clone in &directories {
            clones.sync(clone, &[]);
        }
    }
    for clone in &directories {
        let answer = clones.sync(clone, &[]);
        assert_eq!(answer["received"], json!([]), "{clone:?}: {answer}");
        assert_eq!(answer["sent"], json!([]), "{clone:?}: {answer}");
        assert_eq!(tip(clone), tip(&clones.remote()), "{clone:?}");
    }
    let acknowledged: BTreeSet<String> = agents
        .iter()
        .flat_map(|agent| agent.acknowledged.iter().cloned())
        .collect();
    let (kills, exchanges) = (
        agents.iter().map(|agent| agent.kills).sum::<u64>(),
        agents.iter().map(|agent| agent.exchanges).sum::<u64>(),
    );
    assert!(
        !acknowledged.is_empty(),
        "seed {seed}: no change was acknowledged"
    );
    for clone in &directories {
        let found = texts_of(clone);
        let lost: Vec<&String> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "seed {seed}, {clone:?} lost {lost:?}");
    }
    println!(
        "counted: sync soak, seed {seed}: {} changes acknowledged, {exchanges} exchanges, {kills} kills, 0 lost",
        acknowledged.len()
    );
}
