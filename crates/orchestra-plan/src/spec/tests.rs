//! Tests of plans as they are written: the schema says what is taken.

use serde_json::{Value, json};

use super::{JobSpec, PlanSettings, PlanSpec};
use crate::testing::{Advertised, read, schema};

fn job(producer_id: &str) -> Value {
    json!({"producerId": producer_id, "task": "do it", "work": "make"})
}

#[test]
fn what_is_not_said_has_a_default() {
    let spec: PlanSpec = read(&json!({"name": "p", "jobs": [job("one")]})).unwrap();
    assert_eq!(spec.settings, PlanSettings::of(spec.settings.name.clone()));
    assert_eq!(spec.settings.max_parallel.get(), 4);
    assert!(spec.settings.start_paused && spec.settings.clean_up_successful_work);
    let job = &spec.jobs[0];
    assert!(job.auto_heal && !job.expects_no_changes && job.dependencies.is_empty());
}

#[test]
fn null_is_read_as_absent() {
    let must = ["name", "jobs", "producerId", "task", "work"];
    let nulls = |object: &Value| {
        let mut object = object.clone();
        for (field, value) in object.as_object_mut().unwrap() {
            if !must.contains(&field.as_str()) {
                *value = Value::Null;
            }
        }
        object
    };
    let mut plan = nulls(&whole());
    plan["jobs"] = json!([nulls(&whole()["jobs"][1])]);
    plan["jobs"][0]["name"] = Value::Null;
    let spec: PlanSpec = read(&plan).unwrap();
    assert_eq!(spec.settings, PlanSettings::of(spec.settings.name.clone()));
    let JobSpec {
        producer_id,
        task,
        work,
        ..
    } = spec.jobs[0].clone();
    assert_eq!(spec.jobs[0], JobSpec::of(producer_id, task, work));
    let budget = json!({"tokens": null, "cost": null, "wallMs": null});
    let on_failure = json!({"noAutoHeal": null, "message": null, "resumeFromPhase": null});
    plan["budget"] = budget;
    plan["verifyRi"] = json!({"type": "shell", "command": "make", "onFailure": on_failure});
    assert!(read::<PlanSpec>(&plan).unwrap().settings.budget.is_empty());
    for field in must {
        let mut plan = whole();
        match field {
            "name" | "jobs" => plan[field] = Value::Null,
            _ => plan["jobs"][1][field] = Value::Null,
        }
        assert!(read::<PlanSpec>(&plan).is_err(), "{field}");
    }
}

fn whole() -> Value {
    json!({
        "name": "Search", "baseBranch": "main", "targetBranch": "feature/search",
        "maxParallel": 1024, "cleanUpSuccessfulWork": false,
        "additionalSymlinkDirs": ["target"], "startPaused": false, "verifyRi": "make check",
        "env": {"A": "b"}, "resumeAfterPlan": "f81d4fae-7dec-41d0-a765-00a0c91e6bf6",
        "worktreeInit": ["make deps", {"type": "process", "executable": "true"}],
        "budget": {"tokens": 1_000_000, "cost": 2.5, "wallMs": 60_000}, "idempotencyKey": "k",
        "jobs": [
            job("one"),
            {
                "producerId": "two", "name": "Two", "task": "second", "work": "@agent go",
                "dependencies": ["one"], "prechecks": "true", "postchecks": "true",
                "instructions": "carefully", "group": "a/b", "autoHeal": false,
                "expectsNoChanges": true, "baseBranch": "dev", "env": {"C": "d"},
                "budget": {"cost": 0.5},
            },
        ],
    })
}

#[test]
fn every_field_is_read_and_comes_back() {
    let spec: PlanSpec = read(&whole()).unwrap();
    let written = serde_json::to_value(&spec).unwrap();
    assert_eq!(read::<PlanSpec>(&written).unwrap(), spec);
    for field in whole()
        .as_object()
        .unwrap()
        .keys()
        .filter(|field| *field != "jobs")
    {
        assert!(written.get(field).is_some(), "{field} is dropped");
    }
    for (field, value) in whole()["jobs"][1].as_object().unwrap() {
        match field.as_str() {
            "work" | "prechecks" | "postchecks" => assert!(written["jobs"][1][field].is_object()),
            _ => assert_eq!(&written["jobs"][1][field], value),
        }
    }
}

