//! What a client says about itself, for a session or for one request.

use std::{fmt, sync::Arc};

use orchestra_hub::{ClientFeatures, LogLevel};
use orchestra_wire::{FieldsError, MetaFields, RawJson, RequestId, Revision, RpcError, text_of};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{json, value::RawValue};

use crate::{
    http::{self, Eras},
    translation,
};

/// What the client can be asked for, as it says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientCapabilities {
    pub(crate) features: ClientFeatures,
    /// It knows tasks: a call may go on after its request was answered.
    pub(crate) tasks: bool,
    /// It is another Orchestra, which [says more](crate::translation) than its session has place for.
    pub(crate) translates: bool,
}

/// Something a server may ask of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    ElicitForm,
    ElicitUrl,
    Sampling,
    /// Sampling by a model that may call tools.
    SamplingTools,
    Roots,
}

/// The members of `_meta` that belong to any request.
#[derive(Debug, Default)]
pub(crate) struct RequestMeta<'a> {
    pub(crate) progress_token: Option<&'a RawValue>,
    pub(crate) trace: Option<String>,
    /// Whether there are members that nobody here knows.
    pub(crate) others: bool,
    /// Set for a stateless request.
    pub(crate) stateless: Option<StatelessMeta>,
    /// What the caller of a session's request can be asked for, where it says.
    pub(crate) caller: Option<ClientFeatures>,
}

/// The members of `_meta` that make a request stateless.
#[derive(Debug, Clone)]
pub(crate) struct StatelessMeta {
    pub(crate) revision: Revision,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) log_level: Option<LogLevel>,
}

/// The last `_meta` that said nothing about its own request alone. A client sends the same one
/// with nearly every request, so that it is parsed once.
#[derive(Debug, Default, Clone)]
pub(crate) struct MetaCache(Option<Arc<KnownMeta>>);

#[derive(Debug)]
struct KnownMeta {
    text: Box<str>,
    others: bool,
    stateless: Option<StatelessMeta>,
    caller: Option<ClientFeatures>,
}

/// Longest name of a client that is retained whole, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// A longer `_meta` is not kept.
const MAX_CACHED_BYTES: usize = 4 * 1024;

#[derive(Deserialize)]
struct RawClientInfo {
    name: Option<String>,
}

impl ClientCapabilities {
    /// Reads `capabilities`. A capability of another form than an object is offered unless it is
    /// null or false: languages whose empty map is an empty array send `[]`. `None` for text and
    /// numbers.
    pub(crate) fn parse(value: &RawValue) -> Option<Self> {
        let capabilities = RawJson::from_raw(value);
        if !is_capability_form(&capabilities) {
            return None;
        }
        let elicitation = offered(&capabilities, "elicitation");
        let mode = |name| {
            elicitation
                .as_ref()
                .is_some_and(|modes| offers(modes, name))
        };
        let url = mode("url");
        let sampling = offered(&capabilities, "sampling");
        let features = ClientFeatures {
            // Without any mode named, forms are meant.
            elicitation: elicitation.is_some() && (mode("form") || !url),
            elicitation_url: url,
            sampling: sampling.is_some(),
            sampling_tools: sampling.is_some_and(|modes| offers(&modes, "tools")),
            roots: offers(&capabilities, "roots"),
        };
        let extensions = capabilities.member("extensions");
        let experimental = capabilities.member("experimental");
        let experimental = experimental
            .as_ref()
            .and_then(|experimental| experimental.parse::<&RawValue>().ok());
        Some(Self {
            features,
            tasks: extensions
                .is_some_and(|extensions| offers(&extensions, "io.modelcontextprotocol/tasks")),
            translates: experimental.is_some_and(translation::is_among),
        })
    }

    /// Those that a revision has; a client may list others, but not be asked for them.
    pub(crate) fn known_to(mut self, revision: Revision) -> Self {
        self.features.elicitation &= revision.elicitation();
        self.features.elicitation_url &= revision.elicitation_url();
        self.features.sampling_tools &= revision.sampling_tools();
        self.tasks &= revision.self_describing_results();
        self
    }

    pub(crate) const fn any(self) -> bool {
        self.features.any()
    }

    /// Those of one caller of a session; another Orchestra asks on behalf of several.
    pub(crate) const fn of_caller(mut self, caller: Option<ClientFeatures>) -> Self {
        if let (Some(caller), true) = (caller, self.translates) {
            self.features = self.features.and(caller);
        }
        self
    }

    pub(crate) const fn can(self, ask: Ask) -> bool {
        ask.is_in(self.features)
    }
}

/// Returns whether a value can stand for capabilities or for one of them.
pub(crate) fn is_capability_form(value: &RawJson) -> bool {
    matches!(
        value.as_bytes().first(),
        Some(b'{' | b'[' | b'n' | b't' | b'f')
    )
}

