//! Names for values that may be secrets, for a file that is shared: one for each value.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::secrets::Slot;
use crate::{
    config::{Auth, ServerConfig, Transport},
    expand,
};

/// Variables that stand for values of servers.
#[derive(Clone, Default)]
pub struct Variables {
    /// By the name that a value has in its server, as a variable has it, and the value itself.
    names: BTreeMap<(String, String), String>,
    /// Those that stood there already, with a value for where they are not set.
    bare: BTreeSet<String>,
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
        let slots: Vec<Vec<Slot>> = servers.iter().map(|server| candidates(server)).collect();
        let mut values: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for slot in slots.iter().flatten() {
            if let Some((_, secret)) = slot.parts() {
                values
                    .entry(variable(&slot.name))
                    .or_default()
                    .insert(secret);
            }
        }
        let bare = slots.iter().flatten().flat_map(|slot| slot.bare.clone());
        let bare = bare.collect();
        let mut taken = referred.clone();
        let mut names = BTreeMap::new();
        for (server, slots) in servers.iter().zip(&slots) {
            for slot in slots {
                let Some((_, secret)) = slot.parts() else {
                    continue;
                };
                let name = variable(&slot.name);
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
        Self { names, bare }
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let names = self.names.values().chain(&self.bare);
        let names: BTreeSet<&str> = names.map(String::as_str).collect();
        names.into_iter().collect()
    }

    /// What is written instead of a text.
    pub(super) fn instead_of(&self, slot: &Slot) -> String {
        let known = slot.parts().and_then(|(before, secret)| {
            let key = (variable(&slot.name), secret.to_owned());
            Some(format!("{before}${{{}}}", self.names.get(&key)?))
        });
        known.unwrap_or_else(|| slot.text.clone())
    }
}

/// The texts of a server that may hold secrets.
fn candidates(server: &ServerConfig) -> Vec<Slot> {
    match &server.transport {
        Transport::Stdio(stdio) => {
            let env = stdio.env.iter();
            let env = env.map(|(name, value)| Slot::value(name, value));
            env.chain(Slot::words(&stdio.args)).collect()
        }
        Transport::Http(http) => {
            let headers = http.headers.iter();
            let headers = headers.map(|(name, value)| Slot::value(name, value));
            let mut slots: Vec<Slot> = headers.chain([Slot::address(&http.url)]).collect();
            match &http.auth {
                Some(Auth::Bearer(token)) => slots.push(Slot::value("TOKEN", token)),
                Some(Auth::Command { command, args }) => {
                    slots.extend(Slot::words(std::iter::once(command).chain(args)));
                }
                Some(Auth::OAuth(oauth)) => {
                    slots.extend(
                        oauth
                            .secrets()
                            .into_iter()
                            .map(|secret| Slot::named(secret.written())),
                    );
                }
                Some(Auth::Env(_)) | None => {}
            }
            slots
        }
        Transport::Plugin(plugin) => {
            let pairs = plugin.env.iter().chain(&plugin.config);
            let pairs = pairs.map(|(name, value)| Slot::value(name, value));
            pairs.chain(Slot::words(&plugin.args)).collect()
        }
        Transport::Orchestrator(_) => Vec::new(),
    }
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
