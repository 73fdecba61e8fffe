//! What the client wants to hear of: `resources/subscribe` of a session, and the streams that
//! `subscriptions/listen` opens.

use std::collections::HashSet;

use orchestra_hub::{HubNotice, SubscribeError};
use orchestra_wire::{ErrorCode, Method, RequestId, Revision, Rope, RpcError, write};
use serde::{Deserialize, Deserializer, de};

use super::{
    Connection, Handled,
    calls::still_open,
    internal,
    requests::Parsed,
    targets::{invalid, text},
};
use crate::{report::log_message, results::rpc_error, tasks::TaskId};

/// Resources that one `subscriptions/listen` may name, and as many tasks.
const MAX_NAMES: usize = 1_000;

/// Resources and tasks that all open streams of a connection may name together.
const MAX_ALL: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    session: HashSet<String>,
    listens: Vec<Listen>,
}

/// A stream of notifications, named by the request that opened it.
#[derive(Debug)]
struct Listen {
    id: RequestId,
    revision: Revision,
    filter: Filter,
    tasks: Vec<TaskId>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    #[serde(deserialize_with = "flag")]
    tools_list_changed: bool,
    #[serde(deserialize_with = "flag")]
    prompts_list_changed: bool,
    #[serde(deserialize_with = "flag")]
    resources_list_changed: bool,
    #[serde(deserialize_with = "few")]
    resource_subscriptions: Vec<String>,
    #[serde(deserialize_with = "few")]
    task_ids: Vec<String>,
}

impl Connection {
    pub(super) fn subscribe(
        &mut self,
        parsed: &Parsed<'_, '_>,
        out: &mut Rope,
    ) -> Result<Handled, RpcError> {
        let uri = text(parsed.fields.uri, "uri")?;
        self.attachment
            .subscribe(&uri)
            .map_err(|error| match error {
                SubscribeError::Unknown(name) => {
                    let unknown = orchestra_hub::ProviderError::Unknown {
                        kind: "resource",
                        name,
                    };
                    rpc_error(unknown, parsed.revision)
                }
                SubscribeError::TooLong => RpcError::invalid_params(error.to_string()),
                SubscribeError::TooMany => {
                    RpcError::new(ErrorCode::INTERNAL_ERROR, error.to_string())
                }
            })?;
        self.subscriptions.session.insert(uri);
        Ok(self.empty(parsed, out))
    }

    pub(super) fn unsubscribe(
        &mut self,
        parsed: &Parsed<'_, '_>,
        out: &mut Rope,
    ) -> Result<Handled, RpcError> {
        let uri = text(parsed.fields.uri, "uri")?;
        if self.subscriptions.session.remove(&uri) {
            self.unwatch(&uri);
        }
        Ok(self.empty(parsed, out))
    }

    pub(super) fn listen(
        &mut self,
        parsed: &Parsed<'_, '_>,
        out: &mut Rope,
    ) -> Result<Handled, RpcError> {
        let filter = parsed
            .fields
            .notifications
            .filter(|filter| filter.get().starts_with('{'));
        let filter = filter
            .ok_or_else(|| RpcError::invalid_params("parameter notifications must be an object"))?;
        let mut filter: Filter =
            serde_json::from_str(filter.get()).map_err(|error| invalid("notifications", &error))?;
        if self.is_listen(parsed.id) || self.open.get(parsed.id).is_some() {
            return Err(still_open());
        }
        let listens = &self.subscriptions.listens;
        let watched =
            |listen: &Listen| listen.filter.resource_subscriptions.len() + listen.tasks.len();
        let watched = listens.iter().map(watched).sum::<usize>();
        if listens.len() >= self.server.0.limits.listens
            || watched + filter.resource_subscriptions.len() + filter.task_ids.len() > MAX_ALL
        {
            return Err(internal(
                "busy: too many streams are open, cancel one first",
            ));
        }
        let tasks = self.watchable(&std::mem::take(&mut filter.task_ids), parsed)?;
        let offers = self.attachment.offers();
        filter.prompts_list_changed &= offers.prompts;
        filter.resources_list_changed &= offers.resources;
        filter
            .resource_subscriptions
            .retain(|uri| self.attachment.subscribe(uri).is_ok());
        filter.acknowledge(parsed.id, &tasks, out);
        self.watch_tasks(&tasks);
        let (id, revision) = (parsed.id.clone(), parsed.revision);
        self.subscriptions.listens.push(Listen {
            id,
            revision,
            filter,
            tasks,
        });
        Ok(Handled::WrittenFirst)
    }

