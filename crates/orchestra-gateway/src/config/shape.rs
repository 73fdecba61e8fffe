//! The shapes that files of servers have: where the servers stand, and what holds for all of them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Effect, Input, Place, Retry,
    fields::Fields,
    misnamed::misnamed,
    node::{Member, Node, Path, Value},
    plugin_list::Wording,
    report::Report,
    server::{self, Shared},
};

/// Tables of servers. The first that is present counts.
pub(super) const SERVERS: [&str; 4] = ["mcpServers", "mcp_servers", "context_servers", "servers"];

/// Table of the settings of all servers. It may have a table `servers` in it.
pub(super) const SHARED: &str = "mcp";

/// The servers of a file.
#[derive(Default)]
pub(super) struct Section<'a> {
    pub(super) servers: Vec<Named<'a>>,
    /// Servers with a name of this program that are not among them, although a client may start them.
    pub(super) hidden: Vec<Named<'a>>,
    pub(super) shared: Shared,
    /// Whether the file has one of the known shapes.
    pub(super) is_known: bool,
}

pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) place: Place,
    pub(super) path: Path,
    pub(super) node: &'a Node,
    pub(super) kind: Kind,
}

/// What an object describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A server of MCP, or an orchestrator elsewhere.
    Server,
    /// A plugin.
    Plugin(Wording),
}

/// What a file is there for, as far as its name and whoever chose it tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Purpose {
    /// Servers, rather than the settings of a program with servers among them.
    pub(super) is_of_servers: bool,
    /// The configuration of this program.
    pub(super) is_ours: bool,
}

/// Finds the servers, and what holds for all of them, wherever they stand. A file may hold much else,
/// which is not ours to judge; one that looks like none of the known shapes is told so, but for a
/// file with the settings of a program. In the configuration of this program there may be plugins as
/// well, and servers in two places.
pub(super) fn shape<'a>(root: &'a Node, purpose: Purpose, report: &'a Report) -> Section<'a> {
    let top = Path::default();
    let mut section = Section::default();
    let Some(members) = root.members() else {
        if root.value != Value::Null {
            let message = format!("must be an object, not {}", root.value.kind());
            report.error(root.place, &top, message);
            section.shared.misread();
        }
        return section;
    };
    let found = SERVERS.iter().find_map(|name| root.member(name));
    let own = root.member(SHARED);
    let plugins = root.member("plugins").filter(|_| purpose.is_ours);
    let is_known = found.is_some() || own.is_some() || plugins.is_some();
    section.is_known = is_known;
    if let Some(alone) = alone(root).filter(|_| !is_known) {
        section.servers.push(alone);
        section.is_known = true;
        return section;
    }
    let shared = &mut section.shared;
    if let Some(member) = own {
        let path = top.key(SHARED);
        let within = read_shared(member, &path, shared, report);
        match (found, within) {
            (Some(_), Some(within)) if purpose.is_ours => {
                section.servers = servers(within, &path.key("servers"), report);
            }
            (Some(found), Some(within)) => {
                let message = format!("is not read beside `{}`; put them there", found.key);
                report.error(within.place, &path.key(&within.key), message);
            }
            (None, Some(within)) => {
                section.servers = servers(within, &path.key("servers"), report);
            }
            (_, None) => {}
        }
    }
    if let Some(member) = found {
        let listed = root.member("inputs").filter(|_| member.key == "servers");
        if let Some(listed) = listed {
            shared.inputs = Arc::new(inputs(&listed.node, report));
        }
        let here = servers(member, &top.key(&member.key), report);
        section.servers.extend(here);
    }
    if let Some(member) = plugins {
        let named = servers(member, &top.key(&member.key), report).into_iter();
        section.servers.extend(named.map(|named| Named {
            kind: Kind::Plugin(Wording::Ours),
            ..named
        }));
    }
    let is_of_servers = purpose.is_of_servers;
    if !is_known {
        told_unknown(root, members, is_of_servers, shared, report);
    }
    if (is_known || is_of_servers)
        && let Some(mut fields) = Fields::of(root, &top, report)
    {
        read_default(&mut fields, shared);
    }
    section
}

