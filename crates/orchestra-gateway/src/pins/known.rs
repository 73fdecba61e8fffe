//! What is known of a server: what it offers, what of it was approved, and its form on disk.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use orchestra_hub::{ListKind, LongWork};
use orchestra_mcp::client::ServerFacts;
use orchestra_wire::{Member, RawJson, Rope, write};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Change;
use crate::{
    canonical,
    config::{Pins as Mode, ServerConfig, ServerName},
    definitions, files, names,
};

/// The version of the files; a newer one is left alone.
const VERSION: u32 = 1;

/// Maximum number of tools that are pinned when they are first seen. Further tools are hidden until the user approves
/// them. If earlier pins were deleted for them, a changed tool would pass as a new one.
const MAX_PINNED: usize = 20_000;

/// Number of bytes of pinned definitions from which further tools are hidden in the same way: many full lists of a
/// server.
const MAX_PINNED_BYTES: usize = 16 * 1024 * 1024;

/// Members of a tool that pins of the first form covered; those of the second cover all.
const FIRST_PINNED: [&str; 6] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// Members, members in them and their values with which servers report tasks: one or the other by the revision of MCP.
const BY_REVISION: [(&str, &str, &[&str]); 2] = [
    (
        "execution",
        "taskSupport",
        &["forbidden", "optional", "required"],
    ),
    ("_meta", LongWork::META, &["may", "must"]),
];

/// What a server offers, verbatim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) tools: Vec<RawJson>,
    pub(crate) prompts: Vec<RawJson>,
    pub(crate) resources: Vec<RawJson>,
    pub(crate) templates: Vec<RawJson>,
    pub(crate) facts: Facts,
    /// For each list, in the order of [`ListKind::ALL`], the reason that further definitions of it are omitted. It is
    /// not stored.
    pub(crate) omitted: [Option<String>; 4],
}

/// What a server says of itself, as far as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    pub(crate) instructions: Option<String>,
    /// Its name and version, as JSON.
    pub(crate) info: String,
    pub(crate) resources: bool,
    pub(crate) subscribe: bool,
    pub(crate) completions: bool,
}

impl Facts {
    /// What a server has said.
    pub(crate) fn of(said: &ServerFacts) -> Self {
        let info = said.info.as_ref();
        let info = info.map(|info| info.as_str().to_owned());
        Self {
            instructions: said.instructions.clone(),
            info: info.unwrap_or_default(),
            resources: said.can.resources.is_some(),
            subscribe: said.can.subscribe,
            completions: said.can.completions,
        }
    }
}

/// What is known of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) lists: Lists,
    /// Definitions of tools that only some clients see.
    of_clients: Vec<RawJson>,
    /// By name of the tool: its definition as it was approved.
    pinned: BTreeMap<String, RawJson>,
    /// Number of bytes of these definitions.
    pinned_bytes: usize,
    /// The server whose name begins the shown names; `None` if names pass unchanged.
    prefix: Option<ServerName>,
    /// By each name by which a pinned tool may be shown: the name of that tool.
    by_form: BTreeMap<String, String>,
    /// What was approved before is not known any more: a tool that is not pinned was not approved.
    is_lost: bool,
    /// Only the tools were listed so far, by a command that shows them.
    is_partial: bool,
}

/// What is known of a server, in its file.
#[derive(Serialize, Deserialize, Default)]
pub(super) struct OnDisk {
    version: u32,
    #[serde(default)]
    server: String,
    #[serde(default)]
    facts: Facts,
    #[serde(default)]
    tools: Vec<Box<RawValue>>,
    #[serde(default)]
    prompts: Vec<Box<RawValue>>,
    #[serde(default)]
    resources: Vec<Box<RawValue>>,
    #[serde(default)]
    templates: Vec<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    of_clients: Vec<Box<RawValue>>,
    pinned: BTreeMap<String, Box<RawValue>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
    /// Set if the pins cover every member of a tool.
    #[serde(default)]
    whole: bool,
}

impl OnDisk {
    /// Whether a newer version of this program has written it.
    pub(super) const fn is_newer(&self) -> bool {
        self.version > VERSION
    }
}

impl files::Kept for OnDisk {
    fn lost() -> Self {
        Self {
            lost: true,
            ..Self::default()
        }
    }
}