    /// Whether request `id` opened a stream that is still open.
    pub(super) fn is_listen(&self, id: &RequestId) -> bool {
        let listens = &self.subscriptions.listens;
        listens.iter().any(|listen| listen.id == *id)
    }

    /// Ends the stream that request `id` opened; false when there is none.
    pub(super) fn end_listen(&mut self, id: &RequestId) -> bool {
        let listens = &mut self.subscriptions.listens;
        let Some(at) = listens.iter().position(|listen| listen.id == *id) else {
            return false;
        };
        let listen = listens.remove(at);
        listen
            .filter
            .resource_subscriptions
            .iter()
            .for_each(|uri| self.unwatch(uri));
        self.unwatch_tasks(&listen.tasks);
        true
    }

    /// Ends all streams from our side: the end of each is announced (MCP 2026-07-28,
    /// cancellation), and then it is answered (subscriptions, graceful closure).
    pub(super) fn end_listens(&mut self, out: &mut Rope) {
        for listen in std::mem::take(&mut self.subscriptions.listens) {
            cancelled_stream(out, &listen.id);
            write::result_head(out, &listen.id);
            out.push(b"{\"resultType\":\"complete\",");
            out.push(&self.results(listen.revision).server.meta_head);
            out.push(b",");
            out.push(SUBSCRIPTION_ID);
            out.push(listen.id.as_json().as_bytes());
            out.push(b"}}}\n");
            listen
                .filter
                .resource_subscriptions
                .iter()
                .for_each(|uri| self.unwatch(uri));
            self.unwatch_tasks(&listen.tasks);
        }
    }

    /// Stops watching `uri` unless someone on this connection still wants it.
    fn unwatch(&self, uri: &str) {
        let Subscriptions { session, listens } = &self.subscriptions;
        if !session.contains(uri) && !listens.iter().any(|listen| listen.filter.watches(uri)) {
            self.attachment.unsubscribe(uri);
        }
    }

    pub(super) fn tell(&self, notice: &HubNotice, out: &mut Rope) {
        let Subscriptions { session, listens } = &self.subscriptions;
        let in_session = self.session.initialized && self.session.revision.is_some();
        match notice {
            HubNotice::CatalogChanged {
                tools,
                prompts,
                resources,
            } => {
                let changed = Filter {
                    tools_list_changed: *tools,
                    prompts_list_changed: *prompts,
                    resources_list_changed: *resources,
                    resource_subscriptions: Vec::new(),
                    task_ids: Vec::new(),
                };
                if in_session {
                    changed
                        .changes(&ALL_LISTS)
                        .for_each(|method| notification(out, method, None));
                }
                for listen in listens {
                    let wanted = changed.changes(&listen.filter);
                    wanted.for_each(|method| notification(out, method, Some(&listen.id)));
                }
            }
            HubNotice::ResourceUpdated(uri) => {
                if session.contains(&**uri) {
                    updated(out, uri, None);
                }
                for listen in listens.iter().filter(|listen| listen.filter.watches(uri)) {
                    updated(out, uri, Some(&listen.id));
                }
            }
            HubNotice::Log {
                level,
                logger,
                data,
            } => {
                if in_session && self.session.reports.wants(*level) {
                    out.append(log_message(*level, logger.as_deref(), data));
                }
            }
            // A stream of a stateless client carries what it was opened for, which cannot be this.
            HubNotice::Other { method, params } => {
                if in_session && Method::parse(method).is_none() {
                    write::notification(out, method, params.as_ref());
                    out.push_byte(b'\n');
                }
            }
            HubNotice::Lagged => {
                let all = HubNotice::CatalogChanged {
                    tools: true,
                    prompts: true,
                    resources: true,
                };
                self.tell(&all, out);
                session.iter().for_each(|uri| updated(out, uri, None));
                for listen in listens {
                    let uris = &listen.filter.resource_subscriptions;
                    uris.iter()
                        .for_each(|uri| updated(out, uri, Some(&listen.id)));
                }
            }
        }
    }
}

/// Reads at most [`MAX_NAMES`] texts.
fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Few;
    impl<'de> de::Visitor<'de> for Few {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an array of strings")
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut texts = Vec::new();
            while let Some(text) = seq.next_element()? {
                if texts.len() == MAX_NAMES {
                    let text = format!("a stream may name at most {MAX_NAMES} of a kind");
                    return Err(de::Error::custom(text));
                }
                texts.push(text);
            }
            Ok(texts)
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
    }
    deserializer.deserialize_any(Few)
}

