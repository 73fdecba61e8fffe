//! Parameters as they leave: what the caller gave, and what the protocol wants beside it.

use orchestra_hub::{Answers, ClientFeatures, Cx};
use orchestra_wire::{Era, RawJson, RequestId, Revision, Rope, write};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ClientInfo, ServerCall, parking::State};
use crate::{told::level_name, translation};

/// The name of a member of `_meta` that the protocol defines.
const PREFIX: &[u8] = b"\"io.modelcontextprotocol/";

/// What is written around the caller's parameters.
pub(super) struct Envelope<'a> {
    pub(super) revision: Revision,
    pub(super) info: &'a ClientInfo,
    pub(super) call: &'a ServerCall,
    /// The id of the request, which is the token of its progress.
    pub(super) id: &'a RequestId,
    /// What the caller can be asked for, where the server is to know that.
    pub(super) caller: Option<ClientFeatures>,
    /// The server's own state, when the call is repeated with answers.
    pub(super) state: Option<&'a str>,
    /// Whether a call of a caller who knows no tasks may become one, which is followed here.
    pub(super) follows: bool,
}

impl Envelope<'_> {
    /// The parameters, whole; `None` when there is nothing to say.
    pub(super) fn params(&self) -> Option<RawJson> {
        let given = self.call.params.as_ref().map(RawJson::as_str);
        let inner = given.unwrap_or("{}").trim_ascii();
        let Some(inner) = inner
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
        else {
            // No object: a method of others may take an array. It goes as it is.
            return self.call.params.clone();
        };
        let foreign = foreign_meta(inner);
        let (inner, theirs) = match &foreign {
            Some(parts) => (parts.rest.as_str(), parts.meta.as_str()),
            None => (inner.trim_ascii(), ""),
        };
        let mut rope = Rope::new();
        rope.push_byte(b'{');
        let mut first = true;
        self.meta(&mut rope, theirs, &mut first);
        if self.call.as_task && !self.revision.self_describing_results() {
            separate(&mut rope, &mut first);
            rope.push(b"\"task\":{}");
        }
        self.answers(&mut rope, &mut first);
        if !inner.is_empty() {
            separate(&mut rope, &mut first);
            rope.push(inner.as_bytes());
        }
        rope.push_byte(b'}');
        if first && self.call.params.is_none() {
            return None;
        }
        raw(rope)
    }

    fn meta(&self, rope: &mut Rope, theirs: &str, first: &mut bool) {
        let Cx {
            progress,
            trace,
            features,
            ..
        } = &self.call.cx;
        let mut members = Rope::new();
        let mut empty = true;
        if self.revision.self_describing_results() {
            separate(&mut members, &mut empty);
            // Who knows tasks gets one, and who knows them not is refused where there must be one; for
            // others they are followed here. Reports of a call that becomes a task come to nobody, so
            // that who wants them waits.
            let cx = &self.call.cx;
            let unknown = match cx.era {
                // What is asked about a task.
                None => !progress.wants_progress(),
                Some(Era::Session) => self.follows && !progress.wants_progress(),
                Some(Era::Stateless) => false,
            };
            // A caller of the stateless era declares for itself whether it knows tasks.
            let followed = self.call.as_task && cx.era != Some(Era::Stateless);
            let tasks = followed || cx.long || unknown;
            stateless(&mut members, self.revision, self.info, *features, tasks);
            if let Some(level) = self.call.cx.log_level {
                members.push_byte(b',');
                members.push(PREFIX);
                members.push(b"logLevel\":\"");
                members.push(level_name(level).as_bytes());
                members.push_byte(b'"');
            }
        }
        if progress.wants_progress() {
            separate(&mut members, &mut empty);
            members.push(b"\"progressToken\":");
            members.push(self.id.as_bytes());
        }
        if let Some(caller) = self.caller {
            separate(&mut members, &mut empty);
            write::string(&mut members, translation::CALLER);
            members.push_byte(b':');
            members.push(capabilities(caller, self.revision, false).as_bytes());
        }
        if let Some(trace) = trace {
            separate(&mut members, &mut empty);
            members.push(b"\"traceparent\":");
            write::string(&mut members, trace);
        }
        if !theirs.is_empty() {
            separate(&mut members, &mut empty);
            members.push(theirs.as_bytes());
        }
        if !empty {
            separate(rope, first);
            rope.push(b"\"_meta\":{");
            rope.append(members);
            rope.push_byte(b'}');
        }
    }

    /// Appends the answers of the user. The server of a session has asked nothing that they answer: what it asks
    /// in a request is answered by a response. Neither has it asked for roots that were wanted here.
    fn answers(&self, rope: &mut Rope, first: &mut bool) {
        let answers = self.call.cx.answers.as_ref();
        let Some(Answers { responses, state }) =
            answers.filter(|_| self.revision.self_describing_results())
        else {
            return;
        };
        if state.as_deref().map(State::parse) == Some(State::Roots) {
            return;
        }
        separate(rope, first);
        rope.push(b"\"inputResponses\":");
        write::raw(rope, responses);
        if let Some(state) = self.state {
            rope.push(b",\"requestState\":");
            write::string(rope, state);
        }
    }
}

