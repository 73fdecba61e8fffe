//! Work of a server that belongs to a client although none of its requests is open: tasks that run, and calls that were
//! given up.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use orchestra_hub::{Cx, SessionName};
use tokio::time::Instant;

/// Maximum number of clients whose calls that were given up are counted for each client.
const MAX_CLIENTS: usize = 1_024;

/// Client of a call. Clients without a session share a connection, and differ by the session that their front end names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ClientKey {
    pub(super) connection: u64,
    session: Option<SessionName>,
}

/// Work on one connection to a server.
#[derive(Default)]
pub(super) struct Background(Mutex<Work>);

#[derive(Default)]
struct Work {
    /// Tasks that run, with their clients.
    tasks: Vec<(String, ClientKey)>,
    /// Clients of calls that were given up, with the time until which the server may still run the last of them.
    abandoned: HashMap<ClientKey, Instant>,
    /// The same time of calls of further clients, which count as calls of several clients.
    crowded_until: Option<Instant>,
}

impl ClientKey {
    pub(super) fn of(cx: &Cx) -> Self {
        Self {
            connection: cx.connection,
            session: cx.along.session.clone(),
        }
    }
}

impl Background {
    /// Adds a task.
    pub(super) fn begin_task(&self, id: &str, client: &ClientKey) {
        self.work().tasks.push((id.to_owned(), client.clone()));
    }

    /// Removes a task.
    pub(super) fn end_task(&self, id: &str, client: &ClientKey) {
        let mut work = self.work();
        let mut tasks = work.tasks.iter();
        if let Some(at) = tasks.position(|(other, of)| other == id && of == client) {
            work.tasks.swap_remove(at);
        }
    }

    /// The client of a task, if all tasks of this name are of one client.
    pub(super) fn client_of(&self, id: &str) -> Option<ClientKey> {
        let work = self.work();
        let mut clients = work.tasks.iter().filter(|(other, _)| other == id);
        let (_, first) = clients.next()?;
        clients
            .all(|(_, client)| client == first)
            .then(|| first.clone())
    }

    /// Adds a call that was given up, which the server may run for `time`.
    pub(super) fn abandon(&self, client: ClientKey, time: Duration) {
        let until = Instant::now() + time;
        let mut work = self.work();
        if work.abandoned.len() < MAX_CLIENTS || work.abandoned.contains_key(&client) {
            work.abandoned.insert(client, until);
        } else {
            work.crowded_until = Some(until);
        }
    }

    /// Returns whether there is work for another client.
    pub(super) fn has_other(&self, client: &ClientKey) -> bool {
        let work = self.work();
        let tasks = work.tasks.iter().map(|(_, of)| of);
        let mut clients = tasks.chain(work.abandoned.keys());
        work.crowded_until.is_some() || clients.any(|of| of != client)
    }

    /// The work, without calls whose time is over.
    fn work(&self) -> MutexGuard<'_, Work> {
        let mut work = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        work.abandoned.retain(|_, until| *until > now);
        work.crowded_until = work.crowded_until.filter(|until| *until > now);
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(30);

    fn client(connection: u64) -> ClientKey {
        ClientKey {
            connection,
            session: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_given_up_by_many_clients_count_as_calls_of_several_until_their_time_is_over() {
        let background = Background::default();
        for _ in 0..3 {
            for connection in 0..MAX_CLIENTS as u64 {
                background.abandon(client(connection), TIME);
            }
        }
        assert_eq!(background.work().abandoned.len(), MAX_CLIENTS);
        assert_eq!(background.work().crowded_until, None);
        tokio::time::advance(TIME / 2).await;
        background.abandon(client(MAX_CLIENTS as u64), TIME);
        assert_eq!(background.work().abandoned.len(), MAX_CLIENTS);
        tokio::time::advance(TIME / 2).await;
        assert!(background.work().abandoned.is_empty());
        assert!(background.has_other(&client(0)));
        tokio::time::advance(TIME / 2).await;
        assert!(!background.has_other(&client(0)));
    }
}