/// A capability that is offered.
pub(crate) fn offered(capabilities: &RawJson, name: &str) -> Option<RawJson> {
    let value = capabilities.member(name)?;
    let is_offered = is_capability_form(&value) && !matches!(value.as_str(), "null" | "false");
    is_offered.then_some(value)
}

/// Returns whether a capability is offered.
pub(crate) fn offers(capabilities: &RawJson, name: &str) -> bool {
    offered(capabilities, name).is_some()
}

impl Ask {
    pub(crate) const ALL: [Self; 5] = [
        Self::ElicitForm,
        Self::ElicitUrl,
        Self::Sampling,
        Self::SamplingTools,
        Self::Roots,
    ];

    /// Whether a client offers it.
    pub(crate) const fn is_in(self, features: ClientFeatures) -> bool {
        match self {
            Self::ElicitForm => features.elicitation,
            Self::ElicitUrl => features.elicitation_url,
            Self::Sampling => features.sampling,
            Self::SamplingTools => features.sampling_tools,
            Self::Roots => features.roots,
        }
    }

    /// What a request to the client needs; `None` for a method that is not for clients.
    pub(crate) fn of(method: &str, params: Option<&RawValue>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Mode {
            mode: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tools {
            tools: Option<IgnoredAny>,
            tool_choice: Option<IgnoredAny>,
        }
        let mode = || serde_json::from_str::<Mode>(params?.get()).ok()?.mode;
        let names_tools = || {
            let tools = params.and_then(|params| serde_json::from_str::<Tools>(params.get()).ok());
            tools.is_some_and(|named| named.tools.is_some() || named.tool_choice.is_some())
        };
        match method {
            "elicitation/create" if mode().as_deref() == Some("url") => Some(Self::ElicitUrl),
            "elicitation/create" => Some(Self::ElicitForm),
            "sampling/createMessage" if names_tools() => Some(Self::SamplingTools),
            "sampling/createMessage" => Some(Self::Sampling),
            "roots/list" => Some(Self::Roots),
            _ => None,
        }
    }

    /// The client capabilities object that says it can.
    pub(crate) fn required(asks: &[Self]) -> RawJson {
        let mut all = serde_json::Map::new();
        for ask in asks {
            let (key, inner) = match ask {
                Self::ElicitForm => ("elicitation", Some("form")),
                Self::ElicitUrl => ("elicitation", Some("url")),
                Self::Sampling => ("sampling", None),
                Self::SamplingTools => ("sampling", Some("tools")),
                Self::Roots => ("roots", None),
            };
            let entry = all.entry(key).or_insert_with(|| json!({}));
            if let (Some(inner), Some(entry)) = (inner, entry.as_object_mut()) {
                entry.insert(inner.to_owned(), json!({}));
            }
        }
        RawJson::of(&all).expect("a JSON object has a JSON form")
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ElicitForm => "elicitation",
            Self::ElicitUrl => "elicitation by url",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling with tools",
            Self::Roots => "roots",
        })
    }
}

impl MetaCache {
    /// Whether both know the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        }
    }

    /// Parses `_meta`. A request is stateless exactly when it names its revision there.
    pub(crate) fn parse<'a>(
        &mut self,
        value: Option<&'a RawValue>,
    ) -> Result<RequestMeta<'a>, RpcError> {
        let Some(value) = value else {
            return Ok(RequestMeta::default());
        };
        if let Some(known) = &self.0
            && *known.text == *value.get()
        {
            let stateless = known.stateless.clone();
            return Ok(RequestMeta {
                stateless,
                others: known.others,
                caller: known.caller,
                ..RequestMeta::default()
            });
        }
        let meta = RequestMeta::parse(value)?;
        let of_this_request_alone = meta.progress_token.is_some() || meta.trace.is_some();
        if !of_this_request_alone && value.get().len() <= MAX_CACHED_BYTES {
            self.0 = Some(Arc::new(KnownMeta {
                text: value.get().into(),
                others: meta.others,
                stateless: meta.stateless.clone(),
                caller: meta.caller,
            }));
        }
        Ok(meta)
    }
}

