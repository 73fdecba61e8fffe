//! An engine from its start to its end.

use std::{future::Future, io, path::PathBuf, sync::Arc, time::Duration};

use orchestra_fs::Directory;
use orchestra_place::{Leader, Leadership, PlaceError, RunDirectory};
use orchestra_process::leave_session;
use orchestra_store::{OpenError, Store};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{Instant, interval, timeout, timeout_at},
};
use tonic::{service::interceptor::InterceptedService, transport::Server};

use super::{
    clients::Clients,
    door::incoming,
    endpoint::{Endpoint, PathError, Token, check_path},
    generated::{SCHEMA, memory_service_server::MemoryServiceServer},
    guard::Guard,
    listen::{Address, Listeners, listen},
    meaning::Meaning,
    place::Place,
    service::Memory,
};

/// The largest message that is read: a session with all the events that it may have, each as long as
/// it may be.
const MESSAGE_BYTES: usize = 8 * 1024 * 1024;

/// Calls that one connection may have open.
const STREAMS: u32 = 128;

/// Calls of one connection that are worked on; the rest waits.
const OF_ONE_CONNECTION: usize = 64;

/// How often a connection on which nothing comes is asked whether somebody is there, and how long that
/// may take to be answered.
const ALIVE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(60));

/// How often the engine looks whether it is still the one that is told of.
const LOOKS: Duration = Duration::from_secs(1);

/// How long calls may go on that run when the engine is to end, and then the readable files: whoever
/// asked it to end waits for three seconds.
const CALLS: Duration = Duration::from_millis(1_000);
const FILES: Duration = Duration::from_millis(1_500);

/// How an engine is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The workspace, absolute and without links.
    pub workspace: PathBuf,
    /// Its run directory.
    pub run: RunDirectory,
    /// Where to listen.
    pub address: Address,
    /// Whether clients must show a token.
    pub asks_token: bool,
    /// When it ends.
    pub life: Life,
    /// How the store is opened.
    pub store: orchestra_store::Options,
    /// What finds by meaning, if anything does.
    pub meaning: Option<Arc<dyn Meaning>>,
}

/// When an engine ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Never: a person has started it, and ends it.
    OfItsOwn,
    /// Soon after its last client: a program has started it for itself and others.
    OfItsClients,
}

/// How it came to its end.
#[derive(Debug)]
pub enum Outcome {
    /// Another engine serves the workspace; where it listens, if it says so.
    Elsewhere(Option<Box<Endpoint>>),
    /// It served, and was told to end.
    Told,
    /// It served, and nobody needs it any more.
    Unused,
    /// It served, and the board was removed or replaced.
    Lost,
}

