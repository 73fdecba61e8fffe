//! An engine in this process. The unit tests of this crate use it too.

use std::{path::PathBuf, sync::Arc};

use tokio::{sync::oneshot, task::JoinHandle};

use crate::engine::{self, Address, Endpoint, Life, Meaning, Options, Outcome};

/// Starts an engine. It ends when the sender is used or dropped.
pub(crate) async fn run_engine(
    workspace: PathBuf,
    meaning: Option<Arc<dyn Meaning>>,
) -> (Endpoint, oneshot::Sender<()>, JoinHandle<Outcome>) {
    let options = Options {
        workspace,
        address: Address::Preferred(0),
        asks_token: true,
        life: Life::OfItsOwn,
        store: orchestra_store::Options::default(),
        meaning,
    };
    let (end, ended) = oneshot::channel();
    let (sender, endpoint) = oneshot::channel();
    let running = tokio::spawn(async move {
        let ready = |endpoint: &Endpoint| sender.send(endpoint.clone()).unwrap();
        let ended = async { drop(ended.await) };
        engine::run(options, ready, ended).await.unwrap()
    });
    (endpoint.await.unwrap(), end, running)
}
