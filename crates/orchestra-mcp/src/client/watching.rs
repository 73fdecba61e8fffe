//! What is watched at a server: its lists, resources, its log. Kept over restarts, in both eras.

mod listening;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use orchestra_hub::{BoxFuture, Cx, ListKind, LogLevel};
use orchestra_wire::{Era, RawJson};
use serde_json::json;
use tokio::sync::watch;

use super::{
    ServerCall, TransportType,
    member::Shared,
    session::{Session, spawn},
};
use crate::told::level_name;

/// How long a server has to take note.
const NOTE: Duration = Duration::from_secs(30);

/// How long a call waits until the server logs what the call wants of it.
const HEED: Duration = Duration::from_secs(2);

/// Pause before subscriptions that a server refused are repeated, however often it reports changes.
const REPEAT: Duration = Duration::from_secs(1);

/// What is wanted.
pub(super) struct Watching {
    wanted: Mutex<Wanted>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    uris: BTreeSet<String>,
    level: Option<LogLevel>,
}

/// What a server of the session era was told to log. There is one level for all callers, so that it
/// is the least that any of them wants; what each gets of it is up to its own sink.
#[derive(Default)]
pub(super) struct Logged(Mutex<Levels>);

#[derive(Default)]
struct Levels {
    /// The least that a call has wanted.
    calls: Option<LogLevel>,
    told: Option<LogLevel>,
}

impl Logged {
    /// What the server is to be told now that a call wants a level; `None` when it knows.
    fn by_call(&self, level: LogLevel) -> Option<LogLevel> {
        let mut levels = self.levels();
        let least = |known: Option<LogLevel>| known.map_or(level, |known| known.min(level));
        levels.calls = Some(least(levels.calls));
        let told = least(levels.told);
        (levels.told.replace(told) != Some(told)).then_some(told)
    }

    /// The same when callers want a level for all that they do.
    fn by_sessions(&self, level: LogLevel) -> Option<LogLevel> {
        let mut levels = self.levels();
        let told = levels.calls.map_or(level, |calls| calls.min(level));
        (levels.told.replace(told) != Some(told)).then_some(told)
    }

    fn levels(&self) -> MutexGuard<'_, Levels> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Has a server of the session era log what a call wants that speaks for itself alone; `None`
    /// when it does already.
    pub(super) fn heed(self: &Arc<Self>, call: &ServerCall) -> Option<BoxFuture<()>> {
        let level = call.cx.log_level?;
        let (Era::Session, Some(Era::Stateless)) = (self.era(), call.cx.era) else {
            return None;
        };
        self.facts().filter(|facts| facts.can.logging)?;
        let level = self.logged.by_call(level)?;
        let session = Arc::clone(self);
        Some(Box::pin(async move {
            note(&session, "logging/setLevel", level_of(level), HEED).await;
        }))
    }
}

impl Watching {
    pub(super) fn new() -> Self {
        Self {
            wanted: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }

    pub(super) fn watch(&self, uri: &str) {
        self.change(|wanted| wanted.uris.insert(uri.to_owned()));
    }

    pub(super) fn unwatch(&self, uri: &str) {
        self.change(|wanted| wanted.uris.remove(uri));
    }

    pub(super) fn set_level(&self, level: Option<LogLevel>) {
        self.change(|wanted| std::mem::replace(&mut wanted.level, level) != level);
    }

    fn change(&self, change: impl FnOnce(&mut Wanted) -> bool) {
        if change(&mut self.wanted()) {
            self.changed.send_modify(|number| *number += 1);
        }
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Has a server tell what is wanted, for as long as the future is polled.
    pub(super) async fn watch(self: Arc<Self>, session: Arc<Session>) {
        match session.era() {
            Era::Session => self.watch_session(&session).await,
            Era::Stateless => self.watch_stateless(&session).await,
        }
    }

    /// Everything that a connection is asked to report. Of several at one endpoint, the first reports
    /// changes of resources, so that each is reported once.
    fn wanted(&self) -> Wanted {
        let mut wanted = self.watching.wanted().clone();
        if self.is_beside() && self.connector.transport() == TransportType::Http {
            wanted.uris.clear();
        }
        wanted
    }

    async fn watch_session(&self, session: &Arc<Session>) {
        let mut changed = self.watching.changed.subscribe();
        let Some(can) = session.facts().map(|facts| facts.can) else {
            return;
        };
        let mut told = Wanted::default();
        loop {
            changed.mark_unchanged();
            let mut wanted = self.wanted();
            let mut refused = Vec::new();
            if can.subscribe {
                for uri in wanted.uris.difference(&told.uris) {
                    let params = json!({ "uri": uri });
                    if note(session, "resources/subscribe", params, NOTE).await {
                        session.covered().insert(uri.clone());
                        // No earlier change was reported.
                        session.events.updated(uri.clone());
                    } else {
                        refused.push(uri.clone());
                    }
                }
                for uri in told.uris.difference(&wanted.uris) {
                    session.covered().remove(uri);
                    note(
                        session,
                        "resources/unsubscribe",
                        json!({ "uri": uri }),
                        NOTE,
                    )
                    .await;
                }
            }
            if let Some(level) = wanted
                .level
                .filter(|_| can.logging && wanted.level != told.level)
                .and_then(|level| session.logged.by_sessions(level))
            {
                note(session, "logging/setLevel", level_of(level), NOTE).await;
            }
            refused.iter().for_each(|uri| {
                wanted.uris.remove(uri);
            });
            told = wanted;
            tokio::select! {
                changed = changed.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = session.resources_changed.notified(), if !refused.is_empty() => {
                    tokio::time::sleep(REPEAT).await;
                }
            }
        }
    }
}

fn level_of(level: LogLevel) -> serde_json::Value {
    json!({ "level": level_name(level) })
}

/// Sends a request whose result is empty. Returns whether the server accepted it.
async fn note(
    session: &Arc<Session>,
    method: &'static str,
    params: serde_json::Value,
    within: Duration,
) -> bool {
    let params = RawJson::of(&params).ok();
    let call = ServerCall::new(method, params, Cx::default());
    let noted = session.ask_within(&call, within).await;
    if let Err(error) = &noted {
        tracing::debug!(server = %session.config.name, method, reason = %error.explain(), "the server refused a subscription");
    }
    noted.is_ok()
}

/// Announces a list again when it may be stale: for a server of the stateless era that does not
/// say by itself when it changes (MCP, caching, `ttlMs`).
pub(super) fn expire(session: &Arc<Session>, kind: ListKind, ttl: Duration) {
    /// A list is not fetched more often than this.
    const AT_MOST: Duration = Duration::from_secs(30);
    let tells = session
        .facts()
        .and_then(|facts| facts.can.list(kind))
        .is_some_and(|lists| lists.list_changed);
    if tells
        || session.era() == Era::Session
        || session.transport != TransportType::Http && ttl.is_zero()
    {
        return;
    }
    let session = Arc::downgrade(session);
    spawn(async move {
        tokio::time::sleep(ttl.max(AT_MOST)).await;
        if let Some(session) = session.upgrade() {
            session.list_changed(kind);
        }
    });
}
