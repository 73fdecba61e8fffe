//! A link over a pair of byte streams, one message a line: the form of stdio.
//!
//! One task reads, and gives each response to who waits for it: one wake-up for each. Who sends
//! writes by itself, unless the stream takes no more. Nothing waits with a lock in its hands.

mod counters;
mod cut;
mod pipe;
mod reader;

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use orchestra_hub::BoxFuture;
use orchestra_secret::Masker;
use orchestra_wire::{Pending, RawJson, RequestId, Rope, write};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    select,
    sync::{OnceCell, oneshot, watch},
    task::AbortHandle,
    time::{Instant, timeout},
};

pub use counters::LinkCounters;

use self::{
    pipe::{Broken, Pace, Pipe},
    reader::{LAST_ANSWERS, Reader},
};
use super::{Agreed, Answer, ClientError, Connected, IncomingSender, Link, Outgoing};

/// Lines in a row that are no messages after which a connection counts as in trouble, unless told
/// otherwise.
pub const MAX_JUNK_LINES: u32 = 20;

/// What bounds a link over lines.
#[derive(Debug, Clone)]
pub struct LinesConfig {
    /// The server's name, for logs.
    pub name: String,
    /// Longest message; a longer one is skipped.
    pub max_message_bytes: usize,
    /// Lines in a row that are no messages after which the connection counts as in trouble.
    pub max_junk_lines: u32,
}

/// Whoever is at the other end, beside its streams.
pub(super) trait Peer: Send + Sync + 'static {
    /// Its process.
    fn process_id(&self) -> u32;
    /// The end of what it wrote to standard error until now.
    fn stderr_tail(&self) -> String;
    /// It printed a line that is no message.
    fn printed(&self, line: &[u8]);
    /// Masks its secrets.
    fn masker(&self) -> &Masker;
    /// Resolves when its process has ended, whoever else holds its streams open.
    fn gone(&self) -> BoxFuture<()>;
    /// Its streams or its process have ended: why?
    fn reason(self: Arc<Self>) -> BoxFuture<ClientError>;
    /// From this call on, its end is no crash. After its input has ended, the future ends it, by force if necessary,
    /// within the configured times and before the deadline, if there is one.
    fn stop(self: Arc<Self>, deadline: Option<Instant>) -> BoxFuture<()>;
}

/// A link over a pair of byte streams.
pub struct LinesLink(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    tasks: [AbortHandle; 2],
    peer: Option<Arc<dyn Peer>>,
    closed: OnceCell<()>,
    max_junk_lines: u32,
}

/// What callers and the reader share.
struct Core {
    name: String,
    pipe: Pipe,
    open: Mutex<Open>,
    counters: Arc<LinkCounters>,
    ended: watch::Sender<Option<ClientError>>,
}

type Outcome = Result<Answer, ClientError>;

struct Open {
    requests: Pending<Sent>,
    /// Number of requests that were entered so far.
    entered: u64,
    /// Number of requests that were entered before the last notification or response was sent. An error without an id
    /// may be about that message until a later request is answered.
    unanswered: Option<u64>,
    ended: Option<ClientError>,
}

/// A request that was sent.
struct Sent {
    /// Its number among the requests of the link, from 1.
    number: u64,
    sender: oneshot::Sender<Outcome>,
}

impl LinesLink {
    /// A link over two streams, also in memory. It ends with what is read. Needs a tokio runtime.
    pub fn over(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        config: LinesConfig,
    ) -> (Arc<Self>, Connected) {
        Self::with_peer(input, output, config, None)
    }

