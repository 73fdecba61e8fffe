//! Files that an approval covers, compared directly before each start.

use std::sync::Arc;

use orchestra_hub::BoxFuture;
use orchestra_mcp::client::{ClientError, Connected, Connector, TransportType};

use crate::{
    approval::{Covered, Fingerprint},
    config::ServerConfig,
    expand::Scope,
};

/// Compares the files that the approval of a server covers with what was approved. Reads them.
///
/// # Errors
/// When one of them differs.
pub(super) fn compare(config: &ServerConfig, scope: &Scope) -> Result<(), ClientError> {
    let Some(approved) = &config.covered else {
        return Ok(());
    };
    let now = Covered::of(config, scope);
    if now == **approved {
        return Ok(());
    }
    let before = Fingerprint::of(config, approved);
    let changes = before.changes(&Fingerprint::of(config, &now)).join(", ");
    let name = &config.name;
    // It may be changed back, so the start is tried again.
    Err(ClientError::Unreachable {
        what: format!(
            "it needs approval, because it changed since it was approved: {}; `orchestra mcp approve {name}` shows \
             and approves it",
            changes.escape_debug()
        ),
    })
}

/// Runs what reads covered files where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ClientError> + Send + 'static,
) -> Result<T, ClientError> {
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|error| {
        let what = format!("the files that its approval covers cannot be compared: {error}");
        Err(ClientError::Unreachable { what })
    })
}

/// Connector of an approved server that is no process of its own, such as one on the network with a program that
/// prints its token.
pub(super) struct Compared {
    pub(super) inner: Arc<dyn Connector>,
    pub(super) config: Arc<ServerConfig>,
    pub(super) scope: Scope,
}

impl Connector for Compared {
    fn transport(&self) -> TransportType {
        self.inner.transport()
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let inner = Arc::clone(&self.inner);
        let (config, scope) = (Arc::clone(&self.config), self.scope.clone());
        Box::pin(async move {
            blocking(move || compare(&config, &scope)).await?;
            inner.connect().await
        })
    }
}
