//! Contents of results: blocks of tools, messages of prompts, contents of resources, completions.

use std::borrow::Cow;

use orchestra_wire::RawJson;

use super::{
    Fixed, Notes, Object, array, fix, integer, is_absolute, is_text, items, quoted,
    shapes::{self, Shape},
    text,
};

/// Maximum number of values that a completion may have.
const MAX_VALUES: usize = 100;

/// Maximum number of elements of one array that are repaired. More are dropped, for a repaired element
/// can be many times as long as the one that was sent.
const MAX_REPAIRED: usize = 10_000;

/// Longest JSON that is shown in place of a block that no client knows, in bytes.
const MAX_SHOWN: usize = 64 * 1024;

pub(super) fn tool_result(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    if value.members().is_some() && value.member("content").is_none() {
        // A client that reads contents alone would see nothing of the result.
        let shown = ["structuredContent", "toolResult"];
        let shown = shown.iter().find_map(|key| value.member(key));
        if let Some(shown) = shown.filter(|shown| shown.as_str() != "null") {
            notes.within("content", |notes| notes.add("was missing: added"));
            let content = array(&[text_block(&in_words(&shown))]);
            let value = with_member(value, "content", &content);
            return match fix(&shapes::TOOL_RESULT, &value, notes) {
                Fixed::Same => Fixed::Other(value),
                fixed => fixed,
            };
        }
    }
    wrapped(&shapes::TOOL_RESULT, "content", value, notes)
}

pub(super) fn prompt_result(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    wrapped(&shapes::PROMPT_RESULT, "messages", value, notes)
}

pub(super) fn resource_result(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    wrapped(&shapes::RESOURCE_RESULT, "contents", value, notes)
}

pub(super) fn completion(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    if items(value).is_none() {
        return wrapped(&shapes::COMPLETION, "completion", value, notes);
    }
    let completion = Object::default().with("values", value).finish();
    wrapped(&shapes::COMPLETION, "completion", &completion, notes)
}

/// The values of a completion with what is known of them. Values alone are taken for it.
pub(super) fn completed(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    if items(value).is_none() && !is_text(value) {
        return fix(&shapes::COMPLETED, value, notes);
    }
    notes.add("was no object: made one");
    let object = Object::default().with("values", value).finish();
    match fix(&shapes::COMPLETED, &object, notes) {
        Fixed::Same => Fixed::Other(object),
        fixed => fixed,
    }
}

/// A result that is no object is the only member that it could be.
fn wrapped(shape: &Shape, key: &str, value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let is_result = value.members().is_some()
        && (key != "completion"
            || value.member("values").is_none()
            || value.member("completion").is_some());
    if is_result {
        return fix(shape, value, notes);
    }
    notes.add("was no result object: made one");
    let object = match value.as_str() {
        "null" => RawJson::empty_object(),
        _ => Object::default().with(key, value).finish(),
    };
    match fix(shape, &object, notes) {
        Fixed::Same => Fixed::Other(object),
        fixed => fixed,
    }
}

/// Content blocks: an array, or one of them alone.
pub(super) fn blocks(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    each(value, notes, |item, notes| {
        let fixed = block(&item, notes);
        vec![(item, fixed)]
    })
}

