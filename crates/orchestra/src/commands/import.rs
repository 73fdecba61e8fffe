//! `orchestra import`: takes over the files of the earlier program, which are YAML in spite of their ending.

use std::path::{Path, PathBuf};

use clap::Args;
use orchestra_store::{Imported, Options, Store};
use serde::Serialize;

use crate::{
    board,
    cli::{Common, examples},
    commands::progress::Turning,
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
    output::{self, Format, counted},
    serving, workspace,
};

/// Import the board of orchestra-mcp from its YAML files in .projects
///
/// These files are named *.toon but contain YAML. They are first copied to a directory beside .projects. If there
/// are none, nothing happens.
#[derive(Debug, Args)]
#[command(after_help = examples(&["import", "import ~/my-app"]))]
pub(crate) struct Arguments {
    /// Workspace directory, same as --workspace
    #[arg(value_name = "DIR", conflicts_with = "workspace")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    /// Slugs of the projects that were taken over.
    projects: Vec<&'a str>,
    issues: u64,
    /// What could not be taken over as it was.
    remarks: &'a [String],
    /// What was left as it is, and why.
    left: &'a [String],
    /// Where the old files are now.
    backup: Option<&'a Path>,
}

/// Imports.
///
/// # Errors
/// When the old files cannot be read or copied, or the board cannot be written.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let chosen = arguments
        .directory
        .as_deref()
        .or(common.workspace.as_deref());
    let workspace = workspace::find(chosen).map_err(Failure::usage)?;
    let config = Config::settle_in(workspace, common, Overrides::default())?;
    logging::start(logging::of_a_report(&config.log))?;
    let format = Format::of_flag(arguments.json);
    if !workspace::has_board(&config.workspace) {
        // Looking for old files makes no board.
        format.print(&Report::of(&Imported::default()), text)?;
        return Ok(Exit::Ok);
    }
    let options = Options {
        watch: false,
        sweep: false,
        ..Options::default()
    };
    let options = board::options(&config, options)?;
    let turning = Turning::new("importing old files");
    let store = Store::open(&config.workspace, options)?;
    let imported = store.import()?;
    serving::close(&store);
    drop(turning);
    format.print(&Report::of(&imported), text)?;
    Ok(if imported.left.is_empty() {
        Exit::Ok
    } else {
        output::complain(
            "error: some files were not imported; repair them by hand, then run the import again",
        );
        Exit::Refused
    })
}

impl<'a> Report<'a> {
    fn of(imported: &'a Imported) -> Self {
        Self {
            projects: imported
                .projects
                .iter()
                .map(orchestra_board::Slug::as_str)
                .collect(),
            issues: imported.issues,
            remarks: &imported.remarks,
            left: &imported.left,
            backup: imported.backup.as_deref(),
        }
    }
}

fn text(report: &Report<'_>) -> String {
    let mut text = match report.backup {
        Some(backup) => {
            let mut text = format!("the old files are in {}\n", backup.display());
            if !report.projects.is_empty() || report.remarks.is_empty() {
                let taken = format!(
                    "imported {} of {}: {}\n",
                    counted(report.issues, "issue"),
                    counted(report.projects.len(), "project"),
                    report.projects.join(", "),
                );
                text.insert_str(0, &taken);
            }
            text
        }
        None if report.left.is_empty() => "no files of orchestra-mcp found\n".to_owned(),
        None => "imported nothing\n".to_owned(),
    };
    for remark in report.remarks {
        text.push_str(&format!("- {remark}\n"));
    }
    if !report.left.is_empty() {
        text.push_str("left as it is, with all of its project:\n");
    }
    for left in report.left {
        text.push_str(&format!("- {left}\n"));
    }
    output::printable(&text).into_owned()
}
