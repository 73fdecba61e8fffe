//! The page of all routes, from the program's OpenAPI document.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    GENERATED, closed,
    markdown::{cell, code, text},
    program::Program,
    schema,
};

const INTRODUCTION: &str = "\
```sh
curl http://127.0.0.1:7420/api/openapi.json
```

This page lists the HTTP routes of `orchestra up`, except the MCP route `/mcp`. A running `orchestra up` returns the
OpenAPI document of these routes at `/api/openapi.json`. If `orchestra up` requires a token, send the header
`Authorization: Bearer TOKEN`. The body of an error response is `{\"error\": text}`.
";

/// The methods, in the order in which they are shown.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The fewest routes of which an answer must be one and the same to be told once.
const COMMON: usize = 5;

/// Writes the page.
///
/// # Errors
/// When the program does not serve its document.
pub(super) fn page(program: &Program) -> Result<String> {
    let document = program.served("/api/openapi.json")?;
    let document: Value = serde_json::from_str(&document).context("the OpenAPI document")?;
    written(&document)
}

fn written(document: &Value) -> Result<String> {
    let routes = routes(document)?;
    let common = common(&routes);
    let mut page = format!("# REST\n\n{GENERATED}\n\n{INTRODUCTION}");
    page.push_str("\n## Refusals\n\nAny route may answer with:\n\n");
    page.push_str("| status | meaning |\n|---|---|\n");
    for (status, meaning) in &common {
        writeln!(page, "| {status} | {} |", cell(meaning))?;
    }
    let tags: BTreeSet<&str> = routes.iter().map(|route| route.tag).collect();
    for tag in tags {
        write!(page, "\n## Routes: {}\n", text(tag))?;
        for route in routes.iter().filter(|route| route.tag == tag) {
            add_route(route, &common, &mut page)?;
        }
    }
    page.push_str("\n## Bodies\n");
    let schemas = &document["components"]["schemas"];
    let names: BTreeSet<&String> = schemas
        .as_object()
        .into_iter()
        .flatten()
        .map(|(n, _)| n)
        .collect();
    for name in names {
        add_schema(name, &schemas[name.as_str()], &mut page)?;
    }
    Ok(closed(&page))
}

struct Route<'a> {
    method: &'static str,
    path: &'a str,
    tag: &'a str,
    operation: &'a Value,
}

fn routes(document: &Value) -> Result<Vec<Route<'_>>> {
    let paths = document["paths"].as_object().context("paths")?;
    let names: BTreeSet<&String> = paths.keys().collect();
    let mut routes = Vec::new();
    for path in names {
        for method in METHODS {
            if let Some(operation) = paths[path].get(method) {
                let tag = operation["tags"][0]
                    .as_str()
                    .context("the tag of a route")?;
                routes.push(Route {
                    method,
                    path,
                    tag,
                    operation,
                });
            }
        }
    }
    Ok(routes)
}

/// The refusals that several routes share, by their status, each with its most frequent meaning.
fn common<'a>(routes: &[Route<'a>]) -> BTreeMap<&'a str, &'a str> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for route in routes {
        for (status, meaning, _) in answers(route.operation) {
            if !status.starts_with('2') {
                *counts.entry((status, meaning)).or_default() += 1;
            }
        }
    }
    let mut common: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for ((status, meaning), count) in counts {
        let known = common.get(status).is_some_and(|(most, _)| *most >= count);
        if count >= COMMON && !known {
            common.insert(status, (count, meaning));
        }
    }
    let pairs = common.into_iter();
    pairs
        .map(|(status, (_, meaning))| (status, meaning))
        .collect()
}

/// Status, meaning and content of each answer, in the order of the status.
fn answers(operation: &Value) -> Vec<(&str, &str, &Value)> {
    let answers = operation["responses"].as_object().into_iter().flatten();
    let mut answers: Vec<_> = answers
        .map(|(status, answer)| {
            let meaning = answer["description"].as_str().unwrap_or_default();
            (status.as_str(), meaning, &answer["content"])
        })
        .collect();
    answers.sort_unstable_by_key(|(status, ..)| *status);
    answers
}

