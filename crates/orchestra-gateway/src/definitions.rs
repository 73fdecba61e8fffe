//! Definitions of tools, prompts and resources that a server sends: preserved verbatim, and
//! repaired where a client would refuse the whole list for the sake of one member.

use std::collections::HashSet;

use orchestra_hub::{
    Annotations, Cost, ListKind, LongWork, PromptArgument, PromptDescriptor, ResourceDescriptor,
    TemplateDescriptor, ToolDescriptor,
};
use orchestra_mcp::{
    client::{
        http::{InvalidAnnotation, MirroredParams},
        is_hidden, quoted,
    },
    repair::{Context, Repairable, Repaired, repair},
};
use orchestra_wire::{RawJson, Rope, write};
use serde::Deserialize;

use crate::{
    config::{ServerConfig, Transport},
    schema,
};

/// A larger definition is left out.
const MAX_BYTES: usize = 256 * 1024;

/// A longer name is left out.
const MAX_NAME_BYTES: usize = 1_024;

/// Definitions of one list of a server that are offered. One server does not use up what a reply to
/// a client has room for.
const MAX_LISTED: usize = 2_000;

/// Bytes of one list of a server that are offered.
const MAX_LISTED_BYTES: usize = 1024 * 1024;

/// A tool of a server.
#[derive(Debug, Clone)]
pub(crate) struct ToolDefinition {
    /// Its name at the server.
    pub(crate) name: String,
    /// What the hub is told; its name is the server's own here.
    pub(crate) descriptor: ToolDescriptor,
    /// Whether a server of 2025-11-25 wants its calls as tasks.
    pub(crate) wants_task: bool,
    /// The arguments that the server wants in headers as well, or the rule that its definition breaks.
    pub(crate) mirrored: Result<MirroredParams, InvalidAnnotation>,
}

/// A definition as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Definition<T> {
    /// What the hub lists.
    pub(crate) item: T,
    /// What was changed for clients to accept it.
    pub(crate) repairs: Vec<String>,
}

/// The hints, in the form that a repaired definition has them.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAnnotations {
    read_only_hint: Option<bool>,
    destructive_hint: Option<bool>,
    idempotent_hint: Option<bool>,
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

/// Reads a tool; `Err` says why it is left out.
pub(crate) fn tool(item: &RawJson, group: &str) -> Result<Definition<ToolDefinition>, String> {
    let (name, Repaired { value, repairs }) = read(Repairable::Tool, item, "name", "")?;
    let hints = value.member("annotations");
    let hints: RawAnnotations = hints.and_then(|raw| raw.parse().ok()).unwrap_or_default();
    let execution = value.member("execution");
    let execution = execution.and_then(|raw| raw.parse::<Execution>().ok());
    let support = execution.and_then(|execution| execution.task_support);
    let descriptor = ToolDescriptor {
        name: name.clone(),
        title: text(&value, "title"),
        description: text(&value, "description"),
        input_schema: value
            .member("inputSchema")
            .unwrap_or_else(RawJson::empty_object),
        lean_schema: None,
        output_schema: value.member("outputSchema"),
        annotations: Annotations {
            read_only: hints.read_only_hint,
            destructive: hints.destructive_hint,
            idempotent: hints.idempotent_hint,
            open_world: hints.open_world_hint,
        },
        group: group.to_owned().into(),
        cost: Cost::Quick,
        long: match (lasts(item).as_deref(), support.as_deref()) {
            (Some("must"), _) => LongWork::MustLater,
            (Some(_), _) | (None, Some("optional" | "required")) => LongWork::Later,
            (None, _) => LongWork::Never,
        },
        definition: Some(value),
    };
    let item = ToolDefinition {
        name,
        descriptor,
        wants_task: support.as_deref() == Some("required"),
        mirrored: match item.member("inputSchema") {
            Some(schema) => MirroredParams::of(&schema),
            None => Ok(MirroredParams::default()),
        },
    };
    Ok(Definition { item, repairs })
}

