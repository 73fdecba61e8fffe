//! `orchestra tool call`.

use std::time::{Duration, Instant};

use clap::Args;
use orchestra_gateway::rules;
use orchestra_hub::{
    Cx, Outcome, ProviderError, Request, Target, ToolDescriptor, ToolResult, Toolset,
};
use orchestra_store::Options;
use orchestra_wire::RawJson;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;

use super::{find, no_tool, theirs::Theirs};
use crate::{
    commands::{
        arguments::{self, Given},
        consent,
        progress::Turning,
        told::{self, Printed, TellFlags},
    },
    config::{Config, TextFormat},
    exit::{Exit, Failure},
    serving::{BoardOrScratch, Scratch, Serving},
    workspace,
};

#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    override_usage = "orchestra tool call [OPTIONS] <NAME> [KEY=VALUE]..."
)]
pub(super) struct Call {
    /// Name of the tool
    #[arg(required_unless_present = "help")]
    pub(super) name: Option<String>,
    /// Arguments of the tool. Write text as it is, and other values as JSON; a list can also be written as a,b,c.
    /// Instead, one JSON object can give all arguments
    #[arg(value_name = "KEY=VALUE")]
    pub(super) words: Vec<String>,
    /// Arguments as one JSON object: the object, a file that holds it, or - for stdin
    #[arg(long, value_name = "JSON|FILE|-", conflicts_with = "words")]
    pub(super) args: Option<String>,
    /// Format of the text in the result of a built-in tool
    #[arg(long, value_enum)]
    pub(super) format: Option<TextFormat>,
    /// Number of seconds to wait until the MCP server has started [default: start_timeout of the server if set,
    /// else 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: Option<u64>,
    /// Make the call without asking, even if a rule of the server requires consent
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub(super) tell: TellFlags,
    /// Print help; after the name of a tool, its description and arguments
    #[arg(short, long)]
    pub(super) help: bool,
}

/// A call that is complete.
struct Asked {
    name: String,
    given: Given,
    agrees: bool,
    wait: Option<Duration>,
}

/// What came of a call.
struct Answer {
    /// As MCP has it.
    result: Printed,
    /// How to exit when the tool refused.
    refusal: Exit,
}

/// How long a call waits for a server that was waited for in vain: it is recorded, and says why.
const LAST_LOOK: Duration = Duration::from_millis(200);

/// The one tool that makes a board where there is none.
const MAKES_A_BOARD: &str = "create_project";

/// The group of the tools that need no board.
const PLANS: &str = "plans";

/// The tools that find by meaning where a model is configured, which takes an engine.
const FIND_BY_MEANING: [&str; 2] = ["search_memory", "get_context"];

pub(super) async fn run(config: &Config, theirs: Theirs, call: Call) -> Result<Exit, Failure> {
    let tell = call.tell;
    let asked = Asked {
        name: call.name.unwrap_or_default(),
        given: Given::read(call.words, call.args)?,
        agrees: call.yes,
        wait: call.wait.map(Duration::from_secs),
    };
    if let Some(unused) = theirs.refusal() {
        unused.record(config, &asked.name, &asked.given).await?;
        return Err(Failure::denied(format!(
            "{} was not called: {unused}",
            asked.name
        )));
    }
    let answer = match theirs.is_empty() {
        true => {
            let answer = of_board(config, &asked).await;
            answer.map_err(|failure| theirs.unavailable(&asked.name).unwrap_or(failure))?
        }
        false => of_server(config, theirs, &asked).await?,
    };
    told::print(&asked.name, &answer.result, &tell, answer.refusal)
}

/// Calls a tool of another server. Where there is a board, its audit file says so.
async fn of_server(config: &Config, theirs: Theirs, asked: &Asked) -> Result<Answer, Failure> {
    let board = BoardOrScratch::open(config)?;
    let serving = board.serving();
    let guests = theirs.start(serving, config, asked.wait).await?;
    let answer = ask(serving, asked, guests.is_late()).await;
    // A server that did not start may have the tool.
    if find(serving, &asked.name).is_none() {
        guests.complain(serving);
    }
    guests.close().await;
    board.close().await;
    answer
}

