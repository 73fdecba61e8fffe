//! What a server offers at one moment, as the hub is told and as calls find it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::AtomicBool},
};

use orchestra_hub::{
    Catalog, ClientCatalog, Cx, HiddenTool, LongWork, PromptDescriptor, ToolDescriptor,
};
use orchestra_mcp::client::{
    ServerCall,
    http::{InvalidAnnotation, MirroredParams},
};
use orchestra_wire::RawJson;

use crate::{
    config::{ServerConfig, Transport},
    definitions::{self, Definition, ToolDefinition},
    names,
    pins::{Facts, Known, Lists},
    policy::{Nature, Policy},
    provider::resource_prefix,
    schema::Schema,
};

/// The most of a server's guidance that is passed on, in bytes.
const MAX_INSTRUCTIONS: usize = 16 * 1024;

/// What a server offers.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    /// What it was made of; `None` when the server was never seen.
    pub(crate) known: Option<Known>,
    /// What the hub is told.
    pub(crate) catalog: Arc<Catalog>,
    /// Offers to clients whose roots have a session of their own, in the place of this one.
    of_clients: Vec<(Vec<u64>, Arc<Self>)>,
    tools: HashMap<String, Arc<Tool>>,
    /// Names at the server, by names that are shown.
    prompts: HashMap<String, String>,
    /// Tools that are hidden until somebody approves how they changed.
    pub(crate) hidden: Vec<String>,
    /// Their names as they were shown.
    hidden_names: HashSet<String>,
    /// What was changed in definitions for clients to accept them.
    pub(super) repairs: Vec<String>,
    /// Why ends of its lists are left out.
    pub(super) surplus: Vec<String>,
}

/// Lists of a server that only some clients see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfClients {
    /// Their numbers.
    pub(super) clients: Vec<u64>,
    pub(super) lists: Lists,
}

/// A tool as it is called.
#[derive(Debug)]
pub(crate) struct Tool {
    /// Its name at the server.
    pub(super) theirs: String,
    /// Its name as it is shown.
    pub(super) shown: String,
    pub(super) input: Schema,
    pub(super) output: Schema,
    /// Whether a call may run twice, and whether its result may be kept.
    pub(super) is_safe: bool,
    pub(super) is_read_only: bool,
    pub(super) wants_task: bool,
    /// Its calls may last, by its definition.
    pub(super) lasts: bool,
    /// Arguments that its server wants in headers as well.
    pub(super) mirrored: MirroredParams,
    /// Whether it was told that its results are not as it says.
    pub(super) lies: AtomicBool,
    /// Whether a repair of its results was logged.
    pub(super) is_repaired: AtomicBool,
}

impl Tool {
    /// A tool of which nothing is known but its name.
    pub(super) fn unlisted(name: &str) -> Self {
        Self {
            theirs: name.to_owned(),
            shown: name.to_owned(),
            input: Schema::new(None),
            output: Schema::new(None),
            is_safe: false,
            is_read_only: false,
            wants_task: false,
            lasts: false,
            mirrored: MirroredParams::default(),
            lies: AtomicBool::new(false),
            is_repaired: AtomicBool::new(false),
        }
    }

    /// A tool as its server defines it.
    ///
    /// # Errors
    /// Why it must not be offered.
    pub(super) fn of(
        config: &ServerConfig,
        definition: &ToolDefinition,
        shown: &str,
    ) -> Result<Self, String> {
        let ToolDefinition {
            name,
            descriptor,
            wants_task,
            mirrored,
        } = definition;
        let hints = descriptor.annotations;
        let is_read_only = config.trust && hints.read_only == Some(true);
        Ok(Self {
            input: Schema::new(Some(descriptor.input_schema.clone())),
            output: Schema::new(descriptor.output_schema.clone()),
            is_safe: is_read_only || (config.trust && hints.idempotent == Some(true)),
            shown: shown.to_owned(),
            lies: AtomicBool::new(false),
            is_repaired: AtomicBool::new(false),
            is_read_only,
            wants_task: *wants_task,
            lasts: descriptor.long != LongWork::Never,
            mirrored: in_headers(config, mirrored)?,
            theirs: name.clone(),
        })
    }

