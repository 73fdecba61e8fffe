//! Follows a server: fetches what it offers when that may differ, and passes on what it says.

use std::{pin::Pin, sync::Arc, time::Duration};

use orchestra_hub::{ListKind, Notice};
use orchestra_mcp::client::{
    ClientError, ClientEvent, ClientLists, ClientStatus, attribute_notification,
};
use tokio::{
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{OfClients, Server, standing::Standing};
use crate::{
    config::{Pins, ServerConfig},
    pins::{Facts, Known, Lists},
    policy::Rate,
};

/// Between two looks at what a server offers: one that says all the time that it changes is not
/// asked all the time.
const REST: Duration = Duration::from_millis(200);

/// Time between a failed look and the next: the first, which doubles, and the longest.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// Time in which the tools of a server that was never seen are listed again after a failure: as long as
/// a list of a client waits.
const FIRST_LIST: Duration = Duration::from_secs(2);

/// The same in a program that ends with its call.
const ONLY_LIST: Duration = Duration::from_secs(5);

/// How often approvals of others, and the quota of the day, are looked after.
const CHORES: Duration = Duration::from_secs(2);

/// Log messages and unknown notifications that are passed on: a second, and at once.
const NOTICES: (f64, u32) = (100.0, 200);

/// Names that one line of the log tells.
const MAX_NAMED: usize = 10;

/// What hears of a server.
pub(crate) trait Follower: Send + 'static {
    /// It is known what the server offers, or that this will not be known soon. False when nobody
    /// follows any more, also because another server came in its place.
    fn settled(&self, server: &Arc<Server>) -> bool;

    /// What the server offers differs from what was told before.
    fn changed(&self, server: &Arc<Server>);

    /// The server says something. Must not wait.
    fn told(&self, notice: Notice);
}

/// The lists that are to be fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stale([bool; 4]);

type Fetching = Pin<Box<dyn Future<Output = Looked> + Send>>;

/// What came of a look at what a server offers.
enum Looked {
    /// What is known now, of all clients and of some, and what could not be looked at.
    Known(Box<Known>, Vec<OfClients>, Stale),
    /// The lists of a relay, which have taken their place already: those that differ from what callers
    /// have, and those that are to be looked at again.
    Others(Vec<ListKind>, Stale),
}

/// Runs until nobody follows, or the client is closed.
pub(crate) async fn follow(server: Arc<Server>, follower: impl Follower) {
    let Some(mut events) = server.client.take_events() else {
        return;
    };
    let mut status = server.client.status();
    // The status may have changed before this task ran, for instance to closed.
    status.mark_changed();
    let mut chores = interval(CHORES);
    chores.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut stale, mut not_before) = (Stale::default(), Instant::now());
    let mut fetching: Option<Fetching> = None;
    let mut after_failure = AFTER_FAILURE.0;
    let rate = Rate::new(NOTICES.0, Some(NOTICES.1));
    let (mut dropped, mut missed) = (0, 0);
    let mut standing = Standing::new(server.name());
    loop {
        tokio::select! {
            event = events.recv() => match event {
                None => return,
                Some(ClientEvent::Started) => {
                    stale = Stale::ALL;
                    server.unlisted.send_replace(None);
                }
                Some(ClientEvent::ListChanged(kind)) => stale.add(kind),
                Some(ClientEvent::ResourceUpdated(uri)) => {
                    follower.told(Notice::ResourceUpdated(uri));
                }
                Some(event) => match rate.as_ref().is_none_or(|rate| rate.take().is_ok()) {
                    true => follower.told(notice(&server, event)),
                    false => dropped += 1,
                },
            },
            looked = wait(&mut fetching), if fetching.is_some() => {
                fetching = None;
                let (Looked::Known(_, _, failed) | Looked::Others(_, failed)) = &looked;
                let failed = *failed;
                not_before = Instant::now() + pause_after(failed, &mut after_failure);
                stale.join(failed);
                let goes_on = match looked {
                    Looked::Known(known, of_clients, _) => {
                        take(&server, &follower, (known, of_clients), failed).await
                    }
                    Looked::Others(kinds, _) => {
                        follower.changed(&server);
                        kinds.into_iter().for_each(|kind| follower.told(Notice::ListChanged(kind)));
                        follower.settled(&server)
                    }
                };
                server.relisting.looked();
                if !goes_on {
                    return;
                }
            }
            () = server.relisting.wanted() => stale.add(ListKind::Tools),
            () = sleep_until(not_before), if fetching.is_none() && !stale.is_empty() => {
                let (server, stale) = (Arc::clone(&server), std::mem::take(&mut stale));
                fetching = Some(match server.is_relay() {
                    true => Box::pin(look_again(server, stale)),
                    false => Box::pin(fetch(server, stale)),
                });
            }
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
                let status = status.borrow_and_update().clone();
                if matches!(status, ClientStatus::Closed) {
                    return;
                }
                standing.is_now(&status);
                server.stands(&status);
                if is_in_trouble(&status) && !follower.settled(&server) {
                    return;
                }
            }
            () = standing.due() => follower.told(standing.tell()),
            _ = chores.tick() => {
                // Those for which there was no room before they came here.
                let missed_in_all = server.client.dropped_events();
                dropped += missed_in_all - std::mem::replace(&mut missed, missed_in_all);
                if dropped > 0 {
                    tracing::warn!(server = server.name(), dropped, "too many notifications from the server; dropped some");
                    dropped = 0;
                }
                server.give_back_when_quiet().await;
                look_at_approvals(&server, &follower).await;
            }
        }
    }
}

