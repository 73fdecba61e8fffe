//! Takes secrets out of messages before they are recorded.

use std::collections::BTreeSet;

use orchestra_hub::{mask_whole, names_secret};
use serde_json::Value;

/// What stands in place of a secret.
const MASK: &str = "***";

/// Shorter values are in too many words to be looked for.
const SHORTEST: usize = 4;

/// Members that end like a secret's name and are none.
const NO_SECRETS: [&str; 1] = ["progressToken"];

/// Members that hold JSON Schema, whose properties are names and no values.
const SCHEMAS: [&str; 4] = ["inputSchema", "outputSchema", "requestedSchema", "schema"];

/// Knows what must not be recorded: known values wherever they stand, members that name a secret,
/// arguments that were marked, and what looks like a token.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Longest first, as one may hold another.
    values: Vec<String>,
    arguments: BTreeSet<String>,
}

/// Where in a message a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Open,
    /// Below a member that names a secret.
    Secret,
    /// In a schema.
    Schema,
}

impl Redactor {
    /// Masks `value` wherever it stands; one of less than four bytes is not looked for.
    #[must_use]
    pub fn value(mut self, value: &str) -> Self {
        if value.len() >= SHORTEST {
            self.values.push(value.to_owned());
            self.values
                .sort_by_key(|value| std::cmp::Reverse(value.len()));
            self.values.dedup();
        }
        self
    }

    /// Masks the values of those variables whose names say that they are secrets, and the passwords
    /// of proxies.
    #[must_use]
    pub fn environment(self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let secrets = variables.into_iter().filter_map(|(name, value)| {
            if names_secret(&name) {
                return Some(value);
            }
            let is_proxy = name.to_ascii_lowercase().ends_with("_proxy");
            is_proxy.then(|| password(&value)).flatten()
        });
        secrets.fold(self, |redactor, value| redactor.value(&value))
    }

    /// Masks what an argument, or any member, of this name holds.
    #[must_use]
    pub fn argument(mut self, name: &str) -> Self {
        self.arguments.insert(name.to_owned());
        self
    }

    /// The text without secrets; `None` when it has none.
    pub(in crate::client) fn text(&self, text: &str) -> Option<String> {
        let mut masked = None;
        for value in &self.values {
            let found = masked.as_deref().unwrap_or(text);
            if found.contains(value.as_str()) {
                masked = Some(found.replace(value.as_str(), MASK));
            }
        }
        let known = masked.as_deref().unwrap_or(text);
        match mask_whole(known) {
            std::borrow::Cow::Owned(more) => Some(more),
            std::borrow::Cow::Borrowed(_) => masked,
        }
    }

    /// Takes the secrets out of a message; whether there were any.
    pub(super) fn message(&self, message: &mut Value) -> bool {
        self.clean(message, Place::Open)
    }

    fn clean(&self, value: &mut Value, place: Place) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(_) => {
                let secret = place == Place::Secret;
                if secret {
                    *value = MASK.into();
                }
                secret
            }
            Value::String(text) => match self.string(text, place) {
                Some(masked) => {
                    *text = masked;
                    true
                }
                None => false,
            },
            Value::Array(items) => {
                let cleaned = items.iter_mut().map(|item| self.clean(item, place));
                cleaned.fold(false, |any, one| any | one)
            }
            Value::Object(members) => {
                let mut any = false;
                for (name, member) in members.iter_mut() {
                    any |= self.clean(member, self.below(name, place));
                }
                any | self.clean_names(members)
            }
        }
    }

    fn below(&self, name: &str, place: Place) -> Place {
        match place {
            Place::Open if SCHEMAS.contains(&name) => Place::Schema,
            Place::Open if NO_SECRETS.contains(&name) => Place::Open,
            Place::Open if self.arguments.contains(name) || names_secret(name) => Place::Secret,
            place => place,
        }
    }

    fn string(&self, text: &str, place: Place) -> Option<String> {
        if place == Place::Secret {
            return (text != MASK).then(|| MASK.to_owned());
        }
        // Tools like to answer JSON as text.
        let inner = text.trim_start().starts_with(['{', '[']);
        if let Some(mut inner) = inner.then(|| serde_json::from_str(text).ok()).flatten()
            && self.clean(&mut inner, place)
        {
            return Some(inner.to_string());
        }
        self.text(text)
    }

    /// Names of members may hold a known value as well.
    fn clean_names(&self, members: &mut serde_json::Map<String, Value>) -> bool {
        let holds = |name: &String| {
            self.values
                .iter()
                .any(|value| name.contains(value.as_str()))
        };
        let found: Vec<String> = members.keys().filter(|name| holds(name)).cloned().collect();
        for name in &found {
            if let (Some(member), Some(masked)) = (members.remove(name), self.text(name)) {
                members.insert(masked, member);
            }
        }
        !found.is_empty()
    }
}

/// The password that an address holds (`http://user:password@host:port`).
fn password(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let (user, _) = rest.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    Some(password.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_taken_out_wherever_they_stand() {
        let redactor = Redactor::default()
            .value("s3cret")
            .value("s3cret-and-more")
            .value("x")
            .argument("pin")
            .environment([
                ("GITHUB_TOKEN".to_owned(), "tok-123".to_owned()),
                ("LANG".to_owned(), "C.UTF-8".to_owned()),
                (
                    "https_proxy".to_owned(),
                    "http://me:pr0xy@pw@proxy.example:3128".to_owned(),
                ),
                ("NO_PROXY".to_owned(), "localhost".to_owned()),
            ]);
        for (before, after) in [
            (
                json!({"a": "is s3cret-and-more, s3cret"}),
                json!({"a": "is ***, ***"}),
            ),
            (
                json!({"arguments": {"pin": 1234}}),
                json!({"arguments": {"pin": "***"}}),
            ),
            (
                json!({"pin": {"deep": ["a", null]}}),
                json!({"pin": {"deep": ["***", null]}}),
            ),
            (json!({"X-Api-Key": "abc"}), json!({"X-Api-Key": "***"})),
            (json!({"s3cret": 1}), json!({"***": 1})),
            (
                json!({"text": "{\"password\": \"pw\"}"}),
                json!({"text": "{\"password\":\"***\"}"}),
            ),
            (
                json!(["Authorization: Bearer abc"]),
                json!(["Authorization: Bearer ***"]),
            ),
            (json!("tok-123 C.UTF-8 x"), json!("*** C.UTF-8 x")),
            (
                json!("407 for pr0xy@pw at localhost"),
                json!("407 for *** at localhost"),
            ),
        ] {
            let mut message = before.clone();
            assert!(redactor.message(&mut message), "{before}");
            assert_eq!(message, after);
            assert!(
                !redactor.message(&mut message),
                "nothing is left in {message}"
            );
        }
        for kept in [
            json!({"_meta": {"progressToken": 7}}),
            json!({"inputSchema": {"properties": {"token": {"type": "string"}}}}),
            json!({"text": "{\"a\": 1}", "n": 1.5}),
        ] {
            assert!(!redactor.message(&mut kept.clone()), "{kept}");
        }
    }
}
