//! The link of both connectors: requests in parallel over one line, with or without a process of
//! ours at its other end.

use std::{
    any::Any,
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{
    Agreed, Answer, ClientError, Incoming, Link, Masker, Outgoing, ServerMessage,
};
use orchestra_plugin::{
    envelope::{Kind as _, Response},
    generated::StreamCancel,
};
use orchestra_wire::{RawJson, RequestId, RpcError};
use tokio::{
    sync::OnceCell,
    task::AbortHandle,
    time::{Instant, timeout},
};

use super::{line::Line, own, process::Process, told};
use crate::carried;
use crate::translate::{Chunks, Piece, Question, Reading, Step, Terms, member_text};

/// Tools that are remembered to answer in chunks.
const MAX_STREAMING: usize = 4_096;

/// How long word of a cancelled stream may take to leave.
const CANCEL_TIME: Duration = Duration::from_secs(2);

/// A link over the plugin protocol.
pub struct PluginLink(Arc<Inner>);

/// How the peer is spoken to.
pub(super) enum Speech {
    /// In MCP.
    Own(Terms),
    /// In the plugin protocol alone.
    Foreign(Terms),
}

struct Inner {
    line: Arc<Line>,
    speech: Speech,
    process: Option<Arc<Process>>,
    watching: AbortHandle,
    closed: OnceCell<()>,
    /// Tools that answer in chunks.
    streaming: Mutex<HashSet<String>>,
}

impl PluginLink {
    /// A link over a line. It ends with the line, or with the process. Needs a tokio runtime.
    pub(super) fn over(
        line: Arc<Line>,
        speech: Speech,
        process: Option<Arc<Process>>,
        held: Option<Held>,
    ) -> Self {
        let watching = tokio::spawn(watch(Arc::clone(&line), process.clone(), held));
        Self(Arc::new(Inner {
            line,
            speech,
            process,
            watching: watching.abort_handle(),
            closed: OnceCell::new(),
            streaming: Mutex::default(),
        }))
    }
}

/// What is held for as long as a link lasts.
pub(super) type Held = Box<dyn Any + Send>;

/// Ends the line with what is behind it. From then on nothing is `held` any more.
async fn watch(line: Arc<Line>, process: Option<Arc<Process>>, held: Option<Held>) {
    let reason = match &process {
        None => {
            line.lost().await;
            ClientError::Closed
        }
        Some(process) => {
            tokio::select! {
                () = line.lost() => {}
                () = process.gone() => {}
            }
            drop(held);
            process.reason().await
        }
    };
    line.end(reason);
    if process.is_some_and(|process| process.is_gone()) {
        // The network would find out much later.
        line.hang_up();
    }
}

impl Inner {
    async fn request(&self, request: Outgoing) -> Result<Answer, ClientError> {
        // A stream is opened and written to at once, so that from here on the peer may have it.
        if request
            .departure
            .as_ref()
            .is_some_and(|departure| !departure.leave())
        {
            return Err(ClientError::Closed);
        }
        let (Speech::Own(terms) | Speech::Foreign(terms)) = &self.speech;
        let request = told::of_its_session(terms, request);
        let terms = &told::terms_of(terms, &request.along);
        if let Speech::Own(_) = &self.speech {
            let question = own::question(terms, &request);
            let response = self.ask(&question, &request).await?;
            return Ok(own::answer(terms, &response));
        }
        let tool = match request.method.as_str() {
            "tools/call" => request
                .params
                .as_ref()
                .and_then(|params| member_text(params, "name")),
            _ => None,
        };
        if let Some(tool) = &tool
            && self.streaming().contains(tool)
        {
            let (answer, is_refused) = self.stream(terms, &request).await?;
            if !is_refused {
                return Ok(answer);
            }
            // It answers so no more, and nothing ran.
            self.streaming().remove(tool);
        }
        let (questions, reading) = match terms.step(&request.method, request.params.as_ref()) {
            Step::Here(answer) => return Ok(answer),
            Step::Ask(questions, reading) => (questions, reading),
        };
        let mut responses = Vec::with_capacity(questions.len());
        for question in &questions {
            responses.push(self.ask(question, &request).await?);
        }
        if let (Some(tool), [response]) = (tool, responses.as_slice())
            && terms.lacks_tool(response)
        {
            // Nothing ran, and nothing in a list tells a tool that answers in chunks from others.
            let (answer, is_refused) = self.stream(terms, &request).await?;
            if is_refused {
                return Ok(terms.read(&reading, &responses));
            }
            let mut streaming = self.streaming();
            if streaming.len() < MAX_STREAMING {
                streaming.insert(tool);
            }
            return Ok(answer);
        }
        if let (Reading::Tools, [response]) = (&reading, responses.as_slice())
            && terms.revision > 0
        {
            // Those who know how to say it say it of all.
            *self.streaming() = terms.streaming_tools(response, MAX_STREAMING);
        }
        let answer = terms.read(&reading, &responses);
        match (reading, answer) {
            // A peer that says that it is not well is as good as one that does not answer.
            (Reading::Health, Err(error)) => Err(ClientError::Unreachable {
                what: error.message.into_owned(),
            }),
            (_, answer) => Ok(answer),
        }
    }

    /// Asks what a request of ours comes to, with what goes along with it.
    async fn ask(&self, question: &Question, request: &Outgoing) -> Result<Response, ClientError> {
        let question = with_carried(question.clone(), request);
        let response = self.line.ask(&question, Some(&request.id)).await?;
        carried::take_answer(&request.along, self.line.who(), &response);
        Ok(response)
    }

    /// Calls a tool that answers in chunks. Says as well whether there is no such tool.
    async fn stream(
        &self,
        terms: &Terms,
        request: &Outgoing,
    ) -> Result<(Answer, bool), ClientError> {
        let stream = format!("stream-{}", super::plugin::random_id());
        let question = match terms.stream(&stream, request.params.as_ref()) {
            Ok(question) => with_carried(question, request),
            Err(error) => return Ok((Err(error), false)),
        };
        let mut exchange = self.line.begin(&question).await?;
        let mut cancel = Cancel {
            line: Arc::downgrade(&self.line),
            stream: Some(stream),
        };
        let carried = request.along.carried.as_deref();
        let parts = carried.filter(|carried| carried.wants_parts(question.kind.number()));
        let mut chunks = match parts {
            Some(_) => Chunks::passed_on(),
            None => Chunks::default(),
        };
        loop {
            let response = self.line.next(&mut exchange, Some(&request.id)).await?;
            match chunks.take(terms, &request.id, &response) {
                Piece::Progress(params) => {
                    if let Some(parts) = parts {
                        // Whoever takes them slowly holds the plugin back.
                        tokio::select! {
                            biased;
                            reason = self.line.ended() => return Err(reason),
                            () = parts.part(response.payload()) => {}
                        }
                    }
                    self.line.tell(Incoming {
                        message: ServerMessage::Notification {
                            method: "notifications/progress".to_owned(),
                            params: Some(params),
                        },
                        related: Some(request.id.clone()),
                    });
                }
                Piece::End(answer) => {
                    carried::take_answer(&request.along, self.line.who(), &response);
                    if chunks.has_ended() {
                        cancel.stream = None;
                        exchange.done().await;
                    }
                    return Ok((answer, chunks.is_refused()));
                }
            }
        }
    }

    fn streaming(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.streaming
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn close(self: Arc<Self>, deadline: Option<Instant>) {
        let end = async {
            self.line.end(ClientError::Closed);
            if let Some(process) = &self.process {
                process.stop(&self.line, deadline).await;
            }
            self.line.close().await;
            self.watching.abort();
        };
        self.closed.get_or_init(|| end).await;
    }
}

/// A question with the fields that go along with its request.
fn with_carried(question: Question, request: &Outgoing) -> Question {
    Question {
        payload: carried::onto(question.kind, question.payload, &request.along),
        ..question
    }
}

/// Tells a plugin that nobody waits for a stream any more, unless it has ended. Stopping the stream
/// of the call says the same to those who listen to that.
struct Cancel {
    line: Weak<Line>,
    stream: Option<String>,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        let (Some(line), Some(stream)) = (self.line.upgrade(), self.stream.take()) else {
            return;
        };
        // Outside of a runtime, at its very end, the connection goes as well.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let question = Question::new(&StreamCancel { stream_id: stream });
                // Nothing is answered to it, and one that does not leave was said otherwise.
                let _ = timeout(CANCEL_TIME, line.ask(&question, None)).await;
            });
        }
    }
}

