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
    cli::Common,
    exit::{Exit, Failure},
    output::{self, Format},
};
use desk::Desk;
use file::Language;

/// Make, run, watch and steer plans of jobs in git worktrees
///
/// A plan is a graph of jobs. Each works in a worktree of its own, is checked before and after, is
/// healed where that fails, and all of it is merged into one branch at the end. A plan is named by its
/// id, the first eight digits of that, or its name. Whichever program of the workspace runs it: what
/// is asked here is forwarded to it, and where nobody does, a program in the background runs it on.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

/// Where a plan is read from, and what of it is said otherwise.
#[derive(Debug, Args)]
struct Given {
    /// The file: .yaml, .toml, .toon or .json; - for stdin
    file: PathBuf,
    /// In which language it is written [default: by the end of its name, or for stdin by how it begins]
    #[arg(long, value_enum)]
    format: Option<Language>,
    /// What the plan is called, instead of what the file says
    #[arg(long)]
    name: Option<String>,
    /// The branch that it starts from
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    /// The branch that the result is merged into
    #[arg(long, value_name = "BRANCH")]
    target: Option<String>,
}

/// A plan, and one of its jobs.
#[derive(Debug, Args)]
struct OfJob {
    /// The plan
    plan: String,
    /// The job: its producer id, its id, or its name
    job: String,
}

/// A plan.
#[derive(Debug, Args)]
struct OfPlan {
    /// The plan: its id, the first eight digits of that, or its name
    plan: String,
}

/// As what a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Drawing {
    /// Boxes and lines for a terminal.
    #[default]
    Terminal,
    /// Mermaid.
    Mermaid,
    /// DOT of Graphviz.
    Dot,
    /// An image.
    Svg,
}

/// Which lines of a log.
#[derive(Debug, Args)]
struct Lines {
    /// The attempt [default: the last]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Of this phase: merge-fi, setup, prechecks, work, commit, postchecks, merge-ri or cleanup
    #[arg(long, value_name = "PHASE")]
    phase: Option<String>,
    /// Only lines that contain this, whatever the case
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// The last so many lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tail: Option<u32>,
    /// Go on as more is written, until the job has ended
    #[arg(long, short)]
    follow: bool,
}

