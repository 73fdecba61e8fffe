//! The task that finds the engine of a workspace, starts one where there is none, attends it, and looks
//! whether it answers. What calls may do meanwhile is in `client`.

use std::{
    mem, panic,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use orchestra_place::Leader;
use orchestra_remote::with_causes;
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};
use tonic::Streaming;

use super::{
    client::{Inner, Mode, Ready, lock},
    connection::{Connection, ConnectionError, is_an_answer},
    endpoint::{Endpoint, check_path},
    generated::{AttendResponse, StatsResponse},
    meaning::OPENING,
    program::{self, Answers, NoEngine},
    spawn::{ENDING, StartError, Started},
};

/// How often an engine is asked whether it still answers, when it is well and when it is in doubt.
const ASKED_EVERY: Duration = Duration::from_secs(5);
const IN_DOUBT_EVERY: Duration = Duration::from_millis(250);

/// How often while it opens its model: a damaged one is told before the next call is made.
const OPENING_EVERY: Duration = Duration::from_millis(200);

/// How long one such answer may take, and how long an engine may be in doubt before it is taken to hang:
/// longer than a machine that is out of breath holds a process up.
const ANSWER: Duration = Duration::from_secs(1);
const HANGS: Duration = Duration::from_secs(5);

/// So many questions must be without an answer as well: a program that was itself held up finds one.
const MOST_UNANSWERED: u32 = 3;

/// How long a process may have the place without saying where it listens, whoever started it: far longer
/// than it takes to rebuild a large board.
const NEVER_TOLD: Duration = Duration::from_secs(300);

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

/// How often a program to start is looked for.
const INSTALLED_EVERY: Duration = Duration::from_secs(5);

/// How often one is looked for that has the place and does not say where it listens.
const SILENT_EVERY: Duration = Duration::from_millis(20);

/// The starts of engines.
#[derive(Debug, Default)]
struct Starts {
    /// When the last was.
    last: Option<Instant>,
    /// How many before it did not help for long, one after the other.
    vain: u32,
    /// Number of programs that were started and did not become an engine: the next is tried.
    failed: usize,
    /// Versions of the programs that were found.
    answers: Answers,
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

/// For how long an engine says nothing.
#[derive(Debug, Default)]
struct Silence {
    since: Option<Instant>,
    unanswered: u32,
}

impl Silence {
    /// One more question, asked then, had no answer; whether the engine hangs.
    fn lasts(&mut self, asked: Instant, now: Instant) -> bool {
        let since = *self.since.get_or_insert(asked);
        self.unanswered += 1;
        self.unanswered >= MOST_UNANSWERED && now.saturating_duration_since(since) > HANGS
    }

