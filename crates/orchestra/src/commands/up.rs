//! `orchestra up`: serves the workspace over HTTP until a signal ends it.

pub(super) mod endpoint;
pub(super) mod listen;

use std::{net::SocketAddr, path::Path, time::Duration};

use clap::Args;
use orchestra_mcp::{
    LifecycleTimes, ServerLifecycle,
    client::tap::TapWatch,
    http::{Access, Listeners, Tls},
};
use orchestra_process::PeerUsers;
use orchestra_store::Options;
use serde::Serialize;
use tokio::sync::watch;

use crate::{
    access, board,
    cli::{self, Common, examples},
    commands::progress::Turning,
    config::{
        AccessFlags, Config, EngineFlags, Entry, Origin, Overrides, QuicAddress, QuicFlags,
        TextFormat, TokenSource,
    },
    dashboard,
    exit::{Exit, Failure},
    http::{self, MCP_PATH},
    logging,
    output::{self, Format},
    servers::{self, ServerFlags},
    serving::{self, Face, Serving, Shown},
    stopping::Signals,
};
use endpoint::{Endpoint, Place, Tokens};

/// Serve the workspace over HTTP and print how to connect
///
/// Opens the board, or creates it, and serves MCP over HTTP to this machine until SIGINT, SIGTERM or SIGHUP. If
/// another `up` already serves the workspace, prints its address and ends.
#[derive(Debug, Args)]
#[command(after_help = examples(&["up", "up --http 7500 --token-file tokens.txt", "up --json"]))]
pub(crate) struct Arguments {
    /// Address to listen on, such as 127.0.0.1:7420, localhost:7420 or 7420. If the port is in use, the next
    /// free one is taken; 0 takes any free port [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR", value_parser = http::parse_address)]
    http: Option<SocketAddr>,
    #[command(flatten)]
    access: AccessFlags,
    #[command(flatten)]
    quic: QuicFlags,
    #[arg(long, value_name = "TOOLS", help = cli::tools_help())]
    tools: Option<String>,
    /// Format of the text in tool results
    #[arg(long, value_enum)]
    format: Option<TextFormat>,
    #[command(flatten)]
    servers: ServerFlags,
    #[command(flatten)]
    engine: EngineFlags,
    /// Print the address as one line of JSON when `up` is ready
    #[arg(long)]
    json: bool,
}

/// The line that `--json` prints.
#[derive(Serialize)]
struct Ready<'a> {
    event: &'static str,
    workspace: &'a Path,
    already_running: bool,
    #[serde(flatten)]
    endpoint: &'a Endpoint,
    /// The upstream MCP servers; not known of a program that runs already.
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<&'a [Shown]>,
    /// The user's own token, where clients must show it.
    #[serde(skip)]
    own_token: Option<String>,
}

/// Serves until a signal.
///
/// # Errors
/// When the board cannot be opened, or no address can be listened on.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let format = Format::of_flag(arguments.json);
    let Arguments {
        http,
        access,
        quic,
        tools,
        format: text_format,
        servers,
        engine,
        ..
    } = arguments;
    servers.check()?;
    let config = Config::settle(
        common,
        Overrides {
            tools,
            format: text_format,
            http,
            access,
            quic,
            engine,
            servers,
            ..Overrides::default()
        },
    )?;
    config.check_access()?;
    logging::start(&config.log.value)?;
    let mut place = Place::find(&config)?;
    if let Some(running) = place.running()? {
        return announce_running(&config, &running, format);
    }
    let runtime = serving::runtime()?;
    let served = runtime.block_on(serve(&config, &mut place, format));
    // Nothing that still computes is waited for.
    runtime.shutdown_background();
    served
}

