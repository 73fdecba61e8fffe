//! `orchestra memory`: what is remembered, from the shell.

mod desk;
mod export;
mod import;
mod line;
mod model;
mod reindex;
mod save;
mod shown;

use std::{os::unix::net::UnixStream, path::PathBuf};

use clap::{Args, Subcommand};
use orchestra_board::Slug;
use orchestra_store::{ChunkId, Options, Store};
use serde_json::{Value, json};

use crate::{
    board,
    cli::{Common, examples},
    commands::job,
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
    serving, workspace,
};
use desk::Desk;
use save::Save;

/// Search, save and manage memories
///
/// Runs in this process; no `orchestra up` is needed. With only one project, --project can be omitted.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Slug of the project [default: the only project; all projects for stats and export]
    #[arg(long, value_name = "SLUG", global = true)]
    project: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Search memories, best match first
    #[command(after_help = examples(&[
        "memory search flaky tests",
        "memory search login --tag auth --since 2026-03-01T00:00:00Z",
    ]))]
    Search {
        /// Words to search for
        #[arg(required = true)]
        query: Vec<String>,
        /// Kind of item that memories must be from, such as task, prd, session or user
        #[arg(long)]
        source: Option<String>,
        /// Tag that memories must have; may be repeated
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
        /// Time at or after which memories were saved, such as 2026-03-01T00:00:00Z
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Time at or before which memories were saved, such as 2026-03-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Maximum number of memories
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Include memories that a newer memory supersedes
        #[arg(long)]
        superseded: bool,
    },
    /// Save a text as a memory
    #[command(after_help = examples(&[
        "memory save 'Tests need the fixture server' --tag tests",
        "memory save - --source prd < notes.md",
    ]))]
    Save(Save),
    /// List memories, sorted by id
    #[command(after_help = examples(&["memory list", "memory list --state expired --limit 20"]))]
    List {
        /// State of the memories: current, superseded, expired or any
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// Kind of item that memories must be from, such as task, prd, session or user
        #[arg(long)]
        source: Option<String>,
        /// Tag that memories must have
        #[arg(long)]
        tag: Option<String>,
        /// Maximum number of memories
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Position at which to continue a list, as printed at the end of the previous output
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show a memory, or a session by its id
    #[command(after_help = examples(&["memory show mem-3"]))]
    Show {
        /// Id of a memory, such as mem-3, or of a session
        id: String,
    },
    /// Delete memories or sessions by id
    #[command(after_help = examples(&["memory forget mem-3 mem-4"]))]
    Forget {
        /// Id of a memory, such as mem-3, or of a session
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Import memories from a file of JSON Lines, as written by `export`
    ///
    /// Existing memories are skipped, so that a file can be imported repeatedly. Imported memories get new ids. A
    /// session is imported if it is unknown, or ended later than the stored one. A summary that an agent wrote
    /// takes precedence over one that was generated from hook events.
    #[command(after_help = examples(&["memory import memories.jsonl --project my-app"]))]
    Import {
        /// File to read, or - for stdin
        file: PathBuf,
    },
    /// Export memories as JSON Lines
    ///
    /// Writes one object per line. A memory has type "memory", id, project, content, summary, source,
    /// source_id, tags, created_at, updated_at, expires_at and superseded_by. A session has type "session",
    /// session_id, project, summary, events (type, summary, timestamp), started_at, ended_at and from_hooks,
    /// which is true if it was generated from hook events. Empty fields are omitted.
    #[command(after_help = examples(&[
        "memory export memories.jsonl",
        "memory export --project my-app > memories.jsonl",
    ]))]
    Export {
        /// File to write, or - for stdout
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Rebuild the full-text index and the vectors of all projects, and delete expired memories
    #[command(after_help = examples(&["memory reindex"]))]
    Reindex,
    /// Show the number and size of memories and sessions
    #[command(after_help = examples(&["memory stats"]))]
    Stats,
    Model(model::Arguments),
}

