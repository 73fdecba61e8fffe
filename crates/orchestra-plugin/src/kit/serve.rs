//! The answering side of a plugin: every request of the orchestrator, each handled apart from the
//! others.
//!
//! Only the orchestrator may call, by the name in its certificate. A handler that panics ends its
//! call alone; one that is told to stop and does not is dropped after a while.

mod answers;
mod calls;
mod heard;
mod work;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{Notify, OnceCell, Semaphore, watch};

use heard::Heard;

use super::{
    answer::{self, ToolError},
    cx::{Cx, Surroundings},
    events::Topics,
    health::Health,
    prompt::Prompt,
    resource::Resource,
    storage::Storages,
};
use crate::{
    envelope::{PayloadOf, Request, RequestKind, Response, ResponseKind},
    generated::ToolResponse,
    ids::CertName,
    quic::{BoxFuture, Handler, Peer, Reply, ReplyError},
};

pub(super) type Hook = dyn Fn(Cx) -> BoxFuture<'static, Result<(), ToolError>> + Send + Sync;
pub(super) type HealthHook = dyn Fn(Cx) -> BoxFuture<'static, Health> + Send + Sync;

/// What a plugin offers, ready to be asked for.
#[derive(Default)]
pub(super) struct Offer {
    pub(super) prompts: BTreeMap<String, Prompt>,
    pub(super) resources: Vec<Resource>,
    pub(super) storages: Storages,
    pub(super) boot: Option<Box<Hook>>,
    pub(super) shutdown: Option<Box<Hook>>,
    pub(super) health: Option<Box<HealthHook>>,
    /// The answer to the request for the prompts, encoded once.
    pub(super) listed_prompts: Bytes,
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// No new calls are taken.
    Draining,
    /// Those that still run are told to stop.
    Stopping,
}

/// Answers the orchestrator.
pub(super) struct Server {
    surroundings: Arc<Surroundings>,
    offer: Offer,
    topics: Arc<Topics>,
    /// The events that wait for those who wanted them from the start.
    heard: Heard,
    /// The one name that may call.
    orchestrator: CertName,
    max_in_flight: u32,
    /// How long a handler may go on after it was told to stop.
    cancel_grace: Duration,
    in_flight: Semaphore,
    phase: watch::Sender<Phase>,
    /// The revision of the additions that the orchestrator said it speaks.
    revision: AtomicU32,
    /// What cancels the streaming calls that run, by their id.
    streams: Mutex<HashMap<String, Arc<watch::Sender<bool>>>>,
    wound_down: OnceCell<bool>,
    /// Told when a shutdown was asked for and has been answered.
    ended: Notify,
}

impl Server {
    /// It must be called within a tokio runtime.
    pub(super) fn new(
        surroundings: Arc<Surroundings>,
        offer: Offer,
        topics: Arc<Topics>,
        max_in_flight: u32,
        cancel_grace: Duration,
    ) -> Self {
        let phase = watch::Sender::new(Phase::Serving);
        let heard = Heard::start(&topics.fixed, &surroundings, &phase);
        Self {
            orchestrator: surroundings.id.orchestrator_name(),
            surroundings,
            offer,
            topics,
            heard,
            max_in_flight,
            cancel_grace,
            in_flight: Semaphore::new(max_in_flight as usize),
            phase,
            revision: AtomicU32::new(0),
            streams: Mutex::default(),
            wound_down: OnceCell::new(),
            ended: Notify::new(),
        }
    }

    /// Waits until a shutdown was asked for and has been answered.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Takes no more calls, lets those that run end or stops them, and runs the hook; all within
    /// `time`. Done once, whoever asks. True when nothing was left undone.
    pub(super) async fn wind_down(&self, time: Duration) -> bool {
        *self
            .wound_down
            .get_or_init(|| self.wind_down_once(time))
            .await
    }

