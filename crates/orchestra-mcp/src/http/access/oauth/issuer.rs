//! The keys of one issuer over time: fetched when they are first needed, again when they are old or
//! when a key is asked for that is not among them, and kept while the issuer is down.
//!
//! What is known is answered at once, whatever happens to the issuer. Whoever asks for what is not
//! waits for the one request that is on its way.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use reqwest::Client;
use tokio::{sync::watch, task::AbortHandle, time::timeout};

use super::{
    Denied, TrustedIssuer,
    fetch::{self, ClientError, FetchError},
    jwt::Jwt,
    keys::Keys,
};
use crate::causes::with_causes;

/// How long asking an issuer may take in all, whatever it answers from where.
const FETCH_TIME: Duration = Duration::from_secs(10);

/// When issuers are asked for their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTimes {
    /// After which time keys are fetched again. Until then a key that the issuer took back is still
    /// trusted.
    pub fresh: Duration,
    /// How long an issuer is left alone after it was asked, whatever is asked of us.
    pub pause: Duration,
    /// For how long keys are used while the issuer does not answer.
    pub kept: Duration,
}

impl Default for KeyTimes {
    fn default() -> Self {
        Self {
            fresh: Duration::from_secs(10 * 60),
            pause: Duration::from_secs(5),
            kept: Duration::from_secs(4 * 60 * 60),
        }
    }
}

/// One issuer. Dropping it ends the request that is on its way.
pub(super) struct Issuer(Arc<Shared>);

struct Shared {
    issuer: TrustedIssuer,
    client: Client,
    times: KeyTimes,
    state: Mutex<State>,
    /// How often an answer has come, or the lack of one.
    answers: watch::Sender<u64>,
}

/// Keys that an issuer has, and which they are since we began.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) keys: Arc<Keys>,
    pub(super) edition: u64,
    fetched: Instant,
}

#[derive(Debug, Default)]
struct State {
    held: Option<Held>,
    edition: u64,
    /// When the issuer was last asked.
    asked: Option<Instant>,
    /// The request that is on its way.
    asking: Option<AbortHandle>,
    /// Whether the last answer was of use.
    has_failed: bool,
}

/// What to do about a key that is not held.
#[derive(Debug, PartialEq, Eq)]
enum Lack {
    /// Wait for the request that is on its way.
    Wait,
    /// Ask.
    Ask,
    /// Nobody has it; the issuer was asked a moment ago.
    Unknown,
    /// The issuer could not be asked a moment ago; it is asked again after this time.
    Unreachable(Duration),
}

impl Issuer {
    /// # Errors
    /// When this machine knows no certificates to trust.
    pub(super) fn new(issuer: TrustedIssuer, times: KeyTimes) -> Result<Self, ClientError> {
        Ok(Self(Arc::new(Shared {
            client: fetch::client(&issuer)?,
            issuer,
            times,
            state: Mutex::default(),
            answers: watch::Sender::new(0),
        })))
    }

    /// Whether it is the one of a name.
    pub(super) fn is(&self, name: &str) -> bool {
        self.0.issuer.url.as_str() == name
    }

    /// The keys that are held. If they are old, the issuer is asked for new ones meanwhile.
    pub(super) fn held(&self, now: Instant) -> Option<Held> {
        let mut state = self.0.lock();
        let held = state.held(now, &self.0.times)?;
        if state.is_due(now, &self.0.times) {
            self.ask(&mut state, now);
        }
        Some(held)
    }

    /// Keys with the one that may have signed a token.
    ///
    /// # Errors
    /// When the issuer has none, or does not say.
    pub(super) async fn keys_for(&self, token: &Jwt<'_>) -> Result<Held, Denied> {
        let knows = |held: &Held| token.is_known_to(&held.keys);
        let now = Instant::now();
        if let Some(held) = self.held(now).filter(knows) {
            return Ok(held);
        }
        let mut answers = self.0.answers.subscribe();
        {
            let mut state = self.0.lock();
            // It may have come since.
            if let Some(held) = state.held(now, &self.0.times).filter(knows) {
                return Ok(held);
            }
            match state.lack(now, &self.0.times) {
                Lack::Wait => {}
                Lack::Ask => self.ask(&mut state, now),
                Lack::Unknown => return Err(Denied::Key),
                Lack::Unreachable(wait) => return Err(Denied::Unreachable(wait)),
            }
            answers.mark_unchanged();
        }
        let has_answered = timeout(FETCH_TIME, answers.changed()).await.is_ok();
        let mut state = self.0.lock();
        let now = Instant::now();
        match state.held(now, &self.0.times).filter(knows) {
            Some(held) => Ok(held),
            None if state.has_failed || !has_answered => {
                Err(Denied::Unreachable(self.0.times.pause))
            }
            None => Err(Denied::Key),
        }
    }

