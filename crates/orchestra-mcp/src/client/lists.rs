//! Lists of a server, whole.

use std::{collections::HashSet, sync::Arc, time::Duration};

use orchestra_hub::{Cx, ListKind};
use orchestra_wire::RawJson;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{ClientError, ServerCall, session::Session, watching};

/// Pages that are followed.
const PAGES: usize = 1_000;

/// Items that are taken.
const ITEMS: usize = 20_000;

/// Bytes that are taken.
const BYTES: usize = 64 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    prompts: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    resources: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    resource_templates: Vec<&'a RawValue>,
    next_cursor: Option<String>,
    #[serde(default)]
    ttl_ms: Option<f64>,
}

/// Fetches a list, page by page. A server that does not offer it has none.
///
/// # Errors
/// When a page cannot be had, goes round in circles, or there is too much.
pub(super) async fn fetch(
    session: &Arc<Session>,
    kind: ListKind,
) -> Result<Vec<RawJson>, ClientError> {
    let offered = session.facts().and_then(|facts| facts.can.list(kind));
    if offered.is_none() {
        return Ok(Vec::new());
    }
    session.events.fetching(kind);
    let mut items = Vec::new();
    let (mut cursor, mut seen, mut bytes) = (None::<String>, HashSet::new(), 0);
    for _ in 0..PAGES {
        let params = cursor.as_ref().map(|cursor| json!({ "cursor": cursor }));
        let params = params.and_then(|params| RawJson::of(&params).ok());
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
        let page: Page<'_> = result
            .parse()
            .map_err(|error| ClientError::InvalidMessage {
                what: format!("the answer to {} has no known form: {error}", method(kind)),
            })?;
        bytes += result.as_bytes().len();
        let listed = match kind {
            ListKind::Tools => page.tools,
            ListKind::Prompts => page.prompts,
            ListKind::Resources => page.resources,
            ListKind::Templates => page.resource_templates,
        };
        items.extend(listed.into_iter().map(RawJson::from_raw));
        if items.len() > ITEMS || bytes > BYTES {
            return Err(too_much(kind));
        }
        cursor = page.next_cursor;
        let Some(next) = &cursor else {
            if let Some(ttl) = page.ttl_ms.filter(|ttl| ttl.is_finite() && *ttl >= 0.0) {
                watching::expire(session, kind, Duration::from_millis(ttl as u64));
            }
            return Ok(items);
        };
        if !seen.insert(next.clone()) {
            return Err(ClientError::InvalidMessage {
                what: format!(
                    "{} goes round in circles: a cursor came twice",
                    method(kind)
                ),
            });
        }
    }
    Err(too_much(kind))
}

fn too_much(kind: ListKind) -> ClientError {
    ClientError::InvalidMessage {
        what: format!(
            "{} has too much: at most {PAGES} pages, {ITEMS} items and {BYTES} bytes are taken",
            method(kind)
        ),
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
