//! What waits to be read by peers: counted from when it is encoded until the peer has it.

use orchestra_mcp::RelayBudget;
use orchestra_plugin::{
    envelope::Response,
    quic::{MAX_FRAME_BYTES, Reply, ReplyError},
};

use super::failure::Failure;

/// What one peer has us keep, and all. Clones count together.
#[derive(Clone)]
pub(super) struct Replies {
    own: RelayBudget,
    all: RelayBudget,
}

impl Replies {
    /// At most so many bytes of one peer, within those of all.
    pub(super) fn new(most: usize, all: &RelayBudget) -> Self {
        Self {
            own: RelayBudget::new(most),
            all: all.clone(),
        }
    }

    /// Refuses what may change something, while the answer might find no room.
    ///
    /// # Errors
    /// `busy`: nothing has run.
    pub(super) fn ready(&self) -> Result<(), Failure> {
        let mut budgets = [&self.own, &self.all].into_iter();
        match budgets.all(|budget| budget.has_room(MAX_FRAME_BYTES)) {
            true => Ok(()),
            false => Err(Failure::new(
                "busy",
                "too many answers wait to be read: read them, and ask again",
            )),
        }
    }

    /// The same response, which counts for as long as any part of it is kept.
    ///
    /// # Errors
    /// `result_dropped` when too much is kept already.
    pub(super) fn hold(&self, response: Response) -> Result<Response, Failure> {
        let Some(kind) = response.kind() else {
            return Ok(response);
        };
        let id = response.request_id().to_owned();
        let payload = response.payload();
        drop(response);
        let held = self.own.hold(payload).map(|payload| self.all.hold(payload));
        let held = held.flatten().ok_or_else(|| {
            let text = "it was done, and the answer was dropped, since too many answers wait to be \
                        read: read them, and ask again only for what may be done twice";
            Failure::new("result_dropped", text)
        })?;
        Ok(Response::raw(id, kind, held))
    }

    /// Writes what comes before the answer.
    ///
    /// # Errors
    /// As for [`Self::hold`]; also when it is too large, or nobody takes it.
    pub(super) async fn send(&self, reply: &mut Reply, before: Response) -> Result<(), Failure> {
        let before = self.hold(before)?;
        let sent = reply.send(&before).await;
        sent.map_err(|error| {
            // Whoever does not take it has given the call up, which ends it.
            tracing::debug!(%error, "the peer did not accept a notification");
            let code = match error {
                ReplyError::TooLarge { .. } => "result_too_large",
                _ => "cancelled",
            };
            Failure::new(code, error.to_string())
        })
    }
}