    fn ask(&self, state: &mut State, now: Instant) {
        let shared = Arc::clone(&self.0);
        state.asked = Some(now);
        let task = tokio::spawn(async move {
            let keys = timeout(FETCH_TIME, fetch::keys(&shared.client, &shared.issuer)).await;
            shared.take(keys.unwrap_or(Err(FetchError::Slow)));
        });
        state.asking = Some(task.abort_handle());
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        if let Some(task) = self.0.lock().asking.take() {
            task.abort();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, answer: Result<Keys, FetchError>) {
        let issuer = &self.issuer.url;
        match &answer {
            Ok(_) => tracing::debug!(%issuer, "fetched the issuer's keys"),
            Err(error) => {
                let error = with_causes(error);
                tracing::warn!(%issuer, error, "cannot fetch the issuer's keys");
            }
        }
        self.lock().take(answer.ok(), Instant::now());
        self.answers.send_modify(|answers| *answers += 1);
    }
}

impl State {
    /// The keys that may still be used.
    fn held(&mut self, now: Instant, times: &KeyTimes) -> Option<Held> {
        let is_of_use = |held: &Held| now.saturating_duration_since(held.fetched) < times.kept;
        self.held = self.held.take().filter(is_of_use);
        self.held.clone()
    }

    /// Whether the keys are old, and the issuer may be asked for new ones.
    fn is_due(&self, now: Instant, times: &KeyTimes) -> bool {
        let is_old = |held: &Held| now.saturating_duration_since(held.fetched) >= times.fresh;
        self.held.as_ref().is_some_and(is_old)
            && !self.is_asking()
            && self.pause(now, times).is_zero()
    }

    /// What to do about a key that is not held.
    fn lack(&self, now: Instant, times: &KeyTimes) -> Lack {
        if self.is_asking() {
            return Lack::Wait;
        }
        match self.pause(now, times) {
            Duration::ZERO => Lack::Ask,
            wait if self.has_failed => Lack::Unreachable(wait),
            _ => Lack::Unknown,
        }
    }

    fn is_asking(&self) -> bool {
        let task = self.asking.as_ref();
        task.is_some_and(|task| !task.is_finished())
    }

    /// How long the issuer is still left alone.
    fn pause(&self, now: Instant, times: &KeyTimes) -> Duration {
        let since = self.asked.map(|asked| now.saturating_duration_since(asked));
        since.map_or(Duration::ZERO, |since| times.pause.saturating_sub(since))
    }

    /// What the issuer has answered, if anything of use.
    fn take(&mut self, keys: Option<Keys>, now: Instant) {
        self.asking = None;
        self.has_failed = keys.is_none();
        let Some(keys) = keys else {
            return;
        };
        let same = self.held.take().filter(|held| *held.keys == keys);
        self.held = Some(match same {
            Some(held) => Held {
                fetched: now,
                ..held
            },
            None => {
                self.edition += 1;
                Held {
                    keys: Arc::new(keys),
                    edition: self.edition,
                    fetched: now,
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: KeyTimes = KeyTimes {
        fresh: Duration::from_secs(100),
        pause: Duration::from_secs(5),
        kept: Duration::from_secs(1_000),
    };

    /// Some keys, which differ by the number.
    fn keys(number: u8) -> Keys {
        let key = base64::Engine::encode(
            &base64::engine::general_purpose::URL_SAFE_NO_PAD,
            [number; 32],
        );
        let key = serde_json::json!({"kty": "OKP", "crv": "Ed25519", "x": key});
        let document = serde_json::json!({"keys": [key]});
        Keys::parse(document.to_string().as_bytes()).unwrap()
    }

    struct Clock(Instant, State);

    impl Clock {
        fn at(&self, seconds: u64) -> Instant {
            self.0 + Duration::from_secs(seconds)
        }

        fn edition(&mut self, seconds: u64) -> Option<u64> {
            let now = self.at(seconds);
            self.1.held(now, &TIMES).map(|held| held.edition)
        }

        fn answer(&mut self, seconds: u64, keys: Option<Keys>) {
            let now = self.at(seconds);
            self.1.asked = Some(now);
            self.1.take(keys, now);
        }

        fn lack(&self, seconds: u64) -> Lack {
            self.1.lack(self.at(seconds), &TIMES)
        }

        fn is_due(&self, seconds: u64) -> bool {
            self.1.is_due(self.at(seconds), &TIMES)
        }
    }

    #[test]
    fn keys_are_asked_for_again_when_they_are_old_and_kept_while_nobody_answers() {
        let mut clock = Clock(Instant::now(), State::default());
        assert_eq!(clock.lack(0), Lack::Ask);
        clock.answer(0, Some(keys(1)));
        assert_eq!(clock.edition(99), Some(1));
        assert!(!clock.is_due(99));
        assert!(clock.is_due(100));
        clock.answer(100, None);
        assert!(!clock.is_due(104), "it is left alone for a moment");
        assert!(clock.is_due(105));
        assert_eq!(clock.edition(999), Some(1));
        assert_eq!(clock.edition(1_000), None, "nobody vouches for them now");
        clock.answer(1_001, Some(keys(2)));
        assert_eq!(clock.edition(1_001), Some(2));
        clock.answer(1_101, Some(keys(2)));
        assert_eq!(clock.edition(1_101), Some(2), "the same keys");
        assert!(!clock.is_due(1_200));
    }

    #[test]
    fn whoever_asks_for_unknown_keys_does_not_make_us_ask_more_often() {
        let mut clock = Clock(Instant::now(), State::default());
        clock.answer(0, None);
        let wait = Duration::from_secs(1);
        assert_eq!(clock.lack(4), Lack::Unreachable(wait));
        assert_eq!(clock.lack(5), Lack::Ask);
        clock.answer(5, Some(keys(1)));
        assert_eq!(clock.lack(9), Lack::Unknown);
        assert_eq!(clock.lack(10), Lack::Ask);
    }
}
