//! `orchestra mcp call`.

use std::{fs, io, io::Read as _, path::PathBuf, sync::Arc};

use clap::Args;
use orchestra_gateway::{config::Transport, connect, discovery::ServerState};
use orchestra_hub::{Cx, ListKind};
use orchestra_mcp::client::{Reply, ServerCall, http::MirroredParams};
use orchestra_wire::RawJson;
use serde_json::{Map, Value, json};

use super::{
    Here,
    live::{self, Live, Trouble},
    words,
};
use crate::{
    exit::{Exit, Failure},
    output,
    trace::TraceFlags,
};

/// The largest arguments that are read.
const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Call a tool of a server, under its rules
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The server
    server: String,
    /// The tool
    tool: String,
    /// An argument: text for what the tool takes as text, else JSON
    #[arg(long = "arg", value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// A file with all arguments as one JSON object; - reads it from stdin
    #[arg(long, value_name = "FILE", conflicts_with = "pairs")]
    args: Option<PathBuf>,
    #[command(flatten)]
    trace: TraceFlags,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
}

/// What came of a call.
enum Called {
    Result(Value),
    NoTool(Vec<String>),
    NoPermission(String),
    Wrong(String),
    Asks,
}

pub(super) fn run(here: &Here, arguments: Arguments) -> Result<Exit, Failure> {
    let server = here.server(&arguments.server)?;
    if let ServerState::Disabled { .. } = server.state {
        let why = words::reason(server).unwrap_or_default();
        return Err(Failure::denied(format!("{}: {why}", server.name)));
    }
    let given = Given::read(arguments.pairs, arguments.args)?;
    let tool = arguments.tool.clone();
    let connectors = live::connectors(here)?;
    let trace = &arguments.trace;
    let called = live::each_traced(trace, connectors, &[server], None, move |live| {
        call(live, tool.clone(), given.clone())
    })?;
    let name = &arguments.tool;
    match called.into_iter().next() {
        Some(Ok(Called::Result(result))) => print(&result, arguments.json),
        Some(Ok(Called::NoTool(known))) => Err(Failure::usage_text(format!(
            "the server {} has no tool `{name}`; it has {}",
            server.name,
            known.join(", ")
        ))),
        Some(Ok(Called::NoPermission(why))) => Err(Failure::denied(why)),
        Some(Ok(Called::Wrong(why))) => Err(Failure::usage_text(why)),
        Some(Ok(Called::Asks)) => Err(Failure::refused(
            "the tool asks for input, which the command line cannot give",
        )),
        Some(Err(trouble)) => {
            trouble.complain();
            Ok(trouble.exit)
        }
        None => Ok(Exit::Failed),
    }
}

/// Arguments as they were given.
#[derive(Clone)]
enum Given {
    Pairs(Vec<(String, String)>),
    Object(Map<String, Value>),
}

impl Given {
    fn read(pairs: Vec<String>, file: Option<PathBuf>) -> Result<Self, Failure> {
        let Some(file) = file else {
            let pairs = pairs.into_iter().map(|pair| {
                let split = pair.split_once('=');
                let split = split.map(|(key, value)| (key.to_owned(), value.to_owned()));
                split.ok_or_else(|| {
                    Failure::usage_text(format!("`{pair}` is not of the form key=value"))
                })
            });
            return Ok(Self::Pairs(pairs.collect::<Result<_, _>>()?));
        };
        let mut text = String::new();
        if file.as_os_str() == "-" {
            let stdin = io::stdin().lock();
            stdin.take(MAX_BYTES).read_to_string(&mut text)?;
        } else {
            let open = fs::File::open(&file).map_err(|error| {
                Failure::usage_text(format!("--args {}: {error}", file.display()))
            })?;
            open.take(MAX_BYTES).read_to_string(&mut text)?;
        }
        match serde_json::from_str(&text) {
            Ok(Value::Object(object)) => Ok(Self::Object(object)),
            Ok(_) => Err(Failure::usage_text("the arguments must be a JSON object")),
            Err(error) => Err(Failure::usage_text(format!(
                "the arguments are not valid JSON: {error}"
            ))),
        }
    }

