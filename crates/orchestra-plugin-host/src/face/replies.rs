//! What waits to be read by peers: counted from when it is encoded until the peer has it.

use orchestra_mcp::RelayBudget;
use orchestra_plugin::{
    envelope::Response,
    quic::{Reply, ReplyError},
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

    /// The same response, which counts for as long as any part of it is kept.
    ///
    /// # Errors
    /// `busy` when too much is kept already.
    pub(super) fn hold(&self, response: Response) -> Result<Response, Failure> {
        let Some(kind) = response.kind() else {
            return Ok(response);
        };
        let id = response.request_id().to_owned();
        let payload = response.payload();
        drop(response);
        let held = self.own.hold(payload).map(|payload| self.all.hold(payload));
        let held = held.flatten().ok_or_else(|| {
            let text = "too many answers wait to be read: read them, and ask again";
            Failure::new("busy", text)
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
            tracing::debug!(%error, "what comes before an answer was not taken");
            let code = match error {
                ReplyError::TooLarge { .. } => "result_too_large",
                _ => "cancelled",
            };
            Failure::new(code, error.to_string())
        })
    }
}
