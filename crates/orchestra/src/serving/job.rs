//! The board as a job in a sandbox is served it: tools of the board, and no server, plan, plugin or engine behind them.

use std::sync::Arc;

use orchestra_hub::{Hub, HubConfig, Toolset};
use orchestra_mcp::{Limits, Server};
use orchestra_store::{Options, Store};
use orchestra_tools::{self as tools, Builtin};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::{Serving, audit};
use crate::hex::hex;
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

/// Characters of the id of a plan, and of a job at most, in the name of an agent. A name of the job's own has space beside
/// them.
const PLAN_CHARS: usize = 8;
const JOB_CHARS: usize = 32;

/// Calls of one connection that run at once, and that wait.
const RUNNING: usize = 8;
const QUEUED: usize = 64;

/// Returns the name of the agent that a job is on the board. `job` is its plan and its id.
fn agent_of(job: &str) -> String {
    let (plan, id) = job.split_once('/').unwrap_or(("", job));
    let plan: String = plan.chars().take(PLAN_CHARS).collect();
    if id.chars().count() <= JOB_CHARS {
        return format!("job {plan}/{id}");
    }
    // Ids of one plan may begin alike.
    let digest = hex(&Sha256::digest(id)[..4]);
    let start: String = id.chars().take(JOB_CHARS - digest.len() - 1).collect();
    format!("job {plan}/{start}~{digest}")
}

impl Serving {
    /// Opens the board of the workspace for a job. Must run inside the runtime.
    ///
    /// # Errors
    /// When there is no board, or it cannot be opened.
    pub(crate) fn open_for_job(config: &Config, job: &str) -> Result<Self, Failure> {
        workspace::check_board(&config.workspace)?;
        let options = config.memory.apply_to_job(Options {
            watch: false,
            ..Options::default()
        });
        let options = board::options(config, options)?;
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
            job: Some(agent_of(job)),
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
            sync: None,
            commits: None,
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

#[cfg(test)]
mod tests {
    use super::agent_of;

    #[test]
    fn name_of_a_job_is_short_and_distinct() {
        let plan = "1a2b3c4d-0000-4000-8000-000000000000";
        assert_eq!(agent_of(&format!("{plan}/inside")), "job 1a2b3c4d/inside");
        let long = ["a", "b"].map(|end| agent_of(&format!("{plan}/{}{end}", "x".repeat(63))));
        assert_ne!(long[0], long[1]);
        for name in long {
            assert!(
                name.starts_with("job 1a2b3c4d/xxx") && name.len() == 45,
                "{name}"
            );
        }
    }
}
