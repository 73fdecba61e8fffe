//! Facts of a greeting that hold for a whole connection and that callers need in different ways.

use std::hash::{Hash, Hasher};

use orchestra_wire::Era;

use super::{ClientConfig, roots::RootsOffer};

/// Era of a connection, and the roots that its greeting offers. Other features need no connection of
/// their own: they are offered to every server, and a question that the caller cannot answer is refused.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    pub(super) era: Era,
    pub(super) roots: RootsOffer,
}

impl Profile {
    /// Part of the profile that is compared. Each request of the stateless era offers the roots of its own caller, so
    /// that its connections have one profile.
    const fn key(&self) -> (Era, Option<&RootsOffer>) {
        match self.era {
            Era::Stateless => (self.era, None),
            Era::Session => (self.era, Some(&self.roots)),
        }
    }

    /// Returns whether its connections have the roots of some callers alone.
    pub(super) const fn has_own_roots(&self) -> bool {
        matches!(self.key(), (_, Some(RootsOffer::Of(_))))
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Profile {}

impl Hash for Profile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl ClientConfig {
    /// The profile of a connection that is greeted before its first call is known: as the clients need
    /// it that have come. Without clients, each call has the features of its caller.
    pub(super) fn first_profile(&self) -> Profile {
        let (era, roots) = match self.clients() {
            None => (Era::Stateless, self.offers_roots(self.callers_have_roots)),
            Some(clients) => (
                clients.first.unwrap_or(Era::Session),
                self.offers_roots(clients.roots),
            ),
        };
        let roots = match roots {
            true => RootsOffer::Unasked,
            false => RootsOffer::Nothing,
        };
        Profile { era, roots }
    }

    /// Returns whether a server is offered roots, for callers of which some or none have roots.
    pub(super) const fn offers_roots(&self, has_some: bool) -> bool {
        self.features.roots && (has_some || !self.roots.is_empty())
    }
}
