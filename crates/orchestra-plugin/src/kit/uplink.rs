//! The connection to the orchestrator: dialed in the background, registered each time it comes up,
//! and given up when it stays away.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{events::Topics, orchestrator::OrchestratorError, toolbox::Tools};
use crate::{
    envelope::{PayloadOf, Request, RequestKind, Response, ResponseKind},
    generated::{PluginManifest, RegistrationResult, Subscribe, ToolResponse, Unsubscribe},
    ids::PluginId,
    quic::{Caller, Connection, Link},
};

/// How long the orchestrator may take to register us, or to take a subscription.
const REGISTER_TIME: Duration = Duration::from_secs(10);

/// The pause before a registration that failed is tried again.
const REGISTER_PAUSE: Duration = Duration::from_millis(200);

/// The codes by which an orchestrator says that it cannot register anybody right now.
const TRANSIENT: [&str; 3] = ["busy", "handler_error", "unknown_peer"];

/// How the connection is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// It is not there, or we are not registered.
    Down {
        /// Why, as far as that is known.
        why: String,
    },
    /// We are registered.
    Up {
        /// The revision of the additions that the orchestrator speaks; 0 for an old one.
        revision: u32,
    },
}

/// What the orchestrator says to a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is confirmed.
    Confirmed,
    /// It is not wanted.
    Refused {
        /// A short word for programs.
        code: String,
        /// Words for a reader.
        message: String,
    },
}

/// What the orchestrator has said to subscriptions, by their id.
pub(super) type Standings = BTreeMap<String, Standing>;

/// What we offer, as the orchestrator is told.
pub(super) struct Offered {
    manifest: PluginManifest,
    tools: Tools,
    changes: watch::Receiver<u64>,
}

impl Offered {
    pub(super) fn new(manifest: PluginManifest, tools: Tools) -> Self {
        Self {
            manifest,
            changes: tools.changes(),
            tools,
        }
    }

    /// How it is now. What changes from here on is a change.
    fn manifest(&mut self) -> &PluginManifest {
        self.changes.mark_unchanged();
        self.manifest.provides_tools = self.tools.names();
        &self.manifest
    }

    /// Waits until it is not as it was told any more.
    async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The connection to the orchestrator.
#[derive(Debug)]
pub(super) struct Uplink {
    id: PluginId,
    caller: Caller,
    topics: Arc<Topics>,
    state: watch::Sender<State>,
    /// The subscriptions that the present connection was asked for.
    standing: watch::Sender<Standings>,
    requests: AtomicU64,
}

impl Uplink {
    pub(super) fn new(id: PluginId, caller: Caller, topics: Arc<Topics>) -> Self {
        let why = "it is being dialed".to_owned();
        Self {
            id,
            caller,
            topics,
            state: watch::Sender::new(State::Down { why }),
            standing: watch::Sender::default(),
            requests: AtomicU64::new(1),
        }
    }

    pub(super) fn id(&self) -> &PluginId {
        &self.id
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) fn topics(&self) -> &Arc<Topics> {
        &self.topics
    }

    pub(super) fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(super) fn standing(&self) -> watch::Receiver<Standings> {
        self.standing.subscribe()
    }

