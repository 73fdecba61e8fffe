//! Entries that clients may start by the name of this program, although its own reading of a file has none or another.

use std::collections::BTreeSet;

use super::{
    ServerName,
    fields::same,
    node::{Node, Path},
    shape::{Kind, Named, SERVERS},
};

/// Keys by which clients start or reach a server, in their spelling.
const KEYS: [&str; 8] = [
    "args", "command", "cwd", "env", "envFile", "headers", "type", "url",
];

/// Returns the entries with a name of this program that are not among the `read` ones, of each table in which a client
/// looks for servers.
pub(super) fn namesakes<'a>(root: &'a Node, read: &[Named<'_>]) -> Vec<Named<'a>> {
    let top = Path::default();
    let mut tables = Vec::new();
    for table in root.members().unwrap_or_default() {
        let path = top.key(&table.key);
        let is_shared = table.key == "mcp";
        if is_shared {
            let within = table.node.members().unwrap_or_default().iter();
            let within = within.filter(|member| member.key == "servers");
            tables.extend(within.map(|member| (path.key(&member.key), &member.node)));
        }
        if is_shared || SERVERS.contains(&table.key.as_str()) {
            tables.push((path, &table.node));
        }
    }
    let is_read = |node: &Node| read.iter().any(|named| std::ptr::eq(named.node, node));
    let mut found = Vec::new();
    for (path, table) in tables {
        for server in table.members().unwrap_or_default() {
            let is_entry = server.node.members().is_some() && !is_read(&server.node);
            if is_entry && ServerName::of_text(&server.key).is_of_program() {
                found.push(Named {
                    name: &server.key,
                    place: server.place,
                    path: path.key(&server.key),
                    node: &server.node,
                    kind: Kind::Server,
                });
            }
        }
    }
    found
}

/// Returns the reason for which clients may read an entry in another way than this program. They compare keys exactly,
/// and differ in which one of repeated keys counts.
pub(super) fn misreading(entry: &Node) -> Option<String> {
    let mut known = BTreeSet::new();
    for member in entry.members()? {
        let key = member.key.as_str();
        // This program reads both as variables.
        let is_alias = same("environment", key);
        let name = KEYS.into_iter().find(|name| same(name, key));
        let name = name.or(is_alias.then_some("env")).unwrap_or(key);
        if name != key && !is_alias {
            let shown = orchestra_secret::excerpt(key, 64);
            return Some(format!(
                "it has the key `{shown}`, which clients do not read as `{name}`"
            ));
        }
        if !known.insert(name) {
            let shown = orchestra_secret::excerpt(name, 64);
            return Some(format!("it has the key `{shown}` more than once"));
        }
    }
    None
}
