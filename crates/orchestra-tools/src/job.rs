//! Names of agents in the calls of a job in a sandbox.
//!
//! The name in a call is free text, and claims and evidence belong to it. So a job has names of its own alone: that of
//! the job, and `NAME (JOB)` for each name that it gives.

use orchestra_wire::RawJson;
use serde_json::{Map, Value};

/// Argument of a tool with the name of an agent.
const ARGUMENT: &str = "agent";

/// Maximum number of characters of a name.
const MAX_CHARS: usize = 64;

/// Returns the arguments of a call, with the name under which the job acts.
pub(crate) fn signed(job: &str, arguments: &RawJson) -> RawJson {
    let Ok(mut members) = serde_json::from_str::<Map<String, Value>>(arguments.as_str()) else {
        // No tool takes such arguments.
        return RawJson::from_static("null");
    };
    let name = match members.get(ARGUMENT) {
        None | Some(Value::Null) => job.to_owned(),
        Some(Value::String(given)) => named(job, given),
        // The tool refuses it.
        Some(_) => return arguments.clone(),
    };
    members.insert(ARGUMENT.to_owned(), name.into());
    RawJson::of(&members).unwrap_or_else(|_| RawJson::from_static("null"))
}

/// Returns whether a tool has an argument with the name of an agent.
pub(crate) fn is_signed(input_schema: &RawJson) -> bool {
    let schema = serde_json::from_str::<Value>(input_schema.as_str());
    schema.is_ok_and(|schema| schema["properties"].get(ARGUMENT).is_some())
}

fn named(job: &str, given: &str) -> String {
    let given = given.trim();
    let end = format!(" ({job})");
    // An empty name is refused by the tool.
    if given.is_empty() || given == job || given.ends_with(&end) {
        return given.to_owned();
    }
    let room = MAX_CHARS.saturating_sub(end.chars().count());
    let start: String = given.chars().take(room).collect();
    format!("{}{end}", start.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const JOB: &str = "job 1a2b3c4d/inside";

    #[test]
    fn call_acts_under_the_name_of_the_job() {
        for (given, expected) in [
            (json!({}), JOB),
            (json!({"agent": null}), JOB),
            (json!({"agent": JOB}), JOB),
            (json!({"agent": " robot "}), "robot (job 1a2b3c4d/inside)"),
            (
                json!({"agent": "robot (job 1a2b3c4d/inside)"}),
                "robot (job 1a2b3c4d/inside)",
            ),
            (
                json!({"agent": "robot (job 1a2b3c4d/other)"}),
                "robot (job 1a2b3c4d/other) (job 1a2b3c4d/inside)",
            ),
            (
                json!({"agent": "r".repeat(64)}),
                "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr (job 1a2b3c4d/inside)",
            ),
        ] {
            let signed = signed(JOB, &RawJson::of(&given).unwrap());
            let signed: Value = serde_json::from_str(signed.as_str()).unwrap();
            assert_eq!(signed[ARGUMENT], expected, "{given}");
            assert!(expected.chars().count() <= MAX_CHARS, "{expected}");
        }
    }

    #[test]
    fn name_that_is_no_text_is_left_to_the_tool_to_refuse() {
        for given in [json!({"agent": ["robot"]}), json!({"agent": ""})] {
            let arguments = RawJson::of(&given).unwrap();
            let signed: Value = serde_json::from_str(signed(JOB, &arguments).as_str()).unwrap();
            assert_eq!(signed, given);
        }
    }
}
