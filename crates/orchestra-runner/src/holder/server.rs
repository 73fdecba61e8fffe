//! The holder's end: listens, lets in who is of this user and shows the token, and has what they ask done.
//!
//! Everything is bounded: clients, the time a stranger has, lines, requests of a client at a time, and how
//! long a client may take to read. A client that is slow waits for itself alone.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::{AbortHandle, JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{
    Call, Leadership, PlaceError, Served,
    place::{Endpoint, PROTOCOL},
    wire::{Ask, MAX_FIRST_LINE, MAX_IN_FLIGHT, MAX_LINE, Tell, line, read_line},
};
use crate::journal::OnceKey;

/// How many followers there may be; more wait to be let in.
const MAX_CLIENTS: usize = 256;
/// How long a stranger may take to show the token.
const STRANGER_TIME: Duration = Duration::from_secs(5);
/// How long a follower may take to read a line.
const READING_TIME: Duration = Duration::from_secs(30);
/// The longest that anybody is made to wait for an event; who wants to wait longer asks again.
const MAX_CHANGES_WAIT: Duration = Duration::from_secs(60);
/// How long nothing is accepted after the system could not do so.
const RECOVERY: Duration = Duration::from_millis(50);
/// How long what is being done may still take when the holder leaves.
const LEAVING_TIME: Duration = Duration::from_secs(5);

struct Shared {
    service: Served,
    told: Endpoint,
    /// The processes of the followers, and how many there are.
    pids: Mutex<Vec<u32>>,
    clients: watch::Sender<usize>,
    /// The holder is about to leave: nothing more is begun.
    leaves: AtomicBool,
    /// Requests that are being worked on.
    busy: watch::Sender<usize>,
}

/// A holder that listens. Dropping it ends all connections.
pub(super) struct Server {
    shared: Arc<Shared>,
    accepts: JoinHandle<()>,
    sweep: JoinHandle<()>,
}

impl Server {
    /// Begins to listen.
    pub(super) fn start(leadership: &Leadership, service: Served) -> Result<Self, PlaceError> {
        let (listener, told) = leadership.publish()?;
        let shared = Arc::new(Shared {
            service,
            told,
            pids: Mutex::default(),
            clients: watch::Sender::new(0),
            leaves: AtomicBool::new(false),
            busy: watch::Sender::new(0),
        });
        let accepts = tokio::spawn(accept(listener, Arc::clone(&shared)));
        let sweep = tokio::spawn(leadership.place().clone().sweep());
        Ok(Self {
            shared,
            accepts,
            sweep,
        })
    }

    /// How many followers there are.
    pub(super) fn clients(&self) -> watch::Receiver<usize> {
        self.shared.clients.subscribe()
    }

    /// Waits until a process follows.
    pub(super) async fn until_there(&self, pid: u32) {
        let is_there = || {
            let pids = self
                .shared
                .pids
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            pids.contains(&pid)
        };
        // It is never closed: we have the sender.
        let _ = self.clients().wait_for(|_| is_there()).await;
    }

    /// Tells nobody of this process any more, and lets those in that are at the door already.
    pub(super) async fn close_door(&self, leadership: &Leadership) {
        leadership.withdraw(&self.shared.told);
        // Who is at the door has been let in by the time the door was looked at twice.
        for _ in 0..2 {
            sleep(RECOVERY).await;
        }
    }

    /// Begins nothing more and waits, not for ever, for what is being done.
    pub(super) async fn finish(&self, leadership: &Leadership) {
        self.shared.leaves.store(true, Ordering::SeqCst);
        leadership.withdraw(&self.shared.told);
        let mut busy = self.shared.busy.subscribe();
        // What takes longer is cut off, and who asked for it hears that nobody knows.
        let _ = timeout(LEAVING_TIME, busy.wait_for(|busy| *busy == 0)).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepts.abort();
        self.sweep.abort();
    }
}

async fn accept(listener: UnixListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(MAX_CLIENTS));
    let mut clients = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let stream = loop {
            tokio::select! {
                // Their ends are of no interest, but are kept until they are looked at.
                Some(_) = clients.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => break stream,
                    // Too many files are open, perhaps; that passes.
                    Err(_) => sleep(RECOVERY).await,
                },
            }
        };
        clients.spawn(serve(stream, Arc::clone(&shared), place));
    }
}

async fn serve(stream: UnixStream, shared: Arc<Shared>, _place: OwnedSemaphorePermit) {
    let ours = rustix::process::geteuid().as_raw();
    let Some(peer) = stream.peer_cred().ok().filter(|peer| peer.uid() == ours) else {
        return;
    };
    let pid = peer.pid().map_or(0, i32::cast_unsigned);
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let let_in = timeout(
        STRANGER_TIME,
        welcome(&mut reader, &mut writer, &shared.told),
    )
    .await;
    if !matches!(let_in, Ok(Ok(true))) {
        return;
    }
    let client = Client::of(&shared, pid);
    let (lines, to_write) = mpsc::channel(MAX_IN_FLIGHT);
    // Whichever ends first ends the other, and all requests with it.
    tokio::select! {
        _ = write(writer, to_write) => {}
        _ = read(reader, &shared, lines) => {}
    }
    drop(client);
}

/// A follower, as long as it is there.
struct Client<'a>(&'a Shared, u32);

impl<'a> Client<'a> {
    fn of(shared: &'a Shared, pid: u32) -> Self {
        shared
            .pids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(pid);
        shared.clients.send_modify(|clients| *clients += 1);
        Self(shared, pid)
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let mut pids = self.0.pids.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = pids.iter().position(|pid| *pid == self.1) {
            pids.swap_remove(at);
        }
        drop(pids);
        self.0
            .clients
            .send_modify(|count| *count = count.saturating_sub(1));
    }
}

