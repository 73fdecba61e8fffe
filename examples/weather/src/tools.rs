//! What the server offers, and how a call finds its tool.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use orchestra_hub::{
    Annotations, BoxFuture, Catalog, Content, Cost, Hub, HubConfig, LongWork, Outcome, Provider,
    ProviderError, ProviderId, Request, Target, ToolDescriptor, ToolResult, parse_arguments,
};
use orchestra_mcp::Server;
use orchestra_wire::RawJson;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    alerts, forecast,
    upstream::{Failure, Upstream},
};

struct Weather {
    id: ProviderId,
    catalog: watch::Sender<Arc<Catalog>>,
    upstream: Upstream,
}

/// An MCP server with the two tools, which ask `upstream`. Make it inside a tokio runtime.
///
/// # Errors
/// When the hub does not take them.
pub fn server(upstream: Upstream) -> Result<Server> {
    let catalog = Catalog {
        tools: vec![
            tool(
                alerts::NAME,
                alerts::DESCRIPTION,
                &alerts::input_schema(),
                &alerts::output_schema(),
            )?,
            tool(
                forecast::NAME,
                forecast::DESCRIPTION,
                &forecast::input_schema(),
                &forecast::output_schema(),
            )?,
        ],
        ..Catalog::default()
    };
    let weather = Weather {
        id: ProviderId::parse("weather").context("not a provider id")?,
        catalog: watch::Sender::new(Arc::new(catalog)),
        upstream,
    };
    let hub = Hub::new(HubConfig::default());
    hub.register(Arc::new(weather))?;
    let builder = Server::builder(hub, "weather").title("Weather");
    Ok(builder.version(env!("CARGO_PKG_VERSION")).build())
}

fn tool(name: &str, description: &str, input: &Value, output: &Value) -> Result<ToolDescriptor> {
    Ok(ToolDescriptor {
        name: name.to_owned(),
        title: None,
        description: Some(description.to_owned()),
        input_schema: RawJson::of(input)?,
        lean_schema: None,
        output_schema: Some(RawJson::of(output)?),
        annotations: Annotations {
            read_only: Some(true),
            open_world: Some(true),
            ..Annotations::default()
        },
        group: "weather".into(),
        definition: None,
        cost: Cost::Quick,
        long: LongWork::Never,
    })
}

impl Provider for Weather {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let upstream = self.upstream.clone();
        Box::pin(async move { answer(&upstream, request.target).await.map(Outcome::Tool) })
    }
}

async fn answer(upstream: &Upstream, target: Target) -> Result<ToolResult, ProviderError> {
    let Target::Tool { name, arguments } = target else {
        let only = "there are only tools".to_owned();
        return Err(ProviderError::InvalidParams(only));
    };
    match name.as_str() {
        alerts::NAME => {
            let alerts = alerts::get(upstream, parse(&arguments)?).await;
            result(alerts, alerts::Alerts::text)
        }
        forecast::NAME => {
            let forecast = forecast::get(upstream, parse(&arguments)?).await;
            result(forecast, forecast::Forecast::text)
        }
        _ => Err(ProviderError::Unknown { kind: "tool", name }),
    }
}

/// Arguments that cannot be understood are an error of the call: -32602.
fn parse<T: DeserializeOwned>(arguments: &RawJson) -> Result<T, ProviderError> {
    parse_arguments(arguments).map_err(ProviderError::InvalidParams)
}

/// What was found out, as text and as data; or why it could not be, which a model can read.
fn result<T: Serialize>(
    found: Result<T, Failure>,
    text: impl FnOnce(&T) -> String,
) -> Result<ToolResult, ProviderError> {
    match found {
        Ok(found) => {
            let structured = RawJson::of(&found);
            let structured = structured.map_err(|e| ProviderError::Unreachable(e.to_string()))?;
            Ok(ToolResult {
                content: vec![Content::Text(text(&found))],
                structured: Some(structured),
                ..ToolResult::default()
            })
        }
        Err(failure) => Ok(ToolResult {
            content: vec![Content::Text(failure.to_string())],
            is_error: true,
            ..ToolResult::default()
        }),
    }
}
