//! The task that finds the engine of a workspace, starts one where there is none, attends it, and looks
//! whether it answers. What calls may do meanwhile is in `client`.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};
use tonic::Streaming;

use super::{
    client::{Inner, Mode, Ready, lock},
    connection::{Connection, ConnectionError},
    endpoint::Endpoint,
    generated::AttendResponse,
    place::Look,
    spawn::{self, ENDING, Program, Started},
};

/// How often an engine is asked whether it still answers, when it is well and when it is in doubt.
const ASKED_EVERY: Duration = Duration::from_secs(5);
const IN_DOUBT_EVERY: Duration = Duration::from_millis(250);

/// How long one such answer may take, and how long an engine may be in doubt before it is taken to hang:
/// longer than a machine that is out of breath holds a process up.
pub(super) const ANSWER: Duration = Duration::from_secs(1);
const HANGS: Duration = Duration::from_secs(5);

/// How long calls go without an engine that answers, but not them: the longer, the oftener it was so.
const STRIKE: Duration = Duration::from_millis(500);
const MOST_STRIKES: u32 = 6;

/// How long nothing is started after starts that did not help: the longer, the oftener that was so.
const BACK_OFF: Duration = Duration::from_millis(250);
const MOST_STARTS: u32 = 8;

/// An engine that has answered for so long was no vain start.
const GOOD: Duration = Duration::from_secs(30);

/// How often one is looked for that others have to start, or to end.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often one is looked for that has the place and does not say where it listens.
const SILENT_EVERY: Duration = Duration::from_millis(20);
/// The starts of engines.
#[derive(Debug, Default)]
struct Starts {
    /// When the last was.
    last: Option<Instant>,
    /// How many before it did not help for long, one after the other.
    vain: u32,
    /// How many programs did not become an engine: the next is tried.
    failed: usize,
}

impl Starts {
    /// How long to wait before one more.
    fn pause(&mut self, now: Instant) -> Duration {
        let is_vain = |last: Instant| now.saturating_duration_since(last) < GOOD;
        self.vain = match self.last.is_some_and(is_vain) {
            true => (self.vain + 1).min(MOST_STARTS),
            false => 0,
        };
        let pause = match self.vain {
            0 => Duration::ZERO,
            vain => BACK_OFF * (1 << (vain - 1)),
        };
        self.last = Some(now + pause);
        pause
    }
}

/// Why an engine is not attended any more.
enum Parted {
    /// It has ended, or the connection to it.
    Ended,
    /// It is there, and has not answered for long.
    Hangs,
}
impl Inner {
    /// Finds, starts and attends engines, one after the other. Never ends by itself.
    pub(super) async fn follow(self: Arc<Self>) {
        let programs =
            spawn::programs(&self.settings.program, self.settings.search_path.as_deref());
        let (mut starts, mut silent_since) = (Starts::default(), None);
        loop {
            let look = self.place.look();
            if !matches!(look, Ok(Look::Silent)) {
                silent_since = None;
            }
            match look {
                Ok(Look::Told(endpoint)) => self.use_one(&endpoint).await,
                // It is about to say where it listens, or has ceased to.
                Ok(Look::Silent) => {
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    if since.elapsed() < HANGS {
                        sleep(SILENT_EVERY).await;
                    } else {
                        self.away("does not say where it listens");
                        sleep(LOOK_EVERY).await;
                    }
                }
                Ok(Look::Free) if self.settings.starts => {
                    sleep(starts.pause(Instant::now())).await;
                    let place = starts.failed % programs.len();
                    if !self.start_one(&programs[place]).await {
                        starts.failed += 1;
                    }
                }
                Ok(Look::Free) => {
                    self.away("does not run");
                    sleep(LOOK_EVERY).await;
                }
                Err(error) => {
                    self.away(&format!("is not used: {}", chain(&error)));
                    sleep(LOOK_EVERY).await;
                }
            }
        }
    }

