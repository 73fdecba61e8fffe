//! `orchestra mcp remove`.

use clap::Args;
use orchestra_gateway::config::Source;

use super::{Here, done::Done, edit::Target};
use crate::{
    cli::examples,
    exit::{Exit, Failure},
    output,
};

/// Remove a server from its configuration file
///
/// If several files define the server, the definition that is used is removed, and the next one is used then.
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp remove docs"]))]
pub(super) struct Arguments {
    /// Name of the server
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let server = here.server(&arguments.name)?;
    let origin = &server.origin;
    let why = match origin.source {
        Source::User | Source::Workspace => None,
        Source::CommandLine | Source::Environment => {
            Some("this file was named by hand, and is changed by hand")
        }
        Source::System => Some("this file is for all users of this machine"),
    };
    if let Some(why) = why {
        return Err(Failure::refused(format!(
            "{origin}: {why}; or use `orchestra mcp disable {}`",
            server.name
        )));
    }
    let target = Target::at(&origin.file, here)?;
    let extension = origin
        .file
        .extension()
        .and_then(|extension| extension.to_str());
    match extension {
        Some("toml" | "yaml" | "yml") => target.cut(here, server)?,
        _ => target.change(|servers| servers.remove(&server.shown_name))?,
    }
    here.decide(|decisions| {
        decisions.revoke(&here.places.workspace, &server.name);
        decisions.switch(&here.places.workspace, &server.name, None);
    })?;
    Done::new(&server.name, "removed")
        .at(origin.file.to_path_buf())
        .print(arguments.json)?;
    let again = here.again()?;
    if let Some(next) = again.found.server(server.name.as_str()) {
        output::complain(&format!("the one in {} is used now", next.origin));
    }
    Ok(Exit::Ok)
}