/// Does what is asked.
///
/// # Errors
/// When there is no board, or what is asked for is refused.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments {
        command,
        project,
        json,
    } = arguments;
    let format = Format::of_flag(json);
    if let Some(stream) = job::connection(common)? {
        return in_job(stream, project.as_deref(), command, format);
    }
    let config = Config::settle(common, Overrides::default())?;
    logging::start(logging::of_a_report(&config.log))?;
    if let Command::Model(asked) = command {
        return model::run(&config, asked, format);
    }
    workspace::check_board(&config.workspace)?;
    let project = project.as_deref();
    match command {
        Command::Import { file } => {
            let store = open(&config)?;
            let done = import::run(&store, project, &file, format);
            serving::close(&store);
            done
        }
        Command::Export { file } => {
            let store = open(&config)?;
            let done = export::run(&store, project, &file, format);
            serving::close(&store);
            done
        }
        Command::Stats => {
            let store = open(&config)?;
            let done = stats(&store, &config, project, format);
            serving::close(&store);
            done
        }
        Command::Reindex => reindex::run(&config, project, format),
        asked => {
            let runtime = serving::runtime()?;
            runtime.block_on(async {
                let desk = Desk::open(&config)?;
                let done = ask(&desk, project, asked, format).await;
                desk.close();
                done
            })
        }
    }
}

/// Asks the board of a job in a sandbox, which has the tools that remove nothing.
fn in_job(
    stream: UnixStream,
    project: Option<&str>,
    command: Command,
    format: Format,
) -> Result<Exit, Failure> {
    let is_served = matches!(
        command,
        Command::Search { .. } | Command::Save(_) | Command::List { .. } | Command::Show { .. }
    );
    if !is_served {
        return Err(Failure::denied(
            "a job in a sandbox has `orchestra memory search`, `save`, `list` and `show`, and no other command of \
             `orchestra memory`",
        ));
    }
    let desk = Desk::of_job(stream)?;
    serving::runtime()?.block_on(ask(&desk, project, command, format))
}

/// What tools do.
async fn ask(
    desk: &Desk,
    project: Option<&str>,
    command: Command,
    format: Format,
) -> Result<Exit, Failure> {
    let project = desk.project(project).await?;
    if matches!(command, Command::Search { .. }) {
        desk.await_engine().await;
    }
    let (tool, arguments, show): (&str, Value, fn(&Value) -> String) = match command {
        Command::Search {
            query,
            source,
            tags,
            since,
            until,
            limit,
            superseded,
        } => {
            let query = query.join(" ");
            let tags = (!tags.is_empty()).then_some(tags);
            let arguments = json!({"query": query, "limit": limit, "source": source, "tags": tags,
                "since": since, "until": until,
                "include_superseded": superseded.then_some(true)});
            ("search_memory", arguments, shown::hits)
        }
        Command::Save(save) => ("save_memory", save.arguments()?, shown::saved),
        Command::List {
            state,
            source,
            tag,
            limit,
            cursor,
        } => {
            let arguments = json!({"state": state, "source": source, "tag": tag, "limit": limit, "cursor": cursor});
            ("list_memory", arguments, shown::list)
        }
        Command::Show { id } => match Named::parse(&id)? {
            Named::Memory => ("get_memory", json!({"memory_id": id}), shown::memory),
            Named::Session => ("get_session", json!({"session_id": id}), shown::session),
        },
        Command::Forget { ids } => return forget(desk, &project, &ids, format).await,
        Command::Import { .. }
        | Command::Export { .. }
        | Command::Reindex
        | Command::Stats
        | Command::Model(_) => {
            unreachable!("done without tools")
        }
    };
    let answer = desk.ask(tool, &project, arguments).await?;
    let is_empty = answer["items"].as_array().is_some_and(Vec::is_empty);
    if is_empty && format == Format::Text {
        let any = json!({"state": "any", "limit": 1});
        let any = desk.ask("list_memory", &project, any).await?;
        output::lines(&shown::nothing(&project, any["total"] == 0))?;
        return Ok(Exit::Ok);
    }
    format.print(&answer, show)?;
    Ok(Exit::Ok)
}

/// What an id is of.
#[derive(Debug, Clone, Copy)]
enum Named {
    Memory,
    Session,
}

