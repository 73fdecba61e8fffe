//! The tools of the configured servers beside those of the board, for one command.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use orchestra_gateway::{
    Gateway, GatewayOptions,
    config::{PluginConfig, ServerConfig, Transport},
    connect::Connectors,
    discovery::{Found, Server, ServerState},
};
use orchestra_hub::{PeerStatus, SEARCH_TOOLS, Toolset};
use orchestra_tools as tools;
use tokio::time::{Instant, sleep, timeout};

use super::find;
use crate::{
    commands::{
        mcp::{self, Unused},
        progress::Turning,
    },
    config::Config,
    exit::Failure,
    output, servers,
    serving::Serving,
};

/// A person wonders who has to wait longer.
const SOON: Duration = Duration::from_secs(2);

/// How often it is looked whether servers have said what they offer.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long calls may go on when the command is over; there are none any more.
const GRACE: Duration = Duration::from_secs(1);

/// How long all servers together may take to end.
const ENDING: Duration = Duration::from_secs(15);

/// Which servers of others a command has to do with. Nothing is started yet.
#[derive(Debug, Default)]
pub(in crate::commands) struct Theirs {
    found: Option<Found>,
    configs: Vec<ServerConfig>,
    /// The tool that a command is about.
    tool: String,
    /// Number of servers at the start of `configs` that the tool may belong to.
    owners: usize,
    /// Those that are not used.
    unused: Vec<Unused>,
    /// Those that are not used, and whose tools may have any name.
    perhaps: Vec<Unused>,
}

/// Servers of others, for as long as one command runs.
pub(in crate::commands) struct Guests {
    gateway: Option<Arc<Gateway>>,
    /// Whether a server that the tool may belong to was waited for in vain.
    is_late: bool,
    unused: Vec<Unused>,
    /// Their names as they were written.
    shown: HashMap<String, String>,
}

impl Theirs {
    /// All that are used. Those that are known already are not started.
    pub(super) fn all(config: &Config) -> Result<Self, Failure> {
        let found = match look(config) {
            Ok(found) => found,
            // Flags that name servers make it an error; without them the board's tools are listed alone.
            Err(failure) if config.servers.given().next().is_some() => return Err(failure),
            Err(failure) => {
                // Logging starts later: its level depends on the servers.
                output::complain(&output::printable(&format!(
                    "tools of upstream MCP servers are not listed: {}",
                    failure.text()
                )));
                return Ok(Self::default());
            }
        };
        let mut theirs = Self::default();
        for server in &found.servers {
            match &server.state {
                ServerState::Usable(config) => {
                    let mut config = ServerConfig::clone(config);
                    config.lazy = true;
                    theirs.configs.push(config);
                }
                ServerState::NeedsApproval { .. } | ServerState::Invalid { .. } => {
                    theirs.leave_out(server);
                }
                ServerState::Disabled { .. } | ServerState::Own => {}
            }
        }
        theirs.found = Some(found);
        Ok(theirs)
    }

    /// Those that a tool of this name may belong to: none for a name without `__`, unless a server
    /// passes the names of its tools through.
    ///
    /// # Errors
    /// When a server is named that is not there: with those that there are.
    pub(super) fn of(config: &Config, tool: &str) -> Result<Self, Failure> {
        let mut theirs = Self::default();
        if tools::only_reads(tool).is_some() || SEARCH_TOOLS.contains(&tool) {
            return Ok(theirs);
        }
        let found = look(config)?;
        let is_named = |server: &&Server| {
            let rest = tool.strip_prefix(server.name.as_str());
            rest.is_some_and(|rest| rest.starts_with("__"))
        };
        // The longest name, where one begins as another does.
        let named = found.servers.iter().filter(is_named);
        match named.max_by_key(|server| server.name.as_str().len()) {
            Some(server) => match &server.state {
                ServerState::Usable(config) => theirs.configs.push(ServerConfig::clone(config)),
                _ => theirs.leave_out(server),
            },
            None => {
                let usable = found.usable().filter(|config| !config.prefix);
                theirs
                    .configs
                    .extend(usable.map(|config| ServerConfig::clone(config)));
                let unprefixed = |server: &&Server| {
                    let waits = matches!(server.state, ServerState::NeedsApproval { .. });
                    waits && server.config().is_some_and(|config| !config.prefix)
                };
                let perhaps = found.servers.iter().filter(unprefixed);
                theirs.perhaps.extend(perhaps.filter_map(Unused::of));
                if let (Some((server, _)), true) = (tool.split_once("__"), theirs.is_empty()) {
                    return Err(mcp::no_server(&found, server));
                }
            }
        }
        tool.clone_into(&mut theirs.tool);
        theirs.owners = theirs.configs.len();
        let beside = plugins_beside(&found, &theirs.configs);
        theirs.configs.extend(beside);
        theirs.found = Some(found);
        Ok(theirs)
    }

