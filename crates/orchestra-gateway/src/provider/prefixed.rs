//! URIs of resources that say whose they are: those of a server of whose URIs another has the same.

use orchestra_hub::{CompletionRef, Outcome, ResultKind, Target};
use orchestra_wire::{RawJson, Rope, write};
use serde_json::value::RawValue;

use crate::definitions;

/// Stands before the URIs of one server.
#[derive(Debug, Clone)]
pub(super) struct Prefix(String);

impl Prefix {
    /// That of a server. A scheme of its own, behind which the URI follows as it is: what stands in
    /// for the expressions of a template keeps its form.
    pub(super) fn of(server: &str) -> Self {
        Self(format!("mcp+{server}:"))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The server's own form of a URI. A scheme is the same in any case.
    pub(super) fn own<'u>(&self, uri: &'u str) -> &'u str {
        match uri.split_at_checked(self.0.len()) {
            Some((prefix, own)) if prefix.eq_ignore_ascii_case(&self.0) => own,
            _ => uri,
        }
    }

    /// A URI of the server as others see it.
    pub(super) fn before(&self, uri: &str) -> String {
        format!("{}{uri}", self.0)
    }

    /// Gives what is asked for its own form; whether it had another.
    pub(super) fn strip(&self, target: &mut Target) -> bool {
        let (Target::Resource { uri }
        | Target::Complete {
            reference: CompletionRef::Resource(uri),
            ..
        }) = target
        else {
            return false;
        };
        let own = self.own(uri).to_owned();
        let is_prefixed = own.len() < uri.len();
        *uri = own;
        is_prefixed
    }

    /// What was read, under the URIs that it was asked for by.
    pub(super) fn dress(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Verbatim {
                kind: ResultKind::Resource,
                result,
                is_error,
            } => Outcome::Verbatim {
                kind: ResultKind::Resource,
                result: self.dressed(&result).unwrap_or(result),
                is_error,
            },
            other => other,
        }
    }

    fn dressed(&self, result: &RawJson) -> Option<RawJson> {
        let contents = result.member("contents")?;
        let items: Vec<&RawValue> = contents.parse().ok()?;
        let mut rope = Rope::new();
        rope.push_byte(b'[');
        for (place, item) in items.into_iter().enumerate() {
            if place > 0 {
                rope.push_byte(b',');
            }
            let item = RawJson::from_raw(item);
            let uri: Option<String> = item.member("uri").and_then(|uri| uri.parse().ok());
            match uri.and_then(|uri| RawJson::of(&self.before(self.own(&uri))).ok()) {
                Some(uri) => {
                    let item = definitions::rewritten(Some(&item), "uri", uri.as_bytes());
                    write::raw(&mut rope, &item);
                }
                None => write::raw(&mut rope, &item),
            }
        }
        rope.push_byte(b']');
        let contents = definitions::raw_of(rope)?;
        Some(definitions::rewritten(
            Some(result),
            "contents",
            contents.as_bytes(),
        ))
    }
}
