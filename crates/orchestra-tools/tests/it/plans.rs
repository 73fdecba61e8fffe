//! The tools of plans, over a model of who runs them. What a number behind W says is in section 24 of the
//! plan runner's specification: a weakness of the earlier system, and how it is here.

mod arguments;
mod course;
mod faults;
mod hostile;
mod large;
mod logs;
mod model;
mod real;
mod repeated;
mod replies;
mod schemas;
mod task;

use std::sync::Arc;

use orchestra_tools::Options;
use serde_json::{Value, json};

use crate::bench::Bench;
use model::Model;

/// A bench whose plans are those of a model.
pub(crate) struct Plans {
    pub(crate) bench: Bench,
    pub(crate) model: Model,
}

impl Plans {
    pub(crate) fn new() -> Self {
        let model = Model::new();
        let options = Options {
            plans: Some(Arc::new(model.clone())),
            ..Options::default()
        };
        Self {
            bench: Bench::with(options),
            model,
        }
    }

    /// Calls a tool that works.
    pub(crate) async fn ok(&self, name: &str, arguments: Value) -> Value {
        let value = self.bench.ok(name, arguments).await;
        assert_eq!(value["success"], true, "{value}");
        value
    }

    /// Calls a tool that does not do its work, or not all of it.
    pub(crate) async fn not(&self, name: &str, arguments: Value) -> Value {
        let answer = self.bench.call(name, arguments.clone()).await;
        assert!(answer.is_error, "{name} {arguments}: {}", answer.text);
        assert_eq!(answer.value["success"], false);
        assert_eq!(serde_json::to_string(&answer.value).unwrap(), answer.text);
        self.bench.conforms(name, &answer.value);
        answer.value
    }

    /// Calls a tool that refuses, and says with which code.
    pub(crate) async fn refused(&self, name: &str, arguments: Value) -> (String, String) {
        let value = self.not(name, arguments).await;
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        (text("code"), text("error"))
    }

    /// Makes a plan and says its id.
    pub(crate) async fn create(&self, arguments: Value) -> String {
        let made = self.ok("create_copilot_plan", arguments).await;
        made["planId"].as_str().unwrap().to_owned()
    }
}

/// A job.
pub(crate) fn job(name: &str, dependencies: &[&str]) -> Value {
    json!({"producerId": name, "task": format!("Do {name}"), "work": "true", "dependencies": dependencies})
}

/// A plan of jobs that starts at once.
pub(crate) fn plan(jobs: &[Value]) -> Value {
    json!({"name": "A plan", "startPaused": false, "jobs": jobs})
}

/// One object with the fields of both.
pub(crate) fn with(one: &Value, more: Value) -> Value {
    let mut all = one.clone();
    for (name, value) in more.as_object().unwrap() {
        all[name] = value.clone();
    }
    all
}
