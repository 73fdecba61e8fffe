//! A tap: what goes over a connection to a server is recorded beside it.
//!
//! [`TapConnector`] stands before any [`Connector`], [`TapStream`] beside bytes that somebody else
//! copies; both hand what they see to a [`Tap`], which writes it. Nothing is altered, reordered or
//! held up: what the tap cannot take in is left out of the recording, counted and told there.

mod file;
mod pairing;
mod record;
mod recording;
mod replay;
mod stream;
mod watch;
mod writer;

use std::{sync::Arc, time::Duration};

use orchestra_hub::BoxFuture;
use orchestra_secret::Masker;
use orchestra_wire::{RawJson, RequestId};
use tokio::time::Instant;

use super::{
    Agreed, Answer, ClientError, Connected, Connector, Link, LinkCounters, Outgoing, ServerMessage,
    TransportType,
};
pub use file::TapFile;
pub use record::Direction;
pub use recording::{Recording, RecordingError, Step, Unsayable};
pub use replay::{Change, Difference, ReplayConfig, ReplayReport, replay};
pub use stream::TapStream;
pub use watch::TapWatch;
use writer::Seen;
pub use writer::{Tap, TapConfig, TapTotals, TraceForm};

/// Records what goes over the connections of another connector.
pub struct TapConnector {
    inner: Arc<dyn Connector>,
    tap: Tap,
    server: Arc<str>,
    masks: Option<Arc<Masker>>,
}

impl TapConnector {
    /// Records the connections of `inner` under the name `server`.
    #[must_use]
    pub fn new(inner: Arc<dyn Connector>, tap: Tap, server: &str) -> Self {
        Self {
            inner,
            tap,
            server: server.into(),
            masks: None,
        }
    }

    /// Masks this in messages of the server, in place of what the tap masks in all.
    #[must_use]
    pub fn masking(mut self, masker: Masker) -> Self {
        self.masks = Some(Arc::new(masker));
        self
    }
}

impl Connector for TapConnector {
    fn transport(&self) -> TransportType {
        self.inner.transport()
    }

    fn leeway(&self) -> Duration {
        self.inner.leeway()
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let connecting = self.inner.connect();
        let tap = Tapped {
            tap: self.tap.clone(),
            server: Arc::clone(&self.server),
            masks: self.masks.clone(),
        };
        Box::pin(async move {
            let Connected { link, incoming } = connecting.await?;
            let link = Arc::new(TapLink { inner: link, tap });
            Ok(Connected { link, incoming })
        })
    }
}

/// A tap with the name of what it is at.
#[derive(Clone)]
struct Tapped {
    tap: Tap,
    server: Arc<str>,
    masks: Option<Arc<Masker>>,
}

impl Tapped {
    fn sent(&self, seen: impl FnOnce() -> Seen) {
        self.note(Direction::Sent, seen);
    }

    fn received(&self, seen: impl FnOnce() -> Seen) {
        self.note(Direction::Received, seen);
    }

    /// Nothing is copied where nobody wants it.
    fn note(&self, direction: Direction, seen: impl FnOnce() -> Seen) {
        if self.tap.is_wanted() {
            let masks = self.masks.as_ref();
            self.tap.note(&self.server, direction, seen(), masks);
        }
    }
}

struct TapLink {
    inner: Arc<dyn Link>,
    tap: Tapped,
}

impl Link for TapLink {
    fn request(&self, request: Outgoing) -> BoxFuture<Result<Answer, ClientError>> {
        let tap = self.tap.clone();
        let id = request.id.clone();
        tap.sent(|| Seen::Request {
            id: id.clone(),
            method: request.method.clone(),
            params: request.params.clone(),
        });
        let answering = self.inner.request(request);
        Box::pin(async move {
            let answer = answering.await?;
            tap.received(|| Seen::Answer {
                id,
                answer: answer.clone(),
            });
            Ok(answer)
        })
    }

    fn notify(&self, method: &str, params: Option<RawJson>) -> BoxFuture<Result<(), ClientError>> {
        self.tap.sent(|| Seen::Notification {
            method: method.to_owned(),
            params: params.clone(),
        });
        self.inner.notify(method, params)
    }

    fn respond(&self, id: RequestId, answer: Answer) -> BoxFuture<Result<(), ClientError>> {
        self.tap.sent(|| Seen::Answer {
            id: id.clone(),
            answer: answer.clone(),
        });
        self.inner.respond(id, answer)
    }

    fn observe(&self, message: &ServerMessage) {
        match message {
            ServerMessage::Request { id, method, params } => self.tap.received(|| Seen::Request {
                id: id.clone(),
                method: method.clone(),
                params: params.clone(),
            }),
            ServerMessage::Notification { method, params } => {
                self.tap.received(|| Seen::Notification {
                    method: method.clone(),
                    params: params.clone(),
                });
            }
            ServerMessage::Missed => {}
        }
        self.inner.observe(message);
    }

    fn agreed(&self, agreed: Agreed) -> BoxFuture<()> {
        self.inner.agreed(agreed)
    }

    fn ended(&self) -> BoxFuture<ClientError> {
        self.inner.ended()
    }

    fn close(&self) -> BoxFuture<()> {
        self.inner.close()
    }

    fn close_by(&self, deadline: Instant) -> BoxFuture<()> {
        self.inner.close_by(deadline)
    }

    fn trouble(&self) -> Option<String> {
        self.inner.trouble()
    }

    fn stderr_tail(&self) -> String {
        self.inner.stderr_tail()
    }

    fn masker(&self) -> Option<Masker> {
        self.inner.masker()
    }

    fn counters(&self) -> Option<Arc<LinkCounters>> {
        self.inner.counters()
    }

    fn process_id(&self) -> Option<u32> {
        self.inner.process_id()
    }
}
