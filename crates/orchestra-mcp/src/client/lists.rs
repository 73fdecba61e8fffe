//! Lists of a server, whole.

use std::{collections::HashSet, sync::Arc, time::Duration};

use orchestra_hub::{Cx, ListKind};
use orchestra_wire::{RawJson, Rope, write};
use serde_json::value::RawValue;

use super::{ClientError, ServerCall, session::Session, watching};

/// Pages that are followed.
const PAGES: usize = 1_000;

/// Items that are taken.
const ITEMS: usize = 20_000;

/// Bytes that are taken.
const BYTES: usize = 64 * 1024 * 1024;

/// The items of a page and where the next one begins; members of an unknown form are as if they
/// were not there. An array is the items alone. `None` when the page is neither an object nor an array.
fn page(result: &RawJson, kind: ListKind) -> Option<(Vec<RawJson>, Option<RawJson>)> {
    if result.as_str() == "null" {
        return Some((Vec::new(), None));
    }
    let elements = |array: &RawJson| -> Option<Vec<RawJson>> {
        let all = array.parse::<Vec<&RawValue>>().ok()?;
        Some(all.into_iter().map(RawJson::from_raw).collect())
    };
    if result.members().is_none() {
        return Some((elements(result)?, None));
    }
    let items = match result.member(key(kind)) {
        None => Vec::new(),
        Some(items) if items.as_str() == "null" => Vec::new(),
        Some(items) => match items.members() {
            // Items by their names.
            Some(members) => members.map(|member| member.value).collect(),
            None => elements(&items).unwrap_or_default(),
        },
    };
    let is_cursor = |cursor: &RawJson| {
        let is_number = cursor
            .as_bytes()
            .first()
            .is_some_and(|first| first.is_ascii_digit() || *first == b'-');
        is_number || (cursor.as_bytes().starts_with(b"\"") && cursor.as_str() != "\"\"")
    };
    Some((items, result.member("nextCursor").filter(is_cursor)))
}

/// Fetches a list, page by page. A server that does not offer it has none. The session retains the tools.
///
/// # Errors
/// When a page cannot be had.
pub(super) async fn fetch(
    session: &Arc<Session>,
    kind: ListKind,
) -> Result<Vec<RawJson>, ClientError> {
    let changes = session.tool_changes();
    let items = pages(session, kind).await?;
    if kind == ListKind::Tools {
        session.note_tools(changes, &items);
    }
    Ok(items)
}

/// The pages of a list as one list.
///
/// The list ends at an empty cursor, at a repeated cursor, and where there is too much. Numbers are
/// cursors as well.
///
/// # Errors
/// When a page cannot be had.
async fn pages(session: &Arc<Session>, kind: ListKind) -> Result<Vec<RawJson>, ClientError> {
    let offered = session.facts().and_then(|facts| facts.can.list(kind));
    if offered.is_none() {
        return Ok(Vec::new());
    }
    session.fetched.add(kind);
    let mut items = Vec::new();
    let (mut cursor, mut seen, mut bytes) = (None::<RawJson>, HashSet::new(), 0);
    for _ in 0..PAGES {
        let params = cursor.as_ref().and_then(|cursor| {
            let mut rope = Rope::new();
            rope.push(b"{\"cursor\":");
            write::raw(&mut rope, cursor);
            rope.push_byte(b'}');
            super::params::raw(rope)
        });
        let call = ServerCall::new(method(kind), params, Cx::default());
        let result = match session.ask_within(&call, session.config.call_timeout).await {
            // Resources without templates are common, and so is not knowing the word.
            Err(ClientError::Rpc(error))
                if error.code.0 == -32601 && kind == ListKind::Templates =>
            {
                return Ok(Vec::new());
            }
            result => result?,
        };
        let (listed, next) = page(&result, kind).ok_or_else(|| ClientError::InvalidMessage {
            what: format!("the answer to {} has no known form", method(kind)),
        })?;
        let is_list = |list: &RawJson| list.as_str().starts_with(['[', '{', 'n']);
        if result.member(key(kind)).is_some_and(|list| !is_list(&list)) {
            let (server, method) = (&session.config.name, method(kind));
            tracing::warn!(%server, method, "the answer has no list: it counts as empty");
        }
        bytes += result.as_bytes().len();
        items.extend(listed);
        if items.len() > ITEMS || bytes > BYTES {
            break;
        }
        let next = next.filter(|next| {
            let is_new = seen.insert(next.as_str().to_owned());
            if !is_new {
                let (server, method) = (&session.config.name, method(kind));
                tracing::warn!(
                    %server, method,
                    "the server repeated a cursor; the list ends with the items before it"
                );
                once_each(&mut items);
            }
            is_new
        });
        let Some(next) = next else {
            let ttl = result
                .member("ttlMs")
                .and_then(|ttl| ttl.parse::<f64>().ok());
            if let Some(ttl) = ttl.filter(|ttl| ttl.is_finite() && *ttl >= 0.0) {
                watching::expire(session, kind, Duration::from_millis(ttl as u64));
            }
            return Ok(items);
        };
        cursor = Some(next);
    }
    let (server, method) = (&session.config.name, method(kind));
    tracing::warn!(
        %server, method,
        "the list is too long: reading at most {PAGES} pages, {ITEMS} items and {BYTES} bytes"
    );
    once_each(&mut items);
    items.truncate(ITEMS);
    Ok(items)
}

