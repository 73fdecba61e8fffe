//! Catalogs as the text that list methods answer, written once per catalog and revision.

use bytes::Bytes;
use orchestra_wire::{Era, MAX_REPLY_BYTES, Member, RawJson, Revision, Rope, write};

use crate::{
    Annotations, LongWork, PromptDescriptor, ResourceDescriptor, TemplateDescriptor, ToolDescriptor,
};

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
}

/// A list as JSON text: its items, separated by commas, without the brackets.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    text: Bytes,
    /// Where each item ends.
    ends: Vec<usize>,
}

impl ListKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// Its name in records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "templates",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// Bytes of a page; the rest of a reply is left for what is around it, and for the other answers of
/// a batch.
const MAX_PAGE_BYTES: usize = MAX_REPLY_BYTES / 2;

impl Listing {
    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text of at most `limit` items from `start` on, and where the next page starts. A page of
    /// more than one item fits into a reply.
    #[must_use]
    pub fn page(&self, start: usize, limit: usize) -> (Bytes, Option<usize>) {
        let end = start.saturating_add(limit).min(self.len());
        if start >= end {
            return (Bytes::new(), None);
        }
        let from = if start == 0 {
            0
        } else {
            self.ends[start - 1] + 1
        };
        let fits = self.ends[..end].partition_point(|end| end - from.min(*end) <= MAX_PAGE_BYTES);
        let end = fits.max(start + 1);
        (
            self.text.slice(from..self.ends[end - 1]),
            (end < self.len()).then_some(end),
        )
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &Bytes {
        &self.text
    }

    /// A list of items that are JSON text already.
    pub(crate) fn of_texts(items: &[Bytes]) -> Self {
        Self::of(items, Revision::NEWEST, |rope, item, _| rope.push(item))
    }

    pub(crate) fn of<'a, T: 'a>(
        items: impl IntoIterator<Item = &'a T>,
        revision: Revision,
        write_item: fn(&mut Rope, &T, Revision),
    ) -> Self {
        let mut rope = Rope::new();
        let mut ends = Vec::new();
        for item in items {
            if !ends.is_empty() {
                rope.push_byte(b',');
            }
            write_item(&mut rope, item, revision);
            ends.push(rope.len());
        }
        Self {
            text: rope.into_vec().into(),
            ends,
        }
    }
}

pub(crate) fn tool(rope: &mut Rope, tool: &ToolDescriptor, revision: Revision) {
    let fits = |member: &Member<'_>| match &*member.key {
        "title" => revision.titles(),
        "annotations" => revision.tool_annotations(),
        "outputSchema" => shows_output_schema(&member.value, revision),
        _ => true,
    };
    if verbatim(rope, tool.definition.as_ref(), &tool.name, &[], fits) {
        return;
    }
    named(
        rope,
        &tool.name,
        tool.title.as_deref(),
        tool.description.as_deref(),
        revision,
    );
    rope.push(b",\"inputSchema\":");
    write::raw(rope, &tool.input_schema);
    if let Some(schema) = &tool.output_schema
        && shows_output_schema(schema, revision)
    {
        rope.push(b",\"outputSchema\":");
        write::raw(rope, schema);
    }
    if revision.tool_annotations() {
        annotations(rope, tool.annotations);
    }
    if let (Some(long), Era::Session, true) =
        (tool.long.as_str(), revision.era(), revision.titles())
    {
        rope.push(b",\"_meta\":{\"");
        rope.push(LongWork::META.as_bytes());
        rope.push(b"\":\"");
        rope.push(long.as_bytes());
        rope.push(b"\"}");
    }
    rope.push_byte(b'}');
}

pub(crate) fn prompt(rope: &mut Rope, prompt: &PromptDescriptor, revision: Revision) {
    let definition = prompt.definition.as_ref();
    if verbatim(rope, definition, &prompt.name, &[], titled(revision)) {
        return;
    }
    named(
        rope,
        &prompt.name,
        prompt.title.as_deref(),
        prompt.description.as_deref(),
        revision,
    );
    if !prompt.arguments.is_empty() {
        rope.push(b",\"arguments\":[");
        for (at, argument) in prompt.arguments.iter().enumerate() {
            if at > 0 {
                rope.push_byte(b',');
            }
            named(
                rope,
                &argument.name,
                None,
                argument.description.as_deref(),
                revision,
            );
            let required: &[u8] = if argument.required {
                b",\"required\":true}"
            } else {
                b",\"required\":false}"
            };
            rope.push(required);
        }
        rope.push_byte(b']');
    }
    rope.push_byte(b'}');
}

pub(crate) fn resource(rope: &mut Rope, resource: &ResourceDescriptor, revision: Revision) {
    let definition = resource.definition.as_ref();
    let own = [("uri", resource.uri.as_str())];
    if verbatim(rope, definition, &resource.name, &own, titled(revision)) {
        return;
    }
    let description = resource.description.as_deref();
    named(
        rope,
        &resource.name,
        resource.title.as_deref(),
        description,
        revision,
    );
    text_member(rope, b",\"uri\":", Some(&resource.uri));
    text_member(rope, b",\"mimeType\":", resource.mime_type.as_deref());
    rope.push_byte(b'}');
}

