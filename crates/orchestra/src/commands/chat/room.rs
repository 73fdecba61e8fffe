//! What a conversation has around it: the hub with its tools, as they come and go.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use orchestra_chat::{BoxFuture, Consent, Due, HubTools, Outcome, Toolbox, Tools, tools_of};
use orchestra_gateway::{config::ServerConfig, hints::Hints, rules};
use orchestra_hub::{
    Attachment, Cx, HubNotice, PeerReport, PeerStatus, ProviderId, Request, Target, ToolDescriptor,
    Toolset,
};
use orchestra_store::Options;
use orchestra_wire::RawJson;
use serde_json::Value;
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    commands::mcp::words,
    config::Config,
    exit::Failure,
    output, servers,
    serving::{PATIENCE, Serving},
    stopping::{CALLS, WHOLE},
    trace::TraceFlags,
    workspace,
};

/// How often it is looked whether a server that is there alone has begun.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The servers that the command line names: without their tools there is no conversation.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) servers: Vec<String>,
    /// How long it is waited for them, where that is given.
    pub(super) wait: Option<Duration>,
}

/// The hub of a conversation.
pub(super) struct Room {
    serving: Serving,
    attachment: Arc<Attachment>,
    toolset: Toolset,
    is_alone: bool,
    /// What the sandbox of the server that is there alone closes that it needs.
    hints: Vec<String>,
    named: Named,
    /// How long it is waited for servers before a model is asked without their tools.
    wait: Duration,
    /// Whether there is a board.
    has_board: bool,
    /// Servers whose tools are believed in what they say of themselves.
    trusted: BTreeSet<String>,
    /// What the person has switched off: servers and tools.
    off: Arc<Mutex<BTreeSet<String>>>,
    /// What is shown of the messages of servers.
    trace: TraceFlags,
    /// Counts how often they may have changed.
    changes: Arc<AtomicU64>,
    /// The tools as they were after so many changes.
    known: Mutex<Option<(u64, Tools)>>,
    following: JoinHandle<()>,
}

impl Room {
    /// Opens the board of the workspace and starts the servers, or one server alone. Waits for none of
    /// them. Must run inside the runtime.
    ///
    /// # Errors
    /// When the board cannot be opened, or a server that is named cannot be started.
    pub(super) fn open(
        config: &Config,
        alone: Option<ServerConfig>,
        named: Named,
    ) -> Result<Self, Failure> {
        let is_alone = alone.is_some();
        let scope = servers::scope(&config.workspace);
        let hints = alone.as_ref().map(|server| Hints::of(server, &scope));
        let hints = hints.map_or_else(Vec::new, |hints| hints.sandbox().to_vec());
        let has_board = !is_alone && workspace::has_board(&config.workspace);
        let mut serving = match has_board {
            true => Serving::open(config, Options::default())?,
            false => Serving::without_board(config),
        };
        match alone {
            Some(server) => serving.start_one(server)?,
            None => serving.start_others(None, Duration::ZERO)?,
        }
        let flag = (!named.servers.is_empty()).then_some("--server");
        let toolset = match is_alone {
            true => Toolset::All,
            // What it would find is found by the question here, and agreed to by its own name.
            false => match serving.toolset_of(flag)? {
                Toolset::Search => Toolset::All,
                toolset => toolset,
            },
        };
        let waits = serving.others().iter();
        let waits = waits.filter(|server| named.servers.contains(&server.name));
        let usual = waits.map(|server| server.wait).max();
        let wait = named.wait.or(usual).unwrap_or(servers::WAIT);
        let trusted = serving.others().iter().filter(|server| server.trust);
        let trusted = trusted.map(|server| server.name.clone()).collect();
        let attachment = Arc::new(serving.attach(toolset.clone()));
        let changes = Arc::<AtomicU64>::default();
        let following = follow(&attachment, Arc::clone(&changes));
        Ok(Self {
            serving,
            attachment,
            toolset,
            is_alone,
            hints,
            wait,
            named,
            has_board,
            trusted,
            off: Arc::default(),
            trace: config.servers.trace.clone(),
            changes,
            known: Mutex::default(),
            following,
        })
    }

