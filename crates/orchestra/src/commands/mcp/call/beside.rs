//! The call of a plugin: meanwhile it is served as by `orchestra stdio`, so that it can store documents
//! and ask other plugins.

use std::sync::Arc;

use orchestra_gateway::discovery::Server;
use orchestra_store::Options;

use crate::{
    commands::{
        mcp::{
            Here,
            live::{self, Live, Trouble, Within},
        },
        tool::theirs::Theirs,
    },
    config::Config,
    exit::Failure,
    serving::{self, PATIENCE, Scratch, Serving},
    trace::TraceFlags,
    workspace,
};

/// Starts a plugin, does something with it, and ends it.
pub(super) fn call<T, W, F>(
    here: &Here,
    config: &Config,
    trace: &TraceFlags,
    server: &Server,
    within: Within,
    work: W,
) -> Result<Vec<Result<T, Trouble>>, Failure>
where
    T: Send + 'static,
    W: Fn(Arc<Live>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<T, Trouble>> + Send + 'static,
{
    serving::runtime()?.block_on(async {
        if !workspace::has_board(&config.workspace) {
            let scratch = Scratch::open(config)?;
            let done = served(scratch.serving(), here, config, trace, server, within, work).await;
            scratch.close();
            return done;
        }
        let options = Options {
            watch: false,
            ..Options::default()
        };
        let serving = Serving::open_waiting(config, options, PATIENCE)?;
        let done = served(&serving, here, config, trace, server, within, work).await;
        serving.leave_plans().await;
        serving.close();
        done
    })
}

async fn served<T, W, F>(
    serving: &Serving,
    here: &Here,
    config: &Config,
    trace: &TraceFlags,
    server: &Server,
    within: Within,
    work: W,
) -> Result<Vec<Result<T, Trouble>>, Failure>
where
    T: Send + 'static,
    W: Fn(Arc<Live>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<T, Trouble>> + Send + 'static,
{
    let guests = match server.config() {
        Some(plugin) => Theirs::beside(config, plugin)?.begin(serving, config)?,
        None => Theirs::default().begin(serving, config)?,
    };
    let connectors = live::connectors(here)?.with_quic(serving.orchestrator().quic());
    let done = live::at_once(Some(trace), connectors, &[server], Some(within), work).await;
    guests.close().await;
    done
}
