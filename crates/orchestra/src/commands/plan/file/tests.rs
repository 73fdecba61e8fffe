//! Plan files in all languages, and what is said of those that are none.

use super::*;

const YAML: &str = "\
name: Search
jobs:
  - producerId: index
    task: Build the index
    work: make index
  - producerId: query
    task: Answer queries
    work: {type: process, executable: make, args: [query]}
    dependencies: [index]
";
const TOML: &str = "\
name = 'Search'
[[jobs]]
producerId = 'index'
task = 'Build the index'
work = 'make index'
[[jobs]]
producerId = 'query'
task = 'Answer queries'
work = { type = 'process', executable = 'make', args = ['query'] }
dependencies = ['index']
";
const TOON: &str = "\
name: Search
jobs[2]:
  - producerId: index
    task: Build the index
    work: make index
  - producerId: query
    task: Answer queries
    work:
      type: process
      executable: make
      args[1]: query
    dependencies[1]: index
";

#[test]
fn all_languages_say_the_same() {
    let yaml = understood(YAML, Language::Yaml).unwrap();
    assert_eq!(yaml.jobs.len(), 2);
    assert_eq!(understood(TOML, Language::Toml).unwrap(), yaml);
    assert_eq!(understood(TOON, Language::Toon).unwrap(), yaml);
    let json = serde_json::to_string(&yaml).unwrap();
    assert_eq!(understood(&json, Language::Json).unwrap(), yaml);
    for (text, language) in [
        (YAML, Language::Yaml),
        (TOML, Language::Toml),
        (&json, Language::Json),
        ("# a = b\n\nname: a = b", Language::Yaml),
        ("", Language::Yaml),
    ] {
        assert_eq!(guessed(text), language, "{text}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, language, expected) in [
        (
            YAML.replace("task: Answer", "taks: Answer"),
            Language::Yaml,
            "jobs[1].taks: unknown field `taks`",
        ),
        (
            YAML.replace("jobs:", "maxParalel: 2\njobs:"),
            Language::Yaml,
            "; did you mean `maxParallel`?",
        ),
        (
            TOML.replace("task = 'Answer", "tsak = 'Answer"),
            Language::Toml,
            " at line 8 column 1; did you mean `task`?",
        ),
        (
            TOML.replace("task = 'Answer queries'\n", ""),
            Language::Toml,
            "jobs[1]: missing field `task` at line 6 column 1",
        ),
        (
            format!("{TOML}[[jobs]]\nproducerId = 7\n"),
            Language::Toml,
            "at line 12 column 14",
        ),
        (
            format!("{TOML}[jobs.budget]\ncost = inf\n"),
            Language::Toml,
            "jobs[1].budget.cost: a finite number is expected",
        ),
        (
            format!("maxParallel = nan\n{TOML}"),
            Language::Toml,
            "maxParallel: a finite number is expected",
        ),
        (
            YAML.replace("    task: Build", "\ttask: Build"),
            Language::Yaml,
            "line 4 is indented with a tab",
        ),
        (
            YAML.replace("  - producerId: index", "\t- producerId: index"),
            Language::Yaml,
            "line 3 is indented with a tab",
        ),
        (
            YAML.replace("index\n    task", "Index!\n    task"),
            Language::Yaml,
            "jobs[0].producerId",
        ),
        (
            YAML.replace("name: Search", "name: ["),
            Language::Yaml,
            "line",
        ),
        (
            TOML.replace("name = 'Search'", "name = "),
            Language::Toml,
            "line 1",
        ),
        (
            TOML.replace("'index'\ntask", "7\ntask"),
            Language::Toml,
            "producerId",
        ),
        (
            TOON.replace("  - producerId: query", "  - producer: query"),
            Language::Toon,
            "jobs[1].producer",
        ),
        ("{\"name\": \"x\"} {}".to_owned(), Language::Json, "jobs"),
        ("{\"name\": 7}".to_owned(), Language::Json, "line 1"),
        ("{\"name\"".to_owned(), Language::Json, "EOF"),
    ] {
        let error = understood(&text, language).unwrap_err();
        assert!(error.contains(expected), "{language:?}: {error}");
        assert!(!error.starts_with('?'), "{language:?}: {error}");
    }
}

/// The places of all that is in a value.
fn places_in(value: &Value, at: &str, places: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), value))
            .collect(),
        Value::Array(values) => values
            .iter()
            .enumerate()
            .map(|(at, value)| (at.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let at = format!("{at}/{name}");
        places.push(at.clone());
        places_in(value, &at, places);
    }
}

