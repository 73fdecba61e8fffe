//! Who has a connection to a server of the session era, whose questions say of no call that they
//! belong to it, for themselves: calls of one caller, or calls whose callers cannot be asked anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orchestra_hub::Cx;

use super::Session;
use crate::client::background::ClientKey;

/// Calls that are about to be made.
#[derive(Default)]
pub(super) struct Claims(Mutex<Vec<(ClientKey, bool)>>);

/// Holds the place of one until its call is over.
pub(in crate::client) struct Claim {
    session: Arc<Session>,
    claim: (ClientKey, bool),
}

impl Session {
    /// Whether nobody could tell to whom a question of the server belongs while a call of `cx` is
    /// open.
    pub(in crate::client) fn would_confuse(&self, cx: &Cx) -> bool {
        self.is_confused(&self.claims.all(), cx)
    }

    /// Has the connection for a call of `cx`; `None` when that [would confuse]
    /// (Self::would_confuse).
    pub(in crate::client) fn claim(self: &Arc<Self>, cx: &Cx) -> Option<Claim> {
        let claim = (ClientKey::of(cx), cx.features.any());
        let mut claims = self.claims.all();
        if self.is_confused(&claims, cx) {
            return None;
        }
        claims.push(claim.clone());
        Some(Claim {
            session: Arc::clone(self),
            claim,
        })
    }

    fn is_confused(&self, claims: &[(ClientKey, bool)], cx: &Cx) -> bool {
        let (client, asks) = (ClientKey::of(cx), cx.features.any());
        let mut claims = claims.iter();
        claims.any(|(other, any)| *other != client && (*any || asks))
            || self.calls().values().any(|open| open.confuses(cx))
            || asks && self.background.has_other(&client)
    }
}

impl Claims {
    fn all(&self) -> MutexGuard<'_, Vec<(ClientKey, bool)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = self.session.claims.all();
        let place = claims.iter().position(|claim| *claim == self.claim);
        place.map(|place| claims.swap_remove(place));
    }
}
