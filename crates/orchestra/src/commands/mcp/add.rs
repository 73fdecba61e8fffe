//! `orchestra mcp add`.

use std::path::Path;

use clap::Args;
use orchestra_gateway::{
    approval::Fingerprint,
    config::{ServerConfig, ServerName},
    discovery::ServerState,
};
use serde_json::{Map, Value, json};

use super::{
    Here,
    done::Done,
    edit::{Scope, Target},
    words,
};
use crate::{
    cli::examples,
    exit::{Exit, Failure},
    init::jsonc::Refusal,
    output,
};

/// Add a server to a configuration file
///
/// Write secrets as ${VARIABLE}, so that the file does not hold them.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "mcp add files -- npx -y @modelcontextprotocol/server-filesystem .",
    "mcp add docs --url https://example.com/mcp",
    "mcp add build --scope workspace --env 'TOKEN=${BUILD_TOKEN}' -- build-server",
]))]
pub(super) struct Arguments {
    /// Name of the server: 1 to 64 of a-z, 0-9 and -
    name: String,
    /// Command that starts the server: a program and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url")]
    command: Vec<String>,
    /// URL of a remote server, instead of a command
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// Transport: http, sse or rpc [default: detected]
    #[arg(long, requires = "url")]
    transport: Option<String>,
    /// Environment variable to set for the server; may be repeated
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url")]
    env: Vec<String>,
    /// HTTP header to send with every request to the remote server; may be repeated
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,
    /// Allow an unencrypted connection to a remote server
    #[arg(long, requires = "url")]
    allow_insecure: bool,
    /// Working directory of the server
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    cwd: Option<String>,
    /// Start the server only when one of its tools is first called
    #[arg(long)]
    lazy: bool,
    /// Offer the tools of the server without the prefix SERVER__ in their names
    #[arg(long)]
    no_prefix: bool,
    /// Whose configuration file to change
    #[arg(long, value_enum, default_value_t)]
    scope: Scope,
    /// Replace a server of the same name in that file
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(here: &Here, arguments: Arguments) -> Result<Exit, Failure> {
    let name: ServerName = arguments.name.parse().map_err(Failure::usage)?;
    let (scope, force, json) = (arguments.scope, arguments.force, arguments.json);
    let target = Target::of(scope, here)?;
    let value = arguments.into_value()?;
    let config = check(scope, &name, &value, &target)?;
    let added = target.change(|servers| {
        // Names are compared as the file is read: `Notes` and `no_tes` are names of servers `notes` and `no-tes`.
        let is_namesake =
            |other: &String| *other != name.as_str() && ServerName::of_text(other) == name;
        if let Some(other) = servers.names().into_iter().find(is_namesake) {
            return Err(Refusal(format!(
                "it has a server `{}` already, which has the same name as `{name}`; remove or rename it",
                output::in_a_line(&other)
            )));
        }
        if servers.value(name.as_str())?.is_some() && !force {
            return Ok(false);
        }
        servers.set(name.as_str(), &value)?;
        Ok(true)
    })?;
    let path = target.path();
    if !added {
        return Err(Failure::refused(format!(
            "{} has a server `{name}` already; --force replaces it",
            path.display()
        )));
    }
    let again = here.again()?;
    let done = Done::new(&name, "added").at(path.clone());
    done.among(&again.found, &path).print(json)?;
    if let Some(note) = words::clear_secrets(&config) {
        output::complain(&output::printable(&note));
    }
    settle(&again, &config, &path)
}

/// Approves a server that the user added to the workspace, if its file defines it as it was added. Reports what else
/// prevents its use.
fn settle(here: &Here, added: &ServerConfig, file: &Path) -> Result<Exit, Failure> {
    let name = &added.name;
    let server = here.server(name.as_str())?;
    if *server.origin.file != *file {
        return Ok(Exit::Ok);
    }
    if let ServerState::NeedsApproval { fingerprint, .. } = &server.state {
        if Fingerprint::of(added, &server.covered) == *fingerprint {
            let workspace = &here.places.workspace;
            here.decide(|decisions| decisions.approve(workspace, name, fingerprint))?;
            output::complain(&format!("{name} is approved in this workspace"));
        } else {
            output::complain(&format!(
                "its file defines it differently from what was added; `orchestra mcp approve {name}` shows and \
                 approves it"
            ));
        }
    }
    if let ServerState::Invalid { reason } = &server.state {
        output::complain(&format!("it cannot be used yet: {reason}"));
    }
    Ok(Exit::Ok)
}

/// Reads the server as its file would be read, before anything is written.
fn check(
    scope: Scope,
    name: &ServerName,
    value: &Value,
    target: &Target,
) -> Result<Box<ServerConfig>, Failure> {
    match target.understand(scope, name, value) {
        Ok(config) => Ok(config),
        Err(reason) if value["url"].is_string() && reason.contains("`allowInsecure`") => {
            Err(Failure::usage_text(format!("{reason} (--allow-insecure)")))
        }
        Err(reason) => Err(Failure::usage_text(reason)),
    }
}

impl Arguments {
    /// The server as its file has it.
    fn into_value(self) -> Result<Value, Failure> {
        let mut map = Map::new();
        if let Some(url) = self.url {
            if let Some(transport) = self.transport {
                map.insert("type".into(), json!(transport));
            }
            map.insert("url".into(), json!(url));
            if self.allow_insecure {
                map.insert("allowInsecure".into(), json!(true));
            }
            let pairs = pairs(&self.header, ':')?;
            if !pairs.is_empty() {
                map.insert("headers".into(), Value::Object(pairs));
            }
        } else {
            let mut words = self.command.into_iter();
            map.insert("command".into(), json!(words.next()));
            map.insert("args".into(), words.collect());
            let pairs = pairs(&self.env, '=')?;
            if !pairs.is_empty() {
                map.insert("env".into(), Value::Object(pairs));
            }
            if let Some(cwd) = self.cwd {
                map.insert("cwd".into(), json!(cwd));
            }
        }
        if self.lazy {
            map.insert("lazy".into(), json!(true));
        }
        if self.no_prefix {
            map.insert("prefix".into(), json!(false));
        }
        Ok(Value::Object(map))
    }
}

/// Names with values.
fn pairs(texts: &[String], separator: char) -> Result<Map<String, Value>, Failure> {
    let mut pairs = Map::new();
    for text in texts {
        // The text may hold a secret: it is not repeated.
        let (name, value) = text.split_once(separator).ok_or_else(|| {
            Failure::usage_text(format!("a name, `{separator}` and a value are expected"))
        })?;
        pairs.insert(name.trim().to_owned(), json!(value.trim()));
    }
    Ok(pairs)
}