/// Fits the elements of an array, or a single one; each may become several.
pub(super) fn each(
    value: &RawJson,
    notes: &mut Notes<'_>,
    mut fit: impl FnMut(RawJson, &mut Notes<'_>) -> Vec<(RawJson, Fixed)>,
) -> Fixed {
    let (items, mut changed) = match (items(value), value.as_str()) {
        (Some(items), _) => (items, false),
        (None, "null") => (Vec::new(), true),
        (None, _) => (vec![value.clone()], true),
    };
    if changed {
        notes.add("was no array: made one");
    }
    let mut fitting = Vec::with_capacity(items.len());
    let (mut repaired, mut dropped) = (0, 0);
    for (at, item) in items.into_iter().enumerate() {
        let before = fitting.len();
        for (item, fixed) in notes.within(at.to_string(), |notes| fit(item, notes)) {
            match fixed {
                Fixed::Same => fitting.push(item),
                Fixed::Other(_) if repaired == MAX_REPAIRED => dropped += 1,
                Fixed::Other(other) => {
                    changed = true;
                    repaired += 1;
                    fitting.push(other);
                }
                Fixed::Gone => changed = true,
            }
        }
        changed |= fitting.len() != before + 1;
    }
    if dropped > 0 {
        notes.add(&format!(
            "had {dropped} more elements to repair than {MAX_REPAIRED}: dropped"
        ));
    }
    match changed {
        true => Fixed::Other(array(&fitting)),
        false => Fixed::Same,
    }
}

/// One content block. One that no client knows becomes text.
pub(super) fn block(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    if value.members().is_none() {
        notes.add("is no content block: made text");
        return match value.as_str() {
            "null" => Fixed::Gone,
            _ => Fixed::Other(text_block(&in_words(value))),
        };
    }
    let written = value.member("type");
    let written = written.as_ref().and_then(text);
    let kind = match &written {
        Some(kind) => kind.to_ascii_lowercase(),
        None => kind_of(value).to_owned(),
    };
    let shape = match &*kind {
        "text" => &shapes::TEXT_BLOCK,
        "image" | "audio" => &shapes::MEDIA_BLOCK,
        "resource" => &shapes::RESOURCE_BLOCK,
        "resource_link" => &shapes::LINK_BLOCK,
        _ => {
            notes.add("is a content block of an unknown type: made text");
            let inner = value.member("text");
            let inner = inner.as_ref().and_then(text);
            let text = inner.unwrap_or_else(|| in_words(value));
            return Fixed::Other(text_block(&text));
        }
    };
    let (value, mut fixed) = match written.as_deref() == Some(&*kind) {
        true => (Cow::Borrowed(value), Fixed::Same),
        false => {
            notes.add(&format!("has no known type: taken for {kind}"));
            let value = with_member(value, "type", &quoted(&kind));
            (Cow::Owned(value.clone()), Fixed::Other(value))
        }
    };
    let other = match &*kind {
        "resource_link" => named(&value, "uri", notes),
        "image" | "audio" => with_mime_type(&value, notes),
        _ => None,
    };
    let value = match other {
        Some(other) => {
            fixed = Fixed::Other(other.clone());
            Cow::Owned(other)
        }
        None => value,
    };
    match fix(shape, &value, notes) {
        Fixed::Same => fixed,
        Fixed::Other(other) => Fixed::Other(other),
        Fixed::Gone => {
            notes.add("lacks what its type needs: made text");
            let words = match &*kind {
                "image" | "audio" => {
                    Cow::Owned(format!("(an {kind} was left out: its data is not Base64)"))
                }
                _ => {
                    let inner = value.member("resource");
                    let inner = inner.as_ref().and_then(|inner| inner.member("text"));
                    match inner.as_ref().and_then(text) {
                        Some(text) => Cow::Owned(text.into_owned()),
                        None => Cow::Owned(in_words(&value).into_owned()),
                    }
                }
            };
            Fixed::Other(text_block(&words))
        }
    }
}

/// A resource, template or link whose name is missing or empty, with its URI as the name.
fn named(value: &RawJson, key: &str, notes: &mut Notes<'_>) -> Option<RawJson> {
    if value.member("name").as_ref().is_some_and(is_filled) {
        return None;
    }
    let uri = value.member(key).filter(is_filled)?;
    notes.within("name", |notes| notes.add("was missing: added"));
    Some(with_member(value, "name", &uri))
}

fn is_filled(value: &RawJson) -> bool {
    is_text(value) && value.as_str() != "\"\""
}

/// A text that is not empty.
pub(super) fn filled(value: &RawJson, _: &mut Notes<'_>) -> Fixed {
    match is_filled(value) {
        true => Fixed::Same,
        false => Fixed::Gone,
    }
}

/// A block or contents with the member `mime_type`, with `mimeType` in its place.
fn with_mime_type(value: &RawJson, notes: &mut Notes<'_>) -> Option<RawJson> {
    if value.member("mimeType").is_some() {
        return None;
    }
    let kind = value.member("mime_type").filter(is_text)?;
    notes.within("mimeType", |notes| {
        notes.add("was written as mime_type: renamed");
    });
    let value = without_member(value, "mime_type");
    Some(with_member(&value, "mimeType", &kind))
}

pub(super) fn resource(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    definition(&shapes::RESOURCE, "uri", value, notes)
}

pub(super) fn template(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    definition(&shapes::TEMPLATE, "uriTemplate", value, notes)
}

fn definition(shape: &Shape, key: &str, value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let Some(named) = named(value, key, notes) else {
        return fix(shape, value, notes);
    };
    match fix(shape, &named, notes) {
        Fixed::Same => Fixed::Other(named),
        fixed => fixed,
    }
}

/// The type that a block without one has by its members.
fn kind_of(value: &RawJson) -> &'static str {
    let has = |key: &str| value.member(key).is_some();
    let mime = value.member("mimeType");
    let mime = mime.or_else(|| value.member("mime_type"));
    let mime = mime.as_ref().and_then(text).unwrap_or_default();
    match () {
        () if has("text") && !has("uri") => "text",
        () if has("data") && mime.starts_with("audio/") => "audio",
        () if has("data") && mime.starts_with("image/") => "image",
        () if has("resource") => "resource",
        () if has("uri") && !has("text") && !has("blob") => "resource_link",
        () => "unknown",
    }
}

