//! `orchestra plugin run`: one plugin in the foreground, for whoever writes it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use orchestra_gateway::{
    config::ServerConfig,
    connect::{self, Connectors},
};
use orchestra_hub::ListKind;
use orchestra_mcp::client::ClientStatus;
use serde_json::Value;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
    task::JoinHandle,
};

use super::{by_hand, inspect::by_program, named};
use crate::{
    cli::examples,
    commands::{
        mcp::{
            Here, Log,
            live::{self, Live, Trouble},
        },
        table,
    },
    exit::{Exit, Failure},
    output, servers, serving,
};

/// Run a plugin in the foreground until Ctrl-C
///
/// Starts and registers the plugin as `orchestra up` does, lists its tools and prompts, and prints what it writes
/// to standard error. If the plugin ends by itself, prints the reason and exits with 4. The plugin cannot call the
/// orchestrator: storage and other tools are available only under `orchestra up`.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "plugin run tools.hello",
    "plugin run --binary ./target/debug/hello",
]))]
pub(super) struct Arguments {
    /// Id of a configured plugin
    #[arg(required_unless_present = "binary")]
    id: Option<String>,
    /// Path of a plugin program to run, instead of the ID of a configured plugin
    #[arg(long, value_name = "PROGRAM", conflicts_with = "id")]
    binary: Option<PathBuf>,
    /// Plugin id of the program that --binary names, if the manifest of the program contains no id
    #[arg(long = "id", value_name = "ID", requires = "binary")]
    as_id: Option<String>,
    /// Arguments for the program that --binary names
    #[arg(last = true, value_name = "ARGUMENTS", requires = "binary")]
    args: Vec<String>,
}

/// How often is looked for more that it wrote.
const AGAIN: Duration = Duration::from_millis(100);

pub(super) fn run(here: &Here, arguments: Arguments) -> Result<Exit, Failure> {
    let runtime = serving::runtime()?;
    let config = match (&arguments.binary, &arguments.id) {
        (Some(program), _) => match &arguments.as_id {
            Some(id) => by_hand(id, program, &arguments.args)?,
            None => {
                let connectors = here.connectors()?;
                runtime.block_on(by_program(&connectors, program, &arguments.args))?
            }
        },
        (None, id) => match live::startable(named(here, id.as_deref().unwrap_or_default())?) {
            Ok(config) => ServerConfig::clone(&config),
            Err(trouble) => return trouble.say(false),
        },
    };
    runtime.block_on(serve(here, config, arguments))
}

async fn serve(
    here: &Here,
    mut config: ServerConfig,
    arguments: Arguments,
) -> Result<Exit, Failure> {
    // It is here to be seen.
    (config.lazy, config.idle_stop) = (false, None);
    let directory = servers::log_directory(&here.places().workspace)?;
    let log = Log::new(connect::log_file(&directory, config.name.as_str()));
    let said = Said::follow(log)?;
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let stop = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::pin!(stop);
    let connectors = here.connectors()?;
    let opened = tokio::select! {
        opened = live::open(&connectors, Arc::new(config), None) => opened.map(Some),
        () = &mut stop => Ok(None),
    };
    let ended = match opened {
        Ok(Some(live)) => {
            let ended = tokio::select! {
                ended = watch(&live) => ended,
                () = &mut stop => Ok(Exit::Ok),
            };
            live::close(&live.client).await;
            ended
        }
        Ok(None) => Ok(Exit::Ok),
        Err(trouble) => Err(trouble.into()),
    };
    said.end().await;
    match ended {
        Ok(exit) => Ok(exit),
        Err(Ended::Trouble(mut trouble)) => {
            trouble.hint = other_id(&connectors, &arguments).await.or(trouble.hint);
            trouble.say(false)
        }
        Err(Ended::Failure(failure)) => Err(failure),
    }
}

/// That a program tells another id than it was given here, which is no plugin that could be reached.
async fn other_id(connectors: &Connectors, arguments: &Arguments) -> Option<String> {
    let (program, given) = (arguments.binary.as_ref()?, arguments.as_id.as_ref()?);
    let told = by_program(connectors, program, &arguments.args)
        .await
        .ok()?;
    (told.shown_name != *given).then(|| {
        format!(
            "the manifest of this program has the id {}, not {given}; omit --id",
            told.shown_name
        )
    })
}

/// Why it does not run any more.
enum Ended {
    Trouble(Trouble),
    Failure(Failure),
}

impl From<Trouble> for Ended {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// Says what a plugin offers, and waits until it ends by itself.
async fn watch(live: &Live) -> Result<Exit, Ended> {
    let tools = live::list(live, ListKind::Tools).await?;
    let prompts = live::list(live, ListKind::Prompts).await?;
    let mut rows = Vec::new();
    for (what, items) in [("tool", &tools), ("prompt", &prompts)] {
        for item in items.iter().filter_map(|item| item.parse::<Value>().ok()) {
            let word = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
            rows.push(vec![what.to_owned(), word("name"), word("description")]);
        }
    }
    let process = live.client.process_ids();
    let process = process.first().map(|id| format!(" as process {id}"));
    let head = format!(
        "{} runs{}, registered and booted in {} ms; stop with ctrl-c\n",
        live.config.shown_name,
        process.unwrap_or_default(),
        live.started_in.as_millis()
    );
    let text = head + &table::lines(&["KIND", "NAME", "DESCRIPTION"], &rows);
    output::lines(&output::printable(&text)).map_err(Ended::Failure)?;
    let mut status = live.client.status();
    loop {
        let now = status.borrow_and_update().clone();
        match now {
            ClientStatus::Restarting { reason, .. } | ClientStatus::Offline { reason, .. } => {
                return Err(Trouble::of_server(&live.config, &reason).into());
            }
            ClientStatus::Closed => return Ok(Exit::Problems),
            _ => {}
        }
        if status.changed().await.is_err() {
            return Ok(Exit::Problems);
        }
    }
}

/// Prints what a plugin writes to standard error.
struct Said {
    stop: oneshot::Sender<()>,
    printing: JoinHandle<()>,
}

impl Said {
    /// From now on.
    fn follow(mut log: Log) -> Result<Self, Failure> {
        // What it wrote before is `orchestra plugin logs`.
        log.end(0)?;
        let (stop, mut stopped) = oneshot::channel();
        let printing = tokio::spawn(async move {
            loop {
                let is_over = tokio::select! {
                    () = tokio::time::sleep(AGAIN) => false,
                    _ = &mut stopped => true,
                };
                let text = log.more().unwrap_or_default();
                if !text.is_empty() {
                    output::complain(output::printable(&text).trim_end_matches('\n'));
                }
                if is_over {
                    return;
                }
            }
        });
        Ok(Self { stop, printing })
    }

    /// Prints what is left.
    async fn end(self) {
        let _ = self.stop.send(());
        let _ = self.printing.await;
    }
}
