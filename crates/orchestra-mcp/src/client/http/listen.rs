//! The stream on which a server of the session era says what belongs to no request.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use orchestra_wire::{Inbound, parse, parse_item};
use reqwest::Response;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

use super::{
    core::Core,
    events::Events,
    stream::{Stream, encoded_id},
};
use crate::client::ClientError;

/// The wait before the stream is opened again, unless the server names one; it doubles while
/// nothing comes of it.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest of these waits.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A stream that lived for this long ends the doubling.
const HEALTHY: Duration = Duration::from_secs(10);

/// Listens for as long as the server offers it and the connection lives. `tried` is told when the
/// stream is there for the first time, or is known not to be.
pub(super) async fn run(core: Weak<Core>, tried: oneshot::Sender<()>) {
    let mut tried = Some(tried);
    let mut events = None;
    let mut wait = FIRST_WAIT;
    let mut has_listened = false;
    loop {
        let begun = Instant::now();
        let (idle, resumes, opened) = {
            let Some(core) = core.upgrade() else { return };
            let events = events.get_or_insert_with(|| Events::new(core.config.max_message_bytes));
            let last = events.last_id().map(encoded_id);
            (
                core.config.timeouts.idle_stream,
                last.is_some(),
                core.open_stream(last).await,
            )
        };
        // The caller begins when the stream is there, unless that takes too long.
        let is_first = tried.take().is_some_and(|tried| tried.send(()).is_ok());
        let events = events
            .as_mut()
            .expect("it was made when the first stream was opened");
        match opened {
            Ok(Stream::Open(response)) => {
                has_listened = true;
                events.restart();
                if !(is_first || resumes)
                    && let Some(core) = core.upgrade()
                {
                    core.miss();
                }
                follow(&core, response, events, idle).await;
            }
            // The place is there: what is not, is the session.
            Ok(Stream::Denied) if has_listened => {
                if let Some(core) = core.upgrade() {
                    core.session_is_gone();
                }
                return;
            }
            // There is none; it was asked once.
            Ok(Stream::NotOffered | Stream::Denied) => return,
            Err(ClientError::NeedsAuth { .. } | ClientError::InvalidConfig { .. }) => return,
            Err(error) => {
                let Some(core) = core.upgrade() else { return };
                tracing::debug!(server = %core.config.name, %error, "cannot open the server's notification stream");
            }
        }
        if begun.elapsed() >= HEALTHY {
            wait = FIRST_WAIT;
        }
        sleep(events.retry().unwrap_or(wait).max(wait.min(FIRST_WAIT))).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Passes on what comes until the stream ends or says nothing for too long.
async fn follow(core: &Weak<Core>, mut response: Response, events: &mut Events, idle: Duration) {
    while let Ok(Ok(Some(bytes))) = timeout(idle, response.chunk()).await {
        let Some(core) = core.upgrade() else { return };
        events.feed(&bytes);
        loop {
            match events.next() {
                Ok(Some(event)) if event.kind.is_some() || event.data.is_empty() => {}
                Ok(Some(event)) => said(&core, &event.data),
                Ok(None) => break,
                Err(_) => return core.count_dropped("an event that is too large"),
            }
        }
    }
}

/// Passes on a message, or a batch of them.
pub(super) fn said(core: &Arc<Core>, text: &[u8]) {
    match parse(text) {
        Ok(Inbound::One(message)) => core.hear(&message, None),
        Ok(Inbound::Batch(items)) => {
            for item in items {
                match parse_item(item) {
                    Ok(message) => core.hear(&message, None),
                    Err(_) => core.count_dropped("what is no message"),
                }
            }
        }
        _ => core.count_dropped("what is no message"),
    }
}
