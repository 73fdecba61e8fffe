//! Fetching what remotes have before a plan that was resumed goes on.

use std::{sync::Arc, time::Duration};

use orchestra_plan::ids::PlanId;

use super::{Engine, Event, Help};
use crate::{cause::chain, git::GitError, runner::turn::Turn};

/// How long remotes may take: what is fetched later, a job that needs it asks for again.
const FETCHING: Duration = Duration::from_secs(30);

impl Engine {
    /// Whether a plan waits for what remotes have.
    pub(super) fn awaits_fetch(&self, plan: &PlanId) -> bool {
        self.fetching.contains(plan)
    }

    /// Fetches for the plans that wait for it, once for all of them.
    pub(super) fn fetch(&mut self) {
        if self.is_fetching || self.fetching.is_empty() {
            return;
        }
        self.is_fetching = true;
        let (host, events) = (Arc::clone(&self.host), self.events.clone());
        self.help(Help::Fetch, async move {
            let fetched = async { host.repository().await?.fetch().await };
            // A plan goes on with what there is.
            match tokio::time::timeout(FETCHING, fetched).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => not_fetched(&error),
                Err(_) => {
                    tracing::info!("fetching the remotes takes too long; plans continue without it")
                }
            }
            // Who comes next does not wait for it.
            let _ = events.send(Event::Fetched).await;
        });
    }

    /// Lets the plans go on that have waited.
    pub(super) fn fetched(&mut self, turn: &mut Turn) {
        self.is_fetching = false;
        turn.touched.append(&mut self.fetching);
    }
}

fn not_fetched(error: &GitError) {
    let error = chain(error);
    tracing::info!(%error, "cannot fetch all remotes; plans continue with the last known branches");
}
