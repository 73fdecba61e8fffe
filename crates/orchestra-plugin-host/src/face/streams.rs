//! Calls of tools that are answered in chunks.
//!
//! The hub knows no chunks. Those of a plugin are passed on beside it, as they came. Otherwise what a
//! call reports as progress with a message becomes a chunk of plain text, and its result the last one:
//! plain text when it is one, JSON otherwise. A call in MCP reports by `mcp_message` instead, and its
//! result comes with the end.
//!
//! A stream belongs to the connection that it was begun over: nobody else can cancel it, also nobody
//! of the same name, which all bridges of a user share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use orchestra_hub::{CancelSignal, CancelSource, LogLevel, ProgressListener, ProgressSink};
use orchestra_mcp::DirectCaller;
use orchestra_plugin::{
    envelope::{Request, RequestKind, Response, ResponseKind},
    field,
    generated::{StreamCancel, StreamChunk, StreamEnd, StreamStart},
    quic::{ConnectionId, Reply, Requests},
};
use orchestra_wire::{Method, RawJson};
use prost::Message as _;
use serde_json::Value;
use tokio::{select, sync::mpsc};

use super::{
    dispatch::{Turn, given, message},
    failure::Failure,
    replies::Replies,
    tools::Plain,
    verbatim::{Beside, Verbatim, message_of},
};

/// Reports that wait for a peer that does not read; past that they are dropped.
const REPORTS: usize = 64;

/// The longest name of a stream that is kept.
const MAX_ID_BYTES: usize = 256;

/// Chunks of a plugin that wait to be written; each may be as large as a frame.
const PARTS: usize = 1;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// The field of a chunk that names its stream.
const STREAM_ID: u32 = 1;

/// The streams that go on.
#[derive(Default)]
pub(super) struct Streams(Mutex<HashMap<Key, CancelSource>>);

type Key = (ConnectionId, String);

/// A stream, for as long as it goes on.
struct Open<'a> {
    streams: &'a Streams,
    key: Key,
    cancelled: CancelSignal,
}

impl Streams {
    fn open(&self, key: Key) -> Result<Open<'_>, Failure> {
        if key.1.len() > MAX_ID_BYTES {
            let text = format!("a stream_id has at most {MAX_ID_BYTES} bytes");
            return Err(Failure::new("invalid_request", text));
        }
        let source = CancelSource::new();
        let cancelled = source.signal();
        let mut all = self.all();
        if all.contains_key(&key) {
            let text = "a stream with this stream_id is still open; use another id for each stream";
            return Err(Failure::new("invalid_request", text));
        }
        all.insert(key.clone(), source);
        drop(all);
        Ok(Open {
            streams: self,
            key,
            cancelled,
        })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, CancelSource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.streams.all().remove(&self.key);
    }
}

/// Keeps what a call reports until it is written.
struct Reports(mpsc::Sender<String>);

impl ProgressListener for Reports {
    fn progress(&self, _progress: f64, _total: Option<f64>, message: Option<&str>) {
        if let Some(message) = message {
            // A peer that does not read misses some.
            let _ = self.0.try_send(message.to_owned());
        }
    }

    fn log(&self, _level: LogLevel, _logger: Option<&str>, _data: &RawJson) {}
}

/// Writes chunks.
struct Chunks<'a> {
    id: &'a str,
    stream_id: &'a str,
    replies: &'a Replies,
    reply: &'a mut Reply,
    sent: i64,
}

impl Chunks<'_> {
    async fn send(&mut self, data: Bytes, content_type: &str) -> Result<(), Failure> {
        let chunk = StreamChunk {
            stream_id: self.stream_id.to_owned(),
            data,
            content_type: content_type.to_owned(),
            sequence: self.sent,
        };
        let chunk = Response::new(self.id, &chunk);
        self.replies.send(self.reply, chunk).await?;
        self.sent += 1;
        Ok(())
    }

    /// Passes a chunk of a plugin on as it came, under the name that its stream has here. Of a call
    /// that was made once more, those that were sent are not sent again.
    async fn pass(&mut self, part: Bytes) -> Result<(), Failure> {
        let unreadable =
            |error: &dyn std::error::Error| Failure::new("invalid_response", super::chain(error));
        let chunk = StreamChunk::decode(part.clone()).map_err(|error| unreadable(&error))?;
        if chunk.sequence < self.sent {
            return Ok(());
        }
        let part = field::with_text(&part, STREAM_ID, self.stream_id);
        let part = part.map_err(|error| unreadable(&error))?;
        let chunk = Response::raw(self.id, ResponseKind::StreamChunk, part);
        self.replies.send(self.reply, chunk).await?;
        self.sent += 1;
        Ok(())
    }
}

