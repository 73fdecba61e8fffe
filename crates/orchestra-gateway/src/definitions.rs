//! What a server says of its tools, prompts and resources: read leniently, kept verbatim, and
//! mended where a client would refuse the whole list for the sake of one item.

use std::collections::HashSet;

use orchestra_hub::{
    Annotations, Cost, LongWork, PromptArgument, PromptDescriptor, ResourceDescriptor,
    TemplateDescriptor, ToolDescriptor,
};
use orchestra_wire::{RawJson, Rope, write};
use serde::Deserialize;

/// A larger definition is left out.
const MAX_BYTES: usize = 256 * 1024;

/// A longer name is left out.
const MAX_NAME_BYTES: usize = 1_024;

/// A tool of a server.
#[derive(Debug, Clone)]
pub(crate) struct ToolDefinition {
    /// Its name at the server.
    pub(crate) name: String,
    /// What the hub is told; its name is the server's own here.
    pub(crate) descriptor: ToolDescriptor,
    /// Whether a server of 2025-11-25 wants its calls as tasks.
    pub(crate) wants_task: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAnnotations {
    #[serde(default, deserialize_with = "lenient")]
    read_only_hint: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    destructive_hint: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    idempotent_hint: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    open_world_hint: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Execution {
    task_support: Option<String>,
}

#[derive(Deserialize)]
struct RawArgument {
    name: String,
    description: Option<String>,
    #[serde(default)]
    required: bool,
}

/// What a member has to be, where others would be refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Object,
    Array,
}

/// Reads a tool; `Err` says why it is left out.
pub(crate) fn tool(item: &RawJson, group: &str) -> Result<ToolDefinition, String> {
    let name = named(item, "name")?;
    let (definition, input_schema) = mended_tool(item);
    let hints = item.member("annotations").and_then(|raw| raw.parse().ok());
    let hints = hints.map_or_else(Annotations::default, |hints: RawAnnotations| Annotations {
        read_only: hints.read_only_hint,
        destructive: hints.destructive_hint,
        idempotent: hints.idempotent_hint,
        open_world: hints.open_world_hint,
    });
    let execution = item.member("execution");
    let execution = execution.and_then(|raw| raw.parse::<Execution>().ok());
    let support = execution.and_then(|execution| execution.task_support);
    Ok(ToolDefinition {
        descriptor: ToolDescriptor {
            name: name.clone(),
            title: text(item, "title"),
            description: text(item, "description"),
            input_schema,
            lean_schema: None,
            output_schema: item.member("outputSchema").filter(is_object),
            annotations: hints,
            group: group.to_owned().into(),
            cost: Cost::Quick,
            long: match (lasts(item).as_deref(), support.as_deref()) {
                (Some("must"), _) => LongWork::MustLater,
                (Some(_), _) | (None, Some("optional" | "required")) => LongWork::Later,
                (None, _) => LongWork::Never,
            },
            definition: Some(definition),
        },
        name,
        wants_task: support.as_deref() == Some("required"),
    })
}

/// What another Orchestra says in the session era of how long calls of a tool may last.
fn lasts(item: &RawJson) -> Option<String> {
    let said = item.member("_meta")?.member(LongWork::META)?;
    said.parse::<String>().ok()
}

/// Reads a prompt; `Err` says why it is left out.
pub(crate) fn prompt(item: &RawJson) -> Result<PromptDescriptor, String> {
    let name = named(item, "name")?;
    let arguments = item.member("arguments");
    let arguments = arguments.and_then(|raw| raw.parse::<Vec<RawArgument>>().ok());
    let arguments = arguments
        .into_iter()
        .flatten()
        .map(|argument| PromptArgument {
            name: argument.name,
            description: argument.description,
            required: argument.required,
        });
    Ok(PromptDescriptor {
        title: text(item, "title"),
        description: text(item, "description"),
        arguments: arguments.collect(),
        definition: Some(mended(item, &[("arguments", Form::Array)])),
        name,
    })
}

/// Reads a resource; `Err` says why it is left out.
pub(crate) fn resource(item: &RawJson) -> Result<ResourceDescriptor, String> {
    let uri = named(item, "uri")?;
    Ok(ResourceDescriptor {
        name: text(item, "name").unwrap_or_else(|| uri.clone()),
        title: text(item, "title"),
        description: text(item, "description"),
        mime_type: text(item, "mimeType"),
        definition: Some(mended(item, &[("mimeType", Form::Text)])),
        uri,
    })
}

/// Reads a resource template; `Err` says why it is left out.
pub(crate) fn template(item: &RawJson) -> Result<TemplateDescriptor, String> {
    let uri_template = named(item, "uriTemplate")?;
    Ok(TemplateDescriptor {
        name: text(item, "name").unwrap_or_else(|| uri_template.clone()),
        title: text(item, "title"),
        description: text(item, "description"),
        mime_type: text(item, "mimeType"),
        definition: Some(mended(item, &[("mimeType", Form::Text)])),
        uri_template,
    })
}

/// The first of each name; what has none stays, for others to complain of. Which of two definitions
/// of one name was approved, nobody could say.
pub(crate) fn once_each(mut items: Vec<RawJson>) -> Vec<RawJson> {
    let mut seen = HashSet::new();
    items.retain(|item| match named(item, "name") {
        Ok(name) => seen.insert(name),
        Err(_) => true,
    });
    items
}

/// The name of an item under a key.
pub(crate) fn named(item: &RawJson, key: &str) -> Result<String, String> {
    if item.as_bytes().len() > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    match text(item, key) {
        None => Err(format!("it has no {key}")),
        Some(name) if name.is_empty() => Err(format!("its {key} is empty")),
        Some(name) if name.len() > MAX_NAME_BYTES => {
            Err(format!("its {key} is longer than {MAX_NAME_BYTES} bytes"))
        }
        Some(name) => Ok(name),
    }
}

fn text(item: &RawJson, key: &str) -> Option<String> {
    item.member(key)?.parse().ok()
}

fn is_object(raw: &RawJson) -> bool {
    raw.as_bytes().starts_with(b"{")
}

/// The definition of a tool as clients take it, and its schema of arguments. Clients refuse a list
/// in which one `inputSchema` is not of type `object`.
fn mended_tool(item: &RawJson) -> (RawJson, RawJson) {
    const FORMS: [(&str, Form); 3] = [
        ("outputSchema", Form::Object),
        ("annotations", Form::Object),
        ("execution", Form::Object),
    ];
    let definition = mended(item, &FORMS);
    let schema = item.member("inputSchema").filter(is_object);
    let kind = schema.as_ref().and_then(|schema| schema.member("type"));
    if let Some(schema) = schema.clone()
        && kind.is_some_and(|kind| kind.as_str() == "\"object\"")
    {
        return (definition, schema);
    }
    let schema = rewritten(schema.as_ref(), "type", b"\"object\"");
    let definition = rewritten(Some(&definition), "inputSchema", schema.as_bytes());
    (definition, schema)
}

/// An object with another value of one member.
pub(crate) fn rewritten(object: Option<&RawJson>, key: &str, value: &[u8]) -> RawJson {
    let mut rope = Rope::new();
    rope.push_byte(b'{');
    write::string(&mut rope, key);
    rope.push_byte(b':');
    rope.push(value);
    let members = object.and_then(RawJson::members).into_iter().flatten();
    for member in members.filter(|member| member.key != key) {
        rope.push_byte(b',');
        write::string(&mut rope, &member.key);
        rope.push_byte(b':');
        write::raw(&mut rope, &member.value);
    }
    rope.push_byte(b'}');
    raw(rope)
}

/// JSON that was written here of JSON.
pub(crate) fn raw(rope: Rope) -> RawJson {
    raw_of(rope).unwrap_or_else(RawJson::empty_object)
}

/// The same; `None` where it is none.
pub(crate) fn raw_of(rope: Rope) -> Option<RawJson> {
    RawJson::checked(rope.into_vec().into()).ok()
}

/// A definition without members that have a form no client takes; the definition itself when there
/// are none.
fn mended(item: &RawJson, forms: &[(&str, Form)]) -> RawJson {
    const COMMON: [(&str, Form); 4] = [
        ("title", Form::Text),
        ("description", Form::Text),
        ("icons", Form::Array),
        ("_meta", Form::Object),
    ];
    let fits = |key: &str, value: &RawJson| {
        let form = COMMON.iter().chain(forms).find(|(name, _)| *name == key);
        form.is_none_or(|(_, form)| form.is_that_of(value))
    };
    let Some(mut members) = item.members() else {
        return item.clone();
    };
    if members.all(|member| fits(&member.key, &member.value)) {
        return item.clone();
    }
    let mut rope = Rope::new();
    let mut separator = b'{';
    let members = item.members().into_iter().flatten();
    for member in members.filter(|member| fits(&member.key, &member.value)) {
        rope.push_byte(std::mem::replace(&mut separator, b','));
        write::string(&mut rope, &member.key);
        rope.push_byte(b':');
        write::raw(&mut rope, &member.value);
    }
    rope.push(if separator == b'{' { b"{}" } else { b"}" });
    raw(rope)
}

impl Form {
    fn is_that_of(self, value: &RawJson) -> bool {
        let first = match self {
            Self::Text => b'"',
            Self::Object => b'{',
            Self::Array => b'[',
        };
        value.as_bytes().first() == Some(&first)
    }
}

/// A flag that is none where it has another form.
fn lenient<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_bool())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &'static str) -> RawJson {
        RawJson::checked(text.as_bytes().into()).unwrap()
    }

    fn definition(text: &'static str) -> String {
        let tool = tool(&json(text), "s").unwrap();
        tool.descriptor.definition.unwrap().as_str().to_owned()
    }

    #[test]
    fn a_good_definition_stays_as_it_came() {
        let text = r#"{"name":"t","inputSchema":{"type":"object"},"x":1.0,"annotations":{"readOnlyHint":true,"idempotentHint":1}}"#;
        let tool = tool(&json(text), "s").unwrap();
        assert_eq!(tool.descriptor.definition.unwrap().as_str(), text);
        assert_eq!(tool.descriptor.annotations.read_only, Some(true));
        assert_eq!(tool.descriptor.annotations.idempotent, None);
    }

    #[test]
    fn what_would_spoil_a_list_is_mended() {
        assert_eq!(
            definition(r#"{"name":"t","title":7,"icons":{},"description":"d"}"#),
            r#"{"inputSchema":{"type":"object"},"name":"t","description":"d"}"#
        );
        assert_eq!(
            definition(r#"{"name":"t","inputSchema":{"properties":{}},"outputSchema":true}"#),
            r#"{"inputSchema":{"type":"object","properties":{}},"name":"t"}"#
        );
        assert_eq!(
            definition(r#"{"name":"t","inputSchema":[]}"#),
            r#"{"inputSchema":{"type":"object"},"name":"t"}"#
        );
    }

    #[test]
    fn what_cannot_be_called_is_left_out() {
        for (text, why) in [
            ("{}", "it has no name"),
            ("7", "it has no name"),
            (r#"{"name":7}"#, "it has no name"),
            (r#"{"name":""}"#, "its name is empty"),
        ] {
            assert_eq!(tool(&json(text), "s").unwrap_err(), why);
        }
        assert_eq!(resource(&json("{}")).unwrap_err(), "it has no uri");
        assert_eq!(template(&json("{}")).unwrap_err(), "it has no uriTemplate");
        let prompt = prompt(&json(
            r#"{"name":"p","arguments":[{"name":"a","required":true}]}"#,
        ));
        assert!(prompt.unwrap().arguments[0].required);
    }
}
