//! Servers that are reached over HTTP.
//!
//! [`HttpConnector`] speaks Streamable HTTP of all revisions (MCP, transports), plain JSON-RPC at
//! `/rpc` (seed 002) and the pair of a stream and a place to post to of 2024-11-05. A call costs no
//! task; its future dropped closes the stream of its response.
//!
//! What a request is sent with is put in when it is sent: variables of headers, tokens of `auth`.
//! Redirects are followed within the origin alone, and a `401` is answered with one new token where
//! there is one. Which calls are repeated is up to whoever calls: [`HttpFailure`] tells the status,
//! the wait that the server names, and whether the request may have been run.
//!
//! A server that has forgotten its session ends the link, whether it says so as MCP has it (`404`) or
//! in a `400` as the official SDKs do: the call that was told fails with an [`HttpFailure`] of status
//! 404 whose `sent` is `false`, for it did not run, and so do later ones; [`Link::ended`] resolves
//! with [`ClientError::Closed`].
//!
//! [`HttpFailure`]: super::HttpFailure

mod auth;
mod chores;
mod coding;
mod config;
mod core;
mod events;
mod exchange;
mod failure;
mod listen;
mod mirrored;
mod names;
pub mod oauth;
mod old;
mod program;
mod reach;
mod reply;
mod send;
mod stream;
mod template;

use std::{
    future::ready,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use orchestra_hub::BoxFuture;
use orchestra_secret::Masker;
use orchestra_wire::{Era, RawJson, RequestId};
use reqwest::{
    Client, Method,
    header::{CONTENT_TYPE, HeaderMap},
};
use tokio::{sync::oneshot, task::AbortHandle, time::timeout};

use self::{
    auth::Authorization,
    core::{Core, Opened},
    old::OldPair,
};
use super::{Agreed, Answer, ClientError, Connected, Connector, Link, Outgoing, TransportType};

pub use reqwest::Url;

pub use self::{
    auth::{AuthHeaders, AuthRequest, Authorizer, Refusal},
    config::{Auth, Check, Flavour, HttpConfig, HttpTimeouts, is_private},
    mirrored::{InvalidAnnotation, MirroredParams},
    names::header_text,
    template::{Environment, Secrets, Template, TemplateError},
};

/// Reaches one server over HTTP. Its connections share one pool.
pub struct HttpConnector {
    config: HttpConfig,
    client: Client,
    /// What was signed in is signed in for all connections.
    authorization: Arc<Authorization>,
}

impl HttpConnector {
    /// Takes a configuration. Reads the files it names; nothing is sent.
    ///
    /// # Errors
    /// [`ClientError::InvalidConfig`] for a URL, header or file that cannot be used.
    pub fn new(config: HttpConfig) -> Result<Self, ClientError> {
        config.endpoint()?;
        config.split_headers()?;
        let client = reach::client(&config)?;
        let authorization = Arc::new(Authorization::new(&config)?);
        Ok(Self {
            config,
            client,
            authorization,
        })
    }
}

impl Connector for HttpConnector {
    fn transport(&self) -> TransportType {
        TransportType::Http
    }

    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>> {
        let opened = Core::open(
            self.config.clone(),
            self.client.clone(),
            Arc::clone(&self.authorization),
        );
        Box::pin(async move {
            let Opened {
                core,
                incoming,
                chores,
            } = opened?;
            let chores = tokio::spawn(chores::run(Arc::downgrade(&core), chores));
            let link = HttpLink {
                chores: chores.abort_handle(),
                listener: Mutex::default(),
                core,
            };
            if link.core.config.flavour == Flavour::Sse {
                let pair = OldPair::open(&link.core).await;
                let pair = pair.map_err(|error| error.masked(&link.core.masker()))?;
                drop(link.core.old.set(pair));
            }
            let link = Arc::new(link);
            Ok(Connected { link, incoming })
        })
    }
}

/// For how long a session waits for the stream on which its server speaks by itself. Servers there
/// are that say nothing at all on it, not even that it is open, before they have something to say.
const LISTEN_WAIT: Duration = Duration::from_millis(500);

/// One connection with its tasks.
struct HttpLink {
    core: Arc<Core>,
    chores: AbortHandle,
    /// Reads what the server says by itself.
    listener: Mutex<Option<AbortHandle>>,
}

impl HttpLink {
    fn stop(&self) {
        self.core.close();
        if let Some(pair) = self.core.old.get() {
            pair.close();
        }
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = listener.take() {
            listener.abort();
        }
        self.chores.abort();
    }

    /// Does something with the connection while it is open.
    fn doing<T, F>(&self, work: impl FnOnce(Arc<Core>) -> F) -> BoxFuture<Result<T, ClientError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        if let Some(error) = self.core.over() {
            return Box::pin(ready(Err(error)));
        }
        let work = work(Arc::clone(&self.core));
        let core = Arc::clone(&self.core);
        Box::pin(async move { core.while_open(work).await })
    }

    fn post(&self, message: Vec<u8>) -> BoxFuture<Result<(), ClientError>> {
        self.doing(|core| async move {
            match core.old.get() {
                Some(pair) => pair.post(&core, message.into()).await,
                None => core.tell(message).await,
            }
        })
    }
}

