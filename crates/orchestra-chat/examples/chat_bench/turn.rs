//! What a turn costs beside the model and the tools, with 100 servers and 2 000 tools: both answer at once here, so
//! all that is left is ours.

use std::{
    future::ready,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestra_chat::{
    Approval, Chat, Consent, Due, Face, HubTools, Outcome, Parts, Script, Scripted, Settings,
    Stopper, Toolbox, Verdict,
    session::{Header, Recorder},
    tools_of, turn,
};
use orchestra_hub::{
    Annotations, Answers, BoxFuture, Caller, Catalog, Content, Cost, Hub, HubConfig, LongWork,
    Outcome as Answered, Provider, ProviderError, ProviderId, Request, ToolDescriptor, ToolResult,
    Toolset,
};
use orchestra_wire::RawJson;
use serde_json::json;
use tokio::sync::watch;

use crate::bars::{Bars, percentile};

const SERVERS: usize = 100;
const TOOLS: usize = 20;
const TURNS: usize = 200;

/// A server whose tools answer at once.
struct Instantly {
    id: ProviderId,
    catalog: watch::Sender<Arc<Catalog>>,
}

impl Provider for Instantly {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn serve(&self, _request: Request) -> BoxFuture<Result<Answered, ProviderError>> {
        let result = ToolResult {
            content: vec![Content::Text("It is sunny.".into())],
            ..ToolResult::default()
        };
        Box::pin(ready(Ok(Answered::Tool(result))))
    }
}

fn hub() -> Hub {
    let hub = Hub::new(HubConfig::default());
    for server in 0..SERVERS {
        let tools = (0..TOOLS).map(|tool| descriptor(server, tool)).collect();
        let catalog = Catalog {
            tools,
            ..Catalog::default()
        };
        let id = ProviderId::parse(&format!("server{server}")).unwrap();
        let catalog = watch::Sender::new(Arc::new(catalog));
        hub.register(Arc::new(Instantly { id, catalog })).unwrap();
    }
    hub
}

fn descriptor(server: usize, tool: usize) -> ToolDescriptor {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city that is asked about."},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    });
    let what = ["weather", "mail", "issues", "files", "calendar"][tool % 5];
    ToolDescriptor {
        name: format!("server{server}_get_{what}_{tool}"),
        title: None,
        description: Some(format!(
            "Gets {what} of the server {server} for a city, some days ahead."
        )),
        input_schema: RawJson::of(&schema).unwrap(),
        lean_schema: None,
        output_schema: None,
        annotations: Annotations {
            read_only: Some(true),
            ..Annotations::default()
        },
        group: format!("server{server}").into(),
        cost: Cost::Quick,
        long: LongWork::default(),
        definition: None,
    }
}

/// Shows nothing, and notes how long tools took.
#[derive(Default)]
struct Nobody {
    tools: Duration,
}

impl Face for Nobody {
    fn called(&mut self, _due: &Due, _outcome: &Outcome, took: Duration) {
        self.tools += took;
    }

    fn decides<'f>(
        &'f mut self,
        _due: &'f Due,
    ) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'f>> {
        Box::pin(ready(Verdict::No))
    }
}

/// Calls tools of the hub alone, for the same calls without a conversation around them.
async fn bare(tools: &HubTools) -> Duration {
    let arguments = json!({"city": "Rome", "days": 2})
        .as_object()
        .unwrap()
        .clone();
    let began = Instant::now();
    for number in 0..TURNS {
        let due = Due {
            number,
            call: orchestra_chat::Call {
                id: String::new(),
                tool: "server7_get_weather_0".to_owned(),
                arguments: arguments.clone(),
            },
            server: None,
            rule: None,
            is_agreed: false,
        };
        std::hint::black_box(tools.call(due).await);
    }
    began.elapsed()
}

pub(crate) async fn measure(bars: &mut Bars) {
    let hub = hub();
    let attachment = Arc::new(hub.attach(
        Caller {
            face: "cli",
            client: None,
        },
        Toolset::All,
    ));
    let consent = Consent {
        asked: |_| None,
        agreed: Answers {
            responses: RawJson::of(&json!({})).unwrap(),
            state: None,
        },
    };
    let toolbox = HubTools::new(Arc::clone(&attachment), consent);
    let began = Instant::now();
    let tools = tools_of(&hub, &Toolset::All, |_| true, |_| true);
    let known = began.elapsed();
    println!(
        "{} tools of {SERVERS} servers are taken in within {:.1} ms, once and where they change",
        tools.all().len(),
        known.as_secs_f64() * 1e3
    );
    let script = json!([
        {"when": "What is the weather", "calls": [{"name": "server7_get_weather_0", "arguments": {"city": "Rome", "days": "2"}}], "always": true},
        {"text": "It is sunny in Rome.", "always": true},
    ]);
    let script = Script::parse(&script.to_string()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut all = Vec::with_capacity(TURNS);
    let mut face = Nobody::default();
    let settings = Settings {
        approval: Approval::Yes,
        ..Settings::default()
    };
    for number in 0..TURNS {
        let backend = Scripted::new(script.clone(), "scripted");
        let mut chat = Chat::new(settings.clone(), tools.clone());
        let header = Header {
            version: Header::VERSION,
            id: String::new(),
            created: String::new(),
            backend: "scripted".to_owned(),
            model: "scripted".to_owned(),
            branch_of: None,
        };
        let mut record =
            Some(Recorder::begin(&directory.path().join(number.to_string()), header).unwrap());
        let stopper = Stopper::default();
        let mut parts = Parts {
            backend: &backend,
            toolbox: &toolbox,
            face: &mut face,
            record: &mut record,
            began: Instant::now(),
        };
        let began = Instant::now();
        let ending = turn(
            &mut chat,
            "What is the weather in Rome?".to_owned(),
            &mut parts,
            stopper.next(),
        )
        .await;
        all.push(began.elapsed().as_secs_f64() * 1e3);
        assert_eq!((ending.rounds, ending.calls.len()), (1, 1));
    }
    let tools = face.tools.as_secs_f64() * 1e3 / TURNS as f64;
    let bare = bare(&toolbox).await.as_secs_f64() * 1e3 / TURNS as f64;
    let (median, tail) = (percentile(&mut all.clone(), 50), percentile(&mut all, 95));
    println!(
        "a turn with a call: median {median:.3} ms, p95 {tail:.3} ms, recorded and synced; of it {tools:.3} ms in the \
         tool; the same call of the hub alone {bare:.3} ms"
    );
    bars.at_most(
        "a turn beside model and tools, 100 servers and 2 000 tools, p95",
        5.0,
        "ms",
        tail - tools,
    );
}