    /// Starts an engine; whether one is there then.
    async fn start_one(&self, program: &Program) -> bool {
        let workspace = &self.settings.workspace;
        let told = match Started::start(program, workspace, &self.place) {
            Ok(started) => {
                *lock(&self.started) = Some(started.clone());
                started.until_told(&self.place).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &told {
            self.away(&chain(error));
        }
        told.is_ok()
    }

    /// Uses an engine until it is over with it.
    async fn use_one(&self, endpoint: &Endpoint) {
        if let Err(foreign) = endpoint.check(&self.settings.workspace) {
            self.away(&format!("is not used: {foreign}"));
            sleep(LOOK_EVERY).await;
            return;
        }
        let parted = match self.reach(endpoint).await {
            Ok((ready, stream)) => {
                self.answers(ready.clone());
                self.attend(ready, stream).await
            }
            Err(error) => {
                self.away(&chain(&error));
                self.wait_for(endpoint).await
            }
        };
        self.away(match parted {
            Parted::Ended => "has ended",
            Parted::Hangs => "hangs",
        });
        if matches!(parted, Parted::Hangs) {
            self.kill(endpoint).await;
        }
    }

    /// Connects to an engine, and has this program counted among its clients.
    async fn reach(
        &self,
        endpoint: &Endpoint,
    ) -> Result<(Ready, Streaming<AttendResponse>), ConnectionError> {
        let (mut connection, stats) = Connection::open(endpoint).await?;
        let attended = connection.attend(self.settings.client).await;
        let stream = attended.map_err(ConnectionError::Refused)?;
        let ready = Ready {
            connection,
            is_asked: self.settings.always_asks || !stats.model.is_empty(),
        };
        Ok((ready, stream))
    }

    /// Attends an engine that answers.
    async fn attend(&self, ready: Ready, mut stream: Streaming<AttendResponse>) -> Parted {
        let mut ready = ready;
        loop {
            tokio::select! {
                () = ended(&mut stream) => return Parted::Ended,
                () = self.doubt.notified() => {}
                () = sleep(ASKED_EVERY) => {}
            }
            let (since, strikes) = (Instant::now(), self.strikes.load(Ordering::Relaxed));
            let resting = STRIKE * (1 << strikes.min(MOST_STRIKES)) / 2;
            let is_well = matches!(&*self.mode.borrow(), Mode::Answers(_));
            loop {
                let asked = tokio::select! {
                    () = ended(&mut stream) => return Parted::Ended,
                    asked = timeout(ANSWER, ready.connection.stats()) => asked,
                };
                match asked {
                    Ok(Ok(stats)) if is_well || since.elapsed() >= resting => {
                        ready.is_asked = self.settings.always_asks || !stats.model.is_empty();
                        self.answers(ready.clone());
                        break;
                    }
                    // It answers, but has not answered calls: they go without it for a while.
                    Ok(Ok(_)) => {}
                    Ok(Err(_)) | Err(_) if since.elapsed() > HANGS => return Parted::Hangs,
                    Ok(Err(_)) | Err(_) => self.away("does not answer"),
                }
                tokio::select! {
                    () = ended(&mut stream) => return Parted::Ended,
                    () = sleep(IN_DOUBT_EVERY) => {}
                }
            }
        }
    }

    /// Waits for an engine that has its place and is not reached: until it is, or is gone, or hangs.
    async fn wait_for(&self, endpoint: &Endpoint) -> Parted {
        let since = Instant::now();
        loop {
            sleep(IN_DOUBT_EVERY).await;
            let is_there =
                matches!(self.place.look(), Ok(Look::Told(told)) if told.pid == endpoint.pid);
            if !is_there {
                return Parted::Ended;
            }
            if let Ok((ready, stream)) = self.reach(endpoint).await {
                self.answers(ready.clone());
                return self.attend(ready, stream).await;
            }
            if since.elapsed() > HANGS {
                return Parted::Hangs;
            }
        }
    }

    /// Ends an engine that hangs. It holds the lock of the place, and its process began when its file
    /// says: so it is no other.
    async fn kill(&self, endpoint: &Endpoint) {
        let is_there =
            matches!(self.place.look(), Ok(Look::Told(told)) if told.pid == endpoint.pid);
        match endpoint.process() {
            Some(process) if is_there => {
                tracing::warn!(pid = endpoint.pid, "the memory engine hangs, and is ended");
                process.end(ENDING).await;
            }
            // It cannot be told which process it is, from within a container for instance.
            _ => sleep(LOOK_EVERY).await,
        }
    }
}
/// Waits for the end of a stream that says nothing more.
async fn ended(stream: &mut Streaming<AttendResponse>) {
    while let Ok(Some(_)) = stream.message().await {}
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_that_do_not_help_are_spaced() {
        let (mut starts, mut now) = (Starts::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let pause = starts.pause(now);
            pauses.push(pause.as_millis());
            now += pause + Duration::from_millis(10);
        }
        let expected = [
            0, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000,
        ];
        assert_eq!(pauses[..10], expected);
        assert_eq!(starts.pause(now + GOOD), Duration::ZERO);
    }
}
