//! Entries that clients may start by the name of this program, although its own reading of a file has none or another.

use std::collections::BTreeSet;

use super::{
    ServerName,
    fields::same,
    node::{Member, Node, Path},
    shape::{Kind, Named, SERVERS, SHARED},
};

/// Keys by which clients start or reach a server, in their spelling.
const KEYS: [&str; 8] = [
    "args", "command", "cwd", "env", "envFile", "headers", "type", "url",
];

/// Table of servers in the table [`SHARED`].
const NESTED: &str = "mcp.servers";

/// Returns the entries with a name of this program that are not among the `read` ones, of each table in which a client
/// looks for servers. Some clients look for them in [`SHARED`] itself.
pub(super) fn namesakes<'a>(root: &'a Node, read: &[Named<'_>]) -> Vec<Named<'a>> {
    let mut found = Vec::new();
    for table in SERVERS.into_iter().chain([SHARED, NESTED]) {
        entries(root, table, &Path::default(), &mut found);
    }
    found.retain(|named| {
        !read
            .iter()
            .any(|other| std::ptr::eq(other.node, named.node))
    });
    found
}

/// Adds the entries with a name of this program of a table at a path of keys. A key with dots is read as several keys, as
/// VS Code reads it. So it may also name an entry of the table, or a part of one.
fn entries<'a>(node: &'a Node, table: &str, path: &Path, found: &mut Vec<Named<'a>>) {
    for member in node.members().unwrap_or_default() {
        let key = member.key.as_str();
        if key == table {
            let path = path.key(key);
            let servers = member.node.members().unwrap_or_default().iter();
            let servers = servers.filter(|server| server.node.members().is_some());
            found.extend(servers.filter_map(|server| entry(server, &server.key, &path)));
        } else if let Some(rest) = behind(key, table) {
            entries(&member.node, rest, &path.key(key), found);
        } else if let Some(rest) = behind(table, key) {
            let name = rest.split('.').next().unwrap_or(rest);
            found.extend(entry(member, name, path));
        }
    }
}

/// Returns the keys of a path that follow the keys at its beginning.
fn behind<'k>(start: &str, path: &'k str) -> Option<&'k str> {
    path.strip_prefix(start)?.strip_prefix('.')
}

/// Returns a member of an object as an entry, if it has a name of this program.
fn entry<'a>(member: &'a Member, name: &'a str, above: &Path) -> Option<Named<'a>> {
    ServerName::of_text(name).is_of_program().then(|| Named {
        name,
        place: member.place,
        path: above.key(&member.key),
        node: &member.node,
        kind: Kind::Server,
    })
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
