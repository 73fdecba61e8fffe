//! HTTP+SSE of 2024-11-05: one stream that brings everything, and a place to post to that its
//! first event names.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use orchestra_wire::{Inbound, Message, RequestId, parse};
use reqwest::{Method, Response, Url, header::HeaderMap};
use tokio::{
    sync::oneshot,
    task::AbortHandle,
    time::{Duration, timeout},
};

use super::{
    config::same_origin, core::Core, events::Events, exchange::message, failure, listen,
    reply::answer_of, send::Load, stream::Stream,
};
use crate::client::{Answer, ClientError, Outgoing};

/// How long a server may take to name the place to post to.
const ENDPOINT_TIME: Duration = Duration::from_secs(10);

/// An open pair.
pub(super) struct OldPair {
    post_to: Url,
    waiting: Arc<Waiting>,
    reader: AbortHandle,
}

/// Requests without an answer.
#[derive(Default)]
struct Waiting(Mutex<HashMap<RequestId, oneshot::Sender<Answer>>>);

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, oneshot::Sender<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits; dropped, it is forgotten.
struct Waits<'a> {
    waiting: &'a Waiting,
    id: &'a RequestId,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.waiting.lock().remove(self.id);
    }
}

impl OldPair {
    /// Opens the stream and waits until it has named the place to post to.
    ///
    /// # Errors
    /// When there is no such stream.
    pub(super) async fn open(core: &Arc<Core>) -> Result<Self, ClientError> {
        let Stream::Open(mut response) = core.open_stream(None).await? else {
            return Err(ClientError::Handshake {
                what: "it has no event stream of HTTP+SSE at this URL".into(),
            });
        };
        let mut events = Events::new(core.config.max_message_bytes);
        let named = place(&mut response, &mut events);
        let post_to = match timeout(ENDPOINT_TIME, named).await {
            Ok(place) => place?,
            Err(_) => return Err(no_place("it names none in time")),
        };
        let post_to = core
            .endpoint
            .join(&post_to)
            .map_err(|_| no_place("it is no URL"))?;
        if !same_origin(&core.endpoint, &post_to) {
            return Err(no_place("it is of another origin"));
        }
        let waiting = Arc::<Waiting>::default();
        let idle = core.config.timeouts.idle_stream;
        let reading = read(
            Arc::downgrade(core),
            Arc::clone(&waiting),
            response,
            events,
            idle,
        );
        Ok(Self {
            post_to,
            waiting,
            reader: tokio::spawn(reading).abort_handle(),
        })
    }

    /// Posts a request and waits for its answer on the stream.
    pub(super) async fn exchange(
        &self,
        core: &Core,
        outgoing: &Outgoing,
    ) -> Result<Answer, ClientError> {
        let (answered, answer) = oneshot::channel();
        let id = &outgoing.id;
        self.waiting.lock().insert(id.clone(), answered);
        let _waits = Waits {
            waiting: &self.waiting,
            id,
        };
        self.post(core, message(outgoing)).await?;
        // The reader ends the connection before it is gone.
        answer.await.map_err(|_| ClientError::Closed)
    }

    /// Posts a message.
    pub(super) async fn post(&self, core: &Core, message: Load) -> Result<(), ClientError> {
        let common = core.common();
        let headers = || HeaderMap::clone(&common.headers);
        let sent = core
            .send(Method::POST, &self.post_to, headers, Some(message))
            .await?;
        if !sent.response.status().is_success() {
            return Err(core.failed(sent).await);
        }
        core.finish(sent.response);
        Ok(())
    }

    /// Stops reading.
    pub(super) fn close(&self) {
        self.reader.abort();
    }
}

impl Drop for OldPair {
    fn drop(&mut self) {
        self.close();
    }
}

fn no_place(what: &str) -> ClientError {
    ClientError::Handshake {
        what: format!("the place to post to, in the event `endpoint`, cannot be used: {what}"),
    }
}

/// What the first event names.
async fn place(response: &mut Response, events: &mut Events) -> Result<String, ClientError> {
    loop {
        let chunk = response.chunk().await;
        let bytes = match chunk.map_err(|error| failure::unsent(&error.without_url()))? {
            Some(bytes) => bytes,
            None => return Err(no_place("the stream ended before it")),
        };
        events.feed(&bytes);
        let event = events.next().map_err(|_| no_place("it is too long"))?;
        let Some(event) = event else { continue };
        if event.kind.as_deref() != Some("endpoint") {
            return Err(no_place("another event came first"));
        }
        return String::from_utf8(event.data.to_vec()).map_err(|_| no_place("it is no text"));
    }
}

/// Reads the stream to its end, which is that of the connection.
async fn read(
    core: Weak<Core>,
    waiting: Arc<Waiting>,
    mut response: Response,
    mut events: Events,
    idle: Duration,
) {
    let ended = loop {
        loop {
            let event = match events.next() {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => {
                    let what = "an event is larger than `maxMessageBytes` permits".into();
                    return end(&core, ClientError::InvalidMessage { what });
                }
            };
            let Some(core) = core.upgrade() else { return };
            if event.kind.is_some() || event.data.is_empty() {
                continue;
            }
            match parse(&event.data) {
                Ok(Inbound::One(Message::Response(response))) => {
                    let waits = response.id.as_ref().and_then(|id| {
                        let mut waiting = waiting.lock();
                        let exact = waiting.remove(id);
                        exact.or_else(|| waiting.remove(&id.other_form()?))
                    });
                    match waits {
                        Some(waits) => drop(waits.send(answer_of(&response, &event.data))),
                        None => core.count_dropped("a response without a waiting request"),
                    }
                }
                _ => listen::said(&core, &event.data),
            }
        }
        // Nobody has to say anything here while nothing is asked.
        let idle = match waiting.lock().is_empty() {
            true => Duration::MAX,
            false => idle,
        };
        match timeout(idle, response.chunk()).await {
            Ok(Ok(Some(bytes))) => events.feed(&bytes),
            Ok(Ok(None) | Err(_)) => break ClientError::Closed,
            Err(_) => break ClientError::Timeout { after: idle },
        }
    };
    end(&core, ended);
}

fn end(core: &Weak<Core>, error: ClientError) {
    if let Some(core) = core.upgrade() {
        core.end(error);
    }
}
