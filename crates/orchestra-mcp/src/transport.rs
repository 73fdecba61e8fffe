//! A transport over any pair of byte streams and a router, each known to the other by one method
//! only: newline-delimited JSON-RPC in, whatever the router answers out. It knows nothing of MCP,
//! so that anything can be put behind it.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use orchestra_wire::{
    Frame, Inbound, LineDecoder, MAX_BATCH, Malformed, Message, RawJson, RequestId, Rope, RpcError,
    parse, parse_item, write,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    select,
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{post::Post, stdio::Flag};

/// One read takes at most this much.
const CHUNK_BYTES: usize = 16 * 1024;

/// Requests that are routed at once; the next one is read when one of them is answered.
const CONCURRENT: usize = 64;

/// Responses that wait for the stream.
const QUEUE: usize = 1_024;

/// How long requests may go on after the end.
const GRACE: Duration = Duration::from_secs(5);

/// A request as it was sent. Without an id it is a notification, which is not answered.
#[derive(Debug, Clone)]
pub struct JsonRpcRequest {
    /// Its id.
    pub id: Option<RequestId>,
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Option<RawJson>,
}

/// A response to send.
#[derive(Debug, Clone)]
pub struct JsonRpcResponse {
    /// The request it answers; `None` for one whose id could not be read.
    pub id: Option<RequestId>,
    /// What it answers.
    pub outcome: Result<RawJson, RpcError>,
}

/// Routes a request to whatever answers it.
pub trait RequestRouter: Send + Sync {
    /// Answers `request`; `None` for a notification.
    fn handle_request(
        &self,
        request: JsonRpcRequest,
    ) -> Pin<Box<dyn Future<Output = Option<JsonRpcResponse>> + Send + '_>>;
}

/// Why a transport cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The streams were given to an earlier start.
    #[error("the transport was already started")]
    Started,
    /// The stream broke.
    #[error("the stream broke")]
    Io(#[from] io::Error),
}

/// Reads and writes newline-delimited JSON-RPC messages over a pair of byte streams.
pub struct StdioTransport<R, W> {
    streams: Mutex<Option<Streams<R, W>>>,
    router: Mutex<Option<Arc<dyn RequestRouter>>>,
    outgoing: mpsc::Sender<JsonRpcResponse>,
    closed: Flag,
}

struct Streams<R, W> {
    input: R,
    output: W,
    responses: mpsc::Receiver<JsonRpcResponse>,
}

impl<R, W> StdioTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    /// A transport over `input` and `output`.
    #[must_use]
    pub fn new(input: R, output: W) -> Self {
        let (outgoing, responses) = mpsc::channel(QUEUE);
        Self {
            streams: Mutex::new(Some(Streams {
                input,
                output,
                responses,
            })),
            router: Mutex::default(),
            closed: Flag::default(),
            outgoing,
        }
    }

    /// Sets what answers incoming requests. Without one, every request is `method not found`.
    pub fn on_request(&self, router: Arc<dyn RequestRouter>) {
        *self.router.lock().unwrap_or_else(PoisonError::into_inner) = Some(router);
    }

    /// Sends a response. Waits when the peer does not read.
    ///
    /// # Errors
    /// When the transport has ended.
    pub async fn send(&self, response: JsonRpcResponse) -> Result<(), TransportError> {
        let gone = |_| TransportError::Io(io::ErrorKind::BrokenPipe.into());
        self.outgoing.send(response).await.map_err(gone)
    }

    /// Ends the transport: `start` answers what it has read, as far as the router does so within
    /// five seconds, and returns.
    pub fn close(&self) {
        self.closed.raise();
    }

    /// Listens until the input ends or the transport is closed, and the last answer has left; or
    /// until the output breaks.
    ///
    /// # Errors
    /// When it was started before, or a stream breaks.
    pub async fn start(&self) -> Result<(), TransportError> {
        let streams = self
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Streams {
            mut input,
            mut output,
            responses,
        } = streams.ok_or(TransportError::Started)?;
        let finished = Flag::default();
        let mut writing = pin!(write_responses(&mut output, responses, &finished));
        let read = select! {
            // A write has failed: nothing can be answered any more.
            written = &mut writing => return Ok(written?),
            read = self.read(&mut input) => read,
        };
        finished.raise();
        let written = writing.await;
        Ok(read.and(written)?)
    }

    /// Routes what comes in; at its end, what is not answered within the grace time is dropped.
    async fn read(&self, input: &mut R) -> io::Result<()> {
        let mut tasks = JoinSet::new();
        let overdue = async {
            self.closed.raised().await;
            sleep(GRACE).await;
        };
        select! {
            read = self.read_all(input, &mut tasks) => read?,
            // A router that hangs holds up reading as well.
            () = overdue => return Ok(()),
        }
        let rest = async { while tasks.join_next().await.is_some() {} };
        if timeout(GRACE, rest).await.is_err() {
            tracing::warn!("requests were still open at the end of the grace time");
        }
        Ok(())
    }

    async fn read_all(&self, input: &mut R, tasks: &mut JoinSet<()>) -> io::Result<()> {
        let mut decoder = LineDecoder::default();
        let mut chunk = vec![0; CHUNK_BYTES];
        let free = Arc::new(Semaphore::new(CONCURRENT));
        loop {
            let length = select! {
                biased;
                () = self.closed.raised() => 0,
                length = input.read(&mut chunk) => length?,
            };
            let mut bytes = &chunk[..length];
            while let Some(frame) = decoder.next(&mut bytes) {
                self.route(&frame, &free, tasks).await;
            }
            if length == 0 {
                break;
            }
            while tasks.try_join_next().is_some() {}
        }
        if let Some(frame) = decoder.finish() {
            self.route(&frame, &free, tasks).await;
        }
        Ok(())
    }

    async fn route(&self, frame: &Frame<'_>, free: &Arc<Semaphore>, tasks: &mut JoinSet<()>) {
        let router = self
            .router
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for request in requests(frame) {
            let request = match request {
                Ok(request) => request,
                Err(response) => {
                    // Nobody is left to tell when the stream has broken.
                    let _ = self.outgoing.send(response).await;
                    continue;
                }
            };
            let permit = Arc::clone(free).acquire_owned().await;
            let (router, outgoing) = (router.clone(), self.outgoing.clone());
            tasks.spawn(async move {
                let response = match router {
                    Some(router) => router.handle_request(request).await,
                    None => request.id.map(|id| JsonRpcResponse {
                        outcome: Err(RpcError::method_not_found(&request.method)),
                        id: Some(id),
                    }),
                };
                if let Some(response) = response {
                    let _ = outgoing.send(response).await;
                }
                drop(permit);
            });
        }
    }
}

