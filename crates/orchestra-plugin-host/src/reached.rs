//! Which orchestrators are reached from here, directly and through others. Two that reached each
//! other would list each other's tools, and those of the other's, without end; so whoever is about
//! to close a circle is refused.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::link::random_id;

/// The most instances that are told to others; a chain that long is none that anybody builds.
const MAX_TOLD: usize = 64;

/// Which orchestrators an orchestrator reaches. Clones are the same.
#[derive(Debug, Clone)]
pub struct Reached(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    own: String,
    /// What each connection leads to.
    reached: Mutex<HashMap<u64, Vec<String>>>,
}

impl Default for Reached {
    fn default() -> Self {
        Self(Arc::new(Inner {
            own: random_id(),
            reached: Mutex::default(),
        }))
    }
}

impl Reached {
    /// What tells this orchestrator from every other one.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.0.own
    }

    /// The instances that are reached, as others are told.
    pub(crate) fn told(&self) -> String {
        let reached = self.reached();
        let mut all: Vec<&str> = reached.values().flatten().map(String::as_str).collect();
        all.sort_unstable();
        all.dedup();
        all.truncate(MAX_TOLD);
        all.join(",")
    }

    /// Whether an orchestrator that says this of itself is, or reaches, this one.
    pub(crate) fn is_among(&self, instance: &str, reaches: &str) -> bool {
        instance == self.0.own || reaches.split(',').any(|other| other == self.0.own)
    }

    /// Notes what a connection leads to, until what is given back is dropped.
    pub(crate) fn enter(&self, instance: &str, reaches: &str) -> Entered {
        let all = [instance].into_iter().chain(reaches.split(','));
        let all = all.filter(|one| !one.is_empty()).take(MAX_TOLD);
        let mut reached = self.reached();
        let number = (0..).find(|number| !reached.contains_key(number));
        let number = number.unwrap_or_default();
        reached.insert(number, all.map(str::to_owned).collect());
        Entered {
            reached: self.clone(),
            number,
        }
    }

    fn reached(&self) -> MutexGuard<'_, HashMap<u64, Vec<String>>> {
        self.0
            .reached
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that leads somewhere.
#[derive(Debug)]
pub(crate) struct Entered {
    reached: Reached,
    number: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.reached.reached().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_reached_is_told_until_the_connection_ends() {
        let here = Reached::default();
        assert_eq!(here.told(), "");
        let first = here.enter("b", "c,d");
        let second = here.enter("b", "");
        assert_eq!(here.told(), "b,c,d");
        drop(first);
        assert_eq!(here.told(), "b");
        drop(second);
        assert_eq!(here.told(), "");
        let own = here.instance().to_owned();
        assert!(here.is_among(&own, "") && here.is_among("b", &format!("c,{own}")));
        assert!(!here.is_among("b", "c"));
    }
}
