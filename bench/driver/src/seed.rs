//! Boards of any size, made through the tools as an agent would, only with many calls in flight.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    server::{self, Server},
    table::say,
};

/// Calls in flight while seeding.
const WINDOW: usize = 64;

/// Tasks under one story; a list of 50 is a page of it.
const TASKS_OF_A_STORY: usize = 500;

/// Each of these tasks has been started, so that it can be advanced.
const STARTED: usize = 60;

/// A word that occurs in every task.
pub(crate) const COMMON: &str = "module";

const WORDS: &[&str] = &[
    "parser", "cache", "login", "export", "search", "index", "report", "widget", "queue", "driver",
    "schema", "editor", "upload", "filter", "router", "backup",
];

const PRIORITIES: &[&str] = &["low", "medium", "high", "critical"];

/// Where a task lies.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    story: usize,
    pub(crate) id: String,
}

/// A workspace with one project.
pub(crate) struct Board {
    workspace: TempDir,
    pub(crate) project: String,
    /// Ids of epic and story.
    stories: Vec<(String, String)>,
    /// Every task, in the order in which they were created; the first ones are in progress.
    pub(crate) tasks: Vec<Address>,
}

/// Boards by the number of their tasks, each made when first asked for.
#[derive(Default)]
pub(crate) struct Boards {
    made: BTreeMap<usize, Board>,
}

impl Boards {
    /// The board with so many tasks.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn with_tasks(&mut self, count: usize) -> Result<&Board> {
        match self.made.entry(count) {
            Entry::Occupied(made) => Ok(made.into_mut()),
            Entry::Vacant(place) => {
                let board = make(count).with_context(|| format!("a board of {count} tasks"))?;
                Ok(place.insert(board))
            }
        }
    }
}

impl Board {
    /// Its directory.
    pub(crate) fn path(&self) -> &Path {
        self.workspace.path()
    }

    /// A server on it, past the handshake.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn open(&self) -> Result<Server> {
        Server::open(&mut server::orchestra(self.path(), &[])?)
    }

    /// Arguments that address a task.
    pub(crate) fn task(&self, address: &Address) -> Value {
        let (epic, story) = &self.stories[address.story];
        json!({
            "project": self.project, "epic_id": epic, "story_id": story, "task_id": address.id,
        })
    }

    /// Readable file of a task.
    pub(crate) fn file(&self, address: &Address) -> PathBuf {
        let (epic, story) = &self.stories[address.story];
        let (project, id) = (&self.project, &address.id);
        let file = format!(".projects/{project}/epics/{epic}/stories/{story}/tasks/{id}.toon");
        self.path().join(file)
    }

    /// Arguments that address the story at an index, modulo how many there are.
    pub(crate) fn story(&self, index: usize) -> Value {
        let (epic, story) = &self.stories[index % self.stories.len()];
        json!({"project": self.project, "epic_id": epic, "story_id": story})
    }

    /// Arguments that create the task with this number.
    pub(crate) fn new_task(&self, number: usize) -> Value {
        let mut arguments = self.story(number / TASKS_OF_A_STORY);
        let word = |step: usize| WORDS[number / step % WORDS.len()];
        arguments["title"] = json!(format!("Make {} {COMMON} {number} faster", word(1)));
        arguments["type"] = json!(if number.is_multiple_of(7) {
            "bug"
        } else {
            "task"
        });
        arguments["priority"] = json!(PRIORITIES[number % PRIORITIES.len()]);
        arguments["description"] = json!(format!(
            "The {} of the {COMMON} is slow when the {} grows. Ticket z{} has the trace.",
            word(3),
            word(16),
            number / 100
        ));
        arguments
    }
}

/// A directory on the disk that is measured, gone when dropped.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn directory() -> Result<TempDir> {
    let parent = scratch()?;
    fs::create_dir_all(&parent).context("creating the directory of workspaces")?;
    let workspace = TempDir::new_in(parent).context("creating a workspace")?;
    // Otherwise its board would be in the repository that has the directory of builds.
    let mut git = Command::new("git");
    let made = git.args(["init", "--quiet"]).current_dir(&workspace);
    ensure!(
        made.status().context("starting git")?.success(),
        "git init failed"
    );
    Ok(workspace)
}

