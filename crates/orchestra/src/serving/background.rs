//! Background work of what is served: threads of the board and of the audit file, watching of files,
//! plans, and the search for an engine. It begins after the first answer to a client.

use std::{future, time::Duration};

use orchestra_mcp::ServerLifecycle;
use orchestra_store::Store;
use tokio::time::{sleep, timeout};

use super::Serving;

/// Time from the first message of a client to the background work: the answer comes first.
const AFTER_FIRST: Duration = Duration::from_millis(50);

/// Time from the start to the background work, for a client that sends nothing.
const WITHOUT_FIRST: Duration = Duration::from_secs(1);

impl Serving {
    /// Begins the background work.
    pub(crate) fn begin(&self) {
        tracing::debug!("background work started");
        self.begun.send_replace(true);
        self.hub.start_audit();
        if let Some(store) = &self.store {
            store.start();
            report_earlier(store);
        }
    }

    /// Waits for the first message of the client, or for a moment without one, then begins the
    /// background work. May be cancelled.
    pub(crate) async fn begin_after_first(&self, life: &ServerLifecycle) {
        if timeout(WITHOUT_FIRST, life.heard()).await.is_ok() {
            sleep(AFTER_FIRST).await;
        }
        self.begin();
    }

    /// Completes when the background work begins; never if the program ends before.
    pub(super) fn begun(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut begun = self.begun.subscribe();
        async move {
            if begun.wait_for(|begun| *begun).await.is_err() {
                future::pending::<()>().await;
            }
        }
    }
}

/// Reports projects of the earlier program, which are served once they are imported.
fn report_earlier(store: &Store) {
    let waiting = store.not_imported();
    if let Some(first) = waiting.first() {
        let more = match waiting.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        tracing::warn!(
            "the project {first}{more} of orchestra-mcp is not served: `orchestra import` imports it, with a backup"
        );
    }
}
