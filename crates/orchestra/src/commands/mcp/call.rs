//! `orchestra mcp call`.

mod beside;
mod once;
mod unused;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use clap::Args;
use orchestra_gateway::{
    config::{Effect, ServerName, Transport},
    discovery::Server,
    rules::{self, Decision, Rules},
};
use orchestra_hub::{CallEnd, ListKind};
use orchestra_mcp::{
    client::{ClientError, ServerCall},
    repair::{Context, Repairable, repair},
};
use orchestra_wire::RawJson;
use serde_json::{Map, Value, json};
use tokio::{task::spawn_blocking, time::timeout};

use super::{
    Here,
    live::{self, Live, Trouble, Within},
};
use crate::{
    cli::examples,
    commands::{
        arguments::Given,
        consent,
        progress::Turning,
        told::{self, Printed, TellFlags},
    },
    config::Config,
    exit::{Exit, Failure},
    output, servers, serving,
    trace::TraceFlags,
};
use once::{Put, Step};
pub(in crate::commands) use unused::Unused;

/// Call a tool of a configured MCP server
///
/// The arguments are checked against the schema of the tool, and the call against the rules and limits of the
/// server. The limit `daily_quota` counts this call together with those of all other Orchestra processes.
/// `requests_per_second`, `burst` and `concurrency` have no effect here, because each process counts its own calls,
/// and this one makes a single call.
///
/// The command starts a process of the server for this call alone, even while `orchestra up` runs the server.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "mcp call docs search query='rate limits'",
    "mcp call docs search --args query.json --json",
]))]
pub(super) struct Arguments {
    /// Name of the server
    server: String,
    /// Name of the tool, with or without the prefix SERVER__
    tool: String,
    /// Arguments of the tool. Write text as it is, and other values as JSON; a list can also be written as a,b,c.
    /// Instead, one JSON object can give all arguments
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
    /// Argument of the tool, same as the argument KEY=VALUE; may be repeated
    #[arg(long = "arg", value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// Arguments as one JSON object: the object, a file that holds it, or - for stdin
    #[arg(long, value_name = "JSON|FILE|-", conflicts_with_all = ["pairs", "words"])]
    args: Option<String>,
    /// Number of seconds to wait until the server has started and listed its tools [default: start_timeout of the
    /// server if set, else 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: Option<u64>,
    /// Make the call without asking, even if a rule of the server requires consent
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
    rule: Option<String>,
    failure: Failure,
}

