//! `orchestra chat export`.

use clap::Args;
use orchestra_chat::session::exported;

use super::replay::read;
use crate::{
    cli::{Common, examples},
    exit::{Exit, Failure},
    output,
};

/// Print a conversation as Markdown
#[derive(Debug, Args)]
#[command(after_help = examples(&["chat export > conversation.md"]))]
pub(super) struct Arguments {
    /// File or name of the conversation [default: the last one]
    #[arg(value_name = "SESSION", default_value = "", hide_default_value = true)]
    session: String,
}

pub(super) fn run(common: &Common, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = read(common, &arguments.session)?;
    let text = exported(&session);
    output::lines(&output::printable(&orchestra_secret::text(&text)))?;
    Ok(Exit::Ok)
}