/// The requests of one frame, or the error to answer instead.
fn requests(frame: &Frame<'_>) -> Vec<Result<JsonRpcRequest, JsonRpcResponse>> {
    let refused = |text: String| {
        let error = RpcError::invalid_request(text);
        vec![Err(refusal(Malformed { id: None, error }))]
    };
    let Frame::Line(line) = frame else {
        return refused("invalid request: the line is too long".to_owned());
    };
    match parse(line.as_bytes()) {
        Ok(Inbound::One(message)) => request(message).map(Ok).into_iter().collect(),
        Ok(Inbound::Batch(items)) => items
            .into_iter()
            .filter_map(|item| match parse_item(item) {
                Ok(message) => request(message).map(Ok),
                Err(malformed) => Some(Err(refusal(malformed))),
            })
            .collect(),
        Ok(Inbound::BatchTooLong) => refused(format!(
            "invalid request: a batch may have at most {MAX_BATCH} items"
        )),
        Err(malformed) => vec![Err(refusal(malformed))],
    }
}

fn refusal(malformed: Malformed) -> JsonRpcResponse {
    JsonRpcResponse {
        id: malformed.id,
        outcome: Err(malformed.error),
    }
}

fn request(message: Message<'_>) -> Option<JsonRpcRequest> {
    let (id, params, method) = match message {
        Message::Request(request) => (
            Some(request.id.clone()),
            request.raw_params(),
            request.method,
        ),
        Message::Notification(notification) => {
            (None, notification.raw_params(), notification.method)
        }
        Message::Response(_) => return None,
    };
    let params = params.map(RawJson::from_raw);
    Some(JsonRpcRequest {
        id,
        method: method.into_owned(),
        params,
    })
}

async fn write_responses(
    output: &mut (impl AsyncWrite + Unpin),
    mut responses: mpsc::Receiver<JsonRpcResponse>,
    finished: &Flag,
) -> io::Result<()> {
    loop {
        let response = select! {
            biased;
            response = responses.recv() => response,
            () = finished.raised() => responses.try_recv().ok(),
        };
        let Some(response) = response else {
            return output.flush().await;
        };
        let mut rope = Rope::new();
        response.write(&mut rope);
        for piece in rope.pieces() {
            output.write_all(piece).await?;
        }
        output.flush().await?;
    }
}

impl JsonRpcResponse {
    fn write(&self, rope: &mut Rope) {
        match (&self.outcome, &self.id) {
            (Ok(result), Some(id)) => {
                write::result_head(rope, id);
                write::raw(rope, result);
                write::close(rope);
            }
            (Ok(_), None) => {
                let error = RpcError::invalid_request("invalid request: a result needs an id");
                write::error(rope, None, &error);
            }
            (Err(error), id) => write::error(rope, id.as_ref(), error),
        }
        rope.push_byte(b'\n');
    }
}

/// A hub's server as a router.
impl RequestRouter for Post {
    fn handle_request(
        &self,
        request: JsonRpcRequest,
    ) -> Pin<Box<dyn Future<Output = Option<JsonRpcResponse>> + Send + '_>> {
        Box::pin(async move {
            let mut rope = Rope::new();
            match &request.id {
                Some(id) => write::request(&mut rope, id, &request.method, request.params.as_ref()),
                None => return None,
            }
            let answer = self.handle(&rope.into_vec()).await?;
            let Ok(Inbound::One(Message::Response(response))) = parse(&answer) else {
                return None;
            };
            let outcome = match response.reply {
                orchestra_wire::Reply::Result(result) => Ok(RawJson::from_raw(result)),
                orchestra_wire::Reply::Error(error) => Err(RpcError::from_raw(error)),
            };
            Some(JsonRpcResponse {
                id: response.id,
                outcome,
            })
        })
    }
}
