//! What each kind of request does.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard},
};

use bytes::Bytes;
use orchestra_hub::{Along, Carried, SessionName};
use orchestra_plugin::{
    envelope::{Request, RequestKind, Response},
    generated::{
        EventDelivery, HealthRequest, HealthResult, PluginManifest, Publish, RegistrationResult,
        Subscribe, Unsubscribe, health_result::Status,
    },
    ids::PluginId,
    quic::{Peer, Reply},
};
use orchestra_wire::Revision;

use crate::{carried, translate::REVISION};

use super::{
    Connected, Inner, Registered, State,
    failure::Failure,
    permission::{Need, Permissions},
    who::Who,
};

/// One request of somebody who may make it.
pub(super) struct Turn<'a> {
    pub(super) face: &'a Inner,
    pub(super) connected: &'a Connected,
    pub(super) permissions: Arc<Permissions>,
    pub(super) peer: &'a Peer,
    pub(super) request: &'a Request,
    /// What nobody here knows of it, for whoever answers it.
    pub(super) carried: Option<Arc<Carried>>,
}

impl Inner {
    /// Answers what takes no time and needs nothing: who somebody is, and how we are. It is answered
    /// also to a peer that has too many calls, which may be those of a process that was killed.
    pub(super) fn answer_at_once(
        &self,
        peer: &Peer,
        request: &Request,
    ) -> Option<Result<Response, Failure>> {
        let connected = self.connected(peer)?;
        match request.kind()? {
            RequestKind::Register => Some(self.register(&connected, request)),
            RequestKind::Health => Some(self.health(request)),
            _ => None,
        }
    }

    /// Answers one request. What comes before the answer is written on the way.
    pub(super) async fn answer(
        &self,
        peer: &Peer,
        request: &Request,
        reply: &mut Reply,
    ) -> Result<Response, Failure> {
        let Some(connected) = self.connected(peer) else {
            Who::of(peer.name())?;
            return Err(Failure::new("unknown_peer", "the connection has ended"));
        };
        if let Some(answer) = self.answer_at_once(peer, request) {
            return answer;
        }
        let id = request.request_id();
        let kind = request.kind().ok_or_else(Failure::unknown_request)?;
        let changes = [
            RequestKind::ToolCall,
            RequestKind::StreamStart,
            RequestKind::Mcp,
        ];
        if changes.contains(&kind) {
            connected.replies.ready()?;
        }
        let carried = carried::of_request(request).map_err(|error| Failure::invalid(&error));
        let turn = Turn {
            face: self,
            permissions: self.permissions(&connected.who)?,
            connected: &connected,
            peer,
            request,
            carried: carried.map(|carried| carried.map(Arc::new))?,
        };
        let answer = match kind {
            RequestKind::ToolCall => turn.tool_call(reply).await,
            RequestKind::ListTools => turn.list_tools().await,
            RequestKind::ListPrompts => turn.list_prompts().await,
            RequestKind::PromptGet => turn.prompt_get(reply).await,
            RequestKind::StorageRead => turn.storage_read().await,
            RequestKind::StorageWrite => turn.storage_write().await,
            RequestKind::StorageDelete => turn.storage_delete().await,
            RequestKind::StorageList => turn.storage_list().await,
            RequestKind::StreamStart => turn.stream_start(reply).await,
            RequestKind::StreamCancel => turn.stream_cancel(),
            RequestKind::Subscribe => turn.subscribe(),
            RequestKind::Unsubscribe => turn.unsubscribe(),
            RequestKind::Publish => turn.publish(),
            RequestKind::Mcp => turn.mcp(reply).await,
            RequestKind::Register | RequestKind::Health => Ok(Response::empty(id)),
            RequestKind::Boot | RequestKind::Shutdown | RequestKind::McpMessage => {
                Err(Failure::unknown_request())
            }
        };
        Ok(carried::back(answer?, turn.carried.as_deref()))
    }

    /// What somebody may do now.
    fn permissions(&self, who: &Who) -> Result<Arc<Permissions>, Failure> {
        let Who::Plugin(id) = who else {
            return Ok(Arc::new(Permissions::all()));
        };
        let state = self.state();
        let registered = state.registered.get(id);
        registered
            .map(|registered| Arc::clone(&registered.permissions))
            .ok_or_else(|| {
                let text = format!("plugin {id} has not registered: send register first");
                Failure::new("not_registered", text)
            })
    }