    /// A call of it.
    pub(super) fn call(&self, params: RawJson, arguments: &RawJson, cx: Cx) -> ServerCall {
        let mut call = ServerCall::new("tools/call", Some(params), cx);
        call.name = Some(self.theirs.clone());
        call.headers = self.mirrored.headers(Some(arguments));
        call.safe = self.is_safe;
        call.as_task = self.wants_task;
        call.lasts = self.lasts;
        call
    }

    /// What is known of it, for the rules.
    pub(super) const fn nature(&self) -> Nature {
        match self.is_read_only {
            true => Nature::ReadsOnly,
            false => Nature::Unknown,
        }
    }
}

impl Offered {
    /// Of the server of a relay before it was reached: it reads what it may have.
    pub(crate) fn of_relay() -> Self {
        Self {
            catalog: Arc::new(Catalog {
                reads_unlisted: true,
                ..Catalog::default()
            }),
            ..Self::default()
        }
    }

    pub(crate) fn of(config: &ServerConfig, policy: &Policy, known: Option<Known>) -> Self {
        let Some(known) = known else {
            return Self::default();
        };
        let mut catalog = Catalog {
            reads_unlisted: known.lists.facts.resources,
            instructions: instructions(config, &known.lists.facts),
            ..Catalog::default()
        };
        let mut offered = Self::default();
        offered.add_tools(config, policy, &known, &mut catalog.tools);
        catalog.hidden_tools = offered.hidden_tools(config, &known);
        offered.add_prompts(config, &known, &mut catalog.prompts);
        let base = resource_prefix(config.name.as_str());
        catalog.resources = offered.all(
            config,
            "resource",
            &known.lists.resources,
            |item| definitions::resource(item, &base),
            |resource| &resource.name,
        );
        catalog.templates = offered.all(
            config,
            "resource template",
            &known.lists.templates,
            |item| definitions::template(item, &base),
            |template| &template.name,
        );
        let kinds = ["tool", "prompt", "resource", "resource template"];
        for (kind, omitted) in kinds.into_iter().zip(&known.lists.omitted) {
            let omitted = omitted.as_ref();
            offered
                .surplus
                .extend(omitted.map(|omitted| format!("{kind} list: {omitted}")));
        }
        offered.catalog = Arc::new(catalog);
        offered.known = Some(known);
        offered
    }

    /// The same, where some clients see other lists.
    pub(crate) fn with_clients(
        config: &ServerConfig,
        policy: &Policy,
        known: Known,
        of_clients: Vec<OfClients>,
    ) -> Self {
        let mut catalogs = Vec::new();
        let mut offers = Vec::new();
        for OfClients { clients, lists } in of_clients {
            let theirs = known.of_clients(lists, config.pins);
            let theirs = Arc::new(Self::of(config, policy, Some(theirs)));
            catalogs.push(ClientCatalog {
                clients: clients.clone(),
                catalog: Arc::clone(&theirs.catalog),
            });
            offers.push((clients, theirs));
        }
        let mut offered = Self::of(config, policy, Some(known));
        if !offers.is_empty() {
            Arc::make_mut(&mut offered.catalog).of_clients = catalogs;
            offered.of_clients = offers;
        }
        offered
    }

    /// What is offered to a client.
    pub(super) fn for_client(self: Arc<Self>, client: u64) -> Arc<Self> {
        let mut own = self.of_clients.iter();
        let own = own.find(|(clients, _)| clients.contains(&client));
        own.map_or_else(|| Arc::clone(&self), |(_, own)| Arc::clone(own))
    }

    /// Lists that only some clients see.
    pub(super) fn of_clients(&self) -> Vec<OfClients> {
        let all = self.of_clients.iter().filter_map(|(clients, own)| {
            let lists = own.known.as_ref()?.lists.clone();
            let clients = clients.clone();
            Some(OfClients { clients, lists })
        });
        all.collect()
    }

    /// Tools that are hidden from any client until somebody approves how they changed.
    pub(super) fn all_hidden(&self) -> Vec<&str> {
        let own = self.of_clients.iter().flat_map(|(_, own)| &own.hidden);
        let all = self.hidden.iter().chain(own).map(String::as_str);
        let mut seen = HashSet::new();
        all.filter(|name| seen.insert(*name)).collect()
    }

