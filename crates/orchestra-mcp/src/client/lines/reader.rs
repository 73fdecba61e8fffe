//! Reads what a server says and gives it to whom it is for.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use orchestra_wire::{
    ErrorCode, Inbound, Malformed, Message, RawJson, Reply, RequestId, ResponseRef, Rope, RpcError,
    parse, parse_item, unread, write,
};
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::{coop::consume_budget, yield_now},
    time::{Instant, sleep_until},
};

use super::{
    Core, Peer,
    counters::{HEAD_BYTES, shown_head},
    cut::{Cut, Cutter, TooLong},
    pipe::Pace,
};
use crate::client::{ClientError, Incoming, IncomingSender, ServerMessage};

/// How long answers are still read after a server takes no more messages or has ended.
pub(super) const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Number of bytes of a read after which other tasks run.
const MANY_BYTES: usize = 16 * 1024;

pub(super) struct Reader {
    pub(super) core: Arc<Core>,
    pub(super) incoming: IncomingSender,
    pub(super) max_message_bytes: usize,
    pub(super) peer: Option<Arc<dyn Peer>>,
}

impl Reader {
    /// Reads until the end of the stream, or shortly after nothing can be sent any more.
    pub(super) async fn run(self, mut input: impl AsyncRead + Unpin) {
        let mut cutter = Cutter::new(self.max_message_bytes);
        let mut end = None;
        loop {
            let until = end.unwrap_or_else(|| Instant::now() + Duration::from_secs(3_600));
            let read = tokio::select! {
                biased;
                read = input.read_buf(cutter.space()) => read,
                () = self.core.pipe.broken.notified(), if end.is_none() => {
                    end = Some(Instant::now() + LAST_ANSWERS);
                    continue;
                }
                () = sleep_until(until), if end.is_some() => break,
            };
            let bytes = match read {
                Ok(bytes) if bytes > 0 => bytes,
                Ok(_) => break,
                Err(error) => {
                    tracing::debug!(server = self.core.name, %error, "cannot read the server's output");
                    break;
                }
            };
            while let Some(cut) = cutter.next() {
                self.take(cut);
                // Many short lines do not hold up other tasks.
                consume_budget().await;
            }
            // Neither do many blank ones, of which there are no cuts.
            if bytes >= MANY_BYTES {
                yield_now().await;
            }
        }
        match cutter.finish() {
            // Its server ended while it wrote.
            Some(Cut::Line(line)) if serde_json::from_slice::<&RawValue>(&line).is_err() => {
                self.junk(&line, "a line that was broken off");
            }
            Some(cut) => self.take(cut),
            None => {}
        }
    }

    fn take(&self, cut: Cut) {
        match cut {
            Cut::Line(line) => self.take_line(&line),
            Cut::TooLong(line) => self.take_too_long(&line),
        }
    }

    fn take_line(&self, line: &Bytes) {
        match parse(line) {
            Ok(Inbound::One(message)) => {
                self.core.counters.count_message();
                self.take_message(message, line);
            }
            // Also of revisions that have none: each of its messages is understood.
            Ok(Inbound::Batch(items)) => {
                self.core.counters.count_message();
                for item in items {
                    match parse_item(item) {
                        Ok(message) => self.take_message(message, line),
                        Err(malformed) => self.take_malformed(&malformed, item.get().as_bytes()),
                    }
                }
            }
            Ok(Inbound::BatchTooLong) => self.junk(line, "a batch that is too long"),
            Err(malformed) => self.take_malformed(&malformed, line),
        }
    }

    fn take_message(&self, message: Message<'_>, frame: &Bytes) {
        let params = |params: Option<&RawValue>| {
            params.map(|params| RawJson::from_frame(params, Some(frame)))
        };
        match message {
            Message::Response(response) => self.take_response(response, frame),
            Message::Request(request) => self.tell(ServerMessage::Request {
                params: params(request.raw_params()),
                id: request.id,
                method: request.method.into_owned(),
            }),
            Message::Notification(notification) => self.tell(ServerMessage::Notification {
                params: params(notification.raw_params()),
                method: notification.method.into_owned(),
            }),
        }
    }

    fn take_response(&self, response: ResponseRef<'_>, frame: &Bytes) {
        let answer = match response.reply {
            Reply::Result(result) => Ok(RawJson::from_frame(result, Some(frame))),
            Reply::Error(error) => Err(RpcError::from_raw(error)),
        };
        let Some(id) = response.id.or_else(|| self.core.sole_request()) else {
            let (server, error) = (&self.core.name, answer.err());
            tracing::warn!(server, ?error, "ignored an error without an id");
            self.core.counters.count_unknown_id();
            return;
        };
        if !self.core.answer(&id, Ok(answer)) {
            self.core.counters.count_unknown_id();
            tracing::debug!(server = self.core.name, %id, "ignored a response without a waiting request");
        }
    }

