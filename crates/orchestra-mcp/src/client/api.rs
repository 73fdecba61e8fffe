//! What is asked of a client and what it tells.

use std::{borrow::Cow, sync::Arc, time::Duration};

use orchestra_hub::{Cx, InputRequired, ListKind, LogLevel};
use orchestra_wire::{RawJson, Revision};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{ClientError, TransportType};
use crate::translation;

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
    /// How long it may be silent, when it is not as for all calls of its server.
    pub timeout: Option<Duration>,
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
    /// A list differs. It is told once until the list is fetched.
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
    /// Calls of it may become tasks (extension `io.modelcontextprotocol/tasks`).
    pub tasks: bool,
    /// It serves skills, and their directories (extension `io.modelcontextprotocol/skills`).
    pub skills: bool,
    /// It is another Orchestra: it says of its questions which call they belong to, and takes word of
    /// what the caller of each request can be asked for.
    pub translation: bool,
}

/// Whether a server tells when a list changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
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
            timeout: None,
        }
    }
}

impl ServerCan {
    /// Reads `capabilities`. What has an unknown form is as if it were not there.
    pub(crate) fn of(capabilities: &RawJson) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Raw<'a> {
            tools: Option<Lists>,
            prompts: Option<Lists>,
            resources: Option<Resources>,
            completions: Option<serde::de::IgnoredAny>,
            logging: Option<serde::de::IgnoredAny>,
            extensions: Extensions,
            #[serde(borrow)]
            experimental: Option<&'a RawValue>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Resources {
            list_changed: bool,
            subscribe: bool,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Extensions {
            #[serde(rename = "io.modelcontextprotocol/tasks")]
            tasks: Option<serde::de::IgnoredAny>,
            #[serde(rename = "io.modelcontextprotocol/skills")]
            skills: Skills,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Skills {
            directory_read: bool,
        }
        let raw: Raw<'_> = capabilities.parse().unwrap_or_default();
        let resources = raw.resources;
        Self {
            tools: raw.tools,
            prompts: raw.prompts,
            subscribe: resources.as_ref().is_some_and(|of| of.subscribe),
            resources: resources.map(|of| Lists {
                list_changed: of.list_changed,
            }),
            completions: raw.completions.is_some(),
            logging: raw.logging.is_some(),
            tasks: raw.extensions.tasks.is_some(),
            skills: raw.extensions.skills.directory_read,
            translation: raw.experimental.is_some_and(translation::is_among),
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
