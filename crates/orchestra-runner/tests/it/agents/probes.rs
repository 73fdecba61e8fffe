//! Asking programs that are there, that are not, and that misbehave.

use std::time::Duration;

use orchestra_runner::agents::{AgentError, Feature};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Programs;

const PATIENCE: Duration = Duration::from_secs(60);

/// A program that counts how often it is asked.
const GOOD: &str = r#"
echo "$*" >> "$(dirname "$0")/asked"
case "$1" in
  --version) echo; echo "good 1.2.3"; echo more ;;
  --help) cat <<'HELP'
  --model <model>   which model (choices: "one", "two")
  --resume <id>     go on
  --auto            do not ask
HELP
  ;;
esac
"#;

fn profile() -> Value {
    json!({
        "program": "good",
        "arguments": [
            ["?--auto"], ["?--other"], ["--model", "{model}"], ["--resume={session}"],
            ["--effort={effort}"], ["--", "{prompt}"],
        ],
        "probe": {
            "model_choices": "--model",
            "options": {"model": "--model", "resume": "--resume", "effort": "--effort"},
        },
    })
}

fn asked(programs: &Programs) -> usize {
    let asked = std::fs::read_to_string(programs.path().join("asked")).unwrap_or_default();
    asked.lines().count()
}

#[tokio::test]
async fn what_the_help_names_is_there_and_what_it_does_not_is_not() {
    let programs = Programs::new().with("good", GOOD);
    let agents = programs.agents(&[("mine", profile())]);
    let chosen = agents.choose("mine").await.unwrap();
    assert_eq!(chosen.able.version.as_deref(), Some("good 1.2.3"));
    assert!(chosen.able.has(Feature::Model) && chosen.able.has(Feature::Resume));
    assert!(
        !chosen.able.has(Feature::Effort),
        "its help does not name it"
    );
    assert!(
        !chosen.able.has(Feature::Urls),
        "its arguments do not express it"
    );
    assert_eq!(chosen.able.models.as_deref().unwrap(), ["one", "two"]);
}

#[tokio::test]
async fn a_program_is_asked_once_until_it_changes() {
    let programs = Programs::new().with("good", GOOD);
    let agents = programs.agents(&[("mine", profile())]);
    for _ in 0..3 {
        agents.choose("mine").await.unwrap();
    }
    assert_eq!(asked(&programs), 2);
    programs.put("good", &GOOD.replace("1.2.3", "1.2.34"));
    let chosen = agents.choose("mine").await.unwrap();
    assert_eq!(chosen.able.version.as_deref(), Some("good 1.2.34"));
    assert_eq!(asked(&programs), 4);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_said_with_what_is() {
    let programs = Programs::new()
        .with("claude", "echo 1")
        .with("aider", "echo 1");
    let agents = programs.agents(&[]);
    let error = agents.choose("codex").await.unwrap_err();
    assert_eq!(error.code(), "agent_not_installed");
    assert_eq!(
        error.to_string(),
        "the program `codex` of agent `codex` is not installed; install it, or name an agent with an installed \
         program (aider, claude). To define one, set `program` and `arguments` of [agents.<name>] in your own \
         orchestra.toml"
    );
    let error = agents.choose("nobody").await.unwrap_err();
    assert_eq!(error.code(), "agent_unknown");
    assert!(error.to_string().contains("scripted"), "{error}");
}

#[test]
fn first_installed_agent_is_found_in_the_order_of_the_built_in_profiles() {
    let first = |programs: &Programs| {
        let agents = programs.agents(&[("mine", profile())]);
        agents.first_installed().map(ToString::to_string)
    };
    let both = Programs::new().with("claude", "echo 1").with("good", GOOD);
    assert_eq!(first(&both).as_deref(), Some("claude"));
    let own = Programs::new().with("good", GOOD);
    assert_eq!(first(&own).as_deref(), Some("mine"));
    assert_eq!(first(&Programs::new()), None);
    assert_eq!(asked(&both) + asked(&own), 0);
}

#[tokio::test]
async fn programs_that_misbehave_are_errors_and_not_waited_for() {
    let programs = Programs::new()
        .with(
            "fails",
            "echo 'no licence: sk-0123456789abcdefghij' >&2; exit 3",
        )
        .with("silent", "exit 4")
        .with(
            "floods",
            "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
        );
    let of = |program: &str| json!({"program": program, "arguments": [["{prompt}"]]});
    let agents = ["fails", "silent", "floods"].map(|name| (name, of(name)));
    let agents = programs.agents(&agents);
    let error = agents.choose("fails").await.unwrap_err();
    assert_eq!(error.code(), "agent_probe_failed");
    let text = error.to_string();
    assert!(
        text.contains("no licence: sk-***") && text.contains("--version"),
        "{text}"
    );
    let text = agents.choose("silent").await.unwrap_err().to_string();
    assert!(
        text.ends_with("printed nothing and exited with code 4"),
        "{text}"
    );
    let error = timeout(PATIENCE, agents.choose("floods"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, AgentError::Probe { .. }), "{error}");
}

#[tokio::test]
async fn no_key_is_given_to_a_program_that_is_asked() {
    let programs = Programs::new().with("prints", "env | cut -d= -f1 | sort | tr '\\n' ' '");
    let prints = json!({
        "program": "prints", "arguments": [["{prompt}"]],
        "environment": ["CARGO_MANIFEST_DIR"],
    });
    let agents = programs.agents(&[("prints", prints)]);
    let chosen = agents.choose("prints").await.unwrap();
    let names = chosen.able.version.clone().unwrap();
    assert!(!names.contains("CARGO"), "{names}");
}

#[tokio::test]
async fn program_is_asked_in_an_empty_directory_of_the_user() {
    use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

    let programs = Programs::new().with(
        "shows",
        "echo \"$PWD $(stat -c %a .) $(ls -A | wc -l)\"; echo > left",
    );
    let state = programs.path().join("state");
    let prober = programs.prober().with_state(state.clone());
    let shows = super::profile_of(&json!({"program": "shows", "arguments": [["{prompt}"]]}));
    let name = orchestra_plan::work::ProfileName::parse("shows").unwrap();
    let agents = orchestra_runner::agents::Agents::new(BTreeMap::from([(name, shows)]), prober);
    let chosen = agents.choose("shows").await.unwrap();
    let shown = chosen.able.version.clone().unwrap();
    let state = state.canonicalize().unwrap();
    assert!(
        shown.starts_with(&format!("{}/probe-", state.display())) && shown.ends_with(" 700 0"),
        "{shown}"
    );
    let mode = fs::metadata(&state).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
}

#[tokio::test]
async fn the_scripted_agent_is_always_there() {
    let chosen = Programs::new()
        .agents(&[])
        .choose("scripted")
        .await
        .unwrap();
    assert_eq!(chosen.able.program, super::program());
    for feature in [
        Feature::Model,
        Feature::Resume,
        Feature::Effort,
        Feature::MaxTurns,
        Feature::Folders,
    ] {
        assert!(chosen.able.has(feature), "{feature:?}");
    }
}