    fn register(&self, connected: &Connected, request: &Request) -> Result<Response, Failure> {
        let manifest: PluginManifest = message(request)?;
        let refused = self.admit(&connected.who, &manifest).err();
        if let Some(reason) = &refused {
            tracing::warn!(plugin = %connected.who.id(), %reason, "refused the connection of a plugin");
        }
        let result = RegistrationResult {
            accepted: refused.is_none(),
            reject_reason: refused.unwrap_or_default(),
            revision: manifest.revision.min(REVISION),
            ..RegistrationResult::default()
        };
        Ok(Response::new(request.request_id(), &result))
    }

    fn admit(&self, who: &Who, manifest: &PluginManifest) -> Result<(), String> {
        if manifest.id != who.id().as_str() {
            return Err(format!(
                "the certificate is that of {:?}, and the manifest names {:?}: they must be the same",
                who.id().as_str(),
                orchestra_wire::shown(&manifest.id),
            ));
        }
        let Who::Plugin(id) = who else {
            return Ok(());
        };
        let needs = PluginManifest {
            id: manifest.id.clone(),
            version: manifest.version.clone(),
            needs_storage: manifest.needs_storage.clone(),
            needs_events: manifest.needs_events.clone(),
            needs_ai: manifest.needs_ai.clone(),
            needs_tools: manifest.needs_tools.clone(),
            ..PluginManifest::default()
        };
        let (mut state, judged) = self.judged(id, &Arc::new(needs));
        let registered = judged?;
        let topics = Arc::clone(&registered.topics);
        let before = state.registered.insert(id.clone(), registered);
        // One that registers again, since it offers something else, keeps the events that wait.
        if before.is_none_or(|before| before.topics != topics) {
            self.events.need(id, &topics);
        }
        Ok(())
    }

    /// What a plugin with these needs may do now, which holds while the state is locked: it is asked
    /// for again when there was a review meanwhile.
    fn judged(
        &self,
        id: &PluginId,
        needs: &Arc<PluginManifest>,
    ) -> (MutexGuard<'_, State>, Result<Registered, String>) {
        loop {
            let reviews = self.state().reviews;
            let judged = self.judge(id, needs);
            let state = self.state();
            if state.reviews == reviews {
                return (state, judged);
            }
        }
    }

    fn judge(&self, id: &PluginId, needs: &Arc<PluginManifest>) -> Result<Registered, String> {
        let permitted = self.host.admit(id, needs)?;
        let permissions = Arc::new(Permissions::needed(needs).and(&permitted));
        // A pattern names no topic.
        let topics = needs.needs_events.iter();
        let topics =
            topics.filter(|topic| !topic.contains('*') && permissions.events.allows(topic));
        Ok(Registered {
            topics: topics.cloned().collect(),
            permissions,
            needs: Arc::clone(needs),
        })
    }

    /// Holds a plugin that has registered to what it may do now.
    pub(super) fn review(&self, id: &PluginId) {
        let needs = {
            let mut state = self.state();
            // Also where nobody has registered: whoever does at this moment is judged anew.
            state.reviews += 1;
            match state.registered.get(id) {
                Some(registered) => Arc::clone(&registered.needs),
                None => return,
            }
        };
        let (mut state, judged) = self.judged(id, &needs);
        // Its last connection may have ended meanwhile.
        let Some(registered) = state.registered.get_mut(id) else {
            return;
        };
        match judged {
            Ok(now) => {
                self.events
                    .keep(id, |topic| now.permissions.events.allows(topic));
                if registered.topics != now.topics {
                    self.events.need(id, &now.topics);
                }
                *registered = now;
            }
            Err(reason) => {
                tracing::info!(plugin = %id, %reason, "revoked the permissions of a plugin");
                state.registered.remove(id);
                self.events.keep(id, |_| false);
            }
        }
    }

    fn health(&self, request: &Request) -> Result<Response, Failure> {
        let asked: HealthRequest = message(request)?;
        let mut details = BTreeMap::new();
        if asked.revision > 0 {
            let newest = Revision::NEWEST.as_str();
            details.insert("mcp".to_owned(), newest.to_owned());
            let instance = self.reached.instance().to_owned();
            details.insert("instance".to_owned(), instance);
            details.insert("reaches".to_owned(), self.reached.told());
            details.insert("version".to_owned(), self.server.version().to_owned());
        }
        let result = HealthResult {
            status: Status::Healthy.into(),
            message: "orchestrator ok".to_owned(),
            details,
        };
        Ok(Response::new(request.request_id(), &result))
    }
}

