//! A web program of its own with Orchestra nested below `/agents`, and a provider of its own: what
//! the program knows, agents can ask.
//!
//! `cargo run -p orchestra-web --example embed`, or with an address to listen on as its argument.

use std::{
    error::Error,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{Router, extract::State, routing::get};
use orchestra_hub::{
    Annotations, BoxFuture, Catalog, Content, Cost, Hub, HubConfig, LongWork, Outcome, Provider,
    ProviderError, ProviderId, Request, Target, ToolDescriptor, ToolResult, parse_arguments,
};
use orchestra_mcp::{
    Server,
    http::{HttpOptions, Limits, serve},
};
use orchestra_wire::RawJson;
use serde::Deserialize;
use serde_json::json;
use tokio::{net::TcpListener, sync::watch};

/// What the program is about: a counter of visits.
#[derive(Default)]
struct Shop {
    visits: AtomicU64,
}

/// What agents may do with it.
struct ShopTools {
    id: ProviderId,
    catalog: watch::Sender<Arc<Catalog>>,
    shop: Arc<Shop>,
}

/// The arguments of `count_visits`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CountVisits {
    add: u64,
}

impl ShopTools {
    fn new(shop: Arc<Shop>) -> Result<Self, Box<dyn Error>> {
        let schema = json!({
            "type": "object",
            "properties": {
                "add": {"type": "integer", "minimum": 0, "description": "Visits to add first."},
            },
            "required": ["add"],
            "additionalProperties": false,
        });
        let tool = ToolDescriptor {
            name: "count_visits".to_owned(),
            title: Some("Count visits".to_owned()),
            description: Some("Answers how often the shop was visited.".to_owned()),
            input_schema: RawJson::of(&schema)?,
            lean_schema: None,
            output_schema: None,
            annotations: Annotations::default(),
            group: "shop".into(),
            definition: None,
            cost: Cost::Quick,
            long: LongWork::Never,
        };
        let catalog = Catalog {
            tools: vec![tool],
            ..Catalog::default()
        };
        Ok(Self {
            id: ProviderId::parse("shop").ok_or("not a provider id")?,
            catalog: watch::Sender::new(Arc::new(catalog)),
            shop,
        })
    }
}

impl Provider for ShopTools {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let answer = match &request.target {
            Target::Tool { arguments, .. } => Ok(self.shop.count_visits(arguments)),
            _ => Err(ProviderError::InvalidParams(
                "there are only tools".to_owned(),
            )),
        };
        Box::pin(std::future::ready(answer))
    }
}

impl Shop {
    fn count_visits(&self, arguments: &RawJson) -> Outcome {
        let (text, is_error) = match parse_arguments::<CountVisits>(arguments) {
            Ok(CountVisits { add }) => {
                let visits = self.visits.fetch_add(add, Ordering::Relaxed);
                (visits.saturating_add(add).to_string(), false)
            }
            Err(error) => (error, true),
        };
        Outcome::Tool(ToolResult {
            content: vec![Content::Text(text)],
            is_error,
            ..ToolResult::default()
        })
    }
}

async fn page(State(shop): State<Arc<Shop>>) -> String {
    let visits = shop.visits.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    format!("You are visitor {visits}. Agents are at /agents/mcp, scripts at /agents/api/mcp.\n")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let shop = Arc::<Shop>::default();
    let hub = Hub::new(HubConfig::default());
    hub.register(Arc::new(ShopTools::new(Arc::clone(&shop))?))?;
    let server = Server::builder(hub, "shop").build();

    let app = Router::new().route("/", get(page)).with_state(shop).nest(
        "/agents",
        orchestra_web::app(&server, HttpOptions::default()),
    );

    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:8080")).await?;
    let place = format!("http://{}/\n", listener.local_addr()?);
    std::io::stdout().write_all(place.as_bytes())?;
    // It names the user of each connection: only the one who runs this needs no token.
    let (_stop, stopped) = watch::channel(false);
    serve(listener, app, stopped, Limits::default()).await;
    Ok(())
}
