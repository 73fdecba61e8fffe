//! Who of a workspace runs its plans, and how others reach it.
//!
//! Of all processes of a workspace the leader of the election in the storage root, the *holder*, runs the
//! plans. It listens on a local socket; the others, its *followers*, keep one connection to it and forward
//! what they are asked. The system takes the lock from a process that ends, however it ends: its followers
//! see their connection end and race for the lock, and who gets it is the next holder.
//!
//! A [`Seat`] is a process's part in this: it asks the holder, whoever that is, and says when this process
//! becomes it. What is asked and answered is not known here.

mod client;
mod handing;
mod place;
mod seat;
mod server;
mod slots;
mod wire;

use std::{pin::Pin, sync::Arc};

use serde_json::Value;
use tokio::sync::watch;

pub use handing::{HandOver, HandOverError};
pub use place::{Leadership, Place, PlaceError, short_directory};
pub use seat::{CallError, Role, Seat, Settings, Start};
pub use slots::{Slot, SlotError, Slots};

use crate::journal::OnceKey;

/// A future that somebody else runs.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the holder is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What.
    pub method: String,
    /// With what.
    pub params: Value,
    /// What makes it be done once, although it is asked again. Without it, who asks may have to hear
    /// that nobody knows whether it was done.
    pub once: Option<OnceKey>,
}

/// Why the holder does not do what it is asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// What programs go by.
    pub code: String,
    /// What people read.
    pub message: String,
    /// More, for programs.
    pub data: Option<Value>,
}

/// What a process does as the holder.
pub trait Service: Send + Sync + 'static {
    /// Does what is asked. Dropped where whoever asks gives up, or is gone: nothing may be left half done
    /// by that.
    fn call(&self, call: Call) -> Work<'_, Result<Value, Refused>>;

    /// The place of the last event of all plans, as it grows.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Whether there is a plan that has something to do. When nobody can say so any more, its sender being
    /// dropped, the service has ended by itself, and the process holds no more.
    fn is_live(&self) -> watch::Receiver<bool>;

    /// What failed for good and is left to the next holder, in words.
    fn given_up(&self) -> Option<String> {
        None
    }

    /// Whether what the plans are kept in is still where it was.
    fn is_kept(&self) -> bool {
        true
    }

    /// Ends what this process does as the holder, and writes what is to be written: the next holder may
    /// begin as soon as it returns. Jobs go on.
    fn end(&self) -> Work<'_, ()>;
}

/// A service that is shared.
pub type Served = Arc<dyn Service>;
