//! An engine in this process. The unit tests of this crate use it too.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestra_place::{Choice, Place, RunDirectory};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::engine::{self, Address, Endpoint, Life, Meaning, Options, Outcome};

/// Run directory of a workspace without git, whose state is in it.
pub(crate) fn run_directory(workspace: &Path) -> RunDirectory {
    let state = workspace.join("state");
    RunDirectory::new(Place::find(workspace, Some(&state), Choice::State).unwrap())
}

/// Starts an engine. It ends when the sender is used or dropped.
pub(crate) async fn run_engine(
    workspace: PathBuf,
    meaning: Option<Arc<dyn Meaning>>,
) -> (Endpoint, oneshot::Sender<()>, JoinHandle<Outcome>) {
    let options = Options {
        run: run_directory(&workspace),
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