    /// The arguments, as the tool's schema takes them.
    fn into_object(self, schema: &Value) -> Result<Map<String, Value>, String> {
        let pairs = match self {
            Self::Object(object) => return Ok(object),
            Self::Pairs(pairs) => pairs,
        };
        let mut object = Map::new();
        for (key, text) in pairs {
            let expected = &schema["properties"][&key]["type"];
            let takes_text = expected == "string"
                || expected
                    .as_array()
                    .is_some_and(|types| types.contains(&json!("string")));
            let value = match takes_text {
                true => Value::String(text),
                false => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            };
            if object.insert(key.clone(), value).is_some() {
                return Err(format!("`{key}` is given twice"));
            }
        }
        Ok(object)
    }
}

async fn call(live: Arc<Live>, tool: String, given: Given) -> Result<Called, Trouble> {
    let listed = live::list(&live, ListKind::Tools).await?;
    let tools: Vec<Value> = listed.iter().filter_map(|tool| tool.parse().ok()).collect();
    let Some(found) = tools.iter().find(|one| one["name"] == tool.as_str()) else {
        let names = tools.iter().filter_map(|tool| tool["name"].as_str());
        return Ok(Called::NoTool(names.map(str::to_owned).collect()));
    };
    if live::hidden(&live, &listed).contains(&tool) {
        let name = &live.config.name;
        return Ok(Called::NoPermission(format!(
            "{name} has changed its tool `{tool}` since it was approved; `orchestra mcp approve \
             {name}` shows the change and approves it"
        )));
    }
    let arguments = match given.into_object(&found["inputSchema"]) {
        Ok(arguments) => arguments,
        Err(why) => return Ok(Called::Wrong(why)),
    };
    let raw = |value: &Value| RawJson::of(value).map_err(|error| error.to_string());
    let (arguments, params) = match (
        raw(&Value::Object(arguments.clone())),
        raw(&json!({"name": tool, "arguments": arguments})),
    ) {
        (Ok(arguments), Ok(params)) => (arguments, params),
        (Err(why), _) | (_, Err(why)) => return Ok(Called::Wrong(why)),
    };
    if let Err(why) = connect::permits(&live.config, &tool, &arguments) {
        return Ok(Called::NoPermission(why));
    }
    let headers = match headers(&live, &found["inputSchema"], &arguments) {
        Ok(headers) => headers,
        Err(why) => return Ok(Called::Wrong(why)),
    };
    let mut call = ServerCall::new("tools/call", Some(params), Cx::default());
    call.headers = headers;
    call.name = Some(tool);
    match live.client.call(call).await {
        Ok(Reply::Result(result)) => Ok(Called::Result(result.parse().unwrap_or(Value::Null))),
        Ok(Reply::InputRequired(_)) => Ok(Called::Asks),
        Err(error) => Err(Trouble::of(&live.config.name, &error)),
    }
}

/// What a server on the network wants repeated in headers.
fn headers(
    live: &Live,
    schema: &Value,
    arguments: &RawJson,
) -> Result<Vec<(String, String)>, String> {
    if !matches!(live.config.transport, Transport::Http(_)) {
        return Ok(Vec::new());
    }
    let schema = RawJson::of(schema).map_err(|error| error.to_string())?;
    let mirrored = MirroredParams::of(&schema).map_err(|error| error.to_string())?;
    Ok(mirrored.headers(Some(arguments)))
}

/// Prints a result: its text, or all of it as JSON. A tool that says that it failed is a refusal.
fn print(result: &Value, as_json: bool) -> Result<Exit, Failure> {
    let is_error = result["isError"] == true;
    if as_json {
        output::json(result)?;
    } else {
        let blocks = result["content"].as_array().into_iter().flatten();
        let texts: Vec<String> = blocks
            .map(|block| {
                let text = block["text"].as_str().map(str::to_owned);
                text.unwrap_or_else(|| block.to_string())
            })
            .collect();
        let text = output::printable(&texts.join("\n")).into_owned();
        if is_error {
            return Err(Failure::refused(text));
        }
        output::lines(&text)?;
    }
    Ok(if is_error { Exit::Refused } else { Exit::Ok })
}
