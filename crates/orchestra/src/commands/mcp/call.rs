//! `orchestra mcp call`.

mod once;

use std::sync::Arc;

use clap::Args;
use orchestra_gateway::{
    config::{ServerName, Transport},
    discovery::{Server, ServerState},
    rules::{self, Rules, Verdict},
};
use orchestra_hub::{CallEnd, Cx, ListKind};
use orchestra_mcp::client::{ServerCall, http::MirroredParams};
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
    config::Config,
    exit::{Exit, Failure},
    servers, serving,
    trace::TraceFlags,
};
use once::{Put, Step};

/// Call a tool of a server, under its rules, budgets and the tool's schema
///
/// Of the budgets only `daily_quota` counts the calls of all programs; `requests_per_second`, `burst`
/// and `concurrency` hold within one program, and this one makes one call.
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

/// Why nothing came of a call.
enum Ended {
    Failure(Failure),
    /// The server was the reason.
    Trouble(Trouble),
}

/// A call that nothing stands against; it is counted.
struct Settled {
    name: String,
    call: ServerCall,
    arguments: RawJson,
    rule: String,
}

/// What stands against a call, and how it is recorded.
struct Refused {
    name: String,
    arguments: RawJson,
    end: CallEnd,
    rule: String,
    failure: Failure,
}

pub(super) fn run(here: &Here, config: &Config, arguments: Arguments) -> Result<Exit, Failure> {
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
    let (config_of_call, asked_of_it) = (config.clone(), asked.clone());
    let called = live::each_traced(trace, connectors, &[server], None, move |live| {
        call(live, config_of_call.clone(), asked_of_it.clone())
    })?;
    let ended = match called.into_iter().next() {
        Some(Ok(Ok(result))) => {
            let result = result.parse().unwrap_or(Value::Null);
            return told::print(&arguments.tool, &result, &arguments.tell, Exit::Refused);
        }
        Some(Ok(Err(ended))) => ended,
        Some(Err(trouble)) => unreached(config, server, asked, trouble)?,
        None => return Ok(Exit::Failed),
    };
    match ended {
        Ended::Failure(failure) => Err(failure),
        Ended::Trouble(trouble) => {
            trouble.complain();
            Ok(trouble.exit)
        }
    }
}

/// Records the call of a server that was not reached.
fn unreached(
    config: &Config,
    server: &Server,
    asked: Asked,
    trouble: Trouble,
) -> Result<Ended, Failure> {
    let name = named(&server.name, &asked.tool);
    let arguments = asked.given.fit(&json!({})).unwrap_or_default();
    let end = match trouble.exit {
        Exit::Denied => CallEnd::Denied,
        _ => CallEnd::Unreachable,
    };
    let put = Put {
        name,
        arguments: RawJson::of(&arguments)?,
        rule: trouble.code.to_owned(),
        step: Step::Leave(end, Ended::Trouble(trouble)),
    };
    let came = serving::runtime()?.block_on(once::put(config, &server.name, put));
    came.map_or_else(
        Ok,
        |_| Err(anyhow::anyhow!("the server was reached").into()),
    )
}

/// The name that a tool has in a record of which nobody knows how it is shown.
fn named(server: &ServerName, tool: &str) -> String {
    match tool.starts_with(&format!("{server}__")) {
        true => tool.to_owned(),
        false => format!("{server}__{tool}"),
    }
}

async fn call(
    live: Arc<Live>,
    config: Config,
    asked: Asked,
) -> Result<Result<RawJson, Ended>, Trouble> {
    let listed = live::list(&live, ListKind::Tools).await?;
    let put = match settle(&live, &listed, asked).await {
        Ok(Settled {
            name,
            call,
            arguments,
            rule,
        }) => Put {
            name,
            arguments,
            rule,
            step: Step::Make(Arc::clone(&live), Box::new(call)),
        },
        Err(refused) => Put {
            name: refused.name,
            arguments: refused.arguments,
            rule: refused.rule,
            step: Step::Leave(refused.end, Ended::Failure(refused.failure)),
        },
    };
    Ok(once::put(&config, &live.config.name, put).await)
}