    fn add_tools(
        &mut self,
        config: &ServerConfig,
        policy: &Policy,
        known: &Known,
        shown: &mut Vec<ToolDescriptor>,
    ) {
        let read = |item: &RawJson| {
            let Definition {
                item: tool,
                repairs,
            } = definitions::tool(item, config.name.as_str())?;
            let item = (tool, item.clone());
            Ok(Definition { item, repairs })
        };
        let listed = &known.lists.tools;
        let tools: Vec<(ToolDefinition, RawJson)> =
            self.all(config, "tool", listed, read, |(tool, _)| &tool.name);
        let tools: Vec<ToolDefinition> = tools
            .into_iter()
            .filter(|(tool, _)| policy.offers(&tool.name))
            .filter_map(|(tool, item)| {
                if known.approves(&tool.name, &item) {
                    return Some(tool);
                }
                self.hidden.push(tool.name);
                None
            })
            .collect();
        let hidden = self.hidden.iter().map(String::as_str);
        let hidden = names::shown(&config.name, config.prefix, hidden);
        self.hidden_names = hidden.into_iter().flatten().collect();
        let names = tools.iter().map(|tool| tool.name.as_str());
        // A pinned tool keeps its shown name for when it is listed again.
        let pinned = known.pinned_names().filter(|name| policy.offers(name));
        let names = names::shown(&config.name, config.prefix, names.chain(pinned));
        let mut left_out = LeftOut::default();
        for (definition, name) in tools.into_iter().zip(names) {
            let Some(name) = name else { continue };
            let tool = match Tool::of(config, &definition, &name) {
                Ok(tool) => tool,
                // Such a tool must not be offered; others of its server are.
                Err(error) => {
                    left_out.add::<()>(format!("{}: {error}", definition.name));
                    continue;
                }
            };
            let mut descriptor = definition.descriptor;
            descriptor.name.clone_from(&name);
            if config.transport.is_mcp() && descriptor.long == LongWork::Never {
                // A server of 2026-07-28 may answer any call with a task, and lists that of no tool.
                descriptor.long = LongWork::Later;
            }
            self.tools.insert(name, Arc::new(tool));
            shown.push(descriptor);
        }
        left_out.tell(config, "tool");
    }

    /// Tools that are listed or pinned and not offered, for any reason.
    fn hidden_tools(&self, config: &ServerConfig, known: &Known) -> Vec<HiddenTool> {
        let mut hidden = known.tool_names();
        for tool in self.tools.values() {
            hidden.remove(&tool.theirs);
        }
        let names = hidden.iter().map(String::as_str);
        let names = names::shown(&config.name, config.prefix, names);
        let named = hidden.into_iter().zip(names);
        let named = named.filter_map(|(own, name)| Some(HiddenTool { name: name?, own }));
        named.collect()
    }

    fn add_prompts(
        &mut self,
        config: &ServerConfig,
        known: &Known,
        shown: &mut Vec<PromptDescriptor>,
    ) {
        let listed = &known.lists.prompts;
        let prompts = self.all(config, "prompt", listed, definitions::prompt, |prompt| {
            &prompt.name
        });
        let names = prompts.iter().map(|prompt| prompt.name.as_str());
        let names = names::shown(&config.name, config.prefix, names);
        for (mut prompt, name) in prompts.into_iter().zip(names) {
            let Some(name) = name else { continue };
            let theirs = std::mem::replace(&mut prompt.name, name.clone());
            self.prompts.insert(name, theirs);
            shown.push(prompt);
        }
    }

