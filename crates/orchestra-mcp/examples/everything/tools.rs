//! The tools.

use std::{
    thread,
    time::{Duration, Instant},
};

use orchestra_hub::{
    Content, Cx, LogLevel, Notice, Outcome, PromptDescriptor, ProviderError, ToolResult,
};
use orchestra_wire::RawJson;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{AUDIO, Answer, IMAGE, Shared, ask, catalog, form, long, prompts::answered, raw};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Arguments {
    prompt: Option<String>,
    message: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    milliseconds: u64,
    bytes: usize,
}

pub(crate) async fn call(shared: &Shared, name: &str, arguments: &RawJson, cx: Cx) -> Answer {
    if long::TOOLS.contains(&name) {
        return long::call(name, arguments, &cx).await;
    }
    let arguments: Arguments = match arguments.parse() {
        Ok(arguments) => arguments,
        Err(error) => return failure(format!("invalid arguments for {name}: {error}")),
    };
    if let Some(kind) = name.strip_prefix("test_input_required_result_") {
        return input_required(kind, &cx);
    }
    match name {
        "test_tool_with_progress" => {
            for (step, message) in [(0.0, "started"), (50.0, "half way"), (100.0, "done")] {
                cx.progress.progress(step, Some(100.0), Some(message));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            text("Progress test completed")
        }
        "test_tool_with_logging" => {
            for message in ["started", "working", "done"] {
                cx.progress
                    .log(LogLevel::Info, Some("everything"), &raw(&json!(message)));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            text("Logging test completed")
        }
        "test_logging_tool" => {
            cx.progress.log(
                LogLevel::Emergency,
                Some("everything"),
                &raw(&json!("logged")),
            );
            text("Logging tool completed")
        }
        "test_slow" => {
            tokio::time::sleep(Duration::from_millis(arguments.milliseconds)).await;
            text("slow")
        }
        "test_reconnection" => {
            tokio::time::sleep(Duration::from_secs(2)).await;
            text("Reconnection test completed")
        }
        "test_heavy" => heavy(arguments.milliseconds, &cx),
        "greet" => text(&format!(
            "Hello, {}!",
            arguments.name.as_deref().unwrap_or("you")
        )),
        "test_update_resource" => {
            let uri = arguments
                .uri
                .unwrap_or_else(|| "test://watched-resource".to_owned());
            let sent = shared.notices.send(Notice::ResourceUpdated(uri)).await;
            sent.map_err(|_| ProviderError::Unreachable("nobody listens".to_owned()))?;
            text("announced")
        }
        "test_trigger_tool_change" => {
            shared.change_catalog(|catalog| {
                let name = format!("test_added_{}", catalog.tools.len());
                catalog
                    .tools
                    .push(catalog::tool(&name, "Was added.", &json!({})));
            });
            text("changed")
        }
        "test_trigger_prompt_change" => {
            shared.change_catalog(|catalog| {
                catalog.prompts.push(PromptDescriptor {
                    name: format!("test_added_{}", catalog.prompts.len()),
                    title: None,
                    description: Some("Was added.".to_owned()),
                    arguments: Vec::new(),
                    definition: None,
                });
            });
            text("changed")
        }
        _ => at_once(name, arguments, &cx),
    }
}

/// The tools that wait for nothing.
#[expect(
    clippy::print_stdout,
    reason = "a test of what happens to stray prints"
)]
fn at_once(name: &str, arguments: Arguments, cx: &Cx) -> Answer {
    match name {
        "test_header_parameters" => text("The headers repeat the arguments."),
        "test_simple_text" => text("This is a simple text response for testing."),
        "test_image_content" => content(vec![image()]),
        "test_audio_content" => content(vec![
            json!({"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}),
        ]),
        "test_embedded_resource" => content(vec![resource("test://embedded-resource")]),
        "test_multiple_content_types" => content(vec![
            json!({"type": "text", "text": "Multiple content types test:"}),
            image(),
            resource("test://mixed-content-resource"),
        ]),
        "test_error_handling" => {
            failure("This tool intentionally returns an error for testing".to_owned())
        }
        "test_structured" => Ok(Outcome::Tool(ToolResult {
            content: vec![Content::Text("{\"answer\":42}".to_owned())],
            structured: Some(raw(&json!({"answer": 42}))),
            ..ToolResult::default()
        })),
        "json_schema_2020_12_tool" => text(&format!(
            "Hello, {}!",
            arguments.name.as_deref().unwrap_or("you")
        )),
        "test_large" => text(&"x".repeat(arguments.bytes.min(64 * 1024 * 1024))),
        "test_panic" => panic!("as asked"),
        "test_print" => {
            println!("a stray print");
            text("printed")
        }
        "test_missing_capability" if cx.features.sampling => text("Required capability declared"),
        "test_missing_capability" | "test_sampling" => match answered(cx, "sampling") {
            Some(answer) => {
                let said = answer["content"]["text"].as_str().unwrap_or_default();
                text(&format!("LLM response: {said}"))
            }
            None => ask(
                &json!({"sampling": sampling(arguments.prompt.as_deref())}),
                None,
            ),
        },
        "test_elicitation" => {
            let message = arguments
                .message
                .as_deref()
                .unwrap_or("Please introduce yourself.");
            let properties = json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"}
            });
            elicit(
                cx,
                "User response",
                form(message, &properties, &["username", "email"]),
            )
        }
        "test_elicitation_sep1034_defaults" => {
            let properties = json!({
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {
                    "type": "string",
                    "enum": ["active", "inactive", "pending"],
                    "default": "active"
                },
                "verified": {"type": "boolean", "default": true}
            });
            elicit(
                cx,
                "Elicitation completed",
                form("All have defaults.", &properties, &[]),
            )
        }
        "test_elicitation_sep1330_enums" => elicit(
            cx,
            "Elicitation completed",
            form("Please choose.", &choices(), &[]),
        ),
        "test_streaming_elicitation" => {
            let properties = json!({"value": {"type": "string"}});
            let question = form("Which value?", &properties, &["value"]);
            ask(&json!({"streaming_elicitation": question}), None)
        }
        name if name.starts_with("test_added_") => text(name),
        _ => Err(ProviderError::Unknown {
            kind: "tool",
            name: name.to_owned(),
        }),
    }
}

