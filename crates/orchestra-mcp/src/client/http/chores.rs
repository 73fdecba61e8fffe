//! What is left to do when nobody waits for it any more, in one task of a connection.

use std::{sync::Weak, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use reqwest::{Method, Response};
use tokio::{sync::mpsc, time::timeout};

use super::core::Core;

/// Chores at once; what comes on top is not done.
const MAX_CHORES: usize = 256;

/// How long the rest of a response is waited for: most servers end it with the answer.
const REST_TIME: Duration = Duration::from_secs(2);

/// How much rest is read.
const MAX_REST_BYTES: usize = 64 * 1024;

/// Something that is left to do.
pub(super) enum Chore {
    /// Reads what follows an answer, so that its connection can be used again.
    Rest(Response),
    /// Posts a response to a request of the server.
    Respond(Vec<u8>),
}

/// Does chores until the connection is gone.
pub(super) async fn run(core: Weak<Core>, mut todo: mpsc::Receiver<Chore>) {
    let mut doing = FuturesUnordered::new();
    loop {
        tokio::select! {
            chore = todo.recv(), if doing.len() < MAX_CHORES => {
                let Some(chore) = chore else { return };
                doing.push(done(core.clone(), chore));
            }
            Some(()) = doing.next() => {}
        }
    }
}

async fn done(core: Weak<Core>, chore: Chore) {
    match chore {
        Chore::Rest(response) => drop(timeout(REST_TIME, rest(response)).await),
        Chore::Respond(message) => {
            let Some(core) = core.upgrade() else { return };
            let common = core.common();
            let headers = || common.headers.as_ref().clone();
            let sent = core.send(Method::POST, &core.endpoint, headers, Some(message.into()));
            if let Err(error) = sent.await {
                tracing::debug!(server = %core.config.name, %error, "the server did not accept a response");
            }
        }
    }
}

async fn rest(mut response: Response) {
    let mut read = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > MAX_REST_BYTES {
            return;
        }
    }
}
