//! A follower's end: one connection to the holder, over which many ask at once.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::{UnixStream, unix::OwnedReadHalf},
    sync::{Mutex as AsyncMutex, Semaphore, mpsc, oneshot, watch},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Call, Refused,
    place::{Endpoint, PROTOCOL, Place},
    wire::{Ask, MAX_FIRST_LINE, MAX_IN_FLIGHT, MAX_LINE, Tell, line, read_line},
};

/// How long a holder may take to answer the first line.
const WELCOME_TIME: Duration = Duration::from_secs(5);
/// How long the holder is made to wait for an event before it is asked again.
const CHANGES_WAIT_MS: u64 = 30_000;
/// Lines that wait to be written: each request, and that it is given up, several times over.
const MAX_WAITING: usize = 4 * MAX_IN_FLIGHT;

/// Why there is no connection to a holder.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error(
        "the endpoint file of the process that runs the plans contains no address; try again in a moment"
    )]
    Silent,
    #[error(
        "the process that runs the plans has version {0}, whose protocol this program does not support; end that process, or use that version of the program"
    )]
    Version(String),
    #[error(
        "another process listens on the socket of the process that runs the plans; end that process and try again"
    )]
    Foreign,
    #[error("cannot connect to the program that runs the plans")]
    Io(#[from] io::Error),
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    Refused(Refused),
    /// It was not done, and can be asked of the next holder.
    NotDone,
    /// Nobody knows whether it was done.
    MaybeDone,
    TooLong,
}

enum Answer {
    Done(Value),
    Changed(u64),
    Refused(Refused),
    Moved,
}

/// Who waits for an answer; `None` once the connection has ended.
type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>>;

fn lock(waiting: &Waiting) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Answer>>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Connection {
    lines: mpsc::Sender<Vec<u8>>,
    waiting: Waiting,
    next: AtomicU64,
    /// The places of requests that are worked on.
    places: Semaphore,
    /// The last event that the holder has told of, and who asks for the next.
    last: watch::Sender<u64>,
    asking: AsyncMutex<()>,
    ended: watch::Receiver<bool>,
    pid: u32,
    _tasks: JoinSet<()>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answer")
    }
}

impl Connection {
    /// Connects to the holder of a place, if it is one that we trust.
    pub(super) async fn open(place: &Place, name: &str) -> Result<Self, ConnectError> {
        let told = place.endpoint()?.ok_or(ConnectError::Silent)?;
        if told.protocol != PROTOCOL {
            let version = told.version.chars().filter(|char| !char.is_control());
            return Err(ConnectError::Version(version.take(40).collect()));
        }
        let welcomed = timeout(WELCOME_TIME, welcomed(&told, name)).await;
        let (mut reader, mut writer) = welcomed.map_err(io::Error::from)??;
        let (lines, mut to_write) = mpsc::channel::<Vec<u8>>(MAX_WAITING);
        let (end, ended) = watch::channel(false);
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let theirs = Arc::clone(&waiting);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let reading = async {
                let mut text = Vec::new();
                while read_line(&mut reader, &mut text, MAX_LINE).await? {
                    hand_out(&theirs, serde_json::from_slice(&text)?);
                    text.shrink_to(64 * 1024);
                }
                io::Result::Ok(())
            };
            let writing = async {
                while let Some(line) = to_write.recv().await {
                    writer.write_all(&line).await?;
                }
                io::Result::Ok(())
            };
            // An answer may still come after nothing can be written any more; whoever is gone has sent
            // an end as well.
            let writing = async {
                let _: io::Result<()> = writing.await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                _ = reading => {}
                () = writing => {}
            }
            *lock(&theirs) = None;
            end.send_replace(true);
        });
        Ok(Self {
            lines,
            waiting,
            next: AtomicU64::new(1),
            places: Semaphore::new(MAX_IN_FLIGHT),
            last: watch::Sender::new(0),
            asking: AsyncMutex::new(()),
            ended,
            pid: told.pid,
            _tasks: tasks,
        })
    }

    /// Which process the holder is.
    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) {
        // Its end is also when nobody is left to tell it.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Asks the holder to do something.
    pub(super) async fn call(&self, call: Call) -> Result<Value, Unanswered> {
        let ask = |id| Ask::Call {
            id,
            method: call.method,
            params: call.params,
            once: call.once.map(|once| once.as_str().to_owned()),
        };
        match self.ask(ask).await? {
            Answer::Done(value) => Ok(value),
            Answer::Refused(refused) => Err(Unanswered::Refused(refused)),
            Answer::Moved => Err(Unanswered::NotDone),
            Answer::Changed(_) => Err(Unanswered::MaybeDone),
        }
    }

    /// The place of the last event as soon as it is after one, or as it is known at `end`. However many
    /// wait, the holder is asked once.
    pub(super) async fn changes(&self, after: u64, end: Instant) -> Result<u64, Unanswered> {
        let mut last = self.last.subscribe();
        loop {
            let known = *last.borrow_and_update();
            if known > after || Instant::now() >= end {
                return Ok(known);
            }
            tokio::select! {
                // single-flight: of all that wait one asks.
                _asking = self.asking.lock() => {
                    let ask = |id| Ask::Changes { id, after: known, wait_ms: CHANGES_WAIT_MS };
                    // Who is at the end of its patience leaves it to the next.
                    if let Ok(told) = timeout_at(end, self.ask(ask)).await {
                        let Answer::Changed(seq) = told? else {
                            return Err(Unanswered::NotDone);
                        };
                        self.last.send_if_modified(|last| {
                            let is_new = seq > *last;
                            *last = seq.max(*last);
                            is_new
                        });
                    }
                }
                // It is never closed: it is ours.
                _ = last.changed() => {}
            }
        }
    }

    async fn ask(&self, ask: impl FnOnce(u64) -> Ask) -> Result<Answer, Unanswered> {
        let place = self.places.acquire().await;
        let _place = place.map_err(|_| Unanswered::NotDone)?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let line = line(&ask(id)).map_err(|_| Unanswered::TooLong)?;
        let (answer, answered) = oneshot::channel();
        match &mut *lock(&self.waiting) {
            Some(waiting) => waiting.insert(id, answer),
            None => return Err(Unanswered::NotDone),
        };
        let mut given_up = GivenUp {
            connection: self,
            id,
            is_sent: false,
        };
        if self.lines.send(line).await.is_err() {
            return Err(Unanswered::NotDone);
        }
        given_up.is_sent = true;
        let answer = answered.await;
        given_up.is_sent = false;
        answer.map_err(|_| Unanswered::MaybeDone)
    }
}

