//! Calls that last as long as a plan runs, for callers who come back for the answer.

use std::sync::{Arc, Mutex};

use orchestra_hub::{
    Cx, Later, LogLevel, Outcome, ProgressListener, ProgressSink, Provider, Request, Target,
};
use orchestra_plan::phase::Phase;
use orchestra_wire::RawJson;
use serde_json::{Value, json};

use super::{Plans, job, plan, with};

/// What a caller is told while it waits.
#[derive(Default)]
struct Told(Mutex<Vec<(f64, f64, String)>>);

impl ProgressListener for Told {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let message = message.unwrap().to_owned();
        self.0
            .lock()
            .unwrap()
            .push((progress, total.unwrap(), message));
    }

    fn log(&self, _: LogLevel, _: Option<&str>, _: &RawJson) {}
}

/// A call of somebody who comes back for the answer.
struct Task {
    told: Arc<Told>,
    later: Later,
    answer: tokio::task::JoinHandle<Value>,
}

fn call(plans: &Plans, name: &str, arguments: &Value) -> Task {
    let (told, later) = (Arc::new(Told::default()), Later::default());
    let cx = Cx {
        progress: ProgressSink::new(Arc::clone(&told) as Arc<dyn ProgressListener>),
        later: Some(later.clone()),
        long: true,
        ..Cx::default()
    };
    let target = Target::Tool {
        name: name.to_owned(),
        arguments: RawJson::of(arguments).unwrap(),
    };
    let answer = plans.bench.builtin.serve(Request { target, cx });
    let answer = tokio::spawn(async move {
        let Outcome::Tool(result) = answer.await.unwrap() else {
            panic!("it is a tool")
        };
        assert!(!result.is_error, "{:?}", result.content);
        result.structured.unwrap().parse().unwrap()
    });
    Task {
        told,
        later,
        answer,
    }
}

/// The only plan that there is, once it is there.
async fn only(plans: &Plans) -> String {
    loop {
        let listed = plans.ok("list_copilot_plans", json!({})).await;
        if let Some(id) = listed["Plans"][0]["id"].as_str() {
            return id.to_owned();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_call_that_starts_a_plan_lasts_until_it_has_ended_and_tells_how_far_it_is() {
    let plans = Plans::new();
    let task = call(
        &plans,
        "create_copilot_plan",
        &plan(&[job("one", &[]), job("two", &["one"])]),
    );
    task.later.begun().await;
    let id = only(&plans).await;
    assert!(!task.answer.is_finished());
    while plans.model.step(&id) {
        tokio::task::yield_now().await;
    }
    let answer = task.answer.await.unwrap();
    assert_eq!(
        (&answer["planId"], &answer["status"]["status"]),
        (&json!(id), &json!("succeeded"))
    );
    let told = task.told.0.lock().unwrap().clone();
    let progress: Vec<f64> = told.iter().map(|told| told.0).collect();
    assert!(progress.is_sorted_by(|a, b| a < b), "{told:?}");
    assert_eq!(
        told.last().unwrap(),
        &(3.0, 3.0, "succeeded: 3 of 3 jobs ended".to_owned())
    );
    assert!(
        told.iter().any(|told| told.2.contains("running: one")),
        "{told:?}"
    );
}

#[tokio::test]
async fn it_ends_as_well_when_the_plan_waits_for_a_person() {
    let plans = Plans::new();
    let task = call(
        &plans,
        "create_copilot_plan",
        &plan(&[job("one", &[]), job("two", &["one"])]),
    );
    task.later.begun().await;
    let id = only(&plans).await;
    plans.ok("pause_copilot_plan", json!({"planId": id})).await;
    let answer = task.answer.await.unwrap();
    assert_eq!(
        (&answer["paused"], &answer["status"]["status"]),
        (&json!(true), &json!("pending-start"))
    );
}

#[tokio::test]
async fn to_cancel_it_ends_the_waiting_and_not_the_plan() {
    let plans = Plans::new();
    let task = call(&plans, "create_copilot_plan", &plan(&[job("one", &[])]));
    task.later.begun().await;
    let id = only(&plans).await;
    // What a hub does when its caller cancels.
    task.answer.abort();
    assert!(task.answer.await.unwrap_err().is_cancelled());
    assert_eq!(plans.model.of(&id).status().name(), "pending");
    plans.model.run(&id);
    assert_eq!(plans.model.of(&id).status().name(), "succeeded");
}

#[tokio::test]
async fn what_starts_nothing_is_answered_at_once() {
    let plans = Plans::new();
    let paused = with(&plan(&[job("one", &[])]), json!({"startPaused": true}));
    let task = call(&plans, "create_copilot_plan", &paused);
    let made = task.answer.await.unwrap();
    assert_eq!(made["paused"], true);
    // So is a caller who does not come back.
    let made = plans
        .ok("create_copilot_plan", plan(&[job("one", &[])]))
        .await;
    assert_eq!(made["status"]["status"], "pending");
}

#[tokio::test]
async fn resuming_finalizing_and_retrying_last_as_well() {
    let plans = Plans::new();
    plans.model.fail(&[("one", Phase::Work)]);
    let paused = with(&plan(&[job("one", &[])]), json!({"startPaused": true}));
    let id = plans.create(paused).await;
    let steps = [
        ("resume_copilot_plan", json!({"planId": id}), "failed"),
        ("retry_copilot_plan", json!({"planId": id}), "failed"),
        (
            "retry_copilot_job",
            json!({"planId": id, "jobId": "one"}),
            "succeeded",
        ),
    ];
    for (tool, arguments, status) in steps {
        if status == "succeeded" {
            plans.model.fail(&[]);
        }
        let task = call(&plans, tool, &arguments);
        task.later.begun().await;
        while plans.model.step(&id) {
            tokio::task::yield_now().await;
        }
        assert_eq!(task.answer.await.unwrap()["status"], status, "{tool}");
    }
    let begun = plans
        .ok(
            "scaffold_copilot_plan",
            json!({"name": "Begun", "startPaused": false}),
        )
        .await;
    let id = begun["planId"].as_str().unwrap().to_owned();
    plans
        .ok(
            "add_copilot_plan_job",
            with(&job("one", &[]), json!({"planId": id})),
        )
        .await;
    let task = call(&plans, "finalize_copilot_plan", &json!({"planId": id}));
    task.later.begun().await;
    while plans.model.step(&id) {
        tokio::task::yield_now().await;
    }
    assert_eq!(task.answer.await.unwrap()["status"]["status"], "succeeded");
}

#[tokio::test]
async fn a_plan_that_waits_for_another_is_waited_for() {
    let plans = Plans::new();
    let first = plans.create(plan(&[job("one", &[])])).await;
    let second = with(
        &plan(&[job("two", &[])]),
        json!({"name": "Second", "resumeAfterPlan": first}),
    );
    let task = call(&plans, "create_copilot_plan", &second);
    task.later.begun().await;
    assert!(!task.answer.is_finished());
    task.answer.abort();
}
