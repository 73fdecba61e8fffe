//! The tools whose calls may become tasks.

use std::time::Duration;

use orchestra_hub::{Cx, LongWork, ProviderError, ToolDescriptor};
use orchestra_wire::RawJson;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Answer, ask, catalog::tool, form, prompts::answered, tools};

/// How long a call works that is not told how long:
/// longer than what somebody in between takes for an answer at once.
const A_WHILE: Duration = Duration::from_millis(400);

/// The names of the tools.
pub(crate) const TOOLS: [&str; 6] = [
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
];

#[derive(Deserialize, Default)]
#[serde(default)]
struct Arguments {
    seconds: f64,
    label: String,
    filename: String,
}

pub(crate) fn descriptors() -> Vec<ToolDescriptor> {
    let computes = json!({
        "seconds": {"type": "number", "minimum": 0, "maximum": 3600},
        "label": {"type": "string"}
    });
    let deletes = json!({"filename": {"type": "string"}});
    let none = json!({});
    let of = |name: &str, description: &str, properties: &Value, long| ToolDescriptor {
        long,
        ..tool(name, description, properties)
    };
    let (may, must) = (LongWork::May, LongWork::Must);
    vec![
        of("slow_compute", "Works for so long.", &computes, may),
        of("failing_job", "Fails after a second.", &none, must),
        of("protocol_error_job", "Breaks after a while.", &none, may),
        of("confirm_delete", "Asks during its work.", &deletes, may),
        of("multi_input", "Asks for two things at once.", &none, may),
        of(
            "test_tool_with_task",
            "Asks first, then works.",
            &none,
            must,
        ),
    ]
}

pub(crate) async fn call(name: &str, arguments: &RawJson, cx: &Cx) -> Answer {
    let arguments: Arguments = match arguments.parse() {
        Ok(arguments) => arguments,
        Err(error) => return tools::failure(format!("invalid arguments for {name}: {error}")),
    };
    match name {
        "slow_compute" => {
            compute(arguments.seconds, cx).await;
            tools::text(&format!("computed {}", arguments.label))
        }
        "failing_job" => {
            tokio::time::sleep(Duration::from_secs(1)).await;
            tools::failure("The job failed, as it always does.".to_owned())
        }
        "protocol_error_job" => {
            tokio::time::sleep(A_WHILE).await;
            Err(ProviderError::Unreachable("the job broke".to_owned()))
        }
        "confirm_delete" => {
            tokio::time::sleep(A_WHILE).await;
            let Some(answer) = answered(cx, "confirm") else {
                let message = format!("Delete {}?", arguments.filename);
                return ask(&json!({"confirm": confirmation(&message)}), None);
            };
            match answer["content"]["confirm"].as_bool() {
                Some(true) => tools::text(&format!("deleted {}", arguments.filename)),
                _ => tools::text(&format!("kept {}", arguments.filename)),
            }
        }
        "multi_input" => {
            tokio::time::sleep(A_WHILE).await;
            if answered(cx, "first").is_some() && answered(cx, "second").is_some() {
                return tools::text("both were answered");
            }
            let questions = json!({
                "first": confirmation("The first?"),
                "second": confirmation("The second?")
            });
            ask(&questions, None)
        }
        "test_tool_with_task" => {
            let Some(answer) = answered(cx, "user_name") else {
                let properties = json!({"name": {"type": "string"}});
                let question = form("What is your name?", &properties, &["name"]);
                return ask(&json!({"user_name": question}), None);
            };
            tokio::time::sleep(A_WHILE).await;
            let name = answer["content"]["name"].as_str().unwrap_or("you");
            tools::text(&format!("Hello, {name}!"))
        }
        _ => Err(ProviderError::Unknown {
            kind: "tool",
            name: name.to_owned(),
        }),
    }
}

/// Works for so many seconds, and says how far it is.
async fn compute(seconds: f64, cx: &Cx) {
    let seconds = seconds.clamp(0.0, 3600.0);
    if seconds == 0.0 {
        return;
    }
    let steps = 4;
    for step in 0..steps {
        let done = f64::from(step) * 100.0 / f64::from(steps);
        cx.progress
            .progress(done, Some(100.0), Some(&format!("{done} % computed")));
        tokio::time::sleep(Duration::from_secs_f64(seconds / f64::from(steps))).await;
    }
}

fn confirmation(message: &str) -> Value {
    form(
        message,
        &json!({"confirm": {"type": "boolean"}}),
        &["confirm"],
    )
}
