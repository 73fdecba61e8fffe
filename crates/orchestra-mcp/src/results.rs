//! Turns outcomes and errors of providers into the bytes of results, in the form of a revision.

mod skills;
mod verbatim;

use orchestra_hub::{
    Completion, Content, ListKind, Offers, Outcome, PromptResult, ProviderError, ResourceContents,
    ResourceResult, ToolResult,
};
use orchestra_wire::{ErrorCode, RawJson, RequestId, Revision, Rope, RpcError, write};
use serde_json::json;

use crate::{
    connection::Lifetime,
    cursor::{self, Paged},
    http::Eras,
    server::ServerInner,
    tasks::EXTENSION,
    translation,
};

/// How long a client may keep lists and the answer to `server/discover`, in milliseconds. Changes
/// are announced, so this only serves clients that do not listen.
const LIST_TTL_MS: u64 = 60_000;

/// A completion answers at most this many values (MCP, `CompleteResult`).
const MAX_COMPLETIONS: usize = 100;

/// Writes results of one server.
#[derive(Clone, Copy)]
pub(crate) struct Results<'s> {
    pub(crate) server: &'s ServerInner,
    pub(crate) revision: Revision,
    pub(crate) lifetime: Lifetime,
    pub(crate) eras: Eras,
}

/// Why a result tells of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskResult {
    /// A call has become it.
    Begun,
    /// Its client asked.
    Now,
}

/// How a result may be cached.
enum Caching {
    No,
    /// A list that is the same for everyone.
    List,
    /// A resource: stale at once, and private.
    Resource,
}

