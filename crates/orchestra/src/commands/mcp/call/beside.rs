//! The call of a plugin: meanwhile it is served as by `orchestra stdio`, so that it can store documents
//! and ask other plugins.

use std::{sync::Arc, time::Duration};

use orchestra_gateway::discovery::Server;
use orchestra_mcp::client::tap::Tap;
use orchestra_store::Options;

use crate::{
    commands::{
        mcp::{
            Here,
            live::{self, Live, Trouble},
        },
        tool::theirs::Theirs,
    },
    config::Config,
    exit::Failure,
    serving::{self, PATIENCE, Scratch, Serving},
    trace::{self, TraceFlags},
    workspace,
};

/// Starts a plugin, does something with it, and ends it.
pub(super) fn call<T, W, F>(
    here: &Here,
    config: &Config,
    trace: &TraceFlags,
    server: &Server,
    wait: Duration,
    work: W,
) -> Result<Vec<Result<T, Trouble>>, Failure>
where
    T: Send + 'static,
    W: Fn(Arc<Live>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<T, Trouble>> + Send + 'static,
{
    let tap = trace.open(None)?;
    let done = serving::runtime()?.block_on(async {
        if !workspace::has_board(&config.workspace) {
            let scratch = Scratch::open(config)?;
            let done = served(
                scratch.serving(),
                here,
                config,
                tap.as_ref(),
                server,
                wait,
                work,
            )
            .await;
            scratch.close();
            return done;
        }
        let options = Options {
            watch: false,
            ..Options::default()
        };
        let serving = Serving::open_waiting(config, options, PATIENCE)?;
        let done = served(&serving, here, config, tap.as_ref(), server, wait, work).await;
        serving.leave_plans().await;
        serving.close();
        done
    });
    if let Some(tap) = &tap {
        trace::finish(tap);
    }
    done
}

async fn served<T, W, F>(
    serving: &Serving,
    here: &Here,
    config: &Config,
    tap: Option<&Tap>,
    server: &Server,
    wait: Duration,
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
    let connectors = match tap {
        Some(tap) => connectors.with_tap(tap.clone()),
        None => connectors,
    };
    let done = live::at_once(&connectors, &[server], Some(wait), work).await;
    guests.close().await;
    done
}
