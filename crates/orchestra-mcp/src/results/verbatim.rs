//! Results of other servers, fitted to the revision of the caller: what it needs is added, what it
//! would refuse is left out, and everything else stays as it came.

use orchestra_hub::ResultKind;
use orchestra_wire::{Member, Members, RawJson, Rope, write};

use super::Results;

/// Who answered (MCP 2026-07-28, `Result`): we do, whoever stands behind us.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

impl Results<'_> {
    pub(super) fn verbatim(self, rope: &mut Rope, kind: ResultKind, result: &RawJson) {
        if self.revision.self_describing_results() {
            self.completed(rope, kind, result);
        } else {
            self.reduced(rope, kind, result);
        }
    }

    /// For a stateless caller.
    fn completed(self, rope: &mut Rope, kind: ResultKind, result: &RawJson) {
        let (mut ttl, mut scope, mut meta) = (false, false, None);
        let mut separator = b'{';
        for member in result.members().into_iter().flatten() {
            match &*member.key {
                // Only this program says that a result is a question or a task.
                "resultType" => continue,
                "ttlMs" => ttl = true,
                "cacheScope" => scope = true,
                "_meta" => {
                    meta = Some(member.value);
                    continue;
                }
                _ if is_round(&member) => continue,
                _ => {}
            }
            put(rope, &mut separator, &member);
        }
        let is_resource = kind == ResultKind::Resource;
        let missing: [(bool, &[u8]); 3] = [
            (true, b"\"resultType\":\"complete\""),
            (is_resource && !ttl, b"\"ttlMs\":0"),
            (is_resource && !scope, b"\"cacheScope\":\"private\""),
        ];
        for (_, text) in missing.into_iter().filter(|(missing, _)| *missing) {
            rope.push_byte(separator);
            rope.push(text);
            separator = b',';
        }
        rope.push_byte(separator);
        rope.push(&self.server.meta_head);
        for member in meta
            .as_ref()
            .and_then(RawJson::members)
            .into_iter()
            .flatten()
        {
            if member.key != SERVER_INFO {
                put(rope, &mut separator, &member);
            }
        }
        rope.push(b"}}");
    }

    /// For the caller of a session: without what the stateless era has added to results, where the
    /// result is of that era, which it says by its type.
    fn reduced(self, rope: &mut Rope, kind: ResultKind, result: &RawJson) {
        let Some(members) = result.members() else {
            // Not a result of MCP; whoever passes it on is told apart by that.
            return rope.push(b"{}");
        };
        let is_stateless = memchr::memmem::find(result.as_bytes(), b"\"resultType\"").is_some()
            && members.clone().any(|member| member.key == "resultType");
        let fits = |member: &Member<'_>| match &*member.key {
            "structuredContent" if kind == ResultKind::Tool => {
                self.revision.structured_content()
                    && (self.revision.structured_any() || member.value.as_bytes().starts_with(b"{"))
            }
            "resultType" => false,
            _ if is_round(member) => false,
            "ttlMs" | "cacheScope" => !(is_stateless && kind == ResultKind::Resource),
            _ => true,
        };
        if !is_stateless && members.clone().all(|member| fits(&member)) {
            return write::raw(rope, result);
        }
        let mut separator = b'{';
        for member in members.filter(fits) {
            match &*member.key {
                "_meta" if is_stateless => anonymous(rope, &mut separator, &member),
                _ => put(rope, &mut separator, &member),
            }
        }
        rope.push(if separator == b'{' { b"{}" } else { b"}" });
    }
}

/// The result of a method that nobody here knows, without a question in it: the user would take that for one of
/// this program.
pub(super) fn unknown(rope: &mut Rope, result: &RawJson) {
    let is_foreign = |member: &Member<'_>| match &*member.key {
        "resultType" => member.value.as_bytes() != b"\"complete\"",
        "inputRequests" | "requestState" => true,
        _ => false,
    };
    let asks = |members: &Members<'_>| members.clone().any(|member| is_foreign(&member));
    let Some(members) = result.members().filter(asks) else {
        return write::raw(rope, result);
    };
    let mut separator = b'{';
    for member in members.filter(|member| !is_foreign(member)) {
        put(rope, &mut separator, &member);
    }
    rope.push(if separator == b'{' { b"{}" } else { b"}" });
}

/// A member by which a server asks its client instead of answering, or names a task of its own, of which our
/// client knows nothing. Both are dealt with before a result gets here.
fn is_round(member: &Member<'_>) -> bool {
    match &*member.key {
        "inputRequests" | "requestState" => true,
        "task" => member.value.member("taskId").is_some(),
        _ => false,
    }
}

/// Puts `_meta` without who answered, if there is more in it: whoever has a session was told at its
/// beginning.
fn anonymous(rope: &mut Rope, separator: &mut u8, meta: &Member<'_>) {
    let is_other = |member: &Member<'_>| member.key != SERVER_INFO;
    let members = meta.value.members();
    let Some(members) = members.filter(|members| !members.clone().all(|m| is_other(&m))) else {
        return put(rope, separator, meta);
    };
    let mut inner = b'{';
    for member in members.filter(is_other) {
        if inner == b'{' {
            rope.push_byte(*separator);
            *separator = b',';
            rope.push(b"\"_meta\":");
        }
        put(rope, &mut inner, &member);
    }
    if inner == b',' {
        rope.push_byte(b'}');
    }
}

fn put(rope: &mut Rope, separator: &mut u8, member: &Member<'_>) {
    rope.push_byte(*separator);
    *separator = b',';
    write::string(rope, &member.key);
    rope.push_byte(b':');
    write::raw(rope, &member.value);
}
