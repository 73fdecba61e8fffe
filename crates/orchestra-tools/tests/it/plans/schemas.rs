//! What the tools say that they take, and what they take.

use std::collections::BTreeSet;

use orchestra_hub::{LongWork, Provider, ToolDescriptor};
use orchestra_wire::RawJson;
use serde_json::{Map, Value, json};

use super::Plans;
use crate::tokens::cost;

/// The tools of section 6, and their arguments; those with `*` must be given.
pub(crate) const TOOLS: [(&str, &str); 28] = [
    (
        "create_copilot_plan",
        "name* jobs* baseBranch targetBranch maxParallel cleanUpSuccessfulWork additionalSymlinkDirs startPaused verifyRi env resumeAfterPlan worktreeInit",
    ),
    (
        "scaffold_copilot_plan",
        "name* baseBranch targetBranch maxParallel cleanUpSuccessfulWork additionalSymlinkDirs startPaused verifyRi env resumeAfterPlan worktreeInit",
    ),
    (
        "add_copilot_plan_job",
        "planId* producerId* task* work* name dependencies group prechecks postchecks autoHeal expectsNoChanges env",
    ),
    ("add_copilot_plan_jobs", "planId* jobs*"),
    ("finalize_copilot_plan", "planId* startPaused"),
    ("clone_copilot_plan", "sourcePlanId* name targetBranch"),
    ("get_copilot_plan_status", "planId*"),
    ("list_copilot_plans", "status"),
    ("get_copilot_plan_graph", "planId*"),
    ("get_copilot_job", "planId* jobId*"),
    ("list_copilot_jobs", "planId* status groupId groupName"),
    ("get_copilot_job_logs", "planId* jobId* phase tail"),
    (
        "get_copilot_job_attempts",
        "planId* jobId* attemptNumber includeLogs",
    ),
    ("get_copilot_job_failure_context", "planId* jobId*"),
    (
        "update_copilot_plan",
        "planId* env maxParallel resumeAfterPlan",
    ),
    (
        "update_copilot_plan_job",
        "planId* jobId* prechecks work postchecks resetToStage env",
    ),
    ("bulk_update_copilot_plan_jobs", "planId* jobIds updates*"),
    ("reshape_copilot_plan", "planId* operations*"),
    ("pause_copilot_plan", "planId*"),
    ("resume_copilot_plan", "planId*"),
    ("cancel_copilot_plan", "planId*"),
    ("delete_copilot_plan", "planId*"),
    ("archive_copilot_plan", "planId* force deleteRemoteBranches"),
    ("recover_copilot_plan", "planId* useCopilotAgent"),
    ("force_fail_copilot_job", "planId* jobId* reason"),
    (
        "retry_copilot_plan",
        "planId* jobIds newWork newPrechecks newPostchecks clearWorktree",
    ),
    (
        "retry_copilot_job",
        "planId* jobId* newWork newPrechecks newPostchecks clearWorktree",
    ),
    (
        "run_copilot_integration_test",
        "name baseBranch targetBranch maxParallel startPaused",
    ),
];

/// What jobs take, in create and in add_copilot_plan_jobs.
const OF_JOB: &str = "producerId* task* work* dependencies name prechecks postchecks instructions baseBranch \
    expectsNoChanges group env autoHeal";

fn tools(plans: &Plans) -> Vec<ToolDescriptor> {
    let catalog = plans.bench.builtin.catalog().borrow().clone();
    let ours = catalog.tools.iter().filter(|tool| tool.group == "plans");
    ours.cloned().collect()
}

/// What a model is charged for the group.
#[tokio::test]
async fn the_group_costs_at_most_6000_tokens() {
    let tools = tools(&Plans::new());
    let mut costs: Vec<(usize, &str)> = tools
        .iter()
        .map(|tool| (cost(tool, &tool.input_schema), tool.name.as_str()))
        .collect();
    costs.sort_unstable_by(|a, b| b.cmp(a));
    let all: usize = costs.iter().map(|(cost, _)| cost).sum();
    println!("plans: {all} tokens, largest first: {costs:?}");
    for tool in &tools {
        println!("{}: {}", tool.name, tool.input_schema.as_str());
    }
    assert!(all <= 6_000, "{all} tokens: {costs:?}");
}

