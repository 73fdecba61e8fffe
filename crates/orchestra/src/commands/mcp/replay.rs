//! `orchestra mcp replay`: says a recording again, and compares what is answered.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use orchestra_mcp::client::{
    ChildConfig, ChildConnector, ClientError, Connector, Environment,
    http::{HttpConfig, HttpConnector},
    tap::{Change, Difference, Recording, ReplayConfig, ReplayReport, Unsayable, replay},
};
use serde::Serialize;

use super::{Here, live};
use crate::{
    cli::examples,
    exit::{Exit, Failure},
    output::{self, Format},
    serving,
    trace::masker,
};

/// Send the recorded requests of `orchestra mcp tap` to a server again, and compare the replies
///
/// Sends the requests unchanged, one after the other. Exits with 1 if a reply differs from the recorded one.
/// Messages with masked secrets cannot be sent again and are skipped.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "mcp replay docs.jsonl --server docs",
    "mcp replay docs.jsonl --ignore /result/serverInfo/version -- docs-server",
]))]
pub(crate) struct Arguments {
    /// Recording to replay
    file: PathBuf,
    /// Name of the server whose requests to replay, if the recording contains several servers
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Name of a configured server to send the requests to
    #[arg(long, value_name = "NAME", conflicts_with_all = ["command", "url"])]
    pub(super) server: Option<String>,
    /// URL of a remote server to send the requests to
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// JSON pointer to a part of the replies to exclude from the comparison, such as /result/serverInfo/version;
    /// may be repeated
    #[arg(long, value_name = "POINTER")]
    ignore: Vec<String>,
    /// Name of a tool argument whose values are masked in the recording; may be repeated
    #[arg(long, value_name = "NAME")]
    mask: Vec<String>,
    /// Maximum number of seconds to wait for each reply
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Command that starts the server to send the requests to
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Error without a server to send the requests to.
const NO_SERVER: &str = "missing the server to send the requests to: pass a configured server (--server NAME), \
                         an address (--url URL), or the command that starts a server: `orchestra mcp replay \
                         FILE -- COMMAND`";

/// What came of it, for programs.
#[derive(Serialize)]
struct Answer {
    requests: u64,
    same: u64,
    /// Requests whose earlier answer is not in the recording.
    unknown: u64,
    /// Messages of the recording that cannot be said again.
    left_out: u64,
    /// The first of these, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unsayable: Vec<Silence>,
    /// Messages that are not in the recording.
    dropped: u64,
    differences: Vec<Row>,
}

/// A message that cannot be said again.
#[derive(Serialize)]
struct Silence {
    line: usize,
    method: Option<String>,
    why: &'static str,
}

#[derive(Serialize)]
struct Row {
    id: serde_json::Value,
    method: String,
    changes: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    at: String,
    recorded: Option<String>,
    now: Option<String>,
}

/// Says it again and compares. `here` is there where a configured server was named.
///
/// # Errors
/// When the recording cannot be read, or the server cannot be reached.
pub(crate) fn run(here: Option<&Here>, arguments: &Arguments) -> Result<Exit, Failure> {
    let mut masker = masker(&arguments.mask);
    let connector = match (here, &arguments.server) {
        (Some(here), Some(name)) => {
            let config = match live::startable(here.server(name)?) {
                Ok(config) => config,
                Err(trouble) => {
                    trouble.complain();
                    return Ok(trouble.exit);
                }
            };
            let connectors = live::connectors(here)?;
            masker = connectors.masker(&config, masker);
            let reached = connectors.reach(&config);
            let unusable = |error: ClientError| Failure::usage_text(error.explain());
            reached.map_err(unusable)?.connector
        }
        _ => connector(arguments)?,
    };
    let path = &arguments.file;
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let recording = Recording::read(BufReader::new(file), arguments.name.as_deref());
    let recording = recording.with_context(|| format!("reading {}", path.display()))?;
    let config = ReplayConfig {
        timeout: Duration::from_secs(arguments.timeout.into()),
        ignore: arguments.ignore.clone(),
        masker,
    };
    let (left_out, dropped) = (recording.left_out, recording.dropped);
    let unsayable = recording.unsayable.iter().map(Silence::of).collect();
    let runtime = serving::runtime()?;
    let report = runtime.block_on(async {
        let connected = connector.connect().await;
        let connected = connected.map_err(|error| anyhow::anyhow!(error.explain()))?;
        Ok::<_, Failure>(replay(recording, connected, &config).await)
    })?;
    let answer = Answer {
        left_out,
        unsayable,
        dropped,
        ..Answer::of(report)
    };
    Format::of_flag(arguments.json).print(&answer, |answer| {
        output::printable(&answer.text()).into_owned()
    })?;
    Ok(if answer.differences.is_empty() {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

fn connector(arguments: &Arguments) -> Result<Arc<dyn Connector>, Failure> {
    if let Some(url) = &arguments.url {
        let url = url
            .parse()
            .map_err(|error| Failure::usage_text(format!("--url {url} is no URL: {error}")))?;
        let connector = HttpConnector::new(HttpConfig::new("server", url));
        let connector = connector.map_err(|error| Failure::usage_text(error.explain()))?;
        return Ok(Arc::new(connector));
    }
    let (program, rest) = arguments
        .command
        .split_first()
        .ok_or_else(|| Failure::usage_text(NO_SERVER))?;
    let name = Path::new(program).file_name().unwrap_or(program);
    let mut config = ChildConfig::new(name.to_string_lossy(), program);
    config.args = rest.to_vec();
    // As when it was recorded.
    config.environment = Environment::All;
    Ok(Arc::new(ChildConnector::new(config)))
}

impl Answer {
    fn of(report: ReplayReport) -> Self {
        let differences = report.differences.into_iter().map(Row::of);
        Self {
            requests: report.requests,
            same: report.same,
            unknown: report.unknown,
            left_out: 0,
            unsayable: Vec::new(),
            dropped: 0,
            differences: differences.collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for row in &self.differences {
            let _ = writeln!(text, "{} {}", row.id, row.method);
            for cell in &row.changes {
                let place = if cell.at.is_empty() { "/" } else { &cell.at };
                let shown =
                    |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
                let (recorded, now) = (shown(&cell.recorded), shown(&cell.now));
                let _ = writeln!(
                    text,
                    "  {place}\n    recorded {recorded}\n    now      {now}"
                );
            }
        }
        let differ = self.differences.len();
        let s = if self.requests == 1 { "" } else { "s" };
        let differs = if differ == 1 { "differs" } else { "differ" };
        let _ = writeln!(
            text,
            "{} request{s}: {} answered alike, {differ} {differs}",
            self.requests, self.same
        );
        for (count, one, many) in [
            (
                self.unknown,
                "answer is not in the recording",
                "answers are not in the recording",
            ),
            (
                self.left_out,
                "message cannot be replayed",
                "messages cannot be replayed",
            ),
            (
                self.dropped,
                "message is not in the recording",
                "messages are not in the recording",
            ),
        ] {
            if count > 0 {
                let _ = writeln!(text, "{count} {}", if count == 1 { one } else { many });
            }
        }
        for Silence { line, method, why } in &self.unsayable {
            let method = method.as_deref().unwrap_or("a message");
            let _ = writeln!(text, "  line {line}, {method}: {why}");
        }
        text
    }
}

impl Silence {
    fn of(unsayable: &Unsayable) -> Self {
        Self {
            line: unsayable.line,
            method: unsayable.method.clone(),
            why: unsayable.why,
        }
    }
}

impl Row {
    fn of(difference: Difference) -> Self {
        Self {
            id: serde_json::from_str(difference.id.as_json()).unwrap_or_default(),
            method: difference.method,
            changes: difference.changes.into_iter().map(Cell::of).collect(),
        }
    }
}

impl Cell {
    fn of(change: Change) -> Self {
        Self {
            at: change.at,
            recorded: change.recorded,
            now: change.now,
        }
    }
}
