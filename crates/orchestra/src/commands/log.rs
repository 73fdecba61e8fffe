//! `orchestra log`: history of the board, as its commits recorded it.

use clap::Args;
use orchestra_board::{IssueId, Timestamp};
use serde::Serialize;

use super::table;
use crate::{
    cli::{Common, examples},
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
    output::Format,
    stopping,
    sync::Exchange,
};

/// Number of characters of a commit's name that are shown to people.
const SHORT: usize = 10;

/// Show the commits of the board: who changed what, and when
///
/// `orchestra sync` creates the commits; after the first sync, `up` and `stdio` do so as well, at most once a minute
/// and when they end. Changes since the last commit are not included; the tool `get_history` returns them.
#[derive(Debug, Args)]
#[command(after_help = examples(&["log", "log P-3 --limit 5"]))]
pub(crate) struct Arguments {
    /// Id of an issue, to show only its changes
    issue: Option<String>,
    /// Number of commits to show
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry {
    commit: String,
    at: String,
    author: String,
    changes: Vec<String>,
}

/// Shows the log.
///
/// # Errors
/// When there is no repository, no commit of the board, or the id is none of an issue.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    logging::start(logging::of_a_report(&config.log))?;
    let issue = arguments.issue.as_deref().map(IssueId::parse);
    let issue = issue.transpose().map_err(Failure::usage)?;
    let name = issue.as_ref().map(IssueId::to_string);
    let entries = stopping::until_signal(async {
        let exchange = Exchange::open(&config.workspace).await?;
        let entries = exchange.log(name.as_deref(), arguments.limit).await?;
        Ok::<_, Failure>(entries)
    })?;
    let Some(entries) = entries else {
        return Err(Failure::refused(
            "the board has no commit yet; `orchestra sync` creates one. For the history of one issue, run `orchestra tool call get_history project=PROJECT issue_id=ID`",
        ));
    };
    let entries: Vec<Entry> = entries
        .into_iter()
        .map(|entry| Entry {
            at: Timestamp::from_unix_seconds(entry.at).to_string(),
            changes: changes(&entry.message, name.as_deref()),
            commit: entry.commit,
            author: entry.author,
        })
        .collect();
    Format::of_flag(arguments.json).print(&entries, |entries| text(entries))?;
    Ok(Exit::Ok)
}

/// Changes that a message lists: those of one issue, where it is named in the list.
fn changes(message: &str, issue: Option<&str>) -> Vec<String> {
    let (subject, body) = message.split_once('\n').unwrap_or((message, ""));
    let listed = body.lines().filter(|line| !line.is_empty());
    let listed: Vec<&str> = match issue {
        None => listed.collect(),
        Some(issue) => {
            let is_about = |line: &&str| line.split(' ').next() == Some(issue);
            listed.filter(is_about).collect()
        }
    };
    match listed.as_slice() {
        [] => vec![subject.to_owned()],
        listed => listed.iter().map(|line| (*line).to_owned()).collect(),
    }
}

fn text(entries: &[Entry]) -> String {
    let mut rows = Vec::new();
    for entry in entries {
        let short: String = entry.commit.chars().take(SHORT).collect();
        let mut head = [entry.at.clone(), short, entry.author.clone()];
        for change in &entry.changes {
            rows.push(head.iter().cloned().chain([change.clone()]).collect());
            head = Default::default();
        }
    }
    match rows.as_slice() {
        [] => "no commit changed it\n".to_owned(),
        rows => table::lines(&["TIME", "COMMIT", "AUTHOR", "CHANGE"], rows),
    }
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn changes_of_an_issue_are_found_in_the_body() {
        let message = "P-3 created: A and 2 more\n\nP-3 created: A\nP-33 comment\nP-4 comment\n";
        assert_eq!(changes(message, Some("P-33")), ["P-33 comment"]);
        assert_eq!(changes(message, None).len(), 3);
        assert_eq!(changes("P-3 comment\n", Some("P-3")), ["P-3 comment"]);
    }
}