#[test]
fn errors_say_where_they_are() {
    let check = |change: &dyn Fn(&mut Value), expected: &str| {
        let mut plan = whole();
        change(&mut plan);
        let error = read::<PlanSpec>(&plan).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    };
    check(
        &|plan| plan["jobs"] = json!([]),
        "jobs: is too short: at least 1",
    );
    check(
        &|plan| plan["jobs"][1]["producerId"] = json!("__snapshot-validation__"),
        "jobs[1].producerId: `__snapshot-validation__` is not a producer id: 3 to 64 characters of",
    );
    check(
        &|plan| plan["jobs"][1]["work"] = json!(""),
        "jobs[1].work: a command must not be empty",
    );
    check(
        &|plan| plan["jobs"][0]["priority"] = json!(1),
        "jobs[0].priority: unknown field `priority`, expected one of",
    );
    check(
        &|plan| plan["worktreeInit"][1]["executable"] = json!(""),
        "worktreeInit[1].executable: must not be empty",
    );
    check(
        &|plan| plan["baseBranch"] = json!("a..b"),
        "baseBranch: `a..b` is not the name of a branch",
    );
    check(
        &|plan| plan["budget"]["tokens"] = json!(0),
        "budget.tokens: invalid value: integer `0`",
    );
}

fn text(length: usize) -> Value {
    json!("x".repeat(length))
}

fn many(value: Value, count: usize) -> Value {
    json!(vec![value; count])
}

/// Each field with something right, with something wrong and with something else: what is shown is
/// enforced.
fn check_limits<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
    base: &Value,
    cases: Vec<(&str, Value, Value)>,
) {
    let shown = Advertised::of::<T>();
    for (field, right, wrong) in cases {
        for (value, legal) in [(right, true), (wrong, false), (json!([[]]), false)] {
            let mut object = base.clone();
            object[field] = value;
            shown.agrees::<T>(&object).unwrap();
            assert_eq!(read::<T>(&object).is_ok(), legal, "{field}");
        }
    }
}

#[test]
fn limits_of_a_plan_are_those_that_are_shown() {
    let plan = whole()["resumeAfterPlan"].clone();
    let cases = vec![
        ("name", text(200), text(201)),
        ("maxParallel", json!(1024), json!(1025)),
        (
            "additionalSymlinkDirs",
            many(json!("a"), 20),
            many(json!("a"), 21),
        ),
        ("worktreeInit", many(json!("a"), 10), many(json!("a"), 11)),
        ("verifyRi", text(50_000), text(50_001)),
        ("jobs", many(job("one"), 500), many(job("one"), 501)),
        ("idempotencyKey", text(200), text(201)),
        ("baseBranch", text(200), text(201)),
        ("targetBranch", text(200), text(201)),
        ("startPaused", json!(true), json!("yes")),
        ("cleanUpSuccessfulWork", json!(true), json!(1)),
        ("env", json!({}), json!({"=": ""})),
        ("budget", json!({}), json!({"money": 1})),
        ("resumeAfterPlan", plan, json!("banana")),
    ];
    check_limits::<PlanSpec>(&whole(), cases);
    let advertised = schema::<PlanSpec>();
    assert_eq!(advertised["additionalProperties"], json!(false));
    assert_eq!(advertised["required"], json!(["name", "jobs"]));
}

#[test]
fn limits_of_a_job_are_those_that_are_shown() {
    let shell = json!({"type": "shell", "command": "x"});
    let reserved = json!(["__snapshot-validation__"]);
    let cases = vec![
        ("producerId", text(64), text(65)),
        ("task", text(5_000), text(5_001)),
        ("work", text(50_000), text(50_001)),
        ("name", text(200), text(201)),
        (
            "dependencies",
            many(json!("one"), 100),
            many(json!("one"), 101),
        ),
        ("dependencies", json!([]), reserved),
        ("prechecks", text(50_000), text(50_001)),
        ("postchecks", shell, json!({"type": "shell"})),
        ("instructions", text(100_000), text(100_001)),
        ("group", text(200), text(201)),
        ("group", json!("a/b"), json!("a//b")),
        ("autoHeal", json!(false), json!(0)),
        ("expectsNoChanges", json!(true), json!("")),
        ("baseBranch", text(200), text(201)),
        ("budget", json!({"wallMs": 1}), json!({"wallMs": 0})),
    ];
    check_limits::<JobSpec>(&job("one"), cases);
}
