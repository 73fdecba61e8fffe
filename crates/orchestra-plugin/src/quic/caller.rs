//! Calls to one address, over a connection that is kept up.
//!
//! One task owns the connection. It dials, waits with back-off after a failure, replaces a
//! connection that is wedged and drains the old one; its state is a [`Link`], which anyone may watch.
//! A call that has not been sent moves to the next connection by itself; one that may have run never
//! does.

use std::{collections::VecDeque, error::Error, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::{
    select,
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    connection::{Answers, Connection, NotOpened, Outgoing, Sender},
    endpoint::{Endpoint, Target},
    error::{CallError, ConnectError},
    payload::Payload,
};

/// Connections that are drained at once; the oldest is closed for one more.
const MAX_DRAINING: usize = 3;

/// How long a replaced connection may finish its calls.
const DRAIN_TIME: Duration = Duration::from_secs(60);

/// A connection that lasted this long was a good one: the next attempt is the first.
const GOOD_TIME: Duration = Duration::from_secs(5);

/// Reports of wedged connections that wait; more say nothing new.
const REPORTS: usize = 16;

/// How patient a caller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerOptions {
    /// After how long without a stream, with few calls going on, a connection counts as wedged.
    pub wedged_after: Duration,
    /// How long a call waits for a connection when the last attempt has failed.
    pub patience: Duration,
    /// The pause after the first failed attempt; it doubles with each.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for CallerOptions {
    fn default() -> Self {
        Self {
            wedged_after: Duration::from_secs(2),
            patience: Duration::from_secs(1),
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_secs(5),
        }
    }
}

/// The state of the connection.
#[derive(Debug, Clone)]
pub enum Link {
    /// An attempt is being made.
    Dialing {
        /// Why the attempt before it failed; the first has none.
        last: Option<Arc<ConnectError>>,
    },
    /// There is a connection.
    Up(Connection),
    /// The last attempt failed, and the next is not due.
    Waiting {
        /// Failed attempts.
        failed: u32,
        /// When the next attempt is made.
        until: Instant,
        /// Why the last one failed.
        error: Arc<ConnectError>,
    },
    /// It was closed for good.
    Closed,
}

