//! `orchestra chat sessions`.

use clap::Args;
use orchestra_chat::session::Session;
use serde::Serialize;

use super::files;
use crate::{
    cli::Common,
    config::{Config, Overrides},
    exit::{Exit, Failure},
    output::{self, Format},
};

/// Letters of what was said first.
const TITLE_CHARS: usize = 60;

/// List the conversations of the workspace that are kept, the last one first
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    items: Vec<Row>,
    total: usize,
}

#[derive(Serialize)]
struct Row {
    name: String,
    created: String,
    model: String,
    turns: usize,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch_of: Option<String>,
    path: String,
}

pub(super) fn run(common: &Common, arguments: &Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    let mut items = Vec::new();
    for path in files::all(&files::directory(&config.workspace)?) {
        match Session::read(&path) {
            Ok(session) => items.push(Row::of(&session)),
            Err(error) => output::complain(&output::printable(&format!(
                "{:#}",
                anyhow::Error::new(error)
            ))),
        }
    }
    let listing = Listing {
        total: items.len(),
        items,
    };
    Format::of_flag(arguments.json).print(&listing, |listing| {
        let lines = listing.items.iter().map(Row::words);
        output::printable(&lines.collect::<String>()).into_owned()
    })?;
    Ok(Exit::Ok)
}

impl Row {
    fn of(session: &Session) -> Self {
        let header = session.header();
        let (_, model) = session.model();
        let title = session.title();
        let title = title.lines().next().unwrap_or_default();
        let stem = session.path().file_stem().unwrap_or_default();
        Self {
            name: stem.to_string_lossy().into_owned(),
            created: header.created.clone(),
            model: model.to_owned(),
            turns: session.turns(),
            title: title.chars().take(TITLE_CHARS).collect(),
            branch_of: header.branch_of.clone(),
            path: session.path().display().to_string(),
        }
    }

    fn words(&self) -> String {
        let Self {
            name,
            model,
            turns,
            title,
            ..
        } = self;
        let turns = match turns {
            1 => "1 turn".to_owned(),
            turns => format!("{turns} turns"),
        };
        format!("{name}  {model}  {turns}  {title}\n")
    }
}