/// Why an engine does not serve.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nobody can be told of it.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Its place cannot be used.
    #[error("the run directory of the workspace cannot be used")]
    Place(#[from] PlaceError),
    /// The board cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The directory of the board cannot be opened.
    #[error(transparent)]
    Board(#[from] orchestra_fs::Error),
    /// The address is taken or cannot be used.
    #[error("cannot listen on {address}; pass another address with --addr, or omit --addr")]
    Listen {
        /// Which.
        address: Address,
        /// What the system says.
        source: io::Error,
    },
    /// The system has no randomness for a token.
    #[error("cannot create a token")]
    Token(#[source] getrandom::Error),
    /// Connections cannot be served.
    #[error("the memory engine cannot answer requests")]
    Serve(#[from] tonic::transport::Error),
}

/// Serves a workspace until `told` comes to its end, or the engine's life is over. `ready` is called
/// once, when clients are answered. Must run inside a runtime of several threads, or with blocking ones.
///
/// # Errors
/// When it cannot serve.
pub async fn run(
    options: Options,
    ready: impl FnOnce(&Endpoint) + Send,
    told: impl Future<Output = ()> + Send,
) -> Result<Outcome, EngineError> {
    if options.life == Life::OfItsClients {
        leave_session();
    }
    check_path(&options.workspace)?;
    let place = Place::new(options.run.clone());
    let Some(leadership) = place.lead()? else {
        return Ok(Outcome::Elsewhere(match place.leader()? {
            Leader::Published(endpoint) => Some(Box::new(endpoint)),
            Leader::None | Leader::Silent => None,
        }));
    };
    let Options {
        workspace,
        address,
        asks_token,
        life,
        store: store_options,
        meaning,
        ..
    } = options;
    let opening = spawn_blocking(move || {
        let store = Store::open(&workspace, store_options)?;
        let root = Directory::open(store.root())?;
        Ok::<_, EngineError>((store, root))
    });
    let (store, board) = opening.await.unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic.into_panic());
    })?;
    let listeners = listen(address)
        .await
        .map_err(|source| EngineError::Listen { address, source })?;
    let token = asks_token.then(Token::random).transpose();
    let token = token.map_err(EngineError::Token)?;
    let endpoint = Endpoint::new(store.workspace(), listeners.address, token.clone());
    if let Some(meaning) = &meaning {
        meaning.begin(&store);
    }
    let (clients, (end, ends)) = (Clients::none(), watch::channel(false));
    let memory = Memory::new(
        store.clone(),
        meaning.clone(),
        clients.clone(),
        ends.clone(),
    );
    let mut serving = tokio::spawn(serve(memory, Guard::new(token), listeners, ends));
    leadership.publish(&endpoint).map_err(PlaceError::from)?;
    ready(&endpoint);

    let over = async {
        tokio::select! {
            () = told => Outcome::Told,
            () = clients.are_gone(), if life == Life::OfItsClients => Outcome::Unused,
            () = lost(&leadership, &board) => Outcome::Lost,
        }
    };
    let outcome = tokio::select! {
        outcome = over => Ok(outcome),
        // It panicked where there is no error.
        served = &mut serving => match served {
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(())) | Err(_) => Ok(Outcome::Lost),
        },
    };
    // Nobody is sent here any more.
    if let Err(error) = leadership.withdraw() {
        tracing::warn!(%error, "cannot remove the engine's endpoint file");
    }
    end.send_replace(true);
    // Who still waits for an answer by then is cut off, and asks another engine or none.
    if !serving.is_finished() && timeout(CALLS, &mut serving).await.is_err() {
        serving.abort();
    }
    if let Some(meaning) = meaning {
        meaning.end();
    }
    let deadline = Instant::now() + FILES;
    // What is not written by then is written by the next program that opens the board.
    let closing = spawn_blocking(move || store.close(FILES));
    let _ = timeout_at(deadline, closing).await;
    outcome
}

/// Serves connections until the end.
async fn serve(
    memory: Memory,
    guard: Guard,
    listeners: Listeners,
    mut ends: watch::Receiver<bool>,
) -> Result<(), tonic::transport::Error> {
    let service = MemoryServiceServer::new(memory)
        .max_decoding_message_size(MESSAGE_BYTES)
        .max_encoding_message_size(usize::MAX);
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<MemoryServiceServer<Memory>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(SCHEMA)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let router = Server::builder()
        .max_concurrent_streams(STREAMS)
        .concurrency_limit_per_connection(OF_ONE_CONNECTION)
        .http2_keepalive_interval(Some(ALIVE.0))
        .http2_keepalive_timeout(Some(ALIVE.1))
        .add_service(InterceptedService::new(service, guard))
        .add_service(health)
        // Our own schema can be read by whoever wrote this.
        .add_optional_service(reflection().build_v1().ok())
        .add_optional_service(reflection().build_v1alpha().ok());
    let end = async move {
        // An error means that nobody could say so any more.
        let _ = ends.wait_for(|ends| *ends).await;
    };
    router
        .serve_with_incoming_shutdown(incoming(listeners.all), end)
        .await
}

/// Waits until this engine no longer leads, or the board was removed or replaced. May be cancelled.
async fn lost(leadership: &Leadership, board: &Directory) {
    let mut looks = interval(LOOKS);
    loop {
        looks.tick().await;
        if !leadership.is_current() || !board.is_in_place() {
            return;
        }
    }
}