/// A model that reads them knows that there are plans; where nobody runs any, none are promised.
#[tokio::test]
async fn instructions_say_when_to_make_a_plan() {
    let told = |bench: &crate::bench::Bench| {
        let catalog = bench.builtin.catalog().borrow().clone();
        catalog.instructions.clone().unwrap()
    };
    let with = told(&Plans::new().bench);
    for tool in [
        "create_copilot_plan",
        "resume_copilot_plan",
        "get_copilot_plan_status",
    ] {
        assert!(with.contains(tool), "{with}");
    }
    let without = told(&crate::bench::Bench::new());
    assert!(!without.contains("plan:"), "{without}");
    let more = with.strip_prefix(&without).unwrap();
    let cost = tiktoken_rs::o200k_base_singleton().encode_ordinary(more);
    assert!(cost.len() <= 110, "{} tokens: {more}", cost.len());
}

#[tokio::test]
async fn the_28_tools_of_section_6_are_there_with_their_arguments() {
    let plans = Plans::new();
    let tools = tools(&plans);
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let expected: BTreeSet<&str> = TOOLS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.iter().copied().collect::<BTreeSet<_>>(), expected);
    for (name, arguments) in TOOLS {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        takes(&tool.input_schema.parse().unwrap(), arguments, name);
    }
    let schema = |name: &str| -> Value {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        tool.input_schema.parse().unwrap()
    };
    for name in ["create_copilot_plan", "add_copilot_plan_jobs"] {
        let schema = schema(name);
        takes(&schema["properties"]["jobs"]["items"], OF_JOB, name);
    }
    let bulk = schema("bulk_update_copilot_plan_jobs");
    let updates = "model modelTier effort maxTurns resumeSession env";
    takes(&bulk["properties"]["updates"], updates, "updates");
    let reshape = schema("reshape_copilot_plan");
    let operation = &reshape["properties"]["operations"]["items"];
    takes(
        operation,
        "type* spec jobId producerId existingJobId dependencies",
        "operation",
    );
    let spec = "producerId* name task* work* dependencies prechecks postchecks instructions expectsNoChanges";
    takes(&operation["properties"]["spec"], spec, "spec");
    let kinds = &operation["properties"]["type"]["enum"];
    for kind in [
        "add_job",
        "add_node",
        "remove_job",
        "remove_node",
        "update_deps",
        "add_before",
        "add_after",
    ] {
        assert!(
            kinds.as_array().unwrap().contains(&json!(kind)),
            "W2: {kind}"
        );
    }
}

fn takes(schema: &Value, arguments: &str, name: &str) {
    for argument in arguments.split_whitespace() {
        let bare = argument.trim_end_matches('*');
        assert!(
            schema["properties"][bare].is_object(),
            "{name}: {bare} in {schema}"
        );
        let required = schema["required"].as_array();
        let required = required.is_some_and(|all| all.contains(&json!(bare)));
        assert_eq!(required, argument.ends_with('*'), "{name}: {bare}");
    }
    assert_eq!(schema["additionalProperties"], false, "{name}");
}

#[tokio::test]
async fn without_anybody_who_runs_plans_the_group_is_not_offered() {
    let bench = crate::bench::Bench::new();
    let catalog = bench.builtin.catalog().borrow().clone();
    assert!(catalog.tools.iter().all(|tool| tool.group != "plans"));
    assert!(orchestra_tools::group_names().any(|name| name == "plans"));
}

#[tokio::test]
async fn schemas_are_schemas_and_say_nothing_for_nothing() {
    for tool in tools(&Plans::new()) {
        let schema: Value = tool.input_schema.parse().unwrap();
        jsonschema::draft202012::meta::validate(&schema).unwrap();
        let text = schema.to_string();
        for word in ["\"x-", "\"title\"", "\"format\"", "\"default\""] {
            assert!(!text.contains(word), "{}: {word} in {text}", tool.name);
        }
        let output: Value = tool.output_schema.as_ref().unwrap().parse().unwrap();
        jsonschema::draft202012::meta::validate(&output).unwrap();
        assert_eq!(output["type"], "object", "{}", tool.name);
        let words = tool
            .description
            .as_ref()
            .unwrap()
            .split_whitespace()
            .count();
        assert!((1..25).contains(&words), "{}: {words} words", tool.name);
    }
}

