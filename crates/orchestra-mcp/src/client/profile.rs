//! Facts of a greeting that hold for a whole connection and that callers need in different ways.

use orchestra_hub::Cx;
use orchestra_wire::Era;

use super::ClientConfig;

/// Era of a connection, and whether its greeting offers roots. Other features need no connection of
/// their own: they are offered to every server, and a question that the caller cannot answer is refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Profile {
    pub(super) era: Era,
    pub(super) roots: bool,
}

impl Profile {
    /// Number of profiles that differ.
    pub(super) const COUNT: usize = 3;

    /// Place of the profile among all. Each request of the stateless era offers the roots of its own
    /// caller, so that its connections have one profile.
    pub(super) const fn index(self) -> usize {
        match (self.era, self.roots) {
            (Era::Stateless, _) => 0,
            (Era::Session, false) => 1,
            (Era::Session, true) => 2,
        }
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        self.index() == other.index()
    }
}

impl ClientConfig {
    /// The profile of a connection to a server that speaks `era` for a call of a client.
    pub(super) fn profile_of(&self, cx: &Cx, era: Era) -> Profile {
        let roots = self.offers_roots(cx.features.roots);
        Profile { era, roots }
    }

    /// The profile of a connection that is greeted before its first call is known: as the clients need
    /// it that have come. Without clients, each call has the features of its caller.
    pub(super) fn first_profile(&self) -> Profile {
        let Some(clients) = self.clients() else {
            let (era, roots) = (Era::Stateless, self.features.roots);
            return Profile { era, roots };
        };
        Profile {
            era: clients.first.unwrap_or(Era::Session),
            roots: self.offers_roots(clients.roots),
        }
    }

    const fn offers_roots(&self, has_some: bool) -> bool {
        self.features.roots && (has_some || !self.roots.is_empty())
    }
}
