//! Pictures of a board in use, for README and the book.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::card_in;
use crate::{Stage, program::Program};

const PROJECT: &str = "weather-station";

/// A task of the picture.
struct Task {
    title: &'static str,
    kind: &'static str,
    priority: &'static str,
    label: &'static str,
    /// Agent that moves it, and claims it when it starts.
    agent: &'static str,
    /// Number of steps from the backlog: 2 for in progress, 9 for done.
    steps: usize,
}

const fn task(
    title: &'static str,
    kind: &'static str,
    priority: &'static str,
    label: &'static str,
    agent: &'static str,
    steps: usize,
) -> Task {
    Task {
        title,
        kind,
        priority,
        label,
        agent,
        steps,
    }
}

/// Stories with their epic, their sentence and their tasks.
const STORIES: &[(&str, &str, &str, &[Task])] = &[
    (
        "Sensors",
        "Read the barometer",
        "As an observer I see the air pressure of the last minute",
        &[
            task(
                "Driver for the BMP280",
                "task",
                "high",
                "firmware",
                "ada",
                4,
            ),
            task(
                "Calibrate against the old barometer",
                "task",
                "high",
                "firmware",
                "ada",
                2,
            ),
            task(
                "Readings below -20 °C are rejected",
                "bug",
                "critical",
                "firmware",
                "claude",
                3,
            ),
        ],
    ),
    (
        "Storage",
        "Store the readings",
        "As an observer I can look up the weather of any day",
        &[
            task(
                "Store a reading each minute",
                "task",
                "high",
                "database",
                "codex",
                2,
            ),
            task(
                "Compress readings older than a year",
                "task",
                "medium",
                "database",
                "codex",
                1,
            ),
            task("Export a day as CSV", "task", "low", "database", "codex", 9),
        ],
    ),
    (
        "Display",
        "Show the pressure of a day",
        "As a visitor I see whether the weather gets better",
        &[
            task(
                "Draw the curve of a day",
                "task",
                "high",
                "web",
                "claude",
                2,
            ),
            task(
                "Warn when the pressure falls fast",
                "task",
                "high",
                "web",
                "claude",
                1,
            ),
            task(
                "Show wind and rain beside it",
                "task",
                "medium",
                "web",
                "claude",
                0,
            ),
            task(
                "Choose the unit: hPa or inHg",
                "task",
                "low",
                "web",
                "claude",
                0,
            ),
        ],
    ),
];

pub(super) async fn board_in_use_is_shown_in_light_and_dark(stage: &Stage<'_>) -> Result<()> {
    let program = stage.program()?;
    let first = fill(&program)?;
    let tab = stage.tab(&program, "/").await?;
    tab.sees(&card_in("in-testing", &first), None).await?;
    stage.picture(&tab, "board-light").await?;
    tab.theme("dark").await?;
    stage.picture(&tab, "board-dark").await?;
    tab.close().await
}

/// Creates the project with its issues. Returns the id of the first task.
fn fill(program: &Program) -> Result<String> {
    program.call("create_project", &json!({"name": "Weather Station"}))?;
    let create = |tool: &str, arguments: &Value| {
        let created = program.call(tool, arguments)?;
        let id = created["id"].as_str().map(str::to_owned);
        id.with_context(|| format!("{tool}: no id in {created}"))
    };
    let mut first = None;
    for (epic, story, user_story, tasks) in STORIES {
        let epic = json!({"project": PROJECT, "title": epic});
        let epic = create("create_epic", &epic)?;
        let story = json!({
            "project": PROJECT, "epic_id": epic, "title": story, "user_story": user_story,
        });
        let story = create("create_story", &story)?;
        for task in *tasks {
            let arguments = json!({
                "project": PROJECT, "story_id": story, "title": task.title, "type": task.kind,
                "priority": task.priority, "labels": [task.label],
            });
            let id = create("create_task", &arguments)?;
            advance(program, &id, task)?;
            first.get_or_insert(id);
        }
    }
    first.context("there are tasks")
}

/// Moves a task from the backlog by its steps.
fn advance(program: &Program, id: &str, task: &Task) -> Result<()> {
    for step in 0..task.steps {
        let mut arguments = json!({"project": PROJECT, "task_id": id, "agent": task.agent});
        let tool = match step {
            0 => {
                arguments["status"] = json!("todo");
                "update_task"
            }
            1 => "set_current_task",
            _ => {
                if step % 2 == 0 {
                    arguments["evidence"] = json!("ran the tests of the station: 14 passed");
                }
                "advance_task"
            }
        };
        program.call(tool, &arguments)?;
    }
    Ok(())
}
