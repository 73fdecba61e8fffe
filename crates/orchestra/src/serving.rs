//! Assembles what serves a workspace: the store, the built-in tools over it, the hub, and an MCP
//! server for each face.

mod background;
mod commits;
mod engine;
mod job;
mod others;
mod plans;
mod resources;
mod scratch;
mod sync;

use std::{io, num::NonZeroUsize, path::Path, sync::Arc, thread, time::Duration};

use anyhow::Context as _;
use orchestra_gateway::{config::ServerConfig, discovery::Found};
use orchestra_hub::{Attachment, Audit, Caller, Hub, HubConfig, Toolset, ToolsetError};
use orchestra_mcp::{Limits, PartLook, Server, ServerStatus, client::tap::TapWatch};
use orchestra_memory::engine::Engines;
use orchestra_runner::plans::Plans;
use orchestra_store::{self as store, Store};
use orchestra_tools::{self as tools, Builtin, PlanService};
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, timeout_at},
};

use crate::{
    board,
    config::{Config, Setting, TextFormat},
    exit::Failure,
    orchestrator::Orchestrator,
    output,
    stopping::{AFTER_SERVERS, CALLS, FILES},
    workspace::{
        AUDIT, PROJECTS, check_checked_out, check_narrow, has_board_at, remote_hint, run_directory,
    },
};
use others::Others;
pub(crate) use others::Shown;
pub(crate) use plans::{leave as leave_plans, options as plan_options};
use resources::BundledResources;

pub(crate) use scratch::{BoardOrScratch, Scratch};

/// How long the readable files may take to catch up when a command has done its work.
const CLOSING: Duration = Duration::from_secs(5);

/// How much longer this process goes on writing them where it is the one that does.
const CLOSING_STILL: Duration = Duration::from_secs(25);

/// How long the sweep for edited files may take, where its end is waited for.
const CATCHING_UP: Duration = Duration::from_secs(30);

/// Deadline of the hand-over of the plans when a command has done its work.
pub(crate) const LEAVING: Duration = Duration::from_secs(15);

/// How long a person waits for servers that are started for the first time, and may be fetched from a
/// network before.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Threads of the runtime at most. Calls are polled where they arrive; these only run what waits.
const MAX_WORKERS: usize = 2;

/// Everything that serves one workspace.
pub(crate) struct Serving {
    /// `None` where there is no board.
    store: Option<Store>,
    hub: Hub,
    config: Config,
    orchestrator: Orchestrator,
    others: Option<Others>,
    engines: Option<Engines>,
    /// The plans of the workspace; `None` where only upstream MCP servers are served.
    plans: Option<Plans>,
    /// Exchanges the board with other clones, if configured.
    sync: Option<sync::Background>,
    /// Commits the board, if it was exchanged.
    commits: Option<commits::Commits>,
    /// Waits for a model to be configured, to start the engine then.
    waiting: Option<JoinHandle<()>>,
    /// Turns true when the background work begins.
    begun: watch::Sender<bool>,
}

/// Over what a board is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    /// By `stdio`, of which there may be many.
    Stdio,
    /// By `up`.
    Http,
}

/// The runtime that everything is served in.
///
/// # Errors
/// When the system gives no threads.
pub(crate) fn runtime() -> std::io::Result<Runtime> {
    // On a small machine a second thread would take turns with the servers behind us, which costs
    // more than it brings.
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Builder::new_multi_thread()
        .worker_threads((processors / 2).clamp(1, MAX_WORKERS))
        .enable_all()
        .build()
}

/// Writes to the log how the server is.
pub(crate) fn tell(status: &ServerStatus) {
    match status {
        ServerStatus::Error(reason) => tracing::warn!(%reason, "the server has a problem"),
        status => tracing::info!(status = status.as_str(), "server status changed"),
    }
}

impl Serving {
    /// Opens the board of the workspace and registers the built-in tools. Must run inside the
    /// runtime.
    ///
    /// # Errors
    /// When the board cannot be opened.
    pub(crate) fn open(config: &Config, options: store::Options) -> Result<Self, Failure> {
        Self::open_waiting(config, options, HubConfig::default().list_wait)
    }

