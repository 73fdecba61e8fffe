//! The one writer: takes what waits, does it in one transaction, commits once, and answers.
//!
//! What is refused leaves no trace by itself. Where the transaction as a whole fails, each of its parts
//! is tried alone, so that nobody pays for somebody else's trouble.

mod rows;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Append, AppendError, DatabaseId, Fault, Identity, PlanKey, Receipt,
    export::{Files, Told},
    schema::{self, DATABASE},
};
pub(super) use rows::refill;
use rows::{fact, millis, now, within};

/// The most requests of one transaction.
const MAX_GROUP: usize = 512;
/// The most events of one transaction, save where one request has more.
const MAX_GROUP_EVENTS: usize = 4_096;
/// How long an answer is kept for who asks again: whoever asks gives up long before.
const KEEP_ANSWERS: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What the writer does.
#[derive(Debug)]
pub(super) enum Work {
    Append(Append),
    /// All of them or none.
    All(Vec<Append>),
    Delete(Append),
    /// Removes some of the events of a deleted plan, whose directory is gone; the receipt says how many
    /// are left.
    Sweep(PlanKey),
}

impl Work {
    fn events(&self) -> usize {
        match self {
            Self::Append(append) | Self::Delete(append) => append.events.len(),
            Self::All(appends) => appends.iter().map(|append| append.events.len()).sum(),
            Self::Sweep(_) => 1,
        }
    }
}

/// What waits, and who for.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) work: Work,
    pub(super) answer: oneshot::Sender<Result<Receipt, AppendError>>,
}

/// The writer's side of the database.
pub(super) struct Writer {
    root: PathBuf,
    max_bytes: u64,
    epoch: u64,
    connection: Option<Connection>,
    /// Which file is open.
    file: (u64, u64),
    /// The id of the database.
    identity: Identity,
    /// The disk failed to say whether it keeps something.
    in_doubt: bool,
    committed: watch::Sender<u64>,
    files: Option<Arc<Told>>,
}

impl Writer {
    pub(super) fn open(
        root: &Path,
        max_bytes: u64,
        id: Option<DatabaseId>,
        committed: watch::Sender<u64>,
    ) -> Result<Self, Fault> {
        let connection = schema::open_writer(root, max_bytes, id)?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let epoch = connection.query_row(
            "UPDATE fact SET value = value + 1 WHERE name = 'epoch' RETURNING value",
            [],
            |row| row.get(0),
        )?;
        let old = now().saturating_sub(millis(KEEP_ANSWERS));
        connection.execute("DELETE FROM answer WHERE at < ?1", [old])?;
        connection.execute_batch("COMMIT")?;
        committed.send_replace(fact(&connection, "seq")?);
        Ok(Self {
            file: identity(root)?,
            identity: schema::identity(&connection)?,
            root: root.to_owned(),
            max_bytes,
            epoch,
            connection: Some(connection),
            in_doubt: false,
            committed,
            files: None,
        })
    }

    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) const fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) const fn file(&self) -> (u64, u64) {
        self.file
    }

    /// Whom it tells which plans have changed.
    pub(super) fn tells(&mut self, files: Option<&Files>) {
        self.files = files.map(Files::told);
    }

    /// Works until nobody can ask any more.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Queued>) {
        let (mut works, mut answers) = (Vec::new(), Vec::new());
        while let Some(first) = queue.blocking_recv() {
            let mut next = Some(first);
            let mut events = 0;
            while let Some(queued) = next {
                events += queued.work.events();
                works.push(queued.work);
                answers.push(queued.answer);
                let is_full = works.len() >= MAX_GROUP || events >= MAX_GROUP_EVENTS;
                next = if is_full { None } else { queue.try_recv().ok() };
            }
            let results = self.group(&works);
            self.tell(&works, &results);
            for (answer, result) in answers.drain(..).zip(results) {
                // Whoever gave up waiting is not told.
                let _ = answer.send(result);
            }
            works.clear();
        }
    }

    /// Says what is new before it is answered, so that who has an answer can see it.
    fn tell(&self, works: &[Work], results: &[Result<Receipt, AppendError>]) {
        let done = || {
            works
                .iter()
                .zip(results)
                .filter_map(|(work, result)| result.as_ref().ok().map(|receipt| (work, receipt)))
        };
        let is_event =
            |work: &Work| matches!(work, Work::Append(_) | Work::All(_) | Work::Delete(_));
        let seqs = done()
            .filter(|(work, _)| is_event(work))
            .map(|(_, receipt)| receipt.seq);
        if let Some(last) = seqs.max() {
            self.committed.send_if_modified(|seq| {
                let is_new = *seq < last;
                *seq = last.max(*seq);
                is_new
            });
        }
        if let Some(files) = &self.files {
            for (work, receipt) in done().filter(|(_, receipt)| receipt.before.is_none()) {
                match work {
                    Work::Append(append) if !append.events.is_empty() => {
                        files.changed(&append.plan, receipt.number);
                    }
                    Work::All(appends) => {
                        for append in appends.iter().filter(|append| !append.events.is_empty()) {
                            let more = u64::try_from(append.events.len()).unwrap_or(u64::MAX);
                            files.changed(&append.plan, append.expected.saturating_add(more));
                        }
                    }
                    Work::Delete(append) => files.deleted(&append.plan),
                    _ => {}
                }
            }
        }
    }

    fn group(&mut self, works: &[Work]) -> Vec<Result<Receipt, AppendError>> {
        match self.transaction(works) {
            Ok(results) => results,
            Err(fault) if works.len() == 1 || is_of_all(&fault) => {
                works.iter().map(|_| Err(fault.clone().into())).collect()
            }
            Err(_) => works
                .iter()
                .map(|work| match self.transaction(std::slice::from_ref(work)) {
                    Ok(mut results) => results.pop().unwrap_or(Err(Fault::Closed.into())),
                    Err(fault) => Err(fault.into()),
                })
                .collect(),
        }
    }

    fn transaction(&mut self, works: &[Work]) -> Result<Vec<Result<Receipt, AppendError>>, Fault> {
        let connection = self.connected()?;
        let outcome = within(&connection, self.epoch, works);
        match &outcome {
            // Of this connection nothing is known any more.
            Err(Fault::Unsure(_)) => self.in_doubt = true,
            Err(_) => {
                if !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err() {
                    return outcome;
                }
                self.connection = Some(connection);
            }
            Ok(_) => self.connection = Some(connection),
        }
        outcome
    }

    /// The connection, to the database that is there now and holds no doubt.
    fn connected(&mut self) -> Result<Connection, Fault> {
        if identity(&self.root).ok() != Some(self.file) {
            return Err(Fault::Gone);
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => schema::open_writer(&self.root, self.max_bytes, None)?,
        };
        if self.in_doubt {
            schema::settle_doubt(&connection)?;
            self.in_doubt = false;
        }
        Ok(connection)
    }
}

/// Whether a fault meets everybody alike.
const fn is_of_all(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Fenced | Fault::Gone | Fault::Unsure(_) | Fault::Locked | Fault::Damaged
    )
}

/// Which file the database is.
pub(super) fn identity(root: &Path) -> Result<(u64, u64), Fault> {
    use std::os::unix::fs::MetadataExt as _;
    let path = root.join(DATABASE);
    let found =
        std::fs::symlink_metadata(&path).map_err(|error| Fault::io("look at", &path, error))?;
    Ok((found.dev(), found.ino()))
}