    /// All items that can be understood; the rest is logged and left out. Repairs are recorded.
    fn all<T>(
        &mut self,
        config: &ServerConfig,
        kind: &str,
        items: &[RawJson],
        read: impl Fn(&RawJson) -> Result<Definition<T>, String>,
        name: impl Fn(&T) -> &str,
    ) -> Vec<T> {
        let mut left_out = LeftOut::default();
        let (items, surplus) = definitions::within_budget(config, items);
        let surplus = surplus.map(|surplus| format!("{kind} list: {surplus}"));
        self.surplus.extend(surplus);
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            match read(item) {
                Ok(Definition { item, repairs }) => {
                    let lines = definitions::lines(name(&item), &repairs);
                    let lines = lines.into_iter().map(|line| format!("{kind} {line}"));
                    self.repairs.extend(lines);
                    all.push(item);
                }
                Err(why) => {
                    let _: Option<()> = left_out.add(why);
                }
            }
        }
        left_out.tell(config, kind);
        all
    }

    /// Logs repairs in one line, and ends of lists that are left out, but for those that `before`
    /// had as well.
    pub(super) fn log_repairs(&self, server: &str, before: &Self) {
        let surplus = self.surplus.iter();
        for surplus in surplus.filter(|surplus| !before.surplus.contains(surplus)) {
            tracing::warn!(server, "{surplus}");
        }
        let before: HashSet<&String> = before.repairs.iter().collect();
        let is_new = |repair: &&String| !before.contains(repair);
        let new: Vec<&String> = self.repairs.iter().filter(is_new).collect();
        if let Some(first) = new.first() {
            let count = new.len();
            tracing::warn!(
                server, count, %first,
                "repaired definitions that clients would refuse; see `orchestra mcp test`"
            );
        }
    }

    pub(super) fn tool(&self, shown: &str) -> Option<&Arc<Tool>> {
        self.tools.get(shown)
    }

    /// Whether a tool is hidden until somebody approves how it changed.
    pub(super) fn hides(&self, shown: &str) -> bool {
        self.hidden_names.contains(shown) && !self.tools.contains_key(shown)
    }

    /// The name of a prompt at the server.
    pub(super) fn prompt(&self, shown: &str) -> Option<&str> {
        self.prompts.get(shown).map(String::as_str)
    }

    pub(crate) fn facts(&self) -> Option<&Facts> {
        self.known.as_ref().map(|known| &known.lists.facts)
    }

    /// Whether nobody sees a difference to `other`.
    pub(super) fn shows_the_same(&self, other: &Self) -> bool {
        let lists = |offered: &Self| offered.known.as_ref().map(|known| known.lists.clone());
        lists(self) == lists(other)
            && self.hidden == other.hidden
            && self.of_clients() == other.of_clients()
    }
}

/// The arguments that a server wants in headers as well.
fn in_headers(
    config: &ServerConfig,
    mirrored: &Result<MirroredParams, InvalidAnnotation>,
) -> Result<MirroredParams, String> {
    match config.transport {
        Transport::Http(_) => mirrored.clone().map_err(|why| why.to_string()),
        Transport::Stdio(_) | Transport::Plugin(_) | Transport::Orchestrator(_) => {
            Ok(MirroredParams::default())
        }
    }
}

/// Items that nobody is shown: told in one line, however many they are.
#[derive(Default)]
struct LeftOut {
    count: usize,
    first: String,
}

impl LeftOut {
    fn add<T>(&mut self, why: String) -> Option<T> {
        if self.count == 0 {
            self.first = why;
        }
        self.count += 1;
        None
    }

    fn tell(&self, config: &ServerConfig, kind: &str) {
        if self.count > 0 {
            let (count, first) = (self.count, &self.first);
            tracing::warn!(server = %config.name, %kind, count, %first, "omitted definitions of the server");
        }
    }
}

/// The instructions of a server behind its name. Their further lines are indented: none looks like the name of another
/// server, or like the instructions of this program. Those of an orchestrator are passed on unchanged.
fn instructions(config: &ServerConfig, facts: &Facts) -> Option<String> {
    const ENDS: [char; 7] = [
        '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
    ];
    let text = facts.instructions.as_deref()?.trim();
    if text.is_empty() {
        return None;
    }
    let text = text[..text.floor_char_boundary(MAX_INSTRUCTIONS)].replace("\r\n", "\n");
    if matches!(config.transport, Transport::Orchestrator(_)) {
        return Some(text);
    }
    let lines = text.split(ENDS).map(|line| match line.is_empty() {
        true => String::new(),
        false => format!("  {line}"),
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    Some(format!("Server {}: {}", config.name, lines.trim()))
}
