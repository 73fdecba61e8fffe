//! Results of other servers, fitted to the revision of the caller: what it needs is added, what it
//! would refuse is left out, and everything else stays as it came.

use orchestra_hub::ResultKind;
use orchestra_wire::{Member, RawJson, Rope, write};

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
        let (mut result_type, mut ttl, mut scope, mut meta) = (false, false, false, None);
        let mut separator = b'{';
        for member in result.members().into_iter().flatten() {
            match &*member.key {
                "resultType" => result_type = true,
                "ttlMs" => ttl = true,
                "cacheScope" => scope = true,
                "_meta" => {
                    meta = Some(member.value);
                    continue;
                }
                _ => {}
            }
            put(rope, &mut separator, &member);
        }
        let is_resource = kind == ResultKind::Resource;
        let missing: [(bool, &[u8]); 3] = [
            (!result_type, b"\"resultType\":\"complete\""),
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

    /// For the caller of a session.
    fn reduced(self, rope: &mut Rope, kind: ResultKind, result: &RawJson) {
        let fits = |member: &Member<'_>| {
            kind != ResultKind::Tool
                || member.key != "structuredContent"
                || (self.revision.structured_content()
                    && (self.revision.structured_any()
                        || member.value.as_bytes().starts_with(b"{")))
        };
        let Some(mut members) = result.members() else {
            // Not a result of MCP; whoever passes it on is told apart by that.
            return rope.push(b"{}");
        };
        if members.clone().all(|member| fits(&member)) {
            return write::raw(rope, result);
        }
        let mut separator = b'{';
        for member in members.by_ref().filter(fits) {
            put(rope, &mut separator, &member);
        }
        rope.push(if separator == b'{' { b"{}" } else { b"}" });
    }
}

fn put(rope: &mut Rope, separator: &mut u8, member: &Member<'_>) {
    rope.push_byte(*separator);
    *separator = b',';
    write::string(rope, &member.key);
    rope.push_byte(b':');
    write::raw(rope, &member.value);
}
