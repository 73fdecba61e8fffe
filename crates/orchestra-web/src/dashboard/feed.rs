//! What viewers are told: every event made once, numbered, and kept for a while, so that whoever
//! lost the connection goes on where it broke.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::Bytes;
use orchestra_hub::Hub;
use tokio::{
    sync::broadcast::{self, Receiver},
    task::AbortHandle,
};

use super::{Source, Tell, servers};

/// How many events wait for a viewer that does not read; one that is further behind begins anew.
const WAITING: usize = 1_024;
/// How many events are kept for those that come back.
const KEPT: usize = 4_096;
/// How large they are together.
const KEPT_BYTES: usize = 8 * 1024 * 1024;
/// For how long the workspace is followed when nobody watches any more: most of those who leave
/// come back at once.
const LINGER: Duration = Duration::from_secs(60);

/// The events of one run of the program.
pub(crate) struct Feed {
    source: Arc<dyn Source>,
    hub: Hub,
    /// Names the run, so that a number of another one is not taken for one of this.
    boot: String,
    state: Mutex<State>,
    sender: broadcast::Sender<Arc<Event>>,
}

struct State {
    kept: VecDeque<Arc<Event>>,
    kept_bytes: usize,
    /// The number of the last event.
    last: u64,
    /// Whoever has seen this number or a later one has missed nothing but what is kept.
    whole_from: u64,
    viewers: usize,
    /// How often somebody came: a departure is forgotten where somebody came after it.
    arrivals: u64,
    follower: Option<AbortHandle>,
}

/// One event as it is sent.
#[derive(Debug)]
pub(super) struct Event {
    number: u64,
    pub(super) frame: Bytes,
}

/// Somebody who watches.
pub(super) struct Viewer {
    feed: Arc<Feed>,
    /// What is to be sent first.
    pub(super) missed: Vec<Arc<Event>>,
    /// Whether more was missed than is kept.
    pub(super) lost: bool,
    /// The number of the last event before those to come.
    pub(super) last: u64,
    pub(super) events: Receiver<Arc<Event>>,
}

impl Feed {
    pub(crate) fn new(source: Arc<dyn Source>, hub: Hub) -> Arc<Self> {
        let boot = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Arc::new(Self {
            source,
            hub,
            boot: format!("{:x}", boot.as_micros()),
            state: Mutex::new(State {
                kept: VecDeque::new(),
                kept_bytes: 0,
                last: 0,
                whole_from: 0,
                viewers: 0,
                arrivals: 0,
                follower: None,
            }),
            sender: broadcast::Sender::new(WAITING),
        })
    }

    pub(super) fn source(&self) -> &dyn Source {
        &*self.source
    }

    pub(super) fn boot(&self) -> &str {
        &self.boot
    }

    /// The number of the last event.
    pub(super) fn last(&self) -> u64 {
        self.state().last
    }

    /// The name of an event, by which a client says where it stopped.
    pub(super) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.boot)
    }

    /// Lets somebody watch, who has seen everything up to `seen`, the id of an event. From here on
    /// nothing is missed.
    pub(super) fn join(self: &Arc<Self>, seen: Option<&str>) -> Viewer {
        let mut state = self.state();
        state.viewers += 1;
        state.arrivals += 1;
        if state.follower.is_none() {
            let feed = Arc::downgrade(self);
            let tell: Tell = Arc::new(move |kind, data| {
                if let Some(feed) = feed.upgrade() {
                    feed.tell(kind, &data);
                }
            });
            let servers = servers::follow(self.hub.clone(), Arc::clone(&tell));
            let following = self.source.follow(tell);
            let following = async { tokio::join!(following, servers) };
            state.follower = Some(tokio::spawn(following).abort_handle());
        }
        let seen = seen.map(|id| self.number(id));
        let (missed, lost) = match seen {
            None => (Vec::new(), false),
            Some(Some(seen)) if seen >= state.whole_from && seen <= state.last => {
                let is_missed = |event: &&Arc<Event>| event.number > seen;
                (
                    state.kept.iter().filter(is_missed).cloned().collect(),
                    false,
                )
            }
            Some(_) => (Vec::new(), true),
        };
        Viewer {
            feed: Arc::clone(self),
            missed,
            lost,
            last: state.last,
            events: self.sender.subscribe(),
        }
    }

    fn number(&self, id: &str) -> Option<u64> {
        let (boot, number) = id.rsplit_once('-')?;
        (boot == self.boot).then(|| number.parse().ok())?
    }

    /// Tells everybody. A line break in what is told would end the event.
    pub(super) fn tell(&self, kind: &'static str, data: &str) {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        let data = data.replace(['\r', '\n'], " ");
        let frame = format!("id: {}\nevent: {kind}\ndata: {data}\n\n", self.id(number));
        let event = Arc::new(Event {
            number,
            frame: frame.into(),
        });
        state.keep(Arc::clone(&event));
        // Within the lock, so that the order is that of the numbers. Nobody may listen.
        let _ = self.sender.send(event);
    }

    fn left(self: &Arc<Self>) {
        let mut state = self.state();
        state.viewers -= 1;
        if state.viewers > 0 {
            return;
        }
        let (arrivals, feed) = (state.arrivals, Arc::downgrade(self));
        drop(state);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            tokio::time::sleep(LINGER).await;
            if let Some(feed) = feed.upgrade() {
                feed.rest(arrivals);
            }
        });
    }

    /// Follows the workspace no longer, unless somebody came since.
    fn rest(&self, arrivals: u64) {
        let mut state = self.state();
        if state.viewers > 0 || state.arrivals != arrivals {
            return;
        }
        if let Some(follower) = state.follower.take() {
            follower.abort();
        }
        state.kept.clear();
        state.kept_bytes = 0;
        // What happens now has no number.
        state.last += 1;
        state.whole_from = state.last;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, event: Arc<Event>) {
        self.kept_bytes += event.frame.len();
        self.kept.push_back(event);
        while self.kept.len() > KEPT || self.kept_bytes > KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else {
                break;
            };
            self.kept_bytes -= oldest.frame.len();
            self.whole_from = oldest.number;
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(follower) = state.follower.take() {
            follower.abort();
        }
    }
}

impl Viewer {
    /// The feed that is watched.
    pub(super) fn feed(&self) -> &Feed {
        &self.feed
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.feed.left();
    }
}