impl Results<'_> {
    /// A whole response with the outcome of a call.
    pub(crate) fn outcome(self, rope: &mut Rope, id: &RequestId, outcome: Outcome) {
        write::result_head(rope, id);
        self.result(rope, outcome);
        write::close(rope);
    }

    /// The outcome of a call as a result alone.
    pub(crate) fn result(self, rope: &mut Rope, outcome: Outcome) {
        match outcome {
            Outcome::Tool(result) => self.tool(rope, result),
            Outcome::Prompt(result) => self.prompt(rope, result),
            Outcome::Resource(result) => self.resource(rope, result),
            Outcome::Completion(completion) => self.completion(rope, completion),
            Outcome::Skills(answer) => self.skills(rope, answer),
            Outcome::List { kind, items, next } => self.list(rope, kind, items, next),
            Outcome::Verbatim { kind, result, .. } => self.verbatim(rope, kind, &result),
            Outcome::Raw(raw) => verbatim::unknown(rope, &raw),
            Outcome::InputRequired(input) => {
                rope.push(b"{\"resultType\":\"input_required\"");
                if input.requests.as_bytes() != b"{}" {
                    rope.push(b",\"inputRequests\":");
                    write::raw(rope, &input.requests);
                }
                if let Some(state) = input.state {
                    rope.push(b",\"requestState\":");
                    write::string_owned(rope, state);
                }
                rope.push_byte(b',');
                rope.push(&self.server.meta_head);
                rope.push(b"}}");
            }
        }
    }

    /// A whole response that tells of a task: one that begins, or one as it is now. The members
    /// of the task are written by `members`.
    pub(crate) fn task(
        self,
        rope: &mut Rope,
        id: &RequestId,
        kind: TaskResult,
        members: impl FnOnce(&mut Rope),
    ) {
        write::result_head(rope, id);
        rope.push(match kind {
            // For those who know the result of a tool from the schema of the protocol alone, which
            // knows no tasks: it is one without contents.
            TaskResult::Begun => b"{\"resultType\":\"task\",\"content\":[],".as_slice(),
            TaskResult::Now => b"{\"resultType\":\"complete\",",
        });
        members(rope);
        self.tail(rope, &Caching::No, None);
        write::close(rope);
    }

    /// A whole response with an empty result.
    pub(crate) fn empty(self, rope: &mut Rope, id: &RequestId) {
        write::result_head(rope, id);
        let stateless = self.revision.self_describing_results();
        rope.push(if stateless {
            b"{\"resultType\":\"complete\""
        } else {
            b"{"
        });
        self.tail(rope, &Caching::No, None);
        write::close(rope);
    }

    /// A whole response to `initialize`.
    pub(crate) fn initialize(
        self,
        rope: &mut Rope,
        id: &RequestId,
        offers: Offers,
        translates: bool,
        text: Option<&str>,
    ) {
        write::result_head(rope, id);
        rope.push(b"{\"protocolVersion\":\"");
        rope.push(self.revision.as_str().as_bytes());
        rope.push(b"\",");
        self.capabilities(rope, offers);
        if translates {
            rope.push_byte(b',');
            rope.push(translation::EXPERIMENTAL.as_bytes());
        }
        rope.push(b"},\"serverInfo\":");
        rope.push(self.server.info(self.revision));
        self.instructions(rope, text);
        rope.push_byte(b'}');
        write::close(rope);
    }

    /// A whole response to `server/discover`.
    pub(crate) fn discover(
        self,
        rope: &mut Rope,
        id: &RequestId,
        offers: Offers,
        text: Option<&str>,
    ) {
        write::result_head(rope, id);
        self.head(rope);
        rope.push(b"\"supportedVersions\":[");
        for (at, revision) in self.eras.newest_first().enumerate() {
            rope.push(if at == 0 { b"\"" } else { b",\"" });
            rope.push(revision.as_bytes());
            rope.push_byte(b'"');
        }
        rope.push(b"],");
        self.capabilities(rope, offers);
        rope.push_byte(b'}');
        self.instructions(rope, text);
        self.tail(rope, &Caching::List, None);
        write::close(rope);
    }

    fn list(self, rope: &mut Rope, kind: ListKind, items: bytes::Bytes, next: Option<usize>) {
        self.head(rope);
        rope.push(match kind {
            ListKind::Tools => b"\"tools\":[",
            ListKind::Prompts => b"\"prompts\":[".as_slice(),
            ListKind::Resources => b"\"resources\":[",
            ListKind::Templates => b"\"resourceTemplates\":[",
        });
        rope.push_body(items);
        rope.push_byte(b']');
        next_cursor(rope, Paged::Catalog(kind), next);
        self.tail(rope, &Caching::List, None);
    }

    fn tool(self, rope: &mut Rope, result: ToolResult) {
        self.head(rope);
        rope.push(b"\"content\":[");
        for (at, content) in result.content.into_iter().enumerate() {
            if at > 0 {
                rope.push_byte(b',');
            }
            match content {
                Content::Text(text) => {
                    rope.push(b"{\"type\":\"text\",\"text\":");
                    write::string_owned(rope, text);
                    rope.push_byte(b'}');
                }
                Content::Raw(raw) => write::raw(rope, &raw),
            }
        }
        rope.push_byte(b']');
        if let Some(structured) = result.structured
            && self.revision.structured_content()
            && (self.revision.structured_any() || structured.as_bytes().starts_with(b"{"))
        {
            rope.push(b",\"structuredContent\":");
            write::raw(rope, &structured);
        }
        if result.is_error {
            rope.push(b",\"isError\":true");
        }
        self.tail(rope, &Caching::No, result.meta.as_ref());
    }

    fn prompt(self, rope: &mut Rope, result: PromptResult) {
        self.head(rope);
        if let Some(description) = &result.description {
            rope.push(b"\"description\":");
            write::string(rope, description);
            rope.push_byte(b',');
        }
        rope.push(b"\"messages\":");
        write::raw(rope, &result.messages);
        self.tail(rope, &Caching::No, None);
    }

    fn resource(self, rope: &mut Rope, result: ResourceResult) {
        self.head(rope);
        rope.push(b"\"contents\":[");
        for (at, content) in result.contents.into_iter().enumerate() {
            let ResourceContents {
                uri,
                mime_type,
                data,
                binary,
            } = content;
            rope.push(if at == 0 { b"{\"uri\":" } else { b",{\"uri\":" });
            write::string(rope, &uri);
            if let Some(mime_type) = mime_type {
                rope.push(b",\"mimeType\":");
                write::string(rope, &mime_type);
            }
            rope.push(if binary { b",\"blob\":" } else { b",\"text\":" });
            write::string_owned(rope, data);
            rope.push_byte(b'}');
        }
        rope.push_byte(b']');
        self.tail(rope, &Caching::Resource, None);
    }

    fn completion(self, rope: &mut Rope, completion: Completion) {
        let more = completion.has_more || completion.values.len() > MAX_COMPLETIONS;
        self.head(rope);
        rope.push(b"\"completion\":{\"values\":[");
        for (at, value) in completion.values.iter().take(MAX_COMPLETIONS).enumerate() {
            if at > 0 {
                rope.push_byte(b',');
            }
            write::string(rope, value);
        }
        rope.push_byte(b']');
        if let Some(total) = completion.total {
            rope.push(b",\"total\":");
            write::number(rope, total);
        }
        rope.push(if more {
            b",\"hasMore\":true}"
        } else {
            b",\"hasMore\":false}"
        });
        self.tail(rope, &Caching::No, None);
    }

    /// Opens the result object.
    fn head(self, rope: &mut Rope) {
        rope.push_byte(b'{');
        if self.revision.self_describing_results() {
            rope.push(b"\"resultType\":\"complete\",");
        }
    }

    /// Closes the result object, whose last member has no comma after it, or which is empty.
    fn tail(self, rope: &mut Rope, caching: &Caching, meta: Option<&RawJson>) {
        let members = meta.map(|meta| meta.as_str().trim_ascii());
        let members = members.and_then(|text| text.strip_prefix('{')?.strip_suffix('}'));
        let members = members
            .map(str::trim_ascii)
            .filter(|members| !members.is_empty());
        if !self.revision.self_describing_results() {
            if let Some(members) = members {
                rope.push(b",\"_meta\":{");
                rope.push(members.replace(['\n', '\r'], " ").as_bytes());
                rope.push_byte(b'}');
            }
            rope.push_byte(b'}');
            return;
        }
        match caching {
            Caching::No => {}
            Caching::List => {
                rope.push(b",\"ttlMs\":");
                write::number(rope, LIST_TTL_MS);
                rope.push(b",\"cacheScope\":\"private\"");
            }
            Caching::Resource => rope.push(b",\"ttlMs\":0,\"cacheScope\":\"private\""),
        }
        rope.push_byte(b',');
        rope.push(&self.server.meta_head);
        if let Some(members) = members {
            rope.push_byte(b',');
            rope.push(members.replace(['\n', '\r'], " ").as_bytes());
        }
        rope.push(b"}}");
    }

    /// The capabilities, but for the end of their object.
    fn capabilities(self, rope: &mut Rope, offers: Offers) {
        let (lists, resources): (&[u8], &[u8]) = match self.lifetime {
            Lifetime::Stream | Lifetime::Requests | Lifetime::Posted => (
                b"{\"listChanged\":true}",
                b"{\"subscribe\":true,\"listChanged\":true}",
            ),
            Lifetime::Message => (b"{}", b"{}"),
        };
        rope.push(b"\"capabilities\":{\"tools\":");
        rope.push(lists);
        if offers.prompts {
            rope.push(b",\"prompts\":");
            rope.push(lists);
        }
        if offers.resources {
            rope.push(b",\"resources\":");
            rope.push(resources);
        }
        if self.revision.completions_capability() && (offers.prompts || offers.resources) {
            rope.push(b",\"completions\":{}");
        }
        if self.lifetime != Lifetime::Message {
            rope.push(b",\"logging\":{}");
        }
        self.extensions(rope, offers);
    }

    /// The extensions. Revisions up to 2025-11-25 have no `extensions`, but their set of
    /// capabilities is open; tasks are for requests that say themselves what their client knows.
    fn extensions(self, rope: &mut Rope, offers: Offers) {
        let tasks = self.revision.self_describing_results();
        let skills = offers.skills || offers.skills_elsewhere;
        if !skills && !tasks {
            return;
        }
        rope.push(b",\"extensions\":{");
        if skills {
            rope.push(skills::EXTENSION);
        }
        if tasks {
            rope.push(if skills { b",\"" } else { b"\"" });
            rope.push(EXTENSION.as_bytes());
            rope.push(b"\":{}");
        }
        rope.push_byte(b'}');
    }

    fn instructions(self, rope: &mut Rope, text: Option<&str>) {
        if let Some(text) = text {
            rope.push(b",\"instructions\":");
            write::string(rope, text);
        }
    }
}