impl<'a> RequestMeta<'a> {
    fn parse(value: &'a RawValue) -> Result<Self, RpcError> {
        let mut fields = MetaFields::find(Some(value), "_meta").map_err(invalid_fields)?;
        // Many languages write null for what is absent.
        for field in [
            &mut fields.progress_token,
            &mut fields.protocol_version,
            &mut fields.log_level,
        ] {
            *field = field.filter(|value| value.get() != "null");
        }
        if let Some(token) = fields.progress_token {
            RequestId::from_raw(token).map_err(|_| {
                RpcError::invalid_params("progressToken must be a string or an integer")
            })?;
        }
        let stateless = fields
            .protocol_version
            .map(|version| stateless(&fields, version))
            .transpose()?;
        Ok(Self {
            progress_token: fields.progress_token,
            trace: fields.traceparent.and_then(text_of).map(Into::into),
            others: fields.has_others(),
            stateless,
            caller: fields
                .caller_capabilities
                .and_then(ClientCapabilities::parse)
                .map(|capabilities| capabilities.features),
        })
    }
}

fn stateless(fields: &MetaFields<'_>, version: &RawValue) -> Result<StatelessMeta, RpcError> {
    let version = text_of(version).ok_or_else(|| {
        RpcError::invalid_params("io.modelcontextprotocol/protocolVersion must be a string")
    })?;
    let revision = Revision::parse(&version)
        .filter(|revision| revision.self_describing_results())
        .ok_or_else(|| http::unsupported(&version, Eras::Both))?;
    let capabilities = fields.client_capabilities.ok_or_else(|| {
        RpcError::invalid_params("_meta lacks io.modelcontextprotocol/clientCapabilities")
    })?;
    let capabilities = ClientCapabilities::parse(capabilities).ok_or_else(|| {
        RpcError::invalid_params("io.modelcontextprotocol/clientCapabilities must be an object")
    })?;
    let log_level = fields.log_level.map(level).transpose()?;
    let client = fields.client_info.and_then(client_name);
    Ok(StatelessMeta {
        revision,
        capabilities,
        client,
        log_level,
    })
}

/// The beginning of the name of a client, which is retained for its session and its calls.
pub(crate) fn client_name(value: &RawValue) -> Option<Arc<str>> {
    let info = serde_json::from_str::<RawClientInfo>(value.get()).ok()?;
    let name = info.name?;
    Some(name[..name.floor_char_boundary(MAX_NAME_BYTES)].into())
}

pub(crate) fn invalid_fields(error: FieldsError) -> RpcError {
    RpcError::invalid_params(format!("invalid params: {error}"))
}

/// Parses a log level.
pub(crate) fn level(value: &RawValue) -> Result<LogLevel, RpcError> {
    let name = text_of(value);
    let known = LEVELS
        .iter()
        .find(|(text, _)| name.as_deref() == Some(text));
    known.map(|(_, level)| *level).ok_or_else(|| {
        let names: Vec<&str> = LEVELS.iter().map(|(text, _)| *text).collect();
        RpcError::invalid_params(format!(
            "invalid log level: use one of {}",
            names.join(", ")
        ))
    })
}

/// The level that a server means: other names of the same levels, in any case. An unknown one is
/// `info`.
pub(crate) fn level_of(name: &str) -> LogLevel {
    let name = name.to_ascii_lowercase();
    let name = match name.as_str() {
        "warn" => "warning",
        "err" => "error",
        "fatal" | "crit" => "critical",
        "trace" | "verbose" => "debug",
        "emerg" | "panic" => "emergency",
        name => name,
    };
    let known = LEVELS.iter().find(|(text, _)| *text == name);
    known.map_or(LogLevel::Info, |(_, level)| *level)
}

pub(crate) fn level_name(level: LogLevel) -> &'static str {
    LEVELS
        .iter()
        .find(|(_, other)| *other == level)
        .map_or("info", |(text, _)| text)
}

