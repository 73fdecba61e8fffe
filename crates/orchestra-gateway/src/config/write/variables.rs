//! Names for values that may be secrets, for a file that is shared: one for each value.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use orchestra_hub::names_secret;

use crate::{
    config::{Auth, ServerConfig, Template, Transport},
    expand,
};

/// What is written before a secret in a header, in small letters.
const SCHEMES: [&str; 5] = ["bearer", "basic", "token", "apikey", "bot"];

/// Words that are no secrets, in small letters.
const PLAIN: [&str; 16] = [
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "none",
    "trace",
    "debug",
    "info",
    "warn",
    "warning",
    "error",
    "development",
    "production",
    "application/json",
];

/// Parts of names whose values are secrets even where they are short.
const SECRETIVE: [&str; 7] = ["KEY", "PIN", "PASS", "PWD", "CODE", "AUTH", "CRED"];

/// A longer number may be a secret.
const MAX_DIGITS: usize = 5;

/// Variables that stand for values of servers.
#[derive(Clone, Default)]
pub struct Variables {
    /// By the name that a value has in its server, as a variable has it, and the value itself.
    names: BTreeMap<(String, String), String>,
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names.values()).finish()
    }
}

impl Variables {
    /// Variables for all values of these servers that may be secrets. One that several have under one
    /// name is one variable; where they have different ones, the name of the server stands before it.
    #[must_use]
    pub fn of(servers: &[&ServerConfig]) -> Self {
        let references = servers.iter().flat_map(|server| expand::references(server));
        let referred: BTreeSet<String> = references.filter_map(|one| one.variable()).collect();
        let mut values: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for (name, value) in servers.iter().flat_map(|server| candidates(server)) {
            if let Some((_, secret)) = parts(name, value) {
                values.entry(variable(name)).or_default().insert(secret);
            }
        }
        let mut taken = referred.clone();
        let mut names = BTreeMap::new();
        for server in servers {
            for (name, value) in candidates(server) {
                let Some((_, secret)) = parts(name, value) else {
                    continue;
                };
                let name = variable(name);
                let key = (name.clone(), secret.to_owned());
                if names.contains_key(&key) {
                    continue;
                }
                let is_one = values[&name].len() == 1 && !referred.contains(&name);
                let wanted = match is_one {
                    true => name,
                    false => variable(&format!("{}_{name}", server.name)),
                };
                let mut free = wanted.clone();
                let mut count = 1;
                while !taken.insert(free.clone()) {
                    count += 1;
                    free = format!("{wanted}_{count}");
                }
                names.insert(key, free);
            }
        }
        Self { names }
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let names: BTreeSet<&str> = self.names.values().map(String::as_str).collect();
        names.into_iter().collect()
    }

    /// What is written instead of a value.
    pub(super) fn instead_of(&self, name: &str, value: &Template) -> String {
        let known = parts(name, value).and_then(|(scheme, secret)| {
            let key = (variable(name), secret.to_owned());
            Some(format!("{scheme}${{{}}}", self.names.get(&key)?))
        });
        known.unwrap_or_else(|| value.written().to_owned())
    }
}

/// The values of a server that may be secrets, with their names.
fn candidates(server: &ServerConfig) -> Vec<(&str, &Template)> {
    match &server.transport {
        Transport::Stdio(stdio) => {
            let env = stdio.env.iter();
            env.map(|(name, value)| (name.as_str(), value)).collect()
        }
        Transport::Http(http) => {
            let headers = http.headers.iter();
            let headers = headers.map(|(name, value)| (name.as_str(), value));
            let token = match &http.auth {
                Some(Auth::Bearer(token)) => Some(("TOKEN", token)),
                _ => None,
            };
            headers.chain(token).collect()
        }
    }
}

/// What stands before a secret, and the secret; `None` for what is none.
fn parts<'a>(name: &str, value: &'a Template) -> Option<(&'a str, &'a str)> {
    let value = value.written();
    // What refers to something is none.
    if value.is_empty() || value.contains("${") || is_plain(name, value) {
        return None;
    }
    let scheme = value.find(' ').map_or(0, |end| end + 1);
    let is_scheme = SCHEMES.contains(&value[..scheme].trim_end().to_ascii_lowercase().as_str());
    Some(match is_scheme && scheme < value.len() {
        true => value.split_at(scheme),
        false => ("", value),
    })
}

fn is_plain(name: &str, value: &str) -> bool {
    let is_number = value.len() <= MAX_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = PLAIN.contains(&value.to_ascii_lowercase().as_str());
    let upper = name.to_ascii_uppercase();
    let is_secretive = names_secret(name) || SECRETIVE.iter().any(|part| upper.contains(part));
    (is_number || is_word) && !is_secretive
}

/// A name as variables have it.
fn variable(name: &str) -> String {
    let letters = name.chars().map(|c| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_uppercase(),
        false => '_',
    });
    let mark = name
        .starts_with(|c: char| c.is_ascii_digit())
        .then_some('_');
    mark.into_iter().chain(letters).collect()
}
