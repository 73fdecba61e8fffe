//! The answers to what is not a call of a tool or a prompt.

use std::{
    sync::{PoisonError, atomic::Ordering},
    time::Duration,
};

use super::{Fault, Phase, Server, message, work::ending};
use crate::{
    envelope::{REVISION, Request, RequestKind, Response},
    generated::{
        BootRequest, BootResult, EventDelivery, HealthResult, McpRequest, McpResponse,
        PluginManifest, RegistrationResult, ShutdownRequest, ShutdownResult, StorageDeleteRequest,
        StorageDeleteResponse, StorageListRequest, StorageListResponse, StorageReadRequest,
        StorageReadResponse, StorageWriteRequest, StorageWriteResponse, Subscribe,
    },
    kit::{
        answer,
        cx::Call,
        events::{self, Event},
        health::Health,
        manifest::{FEATURES, RESOURCES},
        storage::{AnyStorage, DEFAULT_KIND},
    },
    quic::Reply,
};

/// How long a plugin may look at itself.
const HEALTH_TIME: Duration = Duration::from_secs(2);

/// How long a shutdown may take when nobody said.
const SHUTDOWN_TIME: Duration = Duration::from_secs(10);

/// The longest that a shutdown may take, whatever is said.
const LONGEST_SHUTDOWN: i32 = 3600;

/// JSON-RPC's numbers of errors.
const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const INTERNAL_ERROR: i32 = -32603;

/// A subscription is acknowledged; events come to those who wanted them from the start.
pub(super) fn subscribe(request: &Request) -> Result<Response, Fault> {
    let subscribe: Subscribe = message(request)?;
    let delivery = EventDelivery {
        subscription_id: subscribe.subscription_id,
        topic: subscribe.topic,
        ..EventDelivery::default()
    };
    Ok(Response::new(request.request_id(), &delivery))
}

impl Server {
    pub(super) fn register(&self, request: &Request) -> Result<Response, Fault> {
        let manifest: PluginManifest = message(request)?;
        let own = self.surroundings.id.as_str();
        let accepted = manifest.id.is_empty() || manifest.id == own;
        if accepted {
            self.revision.store(manifest.revision, Ordering::Relaxed);
        }
        let mut features = FEATURES.map(str::to_owned).to_vec();
        if !self.offer.resources.is_empty() {
            features.push(RESOURCES.to_owned());
        }
        let result = RegistrationResult {
            accepted,
            reject_reason: match accepted {
                true => String::new(),
                false => format!("this plugin is {own:?}, not {:?}", manifest.id),
            },
            revision: REVISION,
            features,
        };
        Ok(Response::new(request.request_id(), &result))
    }

    pub(super) async fn boot(&self, request: &Request) -> Result<Response, Fault> {
        let boot: BootRequest = message(request)?;
        let config = &self.surroundings.config;
        *config.lock().unwrap_or_else(PoisonError::into_inner) = boot.config;
        let error = match &self.offer.boot {
            None => None,
            Some(hook) => {
                let hooked = async { hook(self.cx()).await };
                match self.run_hook("boot hook", hooked, None).await {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(error.message().to_owned()),
                    Err(error) => Some(error),
                }
            }
        };
        let result = BootResult {
            ready: error.is_none(),
            error: error.unwrap_or_default(),
        };
        Ok(Response::new(request.request_id(), &result))
    }

    pub(super) async fn shutdown(&self, request: &Request) -> Result<Response, Fault> {
        let shutdown: ShutdownRequest = message(request)?;
        let time = match shutdown.timeout_seconds.min(LONGEST_SHUTDOWN) {
            ..=0 => SHUTDOWN_TIME,
            seconds => Duration::from_secs(seconds.unsigned_abs().into()),
        };
        let clean = self.wind_down(time).await;
        let result = ShutdownResult { clean };
        Ok(Response::new(request.request_id(), &result))
    }

    pub(super) async fn health(&self, id: &str) -> Response {
        let health = match &self.offer.health {
            None => Health::healthy(),
            Some(hook) => {
                let looked = async { hook(self.cx()).await };
                self.run_hook("health check", looked, Some(HEALTH_TIME))
                    .await
                    .unwrap_or_else(Health::degraded)
            }
        };
        let free = self.in_flight.available_permits();
        let free = u32::try_from(free).unwrap_or(self.max_in_flight);
        let in_flight = match *self.phase.borrow() {
            Phase::Serving => self.max_in_flight.saturating_sub(free).to_string(),
            Phase::Draining | Phase::Stopping => "ending".to_owned(),
        };
        let mut details = health.details;
        details.insert(
            "kit".to_owned(),
            format!("rust/{}", env!("CARGO_PKG_VERSION")),
        );
        details.insert("in_flight".to_owned(), in_flight);
        let result = HealthResult {
            status: health.status.into(),
            message: health.message,
            details,
        };
        Response::new(id, &result)
    }

