//! `orchestra sync`: exchanges the board with other clones through a remote of the repository.

use clap::Args;
use orchestra_store::Effect;
use serde::Serialize;

use crate::{
    cli::{Common, examples},
    commands::progress::Turning,
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
    stopping,
    sync::{Exchange, Outcome},
};

/// Number of changes in each direction that are shown to people.
const SHOWN: usize = 20;

/// Exchange the board with other clones through a git remote
///
/// Fetches the board of the remote, merges it into the local board and pushes the result. A clone without a board
/// gets the board of the remote. Claims, usage, hook events and approvals are not exchanged. Never asks for a
/// password.
#[derive(Debug, Args)]
#[command(after_help = examples(&["sync", "sync origin --dry-run", "sync origin --branch board"]))]
pub(crate) struct Arguments {
    /// Name or URL of the remote [default: that of `[sync]` in the configuration, else origin, else the only one]
    remote: Option<String>,
    /// Branch on the remote in which to store the board, for git servers that accept no references other than
    /// branches
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Show what would be received and sent, without changing either board
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    remote: String,
    /// Reference of the board in the remote.
    reference: String,
    dry_run: bool,
    /// Changes that came from other clones.
    received: Vec<String>,
    /// Changes that the remote did not have.
    sent: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    #[serde(skip)]
    is_empty: bool,
}

/// Exchanges the board.
///
/// # Errors
/// When there is no repository, remote or board, when the remote cannot be reached, and when its board cannot be merged.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    config.sync.overreach().for_each(output::complain);
    logging::start(logging::of_a_report(&config.log))?;
    let Arguments {
        remote,
        branch,
        dry_run,
        json,
    } = arguments;
    let effect = match dry_run {
        true => Effect::Preview,
        false => Effect::Apply,
    };
    let turning = Turning::new("exchanging the board");
    let answer = stopping::until_signal(async {
        let exchange = Exchange::open(&config.workspace).await?;
        // The branch of the configuration is one of its remote.
        let (remote, usual) = match remote {
            Some(remote) => (Some(remote), None),
            None => (
                config.sync.remote().map(str::to_owned),
                config.sync.branch(),
            ),
        };
        let branch = branch.as_deref().or(usual);
        let remote = exchange.remote(remote, branch).await?;
        let Outcome {
            received,
            sent,
            commit,
            is_empty,
        } = exchange.run(&config, &remote, effect).await?;
        Ok::<_, Failure>(Answer {
            remote: remote.shown(),
            reference: remote.reference().to_owned(),
            dry_run,
            received,
            sent,
            commit: commit.map(|commit| commit.to_string()),
            is_empty,
        })
    })?;
    drop(turning);
    Format::of_flag(json).print(&answer, text)?;
    Ok(Exit::Ok)
}

fn text(answer: &Answer) -> String {
    let mut text = String::new();
    let [received, sent] = match answer.dry_run {
        true => ["would receive", "would send"],
        false => ["received", "sent"],
    };
    for (verb, direction, changes) in [
        (received, "from", &answer.received),
        (sent, "to", &answer.sent),
    ] {
        let count = match changes.len() {
            0 => continue,
            1 => "1 change".to_owned(),
            all => format!("{all} changes"),
        };
        text.push_str(&format!("{verb} {count} {direction} {}\n", answer.remote));
        for change in changes.iter().take(SHOWN) {
            text.push_str(&format!("  {change}\n"));
        }
        if changes.len() > SHOWN {
            text.push_str(&format!("  and {} more\n", changes.len() - SHOWN));
        }
    }
    if text.is_empty() {
        let remote = &answer.remote;
        text = match answer.is_empty {
            true => format!(
                "neither this board nor {remote} has a project yet: run `orchestra sync` in the clone that has the \
                 board, then again here\n"
            ),
            false => format!("the board and {remote} have the same content\n"),
        };
    }
    output::printable(&text).into_owned()
}
