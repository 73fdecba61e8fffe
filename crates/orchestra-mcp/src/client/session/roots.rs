//! Roots of a session: which callers it fits, and what its server is answered.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use orchestra_hub::{Cx, ListKind};
use orchestra_wire::{Era, RawJson};

use super::{Session, spawn};
use crate::client::{
    ServerCall,
    open::OpenCall,
    profile::Profile,
    roots::{Fit, Roots, RootsNeeded, RootsOffer, may_be_asked},
};

/// Longest time for which a new session waits for a request for roots that its server sends at its start.
const SETTLING: Duration = Duration::from_secs(1);

impl Session {
    /// Waits until the server has what it asked after the last message: servers ask for roots when they
    /// are initialized or notified of a change, and answer a `ping` after that. So a call that follows
    /// finds them with their roots.
    pub(super) async fn settle_roots(self: &Arc<Self>) {
        if self.config.clients.is_none() {
            return;
        }
        let settled = async {
            let _ = self.ask("ping", None).await;
            self.mailbox.empty(self);
            self.mailbox.answered().await;
        };
        // A server that does not answer is called as it is.
        let _ = tokio::time::timeout(SETTLING, settled).await;
    }

    /// The roots that a connection for a call offers.
    pub(super) fn wanted_roots(
        &self,
        call: &ServerCall,
        era: Era,
    ) -> Result<RootsOffer, RootsNeeded> {
        let has_some = call.cx.features.roots;
        if !self.config.offers_roots(has_some) {
            return Ok(RootsOffer::Nothing);
        }
        if era == Era::Stateless || !self.client_roots.are_asked() {
            return Ok(RootsOffer::Unasked);
        }
        if !has_some {
            return Ok(RootsOffer::Of(Roots::of(&self.config.roots)));
        }
        match self.client_roots.of(&call.cx) {
            Some(roots) => Ok(RootsOffer::Of(roots)),
            None if may_be_asked(call) => Err(RootsNeeded),
            None => Ok(RootsOffer::Nothing),
        }
    }

    /// Returns whether the connection has a profile. One that offers roots which are given to no client
    /// yet gets those of the caller.
    pub(in crate::client) fn fits(&self, wanted: &Profile, cx: &Cx) -> bool {
        let mine = &self.greeted.roots;
        match (wanted.era, &wanted.roots) {
            (era, _) if era != self.era() => false,
            (Era::Stateless, _) => true,
            (Era::Session, RootsOffer::Nothing) => *mine == RootsOffer::Nothing,
            (Era::Session, _) if *mine == RootsOffer::Nothing => false,
            (Era::Session, RootsOffer::Unasked) => self.given.is_free(),
            // Calls of other clients would go on with roots that are not theirs.
            (Era::Session, RootsOffer::Of(_)) if self.given.is_free() && self.would_confuse(cx) => {
                false
            }
            (Era::Session, RootsOffer::Of(roots)) => match self.given.fit(roots, cx) {
                Fit::Not => false,
                Fit::Same => true,
                Fit::Changed => {
                    self.roots_changes.fetch_add(1, Ordering::Release);
                    true
                }
            },
        }
    }

    /// Notifies the server of roots that have changed. Its lists count as changed after that. If the future is dropped,
    /// the next call notifies the server again.
    pub(in crate::client) async fn notify_roots(self: &Arc<Self>) {
        // single-flight: a call that follows finds the server with the new roots.
        let mut notified = self.roots_turn.lock().await;
        let changes = self.roots_changes.load(Ordering::Acquire);
        if *notified != changes {
            let method = "notifications/roots/list_changed";
            // The end of the link is an answer to the call.
            let _ = self.link.notify(method, None).await;
            self.settle_roots().await;
            // The server may list something else now, without reporting it.
            let kinds = ListKind::ALL.into_iter();
            kinds.for_each(|kind| self.list_changed(kind));
            *notified = changes;
        }
    }

    /// Gives a session that a client alone uses the roots that the client has now, and notifies the server of them.
    pub(in crate::client) fn change_roots(self: &Arc<Self>, client: u64, roots: &Roots) {
        if self.given.change(client, roots) {
            self.roots_changes.fetch_add(1, Ordering::Release);
            let session = Arc::clone(self);
            spawn(async move { session.notify_roots().await });
        }
    }

