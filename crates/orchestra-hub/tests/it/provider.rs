//! A provider that does what its test wants.

use std::{
    future::pending,
    sync::{Arc, Mutex},
};

use orchestra_hub::{
    Annotations, BoxFuture, Caller, Catalog, Content, Cost, Cx, Hub, HubConfig, LongWork, Notice,
    Outcome, Provider, ProviderError, ProviderId, Request, ResourceDescriptor, Target,
    TemplateDescriptor, ToolDescriptor, ToolResult, Toolset,
};
use orchestra_wire::RawJson;
use serde_json::json;
use tokio::sync::{Notify, mpsc, watch};

pub(crate) struct TestProvider {
    id: ProviderId,
    pub(crate) catalog: watch::Sender<Arc<Catalog>>,
    pub(crate) notices: mpsc::Sender<Notice>,
    receiver: Mutex<Option<mpsc::Receiver<Notice>>>,
    /// What was watched (`+uri`) and unwatched (`-uri`), in order.
    pub(crate) watched: Mutex<Vec<String>>,
    /// The hub that it leaves when it is asked whether a resource can be watched.
    pub(crate) leaves: Mutex<Option<Hub>>,
    /// Watching a resource `…block` waits for this.
    pub(crate) held: Mutex<()>,
    /// Lets a call of a tool `wait…` go on.
    pub(crate) gate: Arc<Notify>,
}

pub(crate) fn tool(name: &str, group: &'static str) -> ToolDescriptor {
    ToolDescriptor {
        name: name.to_owned(),
        title: None,
        description: Some(format!("Does {name}.")),
        input_schema: RawJson::of(&json!({"type": "object"})).unwrap(),
        lean_schema: None,
        output_schema: None,
        annotations: Annotations::default(),
        group: group.into(),
        cost: Cost::Quick,
        long: LongWork::Never,
        definition: None,
    }
}

pub(crate) fn tools(names: &[&str]) -> Catalog {
    Catalog {
        tools: names.iter().map(|name| tool(name, "test")).collect(),
        ..Catalog::default()
    }
}

pub(crate) fn provider(id: &str, catalog: Catalog) -> Arc<TestProvider> {
    let (notices, receiver) = mpsc::channel(1_000);
    Arc::new(TestProvider {
        id: ProviderId::parse(id).unwrap(),
        catalog: watch::Sender::new(Arc::new(catalog)),
        notices,
        receiver: Mutex::new(Some(receiver)),
        watched: Mutex::default(),
        leaves: Mutex::default(),
        held: Mutex::default(),
        gate: Arc::default(),
    })
}

/// A catalog with one resource and one template.
pub(crate) fn resources() -> Catalog {
    Catalog {
        resources: vec![ResourceDescriptor {
            uri: "test://one".into(),
            name: "one".into(),
            title: None,
            description: None,
            mime_type: None,
            definition: None,
        }],
        templates: vec![TemplateDescriptor {
            uri_template: "test://many/{id}".into(),
            name: "many".into(),
            title: None,
            description: None,
            mime_type: None,
            definition: None,
        }],
        ..Catalog::default()
    }
}

pub(crate) fn hub(providers: &[&Arc<TestProvider>]) -> Hub {
    hub_with(HubConfig::default(), providers)
}

pub(crate) fn hub_with(config: HubConfig, providers: &[&Arc<TestProvider>]) -> Hub {
    let hub = Hub::new(config);
    for provider in providers {
        hub.register(Arc::clone(provider) as Arc<dyn Provider>)
            .unwrap();
    }
    hub
}

pub(crate) fn caller() -> Caller {
    Caller {
        face: "test",
        client: Some("tester".into()),
    }
}

pub(crate) fn call_of(name: &str, arguments: &serde_json::Value) -> Request {
    let arguments = RawJson::of(arguments).unwrap();
    let target = Target::Tool {
        name: name.to_owned(),
        arguments,
    };
    Request {
        target,
        cx: Cx {
            caller: caller(),
            ..Cx::default()
        },
    }
}

pub(crate) async fn call(hub: &Hub, name: &str) -> Result<String, ProviderError> {
    let attachment = hub.attach(caller(), Toolset::All);
    attachment.call(call_of(name, &json!({}))).await.map(text)
}

pub(crate) fn text(outcome: Outcome) -> String {
    let Outcome::Tool(result) = outcome else {
        panic!("a tool's result")
    };
    let Some(Content::Text(text)) = result.content.into_iter().next() else {
        panic!("a text")
    };
    text
}

impl Provider for TestProvider {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let (id, gate) = (self.id.clone(), Arc::clone(&self.gate));
        Box::pin(async move {
            let said = match request.target {
                Target::Tool { name, arguments } => {
                    if name.starts_with("wait") {
                        gate.notified().await;
                    } else if name == "never" {
                        pending::<()>().await;
                    } else if name == "panic" {
                        panic!("as asked");
                    }
                    format!("{id} {name} {}", arguments.as_str())
                }
                Target::Raw { method, .. } => format!("{id} {method}"),
                other => format!("{id} {other:?}"),
            };
            let content = vec![Content::Text(said)];
            Ok(Outcome::Tool(ToolResult {
                content,
                ..ToolResult::default()
            }))
        })
    }

    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        self.receiver.lock().unwrap().take()
    }

    fn can_watch(&self, uri: &str) -> bool {
        if let Some(hub) = self.leaves.lock().unwrap().take() {
            assert!(hub.remove(&self.id));
        }
        !uri.ends_with("refused")
    }

    fn watch(&self, uri: &str) {
        self.watched.lock().unwrap().push(format!("+{uri}"));
        assert!(!uri.ends_with("panic"), "as asked");
        if uri.ends_with("block") {
            drop(self.held.lock());
        }
    }

    fn unwatch(&self, uri: &str) {
        self.watched.lock().unwrap().push(format!("-{uri}"));
    }
}