/// Returns the time until the next look. After failures in a row it grows.
fn pause_after(failed: Stale, after_failure: &mut Duration) -> Duration {
    if failed.is_empty() {
        *after_failure = AFTER_FAILURE.0;
        return REST;
    }
    let longer = (*after_failure * 2).min(AFTER_FAILURE.1);
    std::mem::replace(after_failure, longer)
}

/// Whether what the server offers will not be known soon.
const fn is_in_trouble(status: &ClientStatus) -> bool {
    matches!(
        status,
        ClientStatus::Offline { .. }
            | ClientStatus::Restarting { .. }
            | ClientStatus::NeedsAuth(_)
            | ClientStatus::Invalid(_)
    )
}

async fn wait(fetching: &mut Option<Fetching>) -> Looked {
    match fetching {
        Some(fetching) => fetching.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Takes in what was fetched. When nothing could be, what was known before stays. False when nobody
/// follows any more.
async fn take(
    server: &Arc<Server>,
    follower: &impl Follower,
    (known, of_clients): (Box<Known>, Vec<OfClients>),
    failed: Stale,
) -> bool {
    let is_nothing = failed == Stale::ALL;
    if !is_nothing {
        let differs = server.offer_apart(*known, of_clients).await;
        if differs {
            let offered = server.offered();
            let hidden = offered.all_hidden();
            if !hidden.is_empty() {
                let is_lost = offered.known.as_ref().is_some_and(Known::is_lost);
                let why = match is_lost {
                    true => "the file of what was approved is damaged",
                    false => "they changed since they were approved",
                };
                tracing::warn!(
                    server = server.name(),
                    count = hidden.len(),
                    tools = hidden[..hidden.len().min(MAX_NAMED)].join(", "),
                    "hidden, because {why}; see `orchestra mcp approve`. {}",
                    server.config.follow_advice()
                );
            }
            follower.changed(server);
        }
    }
    follower.settled(server)
}

/// Looks at the lists of a relay's server that callers have.
async fn look_again(server: Arc<Server>, stale: Stale) -> Looked {
    server.take_in(|_| {});
    let (mut others, mut failed) = (Vec::new(), Stale::default());
    for kind in stale.kinds() {
        match server.is_other(kind).await {
            Some(true) => others.push(kind),
            Some(false) => {}
            None => failed.add(kind),
        }
    }
    Looked::Others(others, failed)
}

/// Fetches lists and keeps them. Those that fail stay as they were.
async fn fetch(server: Arc<Server>, stale: Stale) -> Looked {
    let before = server.offered().known.clone();
    let mut lists = before
        .as_ref()
        .map(|known| known.lists.clone())
        .unwrap_or_default();
    let mut failed = Stale::default();
    for kind in stale.kinds() {
        let fetched = match kind {
            ListKind::Tools if before.is_none() => {
                let within = if server.once { ONLY_LIST } else { FIRST_LIST };
                server.client.list_within(kind, within).await
            }
            _ => server.client.list(kind).await,
        };
        let failure = fetched.as_ref().err().map(ClientError::in_short);
        server.failed_lists()[kind as usize] = failure;
        match fetched {
            Ok(items) => lists.set(&server.config, kind, items),
            Err(error) => {
                let (name, why) = (server.name(), error.explain());
                match &error {
                    // This program ends the server.
                    ClientError::Closed => {
                        tracing::debug!(
                            server = name,
                            ?kind,
                            error = why,
                            "cannot fetch a list of the server"
                        );
                    }
                    _ => tracing::warn!(
                        server = name,
                        ?kind,
                        error = why,
                        "cannot fetch a list of the server"
                    ),
                }
                failed.add(kind);
                if kind == ListKind::Tools && before.is_none() {
                    // Whoever waits for its tools is told; none are shown for those that may be there.
                    server.unlisted.send_replace(Some(error.unlisted()));
                    failed = Stale::ALL;
                    break;
                }
            }
        }
    }
    if failed == Stale::ALL {
        return Looked::Known(Box::new(before.unwrap_or_default()), Vec::new(), failed);
    }
    if let Some(facts) = server.client.server() {
        lists.facts = Facts::of(&facts);
    }
    let kinds: Vec<ListKind> = stale.kinds().collect();
    let of_clients = server.client.lists_of_clients(&kinds).await;
    let of_clients = of_clients
        .into_iter()
        .map(|of| of_clients_of(&server.config, of, &lists));
    let of_clients: Vec<OfClients> = of_clients.collect();
    let learnt = learn(&server, lists, &of_clients, before).await;
    Looked::Known(Box::new(learnt), of_clients, failed)
}

/// Returns the lists of some clients. A list that could not be fetched is the usual one.
fn of_clients_of(config: &ServerConfig, of: ClientLists, others: &Lists) -> OfClients {
    let mut lists = others.clone();
    for (kind, items) in ListKind::ALL.into_iter().zip(of.lists) {
        if let Some(items) = items {
            lists.set(config, kind, items);
        }
    }
    OfClients {
        clients: of.clients,
        lists,
    }
}

async fn learn(
    server: &Arc<Server>,
    lists: Lists,
    of_clients: &[OfClients],
    before: Option<Known>,
) -> Known {
    let (pins, mode) = (server.pins.clone(), server.config.pins);
    let of_clients = match mode {
        Pins::Ask => lists.other_tools(of_clients.iter().map(|of| &of.lists)),
        Pins::Follow => Vec::new(),
    };
    // Changes that were hidden under another `pins` setting are approved by this one.
    let is_settled = |before: &&Known| {
        before.is_of(&lists, &of_clients) && (mode == Pins::Ask || before.changes().is_empty())
    };
    // Nothing to be written down.
    if let Some(before) = before.as_ref().filter(is_settled) {
        return before.clone();
    }
    let kept = before.clone();
    let learnt = spawn_blocking(move || pins.learn(lists, &of_clients, mode, kept.as_ref())).await;
    let Ok(learnt) = learnt else {
        return before.unwrap_or_default();
    };
    if before.is_none() && mode == Pins::Ask && learnt.pinned() > 0 {
        tracing::info!(
            server = server.name(),
            tools = learnt.pinned(),
            "pinned the server's current tools; a tool that changes is hidden until `orchestra mcp approve` accepts it"
        );
    }
    learnt
}

/// What is hidden may have been approved by another program.
async fn look_at_approvals(server: &Arc<Server>, follower: &impl Follower) {
    let offered = server.offered();
    if offered.all_hidden().is_empty() {
        return;
    }
    let pins = server.pins.clone();
    let Ok(Ok(Some(mut known))) = spawn_blocking(move || pins.load()).await else {
        return;
    };
    // Another program may have seen the server at another time.
    if let Some(ours) = &offered.known {
        known.lists = ours.lists.clone();
    }
    if server.offer_apart(known, offered.of_clients()).await {
        follower.changed(server);
    }
}

fn notice(server: &Server, event: ClientEvent) -> Notice {
    match event {
        ClientEvent::Log {
            level,
            logger,
            data,
        } => Notice::Log {
            level,
            // Says whose it is, beside those of others.
            logger: Some(match (logger, server.is_relay()) {
                (Some(logger), false) => format!("{}/{logger}", server.name()),
                (Some(logger), true) => logger,
                (None, _) => server.name().to_owned(),
            }),
            data,
        },
        // A relay has one client, and its server is an orchestrator, which names the server.
        ClientEvent::Other { method, params, .. } if server.is_relay() => Notice::Other {
            method,
            params,
            client: None,
        },
        ClientEvent::Other {
            method,
            params,
            client,
        } => Notice::Other {
            params: Some(attribute_notification(params.as_ref(), server.name())),
            method,
            client,
        },
        ClientEvent::ResourceUpdated(uri) => Notice::ResourceUpdated(uri),
        // Both are taken before.
        ClientEvent::Started | ClientEvent::ListChanged(_) => Notice::Other {
            method: "notifications/tools/list_changed".to_owned(),
            params: None,
            client: None,
        },
    }
}

impl Stale {
    const ALL: Self = Self([true; 4]);

    const fn add(&mut self, kind: ListKind) {
        self.0[kind as usize] = true;
    }

    fn join(&mut self, other: Self) {
        other.kinds().for_each(|kind| self.add(kind));
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }

    fn kinds(self) -> impl Iterator<Item = ListKind> {
        ListKind::ALL
            .into_iter()
            .filter(move |kind| self.0[*kind as usize])
    }
}