async fn serve(config: &Config, place: &mut Place, format: Format) -> Result<Exit, Failure> {
    // Before anything is opened: faults here are faults of the configuration.
    let tls = config.access.tls.value.as_ref().map(access::tls);
    let tls = tls.transpose().map_err(Failure::usage)?;
    let own_token = own_token(config)?;
    let rules = access::rules(&config.access, own_token.as_deref(), config.http.value);
    let mut rules = rules.map_err(Failure::usage)?;
    let opening = Turning::new("opening the board");
    let mut serving = Serving::open(config, Options::default())?;
    drop(opening);
    while !place.lead()? {
        if let Some(running) = place.running()? {
            return announce_running(config, &running, format);
        }
    }
    // Before plugins are started, which call back there.
    let quic = listen_for_plugins(config, &serving).await?;
    // Only as the leader: another program that leads has them.
    let traffic = TapWatch::default();
    serving.start_others(Some(traffic.clone()), Duration::ZERO)?;
    serving.start_engine(Face::Http);
    serving.start_sync();
    // The servers are known now, so a wrong toolset is reported before the ready line.
    serving.toolset()?;
    // Taken before anything is announced, so that a signal right after the line is not lost.
    let signals = Signals::listen()?;
    let listeners = match config.access.oauth.resource() {
        None => listen::bind(config.http.value).await?,
        Some(resource) => listen::bind_for(resource, config.http.value).await?,
    };
    let address = listeners.local_addr()?;
    let foreign_localhost = listeners.foreign_localhost();
    rules.is_localhost_foreign = foreign_localhost.is_some();
    warn(config, address, foreign_localhost);
    serving.warn_of_read_only();
    let mut endpoint = endpoint(config, address);
    endpoint.foreign_localhost = foreign_localhost;
    if serving.plans_part().is_some() {
        endpoint.plans = Some(config.plans.storage.value.clone());
    }
    if quic.is_some() {
        endpoint.quic = quic;
        endpoint.certs_dir = Some(serving.orchestrator().certs()?.to_owned());
    }
    place.publish(&endpoint)?;
    let served = match announce(config, &endpoint, Some(serving.others()), format) {
        Ok(()) | Err(Failure::BrokenPipe) => {
            let guard = Access::new(rules);
            let ends = async {
                tokio::select! {
                    () = signals.first() => {
                        output::complain("stopping; a second signal stops it at once");
                        Ok(())
                    }
                    moved = place.lost() => Err(lost(config, moved.as_deref())),
                    never = access::follow_tokens(&config.access, &guard) => match never {},
                }
            };
            let access = (guard.clone(), tls);
            serve_until(&serving, config, listeners, access, traffic, ends).await
        }
        Err(failure) => Err(failure),
    };
    place.withdraw();
    serving.end(signals.deadline()).await;
    served.map(|()| Exit::Ok)
}

