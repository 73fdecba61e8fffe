//! How long somebody is kept waiting for a model: not for as long as that takes.
//!
//! Whoever asks says how long they wait, and is told before that time is over that there is no answer
//! yet. The model goes on, so that the same query has one soon.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use tonic::{Status, metadata::MetadataMap};

/// How many ask the model at once, each on a thread that may block.
const AT_ONCE: usize = 8;

/// How long is waited while the model is late with another query: as long as it takes to look up what it
/// has understood already.
const WHILE_LATE: Duration = Duration::from_millis(30);

/// Where a call says how long its caller waits: at most eight digits and a unit.
const TIMEOUT: &str = "grpc-timeout";

/// Those who ask the model. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    turns: Arc<Semaphore>,
    late: Arc<AtomicUsize>,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            late: Arc::default(),
        }
    }

    /// Asks the model, for as long as the caller waits; what is not answered by then goes on.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce() -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let is_late = self.late.load(Ordering::Relaxed) > 0;
        let until = Instant::now() + within.min(if is_late { WHILE_LATE } else { Duration::MAX });
        // Where many ask at once, most turns are over in a moment.
        let turn = timeout_at(until, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(not_yet());
        };
        let mut asked = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        if let Ok(answer) = timeout_at(until, &mut asked).await {
            return answer
                .unwrap_or_else(|_| Err(Status::internal("an internal error stopped this call")));
        }
        let late = Arc::clone(&self.late);
        late.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            // Whatever became of it, it is over.
            let _ = asked.await;
            late.fetch_sub(1, Ordering::Relaxed);
        });
        Err(not_yet())
    }
}

fn not_yet() -> Status {
    Status::failed_precondition(
        "the model takes longer than the time limit; repeat the query for an answer of the model",
    )
}

/// How long a caller is kept waiting: most of what it says that it waits, so that it hears of it.
pub(crate) fn of_call(metadata: &MetadataMap, most: Duration) -> Duration {
    let given = metadata.get(TIMEOUT).and_then(|value| value.to_str().ok());
    let given = given.and_then(parse).map_or(most, |given| given / 5 * 4);
    given.min(most)
}

fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use futures_util::future::join_all;

    use super::*;

    #[test]
    fn how_long_a_caller_waits_is_read_from_its_call() {
        let most = Duration::from_secs(20);
        for (text, expected) in [
            ("150000u", Duration::from_millis(120)),
            ("5S", Duration::from_secs(4)),
            ("100m", Duration::from_millis(80)),
            ("99999999H", most),
            ("", most),
            ("S", most),
            ("1s", most),
            ("-1S", most),
            ("123456789S", most),
        ] {
            let mut metadata = MetadataMap::new();
            metadata.insert(TIMEOUT, text.parse().unwrap());
            assert_eq!(of_call(&metadata, most), expected, "{text}");
        }
        assert_eq!(of_call(&MetadataMap::new(), most), most);
    }

    #[tokio::test]
    async fn who_is_late_keeps_its_turn_and_there_are_not_too_many() {
        let (waiting, moment) = (Waiting::new(), Duration::from_millis(1));
        let mut held = Vec::new();
        for _ in 0..AT_ONCE {
            let (go, wait) = mpsc::channel::<()>();
            held.push(go);
            let asked = waiting.ask(moment, move || {
                // The other side was dropped.
                let _ = wait.recv();
                Ok(())
            });
            assert_eq!(asked.await.unwrap_err().message(), not_yet().message());
        }
        let refused = waiting.ask(moment, || Ok(())).await;
        assert!(refused.is_err());
        drop(held);
        // All have ended when all have their turn again.
        let all = u32::try_from(AT_ONCE).unwrap();
        let all = waiting.turns.acquire_many(all).await.unwrap();
        drop(all);
        waiting
            .ask(Duration::from_secs(60), || Ok(()))
            .await
            .unwrap();
    }
    #[tokio::test]
    async fn who_comes_when_all_turns_are_taken_waits_for_one() {
        let (waiting, long) = (Waiting::new(), Duration::from_secs(60));
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let asked = (0..=AT_ONCE).map(|_| {
            let wait = Arc::clone(&wait);
            waiting.ask(long, move || {
                // The other side was dropped.
                let _ = wait.lock().unwrap().recv_timeout(Duration::from_secs(60));
                Ok(())
            })
        });
        let asked = join_all(asked);
        tokio::pin!(asked);
        tokio::select! {
            biased;
            _ = &mut asked => panic!("nobody was let"),
            () = tokio::task::yield_now() => {}
        }
        drop(go);
        assert!(asked.await.into_iter().all(|answer| answer.is_ok()));
    }
}
