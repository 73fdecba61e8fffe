//! `orchestra config`: what the configuration is, and where each value comes from.

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{
    cli::Common,
    config::{Config, Entry, Origin, Overrides},
    exit::{Exit, Failure},
    output::Format,
};

/// Show the configuration
///
/// It is read from the command line, the environment, orchestra.toml in the workspace and
/// orchestra/orchestra.toml in the configuration directory of the user, in this order.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print every key with its value, as orchestra.toml would say it; defaults are comments
    Show {
        /// Say where each value comes from
        #[arg(long)]
        origin: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Serialize)]
struct Row<'a> {
    key: &'a str,
    value: &'a str,
    meaning: &'a str,
    origin: String,
}

/// Shows the configuration.
///
/// # Errors
/// When it is wrong, or stdout cannot be written to.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let Command::Show { origin, json } = arguments.command;
    let config = Config::settle(common, Overrides::default())?;
    let entries = config.entries();
    let rows: Vec<Row<'_>> = entries
        .iter()
        .map(|entry| Row {
            key: entry.key,
            value: &entry.value,
            meaning: entry.meaning,
            origin: entry.origin.to_string(),
        })
        .collect();
    Format::of_flag(json).print(&rows, |_| toml(&entries, origin))?;
    Ok(Exit::Ok)
}

/// The entries as a configuration file with comments. What nobody has set stands as a comment: some
/// defaults follow from other keys, and shall go on to do so where this is taken as a file.
fn toml(entries: &[Entry], origin: bool) -> String {
    let mut text = String::new();
    let mut section = "";
    for entry in entries {
        let (table, key) = entry.key.rsplit_once('.').unwrap_or(("", entry.key));
        if !text.is_empty() {
            text.push('\n');
        }
        if table != section {
            text.push_str(&format!("[{table}]\n"));
            section = table;
        }
        text.push_str(&format!("# {}\n", entry.meaning));
        if origin {
            text.push_str(&format!("# from: {}\n", entry.origin));
        }
        let mark = match entry.origin {
            Origin::Default => "# ",
            _ => "",
        };
        text.push_str(&format!("{mark}{key} = {}\n", entry.value));
    }
    text
}