/// Adds items of the same list as another connection has it, where no item is called so yet.
pub(super) fn add(items: &mut Vec<RawJson>, more: Vec<RawJson>, kind: ListKind) {
    let called = |item: &RawJson| item.member(identity(kind)).map(|name| name.to_bytes());
    let mut known: HashSet<_> = items.iter().filter_map(called).collect();
    let is_new = |item: &RawJson| called(item).is_some_and(|name| known.insert(name));
    items.extend(more.into_iter().filter(is_new));
    items.truncate(ITEMS);
}

/// A server that ignores cursors sends the same page each time.
fn once_each(items: &mut Vec<RawJson>) {
    let mut known = HashSet::new();
    items.retain(|item| known.insert(item.to_bytes()));
}

const fn key(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => "tools",
        ListKind::Prompts => "prompts",
        ListKind::Resources => "resources",
        ListKind::Templates => "resourceTemplates",
    }
}

/// The member that tells the items of a list apart.
const fn identity(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools | ListKind::Prompts => "name",
        ListKind::Resources => "uri",
        ListKind::Templates => "uriTemplate",
    }
}

const fn method(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => "tools/list",
        ListKind::Prompts => "prompts/list",
        ListKind::Resources => "resources/list",
        ListKind::Templates => "resources/templates/list",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_each_form_is_read() {
        let read = |text: &str| {
            let result = RawJson::checked(text.to_owned().into()).unwrap();
            let (items, next) = page(&result, ListKind::Tools)?;
            Some((items.len(), next.map(|next| next.as_str().to_owned())))
        };
        for (text, expected) in [
            ("null", Some((0, None))),
            ("{}", Some((0, None))),
            (r#"{"tools":null,"nextCursor":null}"#, Some((0, None))),
            (r#"{"tools":[1,{}],"nextCursor":""}"#, Some((2, None))),
            (
                r#"{"tools":{"a":{},"b":{}},"nextCursor":false}"#,
                Some((2, None)),
            ),
            (
                r#"{"tools":[],"nextCursor":2}"#,
                Some((0, Some("2".to_owned()))),
            ),
            (
                r#"{"tools":[],"nextCursor":"x"}"#,
                Some((0, Some("\"x\"".to_owned()))),
            ),
            (r#"{"tools":[],"nextCursor":{}}"#, Some((0, None))),
            (r#"{"tools":7}"#, Some((0, None))),
            (r#"{"tools":"x"}"#, Some((0, None))),
            ("[]", Some((0, None))),
            (r#"[{"name":"a"}]"#, Some((1, None))),
            ("7", None),
            ("\"x\"", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