    /// Waits until every server has said what it offers, but not for long: those that have not are
    /// named, and so are those that cannot be used.
    pub(super) async fn settled(&self) -> Vec<String> {
        let is_first = match self.is_alone {
            // There is nothing else to talk to.
            true => PATIENCE,
            false => self.wait,
        };
        let is_late = timeout(is_first, self.begun()).await.is_err();
        let mut told = Vec::new();
        if is_late {
            let providers = self.serving.hub().providers().into_iter();
            let late = providers.filter(|(name, is_ready)| !is_ready || self.is_awaited(name));
            let seconds = is_first.as_secs_f64();
            told.extend(late.map(|(name, _)| {
                format!(
                    "{name}: no list of tools within {seconds} s; `orchestra mcp logs {name}` shows its output, and `--wait` gives it more time"
                )
            }));
        }
        told.extend(self.failed());
        told
    }

    /// Whether a server is named on the command line and it is not known yet what it offers.
    fn is_awaited(&self, name: &ProviderId) -> bool {
        let is_unknown = |(peer, report): &(String, PeerReport)| {
            *peer == name.as_str() && !report.is_known && report.status.is_late()
        };
        let is_named = self
            .named
            .servers
            .iter()
            .any(|named| named == name.as_str());
        is_named && self.peers().iter().any(is_unknown)
    }