    pub(super) async fn storage(
        &self,
        request: &Request,
        reply: &mut Reply,
    ) -> Result<Response, Fault> {
        let id = request.request_id();
        let call = Call::default();
        match request.kind() {
            Some(RequestKind::StorageRead) => {
                let asked: StorageReadRequest = message(request)?;
                let Some(storage) = self.storage_of(&asked.storage_type) else {
                    return Ok(Response::new(id, &StorageReadResponse::default()));
                };
                let answer = self.run(call, reply, |_, _| storage.read(asked)).await?;
                Ok(Response::new(id, &answer))
            }
            Some(RequestKind::StorageWrite) => {
                let asked: StorageWriteRequest = message(request)?;
                let Some(storage) = self.storage_of(&asked.storage_type) else {
                    let answer = StorageWriteResponse {
                        error: "no storage handler registered".to_owned(),
                        ..StorageWriteResponse::default()
                    };
                    return Ok(Response::new(id, &answer));
                };
                let answer = self.run(call, reply, |_, _| storage.write(asked)).await?;
                Ok(Response::new(id, &answer))
            }
            Some(RequestKind::StorageDelete) => {
                let asked: StorageDeleteRequest = message(request)?;
                let Some(storage) = self.storage_of(&asked.storage_type) else {
                    return Ok(Response::new(id, &StorageDeleteResponse::default()));
                };
                let answer = self.run(call, reply, |_, _| storage.delete(asked)).await?;
                Ok(Response::new(id, &answer))
            }
            _ => {
                let asked: StorageListRequest = message(request)?;
                let Some(storage) = self.storage_of(&asked.storage_type) else {
                    return Ok(Response::new(id, &StorageListResponse::default()));
                };
                let answer = self.run(call, reply, |_, _| storage.list(asked)).await?;
                Ok(Response::new(id, &answer))
            }
        }
    }

    /// Takes an event; what is done with it is not waited for.
    pub(super) fn publish(&self, request: &Request) -> Result<Response, Fault> {
        let bytes = request.payload().len();
        let event = Event::of(message(request)?)
            .map_err(|error| Fault::failure("invalid_request", error.to_string()))?;
        if *self.phase.borrow() > Phase::Serving {
            return Err(ending());
        }
        let is_listened_to = self.topics.deliver(&event, bytes);
        let is_taken = self.heard.put(&event, bytes);
        match is_listened_to && is_taken {
            true => Ok(Response::empty(request.request_id())),
            false => Err(Fault::failure("busy", events::behind(&event.topic))),
        }
    }

    pub(super) async fn mcp(
        &self,
        request: &Request,
        reply: &mut Reply,
    ) -> Result<Response, Fault> {
        let asked: McpRequest = message(request)?;
        let call = Call {
            request_id: request.request_id().to_owned(),
            caller: asked.caller_plugin.clone(),
            session: asked.session_id.clone(),
            trace_parent: asked.trace_parent.clone(),
            ..Call::default()
        };
        let resources = &self.offer.resources;
        let answered = match asked.method.as_str() {
            "ping" => Ok(serde_json::json!({})),
            "resources/list" if !resources.is_empty() => {
                Ok(crate::kit::resource::listed(resources))
            }
            "resources/templates/list" if !resources.is_empty() => {
                Ok(serde_json::json!({"resourceTemplates": []}))
            }
            "resources/read" if !resources.is_empty() => {
                let read = |cx, _| crate::kit::resource::read(resources, &asked.params, cx);
                self.run(call, reply, read).await?
            }
            method => Err((METHOD_NOT_FOUND, format!("method not found: {method}"))),
        };
        let response = match answered {
            Ok(result) => McpResponse {
                result: result.to_string().into(),
                ..McpResponse::default()
            },
            Err((number, message)) => McpResponse {
                error: answer::rpc_error(number, &message),
                ..McpResponse::default()
            },
        };
        Ok(Response::new(request.request_id(), &response))
    }

    fn storage_of(&self, kind: &str) -> Option<&dyn AnyStorage> {
        let kind = match kind {
            "" => DEFAULT_KIND,
            kind => kind,
        };
        self.offer.storages.get(kind).map(|storage| &**storage)
    }
}
