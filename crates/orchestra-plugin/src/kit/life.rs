//! The life of a plugin's process: from its flags to its exit code.

mod error;
mod identities;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    net::lookup_host,
    select,
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

use super::{
    answer::ToolError,
    cx::Surroundings,
    events::Topics,
    flags::{self, Flags},
    log, manifest,
    orchestrator::Orchestrator,
    parent::Parent,
    plugin::{Parts, Plugin},
    serve::Server,
    uplink::{Offered, Uplink},
};
use error::StartError;
use identities::{load, open_certs};

use crate::{
    certs::{CertDir, Identity, Looks},
    ids::{CertName, PluginId},
    quic::{Caller, CallerOptions, Endpoint, Limits, Pace, Serving, Target},
};

/// Exit codes, as launchers know them.
const FAILED: u8 = 1;
const BAD_FLAGS: u8 = 2;

/// Threads that handle calls, at most: there are many plugins on a machine.
const THREADS: usize = 4;

/// Calls of a peer beyond those in flight: lists, health and refusals.
const SPARE_CALLS: usize = 256;

/// How long the plugin may take to end when nobody waits for an answer.
const END_TIME: Duration = Duration::from_secs(5);

/// How long answers that are written may take to arrive before the process ends.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// How long threads that still work are waited for.
const THREADS_TIME: Duration = Duration::from_millis(500);

/// The name of the orchestrator's certificate.
const ORCHESTRATOR: &str = "orchestrator";

/// Blocks up to this size are kept for the next call when they are freed: arguments and results of a
/// megabyte, with what is made of them. A plugin that has seen such calls keeps twice as much.
const KEPT_BLOCK_BYTES: usize = 4 * 1024 * 1024;

/// Runs a plugin with the flags of this process.
pub(super) fn run(mut plugin: Plugin) -> ExitCode {
    let parent = Parent::now();
    let args = std::env::args_os().skip(1);
    let flags = match flags::parse(args, &plugin.own_flags) {
        Ok(flags) => flags,
        Err(error) => {
            log::say(&error.to_string());
            return ExitCode::from(BAD_FLAGS);
        }
    };
    let parts = match plugin.parts() {
        Ok(parts) => parts,
        Err(error) => return failed(error),
    };
    if flags.help {
        log::say(&flags::help(parts.id.as_str(), &plugin.own_flags));
        return ExitCode::SUCCESS;
    }
    if flags.manifest {
        let json = manifest::to_json(&plugin.manifest);
        return match log::print(&format!("{json}\n")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(source) => failed(StartError::System {
                attempt: "print the manifest",
                source,
            }),
        };
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.min(THREADS))
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(source) => {
            return failed(StartError::System {
                attempt: "start threads",
                source,
            });
        }
    };
    log::quiet_panics();
    keep_blocks();
    let code = runtime.block_on(live(plugin, parts, flags, parent));
    runtime.shutdown_timeout(THREADS_TIME);
    code
}

/// Lets the allocator know how large blocks are here. That of glibc gives large ones back to the
/// system at once, and gets them page by page when the next call needs them, which takes longer than
/// all else that is done with a megabyte; it learns what is large from those that are freed.
fn keep_blocks() {
    // No page of it is ever touched.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(
        KEPT_BLOCK_BYTES,
    )));
}

fn failed(error: impl std::error::Error) -> ExitCode {
    log::say(ToolError::from(error).message());
    ExitCode::from(FAILED)
}

async fn live(plugin: Plugin, parts: Parts, flags: Flags, parent: Parent) -> ExitCode {
    let patience = plugin.patience;
    let offer = Offered::new(plugin.manifest.clone(), parts.tools.clone());
    let started = async {
        let signals = Signals::listen()?;
        Ok::<_, StartError>((signals, start(plugin, parts, flags).await?))
    };
    let (mut signals, started) = match started.await {
        Ok(started) => started,
        Err(error) => return failed(error),
    };
    let ending = started.wait(parent, &mut signals, offer, patience).await;
    let code = match &ending {
        Ending::Wanted(why) => {
            tracing::info!(why, "plugin shutting down");
            ExitCode::SUCCESS
        }
        Ending::Forced(why) => {
            log::say(why);
            ExitCode::from(FAILED)
        }
    };
    started.end(&mut signals).await;
    code
}

/// A plugin that serves.
struct Started {
    server: Arc<Server>,
    serving: Serving,
    endpoint: Endpoint,
    client: Endpoint,
    uplink: Option<Arc<Uplink>>,
    certs: CertDir,
    renewal_every: Duration,
    id: PluginId,
}

/// The signals that end a plugin.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, StartError> {
        let listen = |kind| {
            signal(kind).map_err(|source| StartError::System {
                attempt: "listen to signals",
                source,
            })
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them.
    async fn next(&mut self) {
        // They end only with the runtime.
        select! {
            Some(()) = self.terminate.recv() => {}
            Some(()) = self.interrupt.recv() => {}
            else => std::future::pending().await,
        }
    }
}

