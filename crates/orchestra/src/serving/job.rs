//! The board as a job in a sandbox is served it: tools of the board, and no server, plan, plugin or engine behind them.

use std::sync::Arc;

use orchestra_hub::{Hub, HubConfig, Toolset};
use orchestra_mcp::{Limits, Server};
use orchestra_store::{Options, Store};
use orchestra_tools::{self as tools, Builtin};
use tokio::sync::watch;

use super::{Serving, audit};
use crate::{
    board,
    config::{Config, TextFormat},
    exit::Failure,
    orchestrator::Orchestrator,
    stopping::CALLS,
    workspace,
};

/// Longest message of a job: a long text, as JSON.
const LINE_BYTES: usize = 4 * 1024 * 1024;

/// Calls of one connection that run at once, and that wait.
const RUNNING: usize = 8;
const QUEUED: usize = 64;

impl Serving {
    /// Opens the board of the workspace for a job. Must run inside the runtime.
    ///
    /// # Errors
    /// When there is no board, or it cannot be opened.
    pub(crate) fn open_for_job(config: &Config) -> Result<Self, Failure> {
        workspace::check_board(&config.workspace)?;
        let options = config.memory.apply(Options {
            watch: false,
            ..Options::default()
        });
        let options = board::options(&config.workspace, options)?;
        let store = Store::open_idle(&config.workspace, options)?;
        let hub = Hub::new(HubConfig {
            deadline: config.call_timeout.value,
            audit: audit(config),
            ..HubConfig::default()
        });
        let text = match config.format.value {
            TextFormat::Json => tools::TextFormat::Json,
            TextFormat::Toon => tools::TextFormat::Toon,
        };
        let options = tools::Options {
            text,
            watch: false,
            is_for_job: true,
            ..tools::Options::default()
        };
        hub.register(Arc::new(Builtin::new(store.clone(), options)))?;
        let server = Server::builder(hub.clone(), "orchestra").build();
        let serving = Self {
            store: Some(store),
            orchestrator: Orchestrator::new(&server, None, &config.quic),
            hub,
            config: config.clone(),
            others: None,
            engines: None,
            plans: None,
            waiting: None,
            begun: watch::Sender::new(false),
        };
        serving.begin();
        // Edits of readable files count from the first call.
        serving.catch_up();
        Ok(serving)
    }

    /// An MCP server for one connection of a job. Calls are recorded under the name of the job.
    pub(crate) fn server_of_job(&self, job: &str) -> Server {
        let limits = Limits {
            line_bytes: self.config.line_bytes.value.min(LINE_BYTES),
            running: RUNNING,
            queued: QUEUED,
            queued_bytes: LINE_BYTES,
            grace: CALLS,
            ..Limits::default()
        };
        Server::builder(self.hub.clone(), "orchestra")
            .title("Orchestra")
            .version(env!("CARGO_PKG_VERSION"))
            .client(&format!("job {job}"))
            .toolset(Toolset::All)
            .limits(limits)
            .build()
    }
}