/// Text; another value is written as JSON.
pub(super) fn textual(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    if is_text(value) {
        return Fixed::Same;
    }
    if value.as_str() == "null" {
        return Fixed::Gone;
    }
    notes.add("was no text: made text");
    Fixed::Other(quoted(&in_words(value)))
}

/// Base64. Some clients read none without its padding, or with white space in it, as `atob` of JavaScript does.
pub(super) fn base64(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let Some(data) = text(value) else {
        return Fixed::Gone;
    };
    if is_base64(&data) {
        if data.len().is_multiple_of(4) && !data.contains(WHITE_SPACE) {
            return Fixed::Same;
        }
        notes.add("was not plain Base64: rewritten");
        return Fixed::Other(quoted(&padded(&data)));
    }
    // A data URL, or the alphabet for URLs.
    let inner = match data.strip_prefix("data:") {
        Some(url) => url.split_once(";base64,").map(|(_, data)| data),
        None => Some(&*data),
    };
    let standard = inner.unwrap_or_default();
    let standard = standard.replace('-', "+").replace('_', "/");
    if standard.is_empty() || !is_base64(&standard) {
        return Fixed::Gone;
    }
    notes.add("was not plain Base64: rewritten");
    Fixed::Other(quoted(&padded(&standard)))
}

/// White space that Base64 may have.
const WHITE_SPACE: [char; 5] = [' ', '\t', '\n', '\r', '\u{c}'];

/// Base64 without white space and with its padding.
fn padded(data: &str) -> String {
    let mut padded = data.replace(WHITE_SPACE, "");
    while !padded.len().is_multiple_of(4) {
        padded.push('=');
    }
    padded
}

fn is_base64(data: &str) -> bool {
    let (mut digits, mut padding) = (0_usize, 0_usize);
    for byte in data.bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => {}
            b'=' => padding += 1,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => digits += 1,
            _ => return false,
        }
    }
    digits % 4 != 1 && (padding == 0 || (padding <= 2 && (digits + padding).is_multiple_of(4)))
}

