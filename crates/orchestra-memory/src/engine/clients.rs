//! Who attends: clients that hold a stream open for as long as they live.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};
use tonic::Status;

/// Far more programs than use one workspace.
const MOST: usize = 512;

/// How long the first client may take to come.
const FIRST: Duration = Duration::from_secs(15);

/// How long the engine waits for the next client when the last has gone: programs that are started
/// one after the other share one engine.
const LINGER: Duration = Duration::from_secs(3);

/// Counts the clients. Clones count the same ones.
#[derive(Debug, Clone)]
pub(crate) struct Clients(watch::Sender<usize>);

impl Clients {
    pub(crate) fn none() -> Self {
        Self(watch::Sender::new(0))
    }

    /// How many attend.
    pub(crate) fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Counts one more, until it is dropped.
    pub(crate) fn enter(&self) -> Result<Client, Status> {
        let is_in = self.0.send_if_modified(|count| {
            let is_in = *count < MOST;
            *count += usize::from(is_in);
            is_in
        });
        if is_in {
            Ok(Client(self.0.clone()))
        } else {
            Err(Status::resource_exhausted(format!(
                "{MOST} clients attend already; end some of them"
            )))
        }
    }

    /// Waits until there is no client and none comes any more. May be cancelled.
    pub(crate) async fn are_gone(&self) {
        let mut count = self.0.subscribe();
        let mut patience = FIRST;
        loop {
            // An error means that nobody counts any more; we do.
            if timeout(patience, count.wait_for(|count| *count > 0))
                .await
                .is_err()
            {
                return;
            }
            let _ = count.wait_for(|count| *count == 0).await;
            patience = LINGER;
        }
    }
}

/// One client that attends.
#[derive(Debug)]
pub(crate) struct Client(watch::Sender<usize>);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_comes_after_the_last_client_and_not_between_two() {
        let (clients, begin) = (Clients::none(), Instant::now());
        let gone = tokio::spawn({
            let clients = clients.clone();
            async move { clients.are_gone().await }
        });
        let first = clients.enter().unwrap();
        sleep(FIRST * 4).await;
        drop(first);
        sleep(LINGER / 2).await;
        let second = clients.enter().unwrap();
        assert_eq!(clients.count(), 1);
        sleep(LINGER * 2).await;
        assert!(!gone.is_finished());
        drop(second);
        gone.await.unwrap();
        assert_eq!(
            begin.elapsed(),
            FIRST * 4 + LINGER / 2 + LINGER * 2 + LINGER
        );
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_forever_and_there_are_not_too_many() {
        let (clients, begin) = (Clients::none(), Instant::now());
        clients.are_gone().await;
        assert_eq!(begin.elapsed(), FIRST);
        let all: Vec<_> = (0..MOST).map(|_| clients.enter().unwrap()).collect();
        assert!(clients.enter().is_err());
        drop(all);
        assert_eq!(clients.count(), 0);
    }
}
