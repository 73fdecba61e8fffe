//! `orchestra tool`: any tool, from the shell.

mod arguments;

use std::io::{self, Read as _};

use clap::{Args, Subcommand};
use orchestra_hub::{
    Content, Cx, Outcome, ProviderError, Request, Target, ToolDescriptor, ToolResult, Toolset,
};
use orchestra_store::Options;
use orchestra_wire::RawJson;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    cli::Common,
    config::{Config, Overrides, TextFormat},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
    serving::{self, Serving},
    workspace,
};

/// The largest arguments that are read from stdin.
const MAX_ARGUMENT_BYTES: u64 = 10 * 1024 * 1024;

/// List tools, or call one
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
        /// Which tools: all, lean, search, or groups separated by commas
        #[arg(long, value_name = "TOOLS")]
        tools: Option<String>,
        /// Print JSON, with every tool's schema
        #[arg(long)]
        json: bool,
    },
    /// Call a tool
    Call(Call),
}

#[derive(Debug, Args)]
struct Call {
    /// The tool
    name: String,
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
}

#[derive(Serialize)]
struct Row {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    group: &'static str,
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

/// Lists or calls.
///
/// # Errors
/// When the board cannot be opened, or the tool refuses.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let overrides = match &arguments.command {
        Command::List { tools, .. } => Overrides {
            tools: tools.clone(),
            ..Overrides::default()
        },
        Command::Call(call) => Overrides {
            format: call.format,
            ..Overrides::default()
        },
    };
    let config = Config::settle(common, overrides)?;
    logging::start(&config.log.value)?;
    if only_looks(&arguments.command)? {
        workspace::check_board(&config.workspace)?;
    }
    let runtime = serving::runtime()?;
    let entered = runtime.enter();
    let options = Options {
        watch: false,
        ..Options::default()
    };
    let serving = Serving::open(&config, options)?;
    let result = match arguments.command {
        Command::List { json, .. } => list(&serving, Format::of_flag(json)),
        Command::Call(call) => {
            // What somebody edited a moment ago is seen by the tool.
            serving.catch_up();
            runtime.block_on(self::call(&serving, call))
        }
    };
    serving.close();
    drop(entered);
    result
}

/// Whether a command leaves the board as it is, and so makes none.
fn only_looks(command: &Command) -> Result<bool, Failure> {
    match command {
        Command::List { .. } => Ok(true),
        Command::Call(call) => {
            orchestra_tools::only_reads(&call.name).ok_or_else(|| no_tool(&call.name))
        }
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

async fn call(serving: &Serving, call: Call) -> Result<Exit, Failure> {
    let tools = serving.hub().tools(&Toolset::All);
    let tool = tools
        .iter()
        .find(|tool| tool.name == call.name)
        .ok_or_else(|| no_tool(&call.name))?;
    let arguments = read_arguments(&call, tool)?;
    // The tool says what is wrong, as through every other face; here is only told how to exit.
    let refusal = match arguments::check(&arguments, tool) {
        Ok(()) => Exit::Refused,
        Err(_) => Exit::Usage,
    };
    let arguments = RawJson::of(&Value::Object(arguments))?;
    let target = Target::Tool {
        name: call.name,
        arguments,
    };
    let attachment = serving.attach();
    let cx = Cx {
        caller: attachment.caller().clone(),
        ..Cx::default()
    };
    let outcome = attachment.call(Request { target, cx }).await;
    match outcome {
        Ok(Outcome::Tool(result)) => print(&result, Format::of_flag(call.json), refusal),
        Ok(Outcome::InputRequired(_)) => Err(Failure::refused(
            "the tool asks for input, which the command line cannot give",
        )),
        Ok(_) => Err(anyhow::anyhow!("the tool answered something that is no tool result").into()),
        Err(error @ (ProviderError::InvalidParams(_) | ProviderError::Unknown { .. })) => {
            Err(Failure::usage(error))
        }
        Err(error) => Err(error.into()),
    }
}

fn read_arguments(call: &Call, tool: &ToolDescriptor) -> Result<Map<String, Value>, Failure> {
    Ok(match call.args.as_deref() {
        None => arguments::of_pairs(&call.pairs, tool).map_err(Failure::usage)?,
        Some(text) => {
            let mut read = String::new();
            if text == "-" {
                io::stdin()
                    .lock()
                    .take(MAX_ARGUMENT_BYTES)
                    .read_to_string(&mut read)?;
            } else {
                text.clone_into(&mut read);
            }
            let value: Value = serde_json::from_str(&read).map_err(|error| {
                Failure::usage_text(format!("--args is not valid JSON: {error}"))
            })?;
            let Value::Object(arguments) = value else {
                return Err(Failure::usage_text("--args must be a JSON object"));
            };
            arguments
        }
    })
}

/// Prints a result: its text, or all of it as JSON. An error goes to stderr, unless all is JSON.
/// `refusal` is how to exit then.
fn print(result: &ToolResult, format: Format, refusal: Exit) -> Result<Exit, Failure> {
    let content: Vec<Value> = result.content.iter().map(block).collect::<Result<_, _>>()?;
    if format == Format::Json {
        let mut whole = json!({"content": content, "isError": result.is_error});
        if let Some(structured) = &result.structured {
            whole["structuredContent"] = structured.parse()?;
        }
        output::json(&whole)?;
        return Ok(if result.is_error { refusal } else { Exit::Ok });
    }
    let texts: Vec<String> = content
        .iter()
        .map(|block| {
            block["text"]
                .as_str()
                .map_or_else(|| block.to_string(), str::to_owned)
        })
        .collect();
    let text = texts.join("\n");
    if result.is_error {
        let text = output::printable(&text);
        return Err(match refusal {
            Exit::Usage => Failure::usage_text(text),
            _ => Failure::refused(text),
        });
    }
    output::lines(&output::printable(&text))?;
    Ok(Exit::Ok)
}

/// A content block as JSON.
fn block(content: &Content) -> Result<Value, Failure> {
    match content {
        Content::Text(text) => Ok(json!({"type": "text", "text": text})),
        Content::Raw(raw) => Ok(raw.parse()?),
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
