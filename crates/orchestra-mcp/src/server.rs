//! What a server is called, what it offers and which bounds its connections have.

use std::{
    future::Future,
    num::NonZeroUsize,
    sync::{Arc, LazyLock},
    time::Duration,
};

use orchestra_hub::{Attachment, Call, Caller, Cost, Hub, Outcome, ProviderError, Toolset};
use orchestra_wire::{MAX_LINE_BYTES, Revision, Rope, write};
use tokio::{runtime::Handle, select, sync::Semaphore};

use crate::{
    activity::Activity,
    http::Eras,
    seal::Sealer,
    tasks::{TaskLimits, Tasks},
};

/// Calls that compute and run at once. A runtime needs more blocking threads than these, as large
/// replies are written by them as well.
pub(crate) const HEAVY_CALLS: usize = 16;

/// An MCP server over a hub. Clones are the same server.
#[derive(Clone)]
pub struct Server(pub(crate) Arc<ServerInner>);

pub(crate) struct ServerInner {
    pub(crate) hub: Hub,
    pub(crate) toolset: Toolset,
    pub(crate) instructions: Option<String>,
    /// What its client is called, whatever it calls itself.
    pub(crate) client: Option<Arc<str>>,
    pub(crate) limits: Limits,
    pub(crate) eras: Eras,
    pub(crate) activity: Activity,
    pub(crate) tasks: Tasks,
    /// Made when something is sealed.
    pub(crate) sealer: LazyLock<Sealer>,
    /// For calls that compute, of all connections.
    heavy: Arc<Semaphore>,
    version: String,
    /// `{"name":…,"version":…}`.
    info: Vec<u8>,
    /// The same with `title`, for the revisions that have it.
    titled_info: Vec<u8>,
    /// `"_meta":{"io.modelcontextprotocol/serverInfo":{…}`, open at its end.
    pub(crate) meta_head: Vec<u8>,
}

/// Bounds of one connection.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest inbound line, in bytes.
    pub line_bytes: usize,
    /// Calls that run at once.
    pub running: usize,
    /// Calls that wait for their turn.
    pub queued: usize,
    /// Messages of the calls that wait, in bytes.
    pub queued_bytes: usize,
    /// `subscriptions/listen` requests that are open at once.
    pub listens: usize,
    /// Items of one page of a list; by default a page holds all, as many clients never ask for a
    /// second one.
    pub page: NonZeroUsize,
    /// How long a client may take to answer a request of the server.
    pub answer: Duration,
    /// How often one call may ask its client.
    pub rounds: u32,
    /// How long calls may go on after the end of input or a signal.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: MAX_LINE_BYTES,
            running: 64,
            queued: 1_024,
            queued_bytes: 16 * 1024 * 1024,
            listens: 64,
            page: NonZeroUsize::MAX,
            answer: Duration::from_secs(10 * 60),
            rounds: 16,
            grace: Duration::from_secs(5),
        }
    }
}

/// Builds a [`Server`].
pub struct ServerBuilder {
    hub: Hub,
    name: String,
    title: Option<String>,
    version: String,
    instructions: Option<String>,
    client: Option<Arc<str>>,
    toolset: Toolset,
    limits: Limits,
    eras: Eras,
    tasks: TaskLimits,
}

impl Server {
    /// Starts building a server over `hub`; `name` becomes `serverInfo.name`.
    #[must_use]
    pub fn builder(hub: Hub, name: &str) -> ServerBuilder {
        ServerBuilder {
            hub,
            name: name.to_owned(),
            title: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
            client: None,
            toolset: Toolset::All,
            limits: Limits::default(),
            eras: Eras::Both,
            tasks: TaskLimits::default(),
        }
    }