/// A flag, which is false where it is null.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

const SUBSCRIPTION_ID: &[u8] = b"\"io.modelcontextprotocol/subscriptionId\":";

const ALL_LISTS: Filter = Filter {
    tools_list_changed: true,
    prompts_list_changed: true,
    resources_list_changed: true,
    resource_subscriptions: Vec::new(),
    task_ids: Vec::new(),
};

impl Subscriptions {
    /// The streams that are about a task.
    pub(super) fn watching(&self, task: TaskId) -> impl Iterator<Item = &RequestId> {
        let about = move |listen: &&Listen| listen.tasks.contains(&task);
        self.listens.iter().filter(about).map(|listen| &listen.id)
    }
}

impl Filter {
    fn watches(&self, uri: &str) -> bool {
        self.resource_subscriptions
            .iter()
            .any(|watched| watched == uri)
    }

    /// The notifications that both `self` and `wanted` name.
    fn changes(&self, wanted: &Self) -> impl Iterator<Item = &'static str> + use<> {
        let tools = self.tools_list_changed && wanted.tools_list_changed;
        let prompts = self.prompts_list_changed && wanted.prompts_list_changed;
        let resources = self.resources_list_changed && wanted.resources_list_changed;
        [
            tools.then_some("notifications/tools/list_changed"),
            prompts.then_some("notifications/prompts/list_changed"),
            resources.then_some("notifications/resources/list_changed"),
        ]
        .into_iter()
        .flatten()
    }

    fn acknowledge(&self, id: &RequestId, tasks: &[TaskId], out: &mut Rope) {
        write::notification_head(out, "notifications/subscriptions/acknowledged");
        out.push(b"{\"_meta\":{");
        out.push(SUBSCRIPTION_ID);
        out.push(id.as_json().as_bytes());
        out.push(b"},\"notifications\":{");
        let flags = [
            ("\"toolsListChanged\":true", self.tools_list_changed),
            ("\"promptsListChanged\":true", self.prompts_list_changed),
            ("\"resourcesListChanged\":true", self.resources_list_changed),
        ];
        let mut separator: &[u8] = b"";
        for (text, _) in flags.into_iter().filter(|(_, set)| *set) {
            out.push(separator);
            out.push(text.as_bytes());
            separator = b",";
        }
        if !self.resource_subscriptions.is_empty() {
            out.push(separator);
            out.push(b"\"resourceSubscriptions\":[");
            for (at, uri) in self.resource_subscriptions.iter().enumerate() {
                if at > 0 {
                    out.push_byte(b',');
                }
                write::string(out, uri);
            }
            out.push_byte(b']');
            separator = b",";
        }
        if !tasks.is_empty() {
            out.push(separator);
            out.push(b"\"taskIds\":[");
            for (at, id) in tasks.iter().enumerate() {
                out.push(if at == 0 { b"\"" } else { b",\"" });
                out.push(id.to_string().as_bytes());
                out.push_byte(b'"');
            }
            out.push_byte(b']');
        }
        out.push(b"}}}");
    }
}

fn updated(out: &mut Rope, uri: &str, stream: Option<&RequestId>) {
    write::notification_head(out, "notifications/resources/updated");
    out.push_byte(b'{');
    if let Some(id) = stream {
        stream_meta(out, id);
        out.push_byte(b',');
    }
    out.push(b"\"uri\":");
    write::string(out, uri);
    out.push(b"}}\n");
}

fn notification(out: &mut Rope, method: &str, stream: Option<&RequestId>) {
    match stream {
        None => {
            out.push(b"{\"jsonrpc\":\"2.0\",\"method\":");
            write::string(out, method);
            out.push(b"}\n");
        }
        Some(id) => {
            write::notification_head(out, method);
            out.push_byte(b'{');
            stream_meta(out, id);
            out.push(b"}}\n");
        }
    }
}

/// `notifications/cancelled` for a stream that we end.
fn cancelled_stream(out: &mut Rope, id: &RequestId) {
    write::notification_head(out, "notifications/cancelled");
    out.push_byte(b'{');
    stream_meta(out, id);
    out.push(b",\"requestId\":");
    out.push(id.as_json().as_bytes());
    out.push(b",\"reason\":\"the server ends the stream\"}}\n");
}

pub(super) fn stream_meta(out: &mut Rope, id: &RequestId) {
    out.push(b"\"_meta\":{");
    out.push(SUBSCRIPTION_ID);
    out.push(id.as_json().as_bytes());
    out.push_byte(b'}');
}
