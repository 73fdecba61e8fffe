//! `orchestra tool`: any tool, from the shell.

mod call;
mod describe;
mod job;
pub(in crate::commands) mod theirs;

use std::borrow::Cow;

use clap::{Args, Subcommand};
use orchestra_gateway::config::nearest;
use orchestra_hub::{ToolDescriptor, Toolset};
use serde::Serialize;
use serde_json::Value;

use crate::{
    cli::{self, Common, examples},
    commands::{self, table},
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
    servers::{FileFlags, ServerFlags},
    serving::{self, Scratch, Serving},
};
use call::Call;
use theirs::Theirs;

/// List, describe and call tools
///
/// Covers the tools of the board, and those of configured MCP servers as SERVER__TOOL. Runs in this process; no
/// `orchestra up` is needed. An upstream MCP server is started to call or describe one of its tools, or to list
/// tools that are not cached. In a sandboxed job of a plan, covers the tools of the job.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    files: FileFlags,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the tools
    #[command(after_help = examples(&[
        "tool list",
        "tool list --tools task,memory",
        "tool list --json",
    ]))]
    List {
        #[arg(long, value_name = "TOOLS", help = cli::tools_help())]
        tools: Option<String>,
        /// Print JSON, with the schema of every tool
        #[arg(long)]
        json: bool,
    },
    /// Describe a tool and its arguments
    #[command(after_help = examples(&["tool show create_task"]))]
    #[command(visible_alias = "describe")]
    Show {
        /// Name of the tool
        name: String,
        /// Print JSON, with the schema of the tool
        #[arg(long)]
        json: bool,
    },
    /// Call a tool
    ///
    /// If the workspace has no board, create_project creates one. Tools for plans need no board. All other built-in
    /// tools fail without one.
    ///
    /// A call of a tool of an MCP server starts a process of the server for this call alone, even while `orchestra up`
    /// runs the server.
    #[command(after_help = examples(&[
        "tool call create_project name='My app'",
        "tool call create_epic project=my-app title=Search",
        "tool call create_task --args task.json",
        "tool call create_task --help",
    ]))]
    Call(Call),
}

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
    let Arguments { files, command } = arguments;
    let servers = ServerFlags::from(files);
    servers.check()?;
    let (tools, format) = match &command {
        Command::List { tools, .. } => (tools.clone(), None),
        Command::Show { .. } => (None, None),
        Command::Call(call) => (None, call.format),
    };
    let overrides = Overrides {
        tools,
        format,
        servers,
        ..Overrides::default()
    };
    // Only with --help; the command line is refused otherwise.
    if let Command::Call(Call { name: None, .. }) = command {
        output::lines(&cli::help(&["tool", "call"]))?;
        return Ok(Exit::Ok);
    }
    if let Some(stream) = commands::job::connection(common)? {
        return job::run(stream, command);
    }
    let config = Config::settle(common, overrides)?;
    let theirs = match &command {
        Command::List { .. } => Theirs::all(&config)?,
        Command::Show { name, .. } => Theirs::of(&config, name)?,
        Command::Call(call) => Theirs::of(&config, call.name.as_deref().unwrap_or_default())?,
    };
    logging::start(match theirs.is_empty() {
        true => &config.log.value,
        // What is wrong with servers is said here.
        false => logging::of_a_report(&config.log),
    })?;
    let runtime = serving::runtime()?;
    runtime.block_on(async {
        match command {
            Command::List { json, .. } => list(&config, theirs, Format::of_flag(json)).await,
            Command::Show { name, json } => {
                show(&config, theirs, &name, Format::of_flag(json)).await
            }
            Command::Call(call) if call.help => {
                let name = call.name.unwrap_or_default();
                show(&config, theirs, &name, Format::of_flag(call.tell.json)).await
            }
            Command::Call(call) => call::run(&config, theirs, call).await,
        }
    })
}

/// There is no such tool; the one that may have been meant is named.
fn no_tool(serving: &Serving, name: &str) -> Failure {
    let tools = [Toolset::All, Toolset::Search].map(|toolset| serving.hub().tools(&toolset));
    let names: Vec<&str> = tools.iter().flatten().map(|tool| &*tool.name).collect();
    let meant = nearest(name, &names);
    let meant = meant.map(|meant| format!("did you mean `{}`? ", output::in_a_line(meant)));
    let text = format!(
        "no tool `{}`; {}`orchestra tool list` lists them",
        output::in_a_line(name),
        meant.unwrap_or_default()
    );
    Failure::usage_text(text)
}

/// Needs no board, and makes none.
async fn list(config: &Config, theirs: Theirs, format: Format) -> Result<Exit, Failure> {
    let scratch = Scratch::open(config)?;
    let guests = theirs.start_soon(scratch.serving(), config).await?;
    let listed = listing(scratch.serving());
    if format == Format::Text {
        guests.complain(scratch.serving());
    }
    guests.close().await;
    scratch.close();
    print_listing(&listed?, format)?;
    Ok(Exit::Ok)
}

fn print_listing(listing: &Listing, format: Format) -> Result<(), Failure> {
    format.print(listing, |listing| {
        let rows = listing.items.iter().map(|row| {
            let description = row.description.as_deref().unwrap_or_default();
            // A description of an upstream server may have several lines.
            let line = description.lines().next().unwrap_or_default();
            vec![row.name.clone(), line.to_owned()]
        });
        table::lines(&["NAME", "DESCRIPTION"], &rows.collect::<Vec<_>>())
    })
}

fn listing(serving: &Serving) -> Result<Listing, Failure> {
    let tools = serving.hub().tools(&serving.toolset()?);
    let total = tools.len();
    let items = tools.into_iter().map(Row::of).collect::<Result<_, _>>()?;
    Ok(Listing { items, total })
}

async fn show(
    config: &Config,
    theirs: Theirs,
    name: &str,
    format: Format,
) -> Result<Exit, Failure> {
    let scratch = Scratch::open(config)?;
    let guests = theirs.start(scratch.serving(), config, None).await?;
    let found = find(scratch.serving(), name);
    if found.is_none() {
        guests.complain(scratch.serving());
    }
    let found = found.ok_or_else(|| no_tool(scratch.serving(), name));
    guests.close().await;
    scratch.close();
    let (tool, _) = found?;
    print_row(&Row::of(tool)?, format)?;
    Ok(Exit::Ok)
}

fn print_row(row: &Row, format: Format) -> Result<(), Failure> {
    format.print(row, |row| {
        let description = row.description.as_deref().unwrap_or_default();
        let text = describe::text(&row.name, description, &row.input_schema);
        output::printable(&text).into_owned()
    })
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
