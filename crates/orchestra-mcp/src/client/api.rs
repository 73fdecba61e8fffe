//! What is asked of a client and what it tells.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use orchestra_hub::{Cx, InputRequired, ListKind, LogLevel};
use orchestra_wire::{RawJson, Revision};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{ClientError, TransportType};
use crate::{
    told::{offered, offers},
    translation,
};

/// A request for a server.
#[derive(Debug, Clone)]
pub struct ServerCall {
    /// Method.
    pub method: Cow<'static, str>,
    /// Parameters: an object. What the protocol wants in `_meta` is added to it.
    pub params: Option<RawJson>,
    /// The tool, prompt or URI that is meant.
    pub name: Option<String>,
    /// More headers, where there are any.
    pub headers: Vec<(String, String)>,
    /// The circumstances.
    pub cx: Cx,
    /// Whether it may run twice.
    pub safe: bool,
    /// Whether a server of revision 2025-11-25 wants it as a task (`execution.taskSupport`).
    pub as_task: bool,
    /// Whether it may last, by the definition of its tool.
    pub lasts: bool,
    /// How long it may be silent, when it is not as for all calls of its server.
    pub timeout: Option<Duration>,
    /// Decides whether the tool is called as the connection of the call lists it.
    pub check: Option<ToolCheck>,
}

/// Decides by the definition of a tool whether it is called.
#[derive(Clone)]
pub struct ToolCheck(Arc<dyn Fn(&RawJson) -> bool + Send + Sync>);

impl ToolCheck {
    /// `allows` returns whether a tool with this definition is called.
    pub fn new(allows: impl Fn(&RawJson) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(allows))
    }

    pub(super) fn allows(&self, definition: &RawJson) -> bool {
        (self.0)(definition)
    }
}

impl fmt::Debug for ToolCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolCheck")
    }
}

/// What a call brought.
#[derive(Debug, Clone)]
pub enum Reply {
    /// `result`, verbatim.
    Result(RawJson),
    /// The server asks something; the call is to be made again with the answers and the state.
    InputRequired(InputRequired),
}

/// Something a server told by itself.
#[derive(Debug, Clone)]
pub enum ClientEvent {
    /// It was started or reached, for the first time or again: anything may differ.
    Started,
    /// A list differs. One such event per list waits to be taken.
    ListChanged(ListKind),
    /// A resource that is watched differs.
    ResourceUpdated(String),
    /// It logs.
    Log {
        /// Severity.
        level: LogLevel,
        /// Which part of it logs.
        logger: Option<String>,
        /// Any JSON.
        data: RawJson,
    },
    /// A notification that is not known here.
    Other {
        /// Its method.
        method: String,
        /// Its parameters, verbatim.
        params: Option<RawJson>,
        /// The client whose call it belongs to: that of the call that the notification names by its stream or its task,
        /// else the only client with calls on the connection that are open or were given up a short time ago.
        client: Option<u64>,
    },
}

/// How a server is.
#[derive(Debug, Clone)]
pub enum ClientStatus {
    /// Not started: nobody has needed it yet, or it was stopped because nobody did.
    Idle,
    /// It is being started or greeted.
    Starting,
    /// It answers.
    Ready,
    /// It ended, and is started again at that time.
    Restarting {
        /// How often that was tried.
        attempt: u32,
        /// When it is tried next.
        next_at: Instant,
        /// Why it ended.
        reason: Arc<ClientError>,
    },
    /// It answers, but many calls fail.
    Degraded(String),
    /// It failed too often, and is tried again later.
    Offline {
        /// When it is tried next.
        next_at: Instant,
        /// Why it failed the last time.
        reason: Arc<ClientError>,
    },
    /// It lets nobody in without a sign-in.
    NeedsAuth(String),
    /// Its configuration cannot be used.
    Invalid(String),
    /// It was closed.
    Closed,
}

/// What a server has said of itself.
#[derive(Debug, Clone)]
pub struct ServerFacts {
    /// The revision that both speak.
    pub revision: Revision,
    /// `capabilities`, verbatim.
    pub capabilities: RawJson,
    /// `serverInfo`, verbatim; `None` where it has not said.
    pub info: Option<RawJson>,
    /// Guidance for the model.
    pub instructions: Option<String>,
    /// What follows from the capabilities.
    pub can: ServerCan,
}

