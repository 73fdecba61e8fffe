//! What became of a run, for whoever comes later.

use std::{io, path::Path, time::Duration};

use orchestra_process::kill_left;
use tokio::time::{Instant, sleep};

use super::{
    Ending, How, RunId, Supervised,
    record::{Begun, Record, is_locked},
};
use crate::logs::{Bounds, now};

/// How long a supervisor may take between making a file and writing a line to it, and between its
/// line and its end.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked at in that time.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What became of a run.
#[derive(Debug, Clone)]
pub enum Found {
    /// It goes on, and can be waited for and ended as if it had been started here.
    Running(Supervised),
    /// It has ended.
    Ended(Ending),
    /// Its supervisor was killed, or the machine stopped. Nothing of it is left, and it stays lost.
    Lost,
    /// It never began and never will, also when whoever started it is still about to: the next run has
    /// another number. Of one that was about to begin before the machine stopped this is not certain: what
    /// was written of it may be lost.
    NeverBegan,
}

impl Supervised {
    /// Finds out what became of a run, whoever started it: by the lock of the attempt and by its
    /// supervisor's id and when that began. What is left of a lost run has ended when this resolves.
    ///
    /// # Errors
    /// When the directory of the attempt cannot be read or written.
    pub async fn find(attempt: &Path, id: &RunId) -> io::Result<Found> {
        let record = Record::new(attempt, id);
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(ending) = record.ending()? {
                return Ok(match ending.how {
                    How::Lost => Found::Lost,
                    _ => Found::Ended(ending),
                });
            }
            let Some((begun, started)) = record.begun()? else {
                if never_begins(&record, id)? {
                    return Ok(Found::NeverBegan);
                }
                continue;
            };
            // Whoever makes the file has the lock.
            let is_locked = is_locked(attempt)?;
            let is_of_now = begun.as_ref().is_none_or(Begun::is_of_now);
            match begun {
                Some(Begun {
                    supervisor: None, ..
                }) => return Ok(Found::NeverBegan),
                Some(Begun {
                    supervisor: Some(supervisor),
                    raw: [head, tail],
                    ..
                }) if is_locked => {
                    if is_of_now
                        && let Some(process) = supervisor.find()
                        && process.is_there()
                    {
                        let raw = Bounds { head, tail };
                        return Ok(Found::Running(Self::new(record, id.clone(), process, raw)));
                    }
                }
                // Its first line is on its way.
                None if is_locked && Instant::now() < end => {
                    sleep(LOOK_EVERY).await;
                    continue;
                }
                Some(_) | None => {}
            }
            // It may have ended since it was looked for, and has written that before.
            if record.ending()?.is_none() {
                // By ids of an earlier start of the machine nobody is found but somebody else.
                let started = started.filter(|_| is_of_now);
                let guard = started.as_ref().and_then(|started| started.guard?.known());
                let command = started.as_ref().and_then(|started| started.command.known());
                kill_left(&id.mark(), guard, command).await;
                record.end(&Ending::lost(now()))?;
                end_late(&record, id).await?;
            }
        }
    }
}

/// Ends a supervisor that was so slow that its run was taken for lost. One that writes its first line from now
/// on sees that itself.
async fn end_late(record: &Record, id: &RunId) -> io::Result<()> {
    let begun = record.begun()?.and_then(|(begun, _)| begun);
    let begun = begun.filter(Begun::is_of_now);
    if let Some(supervisor) = begun.and_then(|begun| begun.supervisor?.find())
        && supervisor.is_there()
    {
        supervisor.kill();
        supervisor.gone().await;
        kill_left(&id.mark(), None, None).await;
    }
    Ok(())
}

/// Sees to it that a run does not begin any more; false when it has meanwhile.
fn never_begins(record: &Record, id: &RunId) -> io::Result<bool> {
    match record.begin(&Begun::new(id, None, [0, 0])) {
        Ok(_) => Ok(true),
        // Who starts a run makes the directory first.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}
