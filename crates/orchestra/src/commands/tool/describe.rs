//! A tool's arguments as its schema has them, for people.

use serde_json::Value;

use crate::output::in_a_line;

/// An argument as it is shown. Names and types of an upstream server are on one line.
struct Shown<'a> {
    name: String,
    /// Its type, and whether it is required.
    kind: String,
    description: &'a str,
    is_required: bool,
}

/// What a tool does, how it is called and what arguments it takes, in the schema's order.
pub(super) fn text(name: &str, description: &str, schema: &Value) -> String {
    let arguments = arguments(schema);
    let mut text = indented(description, "  ");
    text.push_str(&format!("\n\nUsage: orchestra tool call {name}"));
    for argument in arguments.iter().filter(|argument| argument.is_required) {
        let value = argument.name.to_uppercase();
        text.push_str(&format!(" {}={value}", argument.name));
    }
    if arguments.iter().any(|argument| !argument.is_required) {
        text.push_str(" [KEY=VALUE]...");
    }
    if arguments.is_empty() {
        text.push_str("\n\nIt takes no arguments.\n");
        return text;
    }
    text.push_str("\n\nArguments:\n");
    let width = arguments.iter().map(|a| a.name.len()).max().unwrap_or(0);
    for argument in &arguments {
        text.push_str(&format!("  {:<width$}  {}", argument.name, argument.kind));
        if !argument.description.is_empty() {
            text.push_str(". ");
            text.push_str(&indented(argument.description, "    "));
        }
        text.push('\n');
    }
    text
}

/// A text whose further lines are indented, so that none of them looks like a line of this program.
fn indented(text: &str, by: &str) -> String {
    let mut indented = String::with_capacity(text.len());
    for (at, line) in text.trim_end().split('\n').enumerate() {
        if at > 0 {
            indented.push('\n');
        }
        if at > 0 && !line.is_empty() {
            indented.push_str(by);
        }
        indented.push_str(line);
    }
    indented
}

fn arguments(schema: &Value) -> Vec<Shown<'_>> {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    let properties = schema["properties"].as_object();
    let shown = properties.into_iter().flatten().map(|(name, property)| {
        let is_required = is_required(name);
        let kind = in_a_line(&kind(property));
        Shown {
            name: in_a_line(name),
            kind: if is_required {
                format!("{kind}, required")
            } else {
                kind
            },
            description: property["description"].as_str().unwrap_or_default(),
            is_required,
        }
    });
    shown.collect()
}

/// A schema's type in words.
fn kind(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(word).collect();
        return format!("one of {}", choices.join("|"));
    }
    let mut kind = match &schema["type"] {
        Value::String(only) if only == "array" && schema["items"].is_object() => {
            format!("array of {}", kind(&schema["items"]))
        }
        Value::Array(several) => several.iter().map(word).collect::<Vec<_>>().join(" or "),
        Value::Null => "any JSON".to_owned(),
        only => word(only),
    };
    let fields = schema["properties"].as_object();
    let fields: Vec<&str> = fields
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    if !fields.is_empty() {
        kind.push_str(&format!(" {{{}}}", fields.join(", ")));
    }
    match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
        (Some(least), Some(most)) => kind.push_str(&format!(" from {least} to {most}")),
        (Some(least), None) => kind.push_str(&format!(" from {least}")),
        (None, Some(most)) => kind.push_str(&format!(" to {most}")),
        (None, None) => {}
    }
    kind
}

/// A name or choice, without quotes.
fn word(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_told_in_words() {
        for (schema, expected) in [
            (json!({"type": "string"}), "string"),
            (json!({"type": "string", "enum": ["a", "b"]}), "one of a|b"),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                "array of string",
            ),
            (
                json!({"type": "array", "items": {"type": "object", "properties": {"x": {}, "y": {}}}}),
                "array of object {x, y}",
            ),
            (
                json!({"type": "integer", "minimum": 1, "maximum": 5}),
                "integer from 1 to 5",
            ),
            (json!({"type": ["string", "null"]}), "string or null"),
            (json!({}), "any JSON"),
            (json!(true), "any JSON"),
        ] {
            assert_eq!(kind(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn texts_of_a_server_begin_no_line() {
        let forged = "x\nUsage: forged";
        let schema = json!({"properties": {
            forged: {"type": forged, "description": forged},
            "y": {"enum": [forged], "properties": {forged: {}}},
        }, "required": [forged]});
        let text = text("t", forged, &schema);
        let usages = text.lines().filter(|line| line.starts_with("Usage:"));
        assert_eq!(usages.count(), 1, "{text}");
    }

    #[test]
    fn a_tool_without_arguments_says_so() {
        let text = text("t", "Does it.", &json!({"type": "object"}));
        assert_eq!(
            text,
            "Does it.\n\nUsage: orchestra tool call t\n\nIt takes no arguments.\n"
        );
    }
}