struct Counted<'a>(&'a watch::Sender<usize>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

async fn welcome(
    reader: &mut BufReader<OwnedReadHalf>,
    writer: &mut OwnedWriteHalf,
    told: &Endpoint,
) -> io::Result<bool> {
    let mut first = Vec::new();
    if !read_line(reader, &mut first, MAX_FIRST_LINE).await? {
        return Ok(false);
    }
    let Ok(Ask::Hello {
        protocol,
        token,
        name,
    }) = serde_json::from_slice(&first)
    else {
        return Ok(false);
    };
    if !token.is(&told.token) {
        return Ok(false);
    }
    let hello = Tell::Hello {
        protocol: PROTOCOL,
        version: told.version.clone(),
    };
    writer.write_all(&line(&hello)?).await?;
    let name: String = name
        .chars()
        .filter(|char| !char.is_control())
        .take(64)
        .collect();
    tracing::debug!(name, "follower connected");
    Ok(protocol == PROTOCOL)
}

async fn write(mut writer: OwnedWriteHalf, mut lines: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(line) = lines.recv().await {
        timeout(READING_TIME, writer.write_all(&line)).await??;
    }
    Ok(())
}

type InFlight = Arc<Mutex<HashMap<u64, AbortHandle>>>;

async fn read(
    mut reader: BufReader<OwnedReadHalf>,
    shared: &Arc<Shared>,
    lines: mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    // What a follower has given up may still be ending. To wait here would be to hear of nothing that is
    // given up.
    let places = Arc::new(Semaphore::new(2 * MAX_IN_FLIGHT));
    let in_flight = InFlight::default();
    let mut tasks = JoinSet::new();
    let mut text = Vec::new();
    while read_line(&mut reader, &mut text, MAX_LINE).await? {
        while tasks.try_join_next().is_some() {}
        let ask: Ask = serde_json::from_slice(&text)?;
        text.shrink_to(64 * 1024);
        let id = match &ask {
            // Nobody could give up the first of two that are called alike.
            Ask::Call { id, .. } | Ask::Changes { id, .. } if lock(&in_flight).contains_key(id) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
            Ask::Call { id, .. } | Ask::Changes { id, .. } => *id,
            Ask::Cancel { id } => {
                let task = lock(&in_flight).remove(id);
                if let Some(task) = task {
                    task.abort();
                }
                continue;
            }
            Ask::Hello { .. } => return Err(io::ErrorKind::InvalidData.into()),
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            let busy = finish_line(id, &refused(id, "too much at once; wait for answers"));
            // Who asks so much and reads nothing is sent away.
            lines.try_send(busy).map_err(io::Error::other)?;
            continue;
        };
        let (shared, lines) = (Arc::clone(shared), lines.clone());
        let mut in_flight_now = lock(&in_flight);
        let theirs = Arc::clone(&in_flight);
        let task = tasks.spawn(async move {
            let _place = place;
            let answer = answer(&shared, id, ask).await;
            // Who has gone is told nothing.
            let _ = lines.send(answer).await;
            lock(&theirs).remove(&id);
        });
        in_flight_now.insert(id, task);
    }
    Ok(())
}

fn lock(in_flight: &InFlight) -> std::sync::MutexGuard<'_, HashMap<u64, AbortHandle>> {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(shared: &Shared, id: u64, ask: Ask) -> Vec<u8> {
    shared.busy.send_modify(|busy| *busy += 1);
    let busy = Counted(&shared.busy);
    let tell = if shared.leaves.load(Ordering::SeqCst) {
        Tell::Moved { id }
    } else {
        match ask {
            Ask::Call {
                method,
                params,
                once,
                ..
            } => call(shared, id, method, params, once).await,
            Ask::Changes { after, wait_ms, .. } => {
                // It waits, which holds nobody up who wants to leave.
                drop(busy);
                let seq = changes(shared, after, Duration::from_millis(wait_ms)).await;
                return finish_line(id, &Tell::Changed { id, seq });
            }
            Ask::Hello { .. } | Ask::Cancel { .. } => Tell::Moved { id },
        }
    };
    finish_line(id, &tell)
}

async fn call(
    shared: &Shared,
    id: u64,
    method: String,
    params: serde_json::Value,
    once: Option<String>,
) -> Tell {
    let once = match once.map(|key| OnceKey::parse(&key)) {
        None => None,
        Some(Some(key)) => Some(key),
        Some(None) => return refused(id, "a key has 16 to 128 printable characters"),
    };
    let call = Call {
        method,
        params,
        once,
    };
    match shared.service.call(call).await {
        Ok(result) => Tell::Result { id, result },
        Err(refused) => Tell::Error {
            id,
            code: refused.code,
            message: refused.message,
            data: refused.data,
        },
    }
}

fn refused(id: u64, message: &str) -> Tell {
    Tell::Error {
        id,
        code: "invalid_request".to_owned(),
        message: message.to_owned(),
        data: None,
    }
}

fn finish_line(id: u64, tell: &Tell) -> Vec<u8> {
    let too_long = |_| line(&refused(id, "the answer is too long; ask for less"));
    // An error of a few words can be written.
    line(tell).or_else(too_long).unwrap_or_default()
}

async fn changes(shared: &Shared, after: u64, wait: Duration) -> u64 {
    let mut changes = shared.service.changes();
    // Whoever has waited long enough hears what there is.
    let _ = timeout(
        wait.min(MAX_CHANGES_WAIT),
        changes.wait_for(|seq| *seq > after),
    )
    .await;
    *changes.borrow()
}