/// What a job does from now on.
#[derive(Debug, Args)]
struct Mended {
    /// The work of the job from now on
    #[arg(long, value_name = "WORK", requires = "jobs")]
    work: Option<String>,
    /// Its check before; empty for none
    #[arg(long, value_name = "CHECK", requires = "jobs")]
    prechecks: Option<String>,
    /// Its check after; empty for none
    #[arg(long, value_name = "CHECK", requires = "jobs")]
    postchecks: Option<String>,
    /// That its work changes nothing is right from now on
    #[arg(long, requires = "jobs")]
    expects_no_changes: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a plan of a file; it waits for `resume`, unless the file or --start say otherwise
    Create {
        #[command(flatten)]
        given: Given,
        /// Start it at once
        #[arg(long)]
        start: bool,
        /// The same key again makes nothing and names the plan that there is
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Say what is wrong with a plan file, and what should be known of it; nothing is made
    Validate {
        #[command(flatten)]
        given: Given,
    },
    /// Make a plan of a file, start it, and wait for its end
    ///
    /// Exits with 0 when it succeeded, 6 when it failed, 7 when it was canceled, and 8 when it is
    /// paused. One that waits for another plan is waited for as long as that one goes on. ctrl-c stops the
    /// waiting alone: the plan goes on in the background.
    Run {
        #[command(flatten)]
        given: Given,
    },
    /// List the plans, oldest first
    List {
        /// Which: all, pending, running, paused, succeeded, failed, partial, canceled, archived, …
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
    },
    /// Show a plan, or one of its jobs
    Show {
        /// The plan
        plan: String,
        /// The job
        job: Option<String>,
    },
    /// List the jobs of a plan
    Jobs {
        /// The plan
        plan: String,
        /// Only those that stand so: pending, ready, scheduled, running, succeeded, failed, …
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Only those of this group and of the groups in it
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
    },
    /// List the attempts of a job
    Attempts(OfJob),
    /// Watch a plan until its end, with a bar for each job
    ///
    /// Where stderr is no terminal, a line for each change. Exits as `run` does.
    Watch(OfPlan),
    /// Draw the graph of a plan, or of a plan file
    #[command(
        override_usage = "orchestra plan graph [OPTIONS] <PLAN>\n       orchestra plan graph [OPTIONS] --file <FILE>"
    )]
    Graph {
        /// The plan
        #[arg(required_unless_present = "file")]
        plan: Option<String>,
        /// The file, which need not be a plan yet
        #[arg(long, value_name = "FILE", conflicts_with = "plan")]
        file: Option<PathBuf>,
        /// As what
        #[arg(long, value_enum, default_value_t)]
        format: Drawing,
    },
    /// Print the log of a job
    Logs {
        #[command(flatten)]
        of: OfJob,
        #[command(flatten)]
        lines: Lines,
    },
    /// Start nothing new; what is at work ends its work
    Pause(OfPlan),
    /// Let a plan start, or go on
    ///
    /// One that waits for another (`resumeAfterPlan`) starts by itself when that has succeeded; with this it
    /// starts now, and waits no longer.
    Resume(OfPlan),
    /// End all of a plan that has not ended
    Cancel {
        #[command(flatten)]
        of: OfPlan,
        /// Why, for the log of the plan
        #[arg(long)]
        reason: Option<String>,
    },
    /// Ask again for failed jobs: those named, or all
    ///
    /// What one job does can be mended with it: work and checks are given as in a plan file, as a command
    /// line, as `@agent` with a task, or as JSON.
    Retry {
        #[command(flatten)]
        of: OfPlan,
        /// The jobs
        jobs: Vec<String>,
        /// Make their worktrees anew
        #[arg(long)]
        clear_worktree: bool,
        #[command(flatten)]
        mended: Mended,
    },
    /// Bring back a canceled or failed plan, paused
    Recover(OfPlan),
    /// Make a new plan of the jobs of another, none of them begun
    ///
    /// It is still put together: agents may change its jobs, and `finalize` completes it.
    Clone {
        #[command(flatten)]
        of: OfPlan,
        /// What the new plan is called [default: as the other, with "(clone)" behind it]
        #[arg(long)]
        name: Option<String>,
        /// The branch that its result is merged into
        #[arg(long, value_name = "BRANCH")]
        target: Option<String>,
        /// The same key again makes nothing and names the plan that there is
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Remove the worktrees and own branches of a plan that has ended; it is still shown
    ///
    /// What it has merged stays, and so does a worktree that holds somebody's files, which is said. With
    /// --force, what is at work is ended first. An archived plan does not come back.
    Archive {
        #[command(flatten)]
        of: OfPlan,
        /// Cancel it first, if it has not ended
        #[arg(long)]
        force: bool,
    },
    /// Remove a plan with all its data
    ///
    /// Where it has not ended, what is at work is ended first, without being asked. What it has merged stays,
    /// and so does a worktree that holds somebody's files, which is said.
    Delete(OfPlan),
    /// Complete a plan that was put together job by job
    Finalize {
        #[command(flatten)]
        of: OfPlan,
        /// Start it at once
        #[arg(long)]
        start: bool,
    },
    /// Show which agents plans may start in this workspace, and approve one
    ///
    /// An agent starts where a plan or a job names it, or `agent` or `healer` of [plans] in your own
    /// orchestra.toml. One that only a file of the workspace names or defines, or that nothing names, starts once
    /// it is approved here, as it is shown: when its command line or the limits change, it is asked for again.
    Agents {
        /// Agents to approve in this workspace; without a name, the known ones are listed
        #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
        approve: Vec<String>,
        /// Agents whose approval to take back
        #[arg(long, value_name = "NAME")]
        revoke: Vec<String>,
        /// Do not ask
        #[arg(long, short, requires = "approve")]
        yes: bool,
    },
    /// Accept the plans of a workspace that your programs did not create
    ///
    /// A clone, an archive or a copy can bring a database of plans along. Its plans are shown, and none of them
    /// runs until you accept them here. Plans that have not ended are paused then: `resume` or `retry` continues
    /// one.
    Trust {
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Declare a job failed that has not ended
    ForceFail {
        #[command(flatten)]
        of: OfJob,
        /// Why, for the log of the plan
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