pub(crate) fn template(rope: &mut Rope, template: &TemplateDescriptor, revision: Revision) {
    let definition = template.definition.as_ref();
    let own = [("uriTemplate", template.uri_template.as_str())];
    if verbatim(rope, definition, &template.name, &own, titled(revision)) {
        return;
    }
    let description = template.description.as_deref();
    named(
        rope,
        &template.name,
        template.title.as_deref(),
        description,
        revision,
    );
    text_member(rope, b",\"uriTemplate\":", Some(&template.uri_template));
    text_member(rope, b",\"mimeType\":", template.mime_type.as_deref());
    rope.push_byte(b'}');
}

/// Writes a definition of another server as it came, but for its name, members that are `own` here,
/// and those that do not fit; false when there is none.
fn verbatim(
    rope: &mut Rope,
    definition: Option<&RawJson>,
    name: &str,
    own: &[(&str, &str)],
    fits: impl Fn(&Member<'_>) -> bool,
) -> bool {
    let Some(members) = definition.and_then(RawJson::members) else {
        return false;
    };
    text_member(rope, b"{\"name\":", Some(name));
    for member in members.filter(|member| member.key != "name" && fits(member)) {
        rope.push_byte(b',');
        write::string(rope, &member.key);
        rope.push_byte(b':');
        match own.iter().find(|(key, _)| *key == member.key) {
            Some((_, text)) => write::string(rope, text),
            None => write::raw(rope, &member.value),
        }
    }
    rope.push_byte(b'}');
    true
}

/// What fits of a definition whose only member of a later revision may be its title.
fn titled(revision: Revision) -> impl Fn(&Member<'_>) -> bool {
    move |member| member.key != "title" || revision.titles()
}

fn shows_output_schema(schema: &RawJson, revision: Revision) -> bool {
    revision.output_schema() && (revision.structured_any() || is_object_schema(schema))
}

fn named(
    rope: &mut Rope,
    name: &str,
    title: Option<&str>,
    description: Option<&str>,
    revision: Revision,
) {
    text_member(rope, b"{\"name\":", Some(name));
    text_member(rope, b",\"title\":", title.filter(|_| revision.titles()));
    text_member(rope, b",\"description\":", description);
}

pub(crate) fn text_member(rope: &mut Rope, key: &[u8], value: Option<&str>) {
    if let Some(value) = value {
        rope.push(key);
        write::string(rope, value);
    }
}

fn annotations(rope: &mut Rope, hints: Annotations) {
    let members = [
        ("readOnlyHint", hints.read_only),
        ("destructiveHint", hints.destructive),
        ("idempotentHint", hints.idempotent),
        ("openWorldHint", hints.open_world),
    ];
    let mut separator: &[u8] = b",\"annotations\":{\"";
    for (key, value) in members {
        let Some(value) = value else { continue };
        rope.push(separator);
        rope.push(key.as_bytes());
        rope.push(if value { b"\":true" } else { b"\":false" });
        separator = b",\"";
    }
    if separator.len() == 2 {
        rope.push_byte(b'}');
    }
}

/// Up to 2025-11-25 an output schema has to say `"type":"object"` at its root.
fn is_object_schema(schema: &RawJson) -> bool {
    let kind = schema.member("type");
    kind.is_some_and(|kind| kind.parse::<String>().is_ok_and(|kind| kind == "object"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cost, LongWork, PromptArgument};

    fn sample() -> ToolDescriptor {
        ToolDescriptor {
            name: "t".into(),
            title: Some("T".into()),
            description: Some("does".into()),
            input_schema: RawJson::of(&serde_json::json!({"type": "object"})).unwrap(),
            lean_schema: None,
            output_schema: Some(RawJson::of(&serde_json::json!({"type": "array"})).unwrap()),
            annotations: Annotations {
                read_only: Some(true),
                idempotent: Some(false),
                ..Annotations::default()
            },
            group: "g".into(),
            cost: Cost::Quick,
            long: LongWork::Never,
            definition: None,
        }
    }

    fn text(revision: Revision) -> String {
        let listing = Listing::of([&sample()], revision, tool);
        String::from_utf8(listing.text().to_vec()).unwrap()
    }

    #[test]
    fn a_tool_shows_what_its_revision_knows() {
        let base = r#"{"name":"t","description":"does","inputSchema":{"type":"object"}"#;
        assert_eq!(text(Revision::V2024_11_05), format!("{base}}}"));
        let hints = r#","annotations":{"readOnlyHint":true,"idempotentHint":false}}"#;
        assert_eq!(text(Revision::V2025_03_26), format!("{base}{hints}"));
        let titled = base.replace(r#""t","#, r#""t","title":"T","#);
        assert_eq!(text(Revision::V2025_11_25), format!("{titled}{hints}"));
        let schema = r#","outputSchema":{"type":"array"}"#;
        assert_eq!(
            text(Revision::V2026_07_28),
            format!("{titled}{schema}{hints}")
        );
    }

    /// The newest revision has tasks, whose clients are told by their answers.
    #[test]
    fn a_session_is_told_which_calls_may_last() {
        let text = |long, revision| {
            let lasting = ToolDescriptor { long, ..sample() };
            let listing = Listing::of([&lasting], revision, tool);
            String::from_utf8(listing.text().to_vec()).unwrap()
        };
        for (long, told) in [
            (LongWork::May, "may"),
            (LongWork::Must, "must"),
            (LongWork::MustLater, "must"),
        ] {
            let hint = format!(r#","_meta":{{"orchestra/longWork":"{told}"}}}}"#);
            assert!(text(long, Revision::V2025_06_18).ends_with(&hint));
            assert!(!text(long, Revision::V2025_03_26).contains("_meta"));
            assert!(!text(long, Revision::V2026_07_28).contains("_meta"));
        }
        assert!(!text(LongWork::Never, Revision::V2025_11_25).contains("_meta"));
    }

    /// Seen in every revision as it came, but for the name and what a revision would refuse.
    #[test]
    fn a_definition_of_another_server_is_listed_as_it_came() {
        let definition = serde_json::from_str::<&serde_json::value::RawValue>(
            r#"{"icons":[{"src":"x"}],"name":"get","title":"G","execution":{"taskSupport":"optional"},
                "annotations":{"readOnlyHint":true,"new":1},"outputSchema":{"type":"array"},
                "inputSchema":{"type":"object","x-own":1.50},"_meta":{"a/b":null}}"#,
        );
        let tool = ToolDescriptor {
            name: "files__get".into(),
            definition: Some(RawJson::from_raw(definition.unwrap())),
            ..sample()
        };
        let text = |revision| {
            let listing = Listing::of([&tool], revision, super::tool);
            let text = String::from_utf8(listing.text().to_vec()).unwrap();
            text.replace("                ", "").replace(", \"", ",\"")
        };
        let title = r#""title":"G","#;
        let hints = r#""annotations":{"readOnlyHint":true,"new":1},"#;
        let output = r#""outputSchema":{"type":"array"},"#;
        let expected = |title: &str, hints: &str, output: &str| {
            format!(
                r#"{{"name":"files__get","icons":[{{"src":"x"}}],{title}"execution":{{"taskSupport":"optional"}},{hints}{output}"inputSchema":{{"type":"object","x-own":1.50}},"_meta":{{"a/b":null}}}}"#
            )
        };
        assert_eq!(text(Revision::V2024_11_05), expected("", "", ""));
        assert_eq!(text(Revision::V2025_06_18), expected(title, hints, ""));
        assert_eq!(text(Revision::V2026_07_28), expected(title, hints, output));
    }

    #[test]
    fn pages_are_slices_of_the_whole() {
        let mut tools = vec![sample(), sample(), sample()];
        for (at, tool) in tools.iter_mut().enumerate() {
            tool.name = at.to_string();
        }
        let listing = Listing::of(&tools, Revision::V2024_11_05, tool);
        let (all, next) = listing.page(0, usize::MAX);
        assert_eq!((all, next), (listing.text().clone(), None));
        let (first, next) = listing.page(0, 2);
        let (rest, end) = listing.page(next.unwrap(), 2);
        assert_eq!((next, end), (Some(2), None));
        let joined = [&first[..], b",", &rest[..]].concat();
        assert_eq!(&joined[..], &listing.text()[..]);
        assert_eq!(listing.page(3, 2), (Bytes::new(), None));
    }

    #[test]
    fn page_that_would_not_fit_into_a_reply_ends_earlier() {
        let item = |bytes| Bytes::from(vec![b'1'; bytes]);
        let items = [3, MAX_PAGE_BYTES / 2, MAX_PAGE_BYTES * 2, 3].map(item);
        let listing = Listing::of_texts(&items);
        let (mut lengths, mut start) = (Vec::new(), 0);
        while let (text, next) = listing.page(start, usize::MAX)
            && !text.is_empty()
        {
            lengths.push(text.len());
            start = next.unwrap_or(items.len());
        }
        let first = MAX_PAGE_BYTES / 2 + 4;
        assert_eq!(lengths, [first, MAX_PAGE_BYTES * 2, 3]);
    }

    #[test]
    fn prompts_list_their_arguments() {
        let item = PromptDescriptor {
            name: "p".into(),
            title: None,
            description: None,
            arguments: vec![PromptArgument {
                name: "a".into(),
                description: None,
                required: true,
            }],
            definition: None,
        };
        let listing = Listing::of([&item], Revision::V2025_06_18, prompt);
        assert_eq!(
            &listing.text()[..],
            br#"{"name":"p","arguments":[{"name":"a","required":true}]}"#
        );
    }
}