    pub(super) fn next_request_id(&self) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.id)
    }

    /// Waits until we are registered, and returns the revision that the orchestrator speaks.
    pub(super) async fn up(&self, time: Duration) -> Result<u32, OrchestratorError> {
        let mut state = self.state();
        let up = state.wait_for(|state| matches!(state, State::Up { .. }));
        // How it is then says all.
        let _ = timeout(time, up).await.is_ok();
        match &*self.state.borrow() {
            State::Up { revision } => Ok(*revision),
            State::Down { why } => Err(OrchestratorError::Away(why.clone())),
        }
    }

    /// Keeps us registered, with the tools that we offer by then. Returns why that is over: the
    /// orchestrator does not want us, or has been away for `patience`.
    pub(super) async fn keep(&self, mut offer: Offered, patience: Duration) -> String {
        let mut link = self.caller.link();
        let mut until = Instant::now() + patience;
        loop {
            let connection = match timeout_at(until, connected(&mut link)).await {
                Ok(Some(connection)) => connection,
                Ok(None) => return "the connection was closed".to_owned(),
                Err(_) => {
                    let why = why_down(&link.borrow());
                    return format!(
                        "the orchestrator has been away for {} s: {why}",
                        patience.as_secs_f32()
                    );
                }
            };
            match self.register(&connection, offer.manifest()).await {
                Ok(Registered::Accepted { revision }) => {
                    self.state.send_replace(State::Up { revision });
                    self.attend(&connection, &mut link, &mut offer, revision)
                        .await;
                    until = Instant::now() + patience;
                }
                Ok(Registered::Rejected { reason }) => {
                    return format!("the orchestrator has refused the plugin: {reason}");
                }
                Err(why) => {
                    tracing::warn!(why, "cannot register with the orchestrator");
                    self.state.send_replace(State::Down { why });
                    connection.close();
                    if timeout_at(until, sleep(REGISTER_PAUSE)).await.is_err() {
                        return "the orchestrator does not register the plugin".to_owned();
                    }
                }
            }
        }
    }

    async fn register(
        &self,
        connection: &Connection,
        manifest: &PluginManifest,
    ) -> Result<Registered, String> {
        let response = self.exchange(connection, manifest).await?;
        if response.kind() == Some(ResponseKind::ToolCall) {
            let failure: ToolResponse = response.message().map_err(|e| e.to_string())?;
            let reason = format!("{} ({})", failure.error_message, failure.error_code);
            return match TRANSIENT.contains(&failure.error_code.as_str()) {
                true => Err(reason),
                false => Ok(Registered::Rejected { reason }),
            };
        }
        let result: RegistrationResult = response.message().map_err(|e| e.to_string())?;
        Ok(match result.accepted {
            true => Registered::Accepted {
                revision: result.revision,
            },
            false => Registered::Rejected {
                reason: result.reject_reason,
            },
        })
    }

    /// Keeps the subscriptions of a connection as they are wanted, until it is not the one any more.
    async fn attend(
        &self,
        connection: &Connection,
        link: &mut watch::Receiver<Link>,
        offer: &mut Offered,
        revision: u32,
    ) {
        let mut known = Standings::new();
        self.standing.send_replace(known.clone());
        loop {
            // Old orchestrators do not survive an event for a subscription.
            if revision > 0 {
                self.reconcile(connection, &mut known).await;
            }
            select! {
                _ = connection.closed() => break,
                changed = link.changed() => {
                    if changed.is_err() || !matches!(*link.borrow(), Link::Up(_)) {
                        break;
                    }
                    // Another connection has taken its place, where we are to be registered too.
                    return;
                }
                () = self.topics.changed.notified() => {}
                () = offer.changed() => {
                    // Old orchestrators do not expect to be told twice who we are.
                    if revision > 0 {
                        self.tell(connection, offer).await;
                    }
                }
            }
        }
        let why = "it was lost".to_owned();
        self.state.send_replace(State::Down { why });
    }

    /// Registers once more, since we offer something else than before. We stay registered as we
    /// were when that is refused.
    async fn tell(&self, connection: &Connection, offer: &mut Offered) {
        match self.register(connection, offer.manifest()).await {
            Ok(Registered::Accepted { .. }) => {}
            Ok(Registered::Rejected { reason }) => {
                tracing::warn!(reason, "the orchestrator refused the plugin's new tools");
            }
            Err(why) => tracing::warn!(why, "cannot notify the orchestrator of changed tools"),
        }
    }

    /// Tells the orchestrator what is wanted now and was not before, and the other way round.
    async fn reconcile(&self, connection: &Connection, known: &mut Standings) {
        let wanted = self.topics.wanted();
        for (id, (topic, filters)) in &wanted {
            if known.contains_key(id) {
                continue;
            }
            let subscribe = Subscribe {
                subscription_id: id.clone(),
                topic: topic.clone(),
                filters: filters.clone(),
            };
            match self.subscribe(connection, &subscribe).await {
                Ok(standing) => {
                    if let Standing::Refused { message, .. } = &standing {
                        tracing::warn!(topic, message, "the orchestrator refused a subscription");
                    }
                    known.insert(id.clone(), standing);
                    // Each is waited for by itself.
                    self.standing.send_replace(known.clone());
                }
                Err(why) => tracing::warn!(topic, why, "cannot subscribe to events"),
            }
        }
        let gone: Vec<String> = known
            .keys()
            .filter(|id| !wanted.contains_key(*id))
            .cloned()
            .collect();
        for id in gone {
            if known.remove(&id) != Some(Standing::Confirmed) {
                continue;
            }
            let unsubscribe = Unsubscribe {
                subscription_id: id,
            };
            if let Err(why) = self.exchange(connection, &unsubscribe).await {
                tracing::debug!(why, "cannot unsubscribe from events");
            }
        }
        self.standing.send_replace(known.clone());
    }

    async fn subscribe(
        &self,
        connection: &Connection,
        wanted: &Subscribe,
    ) -> Result<Standing, String> {
        let response = self.exchange(connection, wanted).await?;
        if response.kind() != Some(ResponseKind::ToolCall) {
            return Ok(Standing::Confirmed);
        }
        let failure: ToolResponse = response.message().map_err(|error| error.to_string())?;
        Ok(Standing::Refused {
            code: failure.error_code,
            message: failure.error_message,
        })
    }

    async fn exchange<Q: PayloadOf<RequestKind>>(
        &self,
        connection: &Connection,
        message: &Q,
    ) -> Result<Response, String> {
        let request = Request::new(self.next_request_id(), message);
        let deadline = Instant::now() + REGISTER_TIME;
        let answer = connection.call(&request, deadline).await;
        let answer = answer.map_err(|error| error.to_string())?;
        Response::decode(&answer).map_err(|error| error.to_string())
    }
}

/// What the orchestrator says to a manifest.
enum Registered {
    Accepted { revision: u32 },
    Rejected { reason: String },
}

/// Waits for a connection; `None` when there will be none.
async fn connected(link: &mut watch::Receiver<Link>) -> Option<Connection> {
    loop {
        match &*link.borrow_and_update() {
            Link::Up(connection) => return Some(connection.clone()),
            Link::Closed => return None,
            Link::Dialing { .. } | Link::Waiting { .. } => {}
        }
        link.changed().await.ok()?;
    }
}

fn why_down(link: &Link) -> String {
    match link {
        Link::Waiting { error, .. } | Link::Dialing { last: Some(error) } => error.to_string(),
        Link::Dialing { last: None } => "no answer".to_owned(),
        Link::Up(_) | Link::Closed => "the connection was closed".to_owned(),
    }
}
