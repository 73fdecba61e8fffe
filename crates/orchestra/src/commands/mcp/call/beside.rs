//! The call of a plugin: meanwhile it is served as by `orchestra stdio`, so that it can store documents
//! and ask other plugins.

use orchestra_gateway::{config::ServerConfig, connect::Connectors};

use crate::{
    commands::{
        mcp::{Here, live},
        tool::theirs::Theirs,
    },
    config::Config,
    exit::Failure,
    serving::{self, BoardOrScratch, Serving},
};

/// Does `work` while a plugin and those that it may ask are served. `work` starts the plugin with the connectors that
/// it is given.
pub(super) fn serve<T>(
    here: &Here,
    config: &Config,
    plugin: &ServerConfig,
    work: impl AsyncFnOnce(Connectors) -> Result<T, Failure>,
) -> Result<T, Failure> {
    serving::runtime()?.block_on(async {
        let board = BoardOrScratch::open(config)?;
        let done = served(board.serving(), here, config, plugin, work).await;
        board.close().await;
        done
    })
}

async fn served<T>(
    serving: &Serving,
    here: &Here,
    config: &Config,
    plugin: &ServerConfig,
    work: impl AsyncFnOnce(Connectors) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let guests = Theirs::beside(config, plugin)?.begin(serving, config)?;
    let done = work(live::connectors(here)?.with_quic(serving.orchestrator().quic())).await;
    guests.close().await;
    done
}
