//! `orchestra mcp tools`, `resources` and `prompts`: what servers offer.

use clap::Args;
use orchestra_gateway::{
    config::ServerConfig,
    discovery::{Server, ServerState},
    review,
};
use orchestra_hub::ListKind;
use orchestra_wire::RawJson;
use serde::Serialize;
use serde_json::Value;

use super::{
    Here,
    live::{self, Trouble},
    words,
};
use crate::{
    commands::table,
    exit::{Exit, Failure},
    output::{self, Format},
    serving,
};

/// Selection of servers.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Names of the servers [default: all enabled servers]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Name of a server, same as the argument NAME
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
    /// Print names and descriptions in full
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON, with all fields that the servers return
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    servers: Vec<Offered>,
    errors: Vec<Trouble>,
}

#[derive(Serialize)]
struct Offered {
    server: String,
    items: Vec<Value>,
    /// Those of them that are not left out.
    #[serde(skip)]
    shown: Vec<Value>,
    /// Tools that are hidden from callers, for they changed since they were approved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<String>,
}

/// How much of a name or description is shown.
const SHORT_CHARS: usize = 80;

pub(super) fn run(here: &Here, kind: ListKind, arguments: Arguments) -> Result<Exit, Failure> {
    let mut names = arguments.names;
    names.extend(arguments.server);
    let servers = live::chosen(here, &names)?;
    let listed = live::each(
        None,
        live::connectors(here)?,
        &servers,
        None,
        move |live| async move {
            let mut items = live::list(&live, kind).await?;
            let mut shown = shown(&live.config, kind, &items);
            let hidden = match kind {
                ListKind::Tools => live::hidden(&live, &items),
                _ => Vec::new(),
            };
            if kind == ListKind::Resources {
                let templates = live::list(&live, ListKind::Templates).await?;
                shown.extend(self::shown(&live.config, ListKind::Templates, &templates));
                items.extend(templates);
            }
            let items = items.iter().filter_map(|item| item.parse_lossy().ok());
            Ok(Offered {
                server: live.config.name.to_string(),
                items: items.collect(),
                shown,
                hidden,
            })
        },
    );
    let listed = serving::runtime()?.block_on(listed)?;
    let mut listing = Listing {
        servers: Vec::new(),
        errors: Vec::new(),
    };
    for one in listed {
        match one {
            Ok(offered) => listing.servers.push(offered),
            Err(trouble) => listing.errors.push(trouble),
        }
    }
    if !arguments.json {
        listing.errors.iter().for_each(Trouble::complain);
        notes(&servers, &listing);
    }
    let verbose = arguments.verbose;
    Format::of_flag(arguments.json).print(&listing, |listing| text(listing, kind, verbose))?;
    // Of all that there are, one bad server is no failure as long as another answers.
    let is_named = !names.is_empty();
    match listing.errors.first() {
        Some(trouble) if is_named || listing.servers.is_empty() => Ok(trouble.exit),
        _ => Ok(Exit::Ok),
    }
}

/// The items that callers are offered.
fn shown(config: &ServerConfig, kind: ListKind, items: &[RawJson]) -> Vec<Value> {
    let items = review(config, kind, items).items.into_iter();
    items.filter_map(|item| item.parse_lossy().ok()).collect()
}

/// Says on stderr what of this no caller gets.
fn notes(servers: &[&Server], listing: &Listing) {
    let is_off = |server: &&&Server| matches!(server.state, ServerState::Disabled { .. });
    for server in servers.iter().filter(is_off) {
        let why = words::reason(server).unwrap_or_default();
        output::complain(&output::printable(&format!(
            "{}: disabled: {why}",
            server.name
        )));
    }
    for offered in &listing.servers {
        let server = &offered.server;
        if let Some(hidden) = live::told_hidden(server, &offered.hidden) {
            output::complain(&format!("{server}: {hidden}"));
        }
        let left_out = offered.items.len() - offered.shown.len();
        if left_out > 0 {
            output::complain(&format!(
                "{server}: {left_out} omitted; `orchestra mcp test {server}` shows the reasons"
            ));
        }
    }
}

fn text(listing: &Listing, kind: ListKind, verbose: bool) -> String {
    let mut rows = Vec::new();
    for offered in &listing.servers {
        for item in &offered.shown {
            let word = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
            let id = ["uri", "uriTemplate", "name"].map(word);
            let id = id.into_iter().find(|id| !id.is_empty());
            let id = cut(output::in_a_line(&id.unwrap_or_default()), verbose);
            let mut description = word("description");
            if offered.hidden.contains(&word("name")) {
                description.insert_str(0, "(hidden) ");
            }
            let description = cut(description, verbose);
            rows.push(vec![offered.server.clone(), id, description]);
        }
    }
    let what = match kind {
        ListKind::Tools => "tools",
        ListKind::Prompts => "prompts",
        ListKind::Resources | ListKind::Templates => "resources",
    };
    match (rows.is_empty(), listing.servers.is_empty()) {
        (false, _) => table::lines(&["SERVER", "NAME", "DESCRIPTION"], &rows),
        (true, false) => format!("no {what}; the servers offer none"),
        // The errors name the reasons.
        (true, true) if !listing.errors.is_empty() => String::new(),
        (true, true) => {
            format!("no {what}; no server is enabled, and `orchestra mcp list` shows all servers")
        }
    }
}

/// A text, cut short unless everything is wanted.
fn cut(text: String, verbose: bool) -> String {
    if verbose || text.chars().count() <= SHORT_CHARS {
        return text;
    }
    let start = text.chars().take(SHORT_CHARS - 1);
    start.chain(['…']).collect()
}
