//! `orchestra plan`: plans of jobs in git worktrees, from the shell.

mod again;
mod agents;
mod chain;
mod change;
mod clone;
mod desk;
mod file;
mod graph;
mod hints;
mod logs;
mod look;
mod run;
mod trust;
mod watch;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use orchestra_plan::view::ListFilter;

use crate::{
    cli::{Common, examples},
    exit::{Exit, Failure},
    output::{self, Format},
};
use desk::Desk;
use file::Language;

/// Create, run and manage plans of jobs in git worktrees
///
/// A plan is a graph of jobs. Each job works in a git worktree of its own. Checks run before and after its work,
/// and an agent repairs the job if a check fails. At the end, the results are merged into one branch. A plan is
/// named by its id, the first eight digits of its id, or its name. Commands are sent to the process that runs the
/// plans of the workspace; if there is none, a background process is started.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

/// Plan file, and values that replace those in it.
#[derive(Debug, Args)]
struct Given {
    /// Plan file (.yaml, .toml, .toon or .json), or - for stdin
    file: PathBuf,
    /// Format of the file [default: by its extension, or for stdin by its first characters]
    #[arg(long, value_enum)]
    format: Option<Language>,
    /// Name of the plan, instead of the name in the file
    #[arg(long)]
    name: Option<String>,
    /// Branch on which the plan starts, instead of baseBranch in the file
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    /// Branch to merge the result into, instead of targetBranch in the file
    #[arg(long, value_name = "BRANCH")]
    target: Option<String>,
}

/// A plan, and one of its jobs.
#[derive(Debug, Args)]
struct OfJob {
    /// Name or id of the plan; the first eight digits of the id are enough
    plan: String,
    /// Name, producer id or id of the job
    job: String,
}

/// A plan.
#[derive(Debug, Args)]
struct OfPlan {
    /// Name or id of the plan; the first eight digits of the id are enough
    plan: String,
}

/// Format of a drawn graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Drawing {
    /// Boxes and lines for a terminal
    #[default]
    Terminal,
    /// Mermaid flowchart
    Mermaid,
    /// DOT graph for Graphviz
    Dot,
    /// SVG image
    Svg,
}

/// Lines of a log.
#[derive(Debug, Args)]
struct Lines {
    /// Number of the attempt whose log to print [default: the last attempt]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Phase of the job whose lines to print: merge-fi (merge of the dependencies), setup, prechecks, work, commit,
    /// postchecks, merge-ri (merge into the target branch) or cleanup
    #[arg(long, value_name = "PHASE")]
    phase: Option<String>,
    /// Text that lines must contain, ignoring case
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Number of lines to print from the end of the log
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tail: Option<u32>,
    /// Print new lines until the job has ended
    #[arg(long, short)]
    follow: bool,
}