fn next_cursor(rope: &mut Rope, list: Paged, next: Option<usize>) {
    if let Some(next) = next {
        rope.push(b",\"nextCursor\":");
        write::string(rope, &cursor::write(list, next));
    }
}

/// The JSON-RPC error that stands for an error of a provider.
pub(crate) fn rpc_error(error: ProviderError, revision: Revision) -> RpcError {
    match error {
        ProviderError::Unknown {
            kind: "method",
            name,
        } => RpcError::method_not_found(&name),
        ProviderError::Unknown {
            kind: "resource",
            name,
        } => {
            let data = RawJson::of(&json!({"uri": name})).ok();
            let text = format!("unknown resource: {name}");
            RpcError {
                data,
                ..RpcError::new(revision.resource_not_found_code(), text)
            }
        }
        ProviderError::NoResource { message, data } => RpcError {
            data,
            ..RpcError::new(revision.resource_not_found_code(), message)
        },
        error @ (ProviderError::Unknown { .. }
        | ProviderError::InvalidParams(_)
        | ProviderError::Denied(_)) => RpcError::invalid_params(error.to_string()),
        ProviderError::Rpc {
            code,
            message,
            data,
        } => RpcError {
            code: ErrorCode(code),
            message: message.into(),
            data,
        },
        error @ (ProviderError::Unreachable(_)
        | ProviderError::Cancelled
        | ProviderError::DeadlineExceeded) => {
            RpcError::new(ErrorCode::INTERNAL_ERROR, error.to_string())
        }
    }
}