/// Calls one address. Closed when it is dropped.
#[derive(Debug)]
pub struct Caller {
    link: watch::Receiver<Link>,
    wedged: mpsc::Sender<usize>,
    options: CallerOptions,
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Caller {
    /// Begins to dial, and returns at once. It must be called within a tokio runtime.
    pub fn start(endpoint: Endpoint, target: Target, options: CallerOptions) -> Self {
        let (state, link) = watch::channel(Link::Dialing { last: None });
        let (wedged, reports) = mpsc::channel(REPORTS);
        let (closing, closed) = watch::channel(false);
        let driver = Driver {
            endpoint,
            target,
            options: options.clone(),
            state,
            reports,
            closed,
            draining: VecDeque::new(),
            drains: JoinSet::new(),
        };
        let task = tokio::spawn(driver.run());
        Self {
            link,
            wedged,
            options,
            closing,
            task,
        }
    }

    /// The state of the connection, to look at and to wait for.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    /// Calls and waits for the one answer. Dropping the future cancels the call.
    ///
    /// # Errors
    /// [`CallError::may_have_run`] tells whether the call may have had an effect.
    pub async fn call(
        &self,
        request: impl Into<Payload>,
        deadline: Instant,
    ) -> Result<Bytes, CallError> {
        let request = request.into();
        self.open(deadline).await?.call(request, deadline).await
    }

    /// Calls and hands over the answers one by one. The deadline is for sending the request.
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub async fn stream(
        &self,
        request: impl Into<Payload>,
        deadline: Instant,
    ) -> Result<Answers, CallError> {
        let request = request.into();
        self.open(deadline).await?.stream(request, deadline).await
    }

    /// As [`Self::stream`], with more request frames to follow the first.
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub async fn open_duplex(
        &self,
        request: impl Into<Payload>,
        deadline: Instant,
    ) -> Result<(Sender, Answers), CallError> {
        let request = request.into();
        self.open(deadline).await?.duplex(request, deadline).await
    }

    /// Gives up the present connection, for one who knows better than the network that the peer is
    /// gone: its process has ended. Calls that are going on fail at once, and a new connection is
    /// dialed.
    pub fn hang_up(&self) {
        if let Link::Up(connection) = &*self.link.borrow() {
            connection.close();
        }
    }

    /// Closes for good, after the calls that are going on or at the deadline.
    pub async fn close(mut self, deadline: Instant) {
        let connection = match &*self.link.borrow() {
            Link::Up(connection) => Some(connection.clone()),
            _ => None,
        };
        if let Some(connection) = connection {
            // Those that are not done by then fail with the connection.
            let _ = timeout_at(deadline, connection.idle()).await;
        }
        self.closing.send_replace(true);
        // The task ends at its next step, since all that it waits for can be given up.
        let _ = (&mut self.task).await;
    }

    async fn open(&self, deadline: Instant) -> Result<Outgoing, CallError> {
        let mut link = self.link.clone();
        let mut unfit = None;
        loop {
            let connection = self.ready(&mut link, unfit, deadline).await?;
            match connection
                .open(deadline, Some(self.options.wedged_after))
                .await
            {
                Ok(outgoing) => return Ok(outgoing),
                Err(NotOpened::Wedged) => {
                    // A full queue holds reports of the same.
                    let _ = self.wedged.try_send(connection.id());
                }
                Err(NotOpened::Gone(_)) => {}
                Err(late @ NotOpened::Late) => return Err(late.into()),
            }
            unfit = Some(connection.id());
        }
    }

    /// Waits for a connection other than `unfit`.
    async fn ready(
        &self,
        link: &mut watch::Receiver<Link>,
        unfit: Option<usize>,
        deadline: Instant,
    ) -> Result<Connection, CallError> {
        let patience = Instant::now() + self.options.patience;
        loop {
            let (until, refusal) = match &*link.borrow_and_update() {
                Link::Up(connection) if Some(connection.id()) != unfit => {
                    return Ok(connection.clone());
                }
                Link::Up(_) | Link::Dialing { last: None } => (deadline, CallError::NoConnection),
                Link::Dialing { last: Some(error) } | Link::Waiting { error, .. } => (
                    deadline.min(patience),
                    CallError::Unreachable(error.clone()),
                ),
                Link::Closed => {
                    return Err(CallError::Unreachable(Arc::new(ConnectError::Closed)));
                }
            };
            match timeout_at(until, link.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(CallError::Unreachable(Arc::new(ConnectError::Closed))),
                Err(_) => return Err(refusal),
            }
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.hang_up();
        self.task.abort();
    }
}

struct Driver {
    endpoint: Endpoint,
    target: Target,
    options: CallerOptions,
    state: watch::Sender<Link>,
    reports: mpsc::Receiver<usize>,
    closed: watch::Receiver<bool>,
    draining: VecDeque<Connection>,
    drains: JoinSet<()>,
}

impl Driver {
    async fn run(mut self) {
        let mut closed = self.closed.clone();
        select! {
            () = self.keep_up() => {}
            _ = closed.wait_for(|closed| *closed) => {}
        }
        if let Link::Up(connection) = self.state.send_replace(Link::Closed) {
            connection.close();
        }
        for connection in self.draining {
            connection.close();
        }
    }

    async fn keep_up(&mut self) {
        let (mut failed, mut last) = (0, None);
        loop {
            self.state.send_replace(Link::Dialing { last });
            let began = Instant::now();
            let error = match self.endpoint.connect(&self.target).await {
                Ok(connection) => {
                    let error = self.hold(connection).await;
                    if began.elapsed() >= GOOD_TIME {
                        failed = 0;
                    }
                    error
                }
                Err(error) => error,
            };
            let pause = self.pause(failed);
            failed = failed.saturating_add(1);
            let cause: &(dyn Error + Send + Sync + 'static) = &error;
            tracing::debug!(address = %self.target.address, error = cause, ?pause, "cannot connect");
            let until = Instant::now() + pause;
            let error = Arc::new(error);
            last = Some(Arc::clone(&error));
            self.state.send_replace(Link::Waiting {
                failed,
                until,
                error,
            });
            sleep(pause).await;
        }
    }

    /// Keeps a connection, or what replaces it, until it has ended.
    async fn hold(&mut self, mut connection: Connection) -> ConnectError {
        let address = self.target.address;
        self.state.send_replace(Link::Up(connection.clone()));
        let watched = |connection: Connection| async move { connection.deserted().await };
        let mut deserted = pin!(watched(connection.clone()));
        let endpoint = self.endpoint.clone();
        let trusted = move |connection: Connection| {
            let endpoint = endpoint.clone();
            async move { endpoint.close_untrusted(&connection).await }
        };
        let mut untrusted = pin!(trusted(connection.clone()));
        loop {
            select! {
                source = connection.closed() => return ConnectError::Lost { address, source },
                () = &mut deserted => {
                    connection.close();
                    return ConnectError::Nobody { address };
                }
                // It has closed the connection.
                () = &mut untrusted => {
                    let source = connection.closed().await;
                    return ConnectError::Lost { address, source };
                }
                Some(_) = self.drains.join_next(), if !self.drains.is_empty() => {}
                Some(id) = self.reports.recv() => {
                    if id != connection.id() {
                        continue;
                    }
                    tracing::warn!(peer = %connection.peer().name(), "the connection does not respond");
                    match self.endpoint.connect(&self.target).await {
                        Ok(new) => {
                            self.state.send_replace(Link::Up(new.clone()));
                            deserted.set(watched(new.clone()));
                            untrusted.set(trusted(new.clone()));
                            self.drain(std::mem::replace(&mut connection, new));
                        }
                        Err(error) => tracing::warn!(%error, "cannot open a new connection"),
                    }
                }
            }
        }
    }

    /// Closes a connection after its calls.
    fn drain(&mut self, old: Connection) {
        if self.draining.len() >= MAX_DRAINING
            && let Some(oldest) = self.draining.pop_front()
        {
            oldest.close();
        }
        self.draining.push_back(old.clone());
        let endpoint = self.endpoint.clone();
        self.drains.spawn(async move {
            select! {
                // Its calls had their time.
                _ = timeout(DRAIN_TIME, old.idle()) => old.close(),
                () = endpoint.close_untrusted(&old) => {}
            }
        });
    }

    /// How long to wait after so many failures: doubled each time, and between a half and the whole,
    /// so that many callers do not come back at once.
    fn pause(&self, failed: u32) -> Duration {
        let doubled = self.options.first_pause.saturating_mul(1 << failed.min(16));
        let whole = doubled.min(self.options.longest_pause);
        let mut random = [0_u8; 1];
        // Without randomness the pause is a half.
        let _ = SystemRandom::new().fill(&mut random);
        whole / 2 + whole.mul_f64(f64::from(random[0]) / 512.0)
    }
}
