//! One server, asked from threads that wait: the connection lives on a thread of its own, so that
//! nobody needs a runtime to ask.

use std::fmt;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use orchestra_remote::{Endpoint, Fault, Limits};
use tokio::runtime::{self, Runtime};
use tokio::time::timeout;

use super::api;
use crate::model::{EmbedError, ModelError, RemoteOptions};

/// The longest answer: a full batch of the longest vectors, written out.
const MAX_ANSWER: usize = 32 << 20;
/// How much longer than its own limit a request is waited for.
const MARGIN: Duration = Duration::from_secs(1);

/// The way to a server.
pub(super) struct Lane {
    endpoint: Arc<Endpoint>,
    path: &'static [&'static str],
    /// Taken when it ends.
    runtime: Option<Runtime>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Lane {
    pub(super) fn new(options: &RemoteOptions) -> Result<Self, ModelError> {
        let refused = |fault: String| ModelError::Remote(fault);
        let endpoint = Endpoint::new(&options.url, options.key.as_deref())
            .map_err(|error| refused(error.to_string()))?;
        if options.model.is_empty() {
            return Err(refused("the name of a model is missing".to_owned()));
        }
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("memory-remote")
            .enable_all()
            .build()
            .map_err(|error| refused(format!("no thread can be started: {error}")))?;
        Ok(Self {
            endpoint: Arc::new(endpoint),
            path: api::path(options.api),
            runtime: Some(runtime),
        })
    }

    /// The server, as it may be shown.
    pub(super) fn server(&self) -> &str {
        self.endpoint.server()
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(&self, body: Vec<u8>, time: Duration) -> Result<Vec<u8>, EmbedError> {
        let Some(runtime) = &self.runtime else {
            return Err(self.unreachable("the connection to it is closed"));
        };
        let (endpoint, path) = (Arc::clone(&self.endpoint), self.path);
        let (sender, receiver) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            let limits = Limits {
                first: time,
                next: time,
            };
            let exchange = async {
                let answer = endpoint.ask(path, Some(body), limits).await?;
                answer.whole(MAX_ANSWER).await
            };
            let answer = timeout(time, exchange).await;
            // Who asked may have gone.
            let _ = sender.send(answer.unwrap_or(Err(Fault::Late(time))));
        });
        let answer = receiver.recv_timeout(time + MARGIN);
        let answer = answer.unwrap_or(Err(Fault::Late(time)));
        answer.map_err(|fault| match fault {
            Fault::Late(_) => self.unreachable("it gave no answer in time"),
            Fault::Unreachable(fault) | Fault::Broken(fault) => self.unreachable(&fault),
            Fault::Refused { status, said } => EmbedError::Refused {
                server: self.server().to_owned(),
                status,
                said,
            },
            fault @ (Fault::TooLong(_) | Fault::Compressed(_)) => EmbedError::Answer {
                server: self.server().to_owned(),
                fault: fault.to_string(),
            },
        })
    }

    fn unreachable(&self, fault: &str) -> EmbedError {
        EmbedError::Unreachable {
            server: self.server().to_owned(),
            fault: fault.to_owned(),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // Waiting for it would not be allowed everywhere.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