/// Changes to a job.
#[derive(Debug, Args)]
struct Mended {
    /// Work that replaces the work of the job
    #[arg(long, value_name = "WORK", requires = "jobs")]
    work: Option<String>,
    /// Check that replaces the one before the work; an empty text removes it
    #[arg(long, value_name = "CHECK", requires = "jobs")]
    prechecks: Option<String>,
    /// Check that replaces the one after the work; an empty text removes it
    #[arg(long, value_name = "CHECK", requires = "jobs")]
    postchecks: Option<String>,
    /// Let the job succeed even if its work changes no files
    #[arg(long, requires = "jobs")]
    expects_no_changes: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a plan from a file
    ///
    /// The plan is paused until `resume`, unless the file or --start starts it.
    #[command(after_help = examples(&[
        "plan create plan.yaml",
        "plan create plan.yaml --start --key nightly",
    ]))]
    Create {
        #[command(flatten)]
        given: Given,
        /// Start the plan at once
        #[arg(long)]
        start: bool,
        /// Idempotency key. If a plan was created with the same key before, that plan is printed, and no other is
        /// created
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Check a plan file without creating a plan
    #[command(after_help = examples(&["plan validate plan.yaml"]))]
    Validate {
        #[command(flatten)]
        given: Given,
    },
    /// Create a plan from a file, start it, and wait for its end
    ///
    /// Exits with 0 if the plan succeeded, 6 if it failed, 7 if it was canceled, and 8 if it is paused. If the
    /// plan waits for another plan, the command waits as long as that one runs. Ctrl-C ends only the waiting:
    /// the plan continues in the background.
    #[command(after_help = examples(&[
        "plan run plan.yaml",
        "plan run plan.yaml --base main --target feature/search",
    ]))]
    Run {
        #[command(flatten)]
        given: Given,
    },
    /// List the plans, oldest first
    #[command(after_help = examples(&["plan list", "plan list --status running"]))]
    List {
        /// Status that plans must have: all, pending, running, paused, succeeded, failed, partial, canceled,
        /// archived, …
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
    },
    /// Show a plan, or one of its jobs
    #[command(after_help = examples(&["plan show diamond", "plan show diamond build"]))]
    Show {
        /// Name or id of the plan; the first eight digits of the id are enough
        plan: String,
        /// Name, producer id or id of the job
        job: Option<String>,
    },
    /// List the jobs of a plan
    #[command(after_help = examples(&["plan jobs diamond --status failed"]))]
    Jobs {
        /// Name or id of the plan; the first eight digits of the id are enough
        plan: String,
        /// Status that jobs must have: pending, ready, scheduled, running, succeeded, failed, …
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Group whose jobs to list, including the jobs of its subgroups
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
    },
    /// List the attempts of a job
    #[command(after_help = examples(&["plan attempts diamond build"]))]
    Attempts(OfJob),
    /// Watch a plan until its end, with a bar for each job
    ///
    /// If stderr is not a terminal, prints a line for each change. The exit codes are those of `orchestra plan
    /// run`.
    #[command(after_help = examples(&["plan watch diamond"]))]
    Watch(OfPlan),
    /// Draw the graph of a plan, or of a plan file
    #[command(after_help = examples(&[
        "plan graph diamond",
        "plan graph --file plan.yaml --format mermaid",
    ]))]
    #[command(
        override_usage = "orchestra plan graph [OPTIONS] <PLAN>\n       orchestra plan graph [OPTIONS] --file <FILE>"
    )]
    Graph {
        /// Name or id of the plan; the first eight digits of the id are enough
        #[arg(required_unless_present = "file")]
        plan: Option<String>,
        /// Plan file to draw; no plan is created
        #[arg(long, value_name = "FILE", conflicts_with = "plan")]
        file: Option<PathBuf>,
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        format: Drawing,
    },
    /// Print the log of a job
    #[command(after_help = examples(&[
        "plan logs diamond build --tail 50",
        "plan logs diamond build --phase work --follow",
    ]))]
    Logs {
        #[command(flatten)]
        of: OfJob,
        #[command(flatten)]
        lines: Lines,
    },
    /// Pause a plan: running jobs finish, and no new job starts
    #[command(after_help = examples(&["plan pause diamond"]))]
    Pause(OfPlan),
    /// Start or continue a plan
    ///
    /// A plan that waits for another one (`resumeAfterPlan`) starts by itself after that one has succeeded.
    /// This command starts it now.
    #[command(after_help = examples(&["plan resume diamond"]))]
    Resume(OfPlan),
    /// Cancel a plan and end its running jobs
    #[command(after_help = examples(&["plan cancel diamond --reason 'wrong branch'"]))]
    Cancel {
        #[command(flatten)]
        of: OfPlan,
        /// Reason to record in the log of the plan
        #[arg(long)]
        reason: Option<String>,
    },
    /// Retry failed jobs of a plan
    ///
    /// --work, --prechecks and --postchecks change the job before it is retried. Their values have the same forms
    /// as in a plan file: a shell command line, `@agent TASK`, or a JSON object.
    #[command(after_help = examples(&[
        "plan retry diamond",
        "plan retry diamond build --postchecks 'cargo test' --clear-worktree",
    ]))]
    Retry {
        #[command(flatten)]
        of: OfPlan,
        /// Jobs to retry [default: all failed jobs]
        jobs: Vec<String>,
        /// Recreate the worktrees of the jobs, and discard uncommitted changes in them
        #[arg(long)]
        clear_worktree: bool,
        #[command(flatten)]
        mended: Mended,
    },
    /// Reopen a canceled or failed plan, and leave it paused
    #[command(after_help = examples(&["plan recover diamond"]))]
    Recover(OfPlan),
    /// Create a plan with copies of the jobs of another plan
    ///
    /// No job of the new plan starts yet: agents can still change the jobs, until `orchestra plan finalize`
    /// completes the plan.
    #[command(after_help = examples(&["plan clone diamond --name diamond-2"]))]
    Clone {
        #[command(flatten)]
        of: OfPlan,
        /// Name of the new plan [default: the old name, followed by "(clone)"]
        #[arg(long)]
        name: Option<String>,
        /// Branch to merge the result of the new plan into
        #[arg(long, value_name = "BRANCH")]
        target: Option<String>,
        /// Idempotency key. If a plan was created with the same key before, that plan is printed, and no other is
        /// created
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Archive an ended plan, and remove its worktrees and temporary branches
    ///
    /// Merged results are preserved. A worktree that holds files of a user is preserved as well, and is
    /// reported. With --force, running jobs are ended first. An archived plan can still be shown, but not
    /// resumed.
    #[command(after_help = examples(&["plan archive diamond", "plan archive diamond --force"]))]
    Archive {
        #[command(flatten)]
        of: OfPlan,
        /// Cancel the plan first if it has not ended
        #[arg(long)]
        force: bool,
    },
    /// Delete a plan with all its data
    ///
    /// Running jobs are ended first, without a question. Merged results are preserved. A worktree that holds
    /// files of a user is preserved as well, and is reported.
    #[command(after_help = examples(&["plan delete diamond"]))]
    Delete(OfPlan),
    /// Complete a plan whose jobs were added one by one, so that it can start
    #[command(after_help = examples(&["plan finalize diamond --start"]))]
    Finalize {
        #[command(flatten)]
        of: OfPlan,
        /// Start the plan at once
        #[arg(long)]
        start: bool,
    },
    /// List the agents that plans may start in this workspace, and approve them
    ///
    /// An agent may start if a plan or a job names it, or if `agent` or `healer` of [plans] in your own
    /// orchestra.toml names it. An agent that only a file of the workspace names or defines, or that nothing
    /// names, must be approved here. An approval applies to the agent as shown: after a change of its command
    /// line or of the limits, it is required again.
    #[command(after_help = examples(&[
        "plan agents",
        "plan agents --approve claude",
        "plan agents --revoke claude",
    ]))]
    Agents {
        /// Name of an agent to approve in this workspace; may be repeated. Without a name, lists the known agents
        #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
        approve: Vec<String>,
        /// Name of an agent whose approval to revoke; may be repeated
        #[arg(long, value_name = "NAME")]
        revoke: Vec<String>,
        /// Do not ask for consent
        #[arg(long, short, requires = "approve")]
        yes: bool,
    },
    /// Accept plans that came with a copied workspace, so that they can run
    ///
    /// A workspace that was cloned, copied or unpacked from an archive can contain a database of plans that
    /// Orchestra did not create for you. Its plans are listed, but none of them runs until you accept them with
    /// this command. Accepted plans that have not ended are paused; continue them with `resume` or `retry`.
    #[command(after_help = examples(&["plan trust"]))]
    Trust {
        /// Do not ask for consent
        #[arg(long, short)]
        yes: bool,
    },
    /// Mark a job that has not ended as failed
    #[command(after_help = examples(&["plan force-fail diamond build --reason 'hangs'"]))]
    ForceFail {
        #[command(flatten)]
        of: OfJob,
        /// Reason to record in the log of the plan
        #[arg(long)]
        reason: Option<String>,
    },
}

