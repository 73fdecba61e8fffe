//! Leaves a server alone for a while that fails call after call.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::{sync::Notify, time::Instant};

use super::{Circuit, ClientError};

/// Counts failures in a row.
#[derive(Debug)]
pub(super) struct Breaker {
    circuit: Circuit,
    state: Mutex<State>,
    /// Whether there is anything but success to think of; spares calls the lock.
    uneasy: AtomicBool,
    /// Rings when calls are refused from now on, or are not any more.
    turned: Notify,
}

/// What becomes of calls now.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    /// They pass.
    Closed,
    /// They are refused until then.
    Open(Instant, Arc<ClientError>),
    /// They pass one at a time, to see whether it is better.
    Tried(Arc<ClientError>),
}

#[derive(Debug)]
enum State {
    /// Calls pass; so many have failed in a row.
    Closed(u32),
    /// Calls are refused until then.
    Open(Instant, Arc<ClientError>),
    /// One call at a time passes; so many have succeeded.
    HalfOpen {
        successes: u32,
        probing: Option<Instant>,
        last: Arc<ClientError>,
    },
}

impl Breaker {
    pub(super) const fn new(circuit: Circuit) -> Self {
        Self {
            circuit,
            state: Mutex::new(State::Closed(0)),
            uneasy: AtomicBool::new(false),
            turned: Notify::const_new(),
        }
    }

    /// Whether a call may be sent.
    ///
    /// # Errors
    /// When the server is left alone now.
    pub(super) fn admit(&self, now: Instant) -> Result<(), ClientError> {
        if !self.uneasy.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.state();
        if let State::Open(until, last) = &*state {
            if now < *until {
                return Err(refused(*until - now, last));
            }
            *state = State::HalfOpen {
                successes: 0,
                probing: None,
                last: Arc::clone(last),
            };
        }
        if let State::HalfOpen { probing, last, .. } = &mut *state {
            // A call that never came back does not close the way for ever.
            let pause = self.circuit.pause;
            if probing.is_some_and(|since| now < since + pause) {
                return Err(refused(pause.min(std::time::Duration::from_secs(1)), last));
            }
            *probing = Some(now);
        }
        Ok(())
    }

    /// A call was answered.
    pub(super) fn success(&self) {
        if !self.uneasy.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state();
        match &mut *state {
            State::Closed(_) => {}
            State::Open(..) => return,
            State::HalfOpen {
                successes, probing, ..
            } => {
                *successes += 1;
                *probing = None;
                if *successes < self.circuit.successes {
                    return;
                }
            }
        }
        *state = State::Closed(0);
        self.uneasy.store(false, Ordering::Release);
        self.turned.notify_one();
    }

    /// A call failed by the server's fault.
    pub(super) fn failure(&self, error: &ClientError, now: Instant) {
        let mut state = self.state();
        self.uneasy.store(true, Ordering::Release);
        let failures = match &*state {
            State::Closed(failures) => failures + 1,
            State::Open(..) => return,
            State::HalfOpen { .. } => self.circuit.failures,
        };
        *state = if failures >= self.circuit.failures {
            self.turned.notify_one();
            State::Open(now + self.circuit.pause, Arc::new(error.clone()))
        } else {
            State::Closed(failures)
        };
    }

    /// A call that passed says nothing: it was cancelled, or never sent.
    pub(super) fn aside(&self) {
        if !self.uneasy.load(Ordering::Acquire) {
            return;
        }
        if let State::HalfOpen { probing, .. } = &mut *self.state() {
            *probing = None;
        }
    }

    /// What becomes of calls, and why.
    pub(super) fn standing(&self, now: Instant) -> Standing {
        match &*self.state() {
            State::Closed(_) => Standing::Closed,
            State::Open(until, last) if now < *until => Standing::Open(*until, Arc::clone(last)),
            State::Open(_, last) | State::HalfOpen { last, .. } => {
                Standing::Tried(Arc::clone(last))
            }
        }
    }

    /// Waits until calls are refused, or are not any more. The time of a refusal passes silently.
    pub(super) async fn turned(&self) {
        self.turned.notified().await;
    }

    /// Forgets all failures.
    pub(super) fn reset(&self) {
        *self.state() = State::Closed(0);
        self.uneasy.store(false, Ordering::Release);
        self.turned.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(retry_in: std::time::Duration, last: &Arc<ClientError>) -> ClientError {
    ClientError::CircuitOpen {
        retry_in,
        last: Some(Arc::clone(last)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Open after 5 failures in a row, half-open after 60 s, closed after 2 successes.
    #[test]
    fn it_opens_half_opens_and_closes() {
        let breaker = Breaker::new(Circuit::default());
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for _ in 0..4 {
            breaker.failure(&ClientError::Closed, start);
        }
        breaker.success();
        for _ in 0..4 {
            breaker.failure(&ClientError::Closed, start);
            assert!(breaker.admit(start).is_ok());
        }
        breaker.failure(&ClientError::Closed, start);
        let refused = breaker.admit(at(1)).unwrap_err();
        assert!(
            matches!(refused, ClientError::CircuitOpen { retry_in, .. } if retry_in == Duration::from_secs(59))
        );
        // One at a time is let through.
        assert!(breaker.admit(at(60)).is_ok());
        assert!(breaker.admit(at(60)).is_err());
        breaker.failure(&ClientError::Closed, at(61));
        assert!(breaker.admit(at(100)).is_err());
        assert!(breaker.admit(at(121)).is_ok());
        breaker.success();
        assert!(breaker.admit(at(122)).is_ok());
        assert!(breaker.admit(at(122)).is_err());
        breaker.success();
        assert!(breaker.admit(at(123)).is_ok() && breaker.admit(at(123)).is_ok());
    }

    #[test]
    fn a_call_that_says_nothing_lets_the_next_try() {
        let breaker = Breaker::new(Circuit::default());
        let now = Instant::now();
        (0..5).for_each(|_| breaker.failure(&ClientError::Closed, now));
        let later = now + Duration::from_secs(60);
        assert!(matches!(breaker.standing(now), Standing::Open(until, _) if until == later));
        assert!(matches!(breaker.standing(later), Standing::Tried(_)));
        assert!(breaker.admit(later).is_ok());
        breaker.aside();
        assert!(breaker.admit(later).is_ok());
        breaker.reset();
        assert!(matches!(breaker.standing(now), Standing::Closed));
        assert!(breaker.admit(later).is_ok());
    }
}
