//! The prompts.

use std::collections::BTreeMap;

use orchestra_hub::{Cx, Outcome, PromptResult, ProviderError};
use serde_json::{Value, json};

use crate::{Answer, IMAGE, ask, form, raw};

pub(crate) fn answer(name: &str, arguments: &BTreeMap<String, String>, cx: &Cx) -> Answer {
    let argument = |key: &str| arguments.get(key).map_or("", String::as_str);
    let text = |text: String| json!({"type": "text", "text": text});
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.".to_owned())],
        "test_prompt_with_arguments" => vec![text(format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1"),
            argument("arg2")
        ))],
        "test_prompt_with_embedded_resource" => {
            let uri = Some(argument("resourceUri")).filter(|uri| !uri.is_empty());
            let resource = json!({
                "uri": uri.unwrap_or("test://static-text"),
                "mimeType": "text/plain",
                "text": "Content of the embedded resource."
            });
            vec![
                json!({"type": "resource", "resource": resource}),
                text("Please look at the resource above.".to_owned()),
            ]
        }
        "test_prompt_with_image" => vec![
            json!({"type": "image", "data": IMAGE, "mimeType": "image/png"}),
            text("Please look at the image above.".to_owned()),
        ],
        "test_input_required_result_prompt" => {
            let Some(context) = answered(cx, "user_context") else {
                let properties = json!({"context": {"type": "string"}});
                let question = form("Which context shall be used?", &properties, &["context"]);
                return ask(&json!({"user_context": question}), None);
            };
            let context = context["content"]["context"].as_str().unwrap_or_default();
            vec![text(format!("Prompt with context: {context}"))]
        }
        _ => {
            return Err(ProviderError::Unknown {
                kind: "prompt",
                name: name.to_owned(),
            });
        }
    };
    let messages: Vec<Value> = contents
        .into_iter()
        .map(|content| json!({"role": "user", "content": content}))
        .collect();
    Ok(Outcome::Prompt(PromptResult {
        description: None,
        messages: raw(&json!(messages)),
    }))
}

/// The client's answer to the question `key`.
pub(crate) fn answered(cx: &Cx, key: &str) -> Option<Value> {
    let responses: Value = cx.answers.as_ref()?.responses.parse().ok()?;
    responses
        .get(key)
        .filter(|answer| answer.is_object())
        .cloned()
}
