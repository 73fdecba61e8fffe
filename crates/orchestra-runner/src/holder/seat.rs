//! A process's part in running the plans of a workspace: it holds, or it follows who holds.
//!
//! One task moves between the two. What is asked waits while nobody holds, not for ever; what was asked of
//! a holder that is gone is asked of the next where it has a key, or was surely not begun.

mod sitting;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::{
    Call, HandOver, HandOverError, Place, PlaceError, Refused, Served, Work,
    client::{Connection, Unanswered},
    short_directory,
};
use sitting::Sitting;

/// How long what is asked waits for somebody who answers.
const PATIENCE: Duration = Duration::from_secs(20);

/// Begins to serve as the holder: opens the journal, and takes up what the last one left. An error is told
/// to whoever asks.
pub type Start = Arc<dyn Fn() -> Work<'static, Result<Served, String>> + Send + Sync>;

/// How a process takes part.
#[derive(Clone)]
pub struct Settings {
    /// The storage root of the workspace.
    pub root: PathBuf,
    /// What the process calls itself.
    pub name: String,
    /// Where sockets go whose path would be too long.
    pub short: PathBuf,
    /// How long what is asked waits for somebody who answers.
    pub patience: Duration,
    /// Begins to serve as the holder.
    pub start: Start,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// The usual ones.
    #[must_use]
    pub fn new(root: &Path, name: &str, start: Start) -> Self {
        Self {
            root: root.to_owned(),
            name: name.to_owned(),
            short: short_directory(),
            patience: PATIENCE,
            start,
        }
    }
}

/// What this process is.
#[derive(Clone)]
pub enum Role {
    /// Nobody knows yet, and why not.
    Settling(Option<String>),
    /// It runs the plans.
    Holds(Served),
    /// Another does, which is this process.
    Follows(u32),
    /// It could not begin to run them, and nobody else does.
    Failed(String),
    /// It takes part no more.
    Ended,
    /// It takes part no more, since what the plans are kept in was removed meanwhile.
    Gone,
}

impl std::fmt::Debug for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Settling(why) => f.debug_tuple("Settling").field(why).finish(),
            Self::Holds(_) => f.write_str("Holds"),
            Self::Follows(pid) => f.debug_tuple("Follows").field(pid).finish(),
            Self::Failed(why) => f.debug_tuple("Failed").field(why).finish(),
            Self::Ended => f.write_str("Ended"),
            Self::Gone => f.write_str("Gone"),
        }
    }
}

/// Why something was not done, or is not known to be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The holder refuses it.
    #[error(transparent)]
    Refused(Refused),
    /// The holder went away meanwhile.
    #[error(
        "the process that runs the plans of this workspace ended before it answered, so the request may or may not have been carried out; check the plan before you repeat the request"
    )]
    MaybeDone,
    /// Nobody answers.
    #[error("nothing was done, because no process runs the plans of this workspace: {why}")]
    Nobody {
        /// What is known of why.
        why: String,
    },
    /// It cannot be said in one line.
    #[error("the request is too long; shorten it")]
    TooLong,
    /// This process takes part no more.
    #[error("this program is ending; nothing was done")]
    Ended,
    /// What the plans are kept in was removed meanwhile.
    #[error("the directory of this workspace's plans was removed; nothing was done")]
    Gone,
}

#[derive(Clone, Debug)]
enum Inside {
    Role(Role),
    Follows(Arc<Connection>),
}

enum Order {
    HandOver(HandOver, oneshot::Sender<Result<bool, HandOverError>>),
    EndWhenIdle(Duration, oneshot::Sender<()>),
    End(oneshot::Sender<()>),
}