impl Link for HttpLink {
    fn request(&self, request: Outgoing) -> BoxFuture<Result<Answer, ClientError>> {
        self.doing(|core| async move {
            if let Some(pair) = core.old.get() {
                return pair.exchange(&core, &request).await;
            }
            let answered = core.exchange(&request).await;
            let may_be_old = core.config.flavour == Flavour::Auto && request.method == "initialize";
            match &answered {
                Err(ClientError::Http(failure))
                    if may_be_old && matches!(failure.status, 400 | 404..=406 | 415) =>
                {
                    let Ok(pair) = OldPair::open(&core).await else {
                        return answered;
                    };
                    core.old
                        .get_or_init(|| pair)
                        .exchange(&core, &request)
                        .await
                }
                _ => answered,
            }
        })
    }

    fn notify(&self, method: &str, params: Option<RawJson>) -> BoxFuture<Result<(), ClientError>> {
        self.post(core::notification(method, params.as_ref()))
    }

    fn respond(&self, id: RequestId, answer: Answer) -> BoxFuture<Result<(), ClientError>> {
        self.post(core::response(&id, &answer))
    }

    fn agreed(&self, agreed: Agreed) -> BoxFuture<()> {
        self.core.agree(agreed.revision);
        let listens = self.core.is_mcp()
            && agreed.revision.era() == Era::Session
            && self.core.old.get().is_none();
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if listens && listener.is_none() && self.core.has_ended().is_none() {
            let (tried, heard) = oneshot::channel();
            let listening = tokio::spawn(listen::run(Arc::downgrade(&self.core), tried));
            *listener = Some(listening.abort_handle());
            // Either it was tried, or nobody tries any more.
            return Box::pin(async move { drop(timeout(LISTEN_WAIT, heard).await) });
        }
        Box::pin(ready(()))
    }

    fn ended(&self) -> BoxFuture<ClientError> {
        Box::pin(self.core.ending())
    }

    fn masker(&self) -> Option<Masker> {
        Some(self.core.masker())
    }

    fn close(&self) -> BoxFuture<()> {
        self.stop();
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            let common = core.common();
            if core.leave_session().is_none() {
                return;
            }
            let headers = || {
                let mut headers = HeaderMap::clone(&common.headers);
                headers.remove(CONTENT_TYPE);
                headers
            };
            let left = core.send(Method::DELETE, &core.endpoint, headers, None);
            // A server that does not take it forgets the session by itself.
            drop(timeout(core.config.timeouts.close, left).await);
        })
    }
}

impl Drop for HttpLink {
    fn drop(&mut self) {
        self.stop();
    }
}
