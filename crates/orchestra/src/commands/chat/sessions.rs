//! `orchestra chat sessions`.

use clap::Args;
use orchestra_chat::session::Session;
use serde::Serialize;

use super::files;
use crate::{
    cli::{Common, examples},
    config::{Config, Overrides},
    exit::{Exit, Failure},
    output::{self, Format},
};

/// Letters of what was said first.
const TITLE_CHARS: usize = 60;

/// List the stored conversations of the workspace, newest first
#[derive(Debug, Args)]
#[command(after_help = examples(&["chat sessions", "chat sessions --limit 5"]))]
pub(super) struct Arguments {
    /// Maximum number of conversations
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    items: Vec<Row>,
    /// Those included that are not listed.
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
    let all = files::all(&files::directory(&config.workspace)?);
    let total = all.len();
    for path in all.into_iter().take(arguments.limit as usize) {
        match Session::read(&path) {
            Ok(session) => items.push(Row::of(&session)),
            Err(error) => output::complain(&output::printable(&format!(
                "{:#}",
                anyhow::Error::new(error)
            ))),
        }
    }
    if total == 0 {
        output::complain(
            "no conversation of this workspace is stored yet; `orchestra chat` starts one",
        );
    } else if total > arguments.limit as usize {
        output::complain(&format!(
            "these are the last {} of {total}; --limit lists more",
            arguments.limit
        ));
    }
    let listing = Listing { items, total };
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
        let title = orchestra_secret::text(&title);
        let title = title.lines().next().unwrap_or_default();
        Self {
            name: files::name(session.path()),
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
        let turns = files::turns(*turns);
        format!("{name}  {model}  {turns}  {title}\n")
    }
}
