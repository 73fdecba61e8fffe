//! The official Rust SDK's client as a judge: `judge-rmcp REVISION SCRIPT SERVER ARGUMENT...`, or
//! `judge-rmcp REVISION SCRIPT URL`.
//!
//! It connects at exactly one protocol revision, plays the script (see `judges/README.md`) and
//! fails at the first step that does not go as written.

mod script;

use std::io::Write as _;

use anyhow::{Context as _, Result, bail, ensure};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, RoleClient,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientConfig, GetPromptRequestParams,
        Implementation, JsonObject, ProtocolVersion, ReadResourceRequestParams,
    },
    service::RunningService,
    transport::{IntoTransport, StreamableHttpClientTransport, TokioChildProcess},
};
use serde::Serialize;
use serde_json::Value;

use crate::script::{Listing, Script, Step};

type Session = RunningService<RoleClient, ClientConfig>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let revision = arguments.next().context("which revision?")?;
    let script = arguments.next().context("which script?")?;
    let program = arguments.next().context("which server?")?;
    let mut script = Script::read(&script)?;
    // The SDK's HTTP client is the one that `orchestra-mcp` builds without a choice of its own.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();

    let session = if program.starts_with("http://") {
        let transport = StreamableHttpClientTransport::from_uri(format!("{program}/mcp"));
        connect(transport, &revision).await?
    } else {
        let mut command = tokio::process::Command::new(program);
        command.args(arguments);
        let transport = TokioChildProcess::new(command).context("starting the server")?;
        connect(transport, &revision).await?
    };
    let mut count = 0;
    while let Some(step) = script.next()? {
        count += 1;
        let played = play(&session, &step, &mut script).await;
        played.with_context(|| format!("step {count} {step:?}"))?;
    }
    session.cancel().await.context("closing")?;
    writeln!(std::io::stdout(), "{count} steps")?;
    Ok(())
}

async fn connect<E, A>(
    transport: impl IntoTransport<RoleClient, E, A>,
    revision: &str,
) -> Result<Session>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let version: ProtocolVersion = serde_json::from_value(revision.into())?;
    let lifecycle = if version.has_initialize() {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Discover {
            preferred_versions: vec![version.clone()],
        }
    };
    let identity = Implementation::new("judge", "1.0.0");
    let mut config = ClientConfig::new(ClientCapabilities::default(), identity);
    config.protocol_version = version.clone();
    let session = config.serve_with_lifecycle(transport, lifecycle).await?;
    let server = session.peer_info().context("no word of the server")?;
    ensure!(
        server.protocol_version == version,
        "negotiated {}",
        server.protocol_version
    );
    Ok(session)
}

async fn play(session: &Session, step: &Step, script: &mut Script) -> Result<()> {
    let result = match step {
        Step::List { list, has } => return look_for(session, *list, has).await,
        Step::Call { call, with, .. } => {
            let mut params = CallToolRequestParams::new(call.clone());
            params.arguments = Some(object(with));
            plain(&session.call_tool(params).await?)?
        }
        Step::Prompt { prompt, with, .. } => {
            let mut params = GetPromptRequestParams::new(prompt.clone());
            params.arguments = Some(object(with));
            plain(&session.get_prompt(params).await?)?
        }
        Step::Read { read, .. } => {
            let params = ReadResourceRequestParams::new(read.clone());
            plain(&session.read_resource(params).await?)?
        }
    };
    script.check(step, &result)
}

async fn look_for(session: &Session, list: Listing, has: &[String]) -> Result<()> {
    let (items, name) = match list {
        Listing::Tools => (plain(&session.list_all_tools().await?)?, "name"),
        Listing::Prompts => (plain(&session.list_all_prompts().await?)?, "name"),
        Listing::Resources => (plain(&session.list_all_resources().await?)?, "uri"),
        Listing::Templates => {
            let templates = session.list_all_resource_templates().await?;
            (plain(&templates)?, "uriTemplate")
        }
    };
    for wanted in has {
        let mut names = items.as_array().into_iter().flatten();
        if !names.any(|item| item[name] == wanted.as_str()) {
            bail!("{wanted} is not in {items}");
        }
    }
    Ok(())
}

fn plain(result: &impl Serialize) -> Result<Value> {
    serde_json::to_value(result).context("writing down what the server answered")
}

fn object(with: &Value) -> JsonObject {
    with.as_object().cloned().unwrap_or_default()
}
