//! Listens to a server of the stateless era on one stream, whose filter is what is wanted.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use orchestra_hub::{Cx, ListKind};
use orchestra_wire::RawJson;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use super::REPEAT;
use crate::client::{
    Answer, ClientError, ServerCall, ServerCan,
    member::Shared,
    session::{Session, Waiting},
};

/// Pause before a stream that broke is opened again; it doubles up to the second.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A stream that lived this long was a good one.
const GOOD: Duration = Duration::from_secs(30);

/// How long a server has to acknowledge a stream. After that, the stream is assumed to have begun,
/// though not that every change since then was reported.
const BEGIN: Duration = Duration::from_secs(10);

/// How long the stream before is heard after that: what it said may still be on its way.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Shared {
    /// Listens on one stream; when what is wanted changes, on another, and the one before goes on
    /// until that has begun.
    pub(super) async fn watch_stateless(&self, session: &Arc<Session>) {
        let mut changed = self.watching.changed.subscribe();
        let Some(can) = session.facts().map(|facts| facts.can) else {
            return;
        };
        let mut pause = AGAIN.0;
        let mut ear = Ear::new();
        loop {
            changed.mark_unchanged();
            let Some((call, uris)) = self.wanted_of(can) else {
                ear.before = None;
                ear.missed = true;
                if changed.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let opened = Instant::now();
            let mut stream = session.open_call(&call);
            ear.begun = None;
            let ended = tokio::select! {
                ended = ear.listen(session, &mut stream, &uris) => match ended {
                    Some(ended) => ended,
                    None => {
                        ear.keep(stream);
                        sleep(REPEAT).await;
                        continue;
                    }
                },
                changed = changed.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    ear.keep(stream);
                    continue;
                }
            };
            // What is told from now on until another begins, nobody hears.
            ear.missed = true;
            // A server may refuse to have two of them: it is asked again for the one.
            let is_only = ear.before.take().is_none();
            if is_over(&ended, is_only) {
                return;
            }
            if is_only {
                pause = match opened.elapsed() > GOOD {
                    true => AGAIN.0,
                    false => (pause * 2).min(AGAIN.1),
                };
                sleep(pause).await;
            }
        }
    }

    /// Request for a stream of everything that is wanted, with the resources among it; `None` where
    /// the server reports nothing of it.
    fn wanted_of(&self, can: ServerCan) -> Option<(ServerCall, BTreeSet<String>)> {
        let lists = |kind| can.list(kind).is_some_and(|lists| lists.list_changed);
        let uris = match can.subscribe {
            true => self.wanted().uris,
            false => BTreeSet::new(),
        };
        let [tools, prompts, resources] =
            [ListKind::Tools, ListKind::Prompts, ListKind::Resources].map(lists);
        if uris.is_empty() && !(tools || prompts || resources) {
            return None;
        }
        let filter = json!({"notifications": {
            "toolsListChanged": tools,
            "promptsListChanged": prompts,
            "resourcesListChanged": resources,
            "resourceSubscriptions": uris,
        }});
        let filter = RawJson::of(&filter).ok();
        let call = ServerCall::new("subscriptions/listen", filter, Cx::default());
        Some((call, uris))
    }
}

/// What is remembered from one stream to the next.
struct Ear {
    /// The stream before, until the one now has begun.
    before: Option<Waiting>,
    /// When the one now has.
    begun: Option<Instant>,
    /// Whether a change may have happened while no acknowledged stream was open: before the first
    /// one, or between two.
    missed: bool,
}

impl Ear {
    const fn new() -> Self {
        Self {
            before: None,
            begun: None,
            missed: true,
        }
    }

    /// Hears a stream, which was to include changes of the resources `uris`, to its end, or until the
    /// server may include resources that it left out: then the result is `None`. May be dropped.
    async fn listen(
        &mut self,
        session: &Session,
        stream: &mut Waiting,
        uris: &BTreeSet<String>,
    ) -> Option<Result<Answer, ClientError>> {
        let by = Instant::now() + BEGIN;
        let open = stream.open();
        let (mut is_acknowledged, mut is_part) = (false, false);
        loop {
            let (has_begun, has_before) = (self.begun.is_some(), self.before.is_some());
            let last_words = self.begun.map_or(by, |begun| begun + LAST_WORDS);
            tokio::select! {
                // What a stream has said before its end is looked at before that.
                biased;
                () = open.begun.notified(), if !is_acknowledged => {
                    is_acknowledged = true;
                    let included = open.included(uris);
                    is_part = included.len() < uris.len();
                    self.begin(session, &included);
                    self.missed = false;
                    *session.covered() = included;
                }
                ended = stream.ended() => return Some(ended),
                () = session.resources_changed.notified(), if is_part => return None,
                () = end_of(&mut self.before), if has_before => {
                    self.before = None;
                    self.missed |= !has_begun;
                }
                () = sleep_until(by), if !has_begun => {
                    self.begin(session, uris);
                    self.missed = true;
                }
                () = sleep_until(last_words), if has_begun && has_before => self.before = None,
            }
        }
    }

    /// Notes that the stream has begun, and reports everything as changed whose changes until now may
    /// be unreported: the lists that were fetched, and resources that no stream before included.
    fn begin(&mut self, session: &Session, uris: &BTreeSet<String>) {
        self.begun.get_or_insert_with(Instant::now);
        if self.missed {
            session.covered().clear();
            let fetched = session.fetched.all();
            fetched.for_each(|kind| session.list_changed(kind));
        }
        let uncovered: Vec<String> = uris.difference(&session.covered()).cloned().collect();
        uncovered
            .into_iter()
            .for_each(|uri| session.events.updated(uri));
    }

    /// Another is to follow this stream, which is heard until then; or the one before it, if this
    /// one has not begun.
    fn keep(&mut self, stream: Waiting) {
        if self.begun.is_some() || self.before.is_none() {
            self.before = Some(stream);
        }
    }
}

async fn end_of(stream: &mut Option<Waiting>) {
    if let Some(stream) = stream {
        // Whatever it says, it is over.
        let _ = stream.ended().await;
    }
}

/// Whether a stream is not worth opening again: the server is gone, or does not know such streams,
/// as it says of the only one.
fn is_over(ended: &Result<Answer, ClientError>, is_only: bool) -> bool {
    match ended {
        Ok(Ok(_)) => false,
        Ok(Err(error)) => is_only && matches!(error.code.0, -32601 | -32602),
        Err(error) => matches!(error, ClientError::Closed | ClientError::Crashed(_)),
    }
}
