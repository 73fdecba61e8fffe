//! `orchestra config`: what the configuration is, and where each value comes from.

mod servers;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{
    cli::{Common, examples},
    config::{Config, Entry, Origin, Overrides},
    exit::{Exit, Failure},
    output::{self, Format},
};

/// Show the configuration
///
/// Settings are read from the command line, the environment, orchestra.toml in the workspace and
/// orchestra/orchestra.toml in the configuration directory of the user. The first value applies.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print every key with its value in the format of orchestra.toml; defaults are comments
    #[command(after_help = examples(&["config show", "config show --origin"]))]
    Show {
        /// Also print where each value is set
        #[arg(long)]
        origin: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// A key, as it is shown.
#[derive(Serialize)]
struct Row {
    key: String,
    /// As TOML.
    value: String,
    meaning: String,
    origin: String,
    /// Whether a file that says the same has it.
    #[serde(skip)]
    is_set: bool,
}

/// Shows the configuration.
///
/// # Errors
/// When it is wrong, or stdout cannot be written to.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let Command::Show { origin, json } = arguments.command;
    let config = Config::settle(common, Overrides::default())?;
    config.memory.overreach().for_each(output::complain);
    config.plans.overreach().for_each(output::complain);
    config.chat.overreach().for_each(output::complain);
    config.sync.overreach().for_each(output::complain);
    let mut rows: Vec<Row> = config.entries().into_iter().map(Row::of).collect();
    rows.extend(config.plans.agents().map(Row::of_agent));
    rows.extend(servers::rows(&config));
    Format::of_flag(json).print(&rows, |rows| toml(rows, origin))?;
    Ok(Exit::Ok)
}

impl Row {
    fn of(entry: Entry) -> Self {
        let is_set = entry.origin != Origin::Default && entry.is_key();
        Self {
            key: entry.key.to_owned(),
            value: entry.value,
            meaning: entry.meaning.to_owned(),
            origin: entry.origin.to_string(),
            is_set,
        }
    }
}

impl Row {
    /// An agent of the configuration; what else it says stands in its file.
    fn of_agent((name, program, origin): (&str, &str, &Origin)) -> Self {
        Self {
            key: format!("agents.{name}.program"),
            value: toml::Value::from(program).to_string(),
            meaning:
                "an agent that plans may have work done by; the rest of its profile is in the file"
                    .to_owned(),
            origin: origin.to_string(),
            is_set: false,
        }
    }
}

/// The rows as a configuration file with comments. What nobody has set stands as a comment: some
/// defaults follow from other keys, and shall go on to do so where this is taken as a file. So does
/// what is not shown whole.
fn toml(rows: &[Row], origin: bool) -> String {
    let mut text = String::new();
    let mut section = "";
    for row in rows {
        let (table, key) = row.key.rsplit_once('.').unwrap_or(("", &row.key));
        if !text.is_empty() {
            text.push('\n');
        }
        if table != section {
            text.push_str(&format!("[{table}]\n"));
            section = table;
        }
        if !row.meaning.is_empty() {
            text.push_str(&format!("# {}\n", row.meaning));
        }
        if origin {
            text.push_str(&format!("# from: {}\n", row.origin));
        }
        let mark = if row.is_set { "" } else { "# " };
        text.push_str(&format!("{mark}{key} = {}\n", row.value));
    }
    output::printable_toml(&text).into_owned()
}