/// The user's own token, where the configuration names none. Where the system names the users of
/// connections, the user's clients do without.
fn own_token(config: &Config) -> Result<Option<String>, Failure> {
    if config.access.asks_who_calls() {
        return Ok(None);
    }
    match access::own_token() {
        Ok(token) => Ok(Some(token)),
        Err(error) if PeerUsers::new().are_named() => {
            output::complain(&format!(
                "{error:#}; callers whose user is not known are refused"
            ));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Listens for plugins and bridges, if configured. Without an explicit setting, a failure is a warning, and the rest
/// is served.
async fn listen_for_plugins(
    config: &Config,
    serving: &Serving,
) -> Result<Option<SocketAddr>, Failure> {
    let asked = &config.quic.address;
    let QuicAddress::At(address) = asked.value else {
        return Ok(None);
    };
    match serving.orchestrator().listen(address).await {
        Ok(bound) => {
            if bound.port() != address.port() && address.port() != 0 {
                output::complain(&format!(
                    "UDP port for plugins: {address} is in use; listening on {bound}"
                ));
            }
            Ok(Some(bound))
        }
        Err(error) if asked.origin == Origin::Default => {
            output::complain(&format!(
                "cannot accept plugins and bridges over QUIC: {error:#}; --quic off disables QUIC"
            ));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Warns where the address may differ from the intended one.
fn warn(config: &Config, address: SocketAddr, foreign_localhost: Option<SocketAddr>) {
    let asked = config.http.value;
    if address.port() != asked.port() && asked.port() != 0 {
        output::complain(&format!(
            "TCP port for HTTP: {asked} is in use; listening on {address}"
        ));
    }
    if let Some(foreign) = foreign_localhost {
        output::complain(&format!(
            "another program may listen on {foreign}, where `localhost` leads as well: requests for `localhost` are \
             refused; use {address}"
        ));
    }
    if !address.ip().is_loopback() && config.access.tls.value.is_none() {
        output::complain(
            "everyone on the network path can read tokens and responses; use TLS with --tls-cert and --tls-key, or a proxy with TLS",
        );
    }
    if let Some(resource) = config.access.oauth.resource()
        && !listen::leads_to_mcp(resource)
    {
        output::complain(&format!(
            "clients are sent to {resource}, but MCP is served at {MCP_PATH}; another path works \
             only behind a proxy that maps it to {MCP_PATH}"
        ));
    }
}

/// Failure after the board was moved, removed or replaced.
fn lost(config: &Config, moved: Option<&Path>) -> Failure {
    let there = board::root(config).unwrap_or_else(|_| config.workspace.clone());
    let there = there.display();
    let text = match moved {
        Some(to) => format!(
            "{there} was moved to {} while it was served; start again there",
            to.display()
        ),
        None => format!(
            "{there} was removed or replaced while it was served, or another program serves it now; start again \
             to serve what is there"
        ),
    };
    anyhow::Error::msg(text).into()
}

/// Serves until `ends` completes, and ends cleanly.
async fn serve_until(
    serving: &Serving,
    config: &Config,
    listeners: Listeners,
    (guard, tls): (Access, Option<Tls>),
    traffic: TapWatch,
    ends: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let server = serving.server()?;
    let parts = serving.parts();
    let source = serving
        .live()
        .map(|live| dashboard::source(live, config, traffic, serving.applied_servers()));
    let (limits, times) = (listen::limits(), LifecycleTimes::default());
    let app = |stop: &watch::Receiver<bool>| {
        http::app(
            &server,
            source,
            parts,
            &guard,
            limits,
            config.line_bytes.value,
            stop,
        )
    };
    let life = match tls {
        None => ServerLifecycle::http(&server, listeners, app, limits, times)?,
        Some(tls) => ServerLifecycle::https(&server, listeners, tls, app, limits, times)?,
    };
    let _told = life.on_status_change(serving::tell);
    serving.attend_plans(&life);
    life.start().map_err(anyhow::Error::from)?;
    let over = ends.await;
    let stopped = life.stop().await;
    over.and(stopped.map_err(|reason| Failure::from(anyhow::Error::msg(reason))))
}

/// The endpoint of this process, which listens on `address`.
fn endpoint(config: &Config, address: SocketAddr) -> Endpoint {
    let asks_token = config.access.asks_who_calls() || !PeerUsers::new().are_named();
    let mut endpoint = Endpoint::new(address, &base(config, address), asks_token);
    endpoint.tokens = tokens(config);
    endpoint.serves = Some(config.workspace.clone());
    let oauth = &config.access.oauth;
    if let Some(resource) = oauth.resource() {
        // Clients get tokens for this URL from the issuers.
        endpoint.mcp = resource.to_string();
        endpoint.issuers = oauth.issuers().iter().map(ToString::to_string).collect();
    }
    endpoint
}

/// The source of the tokens that this process admits.
fn tokens(config: &Config) -> Option<Tokens> {
    match &config.access.token.value {
        TokenSource::None if config.access.oauth.is_set() => None,
        TokenSource::None => Some(Tokens::Own),
        TokenSource::Environment => Some(Tokens::Environment),
        // Other programs have other working directories.
        TokenSource::File(path) => Some(Tokens::File(
            std::path::absolute(path).unwrap_or_else(|_| path.clone()),
        )),
    }
}

/// The base URL of `address`, with the first host name of the configuration, if there is one.
fn base(config: &Config, address: SocketAddr) -> String {
    let scheme = match config.access.tls.value {
        Some(_) => "https",
        None => "http",
    };
    let told = config.access.hosts.value.first().cloned();
    match told.or_else(|| config.access.oauth.host()) {
        Some(host) if !address.ip().is_loopback() => {
            format!("{scheme}://{host}:{}", address.port())
        }
        _ => format!("{scheme}://{address}"),
    }
}

/// Reports where another process serves the workspace, and which flags and settings are not used there.
fn announce_running(config: &Config, running: &Endpoint, format: Format) -> Result<Exit, Failure> {
    if let Some(note) = running.other_worktree(&config.workspace) {
        output::complain(&note);
    }
    announce(config, running, None, format)?;
    for name in unused(config, running) {
        output::complain(&format!(
            "process {} serves this workspace at {} already, so {name} was not used; stop the \
             running one first",
            running.pid, running.http
        ));
    }
    Ok(Exit::Ok)
}

/// Flags and settings without effect because another process serves the workspace: every flag except an address that
/// it listens on anyway, and a source of tokens if it asks for none.
fn unused(config: &Config, running: &Endpoint) -> Vec<String> {
    let asked = config.http.value;
    let elsewhere = asked.port() != 0 && running.address != asked;
    let access = &config.access;
    let entries = config.entries().into_iter();
    let flags = entries.filter_map(|Entry { key, origin, .. }| match (key, &origin) {
        ("http", Origin::Flag) => elsewhere.then(|| format!("--http {asked}")),
        ("quic", Origin::Flag) => {
            let there = running.quic.map(QuicAddress::At);
            let asked = config.quic.address.value;
            let is_there = there.unwrap_or(QuicAddress::Off) == asked;
            (!is_there).then(|| format!("--quic {asked}"))
        }
        (_, Origin::Flag) => Some(origin.name_of(key).to_owned()),
        _ => None,
    });
    let mut unused: Vec<String> = flags.collect();
    unused.extend(config.servers.given().map(str::to_owned));
    if !running.asks_token {
        match &access.token.origin {
            Origin::Environment(variable) => unused.push(variable.to_string()),
            Origin::File(path) => unused.push(format!("access.token_file ({})", path.display())),
            Origin::Flag | Origin::Default => {}
        }
    }
    unused
}

/// Prints where the workspace is served, its upstream MCP servers, and how to connect. The servers are known only of
/// this process.
fn announce(
    config: &Config,
    endpoint: &Endpoint,
    servers: Option<&[Shown]>,
    format: Format,
) -> Result<(), Failure> {
    let asks_own_token = endpoint.asks_token && !config.access.asks_who_calls();
    let own_token = asks_own_token.then(|| access::first_token(&config.access));
    let mut endpoint = endpoint.clone();
    // Printed as the workspace.
    let serves = endpoint.serves.take();
    let ready = Ready {
        event: "ready",
        workspace: serves.as_deref().unwrap_or(&config.workspace),
        own_token: own_token.flatten(),
        already_running: servers.is_none(),
        endpoint: &endpoint,
        servers,
    };
    format.print(&ready, text)
}

/// Places for a token in the clients' files. The token itself is not printed there.
struct TokenPlaces {
    claude: &'static str,
    codex: &'static str,
    files: &'static str,
    meaning: &'static str,
}

const NO_TOKEN: TokenPlaces = TokenPlaces {
    claude: "",
    codex: "",
    files: "",
    meaning: "",
};

const WITH_TOKEN: TokenPlaces = TokenPlaces {
    claude: " --header \"Authorization: Bearer $ORCHESTRA_TOKEN\"",
    codex: " --bearer-token-env-var ORCHESTRA_TOKEN",
    files: ", \"headers\": {\"Authorization\": \"Bearer ${env:ORCHESTRA_TOKEN}\"}",
    meaning: "\nSet ORCHESTRA_TOKEN where the client starts; `orchestra token` prints a token.\n",
};

/// The token is in the environment of `up` alone.
const WITH_TOKEN_OF_ENVIRONMENT: TokenPlaces = TokenPlaces {
    meaning: "\nSet ORCHESTRA_TOKEN where the client starts, to its value in the environment of `up`.\n",
    ..WITH_TOKEN
};

/// Clients find out by themselves who gives out tokens.
const WITH_ISSUER: TokenPlaces = TokenPlaces {
    meaning: "Each has its user sign in where tokens are given out.\n",
    ..NO_TOKEN
};

/// The upstream MCP servers, if there are any.
fn others(servers: &[Shown]) -> String {
    let mut text = String::new();
    for (place, server) in servers.iter().enumerate() {
        if place == 0 {
            text.push_str("\nServers:\n");
        }
        text.push_str(&format!(
            "  {:<15}  {}\n",
            server.display_name,
            server.words()
        ));
    }
    text
}

/// Addresses of the dashboard and of the description of the REST routes, if the board and the plans are served. With a
/// token behind it, the page logs in by itself; browsers send no server what is behind the `#`.
fn dashboard(endpoint: &Endpoint, own_token: Option<&str>) -> String {
    let root = endpoint.mcp.strip_suffix(MCP_PATH);
    let token = own_token.map_or_else(String::new, |token| format!("#token={token}"));
    match root.filter(|_| endpoint.plans.is_some()) {
        Some(root) => format!(
            "  dashboard        {root}/{token}\n  REST             {root}/api/openapi.json\n"
        ),
        None => String::new(),
    }
}

/// Refusal of `localhost`, where another program may listen there.
fn localhost(endpoint: &Endpoint) -> String {
    let foreign = endpoint.foreign_localhost;
    foreign.map_or_else(String::new, |foreign| {
        format!("  localhost        refused: another program may listen on {foreign}\n")
    })
}

/// Directory of the plans, if any are served.
fn plans(endpoint: &Endpoint) -> String {
    let kept = endpoint.plans.as_deref().map(servers::short);
    kept.map_or_else(String::new, |kept| format!("  plans            {kept}\n"))
}

/// Address for plugins and bridges, if one is served.
fn plugins(endpoint: &Endpoint) -> String {
    let (Some(address), Some(certs)) = (endpoint.quic, &endpoint.certs_dir) else {
        return String::new();
    };
    let certs = servers::short(certs);
    format!("  plugins          {address} (QUIC), certificates in {certs}\n")
}

fn text(ready: &Ready<'_>) -> String {
    let state = if ready.already_running {
        "already runs"
    } else {
        "runs"
    };
    let (workspace, mcp) = (ready.workspace.display(), &ready.endpoint.mcp);
    let stop = if ready.already_running {
        format!("It is process {}.", ready.endpoint.pid)
    } else {
        "Stop with ctrl-c.".to_owned()
    };
    let TokenPlaces {
        claude,
        codex,
        files,
        meaning,
    } = match ready.endpoint {
        Endpoint { issuers, .. } if !issuers.is_empty() => WITH_ISSUER,
        Endpoint {
            asks_token: true,
            tokens: Some(Tokens::Environment),
            ..
        } => WITH_TOKEN_OF_ENVIRONMENT,
        Endpoint {
            asks_token: true, ..
        } => WITH_TOKEN,
        _ => NO_TOKEN,
    };
    format!(
        "orchestra {} {state} for {workspace}\n\
         \n\
         {}\
         \x20 MCP over HTTP    {mcp}\n\
         {}\
         \x20 MCP over stdio   orchestra stdio\n\
         {}{}{}\n\
         `orchestra init` configures Claude Code, VS Code and Cursor to start `orchestra stdio`, which shows the same board.\n\
         To connect a client over HTTP instead:\n\
         \x20 Claude Code      claude mcp add --transport http orchestra {mcp}{claude}\n\
         \x20 VS Code          .vscode/mcp.json   {{\"servers\": {{\"orchestra\": {{\"type\": \"http\", \"url\": \"{mcp}\"{files}}}}}}}\n\
         \x20 Codex            codex mcp add orchestra --url {mcp}{codex}\n\
         \x20 Cursor           .cursor/mcp.json   {{\"mcpServers\": {{\"orchestra\": {{\"url\": \"{mcp}\"{files}}}}}}}\n\
         {meaning}\
         \n\
         {stop}\n",
        ready.endpoint.version,
        dashboard(ready.endpoint, ready.own_token.as_deref()),
        localhost(ready.endpoint),
        plans(ready.endpoint),
        plugins(ready.endpoint),
        others(ready.servers.unwrap_or_default())
    )
}