    /// The hub that it serves.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Runs a call where its cost allows, beside the calls of connections. Dropping the future
    /// cancels the call, unless it runs on a thread of its own: that is told by its signal. It must
    /// run inside a tokio runtime.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn run(&self, call: Call) -> Result<Outcome, ProviderError> {
        match call.cost() {
            Cost::Quick => call.await,
            Cost::Heavy => self.0.run_heavy(call, Handle::current()).await,
        }
    }

    /// Lets one connection of the face `face` in.
    #[must_use]
    pub fn attach(&self, face: &'static str) -> Attachment {
        self.0
            .hub
            .attach(Caller { face, client: None }, self.0.toolset.clone())
    }
}

impl ServerBuilder {
    /// Sets the title for people.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.title = Some(title.to_owned());
        self
    }

    /// Sets the version; by default it is that of this crate.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// Sets guidance for the model; by default it is what the providers say.
    #[must_use]
    pub fn instructions(mut self, text: &str) -> Self {
        self.instructions = Some(text.to_owned());
        self
    }

    /// Names the client of every connection, whatever it calls itself; by default it is believed.
    #[must_use]
    pub fn client(mut self, name: &str) -> Self {
        self.client = Some(name.into());
        self
    }

    /// Chooses the tools that callers see; by default all.
    #[must_use]
    pub fn toolset(mut self, toolset: Toolset) -> Self {
        self.toolset = toolset;
        self
    }

    /// Sets the bounds of connections.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Chooses the eras that are spoken over streams; both by default. HTTP has an option of its own.
    #[must_use]
    pub fn eras(mut self, eras: Eras) -> Self {
        self.eras = eras;
        self
    }

    /// Sets the bounds of tasks.
    #[must_use]
    pub fn tasks(mut self, limits: TaskLimits) -> Self {
        self.tasks = limits;
        self
    }

    /// Finishes the server.
    #[must_use]
    pub fn build(self) -> Server {
        let info = implementation(&self.name, None, &self.version);
        let titled_info = implementation(&self.name, self.title.as_deref(), &self.version);
        let mut meta_head = b"\"_meta\":{\"io.modelcontextprotocol/serverInfo\":".to_vec();
        meta_head.extend_from_slice(&titled_info);
        Server(Arc::new(ServerInner {
            hub: self.hub,
            toolset: self.toolset,
            instructions: self.instructions,
            client: self.client,
            limits: self.limits,
            eras: self.eras,
            sealer: LazyLock::new(Sealer::new),
            activity: Activity::default(),
            version: self.version,
            tasks: Tasks::new(self.tasks),
            heavy: Arc::new(Semaphore::new(HEAVY_CALLS)),
            info,
            titled_info,
            meta_head,
        }))
    }
}

impl ServerInner {
    /// Runs a call that computes on a blocking thread, when it has a place there. One that is
    /// cancelled does not wait for the place.
    pub(crate) fn run_heavy(
        &self,
        call: Call,
        runtime: Handle,
    ) -> impl Future<Output = Result<Outcome, ProviderError>> + Send + 'static {
        let heavy = Arc::clone(&self.heavy);
        async move {
            let mut cancel = call.cancel_signal();
            let place = select! {
                place = heavy.acquire_owned() => place,
                () = cancel.cancelled() => return call.await,
            };
            let inside = runtime.clone();
            let thread = runtime.spawn_blocking(move || {
                let outcome = inside.block_on(call);
                drop(place);
                outcome
            });
            thread.await.unwrap_or_else(|_| {
                Err(ProviderError::Unreachable(
                    "the call broke: its thread ended".to_owned(),
                ))
            })
        }
    }

    pub(crate) fn info(&self, revision: Revision) -> &[u8] {
        if revision.titles() {
            &self.titled_info
        } else {
            &self.info
        }
    }
}

fn implementation(name: &str, title: Option<&str>, version: &str) -> Vec<u8> {
    let mut rope = Rope::new();
    rope.push(b"{\"name\":");
    write::string(&mut rope, name);
    if let Some(title) = title {
        rope.push(b",\"title\":");
        write::string(&mut rope, title);
    }
    rope.push(b",\"version\":");
    write::string(&mut rope, version);
    rope.push_byte(b'}');
    rope.into_vec()
}