impl Named {
    /// Tells ids of memories from those of sessions, and what was meant to be one from both.
    fn parse(id: &str) -> Result<Self, Failure> {
        let number = id.split_at_checked(4).and_then(|(prefix, number)| {
            let is_meant = prefix.eq_ignore_ascii_case("mem-") && !number.is_empty();
            (is_meant && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
        });
        match (ChunkId::parse(id), number) {
            (Ok(_), _) => Ok(Self::Memory),
            (Err(_), None) => Ok(Self::Session),
            (Err(_), Some(_)) => Err(Failure::refused(format!(
                "{} is not an id of a memory, such as mem-1; `orchestra memory list` shows the ids",
                output::in_a_line(id)
            ))),
        }
    }
}

/// Forgets all of them or, where one is not there, none.
async fn forget(
    desk: &Desk,
    project: &str,
    ids: &[String],
    format: Format,
) -> Result<Exit, Failure> {
    let mut meant: Vec<(Named, &String)> = Vec::new();
    for id in ids {
        let named = Named::parse(id)?;
        let (tool, arguments) = match named {
            Named::Memory => ("get_memory", json!({"memory_id": id})),
            Named::Session => ("get_session", json!({"session_id": id})),
        };
        desk.ask(tool, project, arguments).await?;
        if !meant.iter().any(|(_, other)| *other == id) {
            meant.push((named, id));
        }
    }
    let mut forgotten = Vec::new();
    for (named, id) in meant {
        let (tool, arguments) = match named {
            Named::Memory => ("forget_memory", json!({"memory_id": id})),
            Named::Session => ("forget_session", json!({"session_id": id})),
        };
        let answer = desk.ask(tool, project, arguments).await;
        if answer.is_err() && !forgotten.is_empty() {
            format.print(&json!({"forgotten": forgotten}), shown::forgotten)?;
        }
        answer?;
        forgotten.push(id);
    }
    format.print(&json!({"forgotten": forgotten}), shown::forgotten)?;
    Ok(Exit::Ok)
}

/// Opens the board alone, without tools.
fn open(config: &Config) -> Result<Store, Failure> {
    let options = Options {
        watch: false,
        ..config.memory.apply(Options::default())
    };
    let options = board::options(config, options)?;
    let store = Store::open(&config.workspace, options)?;
    if let Err(error) = store.settle(desk::CATCHING_UP) {
        tracing::warn!(%error, "cannot import edits of the readable files yet");
    }
    Ok(store)
}

/// The project that is named, which must be there.
fn named(store: &Store, project: Option<&str>) -> Result<Option<Slug>, Failure> {
    let Some(project) = project else {
        return Ok(None);
    };
    let slug = Slug::parse(project).map_err(|error| Failure::refused(error.to_string()))?;
    store
        .read(|reader| reader.memory_size(&slug))
        .map_err(desk::unread)?;
    Ok(Some(slug))
}

/// The projects that are meant: the one named, else all.
fn projects(store: &Store, project: Option<&str>) -> Result<Vec<Slug>, Failure> {
    if let Some(project) = named(store, project)? {
        return Ok(vec![project]);
    }
    let mut request = orchestra_store::PageRequest::first(orchestra_store::PageRequest::MAX_LIMIT);
    let mut slugs = Vec::new();
    loop {
        let page = store.read(|reader| reader.projects(&request))?;
        slugs.extend(page.items.into_iter().map(|record| record.project.slug));
        match page.next_cursor {
            Some(cursor) => request.cursor = Some(orchestra_store::Cursor::parse(&cursor)?),
            None => return Ok(slugs),
        }
    }
}

fn stats(
    store: &Store,
    config: &Config,
    project: Option<&str>,
    format: Format,
) -> Result<Exit, Failure> {
    let mut items = Vec::new();
    for slug in projects(store, project)? {
        let size = store
            .read(|reader| reader.memory_size(&slug))
            .map_err(desk::unread)?;
        items.push(json!({
            "project": slug.as_str(), "memories": size.chunks, "memory_bytes": size.chunk_bytes,
            "superseded": size.superseded, "expired": size.expired,
            "sessions": size.sessions, "session_bytes": size.session_bytes,
        }));
    }
    let model = model::standing(config)?;
    let answer = json!({"total": items.len(), "items": items, "model": model});
    format.print(&answer, |answer| {
        format!("{}{}", shown::stats(answer), model::shown(&answer["model"]))
    })?;
    Ok(Exit::Ok)
}
