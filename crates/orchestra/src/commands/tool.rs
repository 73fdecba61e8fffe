//! `orchestra tool`: any tool, from the shell.

mod arguments;
mod describe;
mod told;

use std::{
    borrow::Cow,
    io::{self, Read as _},
};

use clap::{Args, Subcommand};
use orchestra_hub::{
    Cx, Outcome, ProviderError, Request, Target, ToolDescriptor, ToolResult, Toolset,
};
use orchestra_store::Options;
use orchestra_wire::RawJson;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    cli::{self, Common},
    config::{Config, Overrides, TextFormat},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
    serving::{self, Scratch, Serving},
    workspace,
};

/// The largest arguments that are read from stdin.
const MAX_ARGUMENT_BYTES: u64 = 10 * 1024 * 1024;

/// List tools, describe one, or call one
///
/// Runs in this process; no server is needed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the tools
    List {
        #[arg(long, value_name = "TOOLS", help = cli::tools_help())]
        tools: Option<String>,
        /// Print JSON, with every tool's schema
        #[arg(long)]
        json: bool,
    },
    /// Describe a tool and its arguments
    Show {
        /// The tool
        name: String,
        /// Print JSON, with the tool's schema
        #[arg(long)]
        json: bool,
    },
    /// Call a tool
    ///
    /// Where there is no board, create_project makes one; every other tool is refused.
    Call(Call),
}

#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    override_usage = "orchestra tool call [OPTIONS] <NAME> [KEY=VALUE]..."
)]
struct Call {
    /// The tool
    #[arg(required_unless_present = "help")]
    name: Option<String>,
    /// Its arguments: text for what the tool takes as text, else JSON; a list also as a,b,c
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// Its arguments as one JSON object; - reads it from stdin
    #[arg(long, value_name = "JSON", conflicts_with = "pairs")]
    args: Option<String>,
    /// How the result is written
    #[arg(long, value_enum)]
    format: Option<TextFormat>,
    /// Print the whole result as JSON, as MCP has it
    #[arg(long)]
    json: bool,
    /// Print help; after a tool's name, what the tool does and which arguments it takes
    #[arg(short, long)]
    help: bool,
}

/// A call that is complete.
struct Asked {
    name: String,
    given: Given,
}

/// Arguments as they were given.
enum Given {
    Pairs(Vec<String>),
    Json(String),
}

/// What came of a call.
struct Answer {
    result: ToolResult,
    /// How to exit when the tool refused.
    refusal: Exit,
}

/// The one tool that makes a board where there is none.
const MAKES_A_BOARD: &str = "create_project";

#[derive(Serialize)]
struct Row {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    group: Cow<'static, str>,
    #[serde(rename = "inputSchema")]
    input_schema: Value,
    #[serde(rename = "outputSchema", skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
}

#[derive(Serialize)]
struct Listing {
    items: Vec<Row>,
    total: usize,
}

/// Lists, describes or calls.
///
/// # Errors
/// When the board cannot be opened, or the tool refuses.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let overrides = match &arguments.command {
        Command::List { tools, .. } => Overrides {
            tools: tools.clone(),
            ..Overrides::default()
        },
        Command::Show { .. } => Overrides::default(),
        // Only with --help; the command line is refused otherwise.
        Command::Call(Call { name: None, .. }) => {
            output::lines(&cli::help(&["tool", "call"]))?;
            return Ok(Exit::Ok);
        }
        Command::Call(call) => Overrides {
            format: call.format,
            ..Overrides::default()
        },
    };
    let config = Config::settle(common, overrides)?;
    logging::start(&config.log.value)?;
    let runtime = serving::runtime()?;
    let _entered = runtime.enter();
    match arguments.command {
        Command::List { json, .. } => {
            on_scratch(&config, |serving| list(serving, Format::of_flag(json)))
        }
        Command::Show { name, json } => on_scratch(&config, |serving| {
            show(serving, &name, Format::of_flag(json))
        }),
        Command::Call(Call {
            name: Some(name),
            help: true,
            json,
            ..
        }) => on_scratch(&config, |serving| {
            show(serving, &name, Format::of_flag(json))
        }),
        Command::Call(call) => {
            let format = Format::of_flag(call.json);
            let answer = runtime.block_on(self::call(&config, call.into_asked()?))?;
            told::print(&answer, format)
        }
    }
}

/// Does something with the tools alone, for which no board has to be there, nor is one made.
fn on_scratch(
    config: &Config,
    work: impl FnOnce(&Serving) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let scratch = Scratch::open(config)?;
    let result = work(scratch.serving());
    scratch.close();
    result
}

impl Call {
    /// The call with all of its arguments, stdin included.
    fn into_asked(self) -> Result<Asked, Failure> {
        let given = match self.args {
            None => Given::Pairs(self.pairs),
            Some(text) if text == "-" => {
                let mut read = String::new();
                io::stdin()
                    .lock()
                    .take(MAX_ARGUMENT_BYTES)
                    .read_to_string(&mut read)?;
                Given::Json(read)
            }
            Some(text) => Given::Json(text),
        };
        let name = self
            .name
            .ok_or_else(|| Failure::usage_text("which tool? `orchestra tool list` lists them"))?;
        Ok(Asked { name, given })
    }
}

fn no_tool(name: &str) -> Failure {
    Failure::usage_text(format!(
        "no tool `{name}`; `orchestra tool list` lists them"
    ))
}

fn list(serving: &Serving, format: Format) -> Result<Exit, Failure> {
    let tools = serving.hub().tools(&serving.toolset()?);
    let total = tools.len();
    let items = tools.into_iter().map(Row::of).collect::<Result<_, _>>()?;
    format.print(&Listing { items, total }, |listing| {
        let width = listing
            .items
            .iter()
            .map(|row| row.name.len())
            .max()
            .unwrap_or(0);
        let lines = listing.items.iter().map(|row| {
            let description = row.description.as_deref().unwrap_or_default();
            format!("{:<width$}  {description}\n", row.name)
        });
        output::printable(&lines.collect::<String>()).into_owned()
    })?;
    Ok(Exit::Ok)
}