impl Link for PluginLink {
    fn request(&self, request: Outgoing) -> BoxFuture<Result<Answer, ClientError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.request(request).await })
    }

    /// There is nobody to notify: that a call is given up is told by its stream, and what else a
    /// client says by itself has no place in the protocol.
    fn notify(&self, _: &str, _: Option<RawJson>) -> BoxFuture<Result<(), ClientError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// A peer cannot wait for an answer of ours; in the stateless era it asks by its result.
    fn respond(&self, id: RequestId, answer: Answer) -> BoxFuture<Result<(), ClientError>> {
        let refused = answer.err().map(|error: RpcError| error.message);
        tracing::debug!(id = id.as_json(), ?refused, "refused a request of the peer");
        Box::pin(std::future::ready(Ok(())))
    }

    fn agreed(&self, _: Agreed) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    fn ended(&self) -> BoxFuture<ClientError> {
        let line = Arc::clone(&self.0.line);
        Box::pin(async move { line.ended().await })
    }

    fn close(&self) -> BoxFuture<()> {
        Box::pin(Arc::clone(&self.0).close(None))
    }

    fn close_by(&self, deadline: Instant) -> BoxFuture<()> {
        Box::pin(Arc::clone(&self.0).close(Some(deadline)))
    }

    fn stderr_tail(&self) -> String {
        let process = self.0.process.as_ref();
        process.map(|process| process.said()).unwrap_or_default()
    }

    fn masker(&self) -> Option<Masker> {
        Some(self.0.process.as_ref()?.masker())
    }

    fn process_id(&self) -> Option<u32> {
        Some(self.0.process.as_ref()?.id())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.line.end(ClientError::Closed);
        self.line.hang_up();
        self.watching.abort();
    }
}