/// Contents of a resource in a block.
pub(super) fn contents(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    if value.members().is_none() {
        return Fixed::Gone;
    }
    let value = match (
        value.member("uri").as_ref().is_some_and(is_text),
        notes.context.uri,
    ) {
        (false, Some(uri)) => {
            let uri = quoted(uri);
            notes.within("uri", |notes| notes.add("was missing: added"));
            Cow::Owned(with_member(value, "uri", &uri))
        }
        _ => Cow::Borrowed(value),
    };
    let value = with_mime_type(&value, notes).map_or(value, Cow::Owned);
    let fixed = match (value.member("text"), value.member("blob")) {
        (Some(text), _) if text.as_str() != "null" => fix(&shapes::TEXT_CONTENTS, &value, notes),
        (_, Some(blob)) => match fix(&shapes::BLOB_CONTENTS, &value, notes) {
            // Text that was put into the wrong member.
            Fixed::Gone if is_text(&blob) => {
                let value = with_member(&value, "text", &blob);
                made(&without_member(&value, "blob"), notes)
            }
            fixed => fixed,
        },
        _ => {
            notes.within("text", |notes| notes.add("was missing: added"));
            made(&with_member(&value, "text", &quoted("")), notes)
        }
    };
    match (fixed, value) {
        (Fixed::Same, Cow::Owned(value)) => Fixed::Other(value),
        (fixed, _) => fixed,
    }
}

/// Text contents that were made here.
fn made(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match fix(&shapes::TEXT_CONTENTS, value, notes) {
        Fixed::Same => Fixed::Other(value.clone()),
        fixed => fixed,
    }
}

/// Contents of a resource that was read: an array, or one of them alone.
pub(super) fn all_contents(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    each(value, notes, |item, notes| {
        let fixed = match (is_text(&item), notes.context.uri) {
            (true, Some(uri)) => {
                notes.add("was text alone: made contents");
                let contents = Object::default().with("uri", &quoted(uri));
                Fixed::Other(contents.with("text", &item).finish())
            }
            _ => match contents(&item, notes) {
                Fixed::Gone => {
                    notes.add("is no contents of a resource: dropped");
                    Fixed::Gone
                }
                fixed => fixed,
            },
        };
        vec![(item, fixed)]
    })
}

/// A URI. The Python SDK takes absolute ones alone.
pub(super) fn uri(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let Some(uri) = text(value) else {
        return Fixed::Gone;
    };
    match notes.context.base {
        Some(base) if !is_absolute(&uri) => {
            notes.add("was no absolute URI: prefixed");
            Fixed::Other(quoted(&format!("{base}{uri}")))
        }
        _ => Fixed::Same,
    }
}

/// A template of URIs. A relative one is put behind the same text as relative URIs are.
pub(super) fn uri_template(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let Some(template) = text(value).filter(|template| is_template(template)) else {
        return Fixed::Gone;
    };
    match notes.context.base {
        Some(base) if !has_scheme(&template) => {
            notes.add("was no absolute URI: prefixed");
            Fixed::Other(quoted(&format!("{base}{template}")))
        }
        _ => Fixed::Same,
    }
}

/// Returns whether each brace of a text belongs to an expression that is not empty.
fn is_template(text: &str) -> bool {
    let mut parts = text.split('{');
    let begins = parts.next().is_some_and(|part| !part.contains('}'));
    let mut expressions = parts.map(|part| part.split_once('}'));
    begins
        && expressions.all(|parts| {
            parts.is_some_and(|(inner, rest)| !inner.is_empty() && !rest.contains('}'))
        })
}

/// Returns whether a template begins with the scheme of an absolute URI.
fn has_scheme(template: &str) -> bool {
    let scheme = template.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_rest = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_rest)
}