fn show(serving: &Serving, name: &str, format: Format) -> Result<Exit, Failure> {
    let (tool, _) = find(serving, name).ok_or_else(|| no_tool(name))?;
    format.print(&Row::of(tool)?, |row| {
        let description = row.description.as_deref().unwrap_or_default();
        let text = describe::text(&row.name, description, &row.input_schema);
        output::printable(&text).into_owned()
    })?;
    Ok(Exit::Ok)
}

/// The tool of a name, and the toolset that it is called in: those that find and call others are
/// in one of their own.
fn find(serving: &Serving, name: &str) -> Option<(ToolDescriptor, Toolset)> {
    [Toolset::All, Toolset::Search]
        .into_iter()
        .find_map(|toolset| {
            let tools = serving.hub().tools(&toolset);
            let tool = tools.into_iter().find(|tool| tool.name == name)?;
            Some((tool, toolset))
        })
}

/// Calls a tool of the board. A call that fails makes no board.
async fn call(config: &Config, asked: Asked) -> Result<Answer, Failure> {
    if !workspace::has_board(&config.workspace) {
        let scratch = Scratch::open(config)?;
        let tried = rehearse(config, scratch.serving(), &asked).await;
        scratch.close();
        let answer = tried?;
        if answer.result.is_error {
            return Ok(answer);
        }
    }
    let options = Options {
        watch: false,
        ..Options::default()
    };
    let serving = Serving::open(config, options)?;
    // What somebody edited a moment ago is seen by the tool.
    serving.catch_up();
    let answer = ask(&serving, &asked).await;
    serving.close();
    answer
}

/// Tries on a scratch board what would make the workspace's. Any other call is refused.
async fn rehearse(config: &Config, scratch: &Serving, asked: &Asked) -> Result<Answer, Failure> {
    find(scratch, &asked.name).ok_or_else(|| no_tool(&asked.name))?;
    if asked.name != MAKES_A_BOARD {
        workspace::check_board(&config.workspace)?;
    }
    ask(scratch, asked).await
}

async fn ask(serving: &Serving, asked: &Asked) -> Result<Answer, Failure> {
    let Some((tool, toolset)) = find(serving, &asked.name) else {
        return ask_for_none(serving, asked).await;
    };
    let arguments = asked.given.read(&tool)?;
    // The tool says what is wrong, as through every other face; here is only told how to exit.
    let refusal = match arguments::check(&arguments, &tool) {
        Ok(()) => Exit::Refused,
        Err(_) => Exit::Usage,
    };
    match put(serving, toolset, &asked.name, arguments).await? {
        Ok(Outcome::Tool(result)) => Ok(Answer { result, refusal }),
        Ok(Outcome::Verbatim {
            result, is_error, ..
        }) => Ok(Answer {
            result: ToolResult::of_verbatim(&result, is_error),
            refusal,
        }),
        Ok(Outcome::InputRequired(_)) => Err(Failure::refused(
            "the tool asks for input, which the command line cannot give",
        )),
        Ok(_) => Err(anyhow::anyhow!("the tool answered something that is no tool result").into()),
        Err(error @ (ProviderError::InvalidParams(_) | ProviderError::Unknown { .. })) => {
            Err(Failure::usage(error))
        }
        Err(error @ ProviderError::Denied(_)) => Err(Failure::refused(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// A call of a tool that is not there: the hub records it, as it does those of every face.
async fn ask_for_none(serving: &Serving, asked: &Asked) -> Result<Answer, Failure> {
    let arguments = match &asked.given {
        Given::Json(text) => object(text)?,
        Given::Pairs(_) => Map::new(),
    };
    // What it says is told in the words of the shell.
    let _ = put(serving, Toolset::All, &asked.name, arguments).await?;
    Err(no_tool(&asked.name))
}

/// Puts a call to the hub.
async fn put(
    serving: &Serving,
    toolset: Toolset,
    name: &str,
    arguments: Map<String, Value>,
) -> Result<Result<Outcome, ProviderError>, Failure> {
    let target = Target::Tool {
        name: name.to_owned(),
        arguments: RawJson::of(&Value::Object(arguments))?,
    };
    let attachment = serving.attach(toolset);
    let cx = Cx {
        caller: attachment.caller().clone(),
        ..Cx::default()
    };
    Ok(attachment.call(Request { target, cx }).await)
}

impl Given {
    /// The arguments as a JSON object.
    fn read(&self, tool: &ToolDescriptor) -> Result<Map<String, Value>, Failure> {
        let text = match self {
            Self::Pairs(pairs) => return arguments::of_pairs(pairs, tool).map_err(Failure::usage),
            Self::Json(text) => text,
        };
        object(text)
    }
}

/// What `--args` says.
fn object(text: &str) -> Result<Map<String, Value>, Failure> {
    let value = serde_json::from_str(text)
        .map_err(|error| Failure::usage_text(format!("--args is not valid JSON: {error}")))?;
    match value {
        Value::Object(arguments) => Ok(arguments),
        _ => Err(Failure::usage_text("--args must be a JSON object")),
    }
}

impl Row {
    fn of(tool: ToolDescriptor) -> Result<Self, Failure> {
        Ok(Self {
            name: tool.name,
            title: tool.title,
            description: tool.description,
            group: tool.group,
            input_schema: tool.input_schema.parse()?,
            output_schema: tool
                .output_schema
                .map(|schema| schema.parse())
                .transpose()?,
        })
    }
}
