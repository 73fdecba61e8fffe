//! Which request an answer belongs to, and how long it took.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestra_wire::RequestId;

use super::record::Direction;

/// Requests that are remembered; answers of more are recorded without method and time.
const MOST: usize = 16 * 1024;

/// Requests that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Pairing(HashMap<(Arc<str>, Direction, RequestId), (String, Instant)>);

impl Pairing {
    /// A request passed.
    pub(super) fn asked(
        &mut self,
        server: &Arc<str>,
        direction: Direction,
        id: RequestId,
        method: &str,
        at: Instant,
    ) {
        if self.0.len() < MOST {
            let key = (Arc::clone(server), direction, id);
            self.0.insert(key, (method.to_owned(), at));
        }
    }

    /// An answer passed: the method of its request, and the time between them.
    pub(super) fn answered(
        &mut self,
        server: &Arc<str>,
        direction: Direction,
        id: RequestId,
        at: Instant,
    ) -> Option<(String, Duration)> {
        let key = (Arc::clone(server), direction.back(), id);
        let (method, asked) = self.0.remove(&key)?;
        Some((method, at.saturating_duration_since(asked)))
    }
}
