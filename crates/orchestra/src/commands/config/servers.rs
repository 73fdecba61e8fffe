//! The servers of others that `orchestra.toml` names, key by key. Nothing that may be a secret is
//! shown: of values of the environment, of headers and of tokens only what they refer to.

use std::collections::BTreeSet;

use orchestra_gateway::config::{Origin, ServerConfig, Transport, Values};
use orchestra_secret::{MASK, Masker};
use serde_json::Value;

use super::Row;
use crate::{
    commands::mcp::words,
    config::{Config, FILE},
    output,
    servers::{self, ServerFlags},
};

/// What of a sign-in is no secret.
const OPEN: [&str; 8] = [
    "type",
    "variable",
    "client_id",
    "idp_client_id",
    "idp_token_endpoint",
    "scopes",
    "redirect_port",
    "algorithm",
];

/// Every key of the servers in the configuration files of the workspace and of the user; of servers
/// of one name those of the stronger file. What is wrong with them is said.
pub(super) fn rows(config: &Config) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut known = BTreeSet::new();
    let files = servers::places(config, &ServerFlags::default())
        .files()
        .into_iter();
    for file in files.filter(|file| file.path.ends_with(FILE)) {
        let Some(contents) = file.read() else {
            continue;
        };
        for diagnostic in &contents.diagnostics {
            output::complain(&output::printable(&diagnostic.to_string()));
        }
        for written in contents.servers {
            if known.insert(written.name)
                && let Ok(config) = &written.config
            {
                rows.extend(of_server(config, &written.origin));
            }
        }
    }
    if rows.is_empty() {
        rows.push(Row {
            key: "mcp.servers".to_owned(),
            value: "{}".to_owned(),
            meaning:
                "upstream MCP servers, as described in docs/servers.md; `orchestra mcp list` shows those of all files"
                    .to_owned(),
            origin: crate::config::Origin::Default.to_string(),
            is_set: false,
        });
    }
    rows
}

fn of_server(config: &ServerConfig, origin: &Origin) -> Vec<Row> {
    let Value::Object(keys) = config.to_json(Values::Kept) else {
        return Vec::new();
    };
    let section = match &config.transport {
        Transport::Plugin(plugin) => format!("plugins.\"{}\"", plugin.id),
        _ => format!("mcp.servers.{}", config.name),
    };
    let what = match &config.transport {
        Transport::Plugin(_) => format!("the plugin {}", config.shown_name),
        _ => format!("the server {}", config.name),
    };
    let rows = keys
        .into_iter()
        .enumerate()
        .filter_map(|(place, (key, kept))| {
            let shown = harmless(config, &key, &kept);
            let meaning = match (place, shown == kept) {
                (0, true) => what.clone(),
                (0, false) => format!("{what}; secrets are left out"),
                (_, true) => String::new(),
                (_, false) => "secrets are left out".to_owned(),
            };
            Some(Row {
                key: format!("{section}.{key}"),
                value: toml::Value::try_from(&shown).ok()?.to_string(),
                meaning,
                origin: origin.to_string(),
                is_set: shown == kept,
            })
        });
    rows.collect()
}

/// The value of a key without what may be a secret.
fn harmless(config: &ServerConfig, key: &str, value: &Value) -> Value {
    match (key, &config.transport) {
        ("url", Transport::Http(_)) => words::target(config).into(),
        ("args", _) => arguments(value),
        ("env" | "headers" | "config", _) => members(value, |_, value| references(value)),
        ("auth", _) => members(value, |name, value| match name {
            "command" => arguments(value),
            name if OPEN.contains(&name) || name.ends_with("_file") => value.clone(),
            _ => references(value),
        }),
        _ => value.clone(),
    }
}

fn arguments(value: &Value) -> Value {
    let words = value.as_array().into_iter().flatten();
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    Masker::default().arguments(&words).into()
}

fn members(value: &Value, shown: impl Fn(&str, &Value) -> Value) -> Value {
    let members = value.as_object().into_iter().flatten();
    let members = members.map(|(name, value)| (name.clone(), shown(name, value)));
    Value::Object(members.collect())
}

/// What a text refers to, and the scheme before it; its own words and defaults are left out.
fn references(value: &Value) -> Value {
    const SCHEMES: [&str; 4] = ["", "Bearer ", "Basic ", "Token "];
    let mut shown = String::new();
    let own = |text: &'_ str| match SCHEMES.iter().find(|scheme| **scheme == text) {
        Some(scheme) => *scheme,
        None => MASK,
    };
    let mut rest = value.as_str().unwrap_or_default();
    while let Some(start) = rest.find("${")
        && let Some(length) = rest[start..].find('}')
    {
        let reference = &rest[start..=start + length];
        shown.push_str(own(&rest[..start]));
        match reference.split_once(":-") {
            Some((name, _)) => shown.push_str(&format!("{name}:-{MASK}}}")),
            None => shown.push_str(reference),
        }
        rest = &rest[start + length + 1..];
    }
    shown.push_str(own(rest));
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_text_only_what_it_refers_to_is_shown() {
        for (text, expected) in [
            ("", ""),
            ("s3cret", "***"),
            ("${TOKEN}", "${TOKEN}"),
            ("Bearer ${env:TOKEN}", "Bearer ${env:TOKEN}"),
            ("Bearer s3cret", "***"),
            ("${TOKEN:-s3cret}", "${TOKEN:-***}"),
            ("s3cret${A}s3cret${B}", "***${A}***${B}"),
            ("${A:-${B:-s3cret}}", "${A:-***}***"),
            ("${A", "***"),
        ] {
            assert_eq!(references(&text.into()), expected, "{text}");
        }
    }
}
