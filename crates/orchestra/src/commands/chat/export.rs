//! `orchestra chat export`.

use clap::Args;
use orchestra_chat::session::{Session, exported};
use orchestra_secret::Masker;

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
    output::lines(&markdown(&session))?;
    Ok(Exit::Ok)
}

/// Conversation as Markdown, with secrets masked.
pub(super) fn markdown(session: &Session) -> String {
    let masked = |mut arguments| {
        Masker::default().json(&mut arguments);
        arguments
    };
    let text = exported(session, &masked);
    output::printable(&orchestra_secret::text(&text)).into_owned()
}