    /// The engine said something, or nobody knows whether it would.
    fn ends(&mut self) {
        *self = Self::default();
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
    /// Finds, starts and attends engines, one after the other. Never ends by itself where there can be
    /// one.
    pub(super) async fn follow(self: Arc<Self>) {
        if let Err(error) = check_path(&self.settings.workspace) {
            self.away(&format!("is not used: {error}"));
            return;
        }
        let (mut starts, mut silent_since) = (Starts::default(), None);
        loop {
            self.talk.overdue();
            let leader = self.place.leader();
            if !matches!(leader, Ok(Leader::Silent)) {
                silent_since = None;
            }
            match leader {
                Ok(Leader::Published(endpoint)) => self.use_one(&endpoint).await,
                // It is about to say where it listens, or has ceased to.
                Ok(Leader::Silent) => {
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    if since.elapsed() < HANGS {
                        sleep(SILENT_EVERY).await;
                    } else {
                        self.away("has not reported its address");
                        if since.elapsed() > NEVER_TOLD {
                            self.kill_silent().await;
                        }
                        sleep(LOOK_EVERY).await;
                    }
                }
                Ok(Leader::None) if self.settings.starts => match self.find(&mut starts).await {
                    Ok(engine) => {
                        sleep(starts.pause(Instant::now())).await;
                        if let Err(error) = self.start(&engine).await {
                            starts.failed += 1;
                            self.away(&with_causes(&error));
                        }
                    }
                    Err(error) => {
                        self.away(&with_causes(&error));
                        let pause = match error {
                            NoEngine::Missing | NoEngine::OtherVersion { .. } => Duration::ZERO,
                            NoEngine::Silent { .. } | NoEngine::Start { .. } => {
                                starts.pause(Instant::now())
                            }
                        };
                        sleep(pause.max(INSTALLED_EVERY)).await;
                    }
                },
                Ok(Leader::None) => {
                    self.away("does not run");
                    sleep(LOOK_EVERY).await;
                }
                Err(error) => {
                    self.away(&format!("is not used: {}", with_causes(&error)));
                    sleep(LOOK_EVERY).await;
                }
            }
        }
    }

    /// Finds the program of the engine, which may be installed at any time. The search begins behind the
    /// programs that were started and did not become an engine.
    async fn find(&self, starts: &mut Starts) -> Result<PathBuf, NoEngine> {
        let settings = self.settings.clone();
        let (mut answers, failed) = (mem::take(&mut starts.answers), starts.failed);
        // Directories of the search path may be slow to reach, and programs slow to answer.
        let finding = spawn_blocking(move || {
            let search_path = settings.search_path.as_deref();
            let mut programs =
                program::programs(&settings.program, search_path, &settings.workspace);
            let behind = failed % programs.len().max(1);
            programs.rotate_left(behind);
            let found = answers.first(programs);
            (answers, found)
        });
        let (answers, found) = finding
            .await
            .unwrap_or_else(|error| panic::resume_unwind(error.into_panic()));
        starts.answers = answers;
        found
    }

    async fn start(&self, engine: &Path) -> Result<(), StartError> {
        let workspace = &self.settings.workspace;
        let started = Started::start(engine, workspace, &self.place)?;
        *lock(&self.started) = Some(started.clone());
        started.until_told(&self.place, workspace).await
    }

    /// Uses an engine until it is over with it.
    async fn use_one(&self, endpoint: &Endpoint) {
        if let Err(foreign) = endpoint.check(&self.settings.workspace) {
            self.away(&format!("is not used: {foreign}"));
            sleep(LOOK_EVERY).await;
            return;
        }
        let (mut silence, asked) = (Silence::default(), Instant::now());
        let parted = match self.reach(endpoint).await {
            Ok((ready, stream)) => {
                self.answers(ready.clone());
                self.attend(ready, stream).await
            }
            Err(error) => {
                self.away(&with_causes(&error));
                if error.is_silence() {
                    silence.lasts(asked, Instant::now());
                }
                self.wait_for(endpoint, silence).await
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
        let stream = connection.attend(self.settings.client).await?;
        let mut ready = Ready::new(connection, false, true);
        self.take_up(&mut ready, &stats);
        Ok((ready, stream))
    }

    /// Takes up what an engine says of itself.
    fn take_up(&self, ready: &mut Ready, stats: &StatsResponse) {
        ready.is_asked = self.settings.always_asks || !stats.model.is_empty();
        ready.is_opening = stats.phase == OPENING;
        // One that is still opened is not known to be well.
        if !ready.is_opening || !stats.trouble.is_empty() {
            self.trouble(&stats.trouble);
        }
    }

    /// Attends an engine that answers.
    async fn attend(&self, ready: Ready, mut stream: Streaming<AttendResponse>) -> Parted {
        let mut ready = ready;
        loop {
            let every = match ready.is_opening {
                true => OPENING_EVERY,
                false => ASKED_EVERY,
            };
            tokio::select! {
                () = ended(&mut stream) => return Parted::Ended,
                () = self.doubt.notified() => {}
                () = sleep(every) => {}
            }
            self.talk.overdue();
            let (since, mut silence) = (Instant::now(), Silence::default());
            loop {
                let begin = Instant::now();
                let asked = tokio::select! {
                    () = ended(&mut stream) => return Parted::Ended,
                    asked = timeout(ANSWER, ready.connection.stats()) => asked,
                };
                let is_well = matches!(&*self.mode.borrow(), Mode::Answers(_));
                match asked {
                    Ok(Ok(stats)) if is_well || since.elapsed() >= self.rest() => {
                        self.take_up(&mut ready, &stats);
                        if is_well {
                            self.still_answers(&ready);
                        } else {
                            self.answers(ready.clone());
                        }
                        break;
                    }
                    // It answers, but has not answered calls: they go without it for a while.
                    Ok(Ok(_)) => silence.ends(),
                    Ok(Err(status)) => {
                        silence.ends();
                        self.away(match is_an_answer(&status) {
                            true => "refuses to say how it is",
                            false => "cannot be reached",
                        });
                    }
                    Err(_) if silence.lasts(begin, Instant::now()) => return Parted::Hangs,
                    Err(_) => self.away("does not answer"),
                }
                tokio::select! {
                    () = ended(&mut stream) => return Parted::Ended,
                    () = sleep(IN_DOUBT_EVERY) => {}
                }
            }
        }
    }

    /// How long calls go without an engine that answers, but not them.
    fn rest(&self) -> Duration {
        let strikes = self.strikes.load(Ordering::Relaxed);
        STRIKE * (1 << strikes.min(MOST_STRIKES)) / 2
    }

    /// Waits for an engine that has its place and is not reached: until it is, or is gone, or has been
    /// silent for so long that it hangs. One that says that we cannot use it, or that we cannot reach, is
    /// for others to use.
    async fn wait_for(&self, endpoint: &Endpoint, mut silence: Silence) -> Parted {
        loop {
            self.talk.overdue();
            sleep(match silence.since {
                Some(_) => IN_DOUBT_EVERY,
                None => LOOK_EVERY,
            })
            .await;
            if !self.leads(endpoint) {
                return Parted::Ended;
            }
            let asked = Instant::now();
            match self.reach(endpoint).await {
                Ok((ready, stream)) => {
                    self.answers(ready.clone());
                    return self.attend(ready, stream).await;
                }
                Err(error) if !error.is_silence() => silence.ends(),
                Err(_) if silence.lasts(asked, Instant::now()) => return Parted::Hangs,
                Err(_) => {}
            }
        }
    }

    /// Returns whether this engine still leads.
    fn leads(&self, endpoint: &Endpoint) -> bool {
        matches!(self.place.leader(), Ok(Leader::Published(told)) if told.is_same(endpoint))
    }

    /// Ends an engine that hangs. It leads, and its process began when its file says: so it is no other.
    async fn kill(&self, endpoint: &Endpoint) {
        let leads = self.leads(endpoint);
        match endpoint.process() {
            Some(process) if leads => {
                tracing::warn!(
                    pid = endpoint.pid,
                    "the memory engine does not respond; ending it"
                );
                process.end(ENDING).await;
            }
            // It cannot be told which process it is, from within a container for instance.
            _ => sleep(LOOK_EVERY).await,
        }
    }

    /// Ends a process that leads without an endpoint file.
    async fn kill_silent(&self) {
        if let Some(process) = self.place.silent() {
            let pid = process.id();
            tracing::warn!(pid, "a memory engine does not respond; ending it");
            process.end(ENDING).await;
        }
    }
}

/// Waits for the end of a stream that says nothing more.
async fn ended(stream: &mut Streaming<AttendResponse>) {
    while let Ok(Some(_)) = stream.message().await {}
}

#[cfg(test)]
mod tests;