    pub(super) fn with_peer(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        config: LinesConfig,
        peer: Option<Arc<dyn Peer>>,
    ) -> (Arc<Self>, Connected) {
        let (sender, incoming) = IncomingSender::new();
        let core = Arc::new(Core {
            name: config.name,
            pipe: Pipe::new(Box::new(output)),
            open: Mutex::new(Open {
                // How many may be open at once is bounded by who calls.
                requests: Pending::new(usize::MAX),
                entered: 0,
                unanswered: None,
                ended: None,
            }),
            counters: Arc::default(),
            ended: watch::Sender::new(None),
        });
        let reader = Reader {
            core: Arc::clone(&core),
            incoming: sender,
            max_message_bytes: config.max_message_bytes,
            peer: peer.clone(),
        };
        let (ending, ender) = (Arc::clone(&core), peer.clone());
        let reading = tokio::spawn(async move {
            let mut all = pin!(reader.run(input));
            let reason = match ender {
                Some(peer) => {
                    select! {
                        () = &mut all => {}
                        () = peer.gone() => {
                            // What it said is in its pipe; who else holds that is not waited for.
                            let _ = timeout(LAST_ANSWERS, all).await;
                        }
                    }
                    peer.reason().await
                }
                None => {
                    all.await;
                    ClientError::Closed
                }
            };
            ending.end(reason);
            // Whoever waits for room waits in vain.
            ending.pipe.end();
        });
        let writer = Arc::clone(&core);
        let writing = tokio::spawn(async move { writer.pipe.run().await });
        let link = Arc::new(Self(Arc::new(Inner {
            core,
            tasks: [reading.abort_handle(), writing.abort_handle()],
            peer,
            closed: OnceCell::new(),
            max_junk_lines: config.max_junk_lines,
        })));
        let connected = Connected {
            link: Arc::clone(&link) as Arc<dyn Link>,
            incoming,
        };
        (link, connected)
    }

    /// What was seen that was no answer to anybody.
    #[must_use]
    pub fn counters(&self) -> Arc<LinkCounters> {
        Arc::clone(&self.0.core.counters)
    }
}

impl Core {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an outcome to who waits for it; false when nobody does.
    fn answer(&self, id: &RequestId, outcome: Outcome) -> bool {
        let waiting = {
            let mut open = self.open();
            let exact = open.requests.close(id);
            let waiting = exact.or_else(|| open.requests.close(&id.other_form()?));
            if let Some(sent) = &waiting {
                open.unanswered = open.unanswered.filter(|before| sent.number <= *before);
            }
            waiting
        };
        waiting.is_some_and(|waiting| waiting.sender.send(outcome).is_ok())
    }

    /// Remembers that a message without an answer is sent.
    fn note_unanswered(&self) {
        let mut open = self.open();
        open.unanswered = Some(open.entered);
    }

    /// The request that an error without an id is about, if it can be about one only.
    fn sole_request(&self) -> Option<RequestId> {
        let open = self.open();
        let mut ids = open.requests.iter().map(|(id, _)| id);
        let sole = ids.next().filter(|_| open.unanswered.is_none())?;
        ids.next().is_none().then(|| sole.clone())
    }

    /// The link is no more. The first reason counts.
    fn end(&self, reason: ClientError) {
        let waiting = {
            let mut open = self.open();
            if open.ended.is_some() {
                return;
            }
            open.ended = Some(reason.clone());
            std::mem::replace(&mut open.requests, Pending::new(0))
        };
        for (_, waiting) in waiting.into_open() {
            // Who has given up is gone.
            let _ = waiting.sender.send(Err(reason.clone()));
        }
        self.ended.send_replace(Some(reason));
    }

    fn why_ended(&self) -> ClientError {
        self.open().ended.clone().unwrap_or(ClientError::Closed)
    }

    async fn send(&self, message: Rope) -> Result<(), ClientError> {
        let pace = {
            let open = self.open();
            if let Some(reason) = &open.ended {
                return Err(reason.clone());
            }
            match open.requests.len() {
                0..=1 => Pace::AtOnce,
                _ => Pace::Together,
            }
        };
        match self.pipe.send(message, pace).await {
            Ok(()) => Ok(()),
            // The reader finds out why, soon.
            Err(Broken) => Err(self.ended().await),
        }
    }

    async fn ended(&self) -> ClientError {
        let mut ended = self.ended.subscribe();
        let reason = ended.wait_for(Option::is_some).await;
        reason
            .ok()
            .and_then(|reason| reason.clone())
            .unwrap_or(ClientError::Closed)
    }
}

/// A request that is open; it is given up when this is dropped.
struct Waiting {
    core: Arc<Core>,
    id: RequestId,
    outcome: oneshot::Receiver<Outcome>,
}

impl Waiting {
    fn enter(core: Arc<Core>, id: RequestId) -> Result<Self, ClientError> {
        let (sender, outcome) = oneshot::channel();
        {
            let mut open = core.open();
            if let Some(reason) = &open.ended {
                return Err(reason.clone());
            }
            open.entered += 1;
            let number = open.entered;
            let entered = open.requests.accept(id.clone(), Sent { number, sender });
            entered.map_err(|error| ClientError::Busy {
                what: error.to_string(),
            })?;
        }
        Ok(Self { core, id, outcome })
    }
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = std::pin::Pin::new(&mut self.outcome).poll(context);
        outcome.map(|outcome| outcome.unwrap_or_else(|_| Err(self.core.why_ended())))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.outcome.is_terminated() {
            self.core.open().requests.close(&self.id);
        }
    }
}