fn add_route(route: &Route<'_>, common: &BTreeMap<&str, &str>, page: &mut String) -> Result<()> {
    let operation = route.operation;
    let title = code(&format!("{} {}", route.method.to_uppercase(), route.path));
    let summary = operation["summary"].as_str().unwrap_or_default();
    write!(page, "\n### {title}\n\n{}\n", text(summary))?;
    if let Some(more) = operation["description"].as_str() {
        write!(page, "\n{}\n", text(more))?;
    }
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters.filter(|parameters| !parameters.is_empty()) {
        page.push_str("\n| parameter | in | type | required | meaning |\n|---|---|---|---|---|\n");
        for parameter in parameters {
            let field = |name: &str| parameter[name].as_str().unwrap_or_default();
            let must = if parameter["required"] == true {
                "yes"
            } else {
                ""
            };
            writeln!(
                page,
                "| {} | {} | {} | {must} | {} |",
                code(field("name")),
                cell(field("in")),
                schema::type_of(&parameter["schema"], &linked),
                cell(field("description"))
            )?;
        }
    }
    let body = &operation["requestBody"];
    if !body.is_null() {
        let about = text(body["description"].as_str().unwrap_or_default());
        write!(page, "\nBody: {about} {}\n", content(&body["content"]))?;
    }
    page.push_str("\n| status | meaning | body |\n|---|---|---|\n");
    for (status, meaning, body) in answers(operation) {
        if common.get(status) != Some(&meaning) {
            writeln!(page, "| {status} | {} | {} |", cell(meaning), content(body))?;
        }
    }
    Ok(())
}

/// The media types of a body, with what they hold.
fn content(content: &Value) -> String {
    let types: BTreeMap<&String, &Value> = content.as_object().into_iter().flatten().collect();
    let types = types.into_iter().map(|(media, body)| {
        let held = schema::type_of(&body["schema"], &linked);
        match held.as_str() {
            "anything" | "string" => code(media),
            held => format!("{}: {held}", code(media)),
        }
    });
    types.collect::<Vec<_>>().join(", ")
}

fn add_schema(name: &str, of: &Value, page: &mut String) -> Result<()> {
    write!(page, "\n### {}\n", code(name))?;
    if let Some(about) = of["description"].as_str() {
        write!(page, "\n{}\n", text(about))?;
    }
    let rows = schema::rows(of, &linked);
    if rows.is_empty() {
        write!(page, "\nType: {}.\n", schema::type_of(of, &linked))?;
    } else {
        write!(page, "\n{}{rows}", schema::HEAD)?;
    }
    Ok(())
}

/// A body that is described on the same page.
fn linked(name: &str) -> String {
    format!("[{}](#{})", code(name), name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_route_says_what_it_takes_and_what_is_its_own_to_answer() {
        let refusal = json!({"description": "Too often."});
        let route = |own: &str| {
            json!({"tags": ["things"], "summary": own, "responses":
            {"200": {"description": own, "content": {"application/json":
                {"schema": {"$ref": "#/components/schemas/Thing"}}}}, "429": refusal}})
        };
        let paths: Value = ["a", "b", "c", "d", "{id}"]
            .iter()
            .map(|name| (format!("/{name}"), json!({"get": route(name)})))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let schemas = json!({"Thing": {"properties": {"id": {"type": "string"}}}});
        let document = json!({"paths": paths, "components": {"schemas": schemas}});
        let page = written(&document).unwrap();
        assert_eq!(page.matches("| 429 | Too often. |").count(), 1, "{page}");
        let route = "### `GET /{id}`\n\n{id}\n\n| status | meaning | body |\n|---|---|---|\n\
                     | 200 | {id} | `application/json`: [`Thing`](#thing) |\n";
        assert!(page.contains(route), "{page}");
        assert!(page.contains("### `Thing`\n"), "{page}");
    }
}
