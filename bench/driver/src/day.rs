//! A scripted working day: 20 tasks from backlog to done, and what its results cost a model.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    Bench,
    bars::Want,
    earlier::Earlier,
    seed::{self, text},
    server::{self, Server},
    table::{Table, say},
    tokens::Counter,
};

const TASKS: usize = 20;
const TASKS_OF_A_STORY: usize = 5;

/// What was found when each gate was passed.
const EVIDENCE: &str = "cargo test: 214 passed, 0 failed; reviewed by hand";

/// Whoever answers the day's calls.
trait Program {
    fn answer(&mut self, tool: &str, arguments: &Value) -> Result<String>;
}

impl Program for Server {
    fn answer(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        self.call(tool, arguments)
    }
}

impl Program for Earlier {
    fn answer(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        self.call(tool, arguments)
    }
}

/// What the calls of one tool came to.
#[derive(Default, Clone, Copy)]
struct Cost {
    calls: usize,
    tokens: usize,
}

/// A program at work, its answers counted.
struct Day<'a> {
    program: &'a mut dyn Program,
    counter: &'a Counter,
    costs: BTreeMap<String, Cost>,
}

/// Works the same day in our two text forms and in the earlier program's one.
///
/// # Errors
/// When a call is refused.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let counter = Counter::new()?;
    let workspaces = [seed::directory()?, seed::directory()?];
    // Ids are only readable from JSON, and the same calls get the same ids.
    let ids = work(&mut open(workspaces[0].path(), "json")?, &counter, None)?;
    let toon = work(
        &mut open(workspaces[1].path(), "toon")?,
        &counter,
        Some(&ids.1),
    )?;
    let earlier = work(&mut Earlier::default(), &counter, None)?;

    let mut table = Table::new(&[
        "tool",
        "calls",
        "compact JSON",
        "TOON",
        "earlier, pretty JSON",
    ]);
    let mut totals = [0; 3];
    for (tool, cost) in &ids.0 {
        let columns = [&ids.0, &toon.0, &earlier.0];
        let tokens = columns.map(|costs| costs.get(tool).map_or(0, |cost| cost.tokens));
        let mut row = vec![tool.clone(), cost.calls.to_string()];
        for (total, tokens) in totals.iter_mut().zip(tokens) {
            *total += tokens;
            row.push(tokens.to_string());
        }
        table.row(&row);
    }
    let [compact, toon, earlier] = totals;
    let mut last = vec!["all".to_owned(), String::new()];
    last.extend(totals.map(|total| total.to_string()));
    table.row(&last);
    say("Tokens (o200k) of the results of a working day, 20 tasks from backlog to done.\n");
    table.print();
    let share = |ours: usize| ours as f64 / earlier as f64;
    let what = "result tokens of a working day, against the earlier program's";
    let best = share(compact).min(share(toon));
    bench.bars.hold(what, Want::AtMost(0.5), "×", best);
    Ok(())
}

/// A server on a workspace, with results in a format.
fn open(workspace: &Path, format: &str) -> Result<Server> {
    let mut command = server::orchestra(workspace, &["--format", format])?;
    Server::open(&mut command)
}

type Worked = (BTreeMap<String, Cost>, Vec<String>);

/// Works the day; `known` are the ids an earlier day read, in the order of creation.
fn work(program: &mut dyn Program, counter: &Counter, known: Option<&[String]>) -> Result<Worked> {
    let costs = BTreeMap::new();
    let mut day = Day {
        program,
        counter,
        costs,
    };
    let mut ids = Vec::new();
    let project = "release-train";
    day.call("list_projects", &json!({}))?;
    day.call(
        "create_project",
        &json!({
            "name": "Release Train", "description": "What goes into the spring release",
        }),
    )?;
    let epic = day.create(
        known,
        &mut ids,
        "create_epic",
        json!({
            "project": project, "title": "Faster exports", "priority": "high",
            "description": "Exports of large boards take minutes",
        }),
    )?;
    let mut tasks = Vec::new();
    for number in 0..TASKS / TASKS_OF_A_STORY {
        let story = day.create(
            known,
            &mut ids,
            "create_story",
            json!({
                "project": project, "epic_id": epic, "priority": "medium",
                "title": format!("Export format {number}"),
                "user_story": "As an analyst I want an export in seconds, so that I can look twice",
            }),
        )?;
        for number in 0..TASKS_OF_A_STORY {
            let task = day.create(
                known,
                &mut ids,
                "create_task",
                json!({
                    "project": project, "epic_id": epic, "story_id": story, "type": "task",
                    "title": format!("Stream the rows of part {number}"), "priority": "medium",
                    "description": "Rows are collected in memory first.\nWrite them as they come, \
                                    and keep the order of the columns.",
                }),
            )?;
            tasks.push(json!({
                "project": project, "epic_id": epic, "story_id": story, "task_id": task,
            }));
        }
    }
    for (number, task) in tasks.iter().enumerate() {
        finish(&mut day, task)?;
        if number % TASKS_OF_A_STORY == TASKS_OF_A_STORY - 1 {
            let story = json!({
                "project": project, "epic_id": epic, "story_id": task["story_id"],
            });
            day.call("list_tasks", &story)?;
            day.call("get_story", &story)?;
            day.call("get_workflow_status", &json!({"project": project}))?;
            day.call("search", &json!({"project": project, "query": "rows"}))?;
        }
    }
    day.call("list_epics", &json!({"project": project}))?;
    day.call(
        "list_stories",
        &json!({"project": project, "epic_id": epic}),
    )?;
    day.call("get_project_status", &json!({"project": project}))?;
    Ok((day.costs, ids))
}

/// Brings one task from backlog to done.
fn finish(day: &mut Day<'_>, task: &Value) -> Result<()> {
    let mut update = task.clone();
    update["status"] = json!("todo");
    day.call("update_task", &update)?;
    day.call("get_next_task", &json!({"project": task["project"]}))?;
    day.call("set_current_task", task)?;
    day.call("get_task", task)?;
    for gated in [true, false, true, false, true, false, true] {
        let mut advance = task.clone();
        if gated {
            advance["evidence"] = json!(EVIDENCE);
        }
        day.call("advance_task", &advance)?;
    }
    Ok(())
}

impl Day<'_> {
    fn call(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        let answer = self.program.answer(tool, arguments)?;
        let cost = self.costs.entry(tool.to_owned()).or_default();
        cost.calls += 1;
        cost.tokens += self.counter.count(&answer);
        Ok(answer)
    }

    fn create(
        &mut self,
        known: Option<&[String]>,
        ids: &mut Vec<String>,
        tool: &str,
        arguments: Value,
    ) -> Result<String> {
        let answer = self.call(tool, &arguments)?;
        let id = match known {
            Some(known) => known[ids.len()].clone(),
            None => text(&serde_json::from_str(&answer)?, "id")?,
        };
        ids.push(id.clone());
        Ok(id)
    }
}
