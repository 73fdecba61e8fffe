//! Work of a server that belongs to a client although none of its requests is open: tasks that run, and calls that were
//! given up.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use orchestra_hub::{Cx, SessionName};
use tokio::time::Instant;

/// Client of a call. Clients without a session share a connection, and differ by the session that their front end names.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Clients of calls that were given up, with the time until which the server may still run the call. Calls of one
    /// client in a row are one entry.
    abandoned: VecDeque<(ClientKey, Instant)>,
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
        match work.abandoned.back_mut() {
            Some((last, end)) if *last == client => *end = until,
            _ => work.abandoned.push_back((client, until)),
        }
    }

    /// Returns whether there is work for another client.
    pub(super) fn has_other(&self, client: &ClientKey) -> bool {
        let work = self.work();
        let tasks = work.tasks.iter().map(|(_, of)| of);
        let abandoned = work.abandoned.iter().map(|(of, _)| of);
        tasks.chain(abandoned).any(|of| of != client)
    }

    /// The work, without calls whose time is over.
    fn work(&self) -> MutexGuard<'_, Work> {
        let mut work = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_over = |(_, until): &mut (ClientKey, Instant)| *until <= now;
        while work.abandoned.pop_front_if(is_over).is_some() {}
        work
    }
}