/// Reads an item whose key is a text under `key`, and makes it one that clients accept. Relative
/// URIs are put behind `base`.
fn read(
    kind: Repairable,
    item: &RawJson,
    key: &str,
    base: &str,
) -> Result<(String, Repaired), String> {
    named(item, key)?;
    let base = Some(base).filter(|base| !base.is_empty());
    let repaired = repair(kind, item, Context { uri: None, base });
    let repaired = repaired.ok_or_else(|| "clients cannot parse it".to_owned())?;
    // A URI may be another by now.
    let name = named(&repaired.value, key)?;
    if key == "name" && name.contains(is_hidden) {
        let name = quoted(&name);
        return Err(format!(
            "its name {name} has invisible or control characters, and could imitate another name; rename it in the server"
        ));
    }
    Ok((name, repaired))
}

/// What another Orchestra says in the session era of how long calls of a tool may last.
fn lasts(item: &RawJson) -> Option<String> {
    let said = item.member("_meta")?.member(LongWork::META)?;
    said.parse::<String>().ok()
}

/// Reads a prompt; `Err` says why it is left out.
pub(crate) fn prompt(item: &RawJson) -> Result<Definition<PromptDescriptor>, String> {
    let (name, Repaired { value, repairs }) = read(Repairable::Prompt, item, "name", "")?;
    let arguments = value.member("arguments");
    let arguments = arguments.and_then(|raw| raw.parse::<Vec<RawArgument>>().ok());
    let arguments = arguments
        .into_iter()
        .flatten()
        .map(|argument| PromptArgument {
            name: argument.name,
            description: argument.description,
            required: argument.required,
        });
    let item = PromptDescriptor {
        title: text(&value, "title"),
        description: text(&value, "description"),
        arguments: arguments.collect(),
        definition: Some(value),
        name,
    };
    Ok(Definition { item, repairs })
}

/// Reads a resource; `Err` says why it is left out.
pub(crate) fn resource(
    item: &RawJson,
    base: &str,
) -> Result<Definition<ResourceDescriptor>, String> {
    let (uri, Repaired { value, repairs }) = read(Repairable::Resource, item, "uri", base)?;
    let item = ResourceDescriptor {
        name: text(&value, "name").unwrap_or_else(|| uri.clone()),
        title: text(&value, "title"),
        description: text(&value, "description"),
        mime_type: text(&value, "mimeType"),
        definition: Some(value),
        uri,
    };
    Ok(Definition { item, repairs })
}

/// Reads a resource template; `Err` says why it is left out.
pub(crate) fn template(
    item: &RawJson,
    base: &str,
) -> Result<Definition<TemplateDescriptor>, String> {
    let (uri_template, Repaired { value, repairs }) =
        read(Repairable::Template, item, "uriTemplate", base)?;
    let item = TemplateDescriptor {
        name: text(&value, "name").unwrap_or_else(|| uri_template.clone()),
        title: text(&value, "title"),
        description: text(&value, "description"),
        mime_type: text(&value, "mimeType"),
        definition: Some(value),
        uri_template,
    };
    Ok(Definition { item, repairs })
}

/// Definitions of one list, as clients are offered them; for commands that show lists.
#[derive(Debug, Default)]
pub struct Reviewed<'i> {
    /// The definitions that are not left out, as their server sent them.
    pub items: Vec<&'i RawJson>,
    /// One line for each definition that is left out, and for each repair.
    pub notes: Vec<String>,
    /// One line for each schema of a tool that is not enforced.
    pub unenforced: Vec<String>,
    /// Why the end of the list is left out.
    pub surplus: Option<String>,
}

/// Splits a list of a server after the definitions that are within its budget. Another orchestrator
/// has many servers, each with a budget of its own, and plugins are bounded by their protocol.
pub(crate) fn within_budget<'i>(
    config: &ServerConfig,
    items: &'i [RawJson],
) -> (&'i [RawJson], Option<String>) {
    if matches!(
        config.transport,
        Transport::Orchestrator(_) | Transport::Plugin(_)
    ) {
        return (items, None);
    }
    let mut bytes = 0;
    let fits = |item: &&RawJson| {
        // One that is too large is left out for its own sake.
        let size = item.as_bytes().len();
        bytes += if size > MAX_BYTES { 0 } else { size };
        bytes <= MAX_LISTED_BYTES
    };
    let count = items.iter().take(MAX_LISTED).take_while(fits).count();
    let surplus = (count < items.len()).then(|| {
        format!(
            "the last {} of its {} definitions are omitted: a list of a server can have {MAX_LISTED} definitions and {MAX_LISTED_BYTES} bytes",
            items.len() - count,
            items.len(),
        )
    });
    (&items[..count], surplus)
}