/// Beside our own program, for the system's temporary directory may lie in memory.
fn scratch() -> Result<PathBuf> {
    let own = std::env::current_exe().context("looking for our own program")?;
    Ok(own.with_file_name("bench-workspaces"))
}

fn make(count: usize) -> Result<Board> {
    let started = Instant::now();
    let mut board = Board {
        workspace: directory()?,
        project: String::new(),
        stories: Vec::new(),
        tasks: Vec::with_capacity(count),
    };
    let mut server = board.open()?;
    let project = server.call_json("create_project", &json!({"name": "Bench Board"}))?;
    board.project = text(&project, "slug")?;
    let epics = count.div_ceil(TASKS_OF_A_STORY * 20).max(1);
    for number in 0..epics {
        let arguments = json!({"project": board.project, "title": format!("Epic {number}")});
        let epic = text(&server.call_json("create_epic", &arguments)?, "id")?;
        for number in 0..count.div_ceil(TASKS_OF_A_STORY * epics) {
            let title = format!("Story {number}");
            let arguments = json!({
                "project": board.project, "epic_id": epic, "title": title,
                "user_story": "As a user I want it faster",
            });
            let story = text(&server.call_json("create_story", &arguments)?, "id")?;
            board.stories.push((epic.clone(), story));
        }
    }
    let stories = board.stories.len();
    let creations = (0..count).map(|number| ("create_task", board.new_task(number)));
    let answers = pipelined(&mut server, creations)?;
    for (number, answer) in answers.iter().enumerate() {
        let id = text(&serde_json::from_str(answer)?, "id")?;
        let story = number / TASKS_OF_A_STORY % stories;
        board.tasks.push(Address { story, id });
    }
    start_some(&mut server, &board)?;
    let made = started.elapsed();
    server.close()?;
    say(&format!(
        "Seeded {count} tasks in {:.1} s ({:.0}/s, {WINDOW} in flight), files complete after {:.1} s.\n",
        made.as_secs_f64(),
        count as f64 / made.as_secs_f64(),
        started.elapsed().as_secs_f64(),
    ));
    Ok(board)
}

fn start_some(server: &mut Server, board: &Board) -> Result<()> {
    for status in ["todo", "in-progress"] {
        let some = board.tasks.iter().take(STARTED);
        let moves = some.map(|address| {
            let mut arguments = board.task(address);
            arguments["status"] = json!(status);
            ("update_task", arguments)
        });
        pipelined(server, moves)?;
    }
    Ok(())
}

/// Makes calls with a full window and returns their texts in the order of the calls.
///
/// # Errors
/// When one of them is refused.
fn pipelined(
    server: &mut Server,
    calls: impl Iterator<Item = (&'static str, Value)>,
) -> Result<Vec<String>> {
    let mut calls = calls.enumerate();
    let mut texts: Vec<Option<String>> = Vec::new();
    let mut in_flight = 0;
    loop {
        while in_flight < WINDOW {
            let Some((number, (tool, arguments))) = calls.next() else {
                break;
            };
            let params = json!({"name": tool, "arguments": arguments});
            let id = format!("seed-{number}");
            server.send(&json!({
                "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params,
            }))?;
            texts.push(None);
            in_flight += 1;
        }
        if in_flight == 0 {
            break;
        }
        let answer = server.receive()?;
        let id = answer["id"]
            .as_str()
            .and_then(|id| id.strip_prefix("seed-"));
        let Some(id) = id else { continue };
        let error = answer.get("error");
        ensure!(error.is_none(), "call {id}: {answer}");
        let text = server::text_of(&answer["result"]).with_context(|| format!("call {id}"))?;
        texts[id.parse::<usize>()?] = Some(text);
        in_flight -= 1;
    }
    let texts: Option<Vec<String>> = texts.into_iter().collect();
    texts.context("a call was not answered")
}

/// A text member of a record.
///
/// # Errors
/// When it is not there.
pub(crate) fn text(record: &Value, name: &str) -> Result<String> {
    let text = record[name].as_str();
    let text = text.with_context(|| format!("no {name} in {record}"))?;
    Ok(text.to_owned())
}
