//! The page of all tools, from the listing of the program.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    GENERATED, closed,
    markdown::{block, code, text},
    program::Program,
    schema,
};

const INTRODUCTION: &str = "\
```sh
orchestra tool show create_task
orchestra tool call list_projects
```

The built-in tools by group; `--tools` and `tools` of `orchestra.toml` select groups. Agents call them
over MCP, people with `orchestra tool call NAME argument=value`, scripts with
[REST](rest.md#post-apimcptoolscall). `orchestra tool show NAME` describes one, and `--json` adds its
schemas. Tools of upstream servers are listed beside them as `SERVER__TOOL`.

The length of arguments is limited: 1 MiB for `content` of `write_prd`, 64 KiB for `content` of memories,
256 KiB for other texts, and 300 characters for a title. A longer one is refused with its limit.
";

/// Writes the page.
///
/// # Errors
/// When the program does not list its tools.
pub(super) fn page(program: &Program) -> Result<String> {
    let listing = program.said(&["tool", "list", "--tools", "all", "--json"])?;
    let listing: Value = serde_json::from_str(&listing).context("the listing of tools")?;
    let tools = listing["items"].as_array().context("a list of tools")?;
    let mut groups: Vec<&str> = Vec::new();
    for tool in tools {
        let group = tool["group"].as_str().context("the group of a tool")?;
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let mut page = format!("# Tools\n\n{GENERATED}\n\n{INTRODUCTION}");
    for group in groups {
        writeln!(page, "\n## Group {}", code(group))?;
        for tool in tools.iter().filter(|tool| tool["group"] == group) {
            page.push_str(&described(tool)?);
        }
    }
    Ok(closed(&page))
}

fn described(tool: &Value) -> Result<String> {
    let name = tool["name"].as_str().context("the name of a tool")?;
    let about = tool["description"].as_str().unwrap_or_default();
    let mut page = format!("\n### {}\n\n{}\n\n", code(name), text(about));
    let arguments = &tool["inputSchema"];
    let rows = schema::rows(arguments, &code);
    if rows.is_empty() {
        page.push_str("Takes no arguments.\n");
    } else {
        page.push_str(schema::HEAD);
        page.push_str(&rows);
    }
    if let Some(choice) = choices(arguments) {
        write!(page, "\n{choice}\n")?;
    }
    if let Some(named) = arguments.get("$defs") {
        let named = serde_json::to_string_pretty(&schema::sorted(named))?;
        write!(page, "\nTypes in the table:\n\n{}", block("json", &named))?;
    }
    if let Some(answer) = answers(&tool["outputSchema"]) {
        write!(page, "\n{answer}\n")?;
    }
    Ok(page)
}

/// Which arguments go together, where a schema says so beside its properties.
fn choices(schema: &Value) -> Option<String> {
    let (rule, choices) = ["anyOf", "oneOf"]
        .iter()
        .find_map(|rule| Some((*rule, schema[*rule].as_array()?)))?;
    let of_one = |choice: &Value| {
        let names = choice["required"].as_array()?;
        let names = names.iter().filter_map(Value::as_str).map(code);
        Some(names.collect::<Vec<_>>().join(" with "))
    };
    let said: Option<Vec<String>> = choices.iter().map(of_one).collect();
    let how = if rule == "oneOf" {
        "Exactly one"
    } else {
        "At least one"
    };
    Some(match said {
        Some(said) => format!("{how} of these is required: {}.", said.join("; ")),
        None => {
            let rule = schema::sorted(&schema[rule]).to_string();
            format!("{how} of these applies: {}", code(&rule))
        }
    })
}

fn answers(schema: &Value) -> Option<String> {
    let (always, at_times) = schema::property_names(schema);
    let list = |names: Vec<&str>| names.into_iter().map(code).collect::<Vec<_>>().join(", ");
    match (always.is_empty(), at_times.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("Returns {}.", list(always))),
        (true, false) => Some(format!("Returns, if present, {}.", list(at_times))),
        (false, false) => Some(format!(
            "Returns {}, and if present {}.",
            list(always),
            list(at_times)
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_says_what_goes_together_and_what_comes_back() {
        let tool = json!({"name": "find", "description": "Finds <b>.", "inputSchema": {
            "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
            "oneOf": [{"required": ["id"]}, {"required": ["name"]}]},
            "outputSchema": {"required": ["id"], "properties": {"id": {}, "more": {}}}});
        let page = described(&tool).unwrap();
        assert!(
            page.starts_with("\n### `find`\n\nFinds &lt;b&gt;.\n\n| name |"),
            "{page}"
        );
        assert!(
            page.contains("Exactly one of these is required: `id`; `name`."),
            "{page}"
        );
        assert!(
            page.ends_with("Returns `id`, and if present `more`.\n"),
            "{page}"
        );
    }
}