#[tokio::test]
async fn every_tool_says_what_it_does_to_what() {
    for tool in tools(&Plans::new()) {
        let name = tool.name.as_str();
        let reads = name.starts_with("get_") || name.starts_with("list_");
        let hints = tool.annotations;
        assert_eq!(hints.read_only, Some(reads), "{name}");
        // Everything else accepts commands or lets them start, or removes something.
        let is_harmless = ["pause_", "recover_"];
        let is_harmless = is_harmless.iter().any(|verb| name.starts_with(verb));
        assert_eq!(
            hints.destructive,
            (!reads).then_some(!is_harmless),
            "{name}"
        );
        let removes = ["cancel_", "delete_", "archive_", "force_fail_"];
        let removes = removes.iter().any(|verb| name.starts_with(verb));
        let starts = !(reads || is_harmless || removes);
        assert_eq!(hints.open_world, Some(starts), "{name}");
        let lasts = [
            "create_copilot_plan",
            "finalize_copilot_plan",
            "resume_copilot_plan",
            "retry_copilot_plan",
            "retry_copilot_job",
            "run_copilot_integration_test",
        ];
        let lasts = lasts.contains(&name);
        assert_eq!(tool.long == LongWork::Later, lasts, "{name}");
    }
}

/// Makes values by a schema: ones that it takes, and ones that it refuses, each for one reason.
struct Maker<'a> {
    root: &'a Value,
}

impl<'a> Maker<'a> {
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => self
                .root
                .pointer(reference.trim_start_matches('#'))
                .unwrap(),
            None => schema,
        }
    }

    /// A value with everything in it that it may have.
    fn full(&self, schema: &'a Value, name: &str) -> Value {
        let schema = self.resolve(schema);
        if let Some(values) = schema["enum"].as_array() {
            return values[0].clone();
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(branches) = schema["anyOf"].as_array() {
            return match schema.get("unevaluatedProperties") {
                Some(_) => self.object(schema, &branches[0]),
                None => self.full(&branches[0], name),
            };
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds[0].as_str().unwrap(),
            kind => kind.as_str().unwrap_or_else(|| panic!("{name}: {schema}")),
        };
        match kind {
            "string" => text(schema, name),
            "boolean" => json!(true),
            "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(0)),
            "array" => json!([self.full(&schema["items"], name)]),
            "object" if schema.get("properties").is_some() => self.object(schema, &Value::Null),
            "object" => json!({"NAME": "value"}),
            kind => panic!("{name}: {kind}"),
        }
    }

    fn object(&self, schema: &'a Value, branch: &'a Value) -> Value {
        let mut fields = Map::new();
        for part in [schema, branch] {
            for (name, property) in part["properties"].as_object().into_iter().flatten() {
                fields.insert(name.clone(), self.full(property, name));
            }
        }
        Value::Object(fields)
    }

    /// Values that the schema refuses, with where they are wrong.
    fn wrong(&self, schema: &'a Value, name: &str) -> Vec<(String, Value)> {
        let schema = self.resolve(schema);
        let mut wrong = vec![(format!("{name}: another type"), json!(1.5))];
        if schema["type"] == "number" {
            wrong[0].1 = json!("1.5");
        }
        let mut add = |why: &str, value: Value| wrong.push((format!("{name}: {why}"), value));
        if schema.get("enum").is_some() {
            add("another word", json!("no such word"));
        }
        if let Some(most) = schema["maxLength"].as_u64() {
            add(
                "too long",
                json!("x".repeat(usize::try_from(most).unwrap() + 1)),
            );
        }
        if schema["minLength"] == 1 {
            add("empty", json!(""));
        }
        if schema.get("pattern").is_some() {
            add("other letters", json!("No/ \u{1}such"));
        }
        if let Some(least) = schema["minimum"].as_f64().filter(|least| *least >= 1.0) {
            add("too small", json!(least - 1.0));
        }
        if let Some(most) = schema["maximum"].as_f64() {
            add("too large", json!(most + 1.0));
        }
        if schema["minItems"] == 1 {
            add("too few", json!([]));
        }
        if let Some(most) = schema["maxItems"].as_u64() {
            let item = self.full(&schema["items"], name);
            add(
                "too many",
                Value::Array(vec![item; usize::try_from(most).unwrap() + 1]),
            );
        }
        if let Some(most) = schema["maxProperties"].as_u64() {
            let many = (0..=most).map(|number| (format!("N{number}"), json!("")));
            add("too many", Value::Object(many.collect()));
        }
        if schema.get("items").is_some() {
            let inner = self.wrong(&schema["items"], name);
            wrong.extend(inner.into_iter().map(|(why, value)| (why, json!([value]))));
        }
        for branch in schema["anyOf"].as_array().into_iter().flatten() {
            if schema.get("unevaluatedProperties").is_none() {
                if self.resolve(branch).get("properties").is_some() {
                    wrong.extend(self.wrong(branch, name));
                }
                continue;
            }
            wrong.extend(self.wrong_fields(schema, branch, name));
        }
        if schema.get("properties").is_some() && schema.get("anyOf").is_none() {
            wrong.extend(self.wrong_fields(schema, &Value::Null, name));
        }
        wrong
    }

    fn wrong_fields(
        &self,
        schema: &'a Value,
        branch: &'a Value,
        name: &str,
    ) -> Vec<(String, Value)> {
        let whole = self.object(schema, branch);
        // Of two that exclude each other one is left.
        let mut whole = whole;
        if branch.get("oneOf").is_some() {
            whole.as_object_mut().unwrap().remove("instructionsFile");
        }
        let mut wrong = vec![(format!("{name}: another field"), {
            let mut more = whole.clone();
            more["noSuchField"] = json!(true);
            more
        })];
        let required = [schema, branch]
            .into_iter()
            .flat_map(|part| part["required"].as_array());
        for field in required.flatten() {
            let mut less = whole.clone();
            less.as_object_mut()
                .unwrap()
                .remove(field.as_str().unwrap());
            wrong.push((format!("{name}: no {field}"), less));
        }
        for part in [schema, branch] {
            for (field, property) in part["properties"].as_object().into_iter().flatten() {
                for (why, value) in self.wrong(property, field) {
                    let mut other = whole.clone();
                    other[field] = value;
                    wrong.push((format!("{name}: {why}"), other));
                }
            }
        }
        wrong
    }
}