/// Does what was asked.
///
/// # Errors
/// When it is refused, or the plans cannot be reached.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let format = Format::of_flag(arguments.json);
    let command = match arguments.command {
        // This looks at a file alone, and needs no workspace.
        Command::Graph {
            file: Some(file),
            format: drawing,
            ..
        } => return graph::of_file(&file, drawing, format),
        command => command,
    };
    let only_looks = only_looks(&command);
    desk::at(common, only_looks, async |desk| {
        done(desk, command, format).await
    })
}

/// Returns whether a command shows plans and changes none.
const fn only_looks(command: &Command) -> bool {
    matches!(
        command,
        Command::List { .. }
            | Command::Show { .. }
            | Command::Jobs { .. }
            | Command::Attempts(_)
            | Command::Watch(_)
            | Command::Graph { .. }
            | Command::Logs { .. }
    )
}

async fn done(desk: &Desk, command: Command, format: Format) -> Result<Exit, Failure> {
    use change::Change;
    let changed = async |plan: &str, change: Change| change::run(desk, plan, change, format).await;
    if only_looks(&command) {
        desk.report_unattended().await?;
    }
    match command {
        Command::Create { given, start, key } => {
            run::create(desk, &given, start, key, format).await
        }
        Command::Run { given } => run::run(desk, &given, format).await,
        Command::List { status } => look::list(desk, status.as_deref(), format).await,
        Command::Show { plan, job } => look::show(desk, &plan, job.as_deref(), format).await,
        Command::Jobs {
            plan,
            status,
            group,
        } => look::jobs(desk, &plan, status.as_deref(), group, format).await,
        Command::Attempts(of) => look::attempts(desk, &of, format).await,
        Command::Watch(of) => {
            let plan = desk.plan(&of.plan).await?;
            if !plan.status().is_ended() {
                desk.plans().check_trust().await.map_err(desk::failure)?;
                if let Some(refusal) = desk.plans().former_refusal(*plan.id()).await {
                    return Err(desk::failure(refusal));
                }
            }
            watch::run(desk, *plan.id(), format).await
        }
        Command::Graph {
            plan,
            format: drawing,
            ..
        } => graph::of_plan(desk, &plan.unwrap_or_default(), drawing, format).await,
        Command::Logs { of, lines } => logs::run(desk, &of, lines, format).await,
        Command::Pause(of) => changed(&of.plan, Change::Pause).await,
        Command::Resume(of) => changed(&of.plan, Change::Resume).await,
        Command::Cancel { of, reason } => changed(&of.plan, Change::Cancel(reason)).await,
        Command::Retry {
            of,
            jobs,
            clear_worktree,
            mended,
        } => {
            let retry = change::mended(&jobs, &mended, clear_worktree)?;
            changed(&of.plan, Change::Retry(jobs, retry)).await
        }
        Command::Clone {
            of,
            name,
            target,
            key,
        } => {
            clone::run(
                desk,
                &of.plan,
                name.as_deref(),
                target.as_deref(),
                key,
                format,
            )
            .await
        }
        Command::Recover(of) => changed(&of.plan, Change::Recover).await,
        Command::Archive { of, force } => changed(&of.plan, Change::Archive(force)).await,
        Command::Delete(of) => changed(&of.plan, Change::Delete).await,
        Command::Finalize { of, start } => changed(&of.plan, Change::Finalize(start)).await,
        Command::Agents {
            approve,
            revoke,
            yes,
        } => agents::run(desk, &approve, &revoke, yes, format).await,
        Command::Trust { yes } => trust::run(desk, yes, format).await,
        Command::ForceFail { of, reason } => {
            changed(&of.plan, Change::ForceFail(of.job, reason)).await
        }
        Command::Validate { given } => run::validate(desk, &given, format).await,
    }
}

/// The word of a list of plans for what it leaves out.
fn filter_named(text: &str) -> Result<ListFilter, Failure> {
    let value = serde_json::Value::from(text);
    serde_json::from_value(value).map_err(|error| {
        // Whichever there are, it knows best.
        let text = format!(
            "--status: {}",
            error.to_string().replacen("variant", "status", 1)
        );
        Failure::usage_text(output::printable(&text).into_owned())
    })
}