/// The capabilities of whoever calls, as `capabilities` of `initialize` and of `_meta` have them;
/// `tasks` when the call may become one.
pub(super) fn capabilities(features: ClientFeatures, revision: Revision, tasks: bool) -> String {
    let mut members: Vec<&str> = Vec::new();
    match (features.elicitation, features.elicitation_url) {
        (false, false) => {}
        // Before there were two, the one mode had no name.
        (true, _) if !revision.elicitation_url() => members.push("\"elicitation\":{}"),
        (true, false) => members.push("\"elicitation\":{\"form\":{}}"),
        (false, true) if revision.elicitation_url() => {
            members.push("\"elicitation\":{\"url\":{}}");
        }
        (false, true) => {}
        (true, true) => members.push("\"elicitation\":{\"form\":{},\"url\":{}}"),
    }
    if features.sampling {
        let tools = features.sampling_tools && revision.sampling_tools();
        members.push(match tools {
            true => "\"sampling\":{\"tools\":{}}",
            false => "\"sampling\":{}",
        });
    }
    if features.roots {
        // Changes of roots are notified in sessions only.
        members.push(match revision.self_describing_results() {
            true => "\"roots\":{}",
            false => "\"roots\":{\"listChanged\":true}",
        });
    }
    if tasks && revision.self_describing_results() {
        members.push("\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}");
    }
    format!("{{{}}}", members.join(","))
}

/// Appends the members of `_meta` that make a request stateless.
pub(super) fn stateless(
    rope: &mut Rope,
    revision: Revision,
    info: &ClientInfo,
    features: ClientFeatures,
    tasks: bool,
) {
    rope.push(PREFIX);
    rope.push(b"protocolVersion\":\"");
    rope.push(revision.as_str().as_bytes());
    rope.push(b"\",");
    rope.push(PREFIX);
    rope.push(b"clientInfo\":");
    client_info(rope, info);
    rope.push_byte(b',');
    rope.push(PREFIX);
    rope.push(b"clientCapabilities\":");
    rope.push(capabilities(features, revision, tasks).as_bytes());
}

/// Appends `clientInfo`.
pub(super) fn client_info(rope: &mut Rope, info: &ClientInfo) {
    rope.push(b"{\"name\":");
    write::string(rope, &info.name);
    rope.push(b",\"version\":");
    write::string(rope, &info.version);
    rope.push_byte(b'}');
}

/// JSON text that was written here.
pub(super) fn raw(rope: Rope) -> Option<RawJson> {
    let text = rope.into_vec();
    let value: &RawValue = serde_json::from_slice(&text).ok()?;
    Some(RawJson::from_raw(value))
}

struct Parts {
    meta: String,
    rest: String,
}