/// The definitions of a list that may be used, and the reason that others are omitted. Memory and files hold no others.
pub(crate) fn usable(
    config: &ServerConfig,
    mut items: Vec<RawJson>,
) -> (Vec<RawJson>, Option<String>) {
    let (within, surplus) = within_budget(config, &items);
    let count = within.len();
    items.truncate(count);
    items.retain(|item| item.as_bytes().len() <= MAX_BYTES);
    let large = match count - items.len() {
        0 => None,
        large => Some(format!(
            "omitted definitions of more than {MAX_BYTES} bytes: {large}"
        )),
    };
    let reasons: Vec<String> = surplus.into_iter().chain(large).collect();
    (items, (!reasons.is_empty()).then(|| reasons.join("; ")))
}

/// Reviews the definitions of one list of a server.
#[must_use]
pub fn review<'i>(config: &ServerConfig, kind: ListKind, items: &'i [RawJson]) -> Reviewed<'i> {
    let (items, surplus) = within_budget(config, items);
    Reviewed {
        surplus,
        ..review_all(kind, items)
    }
}

fn review_all(kind: ListKind, items: &[RawJson]) -> Reviewed<'_> {
    let (form, key) = match kind {
        ListKind::Tools => (Repairable::Tool, "name"),
        ListKind::Prompts => (Repairable::Prompt, "name"),
        ListKind::Resources => (Repairable::Resource, "uri"),
        ListKind::Templates => (Repairable::Template, "uriTemplate"),
    };
    let mut seen = HashSet::new();
    let mut reviewed = Reviewed::default();
    for (item, number) in items.iter().zip(1..) {
        let left_out = |why: &str| format!("number {number} of the list was omitted: {why}");
        let notes = match read(form, item, key, "") {
            Ok((name, _)) if key == "name" && !seen.insert(name.clone()) => {
                let name = orchestra_wire::shown(&name);
                vec![left_out(&format!("an earlier one has the name {name}"))]
            }
            Ok((name, Repaired { value, repairs })) => {
                reviewed.items.push(item);
                if form == Repairable::Tool {
                    reviewed.unenforced.extend(unenforced(&name, &value));
                }
                lines(&name, &repairs)
            }
            Err(why) => vec![left_out(&why)],
        };
        reviewed.notes.extend(notes);
    }
    reviewed
}

/// Schemas of a tool that are not enforced, under its name.
fn unenforced(name: &str, tool: &RawJson) -> Vec<String> {
    let schemas = ["inputSchema", "outputSchema"].into_iter();
    let reasons = schemas.filter_map(|key| {
        let why = schema::unenforced(&tool.member(key)?)?;
        Some(format!("the {key} is not enforced: {why}"))
    });
    lines(name, &reasons.collect::<Vec<_>>())
}

/// The repairs of one definition, under its name.
pub(crate) fn lines(name: &str, repairs: &[String]) -> Vec<String> {
    let name = orchestra_wire::shown(name);
    let lines = repairs.iter().map(|repair| format!("{name}: {repair}"));
    lines.collect()
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
    // The server is called by it, so that it has to be a text as it is.
    let name = item
        .member(key)
        .and_then(|name| name.parse::<String>().ok());
    match name {
        None => Err(format!("it has no {key}")),
        Some(name) if name.is_empty() => Err(format!("its {key} is empty")),
        Some(name) if name.len() > MAX_NAME_BYTES => {
            Err(format!("its {key} is longer than {MAX_NAME_BYTES} bytes"))
        }
        Some(name) => Ok(name),
    }
}

