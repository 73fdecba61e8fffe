//! A provider with a tool for every way in which a call can end.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use orchestra_hub::{
    Annotations, BoxFuture, Catalog, Content, Cost, InputRequired, LongWork, Outcome, PeerReport,
    PromptArgument, PromptDescriptor, PromptResult, Provider, ProviderError, ProviderId, Request,
    ResourceContents, ResourceDescriptor, ResourceResult, Target, TemplateDescriptor,
    ToolDescriptor, ToolResult, parse_arguments,
};
use orchestra_wire::RawJson;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

pub(crate) struct Toys {
    id: ProviderId,
    pub(crate) catalog: watch::Sender<Arc<Catalog>>,
    pub(crate) is_ready: AtomicBool,
    /// How the program is that this one speaks for.
    pub(crate) peer: Mutex<Option<PeerReport>>,
    /// Lets a call of `hold` go on.
    pub(crate) gate: Arc<Notify>,
    /// Calls of `wait` and `hold` that have begun and not ended.
    pub(crate) waiting: Arc<AtomicUsize>,
}

/// Counts a call for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Echo {
    text: String,
}

/// The schema of `echo`, with what W27 lost: `required`, and properties that are not nested twice.
pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What comes back."},
            "how": {"type": "object", "properties": {"loud": {"type": "boolean"}}, "required": ["loud"]},
        },
        "required": ["text"],
    })
}

pub(crate) fn tool(name: &str) -> ToolDescriptor {
    ToolDescriptor {
        name: name.to_owned(),
        title: None,
        description: Some(format!("Does {name}.")),
        input_schema: RawJson::of(&schema()).unwrap(),
        lean_schema: None,
        output_schema: None,
        annotations: Annotations::default(),
        group: "toys".into(),
        definition: None,
        cost: Cost::Quick,
        long: LongWork::Never,
    }
}

fn catalog() -> Catalog {
    let names = [
        "echo", "fail", "break", "panic", "wait", "large", "ask", "refuse", "gone",
    ];
    let mut tools: Vec<ToolDescriptor> = names.into_iter().map(tool).collect();
    tools.push(ToolDescriptor {
        cost: Cost::Heavy,
        ..tool("compute")
    });
    Catalog {
        tools,
        prompts: vec![PromptDescriptor {
            name: "greet".to_owned(),
            title: Some("Greet".to_owned()),
            description: None,
            arguments: vec![PromptArgument {
                name: "name".to_owned(),
                description: None,
                required: true,
            }],
            definition: None,
        }],
        resources: vec![ResourceDescriptor {
            uri: "toy://one".to_owned(),
            name: "one".to_owned(),
            title: None,
            description: None,
            mime_type: Some("text/plain".to_owned()),
            definition: None,
        }],
        templates: vec![TemplateDescriptor {
            uri_template: "toy://many/{id}".to_owned(),
            name: "many".to_owned(),
            title: None,
            description: None,
            mime_type: None,
            definition: None,
        }],
        skills: None,
        instructions: None,
        ..Catalog::default()
    }
}

pub(crate) fn toys() -> Arc<Toys> {
    Arc::new(Toys {
        id: ProviderId::parse("toys").unwrap(),
        catalog: watch::Sender::new(Arc::new(catalog())),
        is_ready: AtomicBool::new(true),
        peer: Mutex::default(),
        gate: Arc::default(),
        waiting: Arc::default(),
    })
}

/// One tool that answers its own name, in its own time.
pub(crate) fn visitor(id: &str, name: &str) -> Arc<Toys> {
    let catalog = Catalog {
        tools: vec![tool(name)],
        ..Catalog::default()
    };
    Arc::new(Toys {
        id: ProviderId::parse(id).unwrap(),
        catalog: watch::Sender::new(Arc::new(catalog)),
        is_ready: AtomicBool::new(true),
        peer: Mutex::default(),
        gate: Arc::default(),
        waiting: Arc::default(),
    })
}

pub(crate) fn said(text: impl Into<String>, is_error: bool) -> Outcome {
    Outcome::Tool(ToolResult {
        content: vec![Content::Text(text.into())],
        is_error,
        ..ToolResult::default()
    })
}

impl Provider for Toys {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::SeqCst)
    }

    fn peer(&self) -> Option<PeerReport> {
        self.peer.lock().unwrap().clone()
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let (waiting, gate) = (Arc::clone(&self.waiting), Arc::clone(&self.gate));
        Box::pin(async move {
            match request.target {
                Target::Tool { name, arguments } => {
                    answer(&name, &arguments, &waiting, &gate).await
                }
                Target::Resource { uri } if uri == "toy://one" => {
                    Ok(Outcome::Resource(ResourceResult {
                        contents: vec![ResourceContents {
                            uri,
                            mime_type: Some("text/plain".to_owned()),
                            data: "one".to_owned(),
                            binary: false,
                        }],
                    }))
                }
                Target::Resource { uri } => Err(ProviderError::Unknown {
                    kind: "resource",
                    name: uri,
                }),
                Target::Prompt { arguments, .. } => {
                    let text = format!("Hello, {}!", arguments["name"]);
                    let messages =
                        json!([{"role": "user", "content": {"type": "text", "text": text}}]);
                    Ok(Outcome::Prompt(PromptResult {
                        description: Some("A greeting.".to_owned()),
                        messages: RawJson::of(&messages).unwrap(),
                    }))
                }
                other => panic!("nobody asks for {other:?}"),
            }
        })
    }
}

async fn answer(
    name: &str,
    arguments: &RawJson,
    waiting: &Arc<AtomicUsize>,
    gate: &Notify,
) -> Result<Outcome, ProviderError> {
    match name {
        "echo" | "compute" => Ok(match parse_arguments::<Echo>(arguments) {
            Ok(Echo { text }) => said(text, false),
            Err(error) => said(error, true),
        }),
        "fail" => Ok(said("it did not work", true)),
        "break" => Err(ProviderError::Unreachable("it broke".to_owned())),
        "panic" => panic!("as asked"),
        "wait" => {
            let _counted = Counted::new(waiting);
            pending().await
        }
        "hold" => {
            let _counted = Counted::new(waiting);
            gate.notified().await;
            Ok(said("held", false))
        }
        "large" => Ok(said("x".repeat(17 * 1024 * 1024), false)),
        "ask" => Ok(Outcome::InputRequired(InputRequired {
            requests: RawJson::empty_object(),
            state: None,
            takes_errors: false,
        })),
        "refuse" => Err(ProviderError::Rpc {
            code: -32602,
            message: "not like this".to_owned(),
            data: None,
        }),
        "gone" => Err(ProviderError::Rpc {
            code: -32000,
            message: "it went away".to_owned(),
            data: None,
        }),
        name => {
            // Long enough that the provider may be gone before it answers.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            Ok(said(name, false))
        }
    }
}