impl Known {
    /// Whether a tool is as it was approved.
    pub(crate) fn approves(&self, name: &str, definition: &RawJson) -> bool {
        let pinned = self.pin(name);
        pinned.map_or(self.takes_new(), |pinned| {
            pinned == definition || whole_hash(pinned) == whole_hash(definition)
        })
    }

    /// Sets the prefix of shown names.
    pub(super) fn shown_with(mut self, prefix: Option<ServerName>) -> Self {
        self.prefix = prefix;
        self.index();
        self
    }

    /// Collects the names by which pinned tools may be shown, and counts their bytes.
    fn index(&mut self) {
        self.pinned_bytes = self.pinned.values().map(|raw| raw.as_bytes().len()).sum();
        let forms = |name: &String| {
            let forms = names::forms(self.prefix.as_ref(), name).into_iter();
            forms.map(|form| (form, name.clone())).collect::<Vec<_>>()
        };
        self.by_form = self.pinned.keys().flat_map(forms).collect();
    }

    /// The pin that counts for a tool: its own, else that of a tool that may have been shown by the same name. The latter
    /// has another `name`, so that it approves no definition of this tool.
    fn pin(&self, name: &str) -> Option<&RawJson> {
        self.pinned
            .get(name)
            .or_else(|| self.pinned.get(self.replaced(name)?))
    }

    /// The name of another pinned tool that may have been shown by the same name.
    fn replaced(&self, name: &str) -> Option<&String> {
        let mut forms = names::forms(self.prefix.as_ref(), name).into_iter();
        forms.find_map(|form| self.by_form.get(&form).filter(|other| *other != name))
    }

    /// Pins a tool.
    fn set_pin(&mut self, name: String, definition: RawJson) {
        for form in names::forms(self.prefix.as_ref(), &name) {
            self.by_form.insert(form, name.clone());
        }
        self.pinned_bytes += definition.as_bytes().len();
        let before = self.pinned.insert(name, definition);
        self.pinned_bytes -= before.map_or(0, |before| before.as_bytes().len());
    }

    /// Names of the pinned tools.
    pub(crate) fn pinned_names(&self) -> impl Iterator<Item = &str> {
        self.pinned.keys().map(String::as_str)
    }

    /// Returns whether a tool that is not pinned is new, and taken as it is.
    fn takes_new(&self) -> bool {
        !self.is_lost && !self.has_many_pins()
    }

    fn has_many_pins(&self) -> bool {
        self.pinned.len() >= MAX_PINNED || self.pinned_bytes >= MAX_PINNED_BYTES
    }

    /// Of a server of which it is not known any more what was approved.
    pub(super) fn lost() -> Self {
        Self {
            is_lost: true,
            ..Self::default()
        }
    }

    /// Of a server of which nothing was listed.
    pub(super) fn partial() -> Self {
        Self {
            is_partial: true,
            ..Self::default()
        }
    }

    /// Whether at most the tools were listed.
    pub(super) const fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Whether it is not known any more what was approved before.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Names of the tools that are listed or pinned.
    pub(crate) fn tool_names(&self) -> BTreeSet<String> {
        let name = |item: &RawJson| item.member("name")?.parse::<String>().ok();
        let listed = self.lists.tools.iter().filter_map(name);
        listed.chain(self.pinned.keys().cloned()).collect()
    }

    /// How many tools are pinned.
    pub(crate) fn pinned(&self) -> usize {
        self.pinned.len()
    }

    /// Takes changes as approved; answers the names of their tools.
    pub(super) fn approve(&mut self, changes: Vec<Change>) -> Vec<String> {
        let listed = self.lists.tools.iter().chain(&self.of_clients);
        let listed = listed.filter_map(|tool| definitions::named(tool, "name").ok());
        let listed: HashSet<String> = listed.collect();
        let mut names = Vec::with_capacity(changes.len());
        let mut is_replaced = false;
        for change in changes {
            // A tool that took the place of another one gets its shown name.
            let is_pinned = self.pinned.contains_key(&change.tool);
            let gone = self.replaced(&change.tool).cloned();
            if let Some(gone) = gone.filter(|gone| !is_pinned && !listed.contains(gone)) {
                self.pinned.remove(&gone);
                is_replaced = true;
            }
            self.set_pin(change.tool.clone(), change.after);
            names.push(change.tool);
        }
        if is_replaced {
            self.index();
        }
        // All that it has are approved: what comes now is seen for the first time.
        self.is_lost &= names.is_empty() || !self.changes().is_empty();
        names
    }

