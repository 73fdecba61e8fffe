//! Lists while a provider does not know yet what it offers: they wait for it, once and not for
//! long, so that a client that asks at its start sees what will be there a moment later.

use std::{
    future::poll_fn,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use orchestra_wire::Revision;
use tokio::time::timeout_at;

use crate::{
    BoxFuture, ListKind, Outcome, PeerReport, ProviderError, Toolset,
    hub::Inner,
    provider::Provider,
    reserved::SEPARATOR,
    slot::{Change, Slot},
    view::{Route, View},
};

/// Longest time that requests for URIs wait for a provider that starts.
const START: Duration = Duration::from_secs(5);

/// Servers that are named when none has told what it offers.
const MAX_NAMED: usize = 8;

/// How much of the reason of each is told, in bytes.
const MAX_REASON: usize = 256;

/// Answers a list after waiting. Where nobody offers anything of the kind because those who should
/// cannot, that is told: an empty list would say that there is none.
pub(crate) fn route(
    hub: &Arc<Inner>,
    toolset: &Toolset,
    client: u64,
    kind: ListKind,
    revision: Revision,
    (start, limit): (usize, usize),
) -> Route {
    let settling = hub.settling(Instant::now());
    let (hub, toolset) = (Arc::clone(hub), toolset.clone());
    Route::Run(Box::pin(async move {
        if let Some(settling) = settling {
            settling.await;
        }
        for slot in hub.listing_anew() {
            if let Some(relisting) = slot.guarded(|provider| provider.relist(kind)) {
                relisting.await?;
            }
        }
        let view = hub.view(&toolset, client);
        let listing = view.list(kind, revision);
        if let (true, Some(missing)) = (listing.is_empty(), hub.missing(kind)) {
            return Err(ProviderError::Unreachable(missing));
        }
        let (items, next) = listing.page(start, limit);
        Ok(Outcome::List { kind, items, next })
    }))
}

impl Inner {
    /// Waits for the providers that do not know yet what they offer and were not waited for long
    /// enough; `None` when there are none.
    pub(crate) fn settling(&self, now: Instant) -> Option<BoxFuture<()>> {
        let wait = self.config.list_wait;
        let mut unknown: Vec<(Arc<Slot>, Instant)> = Vec::new();
        for slot in self.merged().slots().filter(|slot| !slot.is_ready()) {
            let until = slot.awaited_since(now) + wait;
            if until > now {
                unknown.push((Arc::clone(slot), until));
            }
        }
        if unknown.is_empty() {
            return None;
        }
        Some(Box::pin(async move {
            // Each has its own end, and all get ready at the same time.
            for (slot, until) in unknown {
                let is_unknown = timeout_at(until.into(), slot.ready()).await.is_err();
                // One that is asked anew for each list answers for itself.
                if is_unknown && !slot.lists_anew {
                    tracing::warn!(provider = %slot.id, "provider is not ready; lists are returned without its entries");
                }
            }
        }))
    }

    /// Waits until one more provider knows what it offers, or until a time. Requests for URIs wait for each provider for
    /// [`START`] in total. The time counts from the first request for an unknown URI, even if that request has a shorter
    /// deadline. Returns `None` when there is no provider to wait for, or the time is over.
    pub(crate) fn starting(&self, until: Instant) -> Option<BoxFuture<()>> {
        let now = tokio::time::Instant::now();
        let until = tokio::time::Instant::from_std(until);
        let merged = self.merged();
        let unknown = merged
            .slots()
            .filter(|slot| !slot.lists_anew && !slot.is_ready());
        let unknown = unknown.filter_map(|slot| -> Option<BoxFuture<()>> {
            let since = *slot.sought.get_or_init(|| now);
            let until = until.min(since + START);
            if now >= until {
                return None;
            }
            slot.awaited_since(Instant::now());
            let slot = Arc::clone(slot);
            Some(Box::pin(async move {
                let _ = timeout_at(until, slot.ready()).await;
            }))
        });
        let mut unknown: Vec<BoxFuture<()>> = unknown.collect();
        if unknown.is_empty() {
            return None;
        }
        Some(Box::pin(poll_fn(move |cx| {
            let mut all = unknown.iter_mut();
            match all.any(|ready| ready.as_mut().poll(cx).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })))
    }

    /// Whether a provider is asked for each list anew.
    pub(crate) fn lists_anew(&self) -> bool {
        self.merged().slots().any(|slot| slot.lists_anew)
    }

    fn listing_anew(&self) -> Vec<Arc<Slot>> {
        let merged = self.merged();
        let anew = merged.slots().filter(|slot| slot.lists_anew);
        anew.cloned().collect()
    }

    /// Which programs may offer something of a kind and do not, because they are not as they should
    /// be; `None` when there are none. `None` as well if one of them is still starting, or its first list is
    /// fetched again: the list changes then.
    fn missing(&self, kind: ListKind) -> Option<String> {
        let is_late = |_: &Slot, peer: &PeerReport| !peer.is_known && peer.status.is_late();
        if self.silent(is_late, own_reason).is_some() {
            return None;
        }
        let is_meant =
            |_: &Slot, peer: &PeerReport| !peer.is_known || peer.unlisted.contains(&kind);
        let named = self.silent(is_meant, own_reason)?;
        let what = match kind {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources => "resources",
            ListKind::Templates => "resource templates",
        };
        Some(format!(
            "no {what} are known: {named}. Retry in a moment; `orchestra mcp test` shows the cause"
        ))
    }

    /// Servers that may have a name or URI that no provider is known to offer, because their lists are not known or may be
    /// out of date; only the server whose name it begins with, if there is one. `None` when there are none.
    pub(crate) fn may_have(&self, view: &View, kind: &str, name: &str) -> Option<String> {
        let (kinds, what): (&[ListKind], _) = match kind {
            "tool" => (&[ListKind::Tools][..], "tools"),
            "prompt" => (&[ListKind::Prompts][..], "prompts"),
            "resource" => (&[ListKind::Resources, ListKind::Templates][..], "resources"),
            _ => return None,
        };
        let is_uri = kind == "resource";
        let owns = |slot: &Slot| {
            let rest = slot.server.as_deref();
            let rest = rest.and_then(|server| name.strip_prefix(server));
            !is_uri && rest.is_some_and(|rest| rest.starts_with(SEPARATOR))
        };
        let is_owned = view.merged.slots().any(|slot| owns(slot));
        let reason: fn(&PeerReport) -> Option<&str> = match is_owned {
            true => reason,
            false => own_reason,
        };
        let is_meant = |slot: &Slot, peer: &PeerReport| {
            let is_listed = peer.is_known && !kinds.iter().any(|kind| peer.unlisted.contains(kind));
            // A list from before the server went away may be out of date.
            let reads_unlisted = || is_uri && slot.catalog.borrow().reads_unlisted;
            let is_away = || peer.status.is_failed() && (owns(slot) || reads_unlisted());
            let is_shown = kind != "tool" || view.may_show(slot);
            is_shown && is_owned == owns(slot) && (!is_listed || is_away())
        };
        let named = self.silent(is_meant, reason)?;
        Some(format!(
            "a server whose current {what} are not known may have it: {named}"
        ))
    }

    /// Programs that do not say what they offer, and why; `None` when there are none.
    fn silent(
        &self,
        is_meant: impl Fn(&Slot, &PeerReport) -> bool,
        reason: fn(&PeerReport) -> Option<&str>,
    ) -> Option<String> {
        let merged = self.merged();
        let silent = merged.slots().filter_map(|slot| {
            let peer = slot.guarded(Provider::peer).flatten();
            let peer = peer.filter(|peer| is_meant(slot, peer))?;
            let (id, status) = (&slot.id, peer.status.as_str());
            Some(match reason(&peer) {
                Some(reason) => {
                    let reason = orchestra_secret::excerpt(reason, MAX_REASON);
                    format!("{id} is {status} ({reason})")
                }
                None if peer.is_known => format!("{id} is {status} and cannot list them"),
                None => format!("{id} is {status}"),
            })
        });
        let silent: Vec<String> = silent.take(MAX_NAMED).collect();
        (!silent.is_empty()).then(|| silent.join("; "))
    }

    /// Tells all providers from which level on somebody wants to hear.
    pub(crate) fn tell_level(&self) {
        let merged = self.merged();
        merged.slots().for_each(|slot| self.tell_level_to(slot));
    }

    /// Tells a provider the level of this moment.
    pub(crate) fn tell_level_to(&self, slot: &Slot) {
        let attachments = self.attachments();
        slot.change(Change::Level(attachments.level()));
        drop(attachments);
        slot.run_changes();
    }
}

fn reason(peer: &PeerReport) -> Option<&str> {
    peer.reason.as_deref()
}

fn own_reason(peer: &PeerReport) -> Option<&str> {
    peer.own_reason.as_deref()
}

impl Slot {
    pub(crate) fn is_ready(&self) -> bool {
        let is_ready = self.guarded(|provider| provider.is_ready());
        is_ready.unwrap_or_default()
    }

    /// When a list waited for it for the first time, which may be now.
    fn awaited_since(&self, now: Instant) -> Instant {
        let mut is_first = false;
        let since = *self.awaited.get_or_init(|| {
            is_first = true;
            now
        });
        if is_first {
            self.guarded(|provider| provider.list_wanted());
        }
        since
    }

    async fn ready(&self) {
        let mut catalog = self.catalog.clone();
        loop {
            catalog.mark_unchanged();
            if self.is_ready() || catalog.changed().await.is_err() {
                return;
            }
        }
    }
}