/// The tool that is meant.
struct Meant {
    definition: Value,
    name: String,
    shown: String,
}

impl Meant {
    fn refused(&self, end: CallEnd, rule: &str, arguments: &RawJson, failure: Failure) -> Refused {
        Refused {
            name: self.shown.clone(),
            arguments: arguments.clone(),
            end,
            rule: rule.to_owned(),
            failure,
        }
    }
}

fn meant(live: &Live, listed: &[RawJson], asked: &Asked) -> Result<Meant, Refused> {
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
        return Err(Refused {
            name: named(server, &asked.tool),
            arguments: RawJson::empty_object(),
            end: CallEnd::Unknown,
            rule: "unknown".to_owned(),
            failure: Failure::usage_text(format!(
                "the server {server} has no tool `{}`; it has {known}",
                asked.tool
            )),
        });
    };
    let meant = Meant {
        shown: rules::shown(&live.config, &names, place),
        name: names[place].to_owned(),
        definition: tools.swap_remove(place),
    };
    let name = &meant.name;
    if live::hidden(live, listed).contains(name) {
        let failure = Failure::denied(format!(
            "{server} has changed its tool `{name}` since it was approved; `orchestra mcp approve \
             {server}` shows the change and approves it"
        ));
        let none = RawJson::empty_object();
        return Err(meant.refused(CallEnd::Denied, "needs_approval", &none, failure));
    }
    Ok(meant)
}

/// The call of the tool that is meant, when nothing stands against it; it is counted then.
async fn settle(live: &Live, listed: &[RawJson], asked: Asked) -> Result<Settled, Refused> {
    let meant = meant(live, listed, &asked)?;
    let name = &meant.name;
    let none = RawJson::empty_object();
    let broken = |failure| {
        let rule = "invalid_arguments";
        meant.refused(CallEnd::InvalidParams, rule, &none, failure)
    };
    let schema = &meant.definition["inputSchema"];
    let arguments = asked.given.fit(schema);
    let arguments = arguments.map_err(|error| broken(Failure::usage(error)))?;
    let raw = |value: &Value| RawJson::of(value).map_err(|error| broken(error.into()));
    let given = raw(&Value::Object(arguments.clone()))?;
    let rules = Rules::new(&live.config, &servers::state_directory().map_err(broken)?);
    let denied = |rule: &str, failure| meant.refused(CallEnd::Denied, rule, &given, failure);
    let verdict = rules.decide(name, &raw(&meant.definition)?, &given);
    let verdict = verdict.map_err(|why| denied(&why, Failure::denied(&*why)))?;
    if let Some(mistakes) = rules::mistakes(name, raw(schema)?, &given) {
        return Err(broken(Failure::usage_text(format!(
            "the arguments of {name} are not as its schema says, and nothing ran: {mistakes}"
        ))));
    }
    let rule = match verdict {
        Verdict::Allowed(rule) => rule,
        Verdict::Asks(rule) => {
            if !asked.agrees {
                let agreed = consent(&rule, live, name, &arguments).await;
                agreed.map_err(|failure| denied(&rule, failure))?;
            }
            rule
        }
    };
    rules.take().await.map_err(|why| {
        let text = format!("{name} was not called, and nothing ran: {why}");
        denied(&format!("{rule}; {why}"), Failure::denied(text))
    })?;
    let call = prepared(live, &meant.definition, arguments).map_err(broken)?;
    Ok(Settled {
        name: meant.shown.clone(),
        call,
        arguments: given.clone(),
        rule,
    })
}

/// Asks whether a call may be made that a rule wants somebody asked about.
async fn consent(
    rule: &str,
    live: &Live,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<(), Failure> {
    let server = live.config.name.to_string();
    let (rule, tool, arguments) = (rule.to_owned(), tool.to_owned(), arguments.clone());
    spawn_blocking(move || consent::ask(&rule, &server, &tool, &arguments)).await?
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