pub(super) fn run(here: &Here, config: &Config, arguments: Arguments) -> Result<Exit, Failure> {
    let server = here.server(&arguments.server)?;
    let words = [arguments.words, arguments.pairs].concat();
    let asked = Asked {
        tool: arguments.tool.clone(),
        given: Given::read(words, arguments.args)?,
        agrees: arguments.yes,
    };
    if let Some(unused) = Unused::of(server) {
        let recorded = unused.record(config, &asked.tool, &asked.given);
        serving::runtime()?.block_on(recorded)?;
        return unused.trouble().say(arguments.tell.json);
    }
    let trace = &arguments.trace;
    let (config_of_call, asked_of_it) = (config.clone(), asked.clone());
    // What is recorded may go where it would turn.
    let turns = !trace.is_given();
    let starting = turns.then(|| Turning::new("starting the server"));
    let starting = Arc::new(Mutex::new(starting));
    let asked_for = arguments.wait.map(Duration::from_secs);
    let wait = server.config();
    let wait = wait.map_or(servers::WAIT, |config| servers::wait_for(config, asked_for));
    let within = Within {
        time: wait,
        flag: "--wait",
    };
    let work = move |live| {
        drop(
            starting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        call(
            live,
            config_of_call.clone(),
            asked_of_it.clone(),
            wait,
            turns,
        )
    };
    let work =
        async |connectors| live::each(Some(trace), connectors, &[server], Some(within), work).await;
    let called = match server.config() {
        Some(plugin) if matches!(plugin.transport, Transport::Plugin(_)) => {
            beside::serve(here, config, plugin, work)
        }
        _ => serving::runtime()?.block_on(work(live::connectors(here)?)),
    }?;
    let ended = match called.into_iter().next() {
        Some(Ok(Ok(result))) => {
            let repaired = repair(Repairable::ToolResult, &result, Context::default());
            let result = repaired.map_or(result, |repaired| repaired.value);
            let result = Printed::of(result).unwrap_or_else(|_| Value::Null.into());
            return told::print(&arguments.tool, &result, &arguments.tell, Exit::Refused);
        }
        Some(Ok(Err(ended))) => ended,
        Some(Err(trouble)) => unreached(config, server, asked, trouble)?,
        None => return Ok(Exit::Failed),
    };
    match ended {
        Ended::Failure(failure) => Err(failure),
        Ended::Trouble(trouble) => trouble.say(arguments.tell.json),
    }
}

/// The arguments of a tool of which no schema is known.
fn unfitted(given: &Given) -> Result<RawJson, Failure> {
    Ok(given.sent(&given.fit(&json!({})).unwrap_or_default())?)
}

/// Records the call of a server that was not reached.
fn unreached(
    config: &Config,
    server: &Server,
    asked: Asked,
    trouble: Trouble,
) -> Result<Ended, Failure> {
    let trouble = trouble.of_call(false);
    let put = Put {
        name: named(&server.name, &asked.tool),
        arguments: unfitted(&asked.given)?,
        rule: Some(trouble.code.to_owned()),
        step: Step::Leave(CallEnd::Unreachable, Ended::Trouble(trouble)),
    };
    let came = serving::runtime()?.block_on(once::put(config, &server.name, put));
    came.map_or_else(Ok, |_| Err(anyhow::anyhow!("reached the server").into()))
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
    wait: Duration,
    turns: bool,
) -> Result<Result<RawJson, Ended>, Trouble> {
    let left = wait.saturating_sub(live.started_in);
    let listed = timeout(left, live::list_within(&live, ListKind::Tools, left)).await;
    let listed = listed.unwrap_or_else(|_| {
        let what = format!(
            "it has not listed its tools within {} s; `--wait` gives it more time",
            wait.as_secs_f64()
        );
        let error = ClientError::Unreachable { what };
        Err(Trouble::of(&live.config.name, &error))
    })?;
    let settled = match meant(&live, &listed, &asked) {
        Ok(meant) => match asked.given.fit(&meant.definition["inputSchema"]) {
            Ok(arguments) => settle(&live, &meant, arguments, &asked).await,
            // Words that are no arguments make no call.
            Err(error) => return Ok(Err(Ended::Failure(Failure::usage(error)))),
        },
        Err(refused) => Err(refused),
    };
    let put = match settled {
        Ok(Settled {
            name,
            call,
            arguments,
            rule,
        }) => Put {
            name,
            arguments,
            rule: Some(rule),
            step: Step::Make(Arc::clone(&live), Box::new(call)),
        },
        Err(refused) => Put {
            name: refused.name,
            arguments: refused.arguments,
            rule: refused.rule,
            step: Step::Leave(refused.end, Ended::Failure(refused.failure)),
        },
    };
    let _turning = turns.then(|| Turning::new("waiting for the tool"));
    Ok(once::put(&config, &live.config.name, put).await)
}

/// The tool that is meant.
struct Meant {
    definition: Value,
    name: String,
    shown: String,
}

fn meant(live: &Live, listed: &[RawJson], asked: &Asked) -> Result<Meant, Refused> {
    let server = &live.config.name;
    let mut tools: Vec<Value> = listed.iter().filter_map(|tool| tool.parse().ok()).collect();
    tools.retain(|tool| tool["name"].is_string());
    let names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    let given = || unfitted(&asked.given).unwrap_or_else(|_| RawJson::empty_object());
    let no_tool = |failure| Refused {
        name: named(server, &asked.tool),
        arguments: given(),
        end: CallEnd::Unknown,
        rule: None,
        failure,
    };
    let Some(place) = rules::meant(&live.config, &names, &asked.tool) else {
        let known = match names.is_empty() {
            true => "none".to_owned(),
            false => output::in_a_line(&names.join(", ")),
        };
        return Err(no_tool(Failure::usage_text(format!(
            "the server {server} has no tool `{}`; it has {known}",
            output::in_a_line(&asked.tool)
        ))));
    };
    let name = names[place].to_owned();
    let state = servers::state_directory().map_err(&no_tool)?;
    if !Rules::new(&live.config, &state).offers(&name) {
        return Err(no_tool(Failure::denied(format!(
            "`tools` of the server {server} leaves it out"
        ))));
    }
    let shown = rules::shown(&live.config, &names, place);
    if live::hidden(live, listed).contains(&name) {
        return Err(Refused {
            name: shown,
            arguments: given(),
            end: CallEnd::Denied,
            rule: Some("needs_approval".to_owned()),
            failure: Failure::denied(format!(
                "{server} has changed its tool `{}` since it was approved; `orchestra mcp \
                 approve {server}` shows the change and approves it. {}",
                output::in_a_line(&name),
                live.config.follow_advice()
            )),
        });
    }
    Ok(Meant {
        shown,
        name,
        definition: tools.swap_remove(place),
    })
}

/// The call of the tool that is meant, when nothing stands against it; it is counted then.
async fn settle(
    live: &Live,
    meant: &Meant,
    arguments: Map<String, Value>,
    asked: &Asked,
) -> Result<Settled, Refused> {
    let name = &meant.name;
    let given = asked.given.sent(&arguments);
    let given = given.unwrap_or_else(|_| RawJson::empty_object());
    let refused = |end, rule: String, failure| Refused {
        name: meant.shown.clone(),
        arguments: given.clone(),
        end,
        rule: Some(rule),
        failure,
    };
    let broken = |failure| {
        let code = rules::INVALID_ARGUMENTS.to_owned();
        refused(CallEnd::InvalidParams, code, failure)
    };
    let rules = Rules::new(&live.config, &servers::state_directory().map_err(broken)?);
    let raw = |value: &Value| RawJson::of(value).map_err(|error| broken(error.into()));
    let Decision { effect, rule, why } = rules.decide(name, &raw(&meant.definition)?, &given);
    let denied = |code, failure| refused(CallEnd::Denied, format!("{rule}; {code}"), failure);
    if effect == Effect::Deny {
        return Err(denied(rules::DENIED, Failure::denied(why)));
    }
    let shown = output::in_a_line(name);
    let schema = raw(&meant.definition["inputSchema"])?;
    if let Some(mistakes) = rules::mistakes(name, schema, &given) {
        let failure = Failure::usage_text(format!(
            "the arguments of {shown} do not match its schema, and nothing ran: {mistakes}"
        ));
        let rule = format!("{rule}; {}", rules::INVALID_ARGUMENTS);
        return Err(refused(CallEnd::InvalidParams, rule, failure));
    }
    if effect == Effect::Ask && !asked.agrees {
        let agreed = consent(&rule, live, name, &given).await;
        agreed.map_err(|failure| denied(rules::DENIED, failure))?;
    }
    rules.take().await.map_err(|refusal| {
        let text = format!("{shown} was not called, and nothing ran: {}", refusal.why);
        denied(refusal.code, Failure::denied(text))
    })?;
    let definition = raw(&meant.definition)?;
    let call = rules::call(&live.config, &definition, &given);
    let call = call.map_err(|why| broken(Failure::usage_text(why)))?;
    Ok(Settled {
        name: meant.shown.clone(),
        call,
        arguments: given.clone(),
        rule,
    })
}

/// Asks whether a call may be made that a rule wants somebody asked about.
async fn consent(rule: &str, live: &Live, tool: &str, arguments: &RawJson) -> Result<(), Failure> {
    let server = live.config.name.to_string();
    let (rule, tool, arguments) = (rule.to_owned(), tool.to_owned(), arguments.clone());
    spawn_blocking(move || consent::ask(&rule, &server, &tool, &arguments)).await?
}
