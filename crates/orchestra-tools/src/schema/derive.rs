//! Derivation of the schemas in `generated.rs` from argument and result structs: inlined and
//! stripped, because a model pays for every word of them. What they mean is left to the structs.

mod shared;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

/// What marks an argument that is seldom needed, where it is declared:
/// `#[schemars(extend("x-seldom" = true))]`. Toolsets that are short for a model's sake do not tell
/// of it; it is taken all the same. No mark leaves this module.
const SELDOM: &str = "x-seldom";

/// What marks a place in which `null` says something.
const NULL: &str = "x-null";

/// What marks what a model is told of an argument where comments are left out.
const SAY: &str = "x-say";

/// The schemas of a tool's arguments.
pub(crate) struct Input {
    whole: String,
    lean: Option<String>,
}

/// Schemas of one tool, derived from its structs.
pub(crate) struct Derived {
    pub(crate) input: Input,
    pub(crate) output: String,
}

/// Derives the schemas of a tool.
pub(crate) fn plain<Args: JsonSchema, Out: JsonSchema>() -> Derived {
    Derived {
        input: input::<Args>(),
        output: output::<Out>(),
    }
}

/// Derives the schemas of a tool about plans, which answers either `Out` or `Failure`.
pub(crate) fn shared<Args: JsonSchema, Out: JsonSchema, Failure: JsonSchema>() -> Derived {
    Derived {
        input: shared_input::<Args>(),
        output: either::<Out, Failure>(),
    }
}

/// The schemas of a tool's arguments. The comments of its fields are the descriptions a model sees.
fn input<T: JsonSchema>() -> Input {
    let marked = generate::<T>(SchemaSettings::draft2020_12().for_deserialize());
    let lean = without_seldom(&marked);
    Input {
        whole: input_text(marked),
        lean: lean.map(input_text),
    }
}

/// The schemas of a tool's arguments, in which what stands in several places is written once. Comments are
/// left out; what a model is told of an argument is declared by
/// `#[schemars(extend("x-say" = "…"))]`.
fn shared_input<T: JsonSchema>() -> Input {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = generate_with::<T>(settings, false);
    let mut defs = schema.get_mut("$defs").map(Value::take);
    strip(&mut schema, Descriptions::Drop);
    let all = defs.as_mut().and_then(Value::as_object_mut);
    all.into_iter()
        .flat_map(Map::values_mut)
        .for_each(|definition| strip(definition, Descriptions::Drop));
    if let (Some(defs), Some(fields)) = (defs, schema.as_object_mut()) {
        fields.insert("$defs".to_owned(), defs);
    }
    shared::share(&mut schema);
    shared::shorten(&mut schema);
    shared::define(&mut schema);
    Input {
        whole: input_of(schema),
        lean: None,
    }
}

fn without_seldom(marked: &Value) -> Option<Value> {
    let mut lean = marked.clone();
    let fields = lean.as_object_mut()?;
    let arguments = fields.get_mut("properties")?.as_object_mut()?;
    let count = arguments.len();
    arguments.retain(|_, argument| argument.get(SELDOM).is_none());
    if arguments.len() == count {
        return None;
    }
    fields.retain(|name, _| name != "additionalProperties");
    Some(lean)
}

fn input_text(mut schema: Value) -> String {
    strip(&mut schema, Descriptions::Keep);
    input_of(schema)
}

fn input_of(mut schema: Value) -> String {
    if let Value::Object(fields) = &mut schema {
        fields.remove("description");
        // Some clients take an object schema without it for broken.
        fields
            .entry("properties")
            .or_insert_with(|| Value::Object(Map::new()));
    }
    compact(&schema)
}

/// The schema of a tool's structured result.
pub(crate) fn output<T: JsonSchema>() -> String {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_serialize());
    strip(&mut schema, Descriptions::Drop);
    compact(&schema)
}

/// The schema of a structured result that is either that of a tool that did its work or of one that
/// did not.
fn either<T: JsonSchema, F: JsonSchema>() -> String {
    let of = |mut schema: Value| {
        strip(&mut schema, Descriptions::Drop);
        schema
    };
    let settings = || SchemaSettings::draft2020_12().for_serialize();
    let (done, failed) = (of(generate::<T>(settings())), of(generate::<F>(settings())));
    compact(&serde_json::json!({"type": "object", "anyOf": [done, failed]}))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Descriptions {
    Keep,
    Drop,
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    generate_with::<T>(settings, true)
}

fn generate_with<T: JsonSchema>(settings: SchemaSettings, inlined: bool) -> Value {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = inlined;
        settings.meta_schema = None;
    });
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

fn compact(schema: &Value) -> String {
    schema.to_string()
}