fn text(schema: &Value, name: &str) -> Value {
    let text = match name {
        "producerId" | "dependencies" => "root-job",
        "resumeAfterPlan" => "00000000-0000-4000-8000-000000000000",
        "allowedFolders" => "/",
        "allowedUrls" => "example.org",
        _ => "text",
    };
    let _ = schema;
    json!(text)
}

/// What a call comes to as far as its arguments are concerned.
async fn is_taken(plans: &Plans, tool: &str, arguments: &Value) -> Result<(), String> {
    let answer = plans.bench.call(tool, arguments.clone()).await;
    match answer.value["code"].as_str() {
        Some("invalid-arguments") => Err(answer.text),
        _ => Ok(()),
    }
}

/// The schema that is shown and what is enforced agree, in both directions: what a schema refuses for
/// whichever single reason is refused as an argument, and what it takes is not.
#[tokio::test]
async fn w9_what_is_shown_is_what_is_enforced() {
    let plans = Plans::new();
    let (mut taken, mut refused) = (0, 0);
    for tool in tools(&plans) {
        let schema: Value = tool.input_schema.parse().unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let maker = Maker { root: &schema };
        let full = maker.object(&schema, &Value::Null);
        assert!(validator.is_valid(&full), "{}: {full}", tool.name);
        is_taken(&plans, &tool.name, &full).await.unwrap();
        let mut least = Map::new();
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            least.insert(name.to_owned(), full[name].clone());
        }
        is_taken(&plans, &tool.name, &Value::Object(least))
            .await
            .unwrap();
        taken += 2;
        for (why, arguments) in maker.wrong_fields(&schema, &Value::Null, &tool.name) {
            // What else would be wrong with it has nothing to say here.
            assert!(
                !validator.is_valid(&arguments),
                "{why}: the schema takes it"
            );
            assert!(
                is_taken(&plans, &tool.name, &arguments).await.is_err(),
                "{why}: it is taken"
            );
            refused += 1;
        }
        let arguments = RawJson::of(&json!([])).unwrap();
        assert!(
            validator
                .validate(&arguments.parse::<Value>().unwrap())
                .is_err()
        );
    }
    println!("{taken} taken, {refused} refused");
    assert!(refused > 500, "only {refused}");
}

/// What a tool takes and what its schema says it takes are the same.
#[tokio::test]
async fn every_argument_that_is_taken_is_told_of() {
    let plans = Plans::new();
    for tool in tools(&plans) {
        let schema: Value = tool.input_schema.parse().unwrap();
        let told: BTreeSet<String> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        let (code, refusal) = plans
            .refused(&tool.name, json!({"not_an_argument": 1}))
            .await;
        assert_eq!(code, "invalid-arguments");
        let taken: BTreeSet<String> = refusal
            .split('`')
            .skip(3)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        assert_eq!(taken, told, "{}: {refusal}", tool.name);
    }
}