/// Why a plugin ends.
enum Ending {
    Wanted(&'static str),
    Forced(String),
}

async fn start(plugin: Plugin, parts: Parts, flags: Flags) -> Result<Started, StartError> {
    let Parts {
        id,
        offer,
        tools,
        topics,
    } = parts;
    let certs = open_certs(flags.certs.clone()).await?;
    let identities = load(certs.clone(), id.clone());
    let (identity, client) = identities.await.map_err(StartError::Certs)?;
    let address = resolve(&flags.listen).await?;
    let endpoint = Endpoint::bind(address, &identity, Pace::default()).map_err(StartError::Bind)?;
    let target = match &flags.orchestrator {
        Some(address) => Some(Target::named(resolve(address).await?, orchestrator_name())),
        None => None,
    };
    let towards = target
        .as_ref()
        .map_or(Endpoint::LOOPBACK, |target| target.address);
    let client = Endpoint::outgoing(towards, &client, Pace::default()).map_err(StartError::Bind)?;
    let uplink = target.map(|target| dial(&client, target, &id, &topics));
    let surroundings = Arc::new(Surroundings {
        id: id.clone(),
        workspace: flags.workspace,
        flags: flags.own,
        config: Mutex::default(),
        orchestrator: Orchestrator::new(uplink.clone()),
        states: plugin.states,
        tools,
    });
    let server = Arc::new(Server::new(
        surroundings,
        offer,
        topics,
        plugin.max_in_flight,
        plugin.cancel_grace,
    ));
    let limits = Limits {
        calls: plugin.max_in_flight as usize + SPARE_CALLS,
        ..Limits::default()
    };
    let serving = endpoint.serve(server.clone(), limits);
    ready(&endpoint, flags.log_file.or(plugin.log_file).as_deref())?;
    Ok(Started {
        server,
        serving,
        endpoint,
        client,
        uplink,
        certs,
        renewal_every: plugin.renewal_every,
        id,
    })
}

fn dial(client: &Endpoint, target: Target, id: &PluginId, topics: &Arc<Topics>) -> Arc<Uplink> {
    let caller = Caller::start(client.clone(), target, CallerOptions::default());
    Arc::new(Uplink::new(id.clone(), caller, topics.clone()))
}

/// Says where the plugin listens, in the one line that orchestrators wait for.
fn ready(endpoint: &Endpoint, log_file: Option<&Path>) -> Result<(), StartError> {
    let mut address = endpoint.address().map_err(|source| StartError::System {
        attempt: "determine its address",
        source,
    })?;
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    let log_file = log_file.map(|path| {
        log::open(path).map_err(|source| StartError::Log {
            path: path.to_owned(),
            source,
        })
    });
    let log_file = log_file.transpose()?;
    log::say(&format!("READY {address}"));
    if let Some(file) = log_file {
        log::redirect(file).map_err(|source| StartError::System {
            attempt: "redirect stderr",
            source,
        })?;
    }
    Ok(())
}

impl Started {
    /// Waits until the plugin is to end.
    async fn wait(
        &self,
        parent: Parent,
        signals: &mut Signals,
        offer: Offered,
        patience: Duration,
    ) -> Ending {
        let lost = async {
            match &self.uplink {
                Some(uplink) => uplink.keep(offer, patience).await,
                None => std::future::pending().await,
            }
        };
        select! {
            () = self.server.ended() => Ending::Wanted("it was asked to"),
            () = signals.next() => Ending::Wanted("a signal"),
            why = parent.gone() => Ending::Wanted(why),
            why = lost => Ending::Forced(why),
            never = self.renew() => match never {},
        }
    }

    /// Lets calls and hooks come to their end; at once on a signal.
    async fn end(self, signals: &mut Signals) {
        let finish = async {
            self.server.wind_down(END_TIME).await;
            self.serving.stop(Instant::now() + LINGER_TIME).await;
            self.client.close().await;
            self.endpoint.close().await;
        };
        select! {
            () = finish => {}
            () = signals.next() => {}
        }
    }

    /// Renews the certificates while the plugin runs.
    async fn renew(&self) -> std::convert::Infallible {
        let mut shown: Option<(Identity, Identity)> = None;
        let leaves = [self.id.server_name(), self.id.client_name()];
        let mut looks = Looks::new(self.certs.path(), &leaves, self.renewal_every);
        loop {
            looks.next().await;
            match load(self.certs.clone(), self.id.clone()).await {
                Ok((identity, client)) => {
                    let is_shown = shown.as_ref().is_some_and(|(server, caller)| {
                        server.is_same_as(&identity) && caller.is_same_as(&client)
                    });
                    if is_shown {
                        continue;
                    }
                    for renewed in [self.endpoint.renew(&identity), self.client.renew(&client)] {
                        if let Err(error) = renewed {
                            tracing::warn!(%error, "cannot renew the certificates");
                        }
                    }
                    shown = Some((identity, client));
                }
                Err(error) => tracing::warn!(%error, "cannot renew the certificates"),
            }
        }
    }
}

fn orchestrator_name() -> CertName {
    ORCHESTRATOR.parse().expect("a plain word is a name")
}

/// The address of `host:port`, an IPv4 one if there is one. No host stands for this machine.
async fn resolve(address: &str) -> Result<SocketAddr, StartError> {
    let failed = |source| StartError::Resolve {
        address: address.to_owned(),
        source,
    };
    let full = match address.strip_prefix(':') {
        Some(port) => format!("{}:{port}", IpAddr::from(Ipv4Addr::LOCALHOST)),
        None => address.to_owned(),
    };
    let found: Vec<SocketAddr> = lookup_host(full).await.map_err(failed)?.collect();
    let first = found.iter().find(|one| one.is_ipv4()).or(found.first());
    first
        .copied()
        .ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}