impl Turn<'_> {
    pub(super) async fn stream_start(&self, reply: &mut Reply) -> Result<Response, Failure> {
        let asked: StreamStart = message(self.request)?;
        let requests = reply.requests();
        let mut chunks = Chunks {
            id: self.id(),
            stream_id: &asked.stream_id,
            replies: &self.connected.replies,
            reply,
            sent: 0,
        };
        let ended = self.stream(&asked, requests, &mut chunks).await;
        let end = ended.unwrap_or_else(|failure| StreamEnd {
            error_code: failure.code,
            error_message: failure.message,
            ..StreamEnd::default()
        });
        let end = StreamEnd {
            total_chunks: chunks.sent,
            stream_id: asked.stream_id.clone(),
            ..end
        };
        Ok(Response::new(self.id(), &end))
    }

    async fn stream(
        &self,
        asked: &StreamStart,
        requests: Option<Requests>,
        chunks: &mut Chunks<'_>,
    ) -> Result<StreamEnd, Failure> {
        let key = (self.peer.connection(), asked.stream_id.clone());
        let open = self.face.streams.open(key)?;
        let mut cancelled = open.cancelled.clone();
        let streaming = async {
            match given(&asked.mcp_params) {
                Some(params) => self.stream_verbatim(asked, params, chunks).await,
                None => self.stream_plainly(asked, chunks).await,
            }
        };
        let unwanted = async {
            select! {
                () = cancelled.cancelled() => {}
                () = cancelled_in_band(requests, &asked.stream_id) => {}
            }
        };
        select! {
            biased;
            () = unwanted => Err(Failure::new("cancelled", "the stream was cancelled")),
            ended = streaming => ended,
        }
    }

    async fn stream_verbatim(
        &self,
        asked: &StreamStart,
        params: &Bytes,
        chunks: &mut Chunks<'_>,
    ) -> Result<StreamEnd, Failure> {
        let provider = Some(&*asked.provider).filter(|provider| !provider.is_empty());
        let params = self.tool_params(params, &asked.tool_name, provider)?;
        let beside = Beside {
            trace: &asked.trace_parent,
            session: &asked.session_id,
        };
        let method = Method::ToolsCall.name();
        let said = self.relay(method, Some(params), beside, chunks.reply);
        Ok(match said.await? {
            Verbatim::Result(mcp_result) => StreamEnd {
                success: true,
                mcp_result,
                ..StreamEnd::default()
            },
            Verbatim::Error(mcp_error) => StreamEnd {
                error_code: "mcp_error".to_owned(),
                error_message: message_of(&mcp_error),
                mcp_error,
                ..StreamEnd::default()
            },
        })
    }

    async fn stream_plainly(
        &self,
        asked: &StreamStart,
        chunks: &mut Chunks<'_>,
    ) -> Result<StreamEnd, Failure> {
        let (sender, mut reports) = mpsc::channel(REPORTS);
        let carried = self
            .carried
            .as_deref()
            .ok_or_else(Failure::unknown_request)?;
        let mut parts = carried.take_parts(PARTS);
        let call = Plain {
            tool: &asked.tool_name,
            provider: Some(&*asked.provider).filter(|provider| !provider.is_empty()),
            arguments: asked.arguments.as_deref(),
            session: &asked.session_id,
        };
        let caller = DirectCaller {
            trace: Some(asked.trace_parent.clone()).filter(|trace| !trace.is_empty()),
            progress: ProgressSink::new(Arc::new(Reports(sender))),
            ..DirectCaller::default()
        };
        let result = {
            let mut calling = std::pin::pin!(self.call_plainly(&call, caller));
            loop {
                select! {
                    biased;
                    Some(part) = parts.recv() => chunks.pass(part).await?,
                    // They tell of the same.
                    Some(report) = reports.recv(), if !carried.has_parts() => {
                        chunks.send(report.into(), PLAIN_TEXT).await?;
                    }
                    result = &mut calling => break result,
                }
            }
        };
        while let Ok(part) = parts.try_recv() {
            chunks.pass(part).await?;
        }
        while let (false, Ok(report)) = (carried.has_parts(), reports.try_recv()) {
            chunks.send(report.into(), PLAIN_TEXT).await?;
        }
        let response = super::tools::for_old_peers(&result?)?;
        if !response.success {
            return Err(Failure::new(response.error_code, response.error_message));
        }
        if let (false, Some(result)) = (carried.has_parts(), response.result) {
            let (data, content_type) = data_of(&result)?;
            chunks.send(data, content_type).await?;
        }
        Ok(StreamEnd {
            success: true,
            ..StreamEnd::default()
        })
    }

    /// Cancels a stream of the same connection. There is nothing to say, also when there is none.
    pub(super) fn stream_cancel(&self) -> Result<Response, Failure> {
        let unwanted: StreamCancel = message(self.request)?;
        let key = (self.peer.connection(), unwanted.stream_id);
        if let Some(source) = self.face.streams.all().get(&key) {
            source.cancel();
        }
        Ok(Response::empty(self.id()))
    }
}

/// Completes when the caller cancels its stream by a second frame of the same call, as callers of the
/// first kit do.
async fn cancelled_in_band(requests: Option<Requests>, stream_id: &str) {
    if let Some(mut requests) = requests {
        // What ends it, or is no frame, is told otherwise.
        while let Ok(Some(frame)) = requests.next().await {
            let cancels = Request::decode(&frame).is_ok_and(|request| {
                request.kind() == Some(RequestKind::StreamCancel)
                    && message::<StreamCancel>(&request)
                        .is_ok_and(|cancel| cancel.stream_id == stream_id)
            });
            if cancels {
                return;
            }
        }
    }
    std::future::pending().await
}

/// A result as a chunk: the text when it is nothing else.
fn data_of(result: &[u8]) -> Result<(Bytes, &'static str), Failure> {
    let unreadable =
        |error: &dyn std::error::Error| Failure::new("invalid_response", super::chain(error));
    let json = orchestra_plugin::structs::decode(result, Default::default());
    let json = json.map_err(|error| unreadable(&error))?;
    let value: Value = serde_json::from_str(&json).map_err(|error| unreadable(&error))?;
    let lone = value.as_object().filter(|members| members.len() == 1);
    Ok(
        match lone.and_then(|members| members.get("text")?.as_str()) {
            Some(text) => (Bytes::copy_from_slice(text.as_bytes()), PLAIN_TEXT),
            None => (json.into(), JSON),
        },
    )
}
