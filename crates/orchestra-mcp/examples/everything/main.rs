//! A server that offers something of everything: a fixture for judges and tests. The names are
//! those that the public conformance suite asks for, where it asks; the rest helps our own tests.

mod catalog;
#[path = "../common/mod.rs"]
mod common;
mod long;
mod prompts;
mod resources;
mod skills;
mod tools;

use std::sync::{Arc, Mutex, PoisonError};

use orchestra_hub::{
    BoxFuture, Catalog, Completion, CompletionRef, Hub, HubConfig, InputRequired, Notice, Outcome,
    Provider, ProviderError, ProviderId, Request, Target,
};
use orchestra_mcp::{Server, stdio};
use orchestra_wire::RawJson;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

/// One red pixel.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// No sound at all.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

type Answer = Result<Outcome, ProviderError>;

struct Everything {
    id: ProviderId,
    shared: Arc<Shared>,
    receiver: Mutex<Option<mpsc::Receiver<Notice>>>,
}

/// What calls use.
struct Shared {
    catalog: watch::Sender<Arc<Catalog>>,
    notices: mpsc::Sender<Notice>,
}

impl Provider for Everything {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.shared.catalog.subscribe()
    }

    fn serve(&self, request: Request) -> BoxFuture<Answer> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            match request.target {
                Target::Tool { name, arguments } => {
                    tools::call(&shared, &name, &arguments, request.cx).await
                }
                Target::Prompt { name, arguments } => {
                    prompts::answer(&name, &arguments, &request.cx)
                }
                Target::Resource { uri } => resources::read(uri),
                Target::Complete {
                    reference,
                    argument,
                    value,
                    ..
                } => Ok(complete(&reference, &argument, &value)),
                // The hub answers these.
                Target::Skills(_) | Target::List { .. } => Err(ProviderError::Unknown {
                    kind: "method",
                    name: "list".to_owned(),
                }),
                Target::Raw { method, .. } => Err(ProviderError::Unknown {
                    kind: "method",
                    name: method,
                }),
            }
        })
    }

    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        self.receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Shared {
    fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        self.catalog
            .send_modify(|catalog| change(Arc::make_mut(catalog)));
    }
}

fn complete(reference: &CompletionRef, argument: &str, value: &str) -> Outcome {
    let known: &[&str] = match (reference, argument) {
        (CompletionRef::Resource(_), "id") => &["1", "2", "3"],
        (CompletionRef::Prompt(_), "arg1") => &["paris", "park", "party"],
        _ => &[],
    };
    let values: Vec<String> = known
        .iter()
        .filter(|candidate| candidate.starts_with(value))
        .map(|candidate| (*candidate).to_owned())
        .collect();
    let total = u64::try_from(values.len()).ok();
    Outcome::Completion(Completion {
        values,
        total,
        has_more: false,
    })
}

fn raw(value: &Value) -> RawJson {
    RawJson::of(value).expect("a JSON value has a JSON form")
}

/// Asks the client; the keys of `requests` come back as those of the answers.
fn ask(requests: &Value, state: Option<String>) -> Answer {
    Ok(Outcome::InputRequired(InputRequired {
        requests: raw(requests),
        state,
        takes_errors: false,
    }))
}

fn form(message: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {"type": "object", "properties": properties, "required": required}
        }
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = stdio::runtime()?;
    runtime.block_on(async {
        let (notices, receiver) = mpsc::channel(64);
        let shared = Shared {
            catalog: watch::Sender::new(Arc::new(catalog::all())),
            notices,
        };
        let provider = Everything {
            id: ProviderId::parse("everything").ok_or("not a provider id")?,
            shared: Arc::new(shared),
            receiver: Mutex::new(Some(receiver)),
        };
        let hub = Hub::new(HubConfig::default());
        hub.register(Arc::new(provider))?;
        let face = common::Face::of_arguments()?;
        let server = Server::builder(hub, "everything")
            .title("Everything")
            .eras(face.eras)
            .build();
        face.serve(&server).await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    // Its reading thread may still wait for input.
    runtime.shutdown_background();
    Ok(())
}
