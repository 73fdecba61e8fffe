//! What the server offers.

use orchestra_hub::{
    Annotations, Catalog, Cost, LongWork, PromptArgument, PromptDescriptor, ResourceDescriptor,
    TemplateDescriptor, ToolDescriptor,
};
use serde_json::{Value, json};

use crate::{long, raw, skills};

pub(crate) fn all() -> Catalog {
    Catalog {
        tools: tools(),
        prompts: prompts(),
        resources: resources().into_iter().chain(skills::resources()).collect(),
        templates: vec![TemplateDescriptor {
            uri_template: "test://template/{id}/data".to_owned(),
            name: "template".to_owned(),
            title: Some("Template".to_owned()),
            description: Some("Data with an id.".to_owned()),
            mime_type: Some("application/json".to_owned()),
            definition: None,
        }],
        skills: Some(skills::all()),
        instructions: Some("Every tool is a test; none changes anything outside.".to_owned()),
        ..Catalog::default()
    }
}

pub(crate) fn tool(name: &str, description: &str, properties: &Value) -> ToolDescriptor {
    ToolDescriptor {
        name: name.to_owned(),
        title: None,
        description: Some(description.to_owned()),
        input_schema: raw(&json!({"type": "object", "properties": properties})),
        lean_schema: None,
        output_schema: None,
        annotations: Annotations {
            open_world: Some(false),
            ..Annotations::default()
        },
        group: "test".into(),
        definition: None,
        cost: Cost::Quick,
        long: LongWork::Never,
    }
}

fn tools() -> Vec<ToolDescriptor> {
    let none = json!({});
    let milliseconds = json!({"milliseconds": {"type": "integer", "minimum": 0}});
    let plain = [
        ("test_simple_text", "Answers a text."),
        ("test_image_content", "Answers an image."),
        ("test_audio_content", "Answers a sound."),
        ("test_embedded_resource", "Answers a resource."),
        (
            "test_multiple_content_types",
            "Answers a text, an image and a resource.",
        ),
        ("test_tool_with_logging", "Logs three times."),
        ("test_logging_tool", "Logs once."),
        ("test_tool_with_progress", "Reports progress three times."),
        ("test_error_handling", "Fails."),
        ("test_elicitation_sep1034_defaults", "Asks with defaults."),
        ("test_elicitation_sep1330_enums", "Asks for choices."),
        ("test_missing_capability", "Needs sampling."),
        ("test_streaming_elicitation", "Asks for a value, always."),
        ("test_trigger_tool_change", "Changes the list of tools."),
        ("test_trigger_prompt_change", "Changes the list of prompts."),
        ("test_input_required_result_elicitation", "Asks for a name."),
        (
            "test_input_required_result_sampling",
            "Asks the client's model.",
        ),
        ("test_input_required_result_list_roots", "Asks for roots."),
        (
            "test_input_required_result_request_state",
            "Asks, and keeps a state.",
        ),
        (
            "test_input_required_result_tampered_state",
            "Asks, and checks the state.",
        ),
        (
            "test_input_required_result_multiple_inputs",
            "Asks for three things.",
        ),
        ("test_input_required_result_multi_round", "Asks twice."),
        (
            "test_input_required_result_capabilities",
            "Asks for what the client can.",
        ),
        (
            "test_reconnection",
            "Takes so long that the client is sent away and comes back.",
        ),
        ("test_panic", "Panics."),
        (
            "test_print",
            "Prints to standard output, which it should not.",
        ),
    ];
    let mut all: Vec<ToolDescriptor> = plain
        .iter()
        .map(|(name, description)| tool(name, description, &none))
        .collect();
    let text = |name: &str| json!({name: {"type": "string"}});
    all.push(tool("greet", "Greets.", &text("name")));
    all.extend(long::descriptors());
    all.push(tool(
        "test_sampling",
        "Asks the client's model.",
        &text("prompt"),
    ));
    all.push(tool(
        "test_elicitation",
        "Asks the client's user.",
        &text("message"),
    ));
    all.push(tool(
        "test_update_resource",
        "Announces that a resource changed.",
        &text("uri"),
    ));
    all.push(tool(
        "test_slow",
        "Waits, without holding anyone up.",
        &milliseconds,
    ));
    let heavy = tool("test_heavy", "Computes for a while.", &milliseconds);
    all.push(ToolDescriptor {
        cost: Cost::Heavy,
        ..heavy
    });
    let region = json!({
        "region": {"type": "string", "x-mcp-header": "Region"},
        "limit": {"type": "integer", "x-mcp-header": "Limit"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"}
    });
    all.push(ToolDescriptor {
        input_schema: raw(&json!({"type": "object", "properties": region, "required": ["region"]})),
        ..tool(
            "test_header_parameters",
            "Has arguments that headers repeat.",
            &none,
        )
    });
    let bytes = json!({"bytes": {"type": "integer", "minimum": 0}});
    all.push(tool("test_large", "Answers a text of this size.", &bytes));
    let output = json!({"type": "object", "properties": {"answer": {"type": "integer"}}});
    all.push(ToolDescriptor {
        output_schema: Some(raw(&output)),
        ..tool("test_structured", "Answers structured content.", &none)
    });
    all.push(ToolDescriptor {
        input_schema: raw(&json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "address",
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
                }
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"}
            },
            "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
            "if": {"required": ["address"]},
            "then": {"properties": {"address": {"required": ["street"]}}},
            "else": {"required": ["name"]},
            "additionalProperties": false
        })),
        ..tool(
            "json_schema_2020_12_tool",
            "Greets; its schema uses much of JSON Schema.",
            &none,
        )
    });
    all
}

fn prompts() -> Vec<PromptDescriptor> {
    let prompt = |name: &str, description: &str, arguments: Vec<PromptArgument>| PromptDescriptor {
        name: name.to_owned(),
        title: None,
        description: Some(description.to_owned()),
        arguments,
        definition: None,
    };
    let argument = |name: &str, required| PromptArgument {
        name: name.to_owned(),
        description: Some(format!("Goes into the prompt as {name}.")),
        required,
    };
    vec![
        prompt("test_simple_prompt", "A prompt without arguments.", vec![]),
        prompt(
            "test_prompt_with_arguments",
            "A prompt with arguments.",
            vec![argument("arg1", true), argument("arg2", false)],
        ),
        prompt(
            "test_prompt_with_embedded_resource",
            "A prompt with a resource.",
            vec![argument("resourceUri", false)],
        ),
        prompt("test_prompt_with_image", "A prompt with an image.", vec![]),
        prompt(
            "test_input_required_result_prompt",
            "A prompt that asks first.",
            vec![],
        ),
    ]
}

fn resources() -> Vec<ResourceDescriptor> {
    let resource = |name: &str, mime_type: &str| ResourceDescriptor {
        uri: format!("test://{name}"),
        name: name.to_owned(),
        title: None,
        description: Some("A resource for tests.".to_owned()),
        mime_type: Some(mime_type.to_owned()),
        definition: None,
    };
    vec![
        resource("static-text", "text/plain"),
        resource("static-binary", "image/png"),
        resource("watched-resource", "text/plain"),
    ]
}
