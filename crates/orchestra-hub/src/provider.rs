//! The seam between the hub and whatever answers calls.

use std::{fmt, future::Future, num::NonZeroUsize, pin::Pin, sync::Arc};

use tokio::sync::{mpsc, watch};

use crate::{Catalog, ListKind, Offers, Outcome, PeerReport, ProviderError, Request};
use orchestra_wire::RawJson;

/// A boxed future that owns what it needs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Something that offers tools, prompts and resources.
///
/// The hub owns deadlines, limits, permission, audit and metrics; a provider owns none of them.
pub trait Provider: Send + Sync + 'static {
    /// Its id, unique in a hub.
    fn id(&self) -> &ProviderId;

    /// What it offers, now and after each change.
    fn catalog(&self) -> watch::Receiver<Arc<Catalog>>;

    /// Whether it knows what it offers, or knows that it will not hear of it soon. One that has to
    /// ask somebody else for its catalog says no until it has heard, and then publishes a catalog,
    /// be it an equal one. Lists wait for it, not for long. Must not block.
    fn is_ready(&self) -> bool {
        true
    }

    /// A list waits for it to be ready; called once at most. Must not block.
    fn list_wanted(&self) {}

    /// Whether each list is to be asked for anew, with [`relist`](Self::relist): a list that cannot
    /// be had now is an error then, and not the one of before. Asked once.
    fn lists_anew(&self) -> bool {
        false
    }

    /// Asks for a list anew, and publishes a catalog when it is another than before. The hub waits
    /// for it, not forever, before it tells the list; only where it [`lists_anew`](Self::lists_anew).
    /// Nobody is told of catalogs of such a provider, but of [`Notice::ListChanged`].
    fn relist(&self, _kind: ListKind) -> BoxFuture<Result<(), ProviderError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What it may come to offer, where its catalog does not show it yet: clients of a session hear
    /// of what is offered at its beginning only. Must not block.
    fn may_offer(&self) -> Offers {
        Offers::default()
    }

    /// Whether a tool or prompt of this name may be its own, although its catalog shows none: it does
    /// not know yet what it offers, or can say why it does not offer this. Calls of such names are
    /// handed to it: it waits until it knows, or answers why there is none. Must not block.
    fn may_know(&self, _name: &str) -> bool {
        false
    }

    /// How the program is that it speaks for; `None` when there is none. Must not block.
    fn peer(&self) -> Option<PeerReport> {
        None
    }

    /// What stands before the URIs of its resources where another provider offers the same ones.
    /// URIs that begin so come here as they are, whoever else offers what follows; it tells changes
    /// of them under the URI that is watched. Asked once. `None` when its URIs are its own.
    fn uri_prefix(&self) -> Option<String> {
        None
    }

    /// The name of the server of others that it speaks for, which is the group of its tools, known
    /// before any of them is.
    fn server(&self) -> Option<&str> {
        None
    }

    /// How many of its calls run at once, where that is not up to the hub; more wait.
    fn concurrency(&self) -> Option<NonZeroUsize> {
        None
    }

    /// Whether it says more of its calls for their records, with [`Cx::remark`](crate::Cx::remark).
    fn makes_remarks(&self) -> bool {
        false
    }

    /// The least severe level of which a caller wants to hear has changed; `None` when nobody has
    /// asked for any. Must not block.
    fn set_log_level(&self, _level: Option<LogLevel>) {}

    /// Returns whether it has the roots of a client ([`Cx::connection`](crate::Cx::connection)), so that it needs those
    /// that the client has after a change. Must not block.
    fn has_roots_of(&self, _client: u64) -> bool {
        false
    }

    /// Takes the roots of a client after a change: the answer to `roots/list`, and the number of changes
    /// ([`Cx::roots_version`](crate::Cx::roots_version)). Must not block.
    fn set_roots(&self, _client: u64, _version: u64, _answer: &RawJson) {}

    /// Answers one request. The first poll must return within well under a millisecond unless
    /// the tool's descriptor says [`Cost::Heavy`](crate::Cost). Dropping the future cancels it.
    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>>;

    /// Looks whether the skills of the catalog are still as they are kept, and publishes a new
    /// catalog when they are not. The hub waits for it, not forever, before it tells what skills
    /// there are; it runs as a task. `None` when the catalog is up to date by itself.
    fn refresh_skills(&self) -> Option<BoxFuture<()>> {
        None
    }

    /// What is wrong with the skill whose `SKILL.md` has this URI, so that it is not in the catalog.
    /// `None` when nothing is known of one. Must not block.
    fn skill_problem(&self, _uri: &str) -> Option<String> {
        None
    }

    /// Hands out the provider's notices; called once, at registration. A provider announces a
    /// change after it is durable, changes by other processes included.
    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        None
    }

    /// Whether `uri`, which is listed or fits a template, names something that can be watched now.
    /// Must not block.
    fn can_watch(&self, _uri: &str) -> bool {
        true
    }

    /// The first subscriber of `uri` arrived. Must not block: other subscribers of this provider
    /// wait behind it.
    fn watch(&self, _uri: &str) {}

    /// The last subscriber of `uri` left. Must not block either.
    fn unwatch(&self, _uri: &str) {}
}

/// The name of a provider: 1 to 64 characters of `a-z`, `0-9`, `-`, `_`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProviderId(String);

impl ProviderId {
    /// Parses a provider id; `None` when it breaks the rule of the type.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        (1..=64).contains(&text.len()).then_some(())?;
        text.bytes().all(legal).then(|| Self(text.to_owned()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Something a provider tells without being asked.
#[derive(Debug, Clone)]
pub enum Notice {
    /// A resource changed.
    ResourceUpdated(String),
    /// A log message for clients that asked for them.
    Log {
        /// Severity (RFC 5424).
        level: LogLevel,
        /// Name of the part that logs.
        logger: Option<String>,
        /// Any JSON.
        data: RawJson,
    },
    /// A list is another than it was told to be; of providers that are asked for each list anew.
    ListChanged(ListKind),
    /// A notification of another server that the hub does not know.
    Other {
        /// Method.
        method: String,
        /// Parameters, verbatim.
        params: Option<RawJson>,
        /// Number of the only client that receives it. Without one, only a client that has had the hub to itself since
        /// its start receives it.
        client: Option<u64>,
    },
}

/// Severity of a log message (RFC 5424), least severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are RFC 5424's own")]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}
