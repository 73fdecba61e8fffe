//! `orchestra mcp export`: servers as other programs read them.

use std::collections::BTreeMap;

use clap::Args;
use orchestra_gateway::{
    config::{Input, ServerConfig, Transport, Trust, Values, Variables},
    discovery::{Server, ServerState},
    expand::{self, Reference},
};
use serde_json::{Map, Value, json};

use super::Here;
use crate::{
    cli::examples,
    exit::{Exit, Failure},
    output,
};

/// Print configured MCP servers in the file format of another program
///
/// Secrets in the environment and in headers, and values that look like secrets in arguments and addresses, are
/// replaced by ${NAME}, so that the file can be shared. The variables are listed on stderr, and so is the
/// meaning of each ${input:ID}: VS Code asks for it, most other programs do not. Plugins and remote
/// orchestrators are omitted.
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp export > servers.json", "mcp export docs --shape vscode"]))]
pub(super) struct Arguments {
    /// Names of the servers [default: all that need no approval]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Format of the file
    #[arg(long, value_enum, default_value_t)]
    shape: Shape,
    /// Print values unchanged, including secrets
    #[arg(long)]
    with_values: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Shape {
    /// {"mcpServers": …}, for most programs
    #[default]
    McpServers,
    /// {"servers": …}, for VS Code
    Vscode,
    /// [mcp.servers.NAME], for orchestra.toml
    Toml,
}

pub(super) fn run(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let (servers, unapproved): (Vec<&Server>, Vec<&Server>) = if arguments.names.is_empty() {
        here.found.servers.iter().partition(|server| !waits(server))
    } else {
        let named = arguments.names.iter().map(|name| here.server(name));
        (named.collect::<Result<_, _>>()?, Vec::new())
    };
    let configs = servers.iter().filter_map(|server| server.config());
    let (configs, others): (Vec<&ServerConfig>, Vec<&ServerConfig>) =
        configs.map(|config| &**config).partition(is_for_others);
    let variables = Variables::of(&configs);
    let values = match arguments.with_values {
        true => Values::Kept,
        false => Values::Named(&variables),
    };
    let inputs = inputs(&configs);
    let map: Map<String, Value> = configs
        .into_iter()
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
        Shape::Vscode if inputs.is_empty() => json!({"servers": map}),
        Shape::Vscode => {
            json!({"servers": map, "inputs": asked_for(&inputs, arguments.with_values)})
        }
        Shape::Toml => json!({"mcp": {"servers": map}}),
    };
    let text = match arguments.shape {
        Shape::Toml => output::printable_toml(&toml::to_string(&value)?).into_owned(),
        Shape::McpServers | Shape::Vscode => {
            output::printable_result(&serde_json::to_string_pretty(&value)?).into_owned()
        }
    };
    let names = variables.names();
    if !names.is_empty() && !arguments.with_values {
        output::complain(&format!(
            "values are left out; to be set where the file is used: {}",
            names.join(", ")
        ));
    }
    if !others.is_empty() {
        let others = others.iter().map(|config| config.shown_name.as_str());
        output::complain(&output::printable(&format!(
            "left out, because other programs cannot reach plugins and orchestrators: {}",
            others.collect::<Vec<_>>().join(", ")
        )));
    }
    if !unapproved.is_empty() {
        let names = unapproved.iter().map(|server| server.shown_name.as_str());
        output::complain(&output::printable(&format!(
            "left out, because the workspace defines them, and they are disabled or wait for your approval: {}; name a \
             server to print it",
            names.collect::<Vec<_>>().join(", ")
        )));
    }
    if let Some(hint) = hint(arguments.shape, &inputs) {
        output::complain(&output::printable(&hint));
    }
    output::lines(&text)?;
    Ok(Exit::Ok)
}

/// Returns whether a server of the workspace may start only after an approval. Of a disabled one, the approval is not
/// looked at.
fn waits(server: &Server) -> bool {
    let asks = server.origin.trust == Trust::Ask && server.trusted_by.is_none();
    match &server.state {
        ServerState::NeedsApproval { .. } => true,
        ServerState::Disabled { .. } => asks,
        ServerState::Usable(_) | ServerState::Invalid { .. } | ServerState::Own => false,
    }
}

/// Whether other programs can reach it.
const fn is_for_others(config: &&ServerConfig) -> bool {
    matches!(config.transport, Transport::Stdio(_) | Transport::Http(_))
}

/// What servers leave to be asked for, by its id, and what their file says of it.
fn inputs(configs: &[&ServerConfig]) -> BTreeMap<String, Input> {
    let mut inputs = BTreeMap::new();
    for config in configs {
        for reference in expand::references(config) {
            if let Reference::Input(id) = reference {
                let said = config.inputs.get(&id).cloned().unwrap_or_default();
                inputs.entry(id).or_insert(said);
            }
        }
    }
    inputs
}

/// Inputs as VS Code has them.
fn asked_for(inputs: &BTreeMap<String, Input>, with_values: bool) -> Vec<Value> {
    let one = |(id, input): (&String, &Input)| {
        let mut one = json!({"id": id, "type": "promptString", "password": input.is_secret});
        let description = input.description.clone();
        one["description"] = json!(description.unwrap_or_else(|| id.clone()));
        let is_shared = with_values || !input.is_secret;
        if let Some(default) = input.default.as_ref().filter(|_| is_shared) {
            one["default"] = json!(default);
        }
        one
    };
    inputs.iter().map(one).collect()
}

/// Who asks for inputs, or that nobody does.
fn hint(shape: Shape, inputs: &BTreeMap<String, Input>) -> Option<String> {
    let references: Vec<String> = inputs.keys().map(|id| format!("${{input:{id}}}")).collect();
    let named = references.join(", ");
    let variables = inputs.keys().cloned().map(Reference::Input);
    let variables: Vec<String> = variables.filter_map(|input| input.variable()).collect();
    let variables = variables.join(", ");
    (!inputs.is_empty()).then(|| match shape {
        Shape::Vscode => format!("VS Code will ask for {named}"),
        Shape::McpServers => format!(
            "most programs that read this shape cannot ask for {named}: write values or ${{NAME}} \
             there, or use --shape vscode; Orchestra takes {variables}"
        ),
        Shape::Toml => format!("Orchestra does not ask for {named}: set {variables}"),
    })
}