    async fn respond(&self, request: &Request, reply: &mut Reply) -> Option<Response> {
        let id = request.request_id();
        let result = match request.kind() {
            Some(RequestKind::Register) => self.register(request),
            Some(RequestKind::Boot) => self.boot(request).await,
            Some(RequestKind::Shutdown) => self.shutdown(request).await,
            Some(RequestKind::Health) => Ok(self.health(id).await),
            Some(RequestKind::ListTools) => Ok(Response::raw(
                id,
                ResponseKind::ListTools,
                self.surroundings.tools.listed(),
            )),
            Some(RequestKind::ListPrompts) => Ok(Response::raw(
                id,
                ResponseKind::ListPrompts,
                self.offer.listed_prompts.clone(),
            )),
            Some(RequestKind::ToolCall) => self.tool_call(request, reply).await,
            Some(RequestKind::PromptGet) => self.prompt_get(request, reply).await,
            Some(RequestKind::StreamStart) => self.stream_start(request, reply).await,
            Some(RequestKind::StreamCancel) => self.stream_cancel(request),
            Some(
                RequestKind::StorageRead
                | RequestKind::StorageWrite
                | RequestKind::StorageDelete
                | RequestKind::StorageList,
            ) => self.storage(request, reply).await,
            Some(RequestKind::Subscribe) => answers::subscribe(request),
            Some(RequestKind::Unsubscribe) => Ok(Response::empty(id)),
            Some(RequestKind::Publish) => self.publish(request),
            Some(RequestKind::Mcp) => self.mcp(request, reply).await,
            Some(RequestKind::McpMessage) | None => Err(Fault::failure(
                "unknown_request",
                "unrecognized request type",
            )),
        };
        match result {
            Ok(response) => Some(response),
            Err(Fault::Failure(failure)) => Some(Response::new(id, &*failure)),
            Err(Fault::Gone) => None,
        }
    }

    fn has_revision(&self) -> bool {
        self.revision.load(Ordering::Relaxed) > 0
    }

    fn cx(&self) -> Cx {
        let (_, cancel) = super::cx::Cancel::pair();
        let (frames, _) = tokio::sync::mpsc::channel(1);
        Cx::new(
            self.surroundings.clone(),
            super::cx::Call::default(),
            cancel,
            frames,
        )
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<watch::Sender<bool>>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why there is no answer of the kind that was asked for.
enum Fault {
    /// There is another.
    Failure(Box<ToolResponse>),
    /// Nobody waits for one.
    Gone,
}

impl Fault {
    fn failure(code: &str, message: impl Into<String>) -> Self {
        Self::Failure(Box::new(answer::failure(code, message)))
    }
}

/// Reads the message of a request.
fn message<M: PayloadOf<RequestKind>>(request: &Request) -> Result<M, Fault> {
    request
        .message()
        .map_err(|error| Fault::failure("invalid_request", ToolError::from(error).message()))
}

impl Handler for Server {
    fn handle<'a>(&'a self, peer: &'a Peer, request: Bytes, mut reply: Reply) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (shutdown, response) = match Request::decode(&request) {
                Ok(request) if *peer.name() != self.orchestrator => {
                    (false, Some(self.stranger(peer, &request)))
                }
                Ok(request) => (
                    request.kind() == Some(RequestKind::Shutdown),
                    self.respond(&request, &mut reply).await,
                ),
                Err(error) => {
                    let failure =
                        answer::failure("invalid_request", ToolError::from(error).message());
                    (false, Some(Response::new("", &failure)))
                }
            };
            if let Some(response) = response {
                send(&mut reply, &response).await;
            }
            if shutdown {
                self.ended.notify_one();
            }
        })
    }

    fn busy(&self, _: &Peer, request: &Bytes) -> Option<Bytes> {
        let id = Request::decode(request).map(|request| request.request_id().to_owned());
        let failure = work::busy(self.max_in_flight);
        Some(Response::new(id.unwrap_or_default(), &failure).encode())
    }

    fn duplex(&self, _: &Peer, request: &Bytes) -> bool {
        // Its caller may cancel it on the same stream.
        Request::decode(request)
            .is_ok_and(|request| request.kind() == Some(RequestKind::StreamStart))
    }
}

impl Server {
    fn stranger(&self, peer: &Peer, request: &Request) -> Response {
        tracing::warn!(peer = %peer.name(), "refused a call from an unknown peer");
        let message = format!(
            "only {} may call this plugin, and you are {}: list the plugin under the id {}",
            self.orchestrator,
            peer.name(),
            self.surroundings.id
        );
        Response::new(
            request.request_id(),
            &answer::failure("permission_denied", message),
        )
    }
}

/// Sends a response, or says that it is too large.
async fn send(reply: &mut Reply, response: &Response) {
    match reply.answer(response).await {
        Err(ReplyError::TooLarge { length }) => {
            let instead = answer::too_large(length);
            let instead = Response::new(response.request_id(), &instead);
            if let Err(error) = reply.answer(&instead).await {
                tracing::debug!(%error, "cannot send a response");
            }
        }
        Err(error) => tracing::debug!(%error, "cannot send a response"),
        Ok(()) => {}
    }
}

/// The payload of a response that is sent often.
pub(super) fn payload(message: &impl prost::Message) -> Bytes {
    message.encode_to_vec().into()
}
