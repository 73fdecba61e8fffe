//! `orchestra chat branch`.

use clap::Args;
use orchestra_chat::{Chat, Settings, Tools};
use serde_json::json;

use super::{
    files::{self, Begun},
    replay::read,
};
use crate::{
    cli::{Common, examples},
    config::{Config, Overrides},
    exit::{Exit, Failure},
    output::Format,
};

/// Copy the first turns of a conversation into a new one
///
/// `orchestra chat --resume` continues the new conversation.
#[derive(Debug, Args)]
#[command(after_help = examples(&["chat branch release-notes.jsonl --turns 3"]))]
pub(super) struct Arguments {
    /// File or name of the conversation
    #[arg(value_name = "SESSION")]
    session: String,
    /// Number of turns to copy [default: all]
    #[arg(long, value_name = "N")]
    turns: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(common: &Common, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = read(common, &arguments.session)?;
    let config = Config::settle(common, Overrides::default())?;
    let turns = arguments.turns.unwrap_or_else(|| session.turns());
    if turns > session.turns() {
        return Err(Failure::usage_text(format!(
            "--turns {turns}: it has {}",
            files::turns(session.turns())
        )));
    }
    let mut chat = Chat::new(Settings::default(), Tools::default());
    chat.restore(session.messages_of(turns));
    let header = session.header();
    let (backend, model) = session.model();
    let begun = Begun {
        backend,
        model,
        chat: &chat,
    };
    let directory = files::directory(&config.workspace)?;
    let mut recorder =
        files::begin_in(&directory, &begun, Some(&header.id)).map_err(anyhow::Error::new)?;
    recorder.before(&chat);
    if let Some(error) = recorder.take_failure() {
        return Err(anyhow::Error::new(error).into());
    }
    let told = json!({
        "name": files::name(recorder.path()), "path": recorder.path().display().to_string(), "turns": turns,
    });
    Format::of_flag(arguments.json).print(&told, |told| {
        let name = told["name"].as_str().unwrap_or_default();
        format!(
            "{name} starts with {}; `orchestra chat --resume={name}` continues it",
            files::turns(turns)
        )
    })?;
    Ok(Exit::Ok)
}