impl Shared {
    /// What cannot be understood must not let calls through.
    fn misread(&mut self) {
        self.default = Some(Effect::Deny);
        self.is_misread = true;
    }
}

/// The whole file as one server.
fn alone(root: &Node) -> Option<Named<'_>> {
    let name = root.member("name")?.node.text()?;
    let reached = ["command", "baseURL", "url", "transport"];
    let is_reached = reached.iter().any(|key| root.member(key).is_some());
    is_reached.then(|| Named {
        name,
        place: root.place,
        path: Path::default(),
        node: root,
        kind: Kind::Server,
    })
}

/// Says what is likely to be meant by a file without servers.
fn told_unknown(
    root: &Node,
    members: &[Member],
    is_of_servers: bool,
    shared: &mut Shared,
    report: &Report,
) {
    let of_servers = |member: &Member| {
        let is_reached = |key: &&str| member.node.member(key).is_some();
        ["command", "url"].iter().any(is_reached)
    };
    if members.iter().any(of_servers) {
        let message = "contains no servers in the expected place; put them below `mcpServers`";
        report.error(root.place, &Path::default(), message);
    } else if let Some(member) = misnamed(members, is_of_servers, report)
        && member.node.member("default").is_some()
    {
        shared.misread();
    }
}

fn servers<'a>(member: &'a Member, path: &Path, report: &Report) -> Vec<Named<'a>> {
    let Some(members) = member.node.entries() else {
        if member.node.value != Value::Null {
            let message = format!(
                "must be an object of servers, not {}",
                member.node.value.kind()
            );
            report.error(member.node.place, path, message);
        }
        return Vec::new();
    };
    let named = members.iter().map(|server| Named {
        name: &server.key,
        place: server.place,
        path: path.key(&server.key),
        node: &server.node,
        kind: Kind::Server,
    });
    named.collect()
}

/// `mcp`: what holds for all servers, and maybe these themselves.
fn read_shared<'a>(
    member: &'a Member,
    path: &Path,
    shared: &mut Shared,
    report: &'a Report,
) -> Option<&'a Member> {
    let Some(mut fields) = Fields::of(&member.node, path, report) else {
        shared.misread();
        return None;
    };
    shared.disabled = !fields.flag(&["enabled"]).unwrap_or(true);
    if let Some(mut inner) = fields.object(&["retry"]) {
        shared.retry = server::retry(&mut inner, Retry::default());
        let _told = inner.end();
    }
    let second = Duration::from_secs(1);
    let day = Duration::from_secs(86_400);
    shared.health_interval = fields.duration(&["health_check_interval"], second..=day);
    let calls = fields.number(&["max_concurrent"], 1..=100);
    shared.concurrency = calls.and_then(|calls| u32::try_from(calls).ok());
    if let Some(listed) = fields.take(&["inputs"]) {
        shared.inputs = Arc::new(inputs(&listed.node, report));
    }
    read_default(&mut fields, shared);
    fields.ignore(&["prefer_mcp"]);
    let found = fields.take(&["servers"]);
    // What is wrong beside the servers is told, and harms none of them.
    let _told = fields.end();
    found
}

/// `default`, in `mcp` and beside the servers; the stricter of both.
fn read_default(fields: &mut Fields<'_>, shared: &mut Shared) {
    let said = server::default(fields);
    if said.is_none() && fields.take(&["default"]).is_some() {
        shared.misread();
    }
    shared.default = shared.default.max(said);
}

/// `inputs`: what `${input:ID}` may mean.
fn inputs(node: &Node, report: &Report) -> BTreeMap<String, Input> {
    let path = Path::default().key("inputs");
    let Value::List(items) = &node.value else {
        let message = format!("must be a list, not {}", node.value.kind());
        report.warn(node.place, &path, message);
        return BTreeMap::new();
    };
    let read = |item: &Node| {
        let text = |key: &str| {
            let member = item.member(key)?;
            member.node.text().map(str::to_owned)
        };
        let is_secret = item
            .member("password")
            .is_some_and(|member| member.node.value == Value::Bool(true));
        let input = Input {
            description: text("description"),
            default: text("default"),
            is_secret,
        };
        Some((text("id")?, input))
    };
    items.iter().filter_map(read).collect()
}