/// Drops what says nothing to a model: titles, number formats, defaults, our own marks, and the
/// `null` that stands for an argument that is left out.
fn strip(schema: &mut Value, descriptions: Descriptions) {
    match schema {
        Value::Object(fields) => strip_object(fields, descriptions),
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, descriptions)),
        _ => {}
    }
}

fn strip_object(fields: &mut Map<String, Value>, descriptions: Descriptions) {
    for name in ["title", "format", "default", "$schema", "$defs", SELDOM] {
        fields.remove(name);
    }
    if descriptions == Descriptions::Drop {
        fields.remove("description");
    }
    if let Some(said) = fields.remove(SAY) {
        fields.insert("description".to_owned(), said);
    }
    if fields.get("minimum").and_then(Value::as_f64) == Some(0.0) {
        fields.remove("minimum");
    }
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if fields.remove(NULL).is_none() {
        unwrap_nullable(fields);
    }
    for (name, value) in fields.iter_mut() {
        // The keys of `properties` are names of arguments, whatever they are called.
        match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties
                    .values_mut()
                    .for_each(|property| strip(property, descriptions));
            }
            ("enum" | "required" | "type" | "const", _) => {}
            (_, value) => strip(value, descriptions),
        }
    }
}

/// `anyOf: [X, null]` becomes X.
fn unwrap_nullable(fields: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = fields.get_mut("anyOf") else {
        return;
    };
    branches.retain(|branch| branch.get("type").is_none_or(|name| name != "null"));
    if let [Value::Object(only)] = branches.as_slice() {
        let only = only.clone();
        fields.remove("anyOf");
        fields.extend(only);
    }
}

mod tests {
    use std::{fmt::Write as _, fs, path::Path};

    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::{input, output};
    use crate::groups;

    const HEADER: &str = "\
// @generated from the argument and result structs of the tools: do not edit.
//! The schemas of all tools, by name. `cargo xtask codegen` rewrites this file after a struct has
//! changed.

use super::Schemas;

pub(super) const ALL: &[Schemas] = &[
";

    /// Schemas are checked in, so that a start derives none.
    #[test]
    fn generated_schemas_match_the_structs() {
        let mut tools = groups::all();
        orchestra_sort::sort_by(&mut tools, |a, b| a.descriptor.name.cmp(&b.descriptor.name));
        let mut wanted = HEADER.to_owned();
        for tool in &tools {
            let derived = (tool.derived)();
            let literal = |text: &str| format!("r##\"{text}\"##");
            let lean = derived.input.lean.as_deref().map(literal);
            let lean = lean.map_or_else(
                || "None".to_owned(),
                |lean| format!("Some(\n            {lean},\n        )"),
            );
            writeln!(
                wanted,
                "    Schemas {{\n        tool: \"{}\",\n        input: {},\n        lean: {lean},\n        output: {},\n    }},",
                tool.descriptor.name,
                literal(&derived.input.whole),
                literal(&derived.output),
            )
            .unwrap();
        }
        wanted.push_str("];\n");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema/generated.rs");
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            // direct: it is a file of this crate's source.
            fs::write(&path, &wanted).expect("the file can be written");
        }
        let found = fs::read_to_string(&path).expect("the file can be read");
        assert!(
            found == wanted,
            "src/schema/generated.rs differs from the structs: run `cargo xtask codegen`"
        );
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Arguments {
        title: String,
        /// Seen by the model.
        count: Option<u32>,
        inner: Option<Inner>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Inner {
        on: bool,
    }

    #[test]
    fn schemas_are_inlined_and_bare() {
        assert_eq!(
            input::<Arguments>().whole,
            r#"{"type":"object","additionalProperties":false,"properties":{"title":{"type":"string"},"count":{"type":"integer","description":"Seen by the model."},"inner":{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}},"required":["title"]}"#
        );
        assert!(input::<Arguments>().lean.is_none());
        assert!(!output::<Arguments>().contains("description"));
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Marked {
        title: String,
        #[schemars(extend("x-seldom" = true))]
        inner: Option<Inner>,
        count: Option<u32>,
    }

    #[test]
    fn what_is_seldom_needed_is_left_out_of_the_lean_schema_which_is_open() {
        let schemas = input::<Marked>();
        assert_eq!(
            schemas.whole,
            r#"{"type":"object","additionalProperties":false,"properties":{"title":{"type":"string"},"inner":{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]},"count":{"type":"integer"}},"required":["title"]}"#
        );
        assert_eq!(
            schemas.lean.unwrap(),
            r#"{"type":"object","properties":{"title":{"type":"string"},"count":{"type":"integer"}},"required":["title"]}"#
        );
    }
}
