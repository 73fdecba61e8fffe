//! Fingerprint of a server: what an approval is bound to.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    covered::{Content, Covered},
    path_text,
};
use crate::{
    canonical,
    config::{Input, ServerConfig, Transport, Values},
    expand::{self, Reference},
    names::hex,
};

/// Form of the fingerprint. Approvals of an older form are asked for again.
pub(super) const FORM: u32 = 2;

/// Part of the fingerprint of a server whose approval shows that Orchestra cannot tell which files the server runs.
const NOTICE: &str = "the notice that Orchestra cannot tell which files this command runs";

/// Fingerprint of a server: a digest of everything that its file has about it, and of the files of the workspace
/// that it [covers](Covered). Doubts about further files are a part of it.
///
/// Texts are taken as they were written, `${…}` included. Not part of it are the server's place in its file, whether
/// it is switched on, and the user's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    digest: String,
    parts: BTreeMap<String, String>,
}

impl Fingerprint {
    /// The fingerprint of a server with the files that it covers.
    #[must_use]
    pub fn of(config: &ServerConfig, covered: &Covered) -> Self {
        Self::of_parts(parts(config, covered))
    }

    fn of_parts(parts: BTreeMap<String, String>) -> Self {
        let whole = json!({ "form": FORM, "parts": parts });
        Self {
            digest: digest(&whole),
            parts,
        }
    }

    /// Returns whether the approval shows that Orchestra cannot tell which files the server runs.
    pub(super) fn has_notice(&self) -> bool {
        self.parts.contains_key(NOTICE)
    }

    /// The fingerprint of the same server with that notice.
    pub(super) fn with_notice(&self) -> Self {
        let mut parts = self.parts.clone();
        parts.insert(NOTICE.to_owned(), digest(&json!(true)));
        Self::of_parts(parts)
    }

    /// The fingerprint of the definition alone.
    #[must_use]
    pub fn of_definition(config: &ServerConfig) -> Self {
        Self::of(config, &Covered::default())
    }

    /// The digest, as hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.digest
    }

    /// Names what differs in a later fingerprint.
    pub(crate) fn changes(&self, now: &Self) -> Vec<String> {
        differences(&self.parts, &now.parts)
    }

    /// Digests of the parts, by what they are called for people.
    pub(super) const fn parts(&self) -> &BTreeMap<String, String> {
        &self.parts
    }
}

fn digest(value: &Value) -> String {
    hex(&Sha256::digest(canonical::text(value).as_bytes()))
}

fn parts(config: &ServerConfig, covered: &Covered) -> BTreeMap<String, String> {
    let mut parts = BTreeMap::new();
    let mut put = |name: String, value: &Value| {
        parts.insert(name, digest(value));
    };
    if let Value::Object(members) = config.to_json(Values::Kept) {
        for (key, value) in &members {
            match (key.as_str(), value) {
                // Headers are below: an object has each name once.
                ("disabled" | "headers", _) => {}
                ("args", Value::Array(words)) => {
                    for (index, word) in words.iter().enumerate() {
                        put(format!("argument {}", index + 1), word);
                    }
                }
                ("env", Value::Object(pairs)) => {
                    for (name, value) in pairs {
                        put(format!("the variable {name}"), value);
                    }
                }
                ("command" | "binary", value) => put("the program".to_owned(), value),
                ("cwd", value) => put("the working directory".to_owned(), value),
                ("url", value) => put("the URL".to_owned(), value),
                (key, value) => put(format!("the setting {key}"), value),
            }
        }
    }
    match &config.transport {
        Transport::Plugin(plugin) => {
            // The same path of a program starts elsewhere, and another plugin may have the same name.
            put("the id".to_owned(), &json!(plugin.id.as_str()));
            let beside = path_text(&plugin.directory);
            put("the directory of its list".to_owned(), &json!(beside));
        }
        Transport::Http(http) => {
            let mut headers: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
            for (index, (name, value)) in http.headers.iter().enumerate() {
                let values = headers.entry(name).or_default();
                values.push(json!([index, value.written()]));
            }
            for (name, values) in headers {
                put(format!("the header {name}"), &Value::Array(values));
            }
        }
        Transport::Stdio(_) | Transport::Orchestrator(_) => {}
    }
    let directory = path_text(config.directory());
    put("the directory of its file".to_owned(), &json!(directory));
    for (id, value) in inputs(config) {
        put(format!("the input {id}"), &value);
    }
    for (path, target) in covered.targets() {
        let name = format!("the target of {}", path_text(path));
        put(name, &json!(path_text(target)));
    }
    for (path, content) in covered.files() {
        let value = match content {
            Content::Digest(digest) => json!(["digest", digest]),
            Content::Long(changed) => json!(["long", changed]),
            Content::Outside(target) => json!(["outside", path_text(target)]),
            Content::Unreadable(why) => json!(["unreadable", why]),
        };
        put(format!("the file {}", path_text(path)), &value);
    }
    if covered.is_unclear() {
        put(NOTICE.to_owned(), &json!(true));
    }
    parts
}

/// Values that the file gives to the inputs that the server refers to.
fn inputs(config: &ServerConfig) -> Vec<(String, Value)> {
    let references = expand::references(config).into_iter();
    let inputs = references.filter_map(|reference| match reference {
        Reference::Input(id) => {
            let Input {
                default, is_secret, ..
            } = config.inputs.get(&id)?;
            Some((id, json!([default, is_secret])))
        }
        Reference::Variable(_) | Reference::Directory(_) => None,
    });
    inputs.collect()
}

/// Number of changes that are named.
const MAX_NAMED: usize = 12;

/// Names what differs between the parts of two fingerprints. `before` is empty where they were too many to be stored.
pub(super) fn differences(
    before: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Vec<String> {
    if before.is_empty() {
        return vec!["something of it changed".to_owned()];
    }
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    let mut all: Vec<String> = gone.map(|name| format!("{name} is gone")).collect();
    for (name, digest) in now {
        match before.get(name) {
            None => all.push(format!("{name} is new")),
            Some(known) if known != digest => all.push(format!("{name} changed")),
            Some(_) => {}
        }
    }
    if all.len() > MAX_NAMED {
        let more = all.len() - MAX_NAMED;
        all.truncate(MAX_NAMED);
        all.push(format!("{more} more changes"));
    }
    all
}
