//! Answers that come in chunks: reports of progress, and a result in the end.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use orchestra_mcp::client::Answer;
use orchestra_plugin::{
    envelope::{Response, ResponseKind},
    generated::{StreamChunk, StreamEnd},
};
use orchestra_wire::{MAX_REPLY_BYTES, RawJson, RequestId, Rope, RpcError, write};

use super::{Terms, failure, text, tools};

/// How much of a chunk a report of progress shows, in characters.
const SHOWN_CHARS: usize = 2_000;

/// What has come of an answer.
#[derive(Debug, Default)]
pub struct Chunks {
    data: Vec<u8>,
    /// Somebody takes the chunks as they come, so that none is kept.
    is_passed_on: bool,
    content_type: String,
    count: i64,
    has_ended: bool,
    is_refused: bool,
}

/// What one more frame means.
#[derive(Debug)]
pub enum Piece {
    /// Another chunk: the parameters of `notifications/progress`.
    Progress(RawJson),
    /// The end.
    End(Answer),
}

impl Chunks {
    /// Chunks that somebody takes as they come: the result has nothing of them.
    #[must_use]
    pub fn passed_on() -> Self {
        Self {
            is_passed_on: true,
            ..Self::default()
        }
    }

    /// Takes one more frame of the answer to the request `id`.
    pub fn take(&mut self, terms: &Terms, id: &RequestId, response: &Response) -> Piece {
        self.has_ended = response.kind() != Some(ResponseKind::StreamChunk);
        match response.kind() {
            Some(ResponseKind::StreamChunk) => self.chunk(terms, id, response),
            Some(ResponseKind::StreamEnd) => Piece::End(self.end(terms, response)),
            // As any request, this one may be refused.
            Some(ResponseKind::ToolCall) => {
                self.is_refused = failure::is_unknown(response) || terms.lacks_tool(response);
                Piece::End(terms.called(response))
            }
            _ => Piece::End(Err(terms.unexpected())),
        }
    }

    /// Whether the peer has ended the answer, so that nothing is left to be cancelled.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the peer has no such tool that answers in chunks, so that nothing ran.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    fn chunk(&mut self, terms: &Terms, id: &RequestId, response: &Response) -> Piece {
        let chunk: StreamChunk = match terms.message("stream", response) {
            Ok(chunk) => chunk,
            Err(error) => return Piece::End(Err(error)),
        };
        let lost = |cause: &str| {
            let what = terms.failure("stream", cause);
            Piece::End(Err(failure::internal(what)))
        };
        if chunk.sequence != self.count {
            return lost("a chunk is missing or came twice");
        }
        if self.data.len() + chunk.data.len() > MAX_REPLY_BYTES {
            return lost("result_too_large: the chunks are more than a result may have");
        }
        self.count += 1;
        if !self.is_passed_on {
            self.data.extend_from_slice(&chunk.data);
        }
        if self.content_type.is_empty() {
            self.content_type = chunk.content_type;
        }
        let mut rope = Rope::new();
        rope.push(b"{\"progressToken\":");
        rope.push(id.as_bytes());
        rope.push(b",\"progress\":");
        rope.push(self.count.to_string().as_bytes());
        if let Ok(said) = std::str::from_utf8(&chunk.data)
            && !said.is_empty()
        {
            let said: String = said.chars().take(SHOWN_CHARS).collect();
            rope.push(b",\"message\":");
            write::string(&mut rope, &said);
        }
        rope.push_byte(b'}');
        match RawJson::checked(rope.into_vec().into()) {
            Ok(params) => Piece::Progress(params),
            Err(_) => lost("a chunk cannot be forwarded as progress"),
        }
    }

    fn end(&mut self, terms: &Terms, response: &Response) -> Answer {
        let end: StreamEnd = terms.message("stream", response)?;
        let verbatim = terms.verbatim("stream", &end.mcp_result, &end.mcp_error);
        if let Some(answer) = verbatim {
            return answer;
        }
        if !end.success {
            self.is_refused = self.count == 0 && end.error_code == "tool_not_found";
            let said = match end.error_message.as_str() {
                "" => format!("tool error: {}", end.error_code),
                message => message.to_owned(),
            };
            return tools::shown(&said, true);
        }
        if end.total_chunks != self.count {
            let cause = format!("{} of {} chunks came", self.count, end.total_chunks);
            return Err(failure::internal(terms.failure("stream", &cause)));
        }
        match String::from_utf8(std::mem::take(&mut self.data)) {
            Ok(said) => tools::shown(&said, false),
            Err(bytes) => self.blob(&end.stream_id, bytes.as_bytes()),
        }
    }

    /// What is no text, as an embedded resource.
    fn blob(&self, stream: &str, bytes: &[u8]) -> Result<RawJson, RpcError> {
        let mut out = String::from("{\"content\":[{\"type\":\"resource\",\"resource\":{\"uri\":");
        text::string(&mut out, &format!("stream:{stream}"));
        text::member(&mut out, "mimeType", &self.content_type);
        out.push_str(",\"blob\":\"");
        out.push_str(&STANDARD.encode(bytes));
        out.push_str("\"}}]}");
        text::raw(out)
    }
}
