//! A call whose headers its server refuses: its definition of the tool may be another by now (MCP
//! 2026-07-28, Streamable HTTP, custom headers from tool parameters).

use std::time::{Duration, Instant};

use orchestra_hub::CallEnd;
use orchestra_mcp::client::{ClientError, Reply, ServerCall};
use orchestra_wire::{ErrorCode, RawJson};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::{
    Server,
    calls::{Done, refusal},
    offered::Tool,
};
use crate::config::Transport;

/// How long a call waits for the list of tools, where its own time is not over before.
const LONGEST: Duration = Duration::from_secs(20);

/// Asks whoever follows the server for its tools anew.
#[derive(Debug, Default)]
pub(super) struct Relisting {
    asked: Notify,
    /// How often what the server offers was looked at.
    looks: watch::Sender<u64>,
}

/// What the tool of a refused call is now.
enum Relisted {
    /// It wants other headers: with these the call may be made once more.
    Headers(Vec<(String, String)>),
    /// It is not offered any more, or not before somebody approves how it changed.
    Withdrawn,
    /// The list tells nothing new.
    Same,
}

impl Relisting {
    /// Resolves when somebody wants the tools to be listed.
    pub(super) async fn wanted(&self) {
        self.asked.notified().await;
    }

    /// What the server offers was looked at.
    pub(super) fn looked(&self) {
        self.looks.send_modify(|looks| *looks += 1);
    }

    /// Has the tools listed, and waits until that was done or failed.
    async fn again(&self, within: Duration) {
        let mut looks = self.looks.subscribe();
        self.asked.notify_one();
        // Whoever follows may have ended; then nothing is new.
        let _ = timeout(within, looks.changed()).await;
    }
}

impl Server {
    /// Calls a tool; once more, where its server wants other headers by now.
    pub(super) async fn call_mirrored(
        &self,
        tool: &Tool,
        arguments: &RawJson,
        call: ServerCall,
    ) -> Result<Result<Reply, ClientError>, Box<Done>> {
        let mut again = self.mirrors().then(|| call.clone());
        let reply = self.reply(call).await;
        let (Err(error), Some(again)) = (&reply, &mut again) else {
            return Ok(reply);
        };
        if !is_mismatch(error) {
            return Ok(reply);
        }
        match self.relist(tool, arguments, again).await {
            Relisted::Same => Ok(reply),
            Relisted::Headers(headers) => {
                again.headers = headers;
                Ok(self.reply(again.clone()).await)
            }
            Relisted::Withdrawn => {
                let text = format!(
                    "{} was called, and nothing ran: its server has changed it, and it is hidden until the user approves the change with `orchestra mcp approve`.",
                    tool.shown
                );
                let end = CallEnd::Denied;
                Err(Box::new(refusal(text, "tool_changed", end, None)))
            }
        }
    }

    /// Whether calls have headers that their server may refuse.
    const fn mirrors(&self) -> bool {
        matches!(self.config.transport, Transport::Http(_))
    }

    /// Looks at the tools of the server anew, after it refused the headers of a call.
    async fn relist(&self, tool: &Tool, arguments: &RawJson, refused: &ServerCall) -> Relisted {
        let left = refused.cx.deadline.map_or(LONGEST, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        self.relisting.again(left.min(LONGEST)).await;
        let offered = self.offered().for_client(refused.cx.connection);
        let Some(now) = offered.tool(&tool.shown) else {
            return Relisted::Withdrawn;
        };
        let headers = now.mirrored.headers(Some(arguments));
        match headers == refused.headers {
            true => Relisted::Same,
            false => Relisted::Headers(headers),
        }
    }
}

/// Whether a server did nothing because the headers of a call are not what it expects.
fn is_mismatch(error: &ClientError) -> bool {
    matches!(error, ClientError::Rpc(error) if error.code == ErrorCode::HEADER_MISMATCH)
}