    /// The plugins that a plugin may need which is reached otherwise.
    ///
    /// # Errors
    /// When nobody knows which there are.
    pub(in crate::commands) fn beside(
        config: &Config,
        plugin: &ServerConfig,
    ) -> Result<Self, Failure> {
        let found = look(config)?;
        Ok(Self {
            configs: plugins_beside(&found, std::slice::from_ref(plugin)),
            found: Some(found),
            ..Self::default()
        })
    }

    fn leave_out(&mut self, server: &Server) {
        self.unused.extend(Unused::of(server));
    }

    /// Whether no server has to do with it.
    pub(super) fn is_empty(&self) -> bool {
        self.configs.is_empty() && self.unused.is_empty()
    }

    /// The one server that is meant, where it is not used.
    pub(super) fn refusal(&self) -> Option<&Unused> {
        let first = self.unused.first()?;
        self.configs.is_empty().then_some(first)
    }

    /// Returns why a tool that is not listed is not available, if servers that are not used may have it.
    pub(super) fn unavailable(&self, tool: &str) -> Option<Failure> {
        if self.perhaps.is_empty() {
            return None;
        }
        let unused: Vec<String> = self.perhaps.iter().map(Unused::waiting).collect();
        Some(Failure::denied(format!(
            "`{tool}` is not available: {}",
            unused.join("; ")
        )))
    }

    /// Offers them beside what is served, and waits until the tool is listed, until each server that it
    /// may belong to has listed its tools, or until the time is over that is given or configured.
    pub(super) async fn start(
        self,
        serving: &Serving,
        config: &Config,
        wait: Option<Duration>,
    ) -> Result<Guests, Failure> {
        let tool = self.tool.clone();
        let owners = self.configs.iter().take(self.owners);
        let waits = owners.clone().map(|config| servers::wait_for(config, wait));
        let wait = waits.max().unwrap_or_default();
        let owners: HashSet<String> = owners.map(|config| config.name.to_string()).collect();
        let unknown = || match find(serving, &tool) {
            Some(_) => Vec::new(),
            None => {
                let mut unknown = unready(serving);
                unknown.retain(|name| owners.contains(name));
                unknown
            }
        };
        let until = Instant::now() + wait;
        let mut guests = self.begin(serving, config)?;
        wait_soon(serving, wait, || unknown().is_empty()).await;
        if unknown().is_empty() {
            return Ok(guests);
        }
        output::complain(&format!("waiting for {}", unknown().join(", ")));
        let turning = Turning::new("starting servers");
        while !unknown().is_empty() && Instant::now() < until {
            sleep(LOOK_EVERY).await;
        }
        drop(turning);
        let unknown = unknown();
        for name in &unknown {
            output::complain(&format!(
                "{name}: no list of tools within {} s; `orchestra mcp logs {name}` shows its output, and `--wait` gives it more time",
                wait.as_secs_f64()
            ));
        }
        guests.is_late = !unknown.is_empty();
        Ok(guests)
    }

    /// As [`start`](Self::start), but waits no longer than a list may take, as over MCP: who has not
    /// said then what it offers is missing, which is told.
    pub(super) async fn start_soon(
        self,
        serving: &Serving,
        config: &Config,
    ) -> Result<Guests, Failure> {
        let guests = self.begin(serving, config)?;
        wait_soon(serving, SOON, || false).await;
        for name in unready(serving) {
            output::complain(&format!(
                "{name}: its tools are missing: no list of tools within {} s; `orchestra mcp tools {name}` waits for it",
                SOON.as_secs()
            ));
        }
        Ok(guests)
    }

    /// Offers them beside what is served.
    pub(in crate::commands) fn begin(
        mut self,
        serving: &Serving,
        config: &Config,
    ) -> Result<Guests, Failure> {
        self.unused.append(&mut self.perhaps);
        let shown = self.configs.iter();
        let shown = shown.map(|config| (config.name.to_string(), config.shown_name.clone()));
        let shown = shown.collect();
        let orchestrator = serving.orchestrator();
        if let Some(found) = &self.found {
            orchestrator.take(found, |_| true);
            serving.hub().reserve_servers(found.names());
        }
        if self.configs.is_empty() {
            return Ok(Guests {
                gateway: None,
                is_late: false,
                unused: self.unused,
                shown,
            });
        }
        let workspace = &config.workspace;
        let connectors = Connectors::new(servers::scope(workspace))
            .with_quic(orchestrator.quic())
            .with_logs(&servers::log_directory(workspace)?)
            .with_tokens(&servers::token_directory()?);
        let options = GatewayOptions {
            state: servers::state_directory()?,
            connect: connectors.connect(),
            grace: GRACE,
            once: true,
            relay: false,
        };
        let gateway = Arc::new(Gateway::new(serving.hub().clone(), options));
        orchestrator.ask_through(&gateway);
        gateway.apply(self.configs);
        Ok(Guests {
            gateway: Some(gateway),
            is_late: false,
            unused: self.unused,
            shown,
        })
    }
}

