//! What a request is answered with, as events; and how a stream that ends too early is opened again.

use std::time::Duration;

use bytes::Bytes;
use orchestra_wire::{Era, RequestId, Revision, parse};
use reqwest::{
    Method, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use tokio::time::sleep;

use super::{
    core::Core,
    events::{Event, Events, TooLarge},
    exchange::denies_session,
    failure,
    names::{EVENT_STREAM, LAST_EVENT, encoded},
    reply::{Form, answers, form},
    send::refusal_body,
};
use crate::client::{Answer, ClientError};

/// How often a stream is opened again without having brought anything.
const MAX_RESUMES: u32 = 5;

/// The wait before that, unless the server names one.
const RESUME_WAIT: Duration = Duration::from_secs(1);

/// The shortest wait before that. A server that ends each stream at once is not asked without pause.
const MIN_RESUME_WAIT: Duration = Duration::from_millis(100);

/// What a server answers to whoever wants to listen.
pub(super) enum Stream {
    Open(Response),
    /// It has none, and will not have one later.
    NotOffered,
    /// It does not know the session, or has no such place: the same statuses mean both.
    Denied,
}

impl Core {
    /// An answer at the end of a stream of events. A stream of a session that ends before it is
    /// opened again behind the last event.
    pub(super) async fn streamed(
        &self,
        response: Response,
        id: &RequestId,
    ) -> Result<Answer, ClientError> {
        self.streamed_from(response, id, None).await
    }

    /// As [`streamed`](Self::streamed), where the first bytes were read already.
    pub(super) async fn streamed_from(
        &self,
        mut response: Response,
        id: &RequestId,
        mut first: Option<Bytes>,
    ) -> Result<Answer, ClientError> {
        let mut events = Events::new(self.config.max_message_bytes);
        let mut resumes = 0;
        loop {
            let chunk = match first.take() {
                Some(first) => Ok(Some(first)),
                None => self.chunk(&mut response).await,
            };
            let broke = match chunk {
                Ok(Some(bytes)) => {
                    events.feed(&bytes);
                    while let Some(event) = events.next().map_err(|TooLarge| self.too_large())? {
                        resumes = 0;
                        if let Some(answer) = self.answer_in(&event, id)? {
                            self.finish(response);
                            return Ok(answer);
                        }
                    }
                    continue;
                }
                Ok(None) => {
                    // The blank line behind the last event may be missing.
                    events.feed(&Bytes::from_static(b"\n\n"));
                    while let Ok(Some(event)) = events.next() {
                        if let Some(answer) = self.answer_in(&event, id)? {
                            return Ok(answer);
                        }
                    }
                    failure::broken("the stream of the response ended before the answer")
                }
                Err(error) => error,
            };
            response = self.resumed(&mut events, broke, &mut resumes).await?;
        }
    }

    /// The answer, if an event is that; other messages are passed on, and what is no message is
    /// left out.
    fn answer_in(&self, event: &Event, id: &RequestId) -> Result<Option<Answer>, ClientError> {
        if event.kind.is_some() || event.data.is_empty() {
            return Ok(None);
        }
        match parse(&event.data) {
            Err(malformed) if !malformed.id.as_ref().is_some_and(|it| answers(it, id)) => {
                self.count_dropped("an event that is no message");
                Ok(None)
            }
            _ => self.read(&event.data, id),
        }
    }

    /// Opens a stream that ended again, behind its last event.
    async fn resumed(
        &self,
        events: &mut Events,
        mut broke: ClientError,
        resumes: &mut u32,
    ) -> Result<Response, ClientError> {
        let is_session = |revision: Revision| revision.era() == Era::Session;
        let Some(last) = events.last_id().map(encoded_id) else {
            return Err(broke);
        };
        if !self.common().revision.is_some_and(is_session) {
            return Err(broke);
        }
        while *resumes < MAX_RESUMES {
            let wait = events.retry().unwrap_or(RESUME_WAIT * 2_u32.pow(*resumes));
            *resumes += 1;
            sleep(wait.max(MIN_RESUME_WAIT)).await;
            match self.open_stream(Some(last.clone())).await {
                Ok(Stream::Open(response)) => {
                    events.restart();
                    return Ok(response);
                }
                Ok(Stream::NotOffered | Stream::Denied) => return Err(broke),
                Err(error) => {
                    tracing::debug!(server = %self.config.name, %error, "cannot resume an event stream");
                    if !matches!(
                        error,
                        ClientError::Unreachable { .. } | ClientError::Http(_)
                    ) {
                        broke = error;
                        break;
                    }
                }
            }
        }
        Err(broke)
    }

    /// Opens an event stream by GET.
    pub(super) async fn open_stream(
        &self,
        last: Option<HeaderValue>,
    ) -> Result<Stream, ClientError> {
        let common = self.common();
        let headers = || {
            let mut headers = HeaderMap::clone(&common.headers);
            headers.remove(CONTENT_TYPE);
            headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
            if let Some(last) = &last {
                headers.insert(LAST_EVENT, last.clone());
            }
            headers
        };
        let mut sent = self
            .send(Method::GET, &self.endpoint, headers, None)
            .await?;
        let status = sent.response.status();
        let is_stream = matches!(form(&sent.response), Form::Events);
        match status.as_u16() {
            200..=299 if is_stream => Ok(Stream::Open(sent.response)),
            400 | 404 if common.has_session => {
                let body = refusal_body(&mut sent.response).await;
                Ok(match denies_session(status, &body) {
                    true => Stream::Denied,
                    false => Stream::NotOffered,
                })
            }
            // What it does not offer it does not offer later.
            200..=299 | 400 | 404..=407 | 409..=428 | 501 => Ok(Stream::NotOffered),
            _ => Err(self.failed(sent).await),
        }
    }
}

/// The id of an event as a header.
pub(super) fn encoded_id(id: &str) -> HeaderValue {
    HeaderValue::try_from(id).unwrap_or_else(|_| encoded(id))
}
