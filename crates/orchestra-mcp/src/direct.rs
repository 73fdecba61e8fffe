//! Calls without JSON-RPC around them, for faces such as REST: the parameters are read, the call is
//! made and its result is written as MCP has them, by the same code.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use orchestra_hub::{
    Along, Attachment, CancelSource, Content, Cx, Outcome, ProgressSink, ProviderError, Request,
    Target, ToolResult,
};
use orchestra_wire::{MAX_REPLY_BYTES, Method, RawJson, Revision, Rope, RpcError, parse_value};
use tokio::sync::Semaphore;

use crate::{
    connection::{Lifetime, named, too_large},
    http::Eras,
    results::Results,
    server::Server,
};

/// The form of what is answered: the newest without metadata around it.
const FORM: Revision = Revision::NEWEST_SESSION;

/// Makes calls for one face.
pub struct Direct {
    server: Server,
    attachment: Attachment,
    /// Calls that run or wait.
    places: Semaphore,
}

/// Who calls, as the face knows.
#[derive(Debug, Clone, Default)]
pub struct DirectCaller {
    /// The client's own name, as it says.
    pub client: Option<Arc<str>>,
    /// W3C `traceparent`.
    pub trace: Option<String>,
    /// Where the call reports to.
    pub progress: ProgressSink,
    /// What goes along with the call. Without a session it is made for one of this client.
    pub along: Along,
    /// Whether a provider that passes parameters on gets them whole, with what is unknown here.
    pub whole: bool,
}

/// Why a call has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DirectError {
    /// The parameters cannot be understood.
    #[error("{0}")]
    Malformed(String),
    /// Too many calls run and wait.
    #[error("busy: too many requests are waiting, send again later")]
    Busy,
    /// The provider, or the hub in its place, said so.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The result is larger than what may leave.
    #[error("{0}")]
    TooLarge(String),
}

/// Fires when the future that holds it is dropped, so that a call ends with whoever wanted it.
struct CancelOnDrop(CancelSource);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Direct {
    /// Calls of the face `face`.
    #[must_use]
    pub fn new(server: &Server, face: &'static str) -> Self {
        let limits = &server.0.limits;
        Self {
            attachment: server.attach(face),
            places: Semaphore::new(limits.running + limits.queued),
            server: server.clone(),
        }
    }

    /// Its place at the hub.
    #[must_use]
    pub const fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// The form of lists that fits the results.
    #[must_use]
    pub const fn form(&self) -> Revision {
        FORM
    }

    /// Makes the call that `params`, the parameters of `method` as JSON, ask for, and writes its
    /// result as JSON. Dropping the future cancels the call. It must run inside a tokio runtime.
    ///
    /// # Errors
    /// When the parameters cannot be understood, there is no place for the call, or it has no
    /// result. A tool that fails at its work has one.
    pub async fn call(
        &self,
        method: Method,
        params: &Bytes,
        caller: DirectCaller,
    ) -> Result<Bytes, DirectError> {
        let malformed = |error: RpcError| DirectError::Malformed(error.message.into_owned());
        let now = Instant::now();
        self.server.0.activity.note(now);
        let value = parse_value(params).map_err(malformed)?;
        let target = named(method, value, params).map_err(malformed)?;
        let whole = caller
            .whole
            .then(|| RawJson::from_frame(value, Some(params)));
        let _place = self.places.try_acquire().map_err(|_| DirectError::Busy)?;
        let is_tool = matches!(target, Target::Tool { .. });
        let cancel = CancelOnDrop(CancelSource::new());
        let mut along = caller.along;
        if let (None, Some(client)) = (&along.session, &caller.client) {
            along.session = Some(self.attachment.session().of_one(&[client.as_bytes()]));
        }
        let mut who = self.attachment.caller().clone();
        who.client = caller.client;
        let cx = Cx {
            cancel: cancel.0.signal(),
            caller: who,
            trace: caller.trace,
            progress: caller.progress,
            params: whole,
            along,
            ..Cx::default()
        };
        let call = self.attachment.call_at(Request { target, cx }, now);
        let outcome = match self.server.run(call).await? {
            Outcome::InputRequired(_) => needs_input(is_tool)?,
            outcome => outcome,
        };
        let mut rope = Rope::new();
        let results = Results {
            server: &self.server.0,
            revision: FORM,
            lifetime: Lifetime::Message,
            eras: Eras::Both,
        };
        results.result(&mut rope, outcome);
        if rope.len() > MAX_REPLY_BYTES {
            return Err(DirectError::TooLarge(too_large().message.into_owned()));
        }
        Ok(Bytes::from(rope.into_vec()))
    }
}

/// There is nobody to ask. A model can read that as the result of its tool.
fn needs_input(is_tool: bool) -> Result<Outcome, ProviderError> {
    let text = "this asks its client for input, which cannot be given here".to_owned();
    if !is_tool {
        return Err(ProviderError::Unreachable(text));
    }
    Ok(Outcome::Tool(ToolResult {
        content: vec![Content::Text(text)],
        is_error: true,
        ..ToolResult::default()
    }))
}