/// What a server can do, by its capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a capability of its own"
)]
pub struct ServerCan {
    /// Tools, and it tells when they change.
    pub tools: Option<Lists>,
    /// Prompts.
    pub prompts: Option<Lists>,
    /// Resources.
    pub resources: Option<Lists>,
    /// Resources can be watched.
    pub subscribe: bool,
    /// It completes arguments.
    pub completions: bool,
    /// It logs to its client.
    pub logging: bool,
    /// Calls of it may become tasks: by the extension `io.modelcontextprotocol/tasks`, or as the
    /// experimental ones of 2025-11-25.
    pub tasks: bool,
    /// It serves skills, and their directories (extension `io.modelcontextprotocol/skills`).
    pub skills: bool,
    /// It is another Orchestra: it says of its questions which call they belong to, and takes word of
    /// what the caller of each request can be asked for.
    pub translation: bool,
}

/// Whether a server tells when a list changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lists {
    /// It does.
    pub list_changed: bool,
}

/// Diagnostics of a connection (seed 002, `TransportMetadata`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportMetadata {
    /// `Type`: `stdio` or `http`, which is all that the seed knows, or `quic`.
    pub transport: TransportType,
    /// `ProtocolVersion`: the revision agreed upon, a date; empty before the first handshake.
    pub protocol_version: &'static str,
    /// `Latency`: the mean of the last 100 calls; zero before the first.
    pub latency: Duration,
    /// `IsConnected`: a process or peer that was greeted and lives, or an endpoint whose last exchange
    /// succeeded within the health interval.
    pub is_connected: bool,
}

impl TransportType {
    /// `stdio`, `http` or `quic`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Quic => "quic",
        }
    }
}

impl ServerCall {
    /// A call that nothing special is known of.
    #[must_use]
    pub fn new(method: impl Into<Cow<'static, str>>, params: Option<RawJson>, cx: Cx) -> Self {
        Self {
            method: method.into(),
            params,
            name: None,
            headers: Vec::new(),
            cx,
            safe: false,
            as_task: false,
            lasts: false,
            timeout: None,
            check: None,
        }
    }
}

impl ServerCan {
    /// Reads `capabilities`. A capability of another form than an object is offered unless it is
    /// null or false.
    pub(crate) fn of(capabilities: &RawJson) -> Self {
        let flag = |capability: &RawJson, name: &str| {
            let flag = capability.member(name);
            flag.is_some_and(|flag| matches!(flag.as_str(), "true" | "\"true\"" | "1"))
        };
        let lists = |name: &str| {
            let capability = offered(capabilities, name)?;
            Some(Lists {
                list_changed: flag(&capability, "listChanged"),
            })
        };
        let extensions = offered(capabilities, "extensions");
        let extension = |name: &str| extensions.as_ref().and_then(|all| offered(all, name));
        let skills = extension("io.modelcontextprotocol/skills");
        let experimental = capabilities.member("experimental");
        let experimental = experimental
            .as_ref()
            .and_then(|experimental| experimental.parse::<&RawValue>().ok());
        Self {
            tools: lists("tools"),
            prompts: lists("prompts"),
            subscribe: offered(capabilities, "resources")
                .is_some_and(|resources| flag(&resources, "subscribe")),
            resources: lists("resources"),
            completions: offers(capabilities, "completions"),
            logging: offers(capabilities, "logging"),
            tasks: extension("io.modelcontextprotocol/tasks").is_some()
                || offers(capabilities, "tasks"),
            skills: skills.is_some_and(|skills| flag(&skills, "directoryRead")),
            translation: experimental.is_some_and(translation::is_among),
        }
    }

    /// Whether a list can be asked for, and its changes are told.
    pub(crate) const fn list(&self, kind: ListKind) -> Option<Lists> {
        match kind {
            ListKind::Tools => self.tools,
            ListKind::Prompts => self.prompts,
            ListKind::Resources | ListKind::Templates => self.resources,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn can(text: &str) -> ServerCan {
        ServerCan::of(&RawJson::checked(text.to_owned().into()).unwrap())
    }

    #[test]
    fn one_capability_of_another_form_leaves_the_rest_readable() {
        for odd in [
            "[]",
            "true",
            "{\"listChanged\":\"yes\"}",
            "{\"listChanged\":null}",
        ] {
            let can = can(&format!(
                "{{\"tools\":{odd},\"prompts\":{{\"listChanged\":true}}}}"
            ));
            assert_eq!(
                can.tools,
                Some(Lists {
                    list_changed: false
                }),
                "{odd}"
            );
            assert_eq!(can.prompts, Some(Lists { list_changed: true }), "{odd}");
        }
        for odd in ["null", "false"] {
            assert_eq!(can(&format!("{{\"tools\":{odd}}}")).tools, None, "{odd}");
        }
        for odd in ["[]", "null", "true", "{}"] {
            assert_eq!(can(odd), ServerCan::default(), "{odd}");
            let with = format!("{{\"extensions\":{odd},\"experimental\":{odd},\"logging\":{{}}}}");
            assert!(can(&with).logging, "{odd}");
        }
    }
}