/// Takes `_meta` out of the members of an object that has one; its members, without those that are
/// about the caller's own connection.
fn foreign_meta(inner: &str) -> Option<Parts> {
    memchr::memmem::find(inner.as_bytes(), b"\"_meta\"")?;
    let object = format!("{{{inner}}}");
    let members: Members<'_> = serde_json::from_str(&object).ok()?;
    let meta = members.0.iter().find(|(key, _)| key == "_meta")?.1;
    let meta: Members<'_> = serde_json::from_str(meta.get()).ok()?;
    let ours = |key: &str| {
        key == "progressToken"
            || key == "traceparent"
            || key == translation::CALLER
            || key.starts_with("io.modelcontextprotocol/")
    };
    let join = |members: &[(String, &RawValue)], skip: &dyn Fn(&str) -> bool| {
        let mut rope = Rope::new();
        let mut first = true;
        for (key, value) in members.iter().filter(|(key, _)| !skip(key)) {
            separate(&mut rope, &mut first);
            write::string(&mut rope, key);
            rope.push_byte(b':');
            rope.push(value.get().as_bytes());
        }
        String::from_utf8(rope.into_vec()).unwrap_or_default()
    };
    Some(Parts {
        meta: join(&meta.0, &ours),
        rest: join(&members.0, &|key| key == "_meta"),
    })
}

/// The members of an object, in order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Visitor).map(Members)
    }
}

fn separate(rope: &mut Rope, first: &mut bool) {
    if !std::mem::replace(first, false) {
        rope.push_byte(b',');
    }
}

#[cfg(test)]
mod tests {
    use orchestra_hub::ProgressSink;

    use super::*;

    fn call(params: Option<&str>) -> ServerCall {
        let params = params.map(|text| RawJson::from_raw(serde_json::from_str(text).unwrap()));
        ServerCall::new("x", params, Cx::default())
    }

    fn written(call: &ServerCall, revision: Revision) -> Option<String> {
        let info = ClientInfo {
            name: "o".to_owned(),
            version: "1".to_owned(),
        };
        let envelope = Envelope {
            revision,
            info: &info,
            call,
            id: &RequestId::from_number(7),
            caller: None,
            state: Some("s"),
            follows: true,
        };
        envelope.params().map(|params| params.as_str().to_owned())
    }

    #[test]
    fn a_session_adds_nothing_that_is_not_needed() {
        let session = Revision::V2025_06_18;
        assert_eq!(written(&call(None), session), None);
        let plain = r#"{"name":"a", "arguments":{}}"#;
        assert_eq!(written(&call(Some(plain)), session).as_deref(), Some(plain));
        let array = call(Some("[1]"));
        assert_eq!(written(&array, session).as_deref(), Some("[1]"));
    }

    #[test]
    fn a_stateless_request_says_who_asks() {
        let text = written(&call(Some(r#"{"uri":"a:b"}"#)), Revision::V2026_07_28).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["uri"], "a:b");
        let meta = &value["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "o");
    }

    #[test]
    fn what_the_caller_says_in_meta_is_kept_but_what_is_of_its_connection() {
        let params = r#"{"_meta":{"a/b":[1],"progressToken":3,"io.modelcontextprotocol/protocolVersion":"x"},"k":{"_meta":1}}"#;
        let text = written(&call(Some(params)), Revision::V2025_11_25).unwrap();
        assert_eq!(text, r#"{"_meta":{"a/b":[1]},"k":{"_meta":1}}"#);
    }

    #[test]
    fn answers_go_with_the_state_of_the_server() {
        let mut call = call(Some(r#"{"name":"t"}"#));
        call.cx.answers = Some(Answers {
            responses: RawJson::from_raw(serde_json::from_str(r#"{"q":{"a":1}}"#).unwrap()),
            state: None,
        });
        call.cx.progress = ProgressSink::default();
        let text = written(&call, Revision::V2026_07_28).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["inputResponses"]["q"]["a"], 1);
        assert_eq!(value["requestState"], "s");
        assert_eq!(value["name"], "t");
        let session = written(&call, Revision::V2025_11_25);
        assert_eq!(session.as_deref(), Some(r#"{"name":"t"}"#));
    }

    #[test]
    fn capabilities_are_those_that_a_revision_knows() {
        let all = ClientFeatures {
            elicitation: true,
            elicitation_url: true,
            sampling: true,
            sampling_tools: true,
            roots: true,
        };
        assert_eq!(
            capabilities(all, Revision::V2025_06_18, true),
            r#"{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}"#
        );
        assert_eq!(
            capabilities(all, Revision::V2025_11_25, true),
            r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}"#
        );
        assert_eq!(
            capabilities(ClientFeatures::default(), Revision::V2026_07_28, true),
            r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#
        );
    }
}