/// Tells the holder when nobody waits for an answer any more.
struct GivenUp<'a> {
    connection: &'a Connection,
    id: u64,
    is_sent: bool,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = &mut *lock(&self.connection.waiting) {
            waiting.remove(&self.id);
        }
        if self.is_sent
            && let Ok(line) = line(&Ask::Cancel { id: self.id })
        {
            // Where there is no room the holder does it for nobody.
            let _ = self.connection.lines.try_send(line);
        }
    }
}

async fn welcomed(
    told: &Endpoint,
    name: &str,
) -> Result<(BufReader<OwnedReadHalf>, tokio::net::unix::OwnedWriteHalf), ConnectError> {
    let stream = UnixStream::connect(&told.socket).await?;
    let peer = stream.peer_cred()?;
    // Of a process that we cannot see, as from within a container, the system tells nothing.
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    let is_told = pid.is_none_or(|pid| pid == 0 || pid == told.pid);
    if peer.uid() != rustix::process::geteuid().as_raw() || !is_told {
        return Err(ConnectError::Foreign);
    }
    let (reader, mut writer) = stream.into_split();
    let hello = Ask::Hello {
        protocol: PROTOCOL,
        token: told.token.clone(),
        name: name.to_owned(),
    };
    writer.write_all(&line(&hello)?).await?;
    let mut reader = BufReader::new(reader);
    let mut first = Vec::new();
    if !read_line(&mut reader, &mut first, MAX_FIRST_LINE).await? {
        return Err(ConnectError::Foreign);
    }
    match serde_json::from_slice(&first) {
        Ok(Tell::Hello {
            protocol: PROTOCOL, ..
        }) => Ok((reader, writer)),
        Ok(Tell::Hello { version, .. }) => Err(ConnectError::Version(version)),
        _ => Err(ConnectError::Foreign),
    }
}

fn hand_out(waiting: &Waiting, tell: Tell) {
    let (id, answer) = match tell {
        Tell::Result { id, result } => (id, Answer::Done(result)),
        Tell::Error {
            id,
            code,
            message,
            data,
        } => (
            id,
            Answer::Refused(Refused {
                code,
                message,
                data,
            }),
        ),
        Tell::Changed { id, seq } => (id, Answer::Changed(seq)),
        Tell::Moved { id } => (id, Answer::Moved),
        Tell::Hello { .. } => return,
    };
    let waits = lock(waiting)
        .as_mut()
        .and_then(|waiting| waiting.remove(&id));
    if let Some(waits) = waits {
        // Whoever gave up meanwhile is not told.
        let _ = waits.send(answer);
    }
}
