//! `orchestra chat export`.

use clap::Args;
use orchestra_chat::session::exported;

use super::replay::read;
use crate::{
    cli::Common,
    exit::{Exit, Failure},
    output,
};

/// Print a conversation as Markdown
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Its file, or its name; the last one where neither is given
    #[arg(value_name = "SESSION", default_value = "", hide_default_value = true)]
    session: String,
}

pub(super) fn run(common: &Common, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = read(common, &arguments.session)?;
    output::lines(&output::printable(&exported(&session)))?;
    Ok(Exit::Ok)
}
