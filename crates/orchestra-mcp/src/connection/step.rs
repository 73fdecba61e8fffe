//! What a connection asks of its driver.

use orchestra_hub::Request;
use orchestra_wire::RequestId;

/// What a line or an outcome asks of the driver. Replies have been appended to the output.
#[derive(Debug)]
#[must_use]
pub enum Step {
    /// Nothing, or only to send the output.
    Nothing,
    /// Only to send the output; and from now on there is a
    /// [`next_deadline`](super::Connection::next_deadline).
    Watch,
    /// Sends the output before the connection hears of the next notice, so that an acknowledgement
    /// precedes what it announces.
    Flush,
    /// Runs this job.
    Run(Job),
    /// Runs these jobs, in order.
    RunAll(Vec<Job>),
}

/// A call for the hub.
#[derive(Debug)]
pub struct Job {
    /// Brings the outcome home.
    pub ticket: Ticket,
    /// What to call. When its context says that it is long, and the call waits, the driver makes
    /// it a task with [`become_task`](super::Connection::become_task).
    pub request: Box<Request>,
}

/// Ties an outcome to its call. A call that was cancelled meanwhile is recognised by the serial,
/// even when its id is in use again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub(super) id: RequestId,
    pub(super) serial: u64,
}

impl Ticket {
    /// The request it belongs to.
    pub(crate) const fn id(&self) -> &RequestId {
        &self.id
    }
}
