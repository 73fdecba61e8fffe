//! What the earlier program answered to the calls of a working day: whole records, pretty-printed.
//!
//! Only the shapes of its results are rebuilt here, from the description of that program: its
//! fields (in another order, which costs the same), empty ones left out, two spaces of
//! indentation, `null` for a list that holds nothing, each record complete wherever it occurs. The advice it attached to a transition
//! is stood in for by one short sentence, so that it is rather too cheap than too dear.

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

const NOW: &str = "2026-02-14T13:55:45Z";
const ADVICE: &str = "Say what was done before you go on to the next state.";
const HAPPY_PATH: &[&str] = &[
    "in-progress",
    "ready-for-testing",
    "in-testing",
    "ready-for-docs",
    "in-docs",
    "documented",
    "in-review",
    "done",
];

/// An epic, a story or a task.
#[derive(Debug, Clone)]
struct Issue {
    id: String,
    parent: Option<String>,
    kind: &'static str,
    title: Value,
    status: &'static str,
    description: Value,
    priority: Value,
    touched: bool,
}

/// The earlier program's one project of the day.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    project: Option<(Value, Value)>,
    issues: Vec<Issue>,
}

impl Earlier {
    /// The text that a call was answered with.
    ///
    /// # Errors
    /// When the day calls a tool whose answer is not rebuilt here.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        let result = match tool {
            "list_projects" => match self.project {
                Some(_) => json!([self.status()]),
                None => json!([]),
            },
            "create_project" => {
                self.project = Some((arguments["name"].clone(), arguments["description"].clone()));
                json!({"slug": "release-train", "key": "RT", "status": "created"})
            }
            "create_epic" => self.create("epic", None, arguments, "description"),
            "create_story" => self.create("story", Some("epic_id"), arguments, "user_story"),
            "create_task" => self.create("task", Some("story_id"), arguments, "description"),
            "get_story" => self.record(self.index(arguments, "story_id")?),
            "get_task" => self.record(self.index(arguments, "task_id")?),
            "list_epics" => self.list(|issue| issue.kind == "epic"),
            "list_stories" => self.list(|issue| issue.kind == "story"),
            "list_tasks" => {
                let story = arguments["story_id"].as_str();
                self.list(|issue| issue.parent.as_deref() == story)
            }
            "search" => self.search(arguments),
            "get_next_task" => self.next(),
            "update_task" => self.go(self.index(arguments, "task_id")?, "todo"),
            "set_current_task" => self.go(self.index(arguments, "task_id")?, "in-progress"),
            "advance_task" => self.advance(arguments)?,
            "get_workflow_status" => self.counts(),
            "get_project_status" => self.status(),
            unknown => bail!("{unknown} is not rebuilt"),
        };
        let pretty = serde_json::to_string_pretty(&result).context("writing the result")?;
        let escapes = [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")];
        let escape = |text: String, (from, to): (&str, &str)| text.replace(from, to);
        Ok(escapes.into_iter().fold(pretty, escape))
    }

    fn create(
        &mut self,
        kind: &'static str,
        parent: Option<&str>,
        arguments: &Value,
        description: &str,
    ) -> Value {
        let parent = parent.and_then(|name| arguments[name].as_str());
        self.issues.push(Issue {
            id: format!("RT-{}", self.issues.len() + 1),
            parent: parent.map(str::to_owned),
            kind,
            title: arguments["title"].clone(),
            status: "backlog",
            description: arguments[description].clone(),
            priority: arguments["priority"].clone(),
            touched: false,
        });
        self.touch(parent);
        self.record(self.issues.len() - 1)
    }

    fn touch(&mut self, id: Option<&str>) {
        let issues = self.issues.iter_mut();
        let found = issues.filter(|issue| Some(issue.id.as_str()) == id);
        found.for_each(|issue| issue.touched = true);
    }

    fn index(&self, arguments: &Value, name: &str) -> Result<usize> {
        let id = arguments[name].as_str();
        let found = self
            .issues
            .iter()
            .position(|issue| Some(issue.id.as_str()) == id);
        found.with_context(|| format!("no {name} in {arguments}"))
    }

    fn record(&self, index: usize) -> Value {
        let issue = &self.issues[index];
        let mut record = Map::new();
        record.insert("id".to_owned(), json!(issue.id));
        record.insert("title".to_owned(), issue.title.clone());
        record.insert("type".to_owned(), json!(issue.kind));
        record.insert("status".to_owned(), json!(issue.status));
        record.insert("description".to_owned(), issue.description.clone());
        record.insert("priority".to_owned(), issue.priority.clone());
        record.insert("created_at".to_owned(), json!(NOW));
        if issue.touched {
            record.insert("updated_at".to_owned(), json!(NOW));
        }
        let children = self.rows(|child| child.parent.as_deref() == Some(&issue.id));
        if !children.is_empty() {
            record.insert("children".to_owned(), json!(children));
        }
        Value::Object(record)
    }

    fn rows(&self, wanted: impl Fn(&Issue) -> bool) -> Vec<Value> {
        let issues = self.issues.iter().filter(|issue| wanted(issue));
        let row =
            |issue: &Issue| json!({"id": issue.id, "title": issue.title, "status": issue.status});
        issues.map(row).collect()
    }

    fn list(&self, wanted: impl Fn(&Issue) -> bool) -> Value {
        let numbers = 0..self.issues.len();
        let found = numbers.filter(|&index| wanted(&self.issues[index]));
        let records: Vec<Value> = found.map(|index| self.record(index)).collect();
        if records.is_empty() {
            Value::Null
        } else {
            json!(records)
        }
    }

    fn search(&self, arguments: &Value) -> Value {
        let query = arguments["query"]
            .as_str()
            .unwrap_or_default()
            .to_lowercase();
        self.list(|issue| {
            let text = format!("{} {}", issue.title, issue.description);
            text.to_lowercase().contains(&query)
        })
    }

    fn next(&self) -> Value {
        let mut ranks = ["in-progress", "todo", "backlog"].into_iter();
        let found = ranks.find_map(|rank| {
            let mut issues = self.issues.iter();
            issues.position(|issue| issue.kind == "task" && issue.status == rank)
        });
        found.map_or(json!("no actionable tasks"), |index| self.record(index))
    }

    fn go(&mut self, index: usize, status: &'static str) -> Value {
        self.issues[index].status = status;
        self.issues[index].touched = true;
        let mut parent = self.issues[index].parent.clone();
        while let Some(id) = parent {
            let children = self
                .issues
                .iter()
                .filter(|i| i.parent.as_ref() == Some(&id));
            let done = children.clone().all(|child| child.status == "done");
            let Some(issue) = self.issues.iter_mut().find(|issue| issue.id == id) else {
                break;
            };
            issue.touched = true;
            if done {
                issue.status = "done";
            } else if status == "in-progress" {
                issue.status = "in-progress";
            }
            parent = issue.parent.clone();
        }
        self.record(index)
    }

    fn advance(&mut self, arguments: &Value) -> Result<Value> {
        let index = self.index(arguments, "task_id")?;
        let from = self.issues[index].status;
        let mut path = HAPPY_PATH.windows(2);
        let step = path.find(|step| step[0] == from);
        let to = step.with_context(|| format!("nothing follows {from}"))?[1];
        let mut result = Map::new();
        if let Some(evidence) = arguments.get("evidence") {
            result.insert("evidence".to_owned(), evidence.clone());
        }
        result.insert("from".to_owned(), json!(from));
        if to != "done" {
            result.insert("gate".to_owned(), json!(ADVICE));
        }
        result.insert("task".to_owned(), self.go(index, to));
        result.insert("to".to_owned(), json!(to));
        Ok(Value::Object(result))
    }

    fn counts(&self) -> Value {
        let tasks = || self.issues.iter().filter(|issue| issue.kind == "task");
        let ids = |states: &[&str]| {
            let found = tasks().filter(|issue| states.contains(&issue.status));
            let ids: Vec<&str> = found.map(|issue| issue.id.as_str()).collect();
            if ids.is_empty() {
                Value::Null
            } else {
                json!(ids)
            }
        };
        let mut by_status = Map::new();
        for issue in tasks() {
            let count = by_status.get(issue.status).and_then(Value::as_u64);
            by_status.insert(issue.status.to_owned(), json!(count.unwrap_or(0) + 1));
        }
        let (total, done) = (
            tasks().count(),
            tasks().filter(|i| i.status == "done").count(),
        );
        json!({
            "blocked": ids(&["blocked"]),
            "by_status": by_status,
            "by_type": {"task": total},
            "completion_pct": format!("{:.1}", done as f64 * 100.0 / total as f64),
            "documenting": ids(&["ready-for-docs", "in-docs", "documented"]),
            "done": done,
            "in_progress": ids(&["in-progress"]),
            "ready": ids(&["todo"]),
            "reviewing": ids(&["in-review"]),
            "testing": ids(&["ready-for-testing", "in-testing"]),
            "total": total,
        })
    }

    /// The whole index; it filed the rows of this project's key, as of most, under its tasks.
    fn status(&self) -> Value {
        let (name, description) = self.project.clone().unwrap_or_default();
        json!({
            "project": name, "slug": "release-train", "status": "active",
            "description": description, "created_at": NOW, "updated_at": NOW,
            "tasks": self.rows(|_| true),
        })
    }
}