    /// The names of the tools that are as they were approved.
    pub(super) fn offered(&self) -> Vec<String> {
        let named = |definition: &RawJson| {
            let name = definitions::named(definition, "name").ok()?;
            self.approves(&name, definition).then_some(name)
        };
        self.lists.tools.iter().filter_map(named).collect()
    }

    /// What differs from what was approved.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let tools = self.lists.tools.iter().chain(&self.of_clients);
        let changes = tools.filter_map(|definition| {
            let name = definitions::named(definition, "name").ok()?;
            let is_approved = self.approves(&name, definition);
            (!is_approved).then(|| Change {
                before: self.pin(&name).cloned(),
                after: definition.clone(),
                tool: name,
            })
        });
        changes.collect()
    }

    /// Takes in what the server offers now, and tools that only some clients see and that are to be approved.
    pub(super) fn learn(&mut self, lists: Lists, of_clients: Vec<RawJson>, mode: Mode) {
        self.is_lost &= mode == Mode::Ask;
        self.is_partial = false;
        self.pin_tools(&lists.tools, &of_clients, mode);
        self.lists = lists;
        self.of_clients = of_clients;
        if mode == Mode::Follow && self.has_many_pins() {
            let tools = self.lists.tools.iter().chain(&self.of_clients);
            let names = tools.filter_map(|tool| definitions::named(tool, "name").ok());
            let listed: HashSet<String> = names.collect();
            self.pinned.retain(|name, _| listed.contains(name));
            self.index();
        }
    }

    /// Takes in the tools that the server lists now. Returns whether a tool was pinned.
    pub(super) fn notice(&mut self, tools: Vec<RawJson>) -> bool {
        let before = self.pinned.len();
        self.pin_tools(&tools, &[], Mode::Ask);
        self.lists.tools = tools;
        self.pinned.len() > before
    }

    /// Pins tools that are new, or all of them if changes are accepted.
    fn pin_tools(&mut self, tools: &[RawJson], of_clients: &[RawJson], mode: Mode) {
        let tools = tools.iter().chain(of_clients);
        let named = tools.filter_map(|tool| Some((definitions::named(tool, "name").ok()?, tool)));
        let mut named: Vec<(String, &RawJson)> = named.collect();
        // Tools that are new together may be shown by similar names.
        named.retain(|(name, _)| mode == Mode::Follow || self.pin(name).is_none());
        for (name, definition) in named {
            // The usual definition of a name comes first, and is pinned.
            let is_new = self.takes_new() && !self.pinned.contains_key(&name);
            if mode == Mode::Follow || is_new {
                self.set_pin(name, definition.clone());
            }
        }
    }

    /// The same of clients with other lists. Changed definitions are approved as those of all are.
    pub(crate) fn of_clients(&self, lists: Lists, mode: Mode) -> Self {
        let mut known = self.clone();
        known.learn(lists, Vec::new(), mode);
        known
    }

    /// Returns whether the server offers the same as before.
    pub(crate) fn is_of(&self, lists: &Lists, of_clients: &[RawJson]) -> bool {
        self.lists == *lists && self.of_clients == of_clients
    }

    /// As it is kept.
    pub(super) fn to_disk(&self, server: &str) -> OnDisk {
        let boxed = |items: &[RawJson]| items.iter().filter_map(|item| item.parse().ok()).collect();
        let Lists {
            tools,
            prompts,
            resources,
            templates,
            facts,
            omitted: _,
        } = &self.lists;
        let pinned = self.pinned.iter();
        OnDisk {
            version: VERSION,
            server: server.to_owned(),
            facts: facts.clone(),
            tools: boxed(tools),
            prompts: boxed(prompts),
            resources: boxed(resources),
            templates: boxed(templates),
            of_clients: boxed(&self.of_clients),
            pinned: pinned
                .filter_map(|(name, raw)| Some((name.clone(), raw.parse().ok()?)))
                .collect(),
            lost: self.is_lost,
            partial: self.is_partial,
            whole: true,
        }
    }

    /// Has pins of the first form cover every member. A listed tool was offered as it is listed, so that it is pinned as
    /// it is listed, unless a member differs that the first form covered.
    fn cover_all_members(&mut self) {
        let mut seen = HashSet::new();
        for definition in self.lists.tools.iter().chain(&self.of_clients) {
            let Ok(name) = definitions::named(definition, "name") else {
                continue;
            };
            // The usual definition of a name comes first.
            if seen.insert(name.clone())
                && let Some(pinned) = self.pinned.get_mut(&name)
                && first_hash(pinned) == first_hash(definition)
            {
                pinned.clone_from(definition);
            }
        }
    }
}

