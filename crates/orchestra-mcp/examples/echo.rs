//! A server with one tool, `echo`, which answers its argument `text`. A fixture for benchmarks and
//! judges, over standard input and output or over HTTP.

#[path = "common/mod.rs"]
mod common;

use std::sync::Arc;

use orchestra_hub::{
    Annotations, BoxFuture, Catalog, Content, Cost, Hub, HubConfig, LongWork, Outcome, Provider,
    ProviderError, ProviderId, Request, Target, ToolDescriptor, ToolResult,
};
use orchestra_mcp::{Server, stdio};
use orchestra_wire::RawJson;
use serde::Deserialize;
use tokio::sync::watch;

struct Echo {
    id: ProviderId,
    catalog: watch::Sender<Arc<Catalog>>,
}

#[derive(Deserialize)]
struct Arguments {
    text: String,
}

impl Provider for Echo {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        Box::pin(std::future::ready(answer(&request)))
    }
}

fn answer(request: &Request) -> Result<Outcome, ProviderError> {
    let Target::Tool { arguments, .. } = &request.target else {
        return Err(ProviderError::InvalidParams(
            "only tools are offered".to_owned(),
        ));
    };
    let (text, is_error) = match arguments.parse::<Arguments>() {
        Ok(arguments) => (arguments.text, false),
        Err(error) => (format!("invalid arguments for echo: {error}"), true),
    };
    let content = vec![Content::Text(text)];
    Ok(Outcome::Tool(ToolResult {
        content,
        is_error,
        ..ToolResult::default()
    }))
}

fn catalog() -> Result<Catalog, serde_json::Error> {
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
    let tool = ToolDescriptor {
        name: "echo".to_owned(),
        title: Some("Echo".to_owned()),
        description: Some("Answers the text it is given.".to_owned()),
        input_schema: RawJson::from_raw(serde_json::from_str(schema)?),
        lean_schema: None,
        output_schema: None,
        annotations: Annotations {
            read_only: Some(true),
            ..Annotations::default()
        },
        group: "echo".into(),
        definition: None,
        cost: Cost::Quick,
        long: LongWork::Never,
    };
    Ok(Catalog {
        tools: vec![tool],
        ..Catalog::default()
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = stdio::runtime()?;
    runtime.block_on(async {
        let hub = Hub::new(HubConfig::default());
        let id = ProviderId::parse("echo").ok_or("not a provider id")?;
        let catalog = watch::Sender::new(Arc::new(catalog()?));
        hub.register(Arc::new(Echo { id, catalog }))?;
        let face = common::Face::of_arguments()?;
        let server = Server::builder(hub, "echo").eras(face.eras).build();
        face.serve(&server).await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    // Its reading thread may still wait for input.
    runtime.shutdown_background();
    Ok(())
}
