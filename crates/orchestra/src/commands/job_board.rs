//! `orchestra __board`: serves the board to one connection of a job in a sandbox.
//!
//! The supervisor of the job starts it; people do not. It runs outside the sandbox, so it takes nothing from the job
//! but MCP messages: the workspace and the name of the job are on its command line.

use std::path::Path;

use clap::Args;
use orchestra_mcp::stdio;
use orchestra_runner::supervise::BoardServer;

use crate::{
    cli::Common,
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
    serving::Serving,
};

/// By which name it is called.
pub(crate) const NAME: &str = "__board";

/// Serve the board to a job in a sandbox, over stdin and stdout
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Plan and job that calls are recorded under
    #[arg(long, value_name = "PLAN/JOB")]
    job: String,
}

/// The program and the command line by which it is started, but for the name of the job.
pub(crate) fn server(program: &Path, workspace: &Path) -> BoardServer {
    BoardServer {
        program: program.to_owned(),
        arguments: vec![
            NAME.into(),
            "--workspace".into(),
            workspace.into(),
            "--job".into(),
        ],
        environment: Vec::new(),
    }
}

/// Serves until the connection ends.
///
/// # Errors
/// When the workspace has no board, or it cannot be opened.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    logging::start(&config.log.value)?;
    let runtime = stdio::runtime()?;
    let served = runtime.block_on(async {
        let serving = Serving::open_for_job(&config, &arguments.job)?;
        let server = serving.server_of_job(&arguments.job);
        let served = stdio::serve(&server).await;
        drop(server);
        serving.close();
        served.map_err(anyhow::Error::from)?;
        Ok::<_, Failure>(())
    });
    // The thread that reads stdin may still be blocked there; it ends with the process.
    runtime.shutdown_background();
    served.map(|()| Exit::Ok)
}
