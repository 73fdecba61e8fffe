//! What the upstream answered, for as long as it says that it holds.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use bytes::Bytes;
use reqwest::header::{AGE, CACHE_CONTROL, HeaderMap};

/// All that is kept together, in bytes: the alerts of the largest states have a few million.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// Nothing is kept for longer, whatever its headers say.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Answers by their URLs.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    answers: HashMap<String, Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    body: Bytes,
    until: Instant,
}

impl Cache {
    /// The answer of a URL that still holds.
    pub(crate) fn find(&self, url: &str, now: Instant) -> Option<Bytes> {
        let kept = self.answers.get(url)?;
        (now < kept.until).then(|| kept.body.clone())
    }

    /// Keeps an answer. Where there is no room, those go first that end first.
    pub(crate) fn keep(&mut self, url: &str, body: &Bytes, lifetime: Duration, now: Instant) {
        self.remove(url);
        if lifetime.is_zero() || body.len() > MOST_BYTES {
            return;
        }
        while self.bytes + body.len() > MOST_BYTES {
            let first = self.answers.iter().min_by_key(|(_, kept)| kept.until);
            let Some(url) = first.map(|(url, _)| url.clone()) else {
                break;
            };
            self.remove(&url);
        }
        self.bytes += body.len();
        let kept = Kept {
            body: body.clone(),
            until: now + lifetime.min(LONGEST),
        };
        self.answers.insert(url.to_owned(), kept);
    }

    fn remove(&mut self, url: &str) {
        if let Some(kept) = self.answers.remove(url) {
            self.bytes -= kept.body.len();
        }
    }
}

/// For how long an answer holds by its headers (RFC 9111), `unless_told` when they say nothing.
pub(crate) fn lifetime(headers: &HeaderMap, unless_told: Duration) -> Duration {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(control) = text(CACHE_CONTROL) else {
        return unless_told;
    };
    let mut directives = control.split(',').map(str::trim);
    let forbids = |word: &str| ["no-store", "no-cache"].contains(&word);
    if directives.clone().any(forbids) {
        return Duration::ZERO;
    }
    let seconds = |text: &str| text.trim().parse().ok().map(Duration::from_secs);
    let most = directives.find_map(|word| word.strip_prefix("max-age=").and_then(seconds));
    let age = text(AGE).and_then(seconds).unwrap_or_default();
    most.map_or(unless_told, |most| most.saturating_sub(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_for_how_long() {
        let day = Duration::from_secs(86_400);
        for (control, age, expected) in [
            (None, None, 86_400),
            (Some("public"), None, 86_400),
            (Some("public, max-age=30, s-maxage=60"), None, 30),
            (Some("max-age=30"), Some("20"), 10),
            (Some("max-age=30"), Some("40"), 0),
            (Some("max-age=30, no-store"), None, 0),
            (Some("no-cache"), None, 0),
        ] {
            let mut headers = HeaderMap::new();
            let said = [(CACHE_CONTROL, control), (AGE, age)];
            for (name, value) in said.into_iter().filter_map(|(n, v)| Some((n, v?))) {
                headers.insert(name, value.parse().unwrap());
            }
            let lifetime = lifetime(&headers, day);
            assert_eq!(lifetime.as_secs(), expected, "{control:?} {age:?}");
        }
    }

    #[test]
    fn what_ends_first_makes_room() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let half = Bytes::from(vec![b' '; MOST_BYTES / 2]);
        for (url, seconds) in [("a", 20), ("b", 10), ("c", 30)] {
            cache.keep(url, &half, Duration::from_secs(seconds), now);
        }
        assert!(cache.find("a", now).is_some());
        assert!(cache.find("b", now).is_none(), "it ended first");
        let later = now + Duration::from_secs(25);
        assert!(cache.find("a", later).is_none(), "it has ended");
        assert!(cache.find("c", later).is_some());
        let huge = Bytes::from(vec![b' '; MOST_BYTES + 1]);
        cache.keep("c", &huge, Duration::from_secs(30), now);
        assert!(
            cache.find("c", now).is_none(),
            "what is too large replaces nothing"
        );
        cache.keep("a", &half, Duration::ZERO, now);
        assert_eq!(cache.bytes, 0);
    }
}