    /// Something that is JSON-RPC but for a mistake is told to whom it concerns.
    fn take_malformed(&self, malformed: &Malformed, line: &[u8]) {
        let Some(id) = &malformed.id else {
            return self.take_unparsed(malformed, line);
        };
        if has_method(line) {
            self.junk(line, &malformed.error.message);
            return self.refuse(id, &malformed.error);
        }
        let what = format!("{}: {}", malformed.error.message, self.excerpt(line));
        if !self
            .core
            .answer(id, Err(ClientError::InvalidMessage { what }))
        {
            self.core.counters.count_unknown_id();
        }
    }

    /// A line that cannot be parsed costs the request that it answers, and nothing else.
    fn take_unparsed(&self, malformed: &Malformed, line: &[u8]) {
        if let Some(list) = unread::shallow_list(line)
            && let Ok(Inbound::One(message @ Message::Response(_))) = parse(&list)
        {
            let server = &self.core.name;
            tracing::warn!(
                server,
                "some definitions of a list are nested too deeply; reading them without the nested members"
            );
            self.core.counters.count_message();
            return self.take_message(message, &list);
        }
        let found = unread::find(line);
        if let Some(id) = found.asked() {
            self.refuse(id, &malformed.error);
        }
        let what = || {
            let fault = serde_json::from_slice::<&RawValue>(line).err();
            let fault = fault.map(|fault| format!(" ({fault})")).unwrap_or_default();
            let why = &malformed.error.message;
            format!(
                "the answer cannot be read: {why}{fault}: {}",
                self.excerpt(line)
            )
        };
        let is_answer = found.answered().is_some_and(|id| {
            let error = ClientError::InvalidMessage { what: what() };
            self.core.answer(id, Err(error))
        });
        if !is_answer {
            self.junk(line, &malformed.error.message);
        }
    }

    fn take_too_long(&self, line: &TooLong) {
        self.core.counters.count_too_long();
        let (server, bytes) = (&self.core.name, line.bytes);
        let id = line.id();
        tracing::warn!(
            server,
            bytes,
            ?id,
            "skipped a message that exceeds the size limit"
        );
        let Some(id) = id else { return };
        let what = format!(
            "the answer has {bytes} bytes and {} are permitted; ask for less, or raise \
             `maxMessageBytes` of the server",
            self.max_message_bytes
        );
        if !self
            .core
            .answer(&id, Err(ClientError::InvalidMessage { what }))
        {
            self.core.counters.count_unknown_id();
        }
    }

    /// The beginning of a line, fit to be shown. Secrets are masked before it is cut.
    fn excerpt(&self, line: &[u8]) -> String {
        match &self.peer {
            Some(peer) => shown_head(&peer.masker().excerpt_of_bytes(line, HEAD_BYTES)),
            None => shown_head(&String::from_utf8_lossy(
                &line[..line.len().min(HEAD_BYTES)],
            )),
        }
    }

    /// The first of a process is told to people, all are kept where its standard error is.
    fn junk(&self, line: &[u8], why: &str) {
        if let Some(peer) = &self.peer {
            peer.printed(line);
        }
        let line = self.excerpt(line);
        let server = &self.core.name;
        match self.core.counters.count_junk(&line) {
            true => tracing::warn!(
                server,
                line,
                "printed what is no message; its standard output is for messages alone. \
                 `orchestra mcp logs` has what else it prints"
            ),
            false => tracing::debug!(
                server,
                why,
                line,
                "ignored a line that is not a JSON-RPC message"
            ),
        }
    }

    /// Never waits: who listens too slowly learns that it missed notifications, and its server is told
    /// that its requests are too many.
    fn tell(&self, message: ServerMessage) {
        let related = None;
        let Some(left) = self.incoming.send(Incoming { message, related }) else {
            return;
        };
        match left.message {
            // The sender's own.
            ServerMessage::Missed => {}
            ServerMessage::Request { id, .. } => {
                let busy = "busy: too many requests of the server wait; try again later";
                self.refuse(&id, &RpcError::new(ErrorCode::INTERNAL_ERROR, busy));
            }
            ServerMessage::Notification { method, .. } => {
                if self.core.counters.count_dropped() == 0 {
                    let server = &self.core.name;
                    tracing::warn!(
                        server,
                        method,
                        "too many notifications from the server; dropped one"
                    );
                }
            }
        }
    }

    fn refuse(&self, id: &RequestId, error: &RpcError) {
        let mut message = Rope::new();
        write::error(&mut message, Some(id), error);
        self.core.note_unanswered();
        // When it does not read, it does not miss the refusal either.
        let _ = self.core.pipe.try_send(message, Pace::AtOnce);
    }
}

/// Whether something was meant as a request.
fn has_method(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        method: Option<&'a RawValue>,
    }
    serde_json::from_slice::<Members<'_>>(line).is_ok_and(|members| members.method.is_some())
}