impl Link for LinesLink {
    fn request(&self, request: Outgoing) -> BoxFuture<Outcome> {
        let core = Arc::clone(&self.0.core);
        Box::pin(async move {
            let mut waiting = Waiting::enter(Arc::clone(&core), request.id.clone())?;
            let mut message = Rope::new();
            write::request(
                &mut message,
                &request.id,
                &request.method,
                request.params.as_ref(),
            );
            // An answer may come before all of the request has left.
            tokio::select! {
                biased;
                sent = core.send(message) => sent?,
                outcome = &mut waiting => return outcome,
            }
            if let Some(departure) = &request.departure {
                // Whoever gives it up does not ask for this any more.
                let _ = departure.leave();
            }
            waiting.await
        })
    }

    fn notify(&self, method: &str, params: Option<RawJson>) -> BoxFuture<Result<(), ClientError>> {
        let core = Arc::clone(&self.0.core);
        let mut message = Rope::new();
        match &params {
            Some(params) => {
                write::notification_head(&mut message, method);
                write::raw(&mut message, params);
            }
            None => {
                message.push(b"{\"jsonrpc\":\"2.0\",\"method\":");
                write::string(&mut message, method);
            }
        }
        message.push_byte(b'}');
        Box::pin(async move {
            core.note_unanswered();
            core.send(message).await
        })
    }

    fn respond(&self, id: RequestId, answer: Answer) -> BoxFuture<Result<(), ClientError>> {
        let core = Arc::clone(&self.0.core);
        let mut message = Rope::new();
        match &answer {
            Ok(result) => {
                write::result_head(&mut message, &id);
                write::raw(&mut message, result);
                message.push_byte(b'}');
            }
            Err(error) => write::error(&mut message, Some(&id), error),
        }
        // A server has no reason to refuse a result.
        let may_be_refused = answer.is_err();
        Box::pin(async move {
            if may_be_refused {
                core.note_unanswered();
            }
            core.send(message).await
        })
    }

    fn agreed(&self, _: Agreed) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    fn ended(&self) -> BoxFuture<ClientError> {
        let core = Arc::clone(&self.0.core);
        Box::pin(async move { core.ended().await })
    }

    fn close(&self) -> BoxFuture<()> {
        Box::pin(Arc::clone(&self.0).close(None))
    }

    fn close_by(&self, deadline: Instant) -> BoxFuture<()> {
        Box::pin(Arc::clone(&self.0).close(Some(deadline)))
    }

    fn trouble(&self) -> Option<String> {
        let counters = &self.0.core.counters;
        let (many, last) = counters.junk_in_a_row(self.0.max_junk_lines)?;
        Some(format!(
            "the last {many} lines that it printed are no messages; its standard output is for \
             messages alone. The last one: {last}"
        ))
    }

    fn stderr_tail(&self) -> String {
        let peer = self.0.peer.as_ref();
        peer.map(|peer| peer.stderr_tail()).unwrap_or_default()
    }

    fn masker(&self) -> Option<Masker> {
        let peer = self.0.peer.as_ref()?;
        Some(peer.masker().clone())
    }

    fn counters(&self) -> Option<Arc<LinkCounters>> {
        Some(Arc::clone(&self.0.core.counters))
    }

    fn process_id(&self) -> Option<u32> {
        Some(self.0.peer.as_ref()?.process_id())
    }
}

impl Inner {
    async fn close(self: Arc<Self>, deadline: Option<Instant>) {
        self.core.end(ClientError::Closed);
        let stop = async {
            // A peer that ends as soon as its input is closed has not crashed.
            let stopped = self
                .peer
                .as_ref()
                .map(|peer| Arc::clone(peer).stop(deadline));
            self.core.pipe.finish().await;
            if let Some(stopped) = stopped {
                stopped.await;
            }
            self.tasks.iter().for_each(AbortHandle::abort);
        };
        self.closed.get_or_init(|| stop).await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.core.end(ClientError::Closed);
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}