    /// Waits until every server has said what it offers; one that is there alone until it has begun, or failed:
    /// the hub waits less for servers that others can do without. Whoever wants to see the messages sees all of the
    /// beginning, also of servers that are known from before.
    async fn begun(&self) {
        loop {
            self.attachment.settled().await;
            let is_named = |name: &String| self.named.servers.contains(name);
            let is_begun = |name: &String, peer: &PeerReport| match peer.status {
                status if is_named(name) && !peer.is_known && status.is_late() => false,
                PeerStatus::Idle => !self.is_alone,
                PeerStatus::Starting => !self.is_alone && !self.trace.is_given(),
                _ => true,
            };
            if self.peers().iter().all(|(name, peer)| is_begun(name, peer)) {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits as [`settled`](Self::settled) does, and says what is not there.
    ///
    /// # Errors
    /// When the only server, or one that was named, cannot be used: without it nothing is as it was
    /// meant.
    pub(super) async fn ready(&self) -> Result<(), Failure> {
        let told = self.settled().await;
        let is_needed = self.is_alone || !self.named.servers.is_empty();
        if is_needed && !told.is_empty() {
            let hints = self.hints.iter().map(|hint| format!("hint: {hint}"));
            let told: Vec<String> = told.into_iter().chain(hints).collect();
            return Err(Failure::Failed(anyhow::Error::msg(told.join("\n"))));
        }
        told.iter().for_each(|line| output::complain(line));
        Ok(())
    }

    /// The servers that cannot be used, and why.
    fn failed(&self) -> Vec<String> {
        let peers = self.peers().into_iter();
        let failed = peers.filter_map(|(name, peer)| {
            let why = match peer.status {
                PeerStatus::Offline | PeerStatus::Restarting => peer.last_error.map(|(_, why)| why),
                status if status.is_failed() || status == PeerStatus::NeedsApproval => peer.reason,
                _ => return None,
            };
            let why = why.unwrap_or_else(|| peer.status.as_str().to_owned());
            Some(output::printable(&format!("{name}: {why}")).into_owned())
        });
        failed.collect()
    }

    /// The servers, and how they are.
    pub(super) fn peers(&self) -> Vec<(String, PeerReport)> {
        let peers = self.serving.hub().peers().into_iter();
        let peers = peers.map(|(name, report)| (name.to_string(), report));
        peers
            .filter(|(name, _)| self.toolset.reaches_server(name))
            .collect()
    }

    /// Protection of the user from the programs of servers that are started for the conversation.
    pub(super) fn protection(&self) -> Vec<String> {
        let others = self.serving.others();
        let named = |is_sandboxed: bool| {
            let servers = others
                .iter()
                .filter(|server| server.is_sandboxed == Some(is_sandboxed));
            let servers = servers.filter(|server| server.state != "left_out");
            servers.map(|server| &*server.name).collect::<Vec<_>>()
        };
        let (closed, open) = (named(true), named(false));
        let closed =
            (!closed.is_empty()).then(|| format!("{}: {}", closed.join(", "), words::protection()));
        let open = (!open.is_empty()).then(|| {
            format!(
                "{}: no sandbox; has access to everything that you have access to",
                open.join(", ")
            )
        });
        closed.into_iter().chain(open).collect()
    }

    /// Whether one server is there alone.
    pub(super) const fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Whether there is a board.
    pub(super) const fn has_board(&self) -> bool {
        self.has_board
    }

    /// The tools that there are now, and after how many changes.
    fn tools(&self) -> (u64, Tools) {
        let changes = self.changes.load(Ordering::Acquire);
        let mut known = locked(&self.known);
        if let Some((at, tools)) = &*known
            && *at == changes
        {
            return (changes, tools.clone());
        }
        let tools = self.looked_at();
        *known = Some((changes, tools.clone()));
        (changes, tools)
    }

    fn looked_at(&self) -> Tools {
        let off = locked(&self.off).clone();
        let wants = |tool: &ToolDescriptor| {
            let is_off = off.contains(&tool.name);
            !is_off && tool.server().is_none_or(|server| !off.contains(server))
        };
        let trusts = |server: &str| self.trusted.contains(server);
        tools_of(self.serving.hub(), &self.toolset, wants, trusts)
    }

    /// The same for whoever lists them.
    pub(super) fn now(&self) -> Tools {
        self.tools().1
    }

    /// The names of all tools, also of those that are switched off.
    pub(super) fn names(&self) -> Vec<String> {
        let tools = self.serving.hub().tools(&self.toolset).into_iter();
        tools.map(|tool| tool.name).collect()
    }

    /// Shows the messages of servers, or shows them no more; which of both.
    pub(super) fn trace(&self) -> bool {
        self.trace.switch()
    }

    /// Switches a server or a tool off, or on again; whether that changes anything, or `None` where there
    /// is none of the name.
    pub(super) fn switch(&self, name: &str, is_on: bool) -> Option<bool> {
        let peers = self.peers();
        let is_server = peers.iter().any(|(server, _)| server == name);
        let tools = self.serving.hub().tools(&self.toolset);
        if !is_server && !tools.iter().any(|tool| tool.name == name) {
            return None;
        }
        let mut off = locked(&self.off);
        self.changes.fetch_add(1, Ordering::Release);
        Some(match is_on {
            true => off.remove(name),
            false => off.insert(name.to_owned()),
        })
    }

    /// What is switched off.
    pub(super) fn off(&self) -> Vec<String> {
        locked(&self.off).iter().cloned().collect()
    }

    /// Calls one of the built-in tools for the program itself.
    ///
    /// # Errors
    /// What the tool says, where it refuses.
    pub(super) async fn call(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        let request = Request {
            target: Target::Tool {
                name: tool.to_owned(),
                arguments: RawJson::of(arguments).map_err(|error| error.to_string())?,
            },
            cx: Cx {
                caller: self.attachment.caller().clone(),
                ..Cx::default()
            },
        };
        let attachment = self.serving.attach(Toolset::All);
        match attachment.call(request).await {
            Ok(orchestra_hub::Outcome::Tool(result)) if result.is_error => {
                let texts = result.content.iter().filter_map(|content| match content {
                    orchestra_hub::Content::Text(text) => Some(text.to_string()),
                    orchestra_hub::Content::Raw(_) => None,
                });
                Err(texts.collect::<Vec<_>>().join("\n"))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whoever calls its tools, for one conversation.
    pub(super) fn toolbox(&self) -> RoomTools<'_> {
        let consent = Consent {
            asked: rules::asking,
            agreed: rules::agreed(),
        };
        RoomTools {
            room: self,
            tools: HubTools::new(Arc::clone(&self.attachment), consent),
            seen: AtomicU64::new(u64::MAX),
        }
    }

    /// Ends the servers, and writes what is still to be written.
    pub(super) async fn close(self) {
        self.following.abort();
        let deadline = tokio::time::Instant::now() + WHOLE.saturating_sub(CALLS);
        self.serving.end(deadline).await;
    }
}

/// The tools of a room.
pub(super) struct RoomTools<'r> {
    room: &'r Room,
    tools: HubTools,
    /// After how many changes it was asked last.
    seen: AtomicU64,
}

impl Toolbox for RoomTools<'_> {
    fn call(&self, due: Due) -> BoxFuture<Outcome> {
        self.tools.call(due)
    }

    fn changed(&self) -> Option<Tools> {
        if self.seen.load(Ordering::Relaxed) == self.room.changes.load(Ordering::Acquire) {
            return None;
        }
        let (changes, tools) = self.room.tools();
        self.seen.store(changes, Ordering::Relaxed);
        Some(tools)
    }
}

/// Notes that lists of the hub change.
fn follow(attachment: &Attachment, changes: Arc<AtomicU64>) -> JoinHandle<()> {
    let notices = attachment.take_notices();
    tokio::spawn(async move {
        let Some(mut notices) = notices else { return };
        while let Some(notice) = notices.next().await {
            if let HubNotice::CatalogChanged { tools: true, .. } = notice {
                changes.fetch_add(1, Ordering::Release);
            }
        }
    })
}

fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}
