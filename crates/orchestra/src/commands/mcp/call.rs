//! `orchestra mcp call`.

use std::sync::Arc;

use clap::Args;
use orchestra_gateway::{
    config::Transport,
    discovery::ServerState,
    rules::{self, Rules, Verdict},
};
use orchestra_hub::{Cx, ListKind};
use orchestra_mcp::client::{Reply, ServerCall, http::MirroredParams};
use orchestra_wire::RawJson;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;

use super::{
    Here,
    live::{self, Live, Trouble},
    words,
};
use crate::{
    commands::{
        arguments::Given,
        consent,
        told::{self, TellFlags},
    },
    exit::{Exit, Failure},
    servers,
    trace::TraceFlags,
};

/// Call a tool of a server, under its rules, budgets and the tool's schema
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The server
    server: String,
    /// The tool, by its own name or as SERVER__TOOL
    tool: String,
    /// Its arguments: text for what the tool takes as text, else JSON; a list also as a,b,c. Or all
    /// of them as one JSON object
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
    /// An argument as KEY=VALUE, too; may be given again
    #[arg(long = "arg", value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// All arguments as one JSON object: the object, a file that holds it, or - for stdin
    #[arg(long, value_name = "JSON|FILE|-", conflicts_with_all = ["pairs", "words"])]
    args: Option<String>,
    /// Agree where a rule wants somebody asked
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    trace: TraceFlags,
    #[command(flatten)]
    tell: TellFlags,
}

/// What is to be called.
#[derive(Clone)]
struct Asked {
    tool: String,
    given: Given,
    agrees: bool,
}

/// What came of a call, or what stands against it.
type Called = Result<Value, Failure>;

pub(super) fn run(here: &Here, arguments: Arguments) -> Result<Exit, Failure> {
    let server = here.server(&arguments.server)?;
    if let ServerState::Disabled { .. } = server.state {
        let why = words::reason(server).unwrap_or_default();
        return Err(Failure::denied(format!("{}: {why}", server.name)));
    }
    let words = [arguments.words, arguments.pairs].concat();
    let asked = Asked {
        tool: arguments.tool.clone(),
        given: Given::read(words, arguments.args)?,
        agrees: arguments.yes,
    };
    let connectors = live::connectors(here)?;
    let trace = &arguments.trace;
    let called = live::each_traced(trace, connectors, &[server], None, move |live| {
        call(live, asked.clone())
    })?;
    match called.into_iter().next() {
        Some(Ok(called)) => told::print(&arguments.tool, &called?, &arguments.tell, Exit::Refused),
        Some(Err(trouble)) => {
            trouble.complain();
            Ok(trouble.exit)
        }
        None => Ok(Exit::Failed),
    }
}

async fn call(live: Arc<Live>, asked: Asked) -> Result<Called, Trouble> {
    let listed = live::list(&live, ListKind::Tools).await?;
    let (tool, arguments) = match settle(&live, &listed, asked).await {
        Ok(settled) => settled,
        Err(failure) => return Ok(Err(failure)),
    };
    let call = match prepared(&live, &tool, arguments) {
        Ok(call) => call,
        Err(failure) => return Ok(Err(failure)),
    };
    match live.client.call(call).await {
        Ok(Reply::Result(result)) => Ok(Ok(result.parse().unwrap_or(Value::Null))),
        Ok(Reply::InputRequired(_)) => Ok(Err(Failure::refused(
            "the tool asks for input, which the command line cannot give",
        ))),
        Err(error) => Err(Trouble::of(&live.config.name, &error)),
    }
}

/// The tool that is meant, and its arguments, when nothing stands against the call; it is counted
/// then.
async fn settle(
    live: &Live,
    listed: &[RawJson],
    asked: Asked,
) -> Result<(Value, Map<String, Value>), Failure> {
    let server = &live.config.name;
    let mut tools: Vec<Value> = listed.iter().filter_map(|tool| tool.parse().ok()).collect();
    tools.retain(|tool| tool["name"].is_string());
    let names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    let Some(place) = rules::meant(&live.config, &names, &asked.tool) else {
        let known = match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        };
        return Err(Failure::usage_text(format!(
            "the server {server} has no tool `{}`; it has {known}",
            asked.tool
        )));
    };
    let name = names[place].to_owned();
    let tool = tools.swap_remove(place);
    if live::hidden(live, listed).contains(&name) {
        return Err(Failure::denied(format!(
            "{server} has changed its tool `{name}` since it was approved; `orchestra mcp approve \
             {server}` shows the change and approves it"
        )));
    }
    let schema = &tool["inputSchema"];
    let arguments = asked.given.fit(schema).map_err(Failure::usage)?;
    let raw = RawJson::of(&Value::Object(arguments.clone()))?;
    let rules = Rules::new(&live.config, &servers::state_directory()?);
    let verdict = rules.decide(&name, &RawJson::of(&tool)?, &raw);
    let verdict = verdict.map_err(Failure::denied)?;
    if let Some(mistakes) = rules::mistakes(&name, RawJson::of(schema)?, &raw) {
        return Err(Failure::usage_text(format!(
            "the arguments of {name} are not as its schema says, and nothing ran: {mistakes}"
        )));
    }
    if let Verdict::Asks(rule) = verdict
        && !asked.agrees
    {
        let (server, tool, arguments) = (server.to_string(), name.clone(), arguments.clone());
        spawn_blocking(move || consent::ask(&rule, &server, &tool, &arguments)).await??;
    }
    rules
        .take()
        .await
        .map_err(|why| Failure::denied(format!("{name} was not called, and nothing ran: {why}")))?;
    Ok((tool, arguments))
}

/// The call as it is sent.
fn prepared(
    live: &Live,
    tool: &Value,
    arguments: Map<String, Value>,
) -> Result<ServerCall, Failure> {
    let name = tool["name"].as_str().unwrap_or_default();
    let arguments = Value::Object(arguments);
    let params = RawJson::of(&json!({"name": name, "arguments": arguments}))?;
    let mut call = ServerCall::new("tools/call", Some(params), Cx::default());
    call.name = Some(name.to_owned());
    // What a server on the network wants repeated in headers.
    if let Transport::Http(_) = live.config.transport {
        let mirrored = MirroredParams::of(&RawJson::of(&tool["inputSchema"])?);
        let mirrored = mirrored.map_err(Failure::usage)?;
        call.headers = mirrored.headers(Some(&RawJson::of(&arguments)?));
    }
    Ok(call)
}