impl Turn<'_> {
    pub(super) fn id(&self) -> &str {
        self.request.request_id()
    }

    /// What goes along with a call of this peer: that it is theirs, and for which session. Whoever
    /// comes here may say that, since they speak for clients: bridges for their own, and plugins for
    /// those whose calls they answer. For nobody's, it is of the connection.
    pub(super) fn along(&self, session: Option<SessionName>) -> Along {
        let own = || self.connected.direct.attachment().session().clone();
        Along {
            session: Some(session.unwrap_or_else(own)),
            by: Some(self.connected.who.id().as_str().into()),
            carried: self.carried.clone(),
        }
    }

    /// Refuses what a plugin does not say that it needs, or may not have. The refusal is logged and
    /// recorded.
    pub(super) fn not_permitted(&self, need: Need, name: &str) -> Failure {
        self.refused(need.kind(), name);
        let plugin = self.connected.who.id();
        let (noun, needs) = (need.noun(), need.needs());
        let name = orchestra_wire::shown(name);
        Failure::new(
            "not_permitted",
            format!(
                "plugin {plugin} may not use the {noun} {name:?}: name it in {needs} of the \
                 manifest, and let the operator permit it"
            ),
        )
    }

    /// Logs and records that this peer may not use something of a kind.
    pub(super) fn refused(&self, kind: &'static str, name: &str) {
        let peer = self.connected.who.id().as_str();
        let shown = orchestra_wire::shown(name);
        tracing::warn!(peer, kind, name = %shown, "refused a call that is not permitted");
        let attachment = self.connected.direct.attachment();
        attachment.refused(kind, name, Some(peer.into()));
    }

    fn subscribe(&self) -> Result<Response, Failure> {
        let wanted: Subscribe = message(self.request)?;
        let Some(plugin) = self.connected.who.plugin() else {
            let text = "a bridge has no server that events could be delivered to";
            return Err(Failure::new("not_permitted", text));
        };
        if !self.permissions.events.allows(&wanted.topic) {
            return Err(self.not_permitted(Need::Topic, &wanted.topic));
        }
        if !self.face.events.reaches(plugin) {
            let text = format!(
                "plugin {plugin} was not started by this orchestrator, which has no server of it \
                 to deliver events to: name it in plugins.yaml"
            );
            return Err(Failure::new("not_reachable", text));
        }
        let acknowledgement = EventDelivery {
            subscription_id: wanted.subscription_id.clone(),
            topic: wanted.topic.clone(),
            ..EventDelivery::default()
        };
        let events = &self.face.events;
        let subscribed = events.subscribe(self.peer.connection(), plugin, wanted);
        subscribed.map_err(|error| Failure::new(error.code(), error.to_string()))?;
        // It may have ended meanwhile, and nobody would end this.
        if self.face.connected(self.peer).is_none() {
            events.disconnected(self.peer.connection());
        }
        Ok(Response::new(self.id(), &acknowledgement))
    }

    fn unsubscribe(&self) -> Result<Response, Failure> {
        let unwanted: Unsubscribe = message(self.request)?;
        let events = &self.face.events;
        events.unsubscribe(self.peer.connection(), &unwanted.subscription_id);
        Ok(Response::empty(self.id()))
    }

    /// Any plugin may publish anything, as itself.
    fn publish(&self) -> Result<Response, Failure> {
        let source = self.connected.who.id().as_str();
        let request = self.request.clone().with_caller(source);
        let request = request.map_err(|error| Failure::invalid(&error))?;
        // The keys are there once, so that subscribers read what was matched.
        request
            .routing()
            .map_err(|error| Failure::invalid(&error))?;
        let event: Publish = message(&request)?;
        let published = self.face.events.publish(&event, request.payload());
        published.map_err(|error| Failure::new(error.code(), error.to_string()))?;
        Ok(Response::empty(self.id()))
    }
}

/// The message of a request.
pub(super) fn message<M>(request: &Request) -> Result<M, Failure>
where
    M: orchestra_plugin::envelope::PayloadOf<RequestKind>,
{
    // Of keys that are there twice, one would be checked and another be used.
    request
        .routing()
        .map_err(|error| Failure::invalid(&error))?;
    request.message().map_err(|error| Failure::invalid(&error))
}

/// An empty field is none.
pub(super) fn given(bytes: &Bytes) -> Option<&Bytes> {
    Some(bytes).filter(|bytes| !bytes.is_empty())
}