/// Messages of a prompt. Several contents in one message become several messages.
pub(super) fn messages(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    each(value, notes, |item, notes| {
        let content = item.member("content");
        let Some(content) = content.filter(|_| item.members().is_some()) else {
            notes.add("was no message: made one");
            let content = match (item.as_str(), item.members()) {
                ("null", _) => return vec![(item, Fixed::Gone)],
                (_, Some(_)) => item.member("text").unwrap_or_else(|| item.clone()),
                (_, None) => item.clone(),
            };
            let message = Object::default()
                .with("role", &role(&item))
                .with("content", &text_block(&in_words(&content)));
            return vec![(item, Fixed::Other(message.finish()))];
        };
        let has_role = item.member("role").as_ref().is_some_and(is_role);
        let several = items(&content);
        if let (true, None) = (has_role, &several) {
            let fixed = notes.within("content", |notes| block(&content, notes));
            let fixed = match fixed {
                Fixed::Same => Fixed::Same,
                Fixed::Other(block) => Fixed::Other(with_member(&item, "content", &block)),
                Fixed::Gone => Fixed::Other(with_member(&item, "content", &text_block(""))),
            };
            return vec![(item, fixed)];
        }
        notes.add("has a role or content that clients do not accept: rewritten");
        let several = several.unwrap_or_else(|| vec![content]);
        // Other members stay with a message that remains one: copies of them would multiply.
        let rest = match several.len() {
            1 => without_member(&without_member(&item, "content"), "role"),
            _ => RawJson::empty_object(),
        };
        let role = role(&item);
        let blocks = several.into_iter().filter_map(|content| {
            let content = match block(&content, notes) {
                Fixed::Same => content,
                Fixed::Other(other) => other,
                Fixed::Gone => return None,
            };
            let message = with_member(&rest, "role", &role);
            let message = with_member(&message, "content", &content);
            Some((message.clone(), Fixed::Other(message)))
        });
        blocks.collect()
    })
}

/// Returns whether clients accept a role.
pub(super) fn is_role(role: &RawJson) -> bool {
    matches!(role.as_str(), "\"user\"" | "\"assistant\"")
}

/// The role that a client accepts for the one that was given.
pub(super) fn role(message: &RawJson) -> RawJson {
    let role = message.member("role");
    let role = role.as_ref().and_then(text).unwrap_or_default();
    match &*role.to_ascii_lowercase() {
        "assistant" | "model" | "ai" | "bot" => quoted("assistant"),
        _ => quoted("user"),
    }
}

/// Values of a completion.
pub(super) fn values(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let mut count = 0;
    each(value, notes, |item, notes| {
        count += 1;
        let fixed = match () {
            () if count > MAX_VALUES => {
                notes.add("is more than a completion may have: dropped");
                Fixed::Gone
            }
            () => match textual(&item, notes) {
                Fixed::Gone => {
                    notes.add("is no value: dropped");
                    Fixed::Gone
                }
                fixed => fixed,
            },
        };
        vec![(item, fixed)]
    })
}

/// A time to live: an integer that is not negative.
pub(super) fn time_to_live(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match value.as_str().starts_with('-') {
        true => Fixed::Gone,
        false => integer(value, notes),
    }
}

pub(super) fn text_block(text: &str) -> RawJson {
    let block = Object::default().with("type", &quoted("text"));
    block.with("text", &quoted(text)).finish()
}

/// A value as text: text as it is, anything else as JSON.
pub(super) fn in_words(value: &RawJson) -> Cow<'_, str> {
    text(value).unwrap_or_else(|| {
        let json = value.as_str();
        Cow::Borrowed(&json[..json.floor_char_boundary(MAX_SHOWN)])
    })
}

/// An object with another value of one member.
pub(super) fn with_member<'o>(object: &'o RawJson, key: &'o str, value: &RawJson) -> RawJson {
    without(object, key).with(key, value).finish()
}

pub(super) fn without_member(object: &RawJson, key: &str) -> RawJson {
    without(object, key).finish()
}

fn without<'o>(object: &'o RawJson, key: &str) -> Object<'o> {
    let mut written = Object::default();
    let members = object.members().into_iter().flatten();
    for member in members.filter(|member| member.key != key) {
        written.put(member.key, &member.value, Fixed::Same);
    }
    written
}