/// Calls a tool of the board. A call that fails makes no board.
async fn of_board(config: &Config, asked: &Asked) -> Result<Answer, Failure> {
    if !workspace::has_board(&config.workspace) {
        let scratch = Scratch::open(config)?;
        let needs_none = needs_no_board(scratch.serving(), &asked.name);
        let tried = match needs_none {
            true => ask(scratch.serving(), asked, false).await,
            false => rehearse(config, scratch.serving(), asked).await,
        };
        scratch.serving().leave_plans().await;
        scratch.close();
        let answer = tried?;
        if needs_none || answer.result.value["isError"] == true {
            return Ok(answer);
        }
    }
    let serving = Serving::open(config, unwatched())?;
    // What somebody edited a moment ago is seen by the tool.
    serving.catch_up();
    if FIND_BY_MEANING.contains(&asked.name.as_str()) {
        let _turning = Turning::new("waiting for the memory engine");
        serving.await_engine().await;
    }
    let mut answer = ask(&serving, asked, false).await;
    if let (Ok(answer), true) = (&mut answer, serving.is_read_only())
        && orchestra_tools::only_reads(&asked.name) == Some(false)
    {
        answer.refusal = Exit::Denied;
    }
    serving.leave_plans().await;
    serving.close();
    answer
}

/// Whether a tool is about plans, which are kept elsewhere.
fn needs_no_board(serving: &Serving, name: &str) -> bool {
    find(serving, name).is_some_and(|(tool, _)| tool.group == PLANS)
}

fn unwatched() -> Options {
    Options {
        watch: false,
        ..Options::default()
    }
}

/// Tries on a scratch board what would make the workspace's. Any other call is refused.
async fn rehearse(config: &Config, scratch: &Serving, asked: &Asked) -> Result<Answer, Failure> {
    find(scratch, &asked.name).ok_or_else(|| no_tool(scratch, &asked.name))?;
    if asked.name != MAKES_A_BOARD {
        workspace::check_board(&config.workspace)?;
    }
    ask(scratch, asked, false).await
}

/// Calls a tool. `is_late` says that its server was waited for long enough.
async fn ask(serving: &Serving, asked: &Asked, is_late: bool) -> Result<Answer, Failure> {
    let Some((tool, toolset)) = find(serving, &asked.name) else {
        return ask_unlisted(serving, asked, is_late).await;
    };
    let schema: Value = tool.input_schema.parse().unwrap_or_default();
    let arguments = asked.given.fit(&schema).map_err(Failure::usage)?;
    // The tool says what is wrong, as through every other face; here is only told how to exit.
    let refusal = match arguments::check(&arguments, &schema) {
        Ok(()) => Exit::Refused,
        Err(_) => Exit::Usage,
    };
    let is_theirs = tool.definition.is_some();
    let answers = (asked.agrees && is_theirs).then(rules::agreed);
    let target = target(asked, &arguments)?;
    let cx = Cx {
        answers,
        ..Cx::default()
    };
    let outcome = put(serving, toolset.clone(), target.clone(), cx).await;
    if let Some(rule) = unasked(&outcome) {
        let (server, name) = (tool.group.to_string(), asked.name.clone());
        let given = asked.given.sent(&arguments)?;
        spawn_blocking(move || consent::ask(&rule, &server, &name, &given)).await??;
        let cx = Cx {
            answers: Some(rules::agreed()),
            ..Cx::default()
        };
        let outcome = put(serving, toolset, target, cx).await;
        return answer(outcome, &tool, refusal);
    }
    answer(outcome, &tool, refusal)
}

/// The rule that wants somebody asked, where that is why nothing was called.
fn unasked(outcome: &Result<Outcome, ProviderError>) -> Option<String> {
    match outcome {
        Ok(Outcome::Tool(result)) => rules::asking(result),
        _ => None,
    }
}

