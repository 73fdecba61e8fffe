//! Connections to an engine, bounded: any program of this machine may open some, also one that has
//! no token.
//!
//! Who has shown a token stays as long as it likes. A stranger has a time to do so, and where there
//! are many strangers the one that came first leaves for the one that came last: however many of
//! them say nothing, whoever has a token comes in.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream, StreamExt as _, stream, task::AtomicWaker};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};
use tonic::transport::server::Connected;

/// How many strangers may be there at once.
const STRANGERS: usize = 64;

/// How long a stranger may take to show a token: far longer than a program does, and long enough for
/// one that only asks whether the engine is well, or what it offers.
const STRANGER_TIME: Duration = Duration::from_secs(30);

/// How many connections there may be: more than clients are counted, and fewer than the files that a
/// process may usually have open. More wait to be taken.
const MOST: usize = 640;

/// How long nothing is accepted after the system could not do so.
const RECOVERY: Duration = Duration::from_millis(50);

const STRANGER: u8 = 0;
const KNOWN: u8 = 1;
const LEFT: u8 = 2;

/// Whose connection it is.
#[derive(Debug, Default)]
pub(crate) struct Visitor {
    state: AtomicU8,
    /// Whoever waits on the connection.
    waits: AtomicWaker,
}

impl Visitor {
    /// It has shown what it had to show.
    pub(crate) fn is_let_in(&self) {
        self.leave_being_stranger(KNOWN);
    }

    fn is_stranger(&self) -> bool {
        self.state.load(Ordering::Acquire) == STRANGER
    }

    fn has_left(&self) -> bool {
        self.state.load(Ordering::Acquire) == LEFT
    }

    /// Ends the connection of a stranger.
    fn send_away(&self) {
        self.leave_being_stranger(LEFT);
        self.waits.wake();
    }

    fn leave_being_stranger(&self, state: u8) {
        // Whoever is known, or has left, stays so.
        let _ = self
            .state
            .compare_exchange(STRANGER, state, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Lets connections in.
#[derive(Debug)]
struct Door {
    strangers: Mutex<VecDeque<Arc<Visitor>>>,
    /// The places that are free.
    places: Arc<Semaphore>,
}

impl Door {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            strangers: Mutex::default(),
            places: Arc::new(Semaphore::new(MOST)),
        })
    }

    fn admit<S>(&self, stream: S, place: OwnedSemaphorePermit) -> Guest<S> {
        let visitor = Arc::new(Visitor::default());
        let mut strangers = self
            .strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        strangers.retain(|stranger| stranger.is_stranger());
        strangers.push_back(Arc::clone(&visitor));
        if strangers.len() > STRANGERS
            && let Some(first) = strangers.pop_front()
        {
            first.send_away();
        }
        drop(strangers);
        Guest {
            stream,
            visitor,
            patience: Some(Box::pin(sleep(STRANGER_TIME))),
            _place: place,
        }
    }
}

/// The connections that come, one after the other, without end.
pub(crate) fn incoming(
    listeners: Vec<TcpListener>,
) -> impl Stream<Item = io::Result<Guest<TcpStream>>> + Send + Unpin {
    let door = Door::new();
    let of_one = move |listener: TcpListener| {
        stream::unfold(
            (listener, Arc::clone(&door)),
            |(listener, door)| async move {
                let place = Arc::clone(&door.places).acquire_owned().await.ok()?;
                let stream = loop {
                    match listener.accept().await {
                        Ok((stream, _)) => break stream,
                        // Too many files are open, perhaps; that passes.
                        Err(_) => sleep(RECOVERY).await,
                    }
                };
                // It only costs time where it is refused.
                let _ = stream.set_nodelay(true);
                let guest = door.admit(stream, place);
                Some((Ok(guest), (listener, door)))
            },
        )
        .boxed()
    };
    stream::select_all(listeners.into_iter().map(of_one))
}

/// A connection that was let in.
#[derive(Debug)]
pub(crate) struct Guest<S> {
    stream: S,
    visitor: Arc<Visitor>,
    /// How long it may still be a stranger's; `None` once it is not.
    patience: Option<Pin<Box<Sleep>>>,
    _place: OwnedSemaphorePermit,
}

impl<S> Guest<S> {
    /// Fails once a stranger has to leave, whatever is waited for.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(patience) = &mut self.patience else {
            return Ok(());
        };
        self.visitor.waits.register(cx.waker());
        if self.visitor.is_stranger() && patience.as_mut().poll(cx).is_ready() {
            self.visitor.send_away();
        }
        if self.visitor.has_left() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if !self.visitor.is_stranger() {
            self.patience = None;
        }
        Ok(())
    }
}

impl<S> Drop for Guest<S> {
    fn drop(&mut self) {
        self.visitor.leave_being_stranger(LEFT);
    }
}

impl<S> Connected for Guest<S> {
    type ConnectInfo = Arc<Visitor>;

    fn connect_info(&self) -> Arc<Visitor> {
        Arc::clone(&self.visitor)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guest<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check(cx)?;
        Pin::new(&mut this.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guest<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check(cx)?;
        Pin::new(&mut this.stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check(cx)?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
        time::{Instant, timeout},
    };

    use super::*;

    type Pair = (Guest<DuplexStream>, DuplexStream);

    fn admit(door: &Arc<Door>) -> Pair {
        let (ours, theirs) = duplex(64);
        let place = Arc::clone(&door.places).try_acquire_owned().unwrap();
        (door.admit(ours, place), theirs)
    }

    async fn is_served((guest, theirs): &mut Pair) -> bool {
        theirs.write_all(b"x").await.unwrap();
        guest.read_u8().await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_has_its_time_and_whoever_is_known_all_the_time() {
        let door = Door::new();
        let (mut stranger, mut known) = (admit(&door), admit(&door));
        known.0.visitor.is_let_in();
        let begin = Instant::now();
        let ended = stranger.0.read_u8().await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::ConnectionAborted);
        assert!(begin.elapsed() >= STRANGER_TIME);
        assert!(stranger.0.write_u8(0).await.is_err());
        // It is too late for a token.
        stranger.0.visitor.is_let_in();
        assert!(!is_served(&mut stranger).await);
        let waited = timeout(STRANGER_TIME * 100, known.0.read_u8()).await;
        assert!(waited.is_err());
        assert!(is_served(&mut known).await);
    }

    #[tokio::test(start_paused = true)]
    async fn where_there_are_many_strangers_the_first_leaves_for_the_last() {
        let door = Door::new();
        let mut known = admit(&door);
        known.0.visitor.is_let_in();
        let mut first = admit(&door);
        let waits = tokio::spawn(async move { first.0.read_u8().await });
        let mut others: Vec<Pair> = (0..STRANGERS - 1).map(|_| admit(&door)).collect();
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        let mut last = admit(&door);
        let ended = timeout(Duration::from_secs(1), waits).await;
        assert!(ended.unwrap().unwrap().is_err());
        for pair in [&mut known, &mut last, &mut others[0]] {
            assert!(is_served(pair).await);
        }
        // Who has gone, or is known, has no place among them.
        others.truncate(1);
        let mut more: Vec<Pair> = (0..STRANGERS - 2).map(|_| admit(&door)).collect();
        assert!(is_served(&mut others[0]).await && is_served(&mut last).await);
        drop((others, known, last));
        assert!(is_served(&mut more[0]).await);
        assert_eq!(door.places.available_permits(), MOST - more.len());
    }
}