    /// As [`open_waiting`](Self::open_waiting), of a board that goes with this: documents of plugins
    /// are refused, which would be lost with it, and calls are not audited. Plans are those of `workspace`, which stays.
    ///
    /// # Errors
    /// As there.
    fn open_scratch(
        config: &Config,
        workspace: &Path,
        options: store::Options,
        list_wait: Duration,
    ) -> Result<Self, Failure> {
        let serving = Self::open_with(config, workspace, options, list_wait, false)?;
        serving.begin();
        Ok(serving)
    }

    /// As [`open`](Self::open); lists wait so long for servers that do not know yet what they offer.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn open_waiting(
        config: &Config,
        options: store::Options,
        list_wait: Duration,
    ) -> Result<Self, Failure> {
        let serving = Self::open_with(config, &config.workspace, options, list_wait, true)?;
        serving.begin();
        Ok(serving)
    }

    /// As [`open`](Self::open), without background work, so that the client gets its first answer soon.
    /// [`begin`](Self::begin) begins it. A change also starts the threads of the board.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn open_idle(config: &Config, options: store::Options) -> Result<Self, Failure> {
        let list_wait = HubConfig::default().list_wait;
        Self::open_with(config, &config.workspace, options, list_wait, true)
    }

    fn open_with(
        config: &Config,
        workspace: &Path,
        options: store::Options,
        list_wait: Duration,
        keeps: bool,
    ) -> Result<Self, Failure> {
        if !has_board_at(&config.workspace, config.home().ok().as_ref()) {
            check_narrow(&config.workspace).map_err(Failure::usage)?;
            if keeps {
                check_checked_out(&config.workspace)?;
                report_new_board(config);
            }
        }
        let options = config.memory.apply(options);
        // A scratch board is nobody's.
        let options = match keeps {
            true => board::options(config, options)?,
            false => options,
        };
        let watches = options.watch;
        let begun = watch::Sender::new(false);
        let store = Store::open_idle(&config.workspace, options)?;
        let hub = Hub::new(HubConfig {
            deadline: config.call_timeout.value,
            list_wait,
            audit: keeps.then(|| audit(config)).flatten(),
            ..HubConfig::default()
        });
        let text = match config.format.value {
            TextFormat::Json => tools::TextFormat::Json,
            TextFormat::Toon => tools::TextFormat::Toon,
        };
        let bundle = Arc::new(BundledResources::default());
        let engines = engine::of(config);
        let hinted = config.clone();
        let plans = || {
            let mut options = plan_options(config, workspace, "orchestra");
            // A single call takes part only to change something.
            options.only_looks = !watches;
            Plans::new(options)
        };
        let plans = (!config.servers.only_servers).then(plans);
        let options = tools::Options {
            text,
            bundle,
            watch: watches,
            begun: Some(begun.subscribe()),
            engines: engines.clone(),
            plans: plans
                .clone()
                .map(|plans| Arc::new(plans) as Arc<dyn PlanService>),
            empty_board_hint: Some(Arc::new(move || remote_hint(&hinted))),
            job: None,
        };
        if !config.servers.only_servers {
            let builtin = Builtin::new(store.clone(), options);
            hub.register(Arc::new(builtin))?;
        } else {
            // A call of a built-in tool does not reach a server that has a tool of its name.
            hub.reserve_tools(tools::tool_names().collect());
        }
        // Which servers it may name is not known yet.
        let toolset = Toolset::parse(&config.tools.value).unwrap_or_default();
        let orchestrator = Orchestrator::new(
            &server(&hub, config, toolset),
            keeps.then(|| store.clone()),
            &config.quic,
        );
        Ok(Self {
            store: Some(store),
            hub,
            config: config.clone(),
            orchestrator,
            others: None,
            engines,
            plans,
            sync: None,
            commits: None,
            waiting: None,
            begun,
        })
    }

    /// Serves only upstream MCP servers: there is no board, and no directory is created for one. Must run inside the
    /// runtime.
    pub(crate) fn without_board(config: &Config) -> Self {
        let hub = Hub::new(HubConfig {
            deadline: config.call_timeout.value,
            ..HubConfig::default()
        });
        let toolset = Toolset::parse(&config.tools.value).unwrap_or_default();
        let server = server(&hub, config, toolset);
        Self {
            store: None,
            orchestrator: Orchestrator::new(&server, None, &config.quic),
            hub,
            config: config.clone(),
            others: None,
            engines: None,
            plans: None,
            sync: None,
            commits: None,
            waiting: None,
            begun: watch::Sender::new(true),
        }
    }

    /// Finds and starts the upstream MCP servers, which run as long as this is served. `watch` shows their messages.
    /// They are greeted when the first client has come, or after `clients_wait`. Must run inside the runtime; waits for none of them.
    ///
    /// # Errors
    /// When the decisions of the user about them cannot be read.
    pub(crate) fn start_others(
        &mut self,
        watch: Option<TapWatch>,
        clients_wait: Duration,
    ) -> Result<(), Failure> {
        // An invalid toolset is reported when it is needed.
        let toolset = Toolset::parse(&self.config.tools.value).unwrap_or_default();
        let orchestrator = self.orchestrator.clone();
        match Others::start(
            &self.hub,
            &self.config,
            toolset,
            orchestrator,
            watch,
            self.begun.subscribe(),
            clients_wait,
        ) {
            Ok(others) => self.others = Some(others),
            // Flags that name servers make it an error; without them the board is served alone.
            Err(failure) if self.config.servers.given().next().is_some() => return Err(failure),
            Err(failure) => tracing::warn!(
                error = %failure.text(),
                "cannot serve the upstream MCP servers"
            ),
        }
        Ok(())
    }

    /// Starts one server that no file names, and waits for nothing. Must run inside the runtime.
    ///
    /// # Errors
    /// When the user has no home.
    pub(crate) fn start_one(&mut self, server: ServerConfig) -> Result<(), Failure> {
        self.others = Some(Others::alone(&self.hub, &self.config, server)?);
        Ok(())
    }

    /// The orchestrator, which admits and reaches plugins and bridges.
    pub(crate) const fn orchestrator(&self) -> &Orchestrator {
        &self.orchestrator
    }

    /// The upstream MCP servers, as they were applied last.
    pub(crate) fn applied_servers(&self) -> Option<watch::Receiver<Arc<Found>>> {
        self.others.as_ref()?.applied.clone()
    }

    /// The upstream MCP servers, as they were found at the start.
    pub(crate) fn others(&self) -> &[Shown] {
        self.others.as_ref().map_or(&[], |others| &others.states)
    }

    /// Returns whether the board cannot be written, whatever is asked for.
    pub(crate) fn is_read_only(&self) -> bool {
        let store = self.store.as_ref();
        store.is_some_and(|store| {
            store.read_only().is_some() || !board::is_writable(store.directory())
        })
    }

    /// Warns where it was clear when the board was opened that it cannot be written.
    pub(crate) fn warn_of_read_only(&self) {
        if let Some(fault) = self.store.as_ref().and_then(Store::read_only) {
            output::complain(&fault.to_string());
        }
    }

    /// The hub.
    pub(crate) const fn hub(&self) -> &Hub {
        &self.hub
    }

    /// The tools that clients see. A server that it names need not be used now: it may be approved or
    /// switched on later.
    ///
    /// # Errors
    /// When the configuration names none, or a server that there is not.
    pub(crate) fn toolset(&self) -> Result<Toolset, Failure> {
        self.toolset_of(None)
    }

    /// As [`toolset`](Self::toolset), where another flag than that of the setting may have chosen it.
    pub(crate) fn toolset_of(&self, flag: Option<&str>) -> Result<Toolset, Failure> {
        let Setting { value, origin } = &self.config.tools;
        let name = flag.unwrap_or_else(|| origin.name_of("tools"));
        let checked = || {
            let toolset = Toolset::parse(value)?;
            toolset.check_groups(tools::group_names())?;
            // Where servers are not looked for, nobody knows which there are.
            if let Some(others) = &self.others {
                toolset.check_servers(others.states.iter().map(|shown| shown.name.as_str()))?;
            }
            Ok::<_, ToolsetError>(toolset)
        };
        checked()
            .with_context(|| format!("{name} ({origin})"))
            .map_err(Failure::usage)
    }

    /// An MCP server over the hub.
    ///
    /// # Errors
    /// When the configuration names no toolset.
    pub(crate) fn server(&self) -> Result<Server, Failure> {
        Ok(server(&self.hub, &self.config, self.toolset()?))
    }

    /// Parts that have a state of their own: the plans, and the background exchange of the board.
    pub(crate) fn parts(&self) -> Vec<PartLook> {
        self.plans_part()
            .into_iter()
            .chain(self.sync_part())
            .collect()
    }

    /// Lets the command line in, to the tools of a toolset.
    pub(crate) fn attach(&self, toolset: Toolset) -> Attachment {
        self.hub.attach(
            Caller {
                face: "cli",
                client: None,
            },
            toolset,
        )
    }

    /// Waits until edits of the readable files are taken in.
    pub(crate) fn catch_up(&self) {
        let Some(store) = &self.store else { return };
        if let Err(error) = store.settle(CATCHING_UP) {
            tracing::warn!(%error, "cannot import edits of the readable files yet");
        }
    }

    /// Ends the servers of others, and writes what is still to be written: all of it by a deadline.
    pub(crate) async fn end(mut self, deadline: Instant) {
        let before = |rest| deadline.checked_sub(rest).unwrap_or(deadline);
        let (others, engines) = (self.others.take(), self.engines.take());
        if let Some(waiting) = self.waiting.take() {
            waiting.abort();
        }
        let others = async {
            if let Some(others) = others {
                others.close(before(AFTER_SERVERS)).await;
            }
        };
        let engine = async {
            if let Some(engines) = engines {
                engines.end(before(AFTER_SERVERS)).await;
            }
        };
        let plans = async {
            if let Some(plans) = self.plans.take() {
                leave_plans(&plans, before(FILES)).await;
            }
        };
        let sync = async {
            if let Some(sync) = self.sync.take() {
                sync.end(before(FILES)).await;
            }
        };
        tokio::join!(others, engine, plans, sync);
        // Plugins call back until they have ended.
        self.orchestrator.close(before(FILES)).await;
        if let Some(commits) = self.commits.take() {
            commits.end(before(FILES)).await;
        }
        let Some(store) = self.store.take() else {
            return;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let closing = spawn_blocking(move || store.close(left));
        if timeout_at(deadline, closing).await.is_err() {
            tracing::warn!(
                "the readable files are out of date; the next program that starts here writes them"
            );
        }
    }

    /// Writes what is still to be written, as [`close`] does.
    pub(crate) fn close(self) {
        if let Some(store) = self.store {
            close(&store);
        }
    }
}