fn answer(
    outcome: Result<Outcome, ProviderError>,
    tool: &ToolDescriptor,
    refusal: Exit,
) -> Result<Answer, Failure> {
    match outcome {
        Ok(Outcome::Tool(result)) => {
            let is_theirs = tool.definition.is_some();
            let code = rules::failed(&result).filter(|_| is_theirs);
            Ok(Answer {
                refusal: code.map_or(refusal, |code| exit_of(&code)),
                result: whole(&result)?,
            })
        }
        Ok(Outcome::Verbatim { result, .. }) => Ok(Answer {
            result: Printed::of(result)?,
            refusal: Exit::Refused,
        }),
        Ok(Outcome::InputRequired(_)) => Err(Failure::refused(
            "the tool asks for input, which the command line cannot give",
        )),
        Ok(_) => {
            Err(anyhow::anyhow!("the tool returned a response that is not a tool result").into())
        }
        Err(error @ (ProviderError::InvalidParams(_) | ProviderError::Unknown { .. })) => {
            Err(Failure::usage(error))
        }
        Err(error @ ProviderError::Denied(_)) => Err(Failure::refused(error.to_string())),
        // A line of the server must not look like a line of this program.
        Err(error) => {
            let text = error.to_string().replace('\n', "\n    ");
            Err(anyhow::Error::msg(text).into())
        }
    }
}

/// How to exit after a call of another server's tool that did not come about.
fn exit_of(code: &str) -> Exit {
    match code {
        "invalid_arguments" => Exit::Usage,
        "invalid_config" => Exit::Refused,
        "permission_denied"
        | "needs_approval"
        | "needs_auth"
        | "daily_quota_exceeded"
        | "rate_limited"
        | "concurrency_exceeded" => Exit::Denied,
        _ => Exit::Problems,
    }
}

/// A result as MCP has it.
fn whole(result: &ToolResult) -> Result<Printed, Failure> {
    let mut content = Vec::with_capacity(result.content.len());
    for block in &result.content {
        content.push(match block {
            orchestra_hub::Content::Text(text) => json!({"type": "text", "text": text}).to_string(),
            orchestra_hub::Content::Raw(raw) => raw.as_str().to_owned(),
        });
    }
    let mut whole = format!(
        "{{\"content\":[{}],\"isError\":{}",
        content.join(","),
        result.is_error
    );
    if let Some(structured) = &result.structured {
        whole.push_str(",\"structuredContent\":");
        whole.push_str(structured.as_str());
    }
    whole.push('}');
    Printed::of(RawJson::checked(whole.into())?)
}

/// A call of a tool that is not listed: the hub records it, as it does those of every face, and a
/// server of others may say why it does not list it.
async fn ask_unlisted(serving: &Serving, asked: &Asked, is_late: bool) -> Result<Answer, Failure> {
    let arguments = asked.given.fit(&json!({})).unwrap_or_default();
    let target = target(asked, &arguments)?;
    let cx = Cx {
        deadline: is_late.then(|| Instant::now() + LAST_LOOK),
        ..Cx::default()
    };
    let outcome = put(serving, Toolset::All, target, cx).await;
    if let Ok(Outcome::Tool(result)) = &outcome
        && let Some(code) = rules::failed(result)
    {
        return Ok(Answer {
            result: whole(result)?,
            refusal: exit_of(&code),
        });
    }
    if is_late && outcome.is_err() {
        let text = format!(
            "{} was not called, and nothing ran: its server has not listed its tools.",
            asked.name
        );
        let content = json!([{"type": "text", "text": text}]);
        return Ok(Answer {
            result: json!({"content": content, "isError": true}).into(),
            refusal: Exit::Problems,
        });
    }
    // What else it says is told in the words of the shell.
    Err(no_tool(serving, &asked.name))
}

fn target(asked: &Asked, arguments: &Map<String, Value>) -> Result<Target, Failure> {
    Ok(Target::Tool {
        name: asked.name.clone(),
        arguments: asked.given.sent(arguments)?,
    })
}

/// Puts a call to the hub.
async fn put(
    serving: &Serving,
    toolset: Toolset,
    target: Target,
    cx: Cx,
) -> Result<Outcome, ProviderError> {
    let attachment = serving.attach(toolset);
    let cx = Cx {
        caller: attachment.caller().clone(),
        ..cx
    };
    let _turning = Turning::new("waiting for the tool");
    attachment.call(Request { target, cx }).await
}