const LEVELS: [(&str, LogLevel); 8] = [
    ("debug", LogLevel::Debug),
    ("info", LogLevel::Info),
    ("notice", LogLevel::Notice),
    ("warning", LogLevel::Warning),
    ("error", LogLevel::Error),
    ("critical", LogLevel::Critical),
    ("alert", LogLevel::Alert),
    ("emergency", LogLevel::Emergency),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn long_name_of_a_client_is_cut() {
        for (name, bytes) in [("é".repeat(100), 200), ("é".repeat(100_000), 256)] {
            let name = client_name(raw(&format!(r#"{{"name":"{name}"}}"#)));
            assert_eq!(name.unwrap().len(), bytes);
        }
    }

    #[test]
    fn elicitation_without_a_mode_means_forms() {
        let caps = |text| ClientCapabilities::parse(raw(text)).unwrap();
        assert!(caps(r#"{"elicitation":{}}"#).can(Ask::ElicitForm));
        assert!(!caps(r#"{"elicitation":{}}"#).can(Ask::ElicitUrl));
        assert!(!caps(r#"{"elicitation":{"url":{}}}"#).can(Ask::ElicitForm));
        assert!(caps(r#"{"elicitation":{"url":{},"form":{}}}"#).can(Ask::ElicitForm));
        assert!(!caps("{}").any());
    }

    /// PHP writes an empty object as an empty array.
    #[test]
    fn a_capability_of_another_form_is_offered_unless_it_is_null_or_false() {
        let caps = |text: &str| ClientCapabilities::parse(raw(text)).unwrap();
        for text in [
            "[]",
            "null",
            "true",
            r#"{"experimental":[]}"#,
            r#"{"extensions":null}"#,
        ] {
            assert!(!caps(text).any(), "{text}");
        }
        for name in ["elicitation", "sampling", "roots"] {
            for (value, expected) in [
                ("[]", true),
                ("true", true),
                ("null", false),
                ("false", false),
            ] {
                let text = format!("{{\"{name}\":{value}}}");
                assert_eq!(caps(&text).any(), expected, "{text}");
            }
        }
        assert!(caps(r#"{"elicitation":[]}"#).can(Ask::ElicitForm));
        assert!(caps(r#"{"sampling":{"tools":[]}}"#).can(Ask::SamplingTools));
        for text in ["1", "\"x\""] {
            assert!(ClientCapabilities::parse(raw(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn tools_of_a_sampling_request_are_asked_of_those_who_know_them() {
        let caps = |text| ClientCapabilities::parse(raw(text)).unwrap();
        let plain = caps(r#"{"sampling":{}}"#);
        let with_tools = caps(r#"{"sampling":{"tools":{}}}"#);
        let ask = |params| Ask::of("sampling/createMessage", Some(raw(params))).unwrap();
        for params in [r#"{"tools":[]}"#, r#"{"toolChoice":{"mode":"none"}}"#] {
            assert!(
                !plain.can(ask(params)) && with_tools.can(ask(params)),
                "{params}"
            );
        }
        assert!(plain.can(ask(r#"{"messages":[]}"#)));
        assert!(
            !with_tools
                .known_to(Revision::V2025_06_18)
                .can(Ask::SamplingTools)
        );
        assert_eq!(
            Ask::required(&[Ask::SamplingTools]).as_str(),
            r#"{"sampling":{"tools":{}}}"#
        );
    }

    #[test]
    fn tasks_are_known_to_those_who_say_so() {
        let caps = |text| ClientCapabilities::parse(raw(text)).unwrap().tasks;
        assert!(caps(
            r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#
        ));
        assert!(!caps(r#"{"extensions":{"other":{}}}"#));
        assert!(!caps(r#"{"tasks":{}}"#));
        let said = ClientCapabilities {
            tasks: true,
            ..ClientCapabilities::default()
        };
        assert!(!said.known_to(Revision::V2025_11_25).tasks);
    }

    #[test]
    fn required_capabilities_are_one_object() {
        let asks = [Ask::ElicitForm, Ask::Sampling, Ask::ElicitUrl];
        assert_eq!(
            Ask::required(&asks).as_str(),
            r#"{"elicitation":{"form":{},"url":{}},"sampling":{}}"#
        );
    }

    #[test]
    fn a_stateless_request_names_a_known_revision_and_its_capabilities() {
        let parse = |text| RequestMeta::parse(raw(text));
        assert!(parse(r#"{"progressToken":1}"#).unwrap().stateless.is_none());
        let null = parse(
            r#"{"progressToken":null,"io.modelcontextprotocol/protocolVersion":null,"io.modelcontextprotocol/logLevel":null}"#,
        )
        .unwrap();
        assert!(null.progress_token.is_none() && null.stateless.is_none());
        let null = parse(
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":null}"#,
        );
        assert_eq!(null.unwrap().stateless.unwrap().log_level, None);
        let code = |text| parse(text).unwrap_err().code.0;
        assert_eq!(
            code(r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#),
            -32602
        );
        assert_eq!(
            code(r#"{"io.modelcontextprotocol/protocolVersion":1}"#),
            -32602
        );
        assert_eq!(
            code(r#"{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}"#),
            -32022
        );
        let error = parse(r#"{"io.modelcontextprotocol/protocolVersion":"x"}"#).unwrap_err();
        let data: serde_json::Value = error.data.unwrap().parse().unwrap();
        let supported = [
            "2026-07-28",
            "2025-11-25",
            "2025-06-18",
            "2025-03-26",
            "2024-11-05",
        ];
        assert_eq!(
            data,
            serde_json::json!({"requested": "x", "supported": supported})
        );
        let error = parse(r#"{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}"#);
        let data: serde_json::Value = error.unwrap_err().data.unwrap().parse().unwrap();
        let without = ["2026-07-28", "2025-06-18", "2025-03-26", "2024-11-05"];
        assert_eq!(data["supported"], serde_json::json!(without));
        assert_eq!(code("1"), -32602);
    }
}
