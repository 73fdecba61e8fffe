//! Results of read-only tools, kept for a while for the same caller.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use orchestra_hub::{Cx, SessionName};
use orchestra_wire::{Era, RawJson};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::canonical;

/// Results that are kept, and how large all and each of them may be.
const MAX_RESULTS: usize = 512;
const MAX_BYTES: usize = 16 * 1024 * 1024;
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// Names a call: which server in which version, which tool with which arguments, and who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

/// Results of one server.
#[derive(Debug)]
pub(crate) struct Cache {
    ttl: Duration,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    results: HashMap<Key, (RawJson, Instant)>,
    /// In the order in which they came.
    order: VecDeque<Key>,
    bytes: usize,
    /// How often all were forgotten.
    age: u64,
}

/// A call that may change what results say: none that was asked for before its end is kept.
#[derive(Debug)]
pub(crate) struct Change<'a>(&'a Cache);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl Key {
    /// `None` when the arguments cannot be read, or when the client may have other roots in each call.
    pub(crate) fn of(version: &str, tool: &str, arguments: &RawJson, cx: &Cx) -> Option<Self> {
        if cx.features.roots && cx.era == Some(Era::Stateless) {
            return None;
        }
        let arguments = canonical::text(&arguments.parse::<Value>().ok()?);
        let client = cx.caller.client.as_deref().unwrap_or_default();
        let mut digest = Sha256::new();
        let along = &cx.along;
        let session = along.session.as_ref().map_or("", SessionName::as_str);
        let by = along.by.as_deref().unwrap_or_default();
        for part in [
            version,
            tool,
            &arguments,
            cx.caller.face,
            client,
            session,
            by,
        ] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        }
        digest.update(cx.connection.to_le_bytes());
        digest.update(cx.roots_version.to_le_bytes());
        Some(Self(digest.finalize().into()))
    }
}

impl Cache {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            kept: Mutex::default(),
        }
    }

    pub(crate) fn find(&self, key: &Key) -> Option<RawJson> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (result, until) = kept.results.get(key)?;
        (*until > Instant::now()).then(|| result.clone())
    }

    /// Which results are current; told to [`keep`](Self::keep) of one that is asked for now.
    pub(crate) fn age(&self) -> u64 {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.age
    }

    /// Keeps a result that was asked for at that age, unless all were forgotten since.
    pub(crate) fn keep(&self, key: Key, age: u64, result: &RawJson) {
        let size = result.as_bytes().len();
        if size > MAX_RESULT_BYTES {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.age != age {
            return;
        }
        let now = Instant::now();
        kept.remove(&key);
        while let Some(oldest) = kept.order.front().copied() {
            let is_over = kept
                .results
                .get(&oldest)
                .is_none_or(|(_, until)| *until <= now);
            let is_full = kept.results.len() >= MAX_RESULTS || kept.bytes + size > MAX_BYTES;
            if !is_over && !is_full {
                break;
            }
            kept.remove(&oldest);
        }
        kept.bytes += size;
        kept.order.push_back(key);
        // A copy of its own, so that it does not keep the message that it came in.
        let result = RawJson::checked(result.as_bytes().to_vec().into());
        if let Ok(result) = result {
            kept.results.insert(key, (result, now + self.ttl));
        }
    }

    /// Forgets all; for when the server was started anew or offers something else.
    pub(crate) fn clear(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Kept {
            age: kept.age + 1,
            ..Kept::default()
        };
    }

    /// Forgets all, now and at the end of a call that may change what they say.
    pub(crate) fn change(&self) -> Change<'_> {
        self.clear();
        Change(self)
    }
}

impl Kept {
    fn remove(&mut self, key: &Key) {
        if let Some((result, _)) = self.results.remove(key) {
            self.bytes -= result.as_bytes().len();
        }
        self.order.retain(|other| other != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> RawJson {
        RawJson::checked(text.to_owned().into()).unwrap()
    }

    #[test]
    fn a_key_is_of_the_caller_and_not_of_the_order_of_arguments() {
        let key = |arguments: &str, connection| {
            let cx = Cx {
                connection,
                ..Cx::default()
            };
            Key::of("1", "t", &json(arguments), &cx)
        };
        assert_eq!(key(r#"{"a":1,"b":2}"#, 1), key(r#"{"b":2, "a":1}"#, 1));
        assert_ne!(key("{}", 1), key("{}", 2));
        assert_ne!(key("{}", 1), key(r#"{"a":1}"#, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_kept_for_a_while_and_not_without_bound() {
        let cache = Cache::new(Duration::from_secs(10));
        let key = |n: u64| Key::of("1", "t", &json(&n.to_string()), &Cx::default()).unwrap();
        cache.keep(key(0), cache.age(), &json("{}"));
        assert_eq!(cache.find(&key(0)), Some(json("{}")));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(cache.find(&key(0)), None);
        let large = json(&format!("\"{}\"", "x".repeat(MAX_RESULT_BYTES - 2)));
        (1..100).for_each(|n| cache.keep(key(n), cache.age(), &large));
        assert!(cache.find(&key(99)).is_some() && cache.find(&key(1)).is_none());
        assert!(cache.kept.lock().unwrap().bytes <= MAX_BYTES);
        let larger = json(&format!("\"{}\"", "x".repeat(MAX_RESULT_BYTES)));
        cache.keep(key(200), cache.age(), &larger);
        assert_eq!(cache.find(&key(200)), None);
        (300..1_000).for_each(|n| cache.keep(key(n), cache.age(), &json("1")));
        assert!(cache.kept.lock().unwrap().results.len() <= MAX_RESULTS);
        cache.clear();
        assert_eq!(cache.find(&key(999)), None);
    }

    #[test]
    fn what_was_asked_for_before_a_change_is_over_is_not_kept() {
        let cache = Cache::new(Duration::from_secs(10));
        let key = |n: u64| Key::of("1", "t", &json(&n.to_string()), &Cx::default()).unwrap();
        cache.keep(key(0), cache.age(), &json("{}"));
        let before = cache.age();
        let change = cache.change();
        assert_eq!(cache.find(&key(0)), None);
        let meanwhile = cache.age();
        cache.keep(key(1), before, &json("{}"));
        cache.keep(key(2), meanwhile, &json("{}"));
        drop(change);
        cache.keep(key(3), meanwhile, &json("{}"));
        for n in 0..4 {
            assert_eq!(cache.find(&key(n)), None, "{n}");
        }
        cache.keep(key(4), cache.age(), &json("{}"));
        assert!(cache.find(&key(4)).is_some());
    }
}
