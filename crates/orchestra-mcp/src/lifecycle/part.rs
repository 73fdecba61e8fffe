//! What is served beside a server and has a life of its own, as the runner of plans has.

use std::{fmt, sync::Arc};

use super::{ServerLifecycle, ServerStatus, lock};

/// How something stands that lives beside a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPart {
    /// What it is.
    pub name: &'static str,
    /// Where it is reached.
    pub endpoint: String,
    /// How it is.
    pub status: ServerStatus,
    /// What it waits for, in words that anyone may read.
    pub reason: Option<&'static str>,
}

/// Looks how a part stands. Clones look at the same.
#[derive(Clone)]
pub struct PartLook(Arc<dyn Fn() -> ServerPart + Send + Sync>);

impl PartLook {
    /// Looks by `look`, which must not block.
    pub fn new(look: impl Fn() -> ServerPart + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    /// How the part stands now.
    #[must_use]
    pub fn look(&self) -> ServerPart {
        (self.0)()
    }
}

impl fmt::Debug for PartLook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartLook").field(&self.look()).finish()
    }
}

impl ServerLifecycle {
    /// Has [`parts`](Self::parts) tell of one more.
    pub fn add_part(&self, part: PartLook) {
        lock(&self.0.parts).push(part);
    }

    /// How everything stands that lives beside the server, in the order in which it was added.
    #[must_use]
    pub fn parts(&self) -> Vec<ServerPart> {
        let looks = lock(&self.0.parts).clone();
        looks.iter().map(PartLook::look).collect()
    }
}