/// Closes a board when the readable files show what was done, whichever program writes them: whoever
/// commits them next commits all of it. Says so on stderr where that takes too long.
pub(crate) fn close(store: &Store) {
    match store.settle(CLOSING) {
        Ok(()) => store.close(CLOSING),
        Err(error) => {
            output::complain(&format!(
                "the changes are stored, but not all files in {PROJECTS} contain them yet: {error}"
            ));
            store.close(CLOSING_STILL);
        }
    }
}

/// Reports that a board is created, and that another one may be fetched.
fn report_new_board(config: &Config) {
    output::complain(&format!(
        "creating a board in {}; --workspace names another directory",
        config.workspace.display()
    ));
    if let Some(hint) = remote_hint(config) {
        output::complain(hint);
    }
}

/// An MCP server over a hub, as it is configured.
fn server(hub: &Hub, config: &Config, toolset: Toolset) -> Server {
    let limits = Limits {
        line_bytes: config.line_bytes.value,
        running: config.concurrent_calls.value,
        grace: CALLS,
        ..Limits::default()
    };
    Server::builder(hub.clone(), "orchestra")
        .title("Orchestra")
        .version(env!("CARGO_PKG_VERSION"))
        .toolset(toolset)
        .limits(limits)
        .build()
}

/// The audit file. A board that can be read but not written is still served, without one.
pub(crate) fn audit(config: &Config) -> Option<Audit> {
    let open = || {
        let run = run_directory(config)?.make()?;
        let path = run.path().join(AUDIT);
        let opened = Audit::open(config.audit.of(path.clone()));
        opened.with_context(|| format!("open {}", path.display()))
    };
    let told = |error: anyhow::Error| {
        let mut kinds = error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<io::Error>());
        // Changes are refused there, and say why.
        match kinds.any(|cause| cause.kind() == io::ErrorKind::ReadOnlyFilesystem) {
            true => tracing::info!("calls are not audited: {error:#}"),
            false => tracing::warn!("calls are not audited: {error:#}"),
        }
    };
    open().map_err(told).ok()
}