fn heavy(milliseconds: u64, cx: &Cx) -> Answer {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end && !cx.cancel.is_cancelled() {
        thread::sleep(Duration::from_millis(1));
    }
    text("heavy")
}

fn elicit(cx: &Cx, said: &str, question: Value) -> Answer {
    match answered(cx, "elicitation") {
        None => ask(&json!({"elicitation": question}), None),
        Some(answer) => {
            let action = answer["action"].as_str().unwrap_or_default();
            let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
            text(&format!("{said}: action={action}, content={content}"))
        }
    }
}

fn input_required(kind: &str, cx: &Cx) -> Answer {
    let state = cx
        .answers
        .as_ref()
        .and_then(|answers| answers.state.as_deref());
    let name = || {
        form(
            "What is your name?",
            &json!({"name": {"type": "string"}}),
            &["name"],
        )
    };
    let roots = || json!({"method": "roots/list"});
    match kind {
        "elicitation" => match answered(cx, "user_name") {
            None => ask(&json!({"user_name": name()}), None),
            Some(answer) => {
                let name = answer["content"]["name"].as_str().unwrap_or("you");
                text(&format!("Hello, {name}!"))
            }
        },
        "sampling" => match answered(cx, "capital_question") {
            None => {
                let question = sampling(Some("What is the capital of France?"));
                ask(&json!({"capital_question": question}), None)
            }
            Some(answer) => {
                let said = answer["content"]["text"].as_str().unwrap_or_default();
                text(&format!("The model said: {said}"))
            }
        },
        "list_roots" => match answered(cx, "client_roots") {
            None => ask(&json!({"client_roots": roots()}), None),
            Some(answer) => text(&format!("Roots: {}", answer["roots"])),
        },
        "request_state" | "tampered_state" => match state {
            None => {
                let properties = json!({"ok": {"type": "boolean"}});
                let question = form("Please confirm", &properties, &["ok"]);
                ask(&json!({"confirm": question}), Some("confirm".to_owned()))
            }
            Some(_) => text("state-ok"),
        },
        "multiple_inputs" => {
            let keys = ["user_name", "greeting", "client_roots"];
            if state.is_some() && keys.iter().all(|key| answered(cx, key).is_some()) {
                return text("All inputs received");
            }
            let greeting = sampling(Some("Generate a greeting"));
            let all = json!({"user_name": name(), "greeting": greeting, "client_roots": roots()});
            ask(&all, Some("gather".to_owned()))
        }
        "multi_round" => match state {
            None => ask(&json!({"step1": name()}), Some("1".to_owned())),
            Some("1") => {
                let properties = json!({"color": {"type": "string"}});
                let question = form("Which colour do you like?", &properties, &["color"]);
                ask(&json!({"step2": question}), Some("2".to_owned()))
            }
            Some(_) => text("Multi-round flow complete"),
        },
        "capabilities" => {
            let mut wanted = json!({});
            let can = cx.features;
            if can.elicitation {
                wanted["user_name"] = name();
            }
            if can.sampling {
                wanted["greeting"] = sampling(Some("Generate a greeting"));
            }
            if can.roots {
                wanted["client_roots"] = roots();
            }
            if cx.answers.is_some() || wanted == json!({}) {
                return text("Capability-aware flow complete");
            }
            ask(&wanted, None)
        }
        _ => Err(ProviderError::Unknown {
            kind: "tool",
            name: kind.to_owned(),
        }),
    }
}

fn sampling(prompt: Option<&str>) -> Value {
    let content = json!({"type": "text", "text": prompt.unwrap_or("Hello")});
    let messages = json!([{"role": "user", "content": content}]);
    json!({"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}})
}

fn choices() -> Value {
    let titled = |word: &str| {
        let choice = |n: u8| json!({"const": format!("value{n}"), "title": format!("{word} {n}")});
        json!([choice(1), choice(2), choice(3)])
    };
    json!({
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]}
        },
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}}
    })
}

fn image() -> Value {
    json!({"type": "image", "data": IMAGE, "mimeType": "image/png"})
}

fn resource(uri: &str) -> Value {
    let resource = json!({"uri": uri, "mimeType": "text/plain", "text": "An embedded resource."});
    json!({"type": "resource", "resource": resource})
}

pub(crate) fn text(text: &str) -> Answer {
    let content = vec![Content::Text(text.to_owned())];
    Ok(Outcome::Tool(ToolResult {
        content,
        ..ToolResult::default()
    }))
}

fn content(blocks: Vec<Value>) -> Answer {
    let content = blocks
        .iter()
        .map(|block| Content::Raw(raw(block)))
        .collect();
    Ok(Outcome::Tool(ToolResult {
        content,
        ..ToolResult::default()
    }))
}

pub(crate) fn failure(text: String) -> Answer {
    let content = vec![Content::Text(text)];
    Ok(Outcome::Tool(ToolResult {
        content,
        is_error: true,
        ..ToolResult::default()
    }))
}