impl From<OnDisk> for Known {
    fn from(kept: OnDisk) -> Self {
        let raw = |items: Vec<Box<RawValue>>| {
            let items = items.iter().map(|item| RawJson::from_raw(item));
            items.collect()
        };
        let is_whole = kept.whole;
        let pinned = kept.pinned.iter();
        let mut known = Self {
            pinned: pinned
                .map(|(name, item)| (name.clone(), RawJson::from_raw(item)))
                .collect(),
            pinned_bytes: 0,
            prefix: None,
            by_form: BTreeMap::new(),
            is_lost: kept.lost,
            // The content of a file that does not exist has no version.
            is_partial: kept.partial || kept.version == 0 && !kept.lost,
            of_clients: raw(kept.of_clients),
            lists: Lists {
                tools: raw(kept.tools),
                prompts: raw(kept.prompts),
                resources: raw(kept.resources),
                templates: raw(kept.templates),
                facts: kept.facts,
                omitted: Default::default(),
            },
        };
        if !is_whole {
            known.cover_all_members();
        }
        known
    }
}

impl Lists {
    /// Tools of other lists that differ from these, each once.
    pub(crate) fn other_tools<'l>(&self, others: impl Iterator<Item = &'l Self>) -> Vec<RawJson> {
        let mut known: HashSet<&[u8]> = self.tools.iter().map(RawJson::as_bytes).collect();
        let tools = others.flat_map(|lists| &lists.tools);
        let other = tools.filter(|tool| known.insert(tool.as_bytes()));
        other.cloned().collect()
    }

    /// Replaces a list by a list of the server, as far as its definitions may be used.
    pub(crate) fn set(&mut self, config: &ServerConfig, kind: ListKind, items: Vec<RawJson>) {
        let items = match kind {
            ListKind::Tools => definitions::once_each(items),
            _ => items,
        };
        (*self.of_mut(kind), self.omitted[kind as usize]) = definitions::usable(config, items);
    }

    pub(crate) const fn of_mut(&mut self, kind: ListKind) -> &mut Vec<RawJson> {
        match kind {
            ListKind::Tools => &mut self.tools,
            ListKind::Prompts => &mut self.prompts,
            ListKind::Resources => &mut self.resources,
            ListKind::Templates => &mut self.templates,
        }
    }
}

/// The hash of what pins of the first form cover of a definition.
fn first_hash(definition: &RawJson) -> String {
    let members = definition.members().into_iter().flatten();
    hash_of(members.filter(|member| FIRST_PINNED.contains(&&*member.key)))
}

/// The hash of what pins cover of a definition.
fn whole_hash(definition: &RawJson) -> String {
    let members = definition.members().into_iter().flatten();
    hash_of(members.filter_map(covered))
}

/// Returns a member without what depends on the revision of MCP; `None` when nothing else is in it.
fn covered(member: Member<'_>) -> Option<Member<'_>> {
    let by_revision = BY_REVISION.iter().find(|(outer, ..)| member.key == *outer);
    let (Some((_, inner, values)), Some(members)) = (by_revision, member.value.members()) else {
        return Some(member);
    };
    // Any other value is a text that a server may change for its readers.
    let is_known = |value: &RawJson| {
        let value = value.parse::<String>();
        value.is_ok_and(|value| values.contains(&&*value))
    };
    let mut rest = members
        .filter(|member| member.key != *inner || !is_known(&member.value))
        .peekable();
    rest.peek()?;
    let value = object(rest);
    Some(Member { value, ..member })
}

fn hash_of<'a>(members: impl Iterator<Item = Member<'a>>) -> String {
    canonical::hash(&object(members))
}

fn object<'a>(members: impl Iterator<Item = Member<'a>>) -> RawJson {
    let mut rope = Rope::new();
    let mut separator = b'{';
    for member in members {
        rope.push_byte(std::mem::replace(&mut separator, b','));
        write::string(&mut rope, &member.key);
        rope.push_byte(b':');
        write::raw(&mut rope, &member.value);
    }
    rope.push(if separator == b'{' { b"{}" } else { b"}" });
    definitions::raw(rope)
}