/// Each field is given what it is not, and no name of a type of ours is said.
#[test]
fn what_is_expected_is_said_in_words_of_plan_files() {
    let whole = serde_json::json!({
        "name": "Whole", "baseBranch": "main", "targetBranch": "out", "maxParallel": 2,
        "cleanUpSuccessfulWork": true, "additionalSymlinkDirs": ["lib"], "startPaused": true,
        "env": {"A": "1"}, "worktreeInit": ["true"], "idempotencyKey": "k",
        "budget": {"tokens": 1, "cost": 1.5, "wallMs": 1},
        "verifyRi": {"type": "shell", "command": "make", "shell": "bash", "timeoutMs": 5,
            "errorAction": "Stop", "env": {"A": "1"}, "cwd": "lib",
            "onFailure": {"noAutoHeal": true, "message": "m", "resumeFromPhase": "work"}},
        "jobs": [{
            "producerId": "one", "task": "One", "name": "One", "dependencies": ["two"],
            "group": "a/b", "autoHeal": true, "expectsNoChanges": true, "baseBranch": "main",
            "instructions": "i", "prechecks": {"type": "process", "executable": "x", "args": ["y"]},
            "work": {"type": "agent", "instructions": "do", "agent": "scripted", "model": "m",
                "modelTier": "fast", "effort": "low", "maxTurns": 3, "resumeSession": true,
                "allowedFolders": ["/a"], "allowedUrls": ["https://a.example"]},
        }],
    });
    let mut places = vec![String::new()];
    places_in(&whole, "", &mut places);
    assert!(places.len() > 60, "{}", places.len());
    let wrong = [
        serde_json::json!([]),
        serde_json::json!([1]),
        serde_json::json!({}),
        serde_json::json!({"zebra": 1}),
        serde_json::json!("zebra crossing"),
        serde_json::json!(-7),
        serde_json::json!(1.5),
        serde_json::json!(true),
        Value::Null,
    ];
    let mut said = 0;
    for place in &places {
        for wrong in &wrong {
            let mut plan = whole.clone();
            *plan.pointer_mut(place).unwrap() = wrong.clone();
            let json = serde_json::to_string_pretty(&plan).unwrap();
            let yaml = serde_norway::to_string(&plan).unwrap();
            let toon = toon_format::encode_default(&plan).unwrap();
            let toml = toml::to_string(&plan).unwrap_or_default();
            for (text, language) in [
                (json, Language::Json),
                (yaml, Language::Yaml),
                (toon, Language::Toon),
                (toml, Language::Toml),
            ] {
                let Err(error) = understood(&text, language) else {
                    continue;
                };
                said += 1;
                let ours = [
                    "struct ",
                    "enum",
                    "Wire",
                    "Spec",
                    "Object",
                    "variant",
                    "invalid type",
                    "unit",
                    "sequence",
                    "a map",
                    "f64",
                    "u32",
                    "u64",
                    "i64",
                    "tuple",
                    "newtype",
                ];
                for word in ours {
                    assert!(
                        !error.contains(word),
                        "{language:?} {place} {wrong}: {error}"
                    );
                }
            }
        }
    }
    assert!(said > 1_000, "{said}");
}

#[test]
fn what_is_no_plan_at_all_is_told_so_with_its_line() {
    for (text, language, expected) in [
        (
            "- one\n- two\n",
            Language::Yaml,
            "a plan (an object with at least `name` and `jobs`) is expected",
        ),
        (
            "name: x\njobs:\n- one\n",
            Language::Yaml,
            "jobs[0]: a job (an object with at least `producerId`, `task` and `work`) is expected, not the \
             text \"one\" at line 3 column 3",
        ),
        (
            "{\"name\": \"x\",\n\"jobs\": 7}",
            Language::Json,
            "jobs: a list is expected, not the number `7` at line 2 column 9",
        ),
        (
            "name = 'x'\njobs = 7\n",
            Language::Toml,
            "jobs: a list is expected, not the number `7` at line 2 column 8",
        ),
        ("", Language::Yaml, "missing field `name`"),
        ("hello", Language::Yaml, "not the text \"hello\""),
    ] {
        let error = understood(text, language).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

/// YAML 1.1, as Compose and GitLab files use it.
#[test]
fn a_merge_key_takes_over_the_members_of_another_job() {
    let merged = "\
jobs:
  - &index
    producerId: index
    task: Build the index
    work: make index
  - <<: *index
    producerId: query
name: Search
";
    let plain = "\
jobs:
  - producerId: index
    task: Build the index
    work: make index
  - producerId: query
    task: Build the index
    work: make index
name: Search
";
    let expected = understood(plain, Language::Yaml).unwrap();
    assert_eq!(understood(merged, Language::Yaml).unwrap(), expected);
    let wrong = merged.replace("<<: *index", "<<: 7");
    assert!(understood(&wrong, Language::Yaml).is_err());
}
