//! `orchestra chat replay`.

use clap::Args;
use orchestra_chat::session::{Session, played};
use serde_json::json;

use super::files;
use crate::{
    cli::{Common, examples},
    config::{Config, Overrides},
    exit::{Exit, Failure},
    output::{self, Format},
};

/// Repeat a conversation with its recorded replies, to check for differences
///
/// No model is asked and no tool is called. Compares the requests that Orchestra would send with the recorded ones.
/// If they differ, prints the first difference and exits with 4.
#[derive(Debug, Args)]
#[command(after_help = examples(&["chat replay", "chat replay release-notes.jsonl"]))]
pub(super) struct Arguments {
    /// File or name of the conversation [default: the last one]
    #[arg(value_name = "SESSION", default_value = "", hide_default_value = true)]
    session: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(common: &Common, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = read(common, &arguments.session)?;
    let path = session.path().display().to_string();
    let (told, exit) = match played(&session) {
        Ok(played) => {
            let told = json!({
                "session": path, "same": true, "turns": played.turns, "requests": played.requests,
                "calls": played.calls,
            });
            (told, Exit::Ok)
        }
        Err(difference) => {
            let told = json!({
                "session": path, "same": false, "line": difference.line, "difference": difference.what,
            });
            (told, Exit::Problems)
        }
    };
    Format::of_flag(arguments.json).print(&told, |told| {
        let text = match told["same"] == json!(true) {
            true => {
                let many = |what: &str| told[what].as_u64().unwrap_or_default();
                format!(
                    "{path}: the same; turns: {}, requests to the model: {}, calls: {}",
                    many("turns"),
                    many("requests"),
                    many("calls")
                )
            }
            false => format!(
                "{path}:{}: {}",
                told["line"],
                told["difference"].as_str().unwrap_or_default()
            ),
        };
        output::printable(&text).into_owned()
    })?;
    Ok(exit)
}

/// Reads a session that the command line names.
///
/// # Errors
/// When there is none, or it cannot be read.
pub(super) fn read(common: &Common, name: &str) -> Result<Session, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    let directory = files::directory(&config.workspace)?;
    let path = files::find(&directory, name)?;
    Session::read(&path).map_err(Failure::usage)
}
