//! A plugin that does what a test or a bench wants to see done: it answers, waits, fails, panics,
//! dies, floods, stores, publishes and listens.

use std::{
    io::Write as _,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use orchestra_plugin::kit::{
    Answer, Chunks, Cx, Event, Expected, Messages, NoArguments, Plugin, Prompt, Resource, Tool,
    ToolError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The longest text that `big` makes: a little over what fits into a frame.
const LARGEST: usize = 64 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    /// For how long.
    milliseconds: u64,
    /// How many reports of progress to make meanwhile.
    #[serde(default)]
    reports: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Size {
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Store {
    path: String,
    content: String,
    /// The version that the document has now: 0 when there is none, left out when any will do.
    version: Option<i64>,
}

#[derive(Deserialize, JsonSchema)]
struct Publish {
    topic: String,
    #[serde(default)]
    payload: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
struct Listen {
    topic: String,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    to: u32,
    /// The pause between two numbers.
    #[serde(default)]
    milliseconds: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Call {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    /// Whom to greet.
    name: String,
    /// How.
    tone: Option<String>,
}

fn main() -> ExitCode {
    let heard = Arc::new(Mutex::new(Vec::<String>::new()));
    let patience = std::env::var("SAMPLE_PATIENCE_MS").ok();
    let patience = patience.and_then(|text| text.parse().ok());
    let renewal = std::env::var("SAMPLE_RENEWAL_MS").ok();
    let renewal = renewal.and_then(|text| text.parse().ok());
    let grace = std::env::var("SAMPLE_CANCEL_GRACE_MS").ok();
    let grace = grace.and_then(|text| text.parse().ok());
    let in_flight = std::env::var("SAMPLE_IN_FLIGHT").ok();
    let in_flight = in_flight.and_then(|text| text.parse().ok());
    let plugin = simple(Plugin::new("tools.sample", env!("CARGO_PKG_VERSION")))
        .description("Does what a test wants to see done")
        .author("Orchestra")
        .flag("end-file", "", "a file to write when the plugin ends")
        .max_in_flight(in_flight.unwrap_or(256))
        .cancel_grace(Duration::from_millis(grace.unwrap_or(500)))
        .orchestrator_patience(Duration::from_millis(patience.unwrap_or(30_000)))
        .renewal_every(Duration::from_millis(renewal.unwrap_or(60_000)))
        .on_boot(|cx| async move {
            match cx.config("fail") {
                Some(why) => Err(ToolError::message_only(why)),
                None => Ok(()),
            }
        })
        .on_shutdown(|cx| async move {
            match cx.flag("end-file") {
                None | Some("") => Ok(()),
                Some(path) => Ok(std::fs::write(path, "ended\n")?),
            }
        })
        .resource(Resource::new(
            "sample://text",
            "text",
            "A text",
            |_cx| async move { Ok("a text".to_owned()) },
        ));
    let plugin = listening(misbehaving(calling(plugin)), &heard);
    plugin.run()
}

fn simple(plugin: Plugin) -> Plugin {
    plugin
        .tool(
            Tool::new(
                "echo",
                "Says what it is told",
                |args: Echo, _cx| async move { Ok(Answer::text(args.text)) },
            )
            .title("Echo")
            .read_only()
            .idempotent(),
        )
        .tool(
            Tool::new("add", "Adds two integers", |args: Add, _cx| async move {
                let sum = args.a.checked_add(args.b);
                let sum = sum.ok_or_else(|| ToolError::new("overflow", "the sum is too large"))?;
                Answer::json(Sum { sum })
            })
            .read_only()
            .output::<Sum>(),
        )
        .tool(Tool::new("sleep", "Waits, and says how long it still will", sleep).read_only())
        .tool(Tool::streaming("count", "Counts, a chunk for each number", count).read_only())
        .tool(Tool::new(
            "pid",
            "Says which process it is",
            |_: NoArguments, _cx| async { Ok(Answer::text(std::process::id().to_string())) },
        ))
        .tool(Tool::new(
            "whoami",
            "Says what it knows of its call",
            whoami,
        ))
        .prompt(Prompt::new(
            "greeting",
            "Greets somebody",
            |args: Greeting, _cx| async move {
                let tone = args.tone.unwrap_or_else(|| "kindly".to_owned());
                Ok(Messages::new("A greeting").user(format!("Greet {} {tone}.", args.name)))
            },
        ))
}

fn misbehaving(plugin: Plugin) -> Plugin {
    plugin
        .tool(Tool::new("fail", "Fails", |_: NoArguments, _cx| async {
            Err(ToolError::message_only("it failed, as it was told to"))
        }))
        .tool(Tool::new("panic", "Panics", panicking))
        .tool(Tool::new(
            "doze",
            "Sleeps, and is not to be woken",
            |args: Sleep, _cx| async move {
                tokio::time::sleep(Duration::from_millis(args.milliseconds)).await;
                Ok(Answer::text("dozed"))
            },
        ))
        .tool(Tool::new("die", "Ends the process at once", dying))
        .tool(Tool::new(
            "big",
            "Says very much",
            |args: Size, _cx| async move { Ok(Answer::text("x".repeat(args.bytes.min(LARGEST)))) },
        ))
        .tool(Tool::new(
            "flood_stderr",
            "Writes very much to stderr",
            |args: Size, _cx| async move {
                let line = [b'x'; 1023]
                    .iter()
                    .chain(b"\n")
                    .copied()
                    .collect::<Vec<_>>();
                let mut left = args.bytes.min(LARGEST);
                while left > 0 {
                    let part = left.min(line.len());
                    std::io::stderr().write_all(&line[..part])?;
                    left -= part;
                }
                Ok(Answer::text("written"))
            },
        ))
}

fn calling(plugin: Plugin) -> Plugin {
    plugin
        .needs_storage("markdown")
        .needs_tool("greet")
        .publishes("sample.said")
        .tool(Tool::new(
            "store",
            "Stores a document, if it is as expected",
            store,
        ))
        .tool(Tool::new(
            "load",
            "Reads a document",
            |args: Echo, cx: Cx| async move {
                Ok(match cx.orchestrator().read(&args.text).await? {
                    Some(document) => Answer::json(json!({
                        "content": String::from_utf8_lossy(&document.content),
                        "metadata": document.metadata,
                        "version": document.version,
                    }))?,
                    None => Answer::text("not found"),
                })
            },
        ))
        .tool(Tool::new(
            "publish",
            "Publishes an event",
            |args: Publish, cx: Cx| async move {
                let orchestrator = cx.orchestrator();
                orchestrator
                    .publish(&args.topic, "said", args.payload)
                    .await?;
                Ok(Answer::text("published"))
            },
        ))
        .tool(Tool::new(
            "call",
            "Calls a tool of others",
            |args: Call, cx: Cx| async move {
                let called = cx
                    .orchestrator()
                    .call_tool(&args.tool, args.arguments)
                    .await?;
                Ok(Answer::text(called.text))
            },
        ))
}

fn listening(plugin: Plugin, heard: &Arc<Mutex<Vec<String>>>) -> Plugin {
    let (hears, tells) = (heard.clone(), heard.clone());
    plugin
        .on_event("sample.news", move |event: Event, _cx| {
            let hears = hears.clone();
            async move {
                let line = format!("{} {} {}", event.source, event.kind, event.payload);
                hears
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
            }
        })
        .tool(Tool::new(
            "heard",
            "Says which events it has heard",
            move |_: NoArguments, _cx| {
                let tells = tells.clone();
                async move {
                    let lines = tells.lock().unwrap_or_else(PoisonError::into_inner);
                    Ok(Answer::text(lines.join("\n")))
                }
            },
        ))
        .tool(Tool::new(
            "listen",
            "Subscribes to a topic and says what it hears first",
            |args: Listen, cx: Cx| async move {
                let orchestrator = cx.orchestrator();
                let topic = &args.topic;
                let mut subscription = orchestrator.subscribe(topic, Default::default()).await?;
                let event = subscription.next().await;
                Ok(Answer::text(event.payload.to_string()))
            },
        ))
}

async fn sleep(args: Sleep, cx: Cx) -> Result<Answer, ToolError> {
    let reports = args.reports.min(1000);
    let step = Duration::from_millis(args.milliseconds) / (reports + 1);
    for report in 0..=reports {
        tokio::select! {
            () = cx.cancelled() => return Err(ToolError::new("cancelled", "it was woken")),
            () = tokio::time::sleep(step) => {}
        }
        if report < reports {
            cx.progress(
                f64::from(report + 1),
                Some(f64::from(reports)),
                Some("asleep"),
            );
        }
    }
    Ok(Answer::text("slept"))
}

async fn count(args: Count, cx: Cx, mut chunks: Chunks) -> Result<(), ToolError> {
    for number in 0..args.to {
        if args.milliseconds > 0 {
            tokio::select! {
                () = cx.cancelled() => return Err(ToolError::new("cancelled", "it was stopped")),
                () = tokio::time::sleep(Duration::from_millis(args.milliseconds)) => {}
            }
        }
        chunks.send_text(format!("{number}\n")).await?;
    }
    Ok(())
}

async fn whoami(_: NoArguments, cx: Cx) -> Result<Answer, ToolError> {
    Answer::json(json!({
        "plugin": cx.plugin().as_str(),
        "caller": cx.caller(),
        "session": cx.session(),
        "trace_parent": cx.trace_parent(),
        "workspace": cx.workspace(),
        "greeting": cx.config("greeting"),
    }))
}

async fn store(args: Store, cx: Cx) -> Result<Answer, ToolError> {
    let expected = match args.version {
        None => Expected::Any,
        Some(0) => Expected::Absent,
        Some(version) => Expected::Version(version),
    };
    let written = cx
        .orchestrator()
        .write(&args.path, args.content, &Map::new(), expected)
        .await;
    match written {
        Ok(version) => Answer::json(json!({ "version": version })),
        Err(error) if error.is_conflict() => Err(ToolError::new("conflict", "somebody was faster")),
        Err(error) => Err(error.into()),
    }
}

async fn panicking(_: NoArguments, _: Cx) -> Result<Answer, ToolError> {
    panic!("it panicked, as it was told to")
}

async fn dying(_: NoArguments, _: Cx) -> Result<Answer, ToolError> {
    std::process::exit(7)
}
