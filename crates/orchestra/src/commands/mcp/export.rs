//! `orchestra mcp export`: servers as other programs read them.

use clap::Args;
use orchestra_gateway::{config::Values, discovery::Server};
use serde_json::{Map, Value, json};

use super::Here;
use crate::{
    exit::{Exit, Failure},
    output,
};

/// Print servers as the file of another program
///
/// Values of the environment and of headers that somebody wrote down are replaced by ${NAME}, so
/// that the file can be shared.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The servers [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The shape of the file
    #[arg(long, value_enum, default_value_t)]
    shape: Shape,
    /// Print values as they were written, secrets included
    #[arg(long)]
    with_values: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Shape {
    /// {"mcpServers": …}, as most programs have it
    #[default]
    McpServers,
    /// {"servers": …}, as VS Code has it
    Vscode,
    /// [mcp.servers.NAME], for orchestra.toml
    Toml,
}

pub(super) fn run(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let servers: Vec<&Server> = if arguments.names.is_empty() {
        here.found.servers.iter().collect()
    } else {
        let named = arguments.names.iter().map(|name| here.server(name));
        named.collect::<Result<_, _>>()?
    };
    let values = match arguments.with_values {
        true => Values::Kept,
        false => Values::Named,
    };
    let configs = servers.iter().filter_map(|server| server.config());
    let map: Map<String, Value> = configs
        .map(|config| {
            let mut value = config.to_json(values);
            if arguments.shape == Shape::Vscode && value.get("type").is_none() {
                value["type"] = json!(config.transport.as_str());
            }
            (config.shown_name.clone(), value)
        })
        .collect();
    let value = match arguments.shape {
        Shape::McpServers => json!({"mcpServers": map}),
        Shape::Vscode => json!({"servers": map}),
        Shape::Toml => json!({"mcp": {"servers": map}}),
    };
    let text = match arguments.shape {
        Shape::Toml => toml::to_string(&value)?,
        Shape::McpServers | Shape::Vscode => serde_json::to_string_pretty(&value)?,
    };
    output::lines(&text)?;
    Ok(Exit::Ok)
}