fn text(item: &RawJson, key: &str) -> Option<String> {
    item.member(key)?.parse_lossy().ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &'static str) -> RawJson {
        RawJson::checked(text.as_bytes().into()).unwrap()
    }

    fn definition(text: &'static str) -> String {
        let tool = tool(&json(text), "s").unwrap().item;
        tool.descriptor.definition.unwrap().as_str().to_owned()
    }

    #[test]
    fn a_valid_definition_stays_as_it_came() {
        let text = r#"{"name":"t","inputSchema":{"type":"object"},"x":1.0,"annotations":{"readOnlyHint":true}}"#;
        let Definition { item, repairs } = tool(&json(text), "s").unwrap();
        assert_eq!(item.descriptor.definition.unwrap().as_str(), text);
        assert_eq!(item.descriptor.annotations.read_only, Some(true));
        assert_eq!(repairs, Vec::<String>::new());
    }

    #[test]
    fn a_member_that_clients_refuse_is_repaired_and_reported() {
        assert_eq!(
            definition(r#"{"name":"t","title":7,"icons":{},"description":"d"}"#),
            r#"{"name":"t","description":"d","inputSchema":{"type":"object"}}"#
        );
        assert_eq!(
            definition(r#"{"name":"t","inputSchema":{"properties":{}},"outputSchema":true}"#),
            r#"{"name":"t","inputSchema":{"type":"object","properties":{}}}"#
        );
        let odd = r#"{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"true","idempotentHint":1}}"#;
        let Definition { item, repairs } = tool(&json(odd), "s").unwrap();
        assert_eq!(item.descriptor.annotations, Annotations::default());
        assert_eq!(repairs.len(), 2, "{repairs:?}");
        let items = [json(odd), json("{}"), json(r#"{"name":"t"}"#)];
        let reviewed = review_all(ListKind::Tools, &items);
        assert_eq!(reviewed.items, [&items[0]]);
        assert_eq!(
            reviewed.notes,
            [
                "t: annotations.readOnlyHint is not true or false: dropped",
                "t: annotations.idempotentHint is not true or false: dropped",
                "number 2 of the list was omitted: it has no name",
                "number 3 of the list was omitted: an earlier one has the name t"
            ]
        );
    }

    #[test]
    fn a_relative_uri_gets_the_prefix_of_its_server() {
        let read = resource(&json(r#"{"uri":"notes","size":"1"}"#), "mcp+s:").unwrap();
        assert_eq!(read.item.uri, "mcp+s:notes");
        assert_eq!(read.item.name, "notes");
        let read = resource(&json(r#"{"uri":"a:b","name":"n"}"#), "mcp+s:").unwrap();
        assert_eq!((&*read.item.uri, read.repairs.len()), ("a:b", 0));
        let read = template(&json(r#"{"uriTemplate":"notes/{id}"}"#), "mcp+s:").unwrap();
        assert_eq!(read.item.uri_template, "mcp+s:notes/{id}");
    }

    #[test]
    fn a_wrong_annotation_for_headers_is_dropped_but_remembered() {
        let odd = r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":7}}}}"#;
        let tool = tool(&json(odd), "s").unwrap().item;
        let schema = tool.descriptor.input_schema.as_str().to_owned();
        assert!(!schema.contains("x-mcp-header"), "{schema}");
        // Over HTTP the server may require the header, so the tool is not offered.
        assert!(tool.mirrored.is_err());
    }

    #[test]
    fn a_definition_without_identity_is_left_out() {
        for (text, why) in [
            ("{}", "it has no name"),
            ("7", "it has no name"),
            (r#"{"name":7}"#, "it has no name"),
            (r#"{"name":""}"#, "its name is empty"),
        ] {
            assert_eq!(tool(&json(text), "s").unwrap_err(), why);
        }
        assert_eq!(resource(&json("{}"), "").unwrap_err(), "it has no uri");
        assert_eq!(
            template(&json("{}"), "mcp+s:").unwrap_err(),
            "it has no uriTemplate"
        );
        let prompt = prompt(&json(
            r#"{"name":"p","arguments":[{"name":"a","required":"true"},{"name":"b","required":"yes"}]}"#,
        ));
        let arguments = prompt.unwrap().item.arguments;
        assert_eq!(
            arguments
                .iter()
                .map(|argument| argument.required)
                .collect::<Vec<_>>(),
            [true, false]
        );
    }
}