impl Guests {
    /// Whether one was waited for in vain.
    pub(super) const fn is_late(&self) -> bool {
        self.is_late
    }

    /// Says on stderr which servers offer nothing, and why.
    pub(super) fn complain(&self, serving: &Serving) {
        for unused in &self.unused {
            output::complain(&output::printable(&unused.to_string()));
        }
        for collision in serving.hub().collisions() {
            if collision.kind == "tool" {
                let (server, tool) = (&collision.newcomer, output::in_a_line(&collision.name));
                let owner = &collision.owner;
                let text = format!("{server}: its tool {tool} is not shown: {owner} has the name");
                output::complain(&output::printable(&text));
            }
        }
        for (name, peer) in serving.hub().peers() {
            // When it would be tried again is no affair of a command that ends now.
            let why = match peer.status {
                PeerStatus::Offline | PeerStatus::Restarting => peer.last_error,
                _ => None,
            };
            if let Some(why) = why.map(|(_, why)| why).or(peer.reason) {
                let shown = self.shown.get(name.as_str());
                let shown = shown.map_or(name.as_str(), String::as_str);
                let why = why.replace('\n', "\n    ");
                let text = format!("{shown}: {}: {why}", peer.status.as_str());
                output::complain(&output::printable(&text));
            }
        }
    }

    /// Ends them.
    pub(in crate::commands) async fn close(self) {
        if let Some(gateway) = self.gateway {
            gateway.close(ENDING).await;
        }
    }
}

/// The plugins that chosen ones may ask through the hub, for documents or tools: those that they depend
/// on are started, the others wait for a call. None where no plugin is chosen.
fn plugins_beside(found: &Found, chosen: &[ServerConfig]) -> Vec<ServerConfig> {
    let plugins: Vec<(&ServerConfig, &PluginConfig)> = found
        .usable()
        .filter_map(|config| Some((config.as_ref(), plugin(config)?)))
        .collect();
    let mut waiting: Vec<&str> = Vec::new();
    let mut is_chosen = false;
    for plugin in chosen.iter().filter_map(plugin) {
        is_chosen = true;
        waiting.extend(plugin.depends_on.iter().map(|id| id.as_str()));
    }
    if !is_chosen {
        return Vec::new();
    }
    let mut needed = HashSet::new();
    while let Some(id) = waiting.pop() {
        if needed.insert(id) {
            let found = plugins
                .iter()
                .filter(|(_, plugin)| plugin.id.as_str() == id);
            waiting.extend(
                found.flat_map(|(_, plugin)| plugin.depends_on.iter().map(|id| id.as_str())),
            );
        }
    }
    let others = plugins
        .iter()
        .filter(|(config, _)| chosen.iter().all(|chosen| chosen.name != config.name));
    let beside = others.map(|(config, plugin)| {
        let mut config = ServerConfig::clone(config);
        config.lazy |= !needed.contains(plugin.id.as_str());
        config
    });
    beside.collect()
}

fn plugin(config: &ServerConfig) -> Option<&PluginConfig> {
    match &config.transport {
        Transport::Plugin(plugin) => Some(plugin),
        _ => None,
    }
}

/// Waits until all servers that were added have listed their tools, or until `is_enough`, but not for
/// long.
async fn wait_soon(serving: &Serving, most: Duration, is_enough: impl Fn() -> bool) {
    let attachment = serving.attach(Toolset::All);
    let enough = async {
        while !is_enough() {
            sleep(LOOK_EVERY).await;
        }
    };
    let either = async {
        tokio::select! {
            biased;
            () = attachment.settled() => {}
            () = enough => {}
        }
    };
    // The hub itself does not wait for ever.
    let _ = timeout(SOON.min(most), either).await;
}

/// Those that have not said what they offer.
fn unready(serving: &Serving) -> Vec<String> {
    let unknown = serving.hub().providers().into_iter();
    let unknown = unknown.filter(|(_, is_ready)| !is_ready);
    unknown.map(|(id, _)| id.to_string()).collect()
}

fn look(config: &Config) -> Result<Found, Failure> {
    let places = servers::places(config, &config.servers);
    let decisions = servers::decisions()?.read();
    let decisions = decisions.map_err(mcp::unreadable)?;
    Ok(places.find(&servers::scope(&config.workspace), &decisions))
}