    /// Returns whether a client alone uses the roots of the session.
    pub(in crate::client) fn has_roots_of(&self, client: u64) -> bool {
        self.given.is_of(client)
    }

    /// Returns whether the session has roots that no client uses yet.
    pub(in crate::client) fn has_unused_roots(&self) -> bool {
        self.given.is_unused()
    }

    /// Roots of the clients to which the lists of the session belong; `None` where the session has none, or
    /// those that are configured for all.
    pub(in crate::client) fn client_roots(&self) -> Option<Roots> {
        let is_configured = |roots: &Roots| {
            !self.config.roots.is_empty() && *roots == Roots::of(&self.config.roots)
        };
        let roots = self.given.roots().filter(|_| self.config.clients.is_some());
        roots.filter(|roots| !is_configured(roots))
    }

    /// Returns whether the roots of a session are those of clients that alone may use it.
    pub(in crate::client) fn has_own_roots(&self) -> bool {
        self.era() == Era::Session && self.given.is_taken()
    }

    /// Returns whether a call can use the session in the era that it speaks; its client is a user of the session from
    /// then on. Where its connections have a profile, only calls that need this profile can. A session that no client
    /// uses yet may have been opened for an earlier profile, and gets the roots of the present one.
    ///
    /// # Errors
    /// When the client must be asked for its roots first.
    pub(in crate::client) fn admits(
        &self,
        call: &ServerCall,
        profile: Option<&Profile>,
    ) -> Result<bool, RootsNeeded> {
        let has_clients = self.config.clients.is_some();
        if !has_clients || call.cx.era.is_none() && !self.given.is_taken() {
            return Ok(true);
        }
        let era = self.era();
        let roots = self.wanted_roots(call, era)?;
        let wanted = Profile { era, roots };
        if let Some(profile) = profile {
            if *profile != wanted {
                return Ok(false);
            }
            if let RootsOffer::Of(roots) = &wanted.roots
                && self.given.renew(roots)
            {
                self.roots_changes.fetch_add(1, Ordering::Release);
            }
        }
        Ok(self.fits(&wanted, &call.cx))
    }

    /// Answers a request for roots, or returns the call whose client is to be asked. The roots of a client without a
    /// session are those of one call, and leave the session as it is.
    pub(in crate::client) fn roots_for_server(
        &self,
        find: impl FnOnce() -> Result<Arc<OpenCall>, String>,
    ) -> Result<Arc<OpenCall>, Result<RawJson, String>> {
        if let Some(roots) = self.given.roots() {
            self.client_roots.note_asked();
            return Err(Ok(roots.answer()));
        }
        let found = find();
        let is_of_session = match &found {
            Ok(open) => open.is_of_session,
            Err(_) => {
                let open = self.calls();
                open.is_empty() || open.values().any(|open| open.is_of_session)
            }
        };
        let is_kept = is_of_session && self.config.clients.is_some();
        if is_of_session {
            self.client_roots.note_asked();
        }
        let is_offered = self.greeted.roots != RootsOffer::Nothing;
        match found {
            Ok(_) if is_kept && !(is_offered && self.given.ask()) => {
                Err(Err("other clients may use the session".to_owned()))
            }
            Ok(open) => Ok(open),
            Err(why) => {
                let configured = Roots::of(&self.config.roots);
                let is_configured = !self.config.roots.is_empty();
                if is_configured && (!is_kept || self.given.give(&configured)) {
                    return Err(Ok(configured.answer()));
                }
                if is_of_session {
                    self.given.refuse();
                }
                Err(Err(why))
            }
        }
    }

    /// Takes the roots that a client was asked for, if it has answered.
    pub(in crate::client) fn roots_answered(&self, answer: Option<(&Cx, &RawJson)>) {
        if self.config.clients.is_none() {
            return;
        }
        let answer = answer.map(|(cx, answer)| (cx, Roots::of_answer(answer)));
        if let Some((cx, roots)) = &answer {
            self.client_roots.learn(cx, roots);
        }
        self.given
            .answered(answer.as_ref().map(|(cx, roots)| (*cx, roots)));
    }
}