/// A process's part. Dropping it gives it up at once, without ending the service.
#[derive(Debug)]
pub struct Seat {
    inside: watch::Receiver<Inside>,
    orders: mpsc::Sender<Order>,
    patience: Duration,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Seat {
    /// Takes part from now on. Must run inside a runtime.
    ///
    /// # Errors
    /// When the place cannot be used at all.
    pub fn open(settings: Settings) -> Result<Self, PlaceError> {
        let place = Place::new(&settings.root, &settings.short);
        let leadership = place.lead()?;
        let home = place.home()?;
        let (sender, inside) = watch::channel(Inside::Role(Role::Settling(None)));
        let (orders, ordered) = mpsc::channel(8);
        let patience = settings.patience;
        let sitting = Sitting {
            settings,
            place,
            home,
            inside: sender,
            orders: ordered,
            quiet: None,
        };
        let task = tokio::spawn(sitting.run(leadership));
        Ok(Self {
            inside,
            orders,
            patience,
            task: Mutex::new(Some(task)),
        })
    }

    /// What this process is now.
    #[must_use]
    pub fn role(&self) -> Role {
        role_of(&self.inside.borrow())
    }

    /// Waits until this process is something that `is` says.
    pub async fn until(&self, mut is: impl FnMut(&Role) -> bool) -> Role {
        let mut inside = self.inside.clone();
        let found = inside.wait_for(|inside| is(&role_of(inside))).await;
        found.map_or(Role::Ended, |inside| role_of(&inside))
    }

    /// Has the holder do something, be it this process or another. Who stops waiting gives it up.
    ///
    /// # Errors
    /// When it is refused, nobody does it, or nobody knows whether it was done.
    pub async fn call(&self, call: Call) -> Result<Value, CallError> {
        let has_key = call.once.is_some();
        loop {
            match self.settled().await? {
                Inside::Role(Role::Holds(service)) => {
                    return service.call(call).await.map_err(CallError::Refused);
                }
                Inside::Follows(connection) => match connection.call(call.clone()).await {
                    Ok(value) => return Ok(value),
                    Err(Unanswered::Refused(refused)) => return Err(CallError::Refused(refused)),
                    Err(Unanswered::TooLong) => return Err(CallError::TooLong),
                    Err(Unanswered::MaybeDone) if !has_key => return Err(CallError::MaybeDone),
                    // Of this one nothing more is to be heard.
                    Err(Unanswered::NotDone | Unanswered::MaybeDone) => {
                        self.left(&connection).await
                    }
                },
                Inside::Role(_) => {}
            }
        }
    }

    /// The place of the last event of all plans, as soon as it is after one, or after a while.
    ///
    /// # Errors
    /// When nobody runs the plans.
    pub async fn changes(&self, after: u64, wait: Duration) -> Result<u64, CallError> {
        let end = Instant::now() + wait;
        loop {
            match self.settled().await? {
                Inside::Role(Role::Holds(service)) => {
                    let mut changes = service.changes();
                    // Whoever has waited long enough hears what there is.
                    let _ = timeout_at(end, changes.wait_for(|seq| *seq > after)).await;
                    return Ok(*changes.borrow());
                }
                Inside::Follows(connection) => match connection.changes(after, end).await {
                    Ok(seq) => return Ok(seq),
                    Err(_) => self.left(&connection).await,
                },
                Inside::Role(_) => {}
            }
        }
    }

    /// Where this process holds: starts a program that takes its place, and leaves it to that one or to a
    /// follower that is quicker. The time without a holder is that of one start. `false` where another
    /// process holds already.
    ///
    /// # Errors
    /// When the program cannot be started or does not come; then this process holds on.
    pub async fn hand_over(&self, to: HandOver) -> Result<bool, HandOverError> {
        let (answer, answered) = oneshot::channel();
        if self.orders.send(Order::HandOver(to, answer)).await.is_err() {
            return Ok(false);
        }
        answered.await.unwrap_or(Ok(false))
    }

    /// Takes part for as long as somebody needs it, as a background runner does: until no plan has anything
    /// to do and nobody follows for `quiet`, or another process has held for so long, and 15 seconds at least.
    pub async fn end_when_idle(&self, quiet: Duration) {
        let (answer, answered) = oneshot::channel();
        let order = Order::EndWhenIdle(quiet, answer);
        if self.orders.send(order).await.is_ok() {
            // Its end without a word is an end as well.
            let _ = answered.await;
        }
        self.join().await;
    }

    /// Takes part no more: where this process holds, ends the service and leaves the place to others.
    pub async fn end(&self) {
        let (answer, answered) = oneshot::channel();
        if self.orders.send(Order::End(answer)).await.is_ok() {
            let _ = answered.await;
        }
        self.join().await;
    }

    async fn join(&self) {
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            // Where it panicked it has ended.
            let _ = task.await;
        }
    }

    /// Waits until somebody can be asked.
    async fn settled(&self) -> Result<Inside, CallError> {
        let mut inside = self.inside.clone();
        let end = Instant::now() + self.patience;
        let is_settled = |inside: &Inside| !matches!(inside, Inside::Role(Role::Settling(_)));
        let found = match timeout_at(end, inside.wait_for(is_settled)).await {
            Ok(Ok(found)) => found.clone(),
            Ok(Err(_)) => return Err(CallError::Ended),
            Err(_) => {
                let why = match role_of(&self.inside.borrow()) {
                    Role::Settling(Some(why)) => why,
                    _ => "no process could be reached in time".to_owned(),
                };
                return Err(CallError::Nobody { why });
            }
        };
        match found {
            Inside::Role(Role::Failed(why)) => Err(CallError::Nobody { why }),
            Inside::Role(Role::Ended) => Err(CallError::Ended),
            Inside::Role(Role::Gone) => Err(CallError::Gone),
            found => Ok(found),
        }
    }

    /// Waits until this connection is not the one any more.
    async fn left(&self, connection: &Arc<Connection>) {
        let is_other = |inside: &Inside| match inside {
            Inside::Follows(now) => !Arc::ptr_eq(now, connection),
            Inside::Role(_) => true,
        };
        // Its sender ends with the seat, which is told next.
        let _ = self.inside.clone().wait_for(is_other).await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

fn role_of(inside: &Inside) -> Role {
    match inside {
        Inside::Role(role) => role.clone(),
        Inside::Follows(connection) => Role::Follows(connection.pid()),
    }
}
